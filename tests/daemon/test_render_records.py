"""Frames and the history of a memory as people read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from daemon.cli import render
from daemon.cli.render_records import about, frame_lines
from tests.daemon.screens import zone

AT = "2001-01-02T03:04:05.678Z"
ACTOR = {"uid": 1000, "role": "agent", "via": "client"}
CREATED = {
    "id": "raw:0AB", "slot": 7, "kind": "raw", "subtype": "turn", "origin": "stated", "session": 1, "turn": 3,
    "importance": 1.0, "sources": ["raw:1", "raw:2", "raw:3", "raw:4", "raw:5"], "key": "ff", "pinned": False,
    "protected": True, "parts": [{"owner_seq": 4}], "predecessor": None, "evidence": [],
}  # fmt: skip


@pytest.fixture(autouse=True)
def _utc() -> Iterator[None]:
    """Times are shown as UTC here."""
    with zone("UTC"):
        yield


def frame(seq: int, kind: str, event: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"seq": seq, "at": AT, "tenant": "t", "actor": ACTOR, "type": kind, "event": event, "parts": [], **more}


def told(*frames: dict[str, Any], **more: Any) -> list[str]:
    return render.render({"frames": list(frames), "total": len(frames), "next_cursor": None, **more}, "records").split(
        "\n"
    )


def test_records_are_a_table_of_who_did_what() -> None:
    lines = told(frame(4, "verified", {"memory": "raw:1"}), frame(5, "unparked", {"session": 2}, actor=None))
    assert lines == [
        "SEQ  AT                   TYPE      WHO         ABOUT",
        "4    2001-01-02 03:04:05  verified  agent 1000  raw:1",
        "5    2001-01-02 03:04:05  unparked  -           session 2",
        "2 of 2; times are UTC (+0000)",
    ]


def test_what_serves_machines_only_is_not_shown() -> None:
    assert about("memory_created", CREATED) == (
        "raw:0AB; subtype turn; origin stated; session 1; turn 3; sources raw:1, raw:2, raw:3 and 2 more; protected"
    )


def test_an_event_that_is_unknown_here_tells_all_it_has() -> None:
    event = {"memory": "raw:1", "old_strength": 0.123456, "at": AT, "slot": 9, "wonder": {"a": 1}}
    assert about("of_later", event) == "raw:1; old_strength 0.1235; at 2001-01-02 03:04:05; wonder a 1"


def test_the_tenant_is_said_where_there_are_several() -> None:
    one, other = frame(1, "unparked", {"session": 1}), frame(2, "unparked", {"session": 1}, tenant="u")
    assert "tenant" not in "".join(told(one))
    assert "tenant u; session 1" in "".join(told(one, other))
    assert "tenant" not in "".join(told(frame(1, "opened", {"epoch": 3}, tenant=None)))


def test_content_is_shown_short_and_as_text_only() -> None:
    part = {
        "part": "text",
        "state": "content",
        "owner_seq": 4,
        "length": 300,
        "content": "a\nb" * 100,
        "encoding": "utf-8",
    }
    other = {"part": "vector", "state": "purged", "owner_seq": 4, "length": 12}
    shown = " ".join("".join(told(frame(4, "marked", {"memory": "raw:1"}, parts=[part, other]))).split())
    assert 'raw:1; text "a ba ba b' in shown and shown.count("ba") < 80 and ' …"' in shown
    assert "vector purged, 12 bytes" in shown


def test_no_records_is_said() -> None:
    assert told() == ["none"]


def test_more_records_are_asked_for_with_the_cursor() -> None:
    assert told(frame(4, "unparked", {"session": 2}), total=9, next_cursor="abc")[-2:] == [
        "1 of 9; times are UTC (+0000)", "more: --cursor abc",
    ]  # fmt: skip


def test_a_frame_alone_says_its_zone_and_tenant() -> None:
    hooked = {**ACTOR, "via": "hook"}
    assert frame_lines(frame(4, "verified", {"memory": "raw:1"}, actor=hooked)) == [
        "4 2001-01-02 03:04:05 UTC verified agent 1000 (hook)",
        "    tenant t; raw:1",
    ]


def test_a_history_tells_versions_events_and_numbers() -> None:
    result = {
        "revisions": [
            {"id": "note:1", "predecessor": None, "disposition": None, "at": AT, "status": "superseded",
             "actor": ACTOR, "producer": {"agent": "a", "model": "m", "version": None, "extractor": None}},
            {"id": "note:2", "predecessor": "note:1", "disposition": "updates", "at": AT, "status": "active",
             "actor": ACTOR, "producer": None},
        ],
        "events": [{"seq": 3, "at": AT, "type": "memory_created", "version": 1, "actor": ACTOR},
                   {"seq": 4, "at": None, "type": "damaged", "version": 1, "actor": None}],
        "confidence": [{"seq": 3, "at": AT, "old": None, "new": 0.8, "reason": "memory_created"}],
        "strength": [],
    }  # fmt: skip
    shown = render.render(result, "history")
    assert "note:1  superseded  agent 1000  first, by a m" in shown
    assert "note:2  active      agent 1000  updates note:1" in shown
    assert "3    2001-01-02 03:04:05  agent 1000  memory_created" in shown
    assert "4    -                    -           damaged" in shown
    assert "3    2001-01-02 03:04:05  -    0.8  memory_created" in shown and "strength" not in shown
    assert shown.count("times are") == 1

"""What people are shown of the daemon and its store: trouble first, then everything in units that are read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from daemon.cli import render
from tests.daemon.screens import zone

AT = "2001-01-02T03:04:05.678Z"
HEAD = {"store": "ab" * 16, "epoch": 2, "seq": 12, "chain": "cd" * 32, "at": AT}
WELL: dict[str, Any] = {
    "health": "ok", "findings": [], "head": HEAD, "lag": 0, "map_bytes": 1 << 40, "disk_free_bytes": 5 << 29,
    "recovery": {
        "clean": True, "boot_changed": False, "from_seq": 1, "to_seq": 12, "rebuilt": [], "took_ms": 1500,
    },
    "oldest_reader_ms": None, "warmed": 0.25, "cycle": {"last": None, "next": None},
    "partitions": {"active": 2, "sealed": 1}, "keys_ready": 7, "tenant": "t", "tenant_state": "active",
    "enforce": True, "read_only": False, "socket": "/run/a b.sock",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _utc() -> Iterator[None]:
    """Times are shown as UTC here."""
    with zone("UTC"):
        yield


def status(**changed: Any) -> list[str]:
    return render.render({**WELL, **changed}, "status").split("\n")


def test_a_daemon_that_is_well_says_so_in_its_first_line() -> None:
    assert status()[:4] == ["health ok", "", "tenant       t, active", "partitions   2 active, 1 sealed"]


def test_a_status_tells_each_thing_in_its_unit() -> None:
    shown = "\n".join(status())
    for line in (
        f"store        {'ab' * 16}, epoch 2",
        "head         record 12, written 2001-01-02 03:04:05 UTC; chain",
        "projections  up to the journal's head",
        "last start   after a clean stop; folded records 1 to 12 in 1.5 s",
        "warmed       25%",
        "journal      room for 1.0 TiB",
        "disk         2.5 GiB free",
        "keys         7 ready",
        "socket       /run/a b.sock",
    ):
        assert line in shown, shown


def test_trouble_stands_first_with_what_to_do() -> None:
    finding = {"code": "disk_full", "seq": 12, "what": "the disk is too full to write", "action": "Make room."}
    assert status(health="degraded", findings=[finding], read_only=True)[:4] == [
        "health degraded; 1 finding; READ ONLY: ordinary writes are refused",
        "  disk_full at record 12: the disk is too full to write",
        "      Make room.",
        "",
    ]


def test_what_lags_or_is_not_enforced_is_said() -> None:
    shown = "\n".join(status(lag=3, enforce=False))
    assert "projections  3 records behind the journal" in shown and "its lifecycle is not enforced" in shown


def test_a_tenant_is_not_told_what_it_does_not_know() -> None:
    agent = status(map_bytes=None, disk_free_bytes=None, keys_ready=None)
    assert not any(line.startswith(("journal", "disk", "keys")) for line in agent)


def test_usage_is_told_against_its_bound() -> None:
    told = {"records": 1, "bytes": 512 << 10, "max_bytes": 1 << 20}
    assert "usage        1 record, 512.0 KiB of 1.0 MiB (50%)" in status(usage=told)
    assert "usage        2 records, 9 bytes" in status(usage={"records": 2, "bytes": 9, "max_bytes": None})


def test_what_this_version_does_not_know_is_told_as_it_came() -> None:
    assert status(novelty={"a": 1})[-1] == "novelty: a 1"


def test_a_head_is_one_thing_a_line() -> None:
    assert render.render(HEAD, "head").split("\n")[2:] == [
        "seq    12", f"chain  {'cd' * 32}", "at     2001-01-02 03:04:05 UTC",
    ]  # fmt: skip


def test_hello_says_who_one_is() -> None:
    told = {"version": "1", "protocol": 1, "store": "ab", "epoch": 1, "tenant": "t", "role": "agent", "state": "ready",
            "limits": {"tag": 64, "tags": 32}, "verbs": ["hello", "get"]}  # fmt: skip
    lines = render.render(told, "hello").split("\n")
    assert lines[0] == "noctuary 1, protocol 1, ready; you are agent of tenant t"
    assert "verbs  hello get" in lines and lines[-1] == "  tag 64   tags 32"


def test_an_audit_tells_digests_and_heads() -> None:
    told = {"records": 1, "head": HEAD, "digests": {"edges": "00", "memories": "11"}, "findings": [],
            "against": ["same", "journal behind by 3"], "notes": ["a note"]}  # fmt: skip
    lines = render.render(told, "audit").split("\n")
    assert lines[0] == "1 record; no findings" and "  edges     00" in lines and "  memories  11" in lines
    assert lines[-3:] == ["a note", "against 1: same", "against 2: journal behind by 3"]


def test_an_audit_tells_what_a_tenant_has_and_what_is_left_readable() -> None:
    held: dict[str, Any] = {
        "tenant": "ada", "head": {"seq": 9}, "records": 4, "entries": {"memories": 2}, "destroyed": 1,
        "things": {"sessions": {"count": 1, "digest": "00"}, "memories": {"count": 2, "digest": "00"}},
        "readable": {"text": 1, "name": 2}, "readable_seqs": [3, 4],
    }  # fmt: skip
    told = render.render({"records": 9, "findings": [], "holdings": held}, "audit")
    assert told.splitlines()[1:] == [
        "tenant ada up to record 9:", "  records    4", "  sessions   1", "  memories   2",
        "  readable   text 1, name 2", "  destroyed  1 part",
    ]  # fmt: skip
    empty = render.render({"records": 9, "findings": [], "holdings": {**held, "readable": {}}}, "audit")
    assert "  readable   nothing" in empty.splitlines()


def test_a_backup_tells_that_its_keys_are_wrapped() -> None:
    part = {"epoch": 1, "seq": 9, "chain": "ab", "vault_next": 3, "at": "2026-11-30T00:00:00.000Z", "files": []}
    told = {"backup": 1, "store": "ab", "format": 1, "version": "0.1", "journal": {**part, "master_key": False}}
    plain = render.render({**told, "vault": {**part, "master_key": False}}, "backup")
    wrapped = render.render({**told, "vault": {**part, "master_key": True}}, "backup")
    assert "master key" not in plain and wrapped.endswith("a restore takes the master key of this time")


def test_a_backup_tells_its_parts_and_files() -> None:
    part = {"epoch": 1, "seq": 9, "chain": "00", "vault_next": 3, "at": AT,
            "files": [{"name": "journal-9", "bytes": 3 << 20, "digest": "00"}]}  # fmt: skip
    told = {"backup": 1, "store": "ab", "format": 1, "version": "0.1", "journal": part, "vault": None}
    assert render.render(told, "backup").split("\n") == [
        "backup of store ab by noctuary 0.1",
        "journal: records up to 9 of epoch 1, 2001-01-02 03:04:05 UTC",
        "    journal-9, 3.0 MiB",
        "vault: not in this backup",
    ]


@pytest.mark.parametrize(
    ("verb", "result", "line"),
    [
        ("rebuild", {"rebuilt": ["edges", "texts"], "took_ms": 61_000}, "rebuilt edges, texts in 1 min 1 s"),
        ("rebuild", {"rebuilt": ["edges"], "took_ms": 61}, "rebuilt edges in 61 ms"),
        ("cancel", {"cancelled": True}, "cancelled"),
        ("cancel", {"cancelled": False}, "nothing was cancelled: no such request is being answered"),
        ("lifecycle", {"state": "active", "enforce": False}, "tenant is active; its lifecycle is not enforced"),
        ("metrics", {"text": "# HELP a b\na 1\n"}, "# HELP a b\na 1"),
        ("session_close", {"closed_at": AT, "already_closed": False}, "closed at 2001-01-02 03:04:05 UTC"),
        ("session_close", {"closed_at": AT, "already_closed": True}, "was closed already, at 2001-01-02 03:04:05 UTC"),
        ("forget", {"found": False, "tombstoned_at": None, "flagged": []}, "not found"),
        (
            "forget",
            {"found": True, "tombstoned_at": AT, "flagged": ["note:1"]},
            "forgotten at 2001-01-02 03:04:05 UTC\n1 memory made from it flagged: note:1",
        ),
        (
            "recover",
            {"strength": {"old": 0, "new": 0.2}, "confidence": {"old": 0.8, "new": 0.8}, "flags_cleared": ["note:1"]},
            "strength 0 -> 0.2\nconfidence 0.8, as it was\nflags cleared: note:1",
        ),
        (
            "remember",
            {"id": "raw:1", "address": {"epoch": 1, "seq": 5}, "session": "session:1", "turn": 2, "notes": ["late"]},
            "raw:1 (record 5, turn 2 of session:1, late)",
        ),
        (
            "remember",
            {"id": "raw:1", "address": {"epoch": 1, "seq": 5}, "session": None, "turn": None, "duplicate": True,
             "state": "purged"},
            "raw:1 (record 5)\ndone before: this is the first answer again (since then purged)",
        ),
        (
            "session_open",
            {"session": "session:1", "activation": 2, "created": False, "reopened": True, "opened_at": AT},
            "session:1 opened again: activation 2, since 2001-01-02 03:04:05 UTC",
        ),
    ],
)  # fmt: skip
def test_a_short_answer(verb: str, result: dict[str, Any], line: str) -> None:
    assert render.render(result, verb) == line


def test_a_verb_is_described_in_words() -> None:
    from daemon.wire.schema import schemas_of

    lines = render.render(schemas_of("records"), "describe").split("\n")
    assert "  limit NUMBER (1..1000; default 100)" in lines and "  since TIME (as 2026-06-02T09:00:00+02:00)" in lines
    assert "  level WORD (content | sealed | skeleton; default skeleton)" in lines
    assert "  id TEXT (1..128 characters; required)" in render.render(schemas_of("history"), "describe")

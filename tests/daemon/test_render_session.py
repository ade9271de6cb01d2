"""A session for people: its parts as tables, and how much of them a page has."""

from __future__ import annotations

from typing import Any

from daemon.cli import render

AT = "2026-06-02T09:00:00.000Z"
HEAD = {"session": "session:1", "agent": "a", "sleep": {"eligible": True}}


def row(ref: str, **more: Any) -> dict[str, Any]:
    return {"id": ref, "kind": ref.partition(":")[0], "at": AT, "status": "active", "text": "words", **more}


def told(**more: Any) -> list[str]:
    return render.render({**HEAD, **more}, "session").split("\n")


def test_other_memories_of_a_session_say_that_there_are_more() -> None:
    lines = told(derived=[row("note:1"), row("note:2")], next_cursor="C", total=130)
    assert lines[-1] == "more: --cursor C" and lines[-2].startswith("2 of 130; ")
    head = next(line for line in lines if line.startswith("AT "))
    assert head.split() == ["AT", "ID", "WHAT", "TEXT"]


def test_a_page_of_turns_does_not_say_that_nothing_was_derived() -> None:
    lines = told(memories=[row("raw:1", role="user")], derived=[], next_cursor="C", total=17)
    assert "derived: none on this page" in lines and lines[-1] == "more: --cursor C"
    assert "derived: none" in told(memories=[row("raw:1", role="user")], derived=[], next_cursor=None, total=1)
    last = told(memories=[], derived=[row("note:1")], next_cursor=None, total=17)
    assert "turns: none on this page" in last and last[-1].startswith("1 of 17; ")


def test_passes_are_a_table() -> None:
    one = {"pass": 1, "facts": 3, "turns": 14, "at": AT, "partial": True}
    lines = told(passes=[one, {**one, "pass": 2, "partial": False}])
    at = next(place for place, line in enumerate(lines) if line.startswith("PASS"))
    assert lines[at].split() == ["PASS", "AT", "NOTES", "TURNS", "STATE"]
    assert lines[at + 1].split()[0] == "1" and lines[at + 1].endswith("14     not ended")
    assert lines[at + 2].split()[0] == "2" and lines[at + 2].endswith(" ended")
    assert "passes: none" in told(passes=[])


def test_turns_say_when_they_occurred_and_the_column_says_so() -> None:
    lines = told(memories=[row("raw:1", role="user", occurred_at="2001-01-02T03:04:00.000Z")], total=1)
    assert any(line.startswith("OCCURRED ") for line in lines) and "2001-01-02 " in "\n".join(lines)
    assert not any(line.startswith("OCCURRED ") for line in told(memories=[row("raw:1", role="user")], total=1))

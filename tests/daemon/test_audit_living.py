"""An audit finds what can still be opened though all that it is about is purged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from daemon import erasing
from daemon.reads import audit_living
from journal.tsid import parse_memory_ref
from tests.daemon.purged import Purging


@pytest.fixture
def purging(tmp_path: Path) -> Iterator[Purging]:
    opened = Purging(tmp_path / "state")
    try:
        yield opened
    finally:
        opened.close(True)


def found(purging: Purging, **more: Any) -> list[tuple[str, int, str]]:
    findings = purging.read("audit", more)["findings"]
    return [(each["code"], each["seq"], each["what"]) for each in findings]


def genesis(purging: Purging, ref: str) -> int:
    tsid = parse_memory_ref(ref)[1]
    return int(next(r.seq for r in purging.records("MemoryCreated") if r.event.id == tsid))


def leave_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Purges that forget what they should list: as one did whose record came from elsewhere."""
    made = erasing.Plan.pieces

    def fewer(self: erasing.Plan, session: int = 0) -> Iterator[erasing.Piece]:
        for piece in made(self, session):
            targets = [msgspec.structs.replace(each.target, keys_shredded=1) for each in piece.erased]
            erased = [each._replace(target=target) for each, target in zip(piece.erased, targets, strict=True)]
            yield piece._replace(erased=erased, parts=piece.parts[:1])

    monkeypatch.setattr(erasing.Plan, "pieces", fewer)


@pytest.mark.parametrize("rebuild", [True, False])
def test_a_key_that_a_purge_left_is_found(purging: Purging, monkeypatch: pytest.MonkeyPatch, rebuild: bool) -> None:
    sound, ref, living = purging.capture("one", topic="t"), purging.capture("two", topic="t"), purging.capture("three")
    purging.purge(sound)
    assert found(purging, rebuild=rebuild) == []
    leave_a_part(monkeypatch)
    purging.purge(ref)
    assert found(purging, rebuild=rebuild) == [("key_left", genesis(purging, ref), ref)]
    assert purging.memory(living)["text"] == "three"


def test_without_a_rebuild_it_is_looked_for_among_what_was_purged_last(
    purging: Purging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.reads.audit.PLAIN_PURGED", 2)
    ref, later = purging.capture("two", topic="t"), [purging.capture(f"later {number}") for number in range(2)]
    with monkeypatch.context() as patched:
        leave_a_part(patched)
        purging.purge(ref)
    for each in later:
        purging.purge(each)
    assert found(purging) == [] and len(found(purging, rebuild=True)) == 1


def test_no_more_are_told_than_fit(purging: Purging, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_living, "FINDINGS_TOLD", 3)
    refs = [purging.capture(f"text {number}", topic="t") for number in range(6)]
    leave_a_part(monkeypatch)
    purging.purge(*refs)
    assert len(found(purging)) == 3


def test_what_is_kept_by_right_is_none(purging: Purging) -> None:
    """A text that another memory has, an entity that it names, its session, what is asked again under a key."""
    params = {"kind": "raw", "origin": "stated", "text": "same", "entities": [{"name": "Mira", "type": "person"}]}
    first = str(purging.write("remember", params)["id"])
    second = str(purging.write("remember", params)["id"])
    turns = [purging.turn(f"turn {number}") for number in range(2)]
    note = purging.note(None, first, turns[0])
    purging.do("verify", note, note="words about it")
    for ref in (first, turns[0]):
        purging.purge(ref)
        purging.write("forget", {"id": ref, "idempotency_key": f"again {ref}"})
        purging.write("purge", {"ids": [ref], "idempotency_key": f"purged again {ref}"})
    assert found(purging, rebuild=True) == []
    purging.purge(second, note, turns[1])
    assert found(purging, rebuild=True) == []

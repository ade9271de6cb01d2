"""What another program wrote first: its times as far as it had any, its words beside those that live here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from journal.events import MemoryCreated
from tests.daemon.told import Told

WORDS = {"subject": "the queue", "predicate": "uses", "value": "lmdb"}


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Told]:
    opened = Told(tmp_path / "state")
    try:
        yield opened
    finally:
        opened.close(True)


def test_a_time_that_nobody_gave_is_none_and_not_1970(told: Told) -> None:
    """T29."""
    ref = told.raw(imported={"format": "other", "foreign_id": "7"}, facts=[WORDS])
    memory = told.memory(ref)
    assert memory["imported"] == {"format": "other", "foreign_id": "7", "created_at": None}
    (fact,) = memory["facts"]
    times = [memory[name] for name in ("occurred_at", "valid_from", "valid_to", "verified_at")]
    assert [*times, fact["valid_from"], fact["valid_to"], fact["confidence"]] == [None] * 7
    epoch = "1970-01-01T00:00:00.000Z"
    told_so = told.raw(
        imported={"format": "other", "created_at": epoch}, valid_from=epoch, facts=[{**WORDS, "valid_to": epoch}]
    )
    memory = told.memory(told_so)
    assert (memory["imported"]["created_at"], memory["valid_from"], memory["facts"][0]["valid_to"]) == (epoch,) * 3


def test_what_has_ended_may_say_the_same_as_what_holds(told: Told) -> None:
    """T29."""
    live = told.raw("use lmdb")
    ended = told.raw("use lmdb", valid_to="2020-01-01T00:00:00Z", imported={"format": "other"})
    assert live != ended
    assert {told.memory(ref)["text"] for ref in (live, ended)} == {"use lmdb"}
    assert [row["id"] for row in told.read("list", {"as_of": "2021-01-01T00:00:00Z"})["memories"]] == [live]


def test_a_fact_stands_with_its_terms_open_and_its_words_sealed(told: Told) -> None:
    ref = told.raw(facts=[{**WORDS, "confidence": 0.25, "valid_from": "2026-01-01T00:00:00.123+01:00"}])
    (fact,) = told.memory(ref)["facts"]
    assert fact.pop("id").startswith("fact:")
    assert fact == {
        **WORDS, "confidence": 0.25, "valid_from": "2025-12-31T23:00:00.123Z", "valid_to": None,
        "source_proposal": None,
    }  # fmt: skip
    with told.store.env.read() as txn:
        record = told.store.log.get(txn, told.memory(ref)["address"]["seq"])
        assert record is not None
        assert isinstance(record.event, MemoryCreated)
        (head,) = record.event.facts
        assert (head.confidence, head.valid_from, head.valid_to) == (0.25, 1_767_222_000_123, None)
        assert not any(str(word) in repr(record) for word in WORDS.values())

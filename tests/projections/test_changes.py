"""Which events change which number of a memory: complete over the union, and with the value before."""

from __future__ import annotations

from typing import get_args

import msgspec

from journal import events
from journal.codes import Kind, Mark, Origin
from journal.record import Actor, Cause, Record
from projections.changes import CHANGING, UNCHANGING, Step, steps

NOTE = (int(Kind.NOTE), 7)
OTHER = (int(Kind.RAW), 8)


def _record(seq: int, event: events.AnyEvent) -> Record:
    return Record(seq, 1000 + seq, 1, Actor(1, 0, 0), Cause(seq, "test"), event)


def _told(*told: events.AnyEvent | None) -> list[Record | None]:
    return [None if event is None else _record(seq, event) for seq, event in enumerate(told, 1)]


CREATED = events.MemoryCreated(
    id=7, slot=1, kind=int(Kind.NOTE), subtype=1, origin=int(Origin.TOLD), partition=1, confidence=0.5, strength=0.75
)
VERIFIED = events.Verified(
    memory=NOTE, old_confidence=0.5, new_confidence=0.625, old_strength=0.75, new_strength=0.875, verifications=1,
    boosted=(events.Change(*OTHER, 0.25, 0.375),),
)  # fmt: skip
FORGOTTEN = events.Forgotten(memory=NOTE, strength=0.0)


def _plain(found: list[Step]) -> list[tuple[int, float | None, float]]:
    return [(step.record.seq, step.old, step.new) for step in found]


def test_every_event_is_in_exactly_one_of_the_two_tables() -> None:
    assert set(CHANGING) | UNCHANGING == set(get_args(events.AnyEvent))
    assert not set(CHANGING) & UNCHANGING


def test_an_event_whose_form_holds_a_number_before_and_after_is_not_among_those_that_change_nothing() -> None:
    for event_type in UNCHANGING:
        fields = {field.name for field in msgspec.structs.fields(event_type)}
        assert not fields & {"old_confidence", "new_confidence", "old_strength", "new_strength", "boosted"}, event_type


def test_each_number_is_followed_from_where_it_began() -> None:
    reinforced = events.Reinforced(memory=NOTE, old_confidence=0.625, new_confidence=0.6875, reinforcements=1)
    weakened = events.Weakened(memory=NOTE, old_strength=0.875, new_strength=0.5)
    recovered = events.Recovered(memory=NOTE, mark=int(Mark.FORGOTTEN), old_strength=0.0, new_strength=0.2)
    purged = events.Purged(targets=(events.PurgeTarget(*NOTE),), parts=())
    records = _told(CREATED, VERIFIED, reinforced, weakened, FORGOTTEN, recovered, purged)
    confidence, strength = steps(records, 7)
    assert _plain(confidence) == [(1, None, 0.5), (2, 0.5, 0.625), (3, 0.625, 0.6875)]
    assert _plain(strength) == [(1, None, 0.75), (2, 0.75, 0.875), (4, 0.875, 0.5), (5, 0.5, 0.0), (6, 0.0, 0.2)]


def test_what_happened_to_another_memory_changes_nothing_but_what_it_says_of_this_one() -> None:
    flag = events.Forgotten(memory=OTHER, strength=0.0, flagged=(NOTE,))
    clear = events.Recovered(
        memory=OTHER, mark=int(Mark.FORGOTTEN), old_strength=0.0, new_strength=0.2, cleared=(NOTE,)
    )
    weaken = events.Weakened(memory=OTHER, old_strength=0.5, new_strength=0.1, flagged=(NOTE,))
    reinforce = events.Reinforced(memory=OTHER, old_confidence=0.1, new_confidence=0.2, reinforcements=1)
    assert steps(_told(flag, clear, weaken, reinforce), 7) == ([], [])
    confidence, strength = steps(_told(VERIFIED), 8)
    assert _plain(confidence) == [] and _plain(strength) == [(1, 0.25, 0.375)]


def test_behind_a_record_that_cannot_be_read_a_number_is_not_made_up() -> None:
    _, strength = steps(_told(CREATED, None, FORGOTTEN), 7)
    assert _plain(strength) == [(1, None, 0.75), (3, None, 0.0)]

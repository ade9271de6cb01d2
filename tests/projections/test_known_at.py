"""What was known of one memory at a moment is what the projections held then, whatever else its records say."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from journal import events
from journal.codes import Kind, Mark, Origin, Tier
from journal.record import Actor, Cause, Head, Record
from projections.fold import apply
from projections.known_at import Focus, folded, known_at, known_records, mentions
from projections.rows import MemoryRow
from projections.state import Counters, State
from projections.store import ProjectionStore

ACTOR = Actor(1000, 0, 0)
SOURCE, NOTE, OTHER = 1001, 1002, 1003


def _created(tsid: int, kind: Kind, partition: int, sources: tuple[events.Ref, ...] = ()) -> events.MemoryCreated:
    return events.MemoryCreated(
        id=tsid, slot=tsid - 1000, kind=int(kind), subtype=1, origin=int(Origin.STATED), partition=partition,
        sources=sources, confidence=0.75, strength=1.0, valid_to=77,
    )  # fmt: skip


def _records(told: list[events.AnyEvent], times: list[int]) -> list[Record]:
    return [
        Record(seq, at_ms, 1, ACTOR, Cause(seq, "test"), event)
        for seq, (event, at_ms) in enumerate(zip(told, times, strict=True), 1)
    ]


FLAG = events.Forgotten(memory=(0, SOURCE), strength=0.0, flagged=((2, NOTE),))
CLEAR = events.Recovered(
    memory=(0, SOURCE), mark=int(Mark.FORGOTTEN), old_strength=0.0, new_strength=0.2, cleared=((2, NOTE),)
)
FORGET = events.Forgotten(memory=(2, NOTE), strength=0.0)
RECOVER = events.Recovered(memory=(2, NOTE), mark=int(Mark.FORGOTTEN), old_strength=0.0, new_strength=0.2)
PURGE = events.Purged(targets=(events.PurgeTarget(2, NOTE), events.PurgeTarget(0, OTHER)), parts=())
TOLD: list[events.AnyEvent] = [
    events.PartitionOpened(number=1, tier=int(Tier.EPISODIC), day=20000, zone="UTC"),
    events.PartitionOpened(number=2, tier=int(Tier.SEMANTIC)),
    _created(SOURCE, Kind.RAW, 1), _created(OTHER, Kind.RAW, 1), _created(NOTE, Kind.NOTE, 2, ((0, SOURCE),)),
    FLAG, FORGET, CLEAR, RECOVER, FLAG, PURGE,
]  # fmt: skip
ABOUT = {SOURCE: (3, 6, 8, 10), OTHER: (4, 11), NOTE: (5, 6, 7, 8, 9, 10, 11)}


def _rows_by_record(directory: Path, records: list[Record]) -> list[dict[int, MemoryRow | None]]:
    """What the projections hold of each memory behind each record."""
    store = ProjectionStore.open(directory, b"b" * 16)
    found = []
    try:
        with store.snapshot() as snapshot:
            state = State(snapshot, Counters(), Head(1, 0, b""))
            for record in records:
                apply(state, record)
                found.append({tsid: state.memory(tsid) for tsid in ABOUT})
    finally:
        store.close(False)
    return found


def test_it_is_what_the_projections_held_behind_the_last_record_of_then(tmp_path: Path) -> None:
    records = _records(TOLD, list(range(100, 100 + len(TOLD))))
    held = _rows_by_record(tmp_path / "projections", records)
    for tsid, seqs in ABOUT.items():
        present = held[-1][tsid]
        assert present is not None
        about = [records[seq - 1] for seq in seqs]
        for index, record in enumerate(records):
            assert known_at(about, present, tsid, record.at_ms) == held[index][tsid], (tsid, record.seq)
    assert len({held[index][NOTE] for index in range(len(held))}) == 8  # each record about it made a difference


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 20), min_size=1, max_size=12), st.integers(-1, 21))
def test_what_was_known_is_a_beginning_and_ends_with_the_last_record_of_then(times: list[int], at_ms: int) -> None:
    records = _records([FORGET] * len(times), times)
    known = list(known_records(records, at_ms))
    assert known == records[: len(known)]
    assert all(record.at_ms > at_ms for record in records[len(known) :])
    assert not known or known[-1].at_ms <= at_ms


def test_a_clock_that_was_ahead_for_a_while_hides_nothing_for_ever() -> None:
    records = _records([_created(NOTE, Kind.NOTE, 2), FORGET, RECOVER], [100, 9_000_000, 101])
    present = known_at(records, MemoryRow._make((0,) * len(MemoryRow._fields))._replace(partition=2), NOTE, 10**9)
    assert present is not None
    at_101 = known_at(records, present, NOTE, 101)
    assert at_101 is not None and at_101.strength == 0.2
    at_100 = known_at(records, present, NOTE, 100)
    assert at_100 is not None and at_100.strength == 1.0
    assert known_at(records, present, NOTE, 99) is None


def test_what_names_a_memory_is_all_that_is_needed_of_a_record() -> None:
    """A list of thousands is folded as the one item that is about it, however its record names it."""
    many = tuple((2, 5000 + number) for number in range(50))
    crowd: list[events.AnyEvent] = [
        events.Forgotten(memory=(0, SOURCE), strength=0.0, flagged=(*many, (2, NOTE))),
        events.Pruned(memories=(*many, (2, NOTE)), cycle=1),
        events.PassCommitted(
            session=1, number=1, promoted=(*range(6000, 6050), NOTE), noise=(), last=True,
            scores=tuple(events.TurnScore(id=tsid, distance=None, surprise=1.0, importance=tsid / 1000)
                         for tsid in (*range(6000, 6050), NOTE)),
        ),
        events.Purged(targets=tuple(events.PurgeTarget(2, tsid) for tsid in (7001, 7002, NOTE)), parts=()),
    ]  # fmt: skip
    records = _records([_created(NOTE, Kind.NOTE, 2), *crowd], list(range(100, 105)))
    present = MemoryRow._make((0,) * len(MemoryRow._fields))._replace(partition=2)
    for count in range(1, len(records) + 1):
        whole = folded(records[:count], present, NOTE)
        assert (
            whole is not None and folded([Focus(record).on(NOTE) for record in records[:count]], present, NOTE) == whole
        )
    for record in records:
        assert Focus(record).names(NOTE) and mentions(record.event, NOTE)
        assert not Focus(record).names(8000) and not mentions(record.event, 8000)

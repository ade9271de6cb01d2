"""The fold: however the records are cut into batches, the state is the same, and damage is seen."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from journal import events
from journal.codes import EdgeType, Kind, Mark, Origin, Role, Status, Tier
from journal.record import Actor, Cause, Head, Record
from projections import edges, sessions, tables
from projections.fold import apply
from projections.rows import DamagedRow, open_row
from projections.state import State
from projections.store import ProjectionStore

BOOT = b"b" * 16
ACTOR = Actor(1000, 0, 0)
TURNS = 70  # more than one page of header rows


def _story() -> list[Record]:
    told: list[events.AnyEvent] = [
        events.TenantBegan(number=1, name="default"),
        events.TenantChanged(state=1),
        events.ProducerNamed(number=1, agent="a", model=None, version=None, extractor=None),
        events.SessionOpened(id=500, number=1, agent="a", uid=1000, opened_at=10),
        events.PartitionOpened(number=1, tier=int(Tier.EPISODIC), day=20000, zone="UTC"),
        events.PartitionOpened(number=2, tier=int(Tier.SEMANTIC)),
    ]
    for turn in range(1, TURNS + 1):
        told.append(
            events.MemoryCreated(
                id=1000 + turn, slot=turn, kind=int(Kind.RAW), subtype=1, origin=int(Origin.STATED), partition=1,
                session=1, turn=turn, role=int(Role.USER), producer=1, key=turn.to_bytes(16, "big"),
            )
        )  # fmt: skip
    told.append(
        events.MemoryCreated(
            id=3000, slot=TURNS + 1, kind=int(Kind.NOTE), subtype=1, origin=int(Origin.DERIVED), partition=2,
            sources=((0, 1001), (0, 1002)), evidence=((0, 1003),), session=1,
        )
    )  # fmt: skip
    told.append(events.Forgotten(memory=(0, 1001), strength=0.0, flagged=((2, 3000),)))
    told.append(
        events.Recovered(
            memory=(0, 1001), mark=int(Mark.FORGOTTEN), old_strength=0.0, new_strength=0.2, cleared=((2, 3000),)
        )
    )
    told.append(events.Forgotten(memory=(0, 1002), strength=0.0, flagged=((2, 3000),)))
    return [Record(seq, 1000 + seq, 1, ACTOR, Cause(seq, "test"), event) for seq, event in enumerate(told, 1)]


STORY = _story()


def _fold(directory: Path, batches: list[list[Record]]) -> ProjectionStore:
    store = ProjectionStore.open(directory, BOOT)
    for batch in batches:
        with store.snapshot() as snapshot:
            state = State(snapshot, store.counters.copy(), store.head)
            for record in batch:
                apply(state, record)
            changes = state.finish()
        store.commit(changes, state.counters, Head(1, batch[-1].seq, bytes(32)))
    return store


@pytest.fixture
def folded(tmp_path: Path) -> ProjectionStore:
    return _fold(tmp_path / "projections", [STORY])


def _state(store: ProjectionStore, snapshot: object) -> State:
    return State(snapshot, store.counters, store.head)  # type: ignore[arg-type]


@settings(max_examples=15, deadline=None)
@given(cuts=st.sets(st.integers(1, len(STORY) - 1), max_size=12))
def test_the_state_does_not_depend_on_how_records_were_batched(
    tmp_path_factory: pytest.TempPathFactory, cuts: set[int]
) -> None:
    whole = _fold(tmp_path_factory.mktemp("whole") / "p", [STORY])
    bounds = [0, *sorted(cuts), len(STORY)]
    pieces = [STORY[a:b] for a, b in itertools.pairwise(bounds)]
    cut = _fold(tmp_path_factory.mktemp("cut") / "p", pieces)
    try:
        assert cut.digests() == whole.digests()
        assert cut.counters == whole.counters
    finally:
        cut.close(clean=False)
        whole.close(clean=False)


def test_a_forgotten_memory_shows_it_and_flags_its_children(folded: ProjectionStore) -> None:
    with folded.snapshot() as snapshot:
        state = _state(folded, snapshot)
        forgotten, recovered, note = state.memory(1002), state.memory(1001), state.memory(3000)
    assert forgotten is not None and forgotten.status is Status.FORGOTTEN and forgotten.strength == 0.0
    assert recovered is not None and recovered.status is Status.ACTIVE and recovered.strength == 0.2
    assert note is not None and note.flags == 1
    folded.close(clean=False)


def test_edges_are_found_both_ways(folded: ProjectionStore) -> None:
    with folded.snapshot() as snapshot:
        state = _state(folded, snapshot)
        out = edges.outgoing(state, 3000)
        back = list(edges.incoming(state, 1001, int(EdgeType.DERIVED_FROM)))
        support = list(edges.incoming(state, 1003))
    assert out == [(1, 0, 1001), (1, 0, 1002), (2, 0, 1003)]
    assert back == [(1, 2, 3000)]
    assert support == [(2, 2, 3000)]
    folded.close(clean=False)


def test_the_turns_of_a_session_are_in_order(folded: ProjectionStore) -> None:
    with folded.snapshot() as snapshot:
        state = _state(folded, snapshot)
        assert sessions.turn_ids(state, 1) == [1000 + turn for turn in range(1, TURNS + 1)]
        assert sessions.other_ids(state, 1) == [3000]
    folded.close(clean=False)


def test_header_rows_fill_pages_and_say_what_the_memory_rows_say(folded: ProjectionStore) -> None:
    with folded.snapshot() as snapshot:
        pages = [open_row(tables.ROWS, key, value) for key, value in snapshot.prefix(tables.ROWS, b"\0\0\0\1")]
    assert [len(page) // 64 for page in pages] == [63, TURNS - 63]
    assert pages[0][1] == 0 and pages[0][64 + 1] == 1  # recovered: no tombstone; forgotten: tombstone
    folded.close(clean=False)


@pytest.mark.parametrize("database", [tables.MEMORIES, tables.SESSIONS, tables.IDEMPOTENCY, tables.EDGES_OUT])
def test_a_flipped_bit_in_a_value_is_seen_at_read(folded: ProjectionStore, database: str) -> None:
    with folded.snapshot() as snapshot:
        key, value = next(iter(snapshot.prefix(database, b"")))
    for place in range(len(value)):
        flipped = bytearray(value)
        flipped[place] ^= 0x10
        with pytest.raises(DamagedRow):
            open_row(database, key, bytes(flipped))
    folded.close(clean=False)


def test_projections_of_another_boot_are_not_trusted(tmp_path: Path) -> None:
    _fold(tmp_path / "p", [STORY]).close(clean=False)
    same = ProjectionStore.open(tmp_path / "p", BOOT)
    assert same.head.seq == len(STORY)
    same.close(clean=False)
    other = ProjectionStore.open(tmp_path / "p", b"c" * 16)
    assert other.head.seq == 0
    other.close(clean=True)


def test_projections_survive_a_clean_stop_into_another_boot(tmp_path: Path) -> None:
    _fold(tmp_path / "p", [STORY]).close(clean=True)
    assert not (tmp_path / "p" / "OPEN").exists()
    store = ProjectionStore.open(tmp_path / "p", b"c" * 16)
    assert store.head.seq == len(STORY)
    store.close(clean=True)


@pytest.mark.parametrize("damage", ["emptied", "truncated", "overwritten"])
def test_projections_that_cannot_be_read_are_begun_anew(tmp_path: Path, damage: str) -> None:
    _fold(tmp_path / "p", [STORY]).close(clean=True)
    data = tmp_path / "p" / "data.mdb"
    whole = data.read_bytes()
    data.write_bytes({"emptied": b"", "truncated": whole[:12288], "overwritten": b"\xa5" * len(whole)}[damage])
    store = ProjectionStore.open(tmp_path / "p", BOOT)
    assert store.head.seq == 0
    store.close(clean=True)

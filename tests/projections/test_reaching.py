"""Edges of many memories with one cursor: what is passed over has nothing, and damage hides no other memory."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import lmdb
import pytest

from journal.record import Head
from projections import edges, rows, tables
from projections.edges import IN_KEY, Reaching
from projections.rows import DamagedRow
from projections.state import Counters, State
from projections.store import ProjectionStore

DERIVED = 0
BARE = range(100, 200)  # nothing was made of these, but of some of them
LAST = 1 << 63


@pytest.fixture
def store(tmp_path: Path) -> Iterable[ProjectionStore]:
    """Each tenth memory has dependents."""
    opened = ProjectionStore.open(tmp_path / "projections", b"b" * 16)
    changed: dict[bytes, bytes | None] = {}
    for target in (*BARE[::10], LAST):
        for source in (1000 + target, 2000 + target):
            key = IN_KEY.pack(target, DERIVED, source)
            changed[key] = rows.seal_row(key, b"\2")
    opened.commit({tables.EDGES_IN: changed}, Counters(), Head(1, 1, bytes(32)))
    yield opened
    opened.close(clean=False)


def damage(store: ProjectionStore, target: int) -> None:
    """The first entry of a memory says another kind than its checksum was made of."""
    key = IN_KEY.pack(target, DERIVED, 1000 + target)
    with store.env.write() as txn:
        value = bytes(txn.get(key, db=store.env.db(tables.EDGES_IN)) or b"")
        txn.put(key, bytes((value[0] ^ 1,)) + value[1:], db=store.env.db(tables.EDGES_IN))


@pytest.mark.parametrize("seed", range(8))
def test_any_order_gives_what_single_looks_give(store: ProjectionStore, seed: int) -> None:
    asked = [*range(90, 210), LAST - 1, LAST, LAST + 1]
    if seed:
        random.Random(seed).shuffle(asked)
    with store.snapshot() as snapshot, snapshot.cursor(tables.EDGES_IN) as cursor:
        state = State(snapshot, Counters(), store.head)
        reaching = Reaching(cursor)
        for tsid in asked:
            assert reaching(tsid) == list(edges.incoming(state, tsid)), tsid


class Counting:
    """A cursor that counts the looks."""

    def __init__(self, cursor: lmdb.Cursor) -> None:
        self._cursor = cursor
        self.looks = 0

    def set_range(self, key: bytes) -> bool:
        self.looks += 1
        return bool(self._cursor.set_range(key))

    def __iter__(self) -> object:
        return iter(self._cursor)


def test_memories_of_which_nothing_was_made_cost_one_look_together(store: ProjectionStore) -> None:
    with store.snapshot() as snapshot, snapshot.cursor(tables.EDGES_IN) as cursor:
        counting = Counting(cursor)
        reaching = Reaching(counting)  # type: ignore[arg-type]
        assert not any(reaching(tsid) for tsid in range(101, 110))
        assert counting.looks == 1
        assert reaching(110) and counting.looks == 2


def test_a_damaged_entry_costs_its_memory_only(store: ProjectionStore) -> None:
    damage(store, 150)
    with store.snapshot() as snapshot, snapshot.cursor(tables.EDGES_IN) as cursor:
        reaching = Reaching(cursor)
        assert [reaching(tsid) for tsid in range(141, 150)] == [[]] * 9
        with pytest.raises(DamagedRow):
            reaching(150)
        assert reaching(151) == []
        assert [source for _, _, source in reaching(160)] == [1160, 2160]


def test_a_damaged_entry_answers_for_no_memory_before_it(store: ProjectionStore) -> None:
    damage(store, 150)
    with store.snapshot() as snapshot, snapshot.cursor(tables.EDGES_IN) as cursor:
        counting = Counting(cursor)
        reaching = Reaching(counting)  # type: ignore[arg-type]
        for tsid in range(141, 150):
            reaching(tsid)
        assert counting.looks == 9

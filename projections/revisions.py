"""Edges of revision with their ids, from both ends, and facts that were accepted later.

Part of the projection `chain`. `revisions` (TSID u64, direction u8, other TSID u64, edge id u64) → type u8, kind of the
other u8, seq u64 of the record that closed the predecessor, CRC-32C. `facts_added` (TSID u64, fact id u64) → seq u64 of
its record, CRC-32C; facts that a memory was made with stand in its creating record.
Invariant: an edge of revision stands under both its ends, or under none.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import NamedTuple

import lmdb

from journal import events
from journal.record import Record
from projections import rows, tables
from projections.newest import from_place, newest_first
from projections.state import KEY64, KEY64_64, State

KEY = struct.Struct(">QBQQ")
VALUE = struct.Struct("<BBQ")
FACT_SEQ = struct.Struct("<Q")


class Towards(IntEnum):
    """Which way an edge is walked, from the memory whose entry it is."""

    PREDECESSORS = 0
    SUCCESSORS = 1


def superseded(state: State, record: Record, event: events.Superseded) -> None:
    (predecessor_kind, predecessor), (successor_kind, successor) = event.predecessor, event.successor
    _put(state, KEY.pack(successor, Towards.PREDECESSORS, predecessor, event.edge),
         VALUE.pack(event.edge_type, predecessor_kind, record.seq))  # fmt: skip
    _put(state, KEY.pack(predecessor, Towards.SUCCESSORS, successor, event.edge),
         VALUE.pack(event.edge_type, successor_kind, record.seq))  # fmt: skip


def _put(state: State, key: bytes, payload: bytes) -> None:
    state.put(tables.REVISIONS, key, rows.seal_row(key, payload))


def fact_added(state: State, record: Record, event: events.FactAdded) -> None:
    key = KEY64_64.pack(event.memory[1], event.fact.id)
    state.put(tables.FACTS_ADDED, key, rows.seal_row(key, FACT_SEQ.pack(record.seq)))


class Revision(NamedTuple):
    """An edge of revision as it is walked from one of its ends. `seq`: the record that closed the predecessor."""

    other: int
    edge: int
    edge_type: int
    seq: int


def revisions_of(cursor: lmdb.Cursor, tsid: int, towards: Towards, first: int = 0) -> Iterator[Revision]:
    """The edges of a memory in one direction, by what they lead to, then edge, from the memory `first` on, by a cursor
    of `revisions`. Raises DamagedRow."""
    prefix = KEY64.pack(tsid) + bytes((towards,))
    for key, payload in from_place(cursor, tables.REVISIONS, prefix, KEY64.pack(first)):
        _, _, other, edge = KEY.unpack(key)
        edge_type, _, seq = VALUE.unpack(payload)
        yield Revision(other, edge, edge_type, seq)


def facts_of(state: State, tsid: int) -> Iterator[int]:
    """The records of the facts that a memory got later, in order of the facts' ids. Raises DamagedRow."""
    for _, payload in state.entries(tables.FACTS_ADDED, KEY64.pack(tsid)):
        yield FACT_SEQ.unpack(payload)[0]


def newest_facts(cursor: lmdb.Cursor, tsid: int) -> Iterator[int]:
    """The same, newest first, by a cursor of `facts_added`. Raises DamagedRow."""
    for _, payload in newest_first(cursor, tables.FACTS_ADDED, KEY64.pack(tsid)):
        yield FACT_SEQ.unpack(payload)[0]


FOLDS: dict[type, Callable[..., None]] = {
    events.Superseded: superseded,
    events.FactAdded: fact_added,
}

"""Edges both ways.

`edges_out`, key TSID: entries of 10 bytes (type u8, kind u8, TSID u64 big-endian) in the order they were
made, CRC-32C. `edges_in`, key target TSID, type, source TSID: kind of the source u8, CRC-32C.
Invariant: an edge stands in both, or in none.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

import lmdb

from journal import events
from journal.codes import EdgeType
from journal.record import Record
from projections import rows, tables
from projections.state import KEY64, State

ENTRY = struct.Struct(">BBQ")
IN_KEY = struct.Struct(">QBQ")
_DERIVED = int(EdgeType.DERIVED_FROM)
_EVIDENCE = int(EdgeType.EVIDENCE)
_REVISIONS = (int(EdgeType.SUPERSEDES), int(EdgeType.UPDATES))

Edge = tuple[int, int, int]  # (type, kind of the other end, its TSID)


def created(state: State, record: Record, event: events.MemoryCreated) -> None:
    if not (event.sources or event.evidence or event.predecessor):
        return
    edges = [(_DERIVED, kind, tsid) for kind, tsid in event.sources]
    edges += [(_EVIDENCE, kind, tsid) for kind, tsid in event.evidence]
    if event.predecessor is not None:
        edges.append((event.disposition, *event.predecessor))
    made = event.id
    key = made.to_bytes(8, "big")
    entries = b""
    incoming = state.changes[tables.EDGES_IN]
    kind_byte = bytes((event.kind,))
    pack_entry, pack_key, seal = ENTRY.pack, IN_KEY.pack, rows.seal_row
    for edge_type, kind, tsid in edges:
        entries += pack_entry(edge_type, kind, tsid)
        in_key = pack_key(tsid, edge_type, made)
        incoming[in_key] = seal(in_key, kind_byte)
    state.changes[tables.EDGES_OUT][key] = seal(key, entries)


def supported(
    state: State,
    record: Record,
    event: events.Verified | events.Reinforced | events.Weakened | events.Reaffirmed | events.Recovered,
) -> None:
    """Evidence that was brought later. What stands there already is not put there twice."""
    kind, tsid = event.memory
    for other_kind, other in event.evidence:
        in_key = IN_KEY.pack(other, _EVIDENCE, tsid)
        if state.get(tables.EDGES_IN, in_key) is None:
            _append(state, tsid, (_EVIDENCE, other_kind, other))
            state.put(tables.EDGES_IN, in_key, rows.seal_row(in_key, bytes((kind,))))


def related(state: State, record: Record, event: events.Related) -> None:
    source_kind, source = event.source
    target_kind, target = event.target
    _append(state, source, (event.edge_type, target_kind, target))
    in_key = IN_KEY.pack(target, event.edge_type, source)
    state.put(tables.EDGES_IN, in_key, rows.seal_row(in_key, bytes((source_kind,))))


def _append(state: State, tsid: int, edge: Edge) -> None:
    key = KEY64.pack(tsid)
    value = state.get(tables.EDGES_OUT, key)
    entries = rows.open_row(tables.EDGES_OUT, key, value) if value is not None else b""
    state.put(tables.EDGES_OUT, key, rows.seal_row(key, entries + ENTRY.pack(*edge)))


def outgoing(state: State, tsid: int) -> list[Edge]:
    """The edges that leave `tsid`, in the order they were made. Raises DamagedRow."""
    key = KEY64.pack(tsid)
    value = state.get(tables.EDGES_OUT, key)
    if value is None:
        return []
    return list(ENTRY.iter_unpack(rows.open_row(tables.EDGES_OUT, key, value)))


def grounding(state: State, tsid: int) -> list[Edge]:
    """The edges to what a memory stands on: its sources, or, when it has none of its own, those of the version that it
    took the place of. Raises DamagedRow.
    """
    while True:
        found = outgoing(state, tsid)
        sources = [edge for edge in found if edge[0] == _DERIVED]
        before = [edge for edge in found if edge[0] in _REVISIONS]
        if sources or not before:
            return sources
        tsid = before[0][2]


def incoming(state: State, tsid: int, edge_type: int | None = None) -> Iterator[Edge]:
    """The edges that reach `tsid`, by type, then TSID. Raises DamagedRow."""
    prefix = KEY64.pack(tsid) + (b"" if edge_type is None else bytes((edge_type,)))
    for key, value in state.prefix(tables.EDGES_IN, prefix):
        kind = rows.open_row(tables.EDGES_IN, key, value)[0]
        _, found_type, source = IN_KEY.unpack(key)
        yield found_type, kind, source


def reaching(cursor: lmdb.Cursor, tsid: int) -> list[Edge]:
    """As `incoming`, by a cursor of `edges_in` that many such looks share. Raises DamagedRow."""
    prefix = KEY64.pack(tsid)
    found: list[Edge] = []
    try:
        if not cursor.set_range(prefix):
            return found
        for raw_key, raw_value in cursor:
            key = bytes(raw_key)
            if not key.startswith(prefix):
                break
            _, edge_type, source = IN_KEY.unpack(key)
            found.append((edge_type, rows.open_row(tables.EDGES_IN, key, bytes(raw_value))[0], source))
    except lmdb.Error as error:
        raise rows.DamagedRow(tables.EDGES_IN) from error
    return found


FOLDS: dict[type, Callable[..., None]] = {
    events.MemoryCreated: created,
    events.Related: related,
    events.Verified: supported,
    events.Reinforced: supported,
    events.Weakened: supported,
    events.Reaffirmed: supported,
    events.Recovered: supported,
}

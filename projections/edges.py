"""Edges both ways.

`edges_out`, key TSID: entries of 10 bytes (type u8, kind u8, TSID u64 big-endian) in the order they were
made, CRC-32C. `edges_in`, key target TSID, type, source TSID: kind of the source u8, CRC-32C.
Invariant: an edge stands in both, or in none.

`lines`, key TSID: of each version of a memory that was revised, or took another's place, u64 little-endian each: first
version, newest, then the memories whose sources it stands on, one at least, CRC-32C. The newest is kept with the first
version, elsewhere it is 0. Several hold up what has no sources of its own and took the place of several.
`externals`, key TSID, seq: CRC-32C. The records that later brought support from outside the store.
What a version stands on is told when it is made, or when it takes the place of a memory that was there: so no question
goes through a long line of versions.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

import lmdb

from journal import events
from journal.codes import EdgeType
from journal.record import Record
from projections import rows, tables
from projections.state import KEY64, KEY64_64, State

ENTRY = struct.Struct(">BBQ")
IN_KEY = struct.Struct(">QBQ")
_LINE = struct.Struct("<QQ")
_OWNER = struct.Struct("<Q")
_DERIVED = int(EdgeType.DERIVED_FROM)
_EVIDENCE = int(EdgeType.EVIDENCE)

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
    if event.predecessor is not None:
        _continue_line(state, event, event.predecessor[1])


class _Line(NamedTuple):
    """Where a version stands in the line of its versions. `owners`: those whose sources it stands on."""

    first: int
    newest: int
    owners: tuple[int, ...]


def _continue_line(state: State, event: events.MemoryCreated, before: int) -> None:
    line = _line(state, before) or _Line(before, 0, (before,))
    _put_line(state, event.id, _Line(line.first, 0, (event.id,) if event.sources else line.owners))
    _put_line(state, line.first, _Line(line.first, event.id, owners(state, line.first)))


def _put_line(state: State, tsid: int, line: _Line) -> None:
    key = KEY64.pack(tsid)
    payload = _LINE.pack(line.first, line.newest) + b"".join(map(_OWNER.pack, line.owners))
    state.put(tables.LINES, key, rows.seal_row(key, payload))


def line_in(key: bytes, value: bytes) -> _Line:
    """Where the version of this key stands in its line. Raises DamagedRow."""
    return _unpack_line(rows.open_row(tables.LINES, key, value))


def _unpack_line(payload: bytes) -> _Line:
    first, newest = _LINE.unpack_from(payload)
    return _Line(first, newest, tuple(owner for (owner,) in _OWNER.iter_unpack(payload[_LINE.size :])))


def _line(state: State, tsid: int) -> _Line | None:
    key = KEY64.pack(tsid)
    value = state.get(tables.LINES, key)
    return None if value is None else line_in(key, value)


def supported(
    state: State,
    record: Record,
    event: events.Verified | events.Reinforced | events.Weakened | events.Reaffirmed | events.Recovered,
) -> None:
    """Evidence that was brought later. What stands there already is not put there twice."""
    kind, tsid = event.memory
    if event.externals:
        key = KEY64_64.pack(tsid, record.seq)
        state.put(tables.EXTERNALS, key, rows.seal_row(key, b""))
    for other_kind, other in event.evidence:
        in_key = IN_KEY.pack(other, _EVIDENCE, tsid)
        if state.get(tables.EDGES_IN, in_key) is None:
            _append(state, tsid, (_EVIDENCE, other_kind, other))
            state.put(tables.EDGES_IN, in_key, rows.seal_row(in_key, bytes((kind,))))


def superseded(state: State, record: Record, event: events.Superseded) -> None:
    """What a successor that was made by `revise` says itself stands there already."""
    (kind, predecessor), (successor_kind, successor) = event.predecessor, event.successor
    in_key = IN_KEY.pack(predecessor, event.edge_type, successor)
    if state.get(tables.EDGES_IN, in_key) is None:
        _append(state, successor, (event.edge_type, kind, predecessor))
        state.put(tables.EDGES_IN, in_key, rows.seal_row(in_key, bytes((successor_kind,))))
        _inherit_ground(state, successor, predecessor)


def _inherit_ground(state: State, successor: int, predecessor: int) -> None:
    """A memory that was there before takes another's place. What has no sources of its own stands on what that one
    stood on, and on what those did whose place it took before."""
    before = [owner for owner in owners(state, predecessor) if _has_sources(state, owner)]
    if not before or _has_sources(state, successor):
        return
    line = _line(state, successor) or _Line(successor, successor, (successor,))
    held = line.owners if _has_sources(state, line.owners[0]) else ()
    _put_line(state, successor, line._replace(owners=tuple(dict.fromkeys((*held, *before)))))


def _has_sources(state: State, tsid: int) -> bool:
    return any(edge[0] == _DERIVED for edge in outgoing(state, tsid))


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


def stands(state: State, source: int, edge_type: int, target: int) -> bool:
    """Whether there is an edge of that type from `source` to `target`."""
    return state.get(tables.EDGES_IN, IN_KEY.pack(target, edge_type, source)) is not None


def grounding(state: State, tsid: int) -> list[Edge]:
    """The edges to what a memory stands on, each once: its sources, or, when it has none of its own, those of all that
    it took the place of. Raises DamagedRow.
    """
    found = (edge for owner in owners(state, tsid) for edge in outgoing(state, owner) if edge[0] == _DERIVED)
    return list(dict.fromkeys(found))


def owners(state: State, tsid: int) -> tuple[int, ...]:
    """The memories whose sources a memory stands on: itself, or those it took the place of. Each has some when there
    are several; the first version alone when none has any. Raises DamagedRow."""
    line = _line(state, tsid)
    return (tsid,) if line is None else line.owners


def owners_of_versions(state: State) -> Iterator[tuple[int, int]]:
    """`(version, one whose sources it stands on)` of all versions of memories that were revised, or took another's
    place. Raises DamagedRow."""
    for key, payload in state.entries(tables.LINES, b""):
        version = int(KEY64.unpack(key)[0])
        yield from ((version, owner) for owner in _unpack_line(payload).owners)


def first_version(state: State, tsid: int) -> int:
    """The first version of a memory: itself when it revises nothing. Raises DamagedRow."""
    line = _line(state, tsid)
    return tsid if line is None else line.first


def newest_version(state: State, tsid: int) -> int:
    """The newest version that `revise` made of it. Raises DamagedRow."""
    line = _line(state, first_version(state, tsid))
    return tsid if line is None else line.newest


def external_support(state: State, tsid: int) -> list[int]:
    """The numbers of the records that later brought support from outside the store. Raises DamagedRow."""
    return [int(KEY64_64.unpack(key)[1]) for key, _ in state.entries(tables.EXTERNALS, KEY64.pack(tsid))]


def incoming(state: State, tsid: int, edge_type: int | None = None) -> Iterator[Edge]:
    """The edges that reach `tsid`, by type, then TSID. Raises DamagedRow."""
    prefix = KEY64.pack(tsid) + (b"" if edge_type is None else bytes((edge_type,)))
    for key, payload in state.entries(tables.EDGES_IN, prefix):
        _, found_type, source = IN_KEY.unpack(key)
        yield found_type, payload[0], source


class Reaching:
    """The edges that reach memories, by one cursor of `edges_in` for many of them, each asked for once.

    Where a look finds nothing it has found the next memory that something reaches: those in between need no look. Most
    memories that are made one after the other have nothing made of them.
    """

    def __init__(self, cursor: lmdb.Cursor) -> None:
        self._cursor = cursor
        self._bare_from = self._bare_to = 0  # no edge reaches a memory from the one up to the other

    def __call__(self, tsid: int) -> list[Edge]:
        """As `incoming`. Raises DamagedRow."""
        if self._bare_from <= tsid < self._bare_to:
            return []
        found: list[Edge] = []
        prefix = KEY64.pack(tsid)
        self._bare_from = self._bare_to = tsid
        try:
            if not self._cursor.set_range(prefix):
                return found
            for raw_key, raw_value in self._cursor:
                key, value = bytes(raw_key), bytes(raw_value)
                if not key.startswith(prefix):
                    self._pass_over(key, value)
                    break
                _, edge_type, source = IN_KEY.unpack(key)
                found.append((edge_type, rows.open_row(tables.EDGES_IN, key, value)[0], source))
        except lmdb.Error as error:
            raise rows.DamagedRow(tables.EDGES_IN) from error
        return found

    def _pass_over(self, key: bytes, value: bytes) -> None:
        """Up to the memory of this entry. A damaged one costs what it names only: it says nothing of those before."""
        with suppress(rows.DamagedRow):
            rows.open_row(tables.EDGES_IN, key, value)
            self._bare_to = int(KEY64.unpack_from(key)[0])


FOLDS: dict[type, Callable[..., None]] = {
    events.MemoryCreated: created,
    events.Superseded: superseded,
    events.Related: related,
    events.Verified: supported,
    events.Reinforced: supported,
    events.Weakened: supported,
    events.Reaffirmed: supported,
    events.Recovered: supported,
}

"""Open review flags: `flags` (child TSID, source TSID) → seq u64 of the record that set it, CRC-32C.

A source that is forgotten, or weakened until it is dormant, flags each memory that was made from it directly, once.
The flag goes when the source comes back (recovered, verified, or boosted by the verification of what was made from
it), and when the flagged memory itself is verified: somebody has looked at it.
Invariant: as many flags of a child as its memory row counts.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator

from journal import events
from journal.record import Record
from projections import rows, tables
from projections.state import KEY64, KEY64_64, State

_SEQ = struct.Struct("<Q")


def _set(state: State, children: Iterable[events.Ref], source: int, seq: int) -> None:
    for _, child in children:
        key = KEY64_64.pack(child, source)
        state.put(tables.FLAGS, key, rows.seal_row(key, _SEQ.pack(seq)))


def _clear(state: State, children: Iterable[events.Ref], source: int) -> None:
    for _, child in children:
        state.delete(tables.FLAGS, KEY64_64.pack(child, source))


def flagging(state: State, record: Record, event: events.Forgotten | events.Weakened) -> None:
    _set(state, event.flagged, event.memory[1], record.seq)


def recovered(state: State, record: Record, event: events.Recovered) -> None:
    _clear(state, event.cleared, event.memory[1])


def verified(state: State, record: Record, event: events.Verified) -> None:
    tsid = event.memory[1]
    _clear(state, event.cleared, tsid)
    for source, child in event.boost_cleared:
        _clear(state, (child,), source[1])
    for key, _ in list(state.entries(tables.FLAGS, KEY64.pack(tsid))):
        state.delete(tables.FLAGS, key)


def is_flagged_by(state: State, child: int, source: int) -> bool:
    """Whether `child` has an open flag that `source` set. Raises DamagedRow."""
    key = KEY64_64.pack(child, source)
    value = state.get(tables.FLAGS, key)
    return value is not None and bool(rows.open_row(tables.FLAGS, key, value))


def of_child(state: State, child: int) -> list[tuple[int, int]]:
    """`(source, seq of the record that flagged)` of each open flag of `child`. Raises DamagedRow."""
    return [
        (KEY64_64.unpack(key)[1], _SEQ.unpack(payload)[0])
        for key, payload in state.entries(tables.FLAGS, KEY64.pack(child))
    ]


def all_open(state: State) -> Iterator[tuple[int, int]]:
    """`(child, source)` of every open flag of every tenant, in that order. Raises DamagedRow."""
    for key, _ in state.entries(tables.FLAGS, b""):
        yield KEY64_64.unpack(key)


FOLDS: dict[type, Callable[..., None]] = {
    events.Forgotten: flagging,
    events.Weakened: flagging,
    events.Recovered: recovered,
    events.Verified: verified,
}

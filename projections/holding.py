"""Which memories are held: `held` (tenant u32, TSID u64) → seq u64 of the record that holds it, CRC-32C.

Part of the projection `memories`: the mark in a memory's row and its entry here come and go together.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from journal import events
from journal.codes import Mark
from journal.record import Record
from projections import rows, tables
from projections.memories import known, store_row, touch
from projections.state import KEY32, KEY32_64, State

_SEQ = struct.Struct("<Q")


def held(state: State, record: Record, event: events.Held) -> None:
    bit = 1 << Mark.HELD
    for _, tsid in event.memories:
        row = known(state, tsid)
        store_row(state, tsid, row._replace(marks=row.marks | bit if event.on else row.marks & ~bit))
        touch(state, tsid, record.seq)
        key = KEY32_64.pack(row.tenant, tsid)
        if event.on:
            state.put(tables.HELD, key, rows.seal_row(key, _SEQ.pack(record.seq)))
        else:
            state.delete(tables.HELD, key)


def held_by(state: State, tenant: int, tsid: int) -> int:
    """The record that holds a memory, or noted why anew; 0 when it isn't held. Raises DamagedRow."""
    key = KEY32_64.pack(tenant, tsid)
    value = state.get(tables.HELD, key)
    return 0 if value is None else int(_SEQ.unpack(rows.open_row(tables.HELD, key, value))[0])


def of_tenant(state: State, tenant: int) -> Iterator[tuple[int, int]]:
    """`(memory, record that holds it)` of all that is held of a tenant, by id. Raises DamagedRow."""
    for key, payload in state.entries(tables.HELD, KEY32.pack(tenant)):
        yield KEY32_64.unpack(key)[1], _SEQ.unpack(payload)[0]


FOLDS: dict[type, Callable[..., None]] = {events.Held: held}

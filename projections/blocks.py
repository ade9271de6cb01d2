"""A coarse index over the journal: which blocks of 256 records hold records of an actor, a producer, a
time, a vault slot.

`blocks`, key kind u8, id u64, block u32 (big-endian). Kinds: ACTOR (uid), PRODUCER (number): value is the
CRC-32C of the key. TIME (id 0): least and greatest `at_ms` of the block, i64 little-endian, CRC-32C.
SLOT (id: vault slot // 64, block 0): seq u64 of the first record that owns a slot of that group, CRC-32C.
Coarse, so that a write costs next to nothing; a question scans the few blocks that it names.
"""

from __future__ import annotations

import struct

from journal import events
from journal.record import Record
from projections import rows, tables
from projections.state import State

BLOCK_RECORDS = 256
SLOT_GROUP = 64
ACTOR, PRODUCER, TIME, SLOT = 1, 2, 3, 4

KEY = struct.Struct(">BQI")
BOUNDS = struct.Struct("<qq")
_SEQ = struct.Struct("<Q")
_HOUSEKEEPING = frozenset(events.HOUSEKEEPING)


def fold(state: State, record: Record) -> None:
    event = record.event
    if type(event) in _HOUSEKEEPING:
        return
    block = record.seq // BLOCK_RECORDS
    # Most records of a batch say what one before them said: those cost no look at the database.
    noted = state.noted
    said = (ACTOR, record.actor.uid, record.at_ms, block)
    if said not in noted:
        noted.add(said)
        _mark(state, KEY.pack(ACTOR, record.actor.uid, block))
        _bound(state, record.at_ms, block)
    if type(event) is events.MemoryCreated and event.producer:
        said = (PRODUCER, event.producer, 0, block)
        if said not in noted:
            noted.add(said)
            _mark(state, KEY.pack(PRODUCER, event.producer, block))
    for part in getattr(event, "parts", ()):
        if part.owner_seq == record.seq and part.slot:
            said = (SLOT, part.slot // SLOT_GROUP, 0, 0)
            if said not in noted:
                noted.add(said)
                _own(state, part.slot // SLOT_GROUP, record.seq)


def _mark(state: State, key: bytes) -> None:
    changes = state.changes[tables.BLOCKS]
    if key not in changes:
        changes[key] = rows.seal_row(key, b"")


def _bound(state: State, at_ms: int, block: int) -> None:
    key = KEY.pack(TIME, 0, block)
    value = state.get(tables.BLOCKS, key)
    least = greatest = at_ms
    if value is not None:
        least, greatest = BOUNDS.unpack(rows.open_row(tables.BLOCKS, key, value))
        if least <= at_ms <= greatest:
            return
        least, greatest = min(least, at_ms), max(greatest, at_ms)
    state.put(tables.BLOCKS, key, rows.seal_row(key, BOUNDS.pack(least, greatest)))


def _own(state: State, group: int, seq: int) -> None:
    key = KEY.pack(SLOT, group, 0)
    if state.get(tables.BLOCKS, key) is None:
        state.put(tables.BLOCKS, key, rows.seal_row(key, _SEQ.pack(seq)))

"""How much each tenant keeps: `usage` tenant u32 → records u64, content bytes i64 (little-endian), CRC-32C.

Content bytes are the plaintext lengths of the sealed parts whose keys are there: a part counts once, for the tenant
of the record that owns it, and no longer when its key is destroyed. With 512 bytes for each record they are what a
tenant's `max_bytes` is held against: near to what lies on the disk, and the same on every machine.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import msgspec

from journal import events
from journal.destroying import destroyed_parts
from journal.record import Record
from projections import rows, tables
from projections.state import KEY32, Snapshot, State

RECORD_BYTES = 512
_ROW = struct.Struct("<Qq")


class Usage(NamedTuple):
    records: int
    content_bytes: int

    @property
    def total_bytes(self) -> int:
        return self.records * RECORD_BYTES + self.content_bytes


NOTHING = Usage(0, 0)


class _Growing(msgspec.Struct, gc=False):
    """A tenant's row while a batch is folded: counted up in place, packed once."""

    records: int
    content_bytes: int


def fold(state: State, record: Record) -> None:
    """Count a record of a tenant."""
    tenant = record.tenant
    if not tenant:
        return
    event = record.event
    key = KEY32.pack(tenant)
    growing: _Growing | None = state.deferred(tables.USAGE, key)
    if growing is None:
        growing = _Growing(*of_tenant(state, tenant))
        state.defer(tables.USAGE, key, growing, _pack)
    growing.records += 1
    for part in getattr(event, "parts", ()):
        if part.owner_seq == record.seq and part.slot:
            growing.content_bytes += part.length
    if type(event) is not events.MemoryCreated:  # the most frequent: it destroys nothing
        growing.content_bytes -= sum([part.length for part in destroyed_parts(event) if part.slot])


def _pack(key: bytes, row: _Growing) -> bytes:
    return rows.seal_row(key, _ROW.pack(row.records, row.content_bytes))


def of_tenant(state: State, tenant: int) -> Usage:
    """What a tenant keeps, as of the snapshot and what was folded since. Raises DamagedRow."""
    key = KEY32.pack(tenant)
    growing: _Growing | None = state.deferred(tables.USAGE, key)
    if growing is not None:
        return Usage(growing.records, growing.content_bytes)
    value = state.get(tables.USAGE, key)
    return NOTHING if value is None else unpack(key, value)


def find(snapshot: Snapshot, tenant: int) -> Usage:
    """What a tenant keeps, as of a snapshot. Raises DamagedRow."""
    key = KEY32.pack(tenant)
    value = snapshot.get(tables.USAGE, key)
    return NOTHING if value is None else unpack(key, value)


def unpack(key: bytes, value: bytes) -> Usage:
    """A row of the table. Raises DamagedRow."""
    return Usage(*_ROW.unpack(rows.open_row(tables.USAGE, key, value)))

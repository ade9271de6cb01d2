"""Partitions: who they belong to, their day, state, rows and dead rows.

Value of `partitions`: msgpack array of `PartitionRow`, CRC-32C. Invariant: `rows` is the offset that the
next memory of the partition gets.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta

import msgspec

from journal import events
from journal.codes import PartitionState, Tier
from journal.record import Record
from projections import rows, tables
from projections.state import KEY32, State


class PartitionRow(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """One partition. `day` is days since 1970-01-01 in `zone`, None outside the episodic tier."""

    tenant: int
    tier: int
    day: int | None
    part: int
    zone: str | None
    state: int
    rows: int
    dead: int
    since_ms: int


_ENCODE = msgspec.msgpack.Encoder().encode
_DECODE = msgspec.msgpack.Decoder(PartitionRow).decode


def unpack(key: bytes, value: bytes) -> PartitionRow:
    """The partition row in `value`. Raises DamagedRow."""
    return _DECODE(rows.open_row(tables.PARTITIONS, key, value))


def load(state: State, number: int) -> PartitionRow:
    """The partition `number`, which must exist."""
    key = KEY32.pack(number)
    changed: PartitionRow | None = state.deferred(tables.PARTITIONS, key)
    if changed is not None:
        return changed
    value = state.get(tables.PARTITIONS, key)
    if value is None:
        raise LookupError(f"the journal speaks of partition {number} before it was opened")
    return unpack(key, value)


def _pack(key: bytes, row: PartitionRow) -> bytes:
    return rows.seal_row(key, _ENCODE(row))


def store(state: State, number: int, row: PartitionRow) -> None:
    key = KEY32.pack(number)
    state.defer(tables.PARTITIONS, key, row, _pack)


def row_appended(state: State, number: int) -> int:
    """Count one more row and return its offset."""
    key = KEY32.pack(number)
    row: PartitionRow | None = state.deferred(tables.PARTITIONS, key)
    if row is None:
        row = load(state, number)
        store(state, number, row)
    offset = row.rows
    row.rows = offset + 1
    return offset


def rows_died(state: State, number: int, by: int) -> None:
    row = load(state, number)
    row.dead += by
    store(state, number, row)


def opened(state: State, record: Record, event: events.PartitionOpened) -> None:
    store(
        state,
        event.number,
        PartitionRow(
            record.tenant, event.tier, event.day, event.part, event.zone,
            int(PartitionState.ACTIVE), 0, 0, record.at_ms,
        ),
    )  # fmt: skip
    state.counters.partition = max(state.counters.partition, event.number)


def changed(state: State, record: Record, event: events.PartitionChanged) -> None:
    row = load(state, event.number)
    row.state = event.new
    row.since_ms = record.at_ms
    store(state, event.number, row)


FOLDS: dict[type, Callable[..., None]] = {
    events.PartitionOpened: opened,
    events.PartitionChanged: changed,
}


def name_of(row: PartitionRow) -> str:
    """`<day>[.n]`, `semantic` or `procedural`."""
    if row.day is None:
        return Tier(row.tier).wire
    day = (date(1970, 1, 1) + timedelta(days=row.day)).isoformat()
    return f"{day}.{row.part}" if row.part else day

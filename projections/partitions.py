"""Partitions: who they belong to, their day, state, rows and dead rows.

Value of `partitions`: msgpack array of `PartitionRow`, CRC-32C. Invariant: `rows` is the offset that the
next memory of the partition gets. While a vacuum goes through a partition the rows from `packed` up to `reached` are
blank (zeros): what was before them lies densely, what is behind them was not looked at yet.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from typing import Any, get_args

import msgspec

from journal import events
from journal.codes import PartitionState, Tier
from journal.events import SealedPart
from journal.record import Record
from journal.sealing import NONCE_BYTES, TAG_BYTES
from projections import rows, tables
from projections.state import KEY32, State

SEALING_BYTES = NONCE_BYTES + TAG_BYTES
"""By so much a ciphertext is longer than what it seals."""


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
    unsettled: int = 0
    """Living turns that no pass has settled."""
    sealed_bytes: int = 0
    """Of the ciphertexts that its memories brought, and of the words about them."""
    packed: int = 0
    reached: int = 0
    late: int = 0
    """Memories that were purged after a vacuum had taken their row."""
    kept: int = 0
    """Dead rows that the last vacuum left: what is held or quarantined, and what died while it went on."""

    @property
    def count(self) -> int:
        """How many rows there are, blank ones aside."""
        return self.rows - (self.reached - self.packed)

    @property
    def ratio(self) -> float:
        """Dead over rows, 0 of none."""
        return self.dead / self.count if self.count else 0.0

    @property
    def bytes(self) -> int:
        """What its header rows and ciphertexts come to."""
        return self.count * rows.HEADER_BYTES + self.sealed_bytes

    @property
    def accepts(self) -> bool:
        """Whether new memories are filed in it."""
        return self.state == PartitionState.ACTIVE


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


def row_appended(state: State, number: int, waits: bool, sealed_bytes: int) -> int:
    """Count one more row and return its offset. `waits`: a living turn that no pass has settled."""
    key = KEY32.pack(number)
    row: PartitionRow | None = state.deferred(tables.PARTITIONS, key)
    if row is None:
        row = load(state, number)
        store(state, number, row)
    offset = row.rows
    row.rows = offset + 1
    row.unsettled += waits
    row.sealed_bytes += sealed_bytes
    return offset


def rows_died(state: State, number: int, by: int, waits: bool) -> None:
    """A row died (`by` 1) or lives again (-1)."""
    row = load(state, number)
    row.dead += by
    row.kept = min(row.kept, row.dead)  # one that was left lives again
    row.unsettled -= by * waits
    _changed(state, number, row)


def turn_settled(state: State, number: int, by: int) -> None:
    """A living turn was settled (`by` 1), or waits again (-1)."""
    row = load(state, number)
    row.unsettled -= by
    _changed(state, number, row)


def row_returned(state: State, number: int, waits: bool) -> int:
    """A memory whose row was taken lives again; the offset of its new row."""
    state.unsteady.add(number)
    return row_appended(state, number, waits, 0)


def purged_late(state: State, number: int) -> None:
    """A memory whose row was taken is purged."""
    row = load(state, number)
    row.late += 1
    store(state, number, row)


def own_bytes(record: Record, parts: tuple[SealedPart, ...]) -> int:
    """The bytes of the ciphertexts that a record brought."""
    return sum(part.length + SEALING_BYTES for part in parts if part.owner_seq == record.seq)


def counted_with(state: State, event: object) -> int | None:
    """The partition that what a record has sealed counts with: that of the memory it made, or that it is about. None
    when it is about none: the name of a session."""
    if isinstance(event, events.MemoryCreated):
        return event.partition
    memory = getattr(event, "memory", None)
    about = None if memory is None else state.memory(memory[1])
    return None if about is None else about.partition


def words_kept(state: State, record: Record, event: Any) -> None:
    """What was said of a memory counts with its partition."""
    number = counted_with(state, event) if event.parts else None
    if number is not None:
        ciphertexts_counted(state, number, own_bytes(record, event.parts))


def ciphertexts_counted(state: State, number: int, by_bytes: int) -> None:
    """So much more ciphertext counts with a partition, or less."""
    row = load(state, number)
    row.sealed_bytes += by_bytes
    store(state, number, row)


def _changed(state: State, number: int, row: PartitionRow) -> None:
    state.unsteady.add(number)
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
    _changed(state, event.number, row)


FOLDS: dict[type, Callable[..., None]] = {
    events.PartitionOpened: opened,
    events.PartitionChanged: changed,
    **{each: words_kept for each in get_args(events.AnyEvent) if {"memory", "parts"} <= set(each.__struct_fields__)},
}


def name_of(row: PartitionRow) -> str:
    """`<day>[.n]`, `semantic` or `procedural`."""
    if row.day is None:
        return Tier(row.tier).wire
    day = (date(1970, 1, 1) + timedelta(days=row.day)).isoformat()
    return f"{day}.{row.part}" if row.part else day

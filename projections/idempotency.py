"""Idempotency: which record holds the answer to a key.

`idempotency`, key tenant u32 big-endian, keyed hash (16 bytes): seq u64 big-endian, CRC-32C.
"""

from __future__ import annotations

from collections.abc import Callable

from journal import events
from journal.record import Record, seq_key
from projections import rows, tables
from projections.state import KEY32, State


def idempotency_key(tenant: int, key_hash: bytes) -> bytes:
    """The database key of a command's key."""
    return KEY32.pack(tenant) + key_hash


def created(state: State, record: Record, event: events.MemoryCreated) -> None:
    if event.key is not None:
        _put(state, record, event.key)


def keyed(state: State, record: Record, event: events.Keyed) -> None:
    _put(state, record, event.key)


def _put(state: State, record: Record, key_hash: bytes) -> None:
    key = idempotency_key(record.tenant, key_hash)
    state.put(tables.IDEMPOTENCY, key, rows.seal_row(key, seq_key(record.seq)))


def find(state: State, tenant: int, key_hash: bytes) -> int | None:
    """The record that answers the key, or None. Raises DamagedRow."""
    key = idempotency_key(tenant, key_hash)
    value = state.get(tables.IDEMPOTENCY, key)
    return None if value is None else int.from_bytes(rows.open_row(tables.IDEMPOTENCY, key, value), "big")


FOLDS: dict[type, Callable[..., None]] = {events.MemoryCreated: created, events.Keyed: keyed}

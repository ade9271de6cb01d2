"""Idempotency: which record holds the answer to a key.

`idempotency`, key tenant u32 big-endian, keyed hash (16 bytes): seq u64 big-endian, CRC-32C.
`keyed_memories`, key TSID u64, seq u64, and `keyed_sessions`, key session u32, seq u64, big-endian: CRC-32C. The keyed
answers that speak of it: what was asked then goes when it is purged.
"""

from __future__ import annotations

from collections.abc import Callable

from journal import events
from journal.record import Record, seq_key
from projections import rows, tables
from projections.state import KEY32, KEY32_64, KEY64, KEY64_64, State


def idempotency_key(tenant: int, key_hash: bytes) -> bytes:
    """The database key of a command's key."""
    return KEY32.pack(tenant) + key_hash


def created(state: State, record: Record, event: events.MemoryCreated) -> None:
    if event.key is not None:
        _put(state, record, event.key)


def keyed(state: State, record: Record, event: events.Keyed) -> None:
    _put(state, record, event.key)
    for tsid in event.memories:
        about = KEY64_64.pack(tsid, record.seq)
        state.put(tables.KEYED_MEMORIES, about, rows.seal_row(about, b""))
    for number in event.sessions:
        about = KEY32_64.pack(number, record.seq)
        state.put(tables.KEYED_SESSIONS, about, rows.seal_row(about, b""))


def about_memory(state: State, tsid: int) -> list[int]:
    """The records of the keyed answers that speak of a memory. Raises DamagedRow."""
    return [KEY64_64.unpack(key)[1] for key, _ in state.entries(tables.KEYED_MEMORIES, KEY64.pack(tsid))]


def about_session(state: State, number: int) -> list[int]:
    """The records of the keyed answers that speak of a session. Raises DamagedRow."""
    return [KEY32_64.unpack(key)[1] for key, _ in state.entries(tables.KEYED_SESSIONS, KEY32.pack(number))]


def _put(state: State, record: Record, key_hash: bytes) -> None:
    key = idempotency_key(record.tenant, key_hash)
    state.put(tables.IDEMPOTENCY, key, rows.seal_row(key, seq_key(record.seq)))


def find(state: State, tenant: int, key_hash: bytes) -> int | None:
    """The record that answers the key, or None. Raises DamagedRow."""
    key = idempotency_key(tenant, key_hash)
    value = state.get(tables.IDEMPOTENCY, key)
    return None if value is None else int.from_bytes(rows.open_row(tables.IDEMPOTENCY, key, value), "big")


FOLDS: dict[type, Callable[..., None]] = {events.MemoryCreated: created, events.Keyed: keyed}

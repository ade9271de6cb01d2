"""Numbers for tenants, producers and entities.

`tenants` number → msgpack `TenantRow`, `producers` number → msgpack `ProducerRow`, `entities` number →
msgpack `EntityRow`, each with a CRC-32C. The name of an entity is sealed in the record `owner_seq`.
`naming` (entity u32, TSID u64) → CRC-32C: the memories that name an entity. When the last is purged, its name goes too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from journal import events
from journal.codes import TenantState
from journal.record import Record
from projections import rows, tables
from projections.state import KEY32, KEY32_64, State


class TenantRow(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    name: str
    state: int
    enforce: bool


class ProducerRow(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    tenant: int
    agent: str | None
    model: str | None
    version: str | None
    extractor: str | None


class EntityRow(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    tenant: int
    owner_seq: int


_ENCODE = msgspec.msgpack.Encoder().encode
_TENANT = msgspec.msgpack.Decoder(TenantRow).decode
_PRODUCER = msgspec.msgpack.Decoder(ProducerRow).decode
_ENTITY = msgspec.msgpack.Decoder(EntityRow).decode


def _put(state: State, database: str, number: int, row: msgspec.Struct) -> None:
    key = KEY32.pack(number)
    state.put(database, key, rows.seal_row(key, _ENCODE(row)))


def tenant_began(state: State, record: Record, event: events.TenantBegan) -> None:
    _put(state, tables.TENANTS, event.number, TenantRow(event.name, int(TenantState.INITIALIZING), True))
    state.counters.tenant = max(state.counters.tenant, event.number)


def tenant_changed(state: State, record: Record, event: events.TenantChanged) -> None:
    key = KEY32.pack(record.tenant)
    value = state.get(tables.TENANTS, key)
    if value is None:
        raise LookupError(f"the journal speaks of tenant {record.tenant} before it began")
    row = unpack_tenant(key, value)
    state_code = row.state if event.state is None else event.state
    enforce = row.enforce if event.enforce is None else event.enforce
    _put(state, tables.TENANTS, record.tenant, TenantRow(row.name, state_code, enforce))


def producer_named(state: State, record: Record, event: events.ProducerNamed) -> None:
    row = ProducerRow(record.tenant, event.agent, event.model, event.version, event.extractor)
    _put(state, tables.PRODUCERS, event.number, row)
    state.counters.producer = max(state.counters.producer, event.number)


def entity_named(state: State, record: Record, event: events.EntityNamed) -> None:
    _put(state, tables.ENTITIES, event.number, EntityRow(record.tenant, record.seq))
    state.counters.entity = max(state.counters.entity, event.number)


def memory_created(state: State, record: Record, event: events.MemoryCreated) -> None:
    for entity in event.entities:
        key = KEY32_64.pack(entity, event.id)
        state.put(tables.NAMING, key, rows.seal_row(key, b""))


def memories_naming(state: State, entity: int) -> Iterator[int]:
    """The memories that name an entity, purged or not, by id. Raises DamagedRow."""
    for key, _ in state.entries(tables.NAMING, KEY32.pack(entity)):
        yield KEY32_64.unpack(key)[1]


def entity_of(state: State, number: int) -> EntityRow | None:
    """The entity of that number. Raises DamagedRow."""
    key = KEY32.pack(number)
    value = state.get(tables.ENTITIES, key)
    return None if value is None else unpack_entity(key, value)


def unpack_tenant(key: bytes, value: bytes) -> TenantRow:
    """The tenant row in `value`. Raises DamagedRow."""
    return _TENANT(rows.open_row(tables.TENANTS, key, value))


def unpack_producer(key: bytes, value: bytes) -> ProducerRow:
    """The producer row in `value`. Raises DamagedRow."""
    return _PRODUCER(rows.open_row(tables.PRODUCERS, key, value))


def producer_of(state: State, number: int) -> ProducerRow | None:
    """The producer of that number; None for 0. Raises DamagedRow."""
    key = KEY32.pack(number)
    value = state.get(tables.PRODUCERS, key) if number else None
    return None if value is None else unpack_producer(key, value)


def unpack_entity(key: bytes, value: bytes) -> EntityRow:
    """The entity row in `value`. Raises DamagedRow."""
    return _ENTITY(rows.open_row(tables.ENTITIES, key, value))


FOLDS: dict[type, Callable[..., None]] = {
    events.TenantBegan: tenant_began,
    events.TenantChanged: tenant_changed,
    events.ProducerNamed: producer_named,
    events.EntityNamed: entity_named,
    events.MemoryCreated: memory_created,
}

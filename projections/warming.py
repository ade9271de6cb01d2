"""Warming the names that decide writes: tenants, producers, sessions, entities, open partitions.

From the projections and the sealed names. A purged name is passed over: nothing can be found by it again.
"""

from __future__ import annotations

from journal import events
from journal.codes import Part, PartitionState
from journal.errors import DamagedRecord, PartUnreadable
from journal.sealing import keyed_hash
from journal.store import Store
from journal.unsealing import unseal
from projections import names, partitions, rows, tables
from projections.store import ProjectionStore, TxnSnapshot
from projections.workingset import WorkingSet


def warm(known: WorkingSet, store: Store, projections: ProjectionStore) -> None:
    """Fill `known` from what is at rest. Raises DamagedRow, DamagedRecord."""
    with projections.snapshot() as snapshot:
        _tenants(known, snapshot)
        _producers(known, snapshot)
        _partitions(known, snapshot)
        _Sealed(known, store, snapshot).load()


def _tenants(known: WorkingSet, snapshot: TxnSnapshot) -> None:
    for key, value in snapshot.prefix(tables.TENANTS, b""):
        number = int.from_bytes(key, "big")
        row = names.unpack_tenant(key, value)
        known.tenants[number] = row
        known.tenant_numbers[row.name] = number


def _producers(known: WorkingSet, snapshot: TxnSnapshot) -> None:
    for key, value in snapshot.prefix(tables.PRODUCERS, b""):
        row = names.unpack_producer(key, value)
        stamp = (row.tenant, row.agent, row.model, row.version, row.extractor)
        known.producers[stamp] = int.from_bytes(key, "big")


def _partitions(known: WorkingSet, snapshot: TxnSnapshot) -> None:
    for key, value in snapshot.prefix(tables.PARTITIONS, b""):
        row = partitions.unpack(key, value)
        if row.state == PartitionState.ACTIVE:
            known.open_partitions[row.tenant, row.tier] = (int.from_bytes(key, "big"), row.day)


class _Sealed:
    """The names that have to be unsealed."""

    def __init__(self, known: WorkingSet, store: Store, snapshot: TxnSnapshot) -> None:
        self._known = known
        self._store = store
        self._snapshot = snapshot
        self._hash_key = store.vault.hash_key

    def load(self) -> None:
        with self._store.env.read() as txn:
            self._txn = txn
            for key, value in self._snapshot.prefix(tables.SESSIONS, b""):
                row = rows.unpack_session(key, value)
                self._session(int.from_bytes(key, "big"), row)
            for key, value in self._snapshot.prefix(tables.ENTITIES, b""):
                entity = names.unpack_entity(key, value)
                self._entity(int.from_bytes(key, "big"), entity)

    def _event(self, seq: int) -> object:
        record = self._store.log.get(self._txn, seq)
        if record is None:
            raise DamagedRecord(seq, "missing")
        return record.event

    def _name(self, event: object) -> bytes | None:
        for part in getattr(event, "parts", ()):
            if part.part != Part.NAME:
                continue
            try:
                return unseal(self._store.log, self._store.sealer, self._txn, part)
            except PartUnreadable:
                return None
        return None

    def _session(self, number: int, row: rows.SessionRow) -> None:
        event = self._event(row.owner_seq)
        if not isinstance(event, events.SessionOpened):
            raise DamagedRecord(row.owner_seq, "event")
        known = self._known
        known.session_agents[number] = event.agent
        live = (row.tenant, row.uid, event.agent)
        if row.closed_at < 0:
            known.live[live] = known.live.get(live, frozenset()) | {number}
        name = self._name(event)
        if name is None:
            return
        tenant = row.tenant.to_bytes(4, "big")
        hashed = keyed_hash(self._hash_key, b"session", tenant, event.agent.encode(), b"\0", name)
        known.sessions[row.tenant, event.agent, hashed] = number

    def _entity(self, number: int, entity: names.EntityRow) -> None:
        name = self._name(self._event(entity.owner_seq))
        if name is None:
            return
        hashed = keyed_hash(self._hash_key, b"entity", entity.tenant.to_bytes(4, "big"), name)
        self._known.entities[entity.tenant, hashed] = number

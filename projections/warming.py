"""Warming the names that decide writes: tenants, producers, sessions, entities, open partitions.

From the projections and the sealed names. A purged name is passed over: nothing can be found by it again.
"""

from __future__ import annotations

from collections.abc import Callable

from journal import events
from journal.codes import Part, PartitionState
from journal.errors import DamagedRecord, PartUnreadable
from journal.fingerprints import open_fingerprints
from journal.particulars import decode_particulars
from journal.store import Store
from journal.unsealing import unseal
from journal.verify import Finding
from projections import names, partitions, rows, tables
from projections.livesessions import LEASE_MS
from projections.store import ProjectionStore, TxnSnapshot
from projections.workingset import NO_DEFAULTS, SessionDefaults, WorkingSet, entity_hash, session_hash

STEP_NAMES = 64
Step = Callable[[], None]
"""Called between a few names; what it raises ends the warming."""


def nothing() -> None:
    """The step of whoever wants to hear of none."""


def warm(known: WorkingSet, store: Store, projections: ProjectionStore, now_ms: int, step: Step = nothing) -> None:
    """Fill `known` from what is at rest. Raises DamagedRow, and what `step` raises."""
    known.hash_key = store.vault.hash_key
    with projections.snapshot() as snapshot:
        tenants(known, snapshot)
        _producers(known, snapshot)
        _partitions(known, snapshot)
        _blocked(known, store)
        _Sealed(known, store, snapshot, now_ms).load(step)


def tenants(known: WorkingSet, snapshot: TxnSnapshot) -> None:
    """Their names and numbers. Raises DamagedRow."""
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
        known.partitions[row.tenant] = (*known.partitions.get(row.tenant, ()), int.from_bytes(key, "big"))
        if row.state == PartitionState.ACTIVE:
            known.open_partitions[row.tenant, row.tier] = (int.from_bytes(key, "big"), row.day)


def _blocked(known: WorkingSet, store: Store) -> None:
    """The texts that purges keep from coming again. Raises DamagedRecord."""
    seqs = store.log.destroying_seqs()
    with store.env.read() as txn:
        for seq in seqs:
            record = store.log.get(txn, seq)
            event = None if record is None else record.event
            if record is not None and isinstance(event, events.Purged) and event.fingerprint_key is not None:
                found_by = open_fingerprints(known.hash_key, event.fingerprint_key, event.fingerprints)
                known.blocked.setdefault(record.tenant, set()).update(found_by)


class _Sealed:
    """The names that have to be unsealed."""

    def __init__(self, known: WorkingSet, store: Store, snapshot: TxnSnapshot, now_ms: int) -> None:
        self._now_ms = now_ms
        self._damaged = False
        self._known = known
        self._store = store
        self._snapshot = snapshot
        self._hash_key = store.vault.hash_key
        self._with_model = {number for stamp, number in known.producers.items() if stamp[2] is not None}

    def load(self, step: Step) -> None:
        with self._store.env.read() as txn:
            self._txn = txn
            for count, (key, value) in enumerate(self._snapshot.prefix(tables.SESSIONS, b"")):
                if count % STEP_NAMES == 0:
                    step()
                row = rows.unpack_session(key, value)
                self._session(int.from_bytes(key, "big"), row)
            for count, (key, value) in enumerate(self._snapshot.prefix(tables.ENTITIES, b"")):
                if count % STEP_NAMES == 0:
                    step()
                entity = names.unpack_entity(key, value)
                self._entity(int.from_bytes(key, "big"), entity)

    def _event(self, seq: int) -> object:
        """The event of a record; None when it is damaged, which costs its name only and becomes a finding."""
        try:
            record = self._store.log.get(self._txn, seq)
            if record is None:
                raise DamagedRecord(seq, "missing")
        except DamagedRecord as error:
            what = f"the name that record {seq} brought can't be read: {error}"
            self._store.note(Finding("name_damaged", seq, what, error.action))
            return None
        return record.event

    def _name(self, event: object) -> bytes | None:
        return self._part(event, Part.NAME)

    def _part(self, event: object, code: Part) -> bytes | None:
        """The plaintext of a part; None when there is none, or it can't be read any more."""
        for part in getattr(event, "parts", ()):
            if part.part != code:
                continue
            try:
                return unseal(self._store.log, self._store.sealer, self._txn, part)
            except PartUnreadable as error:
                if error.state == "damaged":
                    what = f"what record {error.seq} sealed can't be read: {error}"
                    self._store.note(Finding("name_damaged", error.seq, what, "Run `noctuary audit`."))
                    self._damaged = True
                return None
        return None

    def _session(self, number: int, row: rows.SessionRow) -> None:
        event = self._event(row.owner_seq)
        if not isinstance(event, events.SessionOpened):
            return
        known = self._known
        known.session_agents[number] = event.agent
        defaults = self._defaults(self._event(row.defaults_seq) if row.defaults_seq != row.owner_seq else event)
        if defaults != NO_DEFAULTS:
            known.session_defaults[number] = defaults
        if not row.closed:
            key = (row.tenant, row.uid, event.agent)
            if self._now_ms - row.last_at < LEASE_MS:
                known.live.add(key, number)
            else:
                known.live.set_aside(key, number, row.last_at)
        self._damaged = False
        name = self._name(event)
        if name is None:
            if self._damaged:
                known.unreadable.add((row.tenant, event.agent))
            return
        tenant = known.tenants[row.tenant].name
        known.sessions[row.tenant, event.agent, session_hash(self._hash_key, tenant, event.agent, name)] = number

    def _defaults(self, event: object) -> SessionDefaults:
        if not isinstance(event, events.SessionOpened | events.SessionReopened | events.SessionTouched):
            return NO_DEFAULTS
        plaintext = self._part(event, Part.PARTICULARS)
        if plaintext is None:
            return SessionDefaults(event.producer, self._names_model(event.producer), None, None)
        given = decode_particulars(plaintext)
        return SessionDefaults(event.producer, self._names_model(event.producer), given.project, given.subject)

    def _names_model(self, producer: int) -> bool:
        return producer in self._with_model

    def _entity(self, number: int, entity: names.EntityRow) -> None:
        name = self._name(self._event(entity.owner_seq))
        if name is None:
            return
        tenant = self._known.tenants[entity.tenant].name
        self._known.entities[entity.tenant, entity_hash(self._hash_key, tenant, name)] = number

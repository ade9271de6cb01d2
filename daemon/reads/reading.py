"""One question's view of the store: the projection snapshot first, the journal second, its tenants.

Invariant: everything it returns belongs to one of its tenants; unknown and foreign look the same. No edge and
no session crosses tenants, so a question about one thing stays with that thing's tenant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import lmdb

from daemon.asking import NOBODY, Asking
from daemon.reads.cursors import Cursors
from journal import events
from journal.codes import EdgeType, Mark, Part
from journal.errors import DamagedRecord
from journal.events import SealedPart
from journal.particulars import Particulars, decode_particulars
from journal.record import Envelope, Record, decode_envelope, decode_value
from journal.store import Store
from journal.unsealing import unseal
from journal.verify import Finding
from projections import edges, names, revisions, sessions, tables
from projections.bound import BoundState
from projections.header_columns import View
from projections.known_at import mentions
from projections.lineage_scan import values
from projections.rows import DamagedRow, Glance, MemoryRow, SessionRow, glance_in
from projections.sealed_scan import SealedScan
from projections.state import KEY64, KEY64_64, State, Unchanged
from projections.store import ProjectionStore, TxnSnapshot
from projections.workingset import WorkingSet

RESTORE = "Run `noctuary audit`; restore a backup that still has it."


BYTES_A_LOOK = 4_096
"""About as many bytes are opened in the time of one look."""


Look = Callable[[int], "list[edges.Edge]"]
"""The edges that reach a memory."""


class Unavailable(NamedTuple):
    """A section of an answer that could not be read: which, of which memory, and why."""

    section: str
    memory: str
    error: Exception


class Met:
    """What a question came across and went on from: sections that can't be read, and how much led out of the tenant."""

    def __init__(self) -> None:
        self.unavailable: list[Unavailable] = []
        self.foreign = 0

    def pass_over(self, count: int) -> None:
        """What led out of the tenant was not followed. No method of the question's: that would be a circle, which keeps
        its transactions."""
        self.foreign += count


class NotBrief(Exception):
    """A question took more looks at the store than it was given."""


class Reading:
    """Reads for its tenants over one snapshot. Not shared between threads."""

    as_of_ms: int | None = None
    """The moment in the world that the question is about (`daemon/reads/holding.py`); None: no matter when."""
    known_at_ms: int | None = None
    """The moment up to which the journal is asked (`daemon/reads/known.py`); None: now."""

    def __init__(
        self,
        store: Store,
        state: State,
        journal_txn: lmdb.Transaction,
        names_known: WorkingSet,
        tenant_names: tuple[str, ...],
        now_ms: int,
        content: bool,
        budget: int | None = None,
        asking: Asking = NOBODY,
        snapshot: TxnSnapshot | None = None,
    ) -> None:
        self._budget = budget
        self.asking = asking
        self.met = Met()
        self.store = store
        self.now_ms = now_ms
        self.content = content
        self.names = names_known
        self.tenant_names = tenant_names
        numbers = (names_known.tenant_numbers.get(name, 0) for name in tenant_names)
        self.tenants = frozenset(number for number in numbers if number)
        self._bound = BoundState(state, self.tenants, self.met.pass_over)
        self.state: State = self._bound
        self._txn = journal_txn
        self._snapshot = snapshot

    def columns(self) -> View | None:
        """The working set's columns as of this question's snapshot; None when there are none, or not these."""
        known = self.names.columns
        if known is None or self._snapshot is None or known.newest is None:
            return None
        return known.at(self._snapshot.watermark_seq())

    @property
    def snapshot(self) -> TxnSnapshot:
        """The projections' snapshot, for looking at many memories in one go. Ours only are to be asked of it."""
        assert self._snapshot is not None
        return self._snapshot

    def scan(self) -> SealedScan:
        """For opening many memories. Memories of ours only are to be asked of it."""
        assert self._snapshot is not None
        return SealedScan(self.store, self._snapshot, self._txn)

    def memory(self, tsid: int, kind: int | None = None) -> MemoryRow | None:
        """The memory, when it is a tenant's of ours and of that kind."""
        if not self.tenants:
            return None
        self.spend()
        row = self.state.memory(tsid)
        if row is None or row.tenant not in self.tenants or (kind is not None and row.kind != kind):
            return None
        return row

    def glance(self, tsid: int) -> Glance | None:
        """As `memory`, of any kind, as it is now: only what a walk needs. Raises DamagedRow."""
        self.spend()
        return self._bound.glance(tsid)

    def glances(self, tsids: list[int]) -> dict[int, Glance]:
        """Those of many memories that are a tenant's of ours. Raises DamagedRow."""
        self.spend(len(tsids))
        keys = [KEY64.pack(tsid) for tsid in sorted(tsids)]
        found = values(self.snapshot, tables.MEMORIES, keys, lambda done, of: self.asking.check())
        read = [(int.from_bytes(key, "big"), glance_in(value)) for key, value in found]
        return {tsid: row for tsid, row in read if row.tenant in self.tenants}

    def spend(self, looks: int = 1) -> None:
        """Count a look at a memory or an edge, or what costs as much as `looks`. Raises NotBrief when there was a
        budget, and it is used up. Nobody can end a question meanwhile that has a budget: it is answered on the thread
        that would hear of it."""
        if self._budget is None:
            self.asking.check()
            return
        self._budget -= looks
        if self._budget < 0:
            raise NotBrief

    def incoming(self, tsid: int, edge_type: int | None = None) -> Iterator[edges.Edge]:
        """The edges that reach a memory of ours."""
        for edge in edges.incoming(self.state, tsid, edge_type):
            self.spend()
            yield edge

    @contextmanager
    def looking(self) -> Iterator[Look]:
        """For the edges that reach many memories of ours, one after the other, with one cursor. Not counted."""
        with self.snapshot.cursor(tables.EDGES_IN) as cursor:
            yield edges.Reaching(cursor)

    def record(self, seq: int) -> Record:
        """Record `seq` of a tenant of ours. Raises DamagedRecord, also when it is not there, or another tenant's: what
        led to it is damaged then."""
        record = self.record_of_any(seq)
        if record.tenant not in self.tenants:
            raise DamagedRecord(seq, "tenant")
        return record

    def record_of_any(self, seq: int) -> Record:
        """Record `seq`, whose tenant is still to be looked at. Raises DamagedRecord, also when it is not there."""
        return decode_value(seq, self._value_of(seq))

    def envelope_of_any(self, seq: int) -> Envelope:
        """As `record_of_any`, without the event."""
        return decode_envelope(seq, self._value_of(seq))

    def _value_of(self, seq: int) -> bytes:
        """A long record costs as much as several looks."""
        value = self.store.log.raw(self._txn, seq)
        if value is None:
            raise DamagedRecord(seq, "missing")
        if len(value) >= BYTES_A_LOOK:
            self.spend(len(value) // BYTES_A_LOOK)
        return value

    def noted_record(self, seq: int, about: int | None = None) -> Record | None:
        """Record `seq`, about that memory of ours if one is named; None when it can't be read, which is a finding then.
        Raises DamagedRow when it is not about that memory."""
        self.spend()
        try:
            return self.record(seq) if about is None else self.record_about(seq, about)
        except DamagedRecord:
            self.note_damage(seq, "what it says")
            return None

    def genesis(self, row: MemoryRow | Glance) -> tuple[Record, events.MemoryCreated]:
        """The record that created a memory."""
        record = self.record(row.seq)
        event = record.event
        if not isinstance(event, events.MemoryCreated):
            raise DamagedRecord(row.seq, "event")
        return record, event

    def evidence(self, tsid: int, row: MemoryRow) -> list[events.Ref]:
        """The memories that support one of ours: named when it was written, and brought since."""
        found = edges.outgoing(self.state, tsid)
        return [(kind, other) for edge_type, kind, other in found if edge_type == EdgeType.EVIDENCE]

    def external_support(self, tsid: int, row: MemoryRow) -> list[int]:
        """The numbers of the records that brought support of one of ours from outside the store since."""
        return edges.external_support(self.state, tsid)

    def seqs_about(self, tsid: int, row: MemoryRow) -> list[int]:
        """The numbers of the records about a memory of ours: the one that created it, and all that touched it since."""
        touching = self.state.entries(tables.TOUCHES, KEY64.pack(tsid))
        return [row.seq, *(int(KEY64_64.unpack(key)[1]) for key, _ in touching)]

    def facts_added(self, tsid: int) -> Iterator[int]:
        """The records of the facts that a memory of ours got later, in order of the facts' ids."""
        return revisions.facts_of(self.state, tsid)

    def record_about(self, seq: int, tsid: int) -> Record:
        """Record `seq`, which the index says is about a memory of ours. Raises DamagedRow when it is another's or about
        something else: the index is wrong then, and nothing of that record may be told. Raises DamagedRecord.
        """
        record = self.record_of_any(seq)
        if record.tenant not in self.tenants or not mentions(record.event, tsid):
            raise DamagedRow(tables.TOUCHES)
        return record

    def cursors(self, query: str) -> Cursors:
        """Those of one query of ours, `query` in one spelling."""
        return Cursors(query, self.store.epoch, self.store.vault.hash_key)

    def note_damage(self, seq: int, what: str) -> None:
        """Record `seq`, or what it names, can't be read: kept as a finding, which `status` tells."""
        self.store.note(Finding("read_damaged", seq, f"{what} of record {seq} can't be read", RESTORE))

    def unseal(self, part: SealedPart) -> bytes:
        """The plaintext of a part. Raises PartUnreadable (purged or damaged)."""
        return unseal(self.store.log, self.store.sealer, self._txn, part)

    def text(self, event: events.MemoryCreated) -> str:
        part = next((p for p in event.parts if p.part == Part.TEXT), None)
        if part is None:
            return ""
        self.spend(1 + part.length // BYTES_A_LOOK)
        return self.unseal(part).decode()

    def particulars(self, parts: tuple[SealedPart, ...]) -> Particulars:
        part = next((p for p in parts if p.part == Part.PARTICULARS), None)
        return Particulars() if part is None else decode_particulars(self.unseal(part))

    def session(self, number: int) -> SessionRow | None:
        self.spend()
        row = self.state.session(number)
        return row if row is not None and row.tenant in self.tenants else None

    def session_number(self, tsid: int) -> int | None:
        number = sessions.number_of(self.state, tsid)
        return number if number is not None and self.session(number) is not None else None

    def producer(self, number: int) -> names.ProducerRow | None:
        return names.producer_of(self.state, number)  # the state has looked whose it is


@contextmanager
def reading(
    store: Store,
    projections: ProjectionStore,
    known: WorkingSet,
    tenant_names: tuple[str, ...],
    now_ms: int,
    content: bool,
    budget: int | None = None,
    asking: Asking = NOBODY,
) -> Iterator[Reading]:
    """Open one question's view."""
    with projections.snapshot() as snapshot, store.env.read() as journal_txn:
        state = Unchanged(snapshot, projections.counters, snapshot.head)
        yield Reading(store, state, journal_txn, known, tenant_names, now_ms, content, budget, asking, snapshot)


def is_purged(row: MemoryRow | Glance) -> bool:
    return row.has(Mark.PURGED)

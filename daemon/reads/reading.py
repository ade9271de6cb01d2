"""One question's view of the store: the projection snapshot first, the journal second, its tenants.

Invariant: everything it returns belongs to one of its tenants; unknown and foreign look the same. No edge and
no session crosses tenants, so a question about one thing stays with that thing's tenant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import lmdb

from daemon.asking import NOBODY, Asking
from daemon.reads.cursors import Cursors
from journal import events
from journal.codes import EdgeType, Mark, Part
from journal.errors import DamagedRecord
from journal.events import SealedPart
from journal.particulars import Particulars, decode_particulars
from journal.record import Record
from journal.store import Store
from journal.unsealing import unseal
from journal.verify import Finding
from projections import edges, names, sessions, tables
from projections.header_columns import View
from projections.lineage_scan import values
from projections.rows import MemoryRow, SessionRow, row_in
from projections.sealed_scan import SealedScan
from projections.state import KEY32, KEY64, KEY64_64, State
from projections.store import ProjectionStore, TxnSnapshot
from projections.workingset import WorkingSet

RESTORE = "Run `noctuary audit`; restore a backup that still has it."


BYTES_A_LOOK = 4_096
"""About as many bytes are opened in the time of one look."""


Look = Callable[[int], "list[edges.Edge]"]
"""The edges that reach a memory."""


class NotBrief(Exception):
    """A question took more looks at the store than it was given."""


class Reading:
    """Reads for its tenants over one snapshot. Not shared between threads."""

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
        self.store = store
        self.state = state
        self.now_ms = now_ms
        self.content = content
        self.names = names_known
        self.tenant_names = tenant_names
        numbers = (names_known.tenant_numbers.get(name, 0) for name in tenant_names)
        self.tenants = frozenset(number for number in numbers if number)
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

    def memories(self, tsids: list[int]) -> dict[int, MemoryRow]:
        """Those of many memories that are a tenant's of ours. Raises DamagedRow."""
        self.spend(len(tsids))
        keys = [KEY64.pack(tsid) for tsid in sorted(tsids)]
        found = values(self.snapshot, tables.MEMORIES, keys, lambda done, of: self.asking.check())
        read = ((KEY64.unpack(key)[0], row_in(value)) for key, value in found)
        return {tsid: row for tsid, row in read if row.tenant in self.tenants}

    def spend(self, looks: int = 1) -> None:
        """Count a look at a memory or an edge, or what costs as much as `looks`. Raises NotBrief when there was a
        budget, and it is used up."""
        self.asking.check()
        if self._budget is not None:
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
            yield partial(edges.reaching, cursor)

    def record(self, seq: int) -> Record:
        """Record `seq`. Raises DamagedRecord, also when it is not there."""
        record = self.store.log.get(self._txn, seq)
        if record is None:
            raise DamagedRecord(seq, "missing")
        return record

    def genesis(self, row: MemoryRow) -> tuple[Record, events.MemoryCreated]:
        """The record that created a memory."""
        record = self.record(row.seq)
        event = record.event
        if not isinstance(event, events.MemoryCreated) or record.tenant not in self.tenants:
            raise DamagedRecord(row.seq, "event")
        return record, event

    def evidence(self, tsid: int, row: MemoryRow) -> list[events.Ref]:
        """The memories that support one of ours: named when it was written, and brought since."""
        found = edges.outgoing(self.state, tsid)
        return [(kind, other) for edge_type, kind, other in found if edge_type == EdgeType.EVIDENCE]

    def seqs_about(self, tsid: int, row: MemoryRow) -> list[int]:
        """The numbers of the records about a memory of ours: the one that created it, and all that touched it since."""
        touching = self.state.prefix(tables.TOUCHES, KEY64.pack(tsid))
        return [row.seq, *(int(KEY64_64.unpack(key)[1]) for key, _ in touching)]

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
        if not number:
            return None
        key = KEY32.pack(number)
        value = self.state.get(tables.PRODUCERS, key)
        return None if value is None else names.unpack_producer(key, value)


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
        state = State(snapshot, projections.counters, snapshot.head)
        yield Reading(store, state, journal_txn, known, tenant_names, now_ms, content, budget, asking, snapshot)


def is_purged(row: MemoryRow) -> bool:
    return row.has(Mark.PURGED)

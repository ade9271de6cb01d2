"""What `decide` may look at: the projections with everything this batch already did, the names of the
working set, sealed content, and numbers to hand out. Bound to one tenant: there is no read without it.
"""

from __future__ import annotations

from collections.abc import Callable

from daemon.refusal import Reason, Refused
from journal.errors import DamagedRecord
from journal.events import SealedPart
from journal.record import Record
from journal.tsid import ClockBeyondIds, TsidSource
from projections import idempotency, partitions, proposals, sessions, tables, vacuumed
from projections.bound import BoundState
from projections.columns import Columns
from projections.proposals import ProposalRow
from projections.rows import DamagedRow, MemoryRow, SessionRow
from projections.state import State
from projections.workingset import WorkingSet


class Numbers:
    """The next number of each series. Taken while a command is decided, kept when it is admitted."""

    def __init__(self, state: State) -> None:
        counters = state.counters
        self.slot = counters.slot
        self.session = counters.session
        self.tenant = counters.tenant
        self.producer = counters.producer
        self.entity = counters.entity
        self.partition = counters.partition


class View:
    """A batch's view of the store at one moment."""

    def __init__(
        self,
        state: State,
        base: WorkingSet,
        pending: WorkingSet,
        tsids: TsidSource,
        now_ms: int,
        record: Callable[[int], Record | None],
        unseal: Callable[[SealedPart], bytes],
        zone: str,
        local_day: Callable[[int], int],
        vacuum_threshold: float,
    ) -> None:
        self._whole = state
        self._record = record
        self.bind(0)
        self.base = base
        self.pending = pending
        self.now_ms = now_ms
        self.unseal = unseal
        self.zone = zone
        self.local_day = local_day
        self.vacuum_threshold = vacuum_threshold
        self.next_seq = state.head.seq + 1
        self.numbers = Numbers(state)
        self._tsids = tsids

    def new_tsid(self) -> int:
        try:
            return self._tsids.next(self.now_ms)
        except ClockBeyondIds as error:
            raise Refused(Reason.UNAVAILABLE, "the daemon's clock is beyond what ids can hold") from error

    def bind(self, tenant: int) -> None:
        """From now on only what this tenant has is seen; 0: nothing. A command in the making does so first."""
        self.tenant = tenant
        self.state: State = BoundState(self._whole, frozenset({tenant}) if tenant else frozenset())

    def record(self, seq: int) -> Record | None:
        """Record `seq`, None when there is none. Raises DamagedRecord, also for another tenant's: what led to it is
        damaged then."""
        record = self._record(seq)
        if record is not None and record.tenant != self.tenant:
            raise DamagedRecord(seq, "tenant")
        return record

    def header_rows(self, partition: int, first: int, until: int) -> Columns:
        """Header rows of a partition with what this batch has changed. Raises DamagedRow, also where it isn't ours."""
        if partitions.load(self.state, partition).tenant != self.tenant:
            raise DamagedRow(tables.PARTITIONS)
        return vacuumed.header_rows(self._whole, partition, first, until)

    def own_record(self, seq: int) -> Record | None:
        """Record `seq`, None when there is none or it is another tenant's: for whoever goes through numbers that may be
        anybody's. Raises DamagedRecord."""
        record = self._record(seq)
        return record if record is not None and record.tenant == self.tenant else None

    def tenant_number(self, name: str) -> int:
        """The number of the tenant, 0 when nothing was ever written to it."""
        return self.pending.tenant_numbers.get(name) or self.base.tenant_numbers.get(name, 0)

    def memory(self, tenant: int, tsid: int) -> MemoryRow | None:
        """The memory, when it exists and is the tenant's."""
        row = self.state.memory(tsid)
        return row if row is not None and row.tenant == tenant else None

    def proposal(self, tenant: int, proposal: int) -> ProposalRow | None:
        """The proposal, when it exists and is the tenant's."""
        row = proposals.get(self.state, proposal)
        return row if row is not None and row.tenant == tenant else None

    def session_number(self, tenant: int, tsid: int) -> int | None:
        number = sessions.number_of(self.state, tsid)
        if number is None:
            return None
        row = self.state.session(number)
        return number if row is not None and row.tenant == tenant else None

    def session(self, number: int) -> SessionRow:
        """A session that something names. Raises DamagedRow, also when it isn't there: a damaged key hides it."""
        row = self.state.session(number)
        if row is None:
            raise DamagedRow(tables.SESSIONS)
        return row

    def answered(self, tenant: int, key_hash: bytes) -> int | None:
        """The record that answers an idempotency key, or None."""
        return idempotency.find(self.state, tenant, key_hash)

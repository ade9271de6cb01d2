"""What the sections of one memory's provenance chain read the store through.

Invariant: every hop is bound to the memory's own tenant, whichever tenants the question may read. What leads out of it
is passed over and counted, and a number or id of another tenant's is null. One that leads to nothing at all is damage:
what was once named has a row for ever, so a section that needs it can't be told.
"""

from __future__ import annotations

from typing import TypeVar

from daemon.reads.reading import Reading
from journal import events
from journal.codes import Via
from journal.errors import DamagedRecord
from journal.record import Envelope, Record
from journal.tsid import format_tsid
from projections import proposals, tables
from projections.newest import from_place
from projections.rows import DamagedRow, MemoryRow, SessionRow
from projections.state import KEY32, KEY64

R = TypeVar("R", Record, Envelope)
_VIA = tuple(via.wire for via in Via)


class Tracing:
    """The chain of the memory `tsid` whose row is `row`."""

    def __init__(self, reading: Reading, tsid: int, row: MemoryRow) -> None:
        self.reading = reading
        self.tsid = tsid
        self.row = row
        self.tenant = row.tenant
        self._memories: dict[int, MemoryRow | None] = {tsid: row}
        self._proposals: dict[int, proposals.ProposalRow | None] = {}
        self._foreign: set[tuple[str, int]] = set()

    @property
    def foreign(self) -> int:
        """How much led out of the tenant."""
        return len(self._foreign)

    def require(self, database: str, prefix: bytes) -> None:
        """Raises DamagedRow when there is no sound entry of that key, or of one that begins so, whosever it is."""
        with self.reading.snapshot.cursor(database) as cursor:
            if next(from_place(cursor, database, prefix, b""), None) is None:
                raise DamagedRow(database)

    def _pass_over(self, what: str, number: int, database: str, key: bytes) -> None:
        """Count what is another tenant's. Raises DamagedRow for what is nobody's."""
        self.require(database, key)
        self._foreign.add((what, number))

    def memory(self, tsid: int) -> MemoryRow | None:
        """The memory, when it is the tenant's. Raises DamagedRow."""
        if tsid not in self._memories:
            row = self.reading.memory(tsid)
            if row is None or row.tenant != self.tenant:
                self._pass_over("memory", tsid, tables.MEMORIES, KEY64.pack(tsid))
                row = None
            self._memories[tsid] = row
        return self._memories[tsid]

    def record(self, seq: int) -> Record | None:
        """Record `seq`, when it is the tenant's. Raises DamagedRecord."""
        return self._ours(self.reading.record_of_any(seq))

    def envelope(self, seq: int) -> Envelope | None:
        """As `record`, without the event."""
        return self._ours(self.reading.envelope_of_any(seq))

    def _ours(self, record: R) -> R | None:
        if record.tenant == self.tenant:
            return record
        self._foreign.add(("record", record.seq))
        return None

    def genesis(self, row: MemoryRow) -> tuple[Record, events.MemoryCreated]:
        """The record that created a memory of the tenant's. Raises DamagedRecord."""
        record = self.record(row.seq)
        if record is None or not isinstance(record.event, events.MemoryCreated):
            raise DamagedRecord(row.seq, "event")
        return record, record.event

    def session(self, number: int) -> SessionRow | None:
        """The session that a record names, when it is the tenant's; `number` 0: it names none. Raises DamagedRow."""
        if not number:
            return None
        row = self.reading.session(number)
        if row is not None and row.tenant == self.tenant:
            return row
        self._pass_over("session", number, tables.SESSIONS, KEY32.pack(number))
        return None

    def session_ref(self, number: int) -> str | None:
        row = self.session(number)
        return None if row is None else f"session:{format_tsid(row.id)}"

    def proposal(self, proposal: int) -> proposals.ProposalRow | None:
        """The proposal, when it is the tenant's. Raises DamagedRow."""
        if proposal not in self._proposals:
            row = proposals.get(self.reading.state, proposal)
            if row is None or row.tenant != self.tenant:
                self._pass_over("proposal", proposal, tables.PROPOSALS, KEY64.pack(proposal))
                row = None
            self._proposals[proposal] = row
        return self._proposals[proposal]

    def proposal_ref(self, proposal: int) -> str | None:
        """`proposal` 0: there is none."""
        found = self.proposal(proposal) if proposal else None
        return None if found is None else proposal_ref(proposal)


def actor_kind(record: Record | Envelope) -> str:
    """By which way it was written."""
    return _VIA[record.actor.via]


def proposal_ref(proposal: int) -> str:
    return f"proposal:{format_tsid(proposal)}"

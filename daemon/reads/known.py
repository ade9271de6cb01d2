"""A question about a moment that is past: every memory is as it was known then (`projections/known_at.py`).

What was not yet written then is not there, and no edge leads to it. What was purged since is purged: erasure is not
undone by asking about the time before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from daemon.reads.reading import Reading, is_purged
from journal import events
from journal.errors import DamagedRecord
from journal.record import Record
from projections import edges, tables
from projections.known_at import Focus, folded, known_records
from projections.rows import DamagedRow, MemoryRow

STATES_KEPT = 65_536
"""Memories whose state of then is kept while a question is answered: about what one looks through and then shows."""


class KnownReading(Reading):
    """`of` as it would have answered at `at_ms`. Each record is read and decoded once."""

    def __init__(self, of: Reading, at_ms: int) -> None:
        vars(self).update(vars(of))
        self._at_ms = at_ms
        self._records: dict[int, Record] = {}
        self._focused: dict[int, Focus] = {}
        self._states: dict[int, MemoryRow | None] = {}
        self.now_ms = min(of.now_ms, at_ms)  # what decays, decays up to then

    def record_of_any(self, seq: int) -> Record:
        """As in `Reading`."""
        record = self._records.get(seq)
        if record is None:
            self.spend()
            record = self._records[seq] = super().record_of_any(seq)
        return record

    def record_about(self, seq: int, tsid: int) -> Record:
        """As in `Reading`."""
        record = self.record_of_any(seq)
        if record.tenant not in self.tenants or not self._focus(record).names(tsid):
            raise DamagedRow(tables.TOUCHES)
        return record

    def memory(self, tsid: int, kind: int | None = None) -> MemoryRow | None:
        """As it was then; as it is now when a record that would tell can't be read."""
        try:
            return self.memory_then(tsid, kind)
        except DamagedRecord:
            return super().memory(tsid, kind)

    def memory_then(self, tsid: int, kind: int | None = None) -> MemoryRow | None:
        """As it was then. Raises DamagedRecord when a record that would tell can't be read, DamagedRow."""
        row = self.memory_now(tsid, kind)
        if row is None:
            return None
        then = self.state_then(tsid, row)
        return row if then is not None and is_purged(row) else then

    def memory_now(self, tsid: int, kind: int | None = None) -> MemoryRow | None:
        """As it is now."""
        return super().memory(tsid, kind)

    def state_then(self, tsid: int, now: MemoryRow) -> MemoryRow | None:
        """As it was then, what was purged since too; `now` is as it is now. Raises DamagedRecord when a record that
        would tell can't be read."""
        if tsid not in self._states:
            if len(self._states) >= STATES_KEPT:
                self._states.clear()
            self._states[tsid] = self._state_then(tsid, now)
        return self._states[tsid]

    def _state_then(self, tsid: int, now: MemoryRow) -> MemoryRow | None:
        seqs = self.seqs_about(tsid, now)
        if len(seqs) == 1:  # nothing happened to it since it was made, and when that was its row says
            self.spend()
            return now if now.at_ms <= self._at_ms else None
        if self.record_about(seqs[-1], tsid).at_ms <= self._at_ms:  # all that ever happened to it was known
            return now
        known = known_records([self.record_about(seq, tsid) for seq in seqs], self._at_ms)
        return folded([self._focus(record).on(tsid) for record in known], now, tsid)

    def incoming(self, tsid: int, edge_type: int | None = None) -> Iterator[edges.Edge]:
        """The edges that reached it then."""
        for edge in super().incoming(tsid, edge_type):
            if self._was_written(edge[2]):
                yield edge

    def evidence(self, tsid: int, row: MemoryRow) -> list[events.Ref]:
        """What supported it then."""
        own = (record.event for record in self._known(tsid, row) if _is_about(record.event, tsid))
        return list(dict.fromkeys(ref for event in own for ref in getattr(event, "evidence", ())))

    def facts_added(self, tsid: int) -> Iterator[int]:
        """Those accepted by then."""
        for seq in super().facts_added(tsid):
            if self.record(seq).at_ms <= self._at_ms:
                yield seq

    def _was_written(self, tsid: int) -> bool:
        """Whether a memory is one of ours, and was there then. Its row tells; only where the clock had been set back,
        its records do."""
        row = super().memory(tsid)
        if row is None or row.at_ms <= self._at_ms:
            return row is not None
        try:
            return any(self._is_of_then(seq, tsid) for seq in self.seqs_about(tsid, row)[1:])
        except DamagedRecord:
            return True

    def _is_of_then(self, seq: int, tsid: int) -> bool:
        return self.record(seq).at_ms <= self._at_ms and self.record_about(seq, tsid) is not None

    def _known(self, tsid: int, row: MemoryRow) -> Sequence[Record]:
        """The records about a memory that were known then, in order."""
        return known_records([self.record_about(seq, tsid) for seq in self.seqs_about(tsid, row)], self._at_ms)

    def _focus(self, record: Record) -> Focus:
        found = self._focused.get(record.seq)
        if found is None:
            found = self._focused[record.seq] = Focus(record)
        return found

    def external_support(self, tsid: int, row: MemoryRow) -> list[int]:
        """The numbers of the records that had brought support from outside then."""
        found = super().external_support(tsid, row)
        if not found:
            return found
        known = {record.seq for record in self._known(tsid, row)}
        return [seq for seq in found if seq in known]


def _is_about(event: object, tsid: int) -> bool:
    """Whether an event speaks of the memory itself, not of another that it touches too."""
    return getattr(event, "id", 0) == tsid or getattr(event, "memory", (0, 0))[1] == tsid

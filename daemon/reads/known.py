"""A question about a moment that is past: every memory is as it was known then (`projections/known_at.py`).

What was not yet written then is not there, and no edge leads to it. What was purged since is purged: erasure is not
undone by asking about the time before it.
"""

from __future__ import annotations

from collections.abc import Iterator

from daemon.reads.reading import Reading, is_purged
from journal import events
from journal.errors import DamagedRecord
from projections import edges
from projections.known_at import known_at, known_records
from projections.rows import MemoryRow


class KnownReading(Reading):
    """`of` as it would have answered at `at_ms`."""

    def __init__(self, of: Reading, at_ms: int) -> None:
        vars(self).update(vars(of))
        self._at_ms = at_ms
        self.now_ms = min(of.now_ms, at_ms)  # what decays, decays up to then

    def memory(self, tsid: int, kind: int | None = None) -> MemoryRow | None:
        """As it was then; as it is now when a record that would tell can't be read."""
        try:
            return self.memory_then(tsid, kind)
        except DamagedRecord:
            return super().memory(tsid, kind)

    def memory_then(self, tsid: int, kind: int | None = None) -> MemoryRow | None:
        """As it was then. Raises DamagedRecord when a record that would tell can't be read."""
        row = super().memory(tsid, kind)
        if row is None:
            return None
        seqs = self.seqs_about(tsid, row)
        self.spend(len(seqs))
        then = known_at([self.record(seq) for seq in seqs], row, tsid, self._at_ms)
        return row if then is not None and is_purged(row) else then

    def incoming(self, tsid: int, edge_type: int | None = None) -> Iterator[edges.Edge]:
        """The edges that reached it then."""
        for edge in super().incoming(tsid, edge_type):
            if self.memory(edge[2]) is not None:
                yield edge

    def evidence(self, tsid: int, row: MemoryRow) -> list[events.Ref]:
        """What supported it then."""
        records = known_records([self.record(seq) for seq in self.seqs_about(tsid, row)], self._at_ms)
        own = (record.event for record in records if _is_about(record.event, tsid))
        return list(dict.fromkeys(ref for event in own for ref in getattr(event, "evidence", ())))


def _is_about(event: object, tsid: int) -> bool:
    """Whether an event speaks of the memory itself, not of another that it touches too."""
    return getattr(event, "id", 0) == tsid or getattr(event, "memory", (0, 0))[1] == tsid

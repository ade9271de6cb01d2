"""What holds in the world at a moment: `valid_from` at or before it, `valid_to` behind it, either of them open.

Times are compared as numbers, to the millisecond. A memory's end stands in its row, its beginning in the record that
made it: so the row is looked at first, and the record only when the row lets it pass.
"""

from __future__ import annotations

from daemon.reads.reading import Reading
from projections.rows import NO_TIME, MemoryRow


def is_within(at_ms: int | None, valid_from: int | None, valid_to: int | None) -> bool:
    """Whether `at_ms` (None: no matter when) lies in the half-open window; None at an end of it: open there."""
    if at_ms is None:
        return True
    return (valid_from is None or valid_from <= at_ms) and (valid_to is None or at_ms < valid_to)


def holds(reading: Reading, row: MemoryRow) -> bool:
    """Whether a memory of ours holds at the moment that the question is about. Raises DamagedRecord."""
    at_ms = reading.as_of_ms
    if at_ms is None:
        return True
    if not is_within(at_ms, None, None if row.valid_to == NO_TIME else row.valid_to):
        return False
    return is_within(at_ms, reading.genesis(row)[1].valid_from, None)

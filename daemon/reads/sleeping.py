"""What sleep has done with a session, and whether it would take it now (SLEEP §5)."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from daemon.reads.reading import Reading
from daemon.wire import provenance_results as p
from daemon.wire import results as r
from daemon.wire.times import FIRST_MS, LAST_MS, format_ms
from journal.codes import Mark, PartitionState
from projections import partitions, passes, provenance, tables
from projections.rows import MemoryRow, SessionRow
from projections.state import KEY32

IDLE_MS = 30 * 60_000
_ZONES_MS = 2 * 86_400_000


def passes_told(reading: Reading, number: int) -> list[p.PassTold]:
    """The passes over a session, in order."""
    return [
        p.PassTold(
            pass_=pass_number, facts=provenance.facts_of(reading.state, number, pass_number),
            turns=row.promoted + row.noise, at=format_ms(row.at_ms), partial=row.open,
        )
        for pass_number, row in passes.passes_of(reading.state, number)
    ]  # fmt: skip


def eligibility(reading: Reading, number: int, row: SessionRow) -> r.SleepEligibility:
    """Whether a pass would take the session now, and the first reason that speaks against it."""
    sleep = passes.sleep_of(reading.state, number)
    waiting = _waiting(reading, number, row, sleep)
    why_not = _why_not(reading, row, sleep, waiting)
    return r.SleepEligibility(
        eligible=why_not is None, why_not=why_not, unsettled=len(waiting), promoted=sleep.promoted, noise=sleep.noise
    )


def _waiting(reading: Reading, number: int, row: SessionRow, sleep: passes.SleepRow) -> list[MemoryRow]:
    """The living turns that no pass has settled, in order."""
    if row.turns == sleep.promoted + sleep.noise:
        return []
    found = (reading.memory(tsid) for _, tsid in passes.unsettled_turns(reading.state, number))
    return [turn for turn in found if turn is not None and not turn.dead]


def _why_not(reading: Reading, row: SessionRow, sleep: passes.SleepRow, waiting: list[MemoryRow]) -> str | None:
    if not row.turns:
        return "no_turns"
    if sleep.parked:
        return "parked"
    if not waiting:
        return "settled"
    if not row.closed and reading.now_ms - row.last_at < IDLE_MS:
        return "session_open"
    accepting: dict[int, bool] = {}
    reasons = [_why_not_this(reading, turn, accepting) for turn in waiting]
    return None if None in reasons else reasons[-1]


def _why_not_this(reading: Reading, row: MemoryRow, accepting: dict[int, bool]) -> str | None:
    """Why this one may not be taken."""
    for mark in (Mark.HELD, Mark.QUARANTINED):
        if row.has(mark):
            return mark.wire
    if row.partition not in accepting:
        accepting[row.partition] = _accepts(reading, row.partition)
    return "partition_active" if accepting[row.partition] else None


def _accepts(reading: Reading, number: int) -> bool:
    """Whether a partition may still get turns. The day of an active one may be over: it is sealed before a pass."""
    key = KEY32.pack(number)
    value = reading.state.get(tables.PARTITIONS, key)
    row = None if value is None else partitions.unpack(key, value)
    if row is None or row.state != PartitionState.ACTIVE or row.day is None:
        return False
    return row.day >= _local_day(reading.now_ms, row.zone)


def _local_day(at_ms: int, zone: str | None) -> int:
    """The local date, as days since 1970-01-01; a clock that is beyond what dates can say stands at their end."""
    said_ms = min(max(at_ms, FIRST_MS + _ZONES_MS), LAST_MS - _ZONES_MS)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=said_ms)
    return (moment.astimezone(ZoneInfo(zone or "UTC")).date() - date(1970, 1, 1)).days

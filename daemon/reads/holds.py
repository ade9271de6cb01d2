"""holds: which memories are held, since when, and why; by id."""

from __future__ import annotations

from typing import Any

from daemon.reads.reading import Reading
from daemon.wire.erasure_results import HeldRow, HoldsResult
from daemon.wire.times import format_ms
from journal.codes import Part
from journal.errors import PartUnreadable
from journal.record import Record
from journal.tsid import memory_ref
from projections import holding
from projections.rows import DamagedRow
from projections.tables import HELD


def hold_list(reading: Reading, params: Any) -> HoldsResult:
    """A page of them. A cursor names the last one that was given; what is released meanwhile is on no later page."""
    cursors = reading.cursors(repr(("holds", reading.tenant_names)))
    found = sorted(each for tenant in reading.tenants for each in holding.of_tenant(reading.state, tenant))
    place = cursors.decode(params.cursor, 0)
    left = [each for each in found if each[0] > place.last]
    page = left[: params.limit]
    cursor = cursors.encode(page[-1][0], 0) if len(left) > len(page) else None
    return HoldsResult(holds=[_row(reading, *each) for each in page], next_cursor=cursor, total=len(found))


def _row(reading: Reading, tsid: int, seq: int) -> HeldRow:
    row = reading.memory(tsid)
    if row is None:
        raise DamagedRow(HELD)
    record = reading.record(seq)
    return HeldRow(memory=memory_ref(row.kind, tsid), since=format_ms(record.at_ms), note=_note(reading, record))


def _note(reading: Reading, record: Record) -> str | None:
    """None when there is none, or the caller has no content."""
    parts = getattr(record.event, "parts", ())
    part = next((each for each in parts if each.part == Part.WORDS), None)
    if part is None or not reading.content:
        return None
    try:
        return reading.unseal(part).decode()
    except PartUnreadable as error:
        if error.state != "purged":
            reading.note_damage(record.seq, "a sealed part")
        return None

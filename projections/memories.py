"""Memories: the memory row, the 64-byte header rows in pages, and which records touched a memory.

Invariant: the header row at (partition, offset) and the memory row name each other, and say the same.
"""

from __future__ import annotations

from collections.abc import Callable

from crc32c import crc32c

from journal import events
from journal.codes import ExternalUse, Kind, Mark
from journal.record import Record
from projections import removed, rows, tables
from projections.partitions import own_bytes, purged_late, row_appended, row_returned, rows_died, turn_settled
from projections.rows import HEADER_BYTES, NO_ROW, NO_TIME, ROWS_PER_PAGE, SETTLED, MemoryRow
from projections.state import KEY64_64, State

_NO_ENCODING = (0, 0, 0)
_RAW = int(Kind.RAW)
_DERIVED_FROM = int(ExternalUse.DERIVED_FROM)


def created(state: State, record: Record, event: events.MemoryCreated) -> None:
    tsid = event.id
    marks = 0
    if event.protected:
        marks |= 1 << Mark.PROTECTED
    if event.pinned:
        marks |= 1 << Mark.PINNED
    waits = event.kind == _RAW and event.turn > 0
    offset = row_appended(state, event.partition, waits, own_bytes(record, event.parts))
    valid_to = event.valid_to
    row = (
        record.seq, record.seq, 0, NO_TIME if valid_to is None else valid_to, NO_TIME,
        record.at_ms, NO_TIME,
        event.confidence, event.strength, event.importance,
        record.tenant, event.slot, event.partition, offset, event.session, event.turn, event.producer,
        0, 0, 0, marks, event.kind, event.subtype, event.origin, event.role, _traits(event),
    )  # fmt: skip
    key = tsid.to_bytes(8, "big")
    state.memories[key] = rows.pack_memory(key, row)
    page = state.row_page(event.partition, offset // ROWS_PER_PAGE)
    page += _first_header(record, event, marks)
    counters = state.counters
    newest = max(tsid, event.edge, event.facts[-1].id) if event.facts else max(tsid, event.edge)
    if newest > counters.tsid:
        counters.tsid = newest
    if event.slot > counters.slot:
        counters.slot = event.slot


def _traits(event: events.MemoryCreated) -> int:
    traits = rows.SELF_SCOPED if event.self_scoped else 0
    if event.externals and any(each.use == _DERIVED_FROM for each in event.externals):
        traits |= rows.FROM_OUTSIDE
    return traits


def _first_header(record: Record, event: events.MemoryCreated, marks: int) -> bytes:
    profile, alpha, beta = event.encoding or _NO_ENCODING
    occurred_at = event.occurred_at
    return rows.pack_header(
        1, rows.header_flags(marks), event.kind, event.subtype, event.origin, event.modality,
        rows.header_marks(marks), profile,
        record.at_ms if occurred_at is None else occurred_at, event.id,
        event.importance, event.strength, event.confidence, event.surprise or 0.0,
        0, event.producer, event.session, event.turn,
        event.valence, event.arousal, event.soul_version, alpha, beta,
    )  # fmt: skip


def touch(state: State, tsid: int, seq: int) -> None:
    """Note that record `seq` is about the memory `tsid`, beyond the one that created it."""
    key = KEY64_64.pack(tsid, seq)
    state.put(tables.TOUCHES, key, crc32c(key).to_bytes(4, "little"))


def store_row(state: State, tsid: int, row: MemoryRow) -> None:
    """Keep a changed memory row and bring its header row in line."""
    state.put_memory(tsid, row)
    if row.offset == NO_ROW:
        taken = removed.get(state, row.partition, tsid)
        removed.put(state, row.partition, tsid, _in_line(taken, row))
        return
    page = state.row_page(row.partition, row.offset // ROWS_PER_PAGE)
    at = row.offset % ROWS_PER_PAGE * HEADER_BYTES
    page[at : at + HEADER_BYTES] = _in_line(bytes(page[at : at + HEADER_BYTES]), row)


def _in_line(content: bytes, row: MemoryRow) -> bytes:
    """A header row that says what the memory row says."""
    header = list(rows.unpack_header(content))
    header[1] = rows.header_flags(row.marks)
    header[6] = rows.header_marks(row.marks)
    header[10:13] = [row.importance, row.strength, row.confidence]
    return rows.pack_header(*header)


def waits(row: MemoryRow) -> bool:
    """Whether it is a turn that no pass has settled."""
    return row.kind == _RAW and row.turn > 0 and not row.traits & SETTLED


def settle(state: State, tsid: int, row: MemoryRow, mark: int = 0) -> None:
    """A pass has settled a turn; `mark`: the bit that it gets with it. Nothing else of the row changes."""
    if waits(row) and not row.dead:
        turn_settled(state, row.partition, 1)
    store_row(state, tsid, row._replace(marks=row.marks | mark, traits=row.traits | SETTLED))


def known(state: State, tsid: int) -> MemoryRow:
    """The row of a memory that a record speaks of. Raises LookupError, DamagedRow."""
    row = state.memory(tsid)
    if row is None:
        raise LookupError(f"the journal speaks of memory {tsid} before it was created")
    return row


def flag(state: State, refs: tuple[events.Ref, ...], by: int, seq: int) -> None:
    """Count flags that were set (`by` 1) or cleared (-1) on memories."""
    for _, tsid in refs:
        row = known(state, tsid)
        state.put_memory(tsid, row._replace(flags=max(0, row.flags + by)))
        touch(state, tsid, seq)


def forgotten(state: State, record: Record, event: events.Forgotten) -> None:
    _, tsid = event.memory
    row = known(state, tsid)
    was_dead = row.dead
    store_row(
        state,
        tsid,
        row._replace(marks=row.marks | 1 << Mark.FORGOTTEN, strength=event.strength, dead_at=record.at_ms),
    )
    touch(state, tsid, record.seq)
    if not was_dead:
        rows_died(state, row.partition, 1, waits(row))
    flag(state, event.flagged, 1, record.seq)


def recovered(state: State, record: Record, event: events.Recovered) -> None:
    _, tsid = event.memory
    row = known(state, tsid)
    marks = row.marks & ~(1 << event.mark)
    changed = row._replace(marks=marks, strength=event.new_strength)
    if not changed.dead:
        changed = changed._replace(dead_at=NO_TIME, offset=_lives_again(state, tsid, row))
    store_row(state, tsid, changed)
    touch(state, tsid, record.seq)
    flag(state, event.cleared, -1, record.seq)


def _lives_again(state: State, tsid: int, row: MemoryRow) -> int:
    """The offset of its row, which is written anew when a vacuum took it."""
    if row.offset != NO_ROW:
        rows_died(state, row.partition, -1, waits(row))
        return row.offset
    taken = removed.get(state, row.partition, tsid)
    removed.delete(state, row.partition, tsid)
    offset = row_returned(state, row.partition, waits(row))
    page = state.row_page(row.partition, offset // ROWS_PER_PAGE)
    page += taken
    return offset


def purged(state: State, record: Record, event: events.Purged) -> None:
    for target in event.targets:
        row = state.memory(target.id)
        if row is None:
            continue
        if not row.dead:
            rows_died(state, row.partition, 1, waits(row))
        marks = row.marks | 1 << Mark.PURGED
        store_row(state, target.id, row._replace(marks=marks, dead_at=record.at_ms))
        if row.offset == NO_ROW:
            _note_late(state, target.id, row)
        touch(state, target.id, record.seq)


def _note_late(state: State, tsid: int, row: MemoryRow) -> None:
    """Its ciphertexts are collected by the next vacuum, though its row has gone."""
    if not removed.is_late(state, row.partition, tsid):
        removed.put_late(state, row.partition, tsid)
        purged_late(state, row.partition)


FOLDS: dict[type, Callable[..., None]] = {
    events.MemoryCreated: created,
    events.Forgotten: forgotten,
    events.Recovered: recovered,
    events.Purged: purged,
}

"""What a vacuum does to a partition: living rows come to lie densely, in their order; dead ones leave it.

One `Vacuumed` goes through the rows from `first` up to `until`, or through none, when it only says which ciphertexts
went. Between two of them every row can be read: those before `PartitionRow.packed` are dense, those from there up to
`reached` blank, the others where they were. A dead memory keeps its memory row and whatever else is told of it; its
header row goes to `removed_rows`, from which `Recovered` writes it anew. Part of the projection `memories`. Reads only
what was folded: which rows are dead is not in the record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from journal import events
from journal.codes import Mark
from journal.record import Record
from projections import partitions, removed, rows, tables
from projections.columns import HEADER, Columns, Mask
from projections.partitions import PartitionRow
from projections.rows import FLAG_PURGED, FLAG_TOMBSTONE, HEADER_BYTES, NO_ROW, ROWS_PER_PAGE, DamagedRow
from projections.state import State

_KEPT_MARKS = rows.header_marks(1 << Mark.HELD | 1 << Mark.QUARANTINED)


def _pages(state: State, partition: int, first: int, until: int) -> Iterator[tuple[bytearray, int, int]]:
    """`(page, from byte, to byte)` of the pages that hold the rows from `first` up to `until`."""
    at = first
    while at < until:
        number, begin = divmod(at, ROWS_PER_PAGE)
        end = min(ROWS_PER_PAGE, begin + until - at)
        yield state.row_page(partition, number), begin * HEADER_BYTES, end * HEADER_BYTES
        at += end - begin


def header_rows(state: State, partition: int, first: int, until: int) -> Columns:
    """The header rows from `first` up to `until`, a copy. Raises DamagedRow, also when there are fewer."""
    content = b"".join(bytes(page[begin:end]) for page, begin, end in _pages(state, partition, first, until))
    if len(content) != (until - first) * HEADER_BYTES:
        raise DamagedRow(tables.ROWS)
    return np.frombuffer(content, HEADER)


def leaving(columns: Columns) -> Mask:
    """Which of them a vacuum takes away: the dead, but what is held or quarantined only when it is purged."""
    flags = columns["flags"]
    kept = columns["marks"] & _KEPT_MARKS != 0
    found: Mask = (flags & FLAG_TOMBSTONE != 0) & (~kept | (flags & FLAG_PURGED != 0))
    return found


def _write(state: State, partition: int, at: int, content: bytes) -> None:
    taken = 0
    for page, begin, end in _pages(state, partition, at, at + len(content) // HEADER_BYTES):
        page[begin:end] = content[taken : taken + end - begin]
        taken += end - begin


def vacuumed(state: State, record: Record, event: events.Vacuumed) -> None:
    """Raises DamagedRow where a row and its memory don't name each other: nothing of the slice is moved then."""
    for number, counted_bytes in event.counted:
        partitions.ciphertexts_counted(state, number, -counted_bytes)
    if event.late:
        _collected(state, event)
    if event.last or event.first < event.until:
        _go_through(state, event)


def _collected(state: State, event: events.Vacuumed) -> None:
    """Of those that were purged late nothing is left to be collected."""
    number = event.partition
    row = partitions.load(state, number)
    for _, tsid in event.late:
        if removed.is_late(state, number, tsid):
            removed.delete_late(state, number, tsid)
            row.late -= 1
    partitions.store(state, number, row)


def _go_through(state: State, event: events.Vacuumed) -> None:
    number = event.partition
    row = partitions.load(state, number)
    columns = header_rows(state, number, event.first, event.until)
    dead = leaving(columns)
    places = np.arange(event.first, event.until)
    for header in columns[dead]:
        removed.put(state, number, int(header["tsid"]), header.tobytes())
    living = columns[~dead]
    packed = event.to + len(living)
    after = np.full(len(columns), NO_ROW)
    after[~dead] = np.arange(event.to, packed)
    moving = after != places
    tsids = columns["tsid"][moving].tolist()
    _relocate(state, number, tsids, places[moving].tolist(), after[moving].tolist())
    if packed != event.until:
        _write(state, number, event.to, living.tobytes())
        blank_from = max(packed, event.first)
        _write(state, number, blank_from, bytes((event.until - blank_from) * HEADER_BYTES))
    row.dead -= len(columns) - len(living)
    row.packed, row.reached = packed, event.until
    if event.last:
        _end(state, number, row)
    partitions.store(state, number, row)
    state.unsteady.add(number)


def _relocate(state: State, partition: int, tsids: list[int], old: list[int], new: list[int]) -> None:
    """The memory rows say where their header rows lie now."""
    keys = [tsid.to_bytes(8, "big") for tsid in tsids]
    memories, moved, pack_place = state.memories, rows.moved, rows.pack_place
    for key, value, before, after in zip(keys, state.memory_values(keys), old, new, strict=True):
        if value is None:
            raise DamagedRow(tables.ROWS)
        memories[key] = moved(key, value, pack_place(partition, before), pack_place(partition, after))


def _end(state: State, number: int, row: PartitionRow) -> None:
    """What is blank leaves the partition."""
    last_page, rest = divmod(row.packed, ROWS_PER_PAGE)
    for page in range(last_page + (rest > 0), -(-row.rows // ROWS_PER_PAGE)):
        state.pages[number, page] = bytearray()
    if rest:
        del state.row_page(number, last_page)[rest * HEADER_BYTES :]
    row.rows, row.packed, row.reached, row.kept = row.packed, 0, 0, row.dead


FOLDS: dict[type, Callable[..., None]] = {
    events.Vacuumed: vacuumed,
}

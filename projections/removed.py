"""`removed_rows`: header rows of dead memories that a vacuum took out of their partition.

Value: the 64-byte header row, then u8, CRC-32C. The byte is 1 when the memory was purged since its row was taken: its
ciphertexts are still to be collected. A memory that is recovered gets its row anew, from here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from projections import rows, tables
from projections.rows import HEADER_BYTES, NO_ROW, ROWS_PER_PAGE, MemoryRow
from projections.state import KEY32, KEY32_32, KEY32_64, State


class Removed(NamedTuple):
    """A header row that was taken out. `late`: purged since."""

    header: bytes
    late: bool


def put(state: State, partition: int, tsid: int, removed: Removed) -> None:
    key = KEY32_64.pack(partition, tsid)
    state.put(tables.REMOVED_ROWS, key, rows.seal_row(key, removed.header + bytes((removed.late,))))


def delete(state: State, partition: int, tsid: int) -> None:
    state.delete(tables.REMOVED_ROWS, KEY32_64.pack(partition, tsid))


def _unpack(payload: bytes) -> Removed:
    if len(payload) != HEADER_BYTES + 1:
        raise rows.DamagedRow(tables.REMOVED_ROWS)
    return Removed(payload[:HEADER_BYTES], bool(payload[HEADER_BYTES]))


def get(state: State, partition: int, tsid: int) -> Removed:
    """The row that was taken out. Raises DamagedRow, also when there is none."""
    key = KEY32_64.pack(partition, tsid)
    value = state.get(tables.REMOVED_ROWS, key)
    if value is None:
        raise rows.DamagedRow(tables.REMOVED_ROWS)
    return _unpack(rows.open_row(tables.REMOVED_ROWS, key, value))


def of_partition(state: State, partition: int) -> Iterator[tuple[int, Removed]]:
    """`(TSID, row)` of all that were taken out of a partition, in id order. Raises DamagedRow."""
    for key, payload in state.entries(tables.REMOVED_ROWS, KEY32.pack(partition)):
        yield int(KEY32_64.unpack(key)[1]), _unpack(payload)


def header_of(state: State, tsid: int, row: MemoryRow) -> bytes:
    """The 64-byte header row of a memory, wherever it lies. Raises DamagedRow."""
    if row.offset == NO_ROW:
        return get(state, row.partition, tsid).header
    page, at = divmod(row.offset, ROWS_PER_PAGE)
    key = KEY32_32.pack(row.partition, page)
    value = state.get(tables.ROWS, key)
    if value is None:
        raise rows.DamagedRow(tables.ROWS)
    content = rows.open_row(tables.ROWS, key, value)
    return content[at * HEADER_BYTES : (at + 1) * HEADER_BYTES]

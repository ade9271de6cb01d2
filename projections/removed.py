"""`removed_rows`: header rows of dead memories that a vacuum took out of their partition; `late`: which of these were
purged since, so that their ciphertexts are still to be collected.

Values: of `removed_rows` the 64-byte header row, CRC-32C; of `late` the CRC alone. A memory that is recovered gets its
row anew, from here. Invariant: `PartitionRow.late` counts what stands in `late`, so that no vacuum looks for it among
all rows that were ever taken.
"""

from __future__ import annotations

from collections.abc import Iterator

from projections import rows, tables
from projections.rows import HEADER_BYTES, NO_ROW, ROWS_PER_PAGE, MemoryRow
from projections.state import KEY32, KEY32_32, KEY32_64, State


def put(state: State, partition: int, tsid: int, header: bytes) -> None:
    key = KEY32_64.pack(partition, tsid)
    state.put(tables.REMOVED_ROWS, key, rows.seal_row(key, header))


def delete(state: State, partition: int, tsid: int) -> None:
    state.delete(tables.REMOVED_ROWS, KEY32_64.pack(partition, tsid))


def _checked(header: bytes) -> bytes:
    if len(header) != HEADER_BYTES:
        raise rows.DamagedRow(tables.REMOVED_ROWS)
    return header


def get(state: State, partition: int, tsid: int) -> bytes:
    """The header row that was taken out. Raises DamagedRow, also when there is none."""
    key = KEY32_64.pack(partition, tsid)
    value = state.get(tables.REMOVED_ROWS, key)
    if value is None:
        raise rows.DamagedRow(tables.REMOVED_ROWS)
    return _checked(rows.open_row(tables.REMOVED_ROWS, key, value))


def of_partition(state: State, partition: int) -> Iterator[tuple[int, bytes]]:
    """`(TSID, header row)` of all that were taken out of a partition, in id order. Raises DamagedRow."""
    for key, payload in state.entries(tables.REMOVED_ROWS, KEY32.pack(partition)):
        yield int(KEY32_64.unpack(key)[1]), _checked(payload)


def header_of(state: State, tsid: int, row: MemoryRow) -> bytes:
    """The 64-byte header row of a memory, wherever it lies. Raises DamagedRow."""
    if row.offset == NO_ROW:
        return get(state, row.partition, tsid)
    page, at = divmod(row.offset, ROWS_PER_PAGE)
    key = KEY32_32.pack(row.partition, page)
    value = state.get(tables.ROWS, key)
    if value is None:
        raise rows.DamagedRow(tables.ROWS)
    content = rows.open_row(tables.ROWS, key, value)
    return content[at * HEADER_BYTES : (at + 1) * HEADER_BYTES]


# --- purged since ----------------------------------------------------------------------------------


def is_late(state: State, partition: int, tsid: int) -> bool:
    """Whether its ciphertexts are to be collected though its row has gone. Raises DamagedRow."""
    key = KEY32_64.pack(partition, tsid)
    value = state.get(tables.LATE, key)
    return value is not None and rows.open_row(tables.LATE, key, value) == b""


def put_late(state: State, partition: int, tsid: int) -> None:
    key = KEY32_64.pack(partition, tsid)
    state.put(tables.LATE, key, rows.seal_row(key, b""))


def delete_late(state: State, partition: int, tsid: int) -> None:
    state.delete(tables.LATE, KEY32_64.pack(partition, tsid))


def late_of(state: State, partition: int) -> Iterator[int]:
    """The TSIDs of those to be collected, in order. Raises DamagedRow."""
    for key, _ in state.entries(tables.LATE, KEY32.pack(partition)):
        yield int(KEY32_64.unpack(key)[1])

"""Rows of the provenance region: 72 bytes, little-endian, unsigned, in pages of 56.

A reader in any language needs this table only; `noctuary region dump` writes a file of such rows, one behind the
other, in the order in which they were made, and zeros behind the last up to the next multiple of 8192 rows.

| offset | type | field |
|---|---|---|
| 0 | u8 | flags: a state, no bits: 0 live, 1 tombstone (its target is dead), 2 partial (its pass has not ended) |
| 1 | u8 | source_kind: tier of the source, 1 episodic, 2 semantic, 3 procedural; 0 in a row of zeros |
| 2 | u8 | target_kind: tier of the memory that was made |
| 3 | u8 | prefix_kind: its kind's code |
| 4 | u16 | pass_number, from 1; 0 when no pass made it |
| 6 | u16 | turn_count |
| 8 | u64 | session_id, a TSID |
| 16 | u64 | target_tsid |
| 24 | u64 | consolidated_at, UTC ms |
| 32 | u32 | partition_seq: number of the partition of the first turn |
| 36 | u32 | first_seq: lowest turn number |
| 40 | u32 | last_seq: highest turn number |
| 44 | u32 | first_offset: row offset of that turn in its partition, a hint |
| 48 | u32 | last_offset: row offset of that turn in its partition, a hint |
| 52 | u8 | fact_index, from 0, in the pass |
| 53 | u8 | batch_count: facts of the pass; while it is partial, those up to the end of the commit that made the row |
| 54 | u16 | content_hash_hi: 0 at rest; upper half of the CRC-32C of the living text when served |
| 56 | u64 | source_tsid, 0 when the source is episodic |
| 64 | u32 | source_partition, else 0 |
| 68 | u32 | CRC-32C over bytes 0 to 67 |

The turns are not always adjacent: `turn_count` may be less than `last_seq - first_seq + 1`. The edges `derived_from`
are the truth, a row is an index of them. Invariant: no row holds content, or anything derived from it.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from crc32c import crc32c

from projections import tables
from projections.rows import DamagedRow

_ROW = struct.Struct("<BBBBHHQQQIIIIIBBHQI")
_CRC = struct.Struct("<I")
ROW_BYTES = 72
assert _ROW.size + _CRC.size == ROW_BYTES

ROWS_PER_PAGE = 56
"""56 rows of 72 bytes and a CRC fit one overflow page of LMDB; 57 would need two."""
DUMP_MULTIPLE_ROWS = 8192
"""A dumped file has room for so many rows, or a multiple. The region itself preallocates nothing: LMDB gives it a page
when a row needs one, and it never drops a row."""

LIVE, TOMBSTONE, PARTIAL = 0, 1, 2
STATE_WORDS = ("live", "tombstone", "partial")
MAX_PASS = 0xFFFF
MAX_FACTS = 255
"""Of one pass: `batch_count` has one byte."""


class RegionRow(NamedTuple):
    """One row. Fields as in the byte table, without the CRC."""

    flags: int
    source_kind: int
    target_kind: int
    prefix_kind: int
    pass_number: int
    turn_count: int
    session_id: int
    target_tsid: int
    consolidated_at: int
    partition_seq: int
    first_seq: int
    last_seq: int
    first_offset: int
    last_offset: int
    fact_index: int
    batch_count: int
    content_hash_hi: int
    source_tsid: int
    source_partition: int


def pack(row: RegionRow) -> bytes:
    """The 72 bytes of a row. Raises struct.error for a number that its field can't hold."""
    fields = _ROW.pack(*row)
    return fields + _CRC.pack(crc32c(fields))


def unpack(data: bytes) -> RegionRow:
    """The row in 72 bytes. Raises DamagedRow when the CRC doesn't hold, or they are not 72."""
    if len(data) != ROW_BYTES or _CRC.unpack_from(data, _ROW.size)[0] != crc32c(data[: _ROW.size]):
        raise DamagedRow(tables.REGION)
    return RegionRow._make(_ROW.unpack_from(data))


def hash_hi(text: bytes) -> int:
    """The upper 16 bits of the CRC-32C of a text in UTF-8."""
    return int(crc32c(text)) >> 16

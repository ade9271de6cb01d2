"""Header rows as columns: the 64-byte rows of partitions as numpy arrays.

`HEADER` is the byte table of `ops/docs/formats.md` as a dtype. A scan over a hundred thousand rows takes
milliseconds; what it decides by is what the rows say, so it needs no content and no journal.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from journal.codes import Status
from projections import region, rows

HEADER = np.dtype(
    [
        ("version", "u1"), ("flags", "u1"), ("kind", "u1"), ("subtype", "u1"), ("origin", "u1"), ("modality", "u1"),
        ("marks", "u1"), ("encoding_profile", "u1"), ("timestamp_ms", "<i8"), ("tsid", "<u8"), ("importance", "<f4"),
        ("strength", "<f4"), ("confidence", "<f4"), ("encoding_surprise", "<f4"), ("recall_count", "<u4"),
        ("producer", "<u4"), ("session", "<u4"), ("turn", "<u4"), ("valence", "<f2"), ("arousal", "<f2"),
        ("soul_version", "<u2"), ("encoding_alpha", "u1"), ("encoding_beta", "u1"),
    ]
)  # fmt: skip
assert HEADER.itemsize == rows.HEADER_BYTES

PROVENANCE = np.dtype(
    [
        ("flags", "u1"), ("source_kind", "u1"), ("target_kind", "u1"), ("prefix_kind", "u1"), ("pass_number", "<u2"),
        ("turn_count", "<u2"), ("session_id", "<u8"), ("target_tsid", "<u8"), ("consolidated_at", "<u8"),
        ("partition_seq", "<u4"), ("first_seq", "<u4"), ("last_seq", "<u4"), ("first_offset", "<u4"),
        ("last_offset", "<u4"), ("fact_index", "u1"), ("batch_count", "u1"), ("content_hash_hi", "<u2"),
        ("source_tsid", "<u8"), ("source_partition", "<u4"), ("crc32c", "<u4"),
    ]
)  # fmt: skip
"""A row of the provenance region: `np.fromfile(path, PROVENANCE)` reads what `noctuary region dump` wrote."""
assert PROVENANCE.itemsize == region.ROW_BYTES

Columns = npt.NDArray[np.void]
Mask = npt.NDArray[np.bool_]

_MARK_STATUS = (
    (0x01, Status.SUPERSEDED),
    (0x02, Status.ARCHIVED),
    (0x04, Status.PRUNED),
    (0x08, Status.FORGOTTEN),
    (0x10, Status.QUARANTINED),
)
"""The header's marks, from the status that gives way to the one that is shown before it (contract §4.6)."""


def _status_table() -> npt.NDArray[np.uint8]:
    """For each value of the marks byte the status that it shows."""
    table = np.full(256, int(Status.ACTIVE), np.uint8)
    for bit, status in _MARK_STATUS:
        table[np.arange(256) & bit != 0] = int(status)
    return table


_STATUS_OF_MARKS = _status_table()


def statuses(columns: Columns) -> npt.NDArray[np.uint8]:
    """The code of each row's status: the first that applies."""
    found: npt.NDArray[np.uint8] = _STATUS_OF_MARKS[columns["marks"]]
    found[columns["flags"] & rows.FLAG_PURGED != 0] = int(Status.PURGED)
    return found


def codes_table(codes: Iterable[int]) -> Mask:
    """For each value of a byte whether it is one of `codes`: indexing it is much faster than `np.isin`."""
    table = np.zeros(256, np.bool_)
    table[list(codes)] = True
    return table

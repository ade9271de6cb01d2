"""Header rows as columns: the 64-byte rows of partitions, read as one numpy array.

`HEADER` is the byte table of `ops/docs/formats.md` as a dtype. A scan over a hundred thousand rows takes
milliseconds; what it decides by is what the rows say, so it needs no content and no journal.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from journal.codes import Status
from projections import rows, tables
from projections.state import KEY32, State

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

Columns = npt.NDArray[np.void]

_MARK_STATUS = (
    (0x01, Status.SUPERSEDED),
    (0x02, Status.ARCHIVED),
    (0x04, Status.PRUNED),
    (0x08, Status.FORGOTTEN),
    (0x10, Status.QUARANTINED),
)
"""The header's marks, from the status that gives way to the one that is shown before it (contract §4.6)."""


def read_columns(state: State, partitions: Iterable[int]) -> Columns:
    """The header rows of these partitions, in id order. Raises DamagedRow."""
    pages = [
        rows.open_row(tables.ROWS, key, value)
        for partition in partitions
        for key, value in state.prefix(tables.ROWS, KEY32.pack(partition))
    ]
    found = np.frombuffer(b"".join(pages), HEADER)
    return found[np.argsort(found["tsid"], kind="stable")]


def statuses(columns: Columns) -> npt.NDArray[np.uint8]:
    """The code of each row's status: the first that applies."""
    found = np.full(len(columns), int(Status.ACTIVE), np.uint8)
    for bit, status in _MARK_STATUS:
        found[columns["marks"] & bit != 0] = int(status)
    found[columns["flags"] & rows.FLAG_PURGED != 0] = int(Status.PURGED)
    return found

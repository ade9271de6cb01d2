"""The edges and rows of many memories at once, as columns: for questions about all of a tenant.

Every value's checksum is looked at, as everywhere; what is done per memory is only that, the rest is numpy's.
Invariant: what comes out is what `edges.outgoing` and `State.memory` would have given, in the order asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import lmdb
import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from journal.codes import Mark
from projections import tables
from projections.edges import ENTRY
from projections.kinds import CONFIDENCE_DIGITS, DECAYING_AS, KINDS
from projections.rows import MEMORY_BYTES, NO_TIME, SELF_SCOPED, DamagedRow
from projections.store import TxnSnapshot

CHUNK_KEYS = 4096
DAY_MS = 86_400_000
Tsids = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]
Step = Callable[[int, int], None]
"""Called between chunks with how many are done, and of how many. What it raises ends the scan."""

_ENTRY = np.dtype([("type", "u1"), ("kind", "u1"), ("tsid", ">u8")])
assert _ENTRY.itemsize == ENTRY.size

ROW = np.dtype(
    [
        ("seq", "<u8"), ("particulars_seq", "<u8"), ("superseded_by", "<u8"), ("valid_to", "<i8"),
        ("verified_at", "<i8"), ("at_ms", "<i8"), ("dead_at", "<i8"), ("confidence", "<f8"), ("strength", "<f8"),
        ("importance", "<f8"), ("tenant", "<u4"), ("slot", "<u4"), ("partition", "<u4"), ("offset", "<u4"),
        ("session", "<u4"), ("turn", "<u4"), ("producer", "<u4"), ("verifications", "<u4"), ("reinforcements", "<u4"),
        ("flags", "<u4"), ("marks", "<u2"), ("kind", "u1"), ("subtype", "u1"), ("origin", "u1"), ("role", "u1"),
        ("traits", "<u2"), ("crc", "<u4"),
    ]
)  # fmt: skip
"""A memory row: the byte table of `rows.py` as a dtype."""
assert ROW.itemsize == MEMORY_BYTES


class EdgeColumns(NamedTuple):
    """Edges: by which memory (its place among those asked for), of which type, to which memory."""

    owner: npt.NDArray[np.int64]
    type: npt.NDArray[np.uint8]
    target: Tsids


def edges_of(snapshot: TxnSnapshot, tsids: Tsids, step: Step) -> EdgeColumns:
    """All edges that leave these memories, which are in id order. Raises DamagedRow."""
    keys = _keys(tsids)
    content: list[bytes] = []
    owners: list[int] = []
    counts: list[int] = []
    place = 0
    for key, value in values(snapshot, tables.EDGES_OUT, keys, step):
        while keys[place] != key:  # those without an edge have no value
            place += 1
        owners.append(place)
        content.append(value[:-4])
        counts.append((len(value) - 4) // ENTRY.size)
    found = np.frombuffer(b"".join(content), _ENTRY)
    owner = np.repeat(np.array(owners, np.int64), np.array(counts, np.int64))
    return EdgeColumns(owner, found["type"], found["tsid"].astype(np.uint64))


def rows_of(snapshot: TxnSnapshot, tsids: Tsids, step: Step) -> npt.NDArray[np.void]:
    """The rows of these memories, all of which there are. Raises DamagedRow."""
    found = [value for _, value in values(snapshot, tables.MEMORIES, _keys(tsids), step)]
    if len(found) != len(tsids) or any(len(value) != MEMORY_BYTES for value in found):
        raise DamagedRow(tables.MEMORIES)
    return np.frombuffer(b"".join(found), ROW)


def _keys(tsids: Tsids) -> list[bytes]:
    content = tsids.astype(">u8").tobytes()
    return [content[at : at + 8] for at in range(0, len(content), 8)]


def values(snapshot: TxnSnapshot, database: str, keys: Sequence[bytes], step: Step) -> list[tuple[bytes, bytes]]:
    """`(key, value)` of those that are there, in order. Raises DamagedRow."""
    found: list[tuple[bytes, bytes]] = []
    try:
        with snapshot.cursor(database) as cursor:
            for first in range(0, len(keys), CHUNK_KEYS):
                step(first, len(keys))
                found += [(bytes(k), bytes(v)) for k, v in cursor.getmulti(keys[first : first + CHUNK_KEYS])]
    except lmdb.Error as error:
        raise DamagedRow(database) from error
    for key, value in found:
        if crc32c(value[:-4], crc32c(key)) != int.from_bytes(value[-4:], "little"):
            raise DamagedRow(database)
    return found


def effective_confidences(found: npt.NDArray[np.void], now_ms: int) -> npt.NDArray[np.float64]:
    """Of each row what `kinds.confidence_now` would give."""
    stored = found["confidence"]
    rates, periods, floors = _DECAYS[:, found["kind"], (found["traits"] & SELF_SCOPED != 0).astype(np.uint8)]
    since = np.where(found["verified_at"] == NO_TIME, found["at_ms"], found["verified_at"])
    days = (now_ms - since) // DAY_MS
    decays = (found["marks"] >> int(Mark.PROTECTED) & 1 == 0) & (days > 0) & (stored > floors)
    decayed = np.maximum(floors, stored - rates * days / periods).round(CONFIDENCE_DIGITS)
    effective: npt.NDArray[np.float64] = np.where(decays, decayed, stored)
    return effective


def may_be_below(confidence: npt.NDArray[np.float32], kind: npt.NDArray[np.uint8], threshold: float) -> Mask:
    """Of which header rows the effective confidence may be below: those stored so, or decaying to such a floor."""
    low: Mask = (confidence < threshold + _FLOAT32) | (_LOWEST_FLOORS[kind] < threshold)
    return low


_FLOAT32 = 1e-6
"""By how much a confidence in a header row may differ from the exact one, and more."""
_DECAYS = np.array([[KINDS[of].decay or (0.0, 1, np.inf) for of in both] for both in DECAYING_AS]).transpose(2, 0, 1)
"""Rates, periods, floors, each by kind and whether it is self-scoped. The floor of what never decays is above all."""
_LOWEST_FLOORS = _DECAYS[2].min(axis=1)

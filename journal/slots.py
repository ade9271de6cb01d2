"""Vault slots, many at once: their states, and fresh keys for those that can be handed out.

The byte table is that of `vault.py`. A block of slots is a numpy array of 64 bytes a row; CRC-32C is computed
over all rows together, byte column by byte column with the usual table (polynomial 0x82F63B78, reflected).
A loop over slots would hold up the writer for tens of milliseconds a block.
"""

from __future__ import annotations

import os
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

SLOT_BYTES = 64
KEY_BYTES = 32
KEY_AT = 8
CRC_AT = 4
BLANK, KEYED, SHREDDED, DAMAGED = 0, 1, 2, 3

Rows: TypeAlias = npt.NDArray[np.uint8]
Numbers: TypeAlias = npt.NDArray[Any]


def _table() -> npt.NDArray[np.uint32]:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ np.uint32(0x82F63B78), table >> 1)
    return table


_TABLE = _table()


def rows_of(data: bytes) -> Rows:
    """The rows of whole slots."""
    return np.frombuffer(data, np.uint8).reshape(-1, SLOT_BYTES)


def checksums(first: int, rows: Rows) -> npt.NDArray[np.uint32]:
    """What the CRC of each row has to be; row 0 is slot `first`."""
    numbers = np.arange(first, first + len(rows), dtype="<u8").view(np.uint8).reshape(-1, 8)
    crc = np.full(len(rows), 0xFFFFFFFF, np.uint32)
    for column in (*numbers.T, *rows[:, :CRC_AT].T, *rows[:, KEY_AT:].T):
        crc = _TABLE.take(crc.astype(np.uint8) ^ column) ^ crc >> 8
    return crc ^ np.uint32(0xFFFFFFFF)


def states(first: int, rows: Rows) -> Numbers:
    """The state of each row: BLANK, KEYED, SHREDDED or DAMAGED."""
    found = np.full(len(rows), DAMAGED, np.uint8)
    stored = np.ascontiguousarray(rows[:, CRC_AT:KEY_AT]).view("<u4")[:, 0]
    holds = stored == checksums(first, rows)
    plain = ~rows[:, 1:CRC_AT].any(axis=1)
    for state in (KEYED, SHREDDED):
        found[holds & plain & (rows[:, 0] == state)] = state
    found[~rows.any(axis=1)] = BLANK
    return found


def keyed_anew(first: int, data: bytes) -> tuple[bytes, list[bytes]]:
    """`(the slots with fresh keys, the keys)`. A shredded or damaged slot stays, and its key is empty."""
    rows = rows_of(data)
    kept = states(first, rows) >= SHREDDED if rows.any() else np.zeros(len(rows), np.bool_)
    count = len(rows)
    drawn = os.urandom(count * KEY_BYTES)
    fresh = np.zeros_like(rows)
    fresh[:, 0] = KEYED
    fresh[:, KEY_AT : KEY_AT + KEY_BYTES] = np.frombuffer(drawn, np.uint8).reshape(count, KEY_BYTES)
    fresh[:, CRC_AT:KEY_AT] = checksums(first, fresh).astype("<u4").view(np.uint8).reshape(count, 4)
    fresh[kept] = rows[kept]
    keys = [drawn[at : at + KEY_BYTES] for at in range(0, count * KEY_BYTES, KEY_BYTES)]
    for index in np.flatnonzero(kept):
        keys[index] = b""
    return fresh.tobytes(), keys

"""Vault slots, many at once: their states, and fresh keys for those that can be handed out.

The byte table is that of `vault.py`. A block of slots is a numpy array of 64 bytes a row; CRC-32C is computed
over all rows together, byte column by byte column with the usual table (polynomial 0x82F63B78, reflected).
A loop over slots would hold up the writer for tens of milliseconds a block.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

SLOT_BYTES = 64
KEY_BYTES = 32
FIELD_BYTES = 40
KEY_AT = 8
FORM_AT = 1
CRC_AT = 4
BLANK, KEYED, SHREDDED, DAMAGED = 0, 1, 2, 3
KEYED_HEADS: Final = tuple(bytes((KEYED, form, 0, 0)) for form in (0, 1))
"""What a keyed slot begins with, by the form of its key: plain, wrapped."""

Rows: TypeAlias = npt.NDArray[np.uint8]
Numbers: TypeAlias = npt.NDArray[Any]
Wrap: TypeAlias = Callable[[bytes], Rows]
"""Keys, one after another, to rows of 40 bytes."""


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


def states(first: int, rows: Rows, form: int = 0) -> Numbers:
    """The state of each row: BLANK, KEYED (its key in `form`), SHREDDED or DAMAGED."""
    found = np.full(len(rows), DAMAGED, np.uint8)
    stored = np.ascontiguousarray(rows[:, CRC_AT:KEY_AT]).view("<u4")[:, 0]
    holds = stored == checksums(first, rows)
    zeros = ~rows[:, FORM_AT + 1 : CRC_AT].any(axis=1)
    for state, its_form in ((KEYED, form), (SHREDDED, 0)):
        found[holds & zeros & (rows[:, 0] == state) & (rows[:, FORM_AT] == its_form)] = state
    found[~rows.any(axis=1)] = BLANK
    return found


def keyed_anew(first: int, data: bytes, wrap: Wrap | None = None) -> tuple[bytes, list[bytes]]:
    """`(the slots with fresh keys, wrapped if `wrap` is given; the keys)`. A shredded or damaged slot stays, and its
    key is empty."""
    rows = rows_of(data)
    form = int(wrap is not None)
    kept = states(first, rows, form) >= SHREDDED if rows.any() else np.zeros(len(rows), np.bool_)
    count = len(rows)
    drawn = os.urandom(count * KEY_BYTES)
    fields = np.frombuffer(drawn, np.uint8).reshape(count, KEY_BYTES) if wrap is None else wrap(drawn)
    fresh = keyed_rows(first, fields, form)
    fresh[kept] = rows[kept]
    keys = [drawn[at : at + KEY_BYTES] for at in range(0, count * KEY_BYTES, KEY_BYTES)]
    for index in np.flatnonzero(kept):
        keys[index] = b""
    return fresh.tobytes(), keys


def keyed_rows(first: int, fields: Rows, form: int) -> Rows:
    """Keyed slots from `first` on, with these keys (32 bytes a row) or wrapped keys (40)."""
    count, width = fields.shape
    fresh = np.zeros((count, SLOT_BYTES), np.uint8)
    fresh[:, 0] = KEYED
    fresh[:, FORM_AT] = form
    fresh[:, KEY_AT : KEY_AT + width] = fields
    fresh[:, CRC_AT:KEY_AT] = checksums(first, fresh).astype("<u4").view(np.uint8).reshape(count, 4)
    return fresh

"""Looks at an index by its end, or from a place on: what a question needs of it, however long it has become.

Every entry's CRC is looked at. Invariant: no more entries are read than are taken.
"""

from __future__ import annotations

from collections.abc import Iterator

import lmdb

from projections import rows

_BEHIND = b"\xff" * 32
"""Behind every key that begins with a prefix: no key goes on for so long."""


def newest_first(
    cursor: lmdb.Cursor, database: str, prefix: bytes, before: bytes = _BEHIND
) -> Iterator[tuple[bytes, bytes]]:
    """`(key, payload)` of the entries whose key starts with `prefix`, the last one first, or the last one before the
    key `prefix + before`. Raises DamagedRow."""
    try:
        there = cursor.prev() if cursor.set_range(prefix + before) else cursor.last()
        while there:
            key = bytes(cursor.key())
            if not key.startswith(prefix):
                return
            yield key, rows.open_row(database, key, bytes(cursor.value()))
            there = cursor.prev()
    except lmdb.Error as error:
        raise rows.DamagedRow(database) from error


def from_place(cursor: lmdb.Cursor, database: str, prefix: bytes, place: bytes) -> Iterator[tuple[bytes, bytes]]:
    """`(key, payload)` of the entries whose key starts with `prefix`, from the key `prefix + place` on. Raises
    DamagedRow."""
    try:
        there = cursor.set_range(prefix + place)
        while there:
            key = bytes(cursor.key())
            if not key.startswith(prefix):
                return
            yield key, rows.open_row(database, key, bytes(cursor.value()))
            there = cursor.next()
    except lmdb.Error as error:
        raise rows.DamagedRow(database) from error

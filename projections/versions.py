"""Which version of its fold each projection was folded with: rows of `meta`, beside the watermark.

Key `version.` and the projection's name; value u32 (little-endian), CRC-32C. Written in the transaction that
completes its first fold. So a projection without such a row was never folded to its end, and one whose row says
another number than `tables.VERSIONS` was folded by other code: either is folded anew, alone.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import lmdb

from journal.environment import Environment
from projections import rows, tables

_VERSION = struct.Struct("<I")
_PREFIX = b"version."


def _key(projection: str) -> bytes:
    return _PREFIX + projection.encode("ascii")


def stale(env: Environment, txn: lmdb.Transaction) -> list[str]:
    """The projections that this code would fold in another way, or that were not folded to their end."""
    return [name for name, version in tables.VERSIONS.items() if _stored(env, txn, name) != version]


def _stored(env: Environment, txn: lmdb.Transaction, projection: str) -> int | None:
    key = _key(projection)
    value = txn.get(key, db=env.db(tables.META))
    if value is None:
        return None
    try:
        payload = rows.open_row(tables.META, key, bytes(value))
        return int(_VERSION.unpack(payload)[0])
    except (rows.DamagedRow, struct.error):
        return None  # one that can't be read is another


def stamp(env: Environment, txn: lmdb.Transaction, projections: Iterable[str]) -> None:
    """They are folded as this code does it."""
    for name in projections:
        key = _key(name)
        txn.put(key, rows.seal_row(key, _VERSION.pack(tables.VERSIONS[name])), db=env.db(tables.META))


def unstamp(env: Environment, txn: lmdb.Transaction, projections: Iterable[str]) -> None:
    """They are about to be folded anew."""
    for name in projections:
        txn.delete(_key(name), db=env.db(tables.META))

"""Damage to values at rest, made through LMDB itself: pages and trees stay sound, so that only our checks notice."""

from __future__ import annotations

from pathlib import Path

import lmdb


def damage_values(directory: Path, database: str) -> int:
    """Flip one bit in every value of a database; how many."""
    with lmdb.open(str(directory), max_dbs=32, map_size=1 << 40) as env:
        handle = env.open_db(database.encode(), create=False)
        with env.begin(write=True) as txn:
            found = list(txn.cursor(db=handle))
            for key, value in found:
                txn.put(key, bytes((value[0] ^ 1, *value[1:])), db=handle)
            return len(found)

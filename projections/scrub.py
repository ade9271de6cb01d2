"""Reading every value of the projections once: does its CRC, which covers its key, hold?

A damaged key hides its value: what is not found can't be checked when it is read. So what was not folded just
now is read through once after it was opened: at once when it is little, else by a child process
(`python -m projections.scrub DIR`, which prints the database and exits 65 when one is damaged), because
millions of checks beside the writer's thread would cost writes too much. Nothing is written.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import lmdb

from journal.environment import Environment
from journal.errors import NoctuaryFault
from projections import tables
from projections.rows import DamagedRow, open_row

INLINE_ENTRIES = 20_000
CHUNK_ENTRIES = 10_000


def entries(env: Environment) -> int:
    """How many values there are in all."""
    with env.read() as txn:
        return sum(env.entries(txn, database) for database in tables.DATABASES)


def scrub(env: Environment) -> None:
    """Check every value. Raises DamagedRow for the first that does not hold."""
    for database in tables.DATABASES:
        after: bytes | None = b""
        while after is not None:
            after = _scrub_chunk(env, database, after)


def _scrub_chunk(env: Environment, database: str, after: bytes) -> bytes | None:
    """Check a chunk, in a transaction of its own; the key to go on behind, None at the end."""
    try:
        with env.read() as txn, txn.cursor(db=env.db(database)) as cursor:
            if not cursor.set_range(after + b"\0"):
                return None
            for count, (key, value) in enumerate(cursor, start=1):
                open_row(database, bytes(key), bytes(value))
                if count == CHUNK_ENTRIES:
                    return bytes(key)
    except lmdb.Error as error:
        raise DamagedRow(database) from error
    return None


def main(arguments: list[str]) -> int:
    """Check the projections in the directory that is the one argument."""
    os.nice(10)
    try:
        env = Environment.open(Path(arguments[0]), (*tables.DATABASES, tables.META), durable=False, readonly=True)
        try:
            scrub(env)
        finally:
            env.close()
    except DamagedRow as damage:
        print(damage.database)
        return os.EX_DATAERR
    except NoctuaryFault as fault:
        print(fault, file=sys.stderr)
        return os.EX_IOERR
    return os.EX_OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

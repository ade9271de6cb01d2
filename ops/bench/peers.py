"""The peers: what others reach on this machine with the same memories, in the same run.

Each is used as its manual shows it, in this process, one thread, one durable commit per memory, beginning
with an empty store (which favours them: ours is prefilled). Every commit waits for fdatasync.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lmdb
import msgspec
from eventsourcing.application import Application
from eventsourcing.domain import Aggregate

from ops.bench.load import Measured

_MAP_BYTES = 8 << 30
SYNC_MODES = {
    "eventsourcing": "Application.save, SQLite WAL, synchronous as the library sets it, 1 thread",
    "sqlite": "sqlite3 WAL, synchronous=FULL, one insert per commit, 1 thread",
    "lmdb": "sync and metasync on, one put per commit, 1 thread",
}


class Memory(Aggregate):
    """A memory as the library would have it. At module level: the library keeps it by its name."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields


def _timed(bodies: Sequence[bytes], write: Callable[[int, bytes], None]) -> Measured:
    latencies_ms = []
    began = time.perf_counter()
    for number, body in enumerate(bodies):
        start = time.perf_counter()
        write(number, body)
        latencies_ms.append((time.perf_counter() - start) * 1000)
    return Measured(time.perf_counter() - began, latencies_ms)


def sqlite_full(directory: Path, bodies: Sequence[bytes]) -> Measured:
    """One insert, one commit, WAL with synchronous=FULL."""
    connection = sqlite3.connect(directory / "peer.sqlite", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS memory (seq INTEGER PRIMARY KEY, body BLOB NOT NULL)")

    def write(_: int, body: bytes) -> None:
        connection.execute("INSERT INTO memory (body) VALUES (?)", (body,))  # autocommit: a commit each

    try:
        return _timed(bodies, write)
    finally:
        connection.close()


def lmdb_put(directory: Path, bodies: Sequence[bytes]) -> Measured:
    """One put, one synchronous commit."""
    env = lmdb.open(str(directory / "peer.lmdb"), map_size=_MAP_BYTES, sync=True, metasync=True)
    first = env.stat()["entries"]

    def write(number: int, body: bytes) -> None:
        with env.begin(write=True) as txn:
            txn.put((first + number).to_bytes(8, "big"), body, append=True)

    try:
        return _timed(bodies, write)
    finally:
        env.close()


def eventsourcing_save(directory: Path, bodies: Sequence[bytes]) -> Measured:
    """One aggregate with the memory's fields, saved: one event, one commit."""
    application: Any = Application(
        env={
            "PERSISTENCE_MODULE": "eventsourcing.sqlite",
            "SQLITE_DBNAME": str(directory / "peer-es.sqlite"),
        }
    )
    decode = msgspec.json.decode

    def write(_: int, body: bytes) -> None:
        application.save(Memory(decode(body)))

    try:
        return _timed(bodies, write)
    finally:
        application.close()


PEERS: dict[str, Callable[[Path, Sequence[bytes]], Measured]] = {
    "eventsourcing": eventsourcing_save,
    "sqlite": sqlite_full,
    "lmdb": lmdb_put,
}

"""One LMDB environment: how it is opened, read, written, grown and copied. The journal and the
projections each have one; only `durable` differs.

Invariants:

- Every commit of a durable environment is on the disk when `write()` is left. One whose commit failed
  is never written again by this process: what became of that batch is not known.
- The map never changes under an open transaction. Growth closes a gate, waits until the readers are
  gone, and gives up rather than wait for ever: it starts early enough to be tried again.
- A path is opened once per process, and never across a fork.
- `read()` is not to be nested in a thread that then calls `grow_if_needed()`.

Readers are counted without a lock: a reader enters itself first and looks at the gate second, growth
closes the gate first and looks at the readers second, so at least one of them sees the other.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, monotonic_ns
from types import TracebackType
from typing import TYPE_CHECKING, TypeAlias

import lmdb

from journal.errors import RESTORE_A_BACKUP, DamagedStore, NoctuaryFault, StoreIO
from journal.layout import DATA_FILE, DIRECTORY_MODE, FILE_MODE

MAP_BYTES = 1 << 40
SMALLEST_MAP_BYTES = 1 << 26
GROW_AT = 0.8
MAX_READERS = 512
META_PAGES = 2

if TYPE_CHECKING:
    Db: TypeAlias = lmdb._Database


class Reader:
    """A read transaction as a context manager, known to the gate of its environment."""

    __slots__ = ("_env", "_txn")

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._txn: lmdb.Transaction | None = None

    def __enter__(self) -> lmdb.Transaction:
        env = self._env
        env.readers[self] = monotonic_ns()
        if env.gate_closed:
            env.wait_at_gate(self)
        try:
            txn = env.begin_read()
        except BaseException:
            self._leave()
            raise
        self._txn = txn
        return txn

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._txn is not None:
            self._txn.abort()
            self._txn = None
        self._leave()

    def _leave(self) -> None:
        env = self._env
        env.readers.pop(self, None)
        if env.gate_closed:
            env.announce_leaving()


class Environment:
    """An open LMDB environment and the handles of its databases. Made by `open`."""

    def __init__(self, path: Path, raw: lmdb.Environment, *, durable: bool, readonly: bool) -> None:
        self.path = path
        self.durable = durable
        self.readonly = readonly
        self.readers: dict[Reader, int] = {}
        self.gate_closed = False
        self._gate = threading.Condition()
        self._raw = raw
        self._dbs: dict[str, Db] = {}
        self.db = self._dbs.__getitem__
        """The handle of a database that was named at open."""
        self._failed = False
        self._page_bytes = int(raw.stat()["psize"])
        self.begin_read = raw.begin

    @classmethod
    def open(
        cls,
        path: Path,
        databases: tuple[str, ...],
        *,
        durable: bool,
        readonly: bool = False,
        map_bytes: int = MAP_BYTES,
    ) -> Environment:
        """Open the environment in directory `path`; unless `readonly`, make what is missing.

        Raises DamagedStore when LMDB can't make sense of it, or a database is missing and `readonly`; StoreIO
        when the system doesn't let it read or write.
        """
        if not readonly:
            path.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
        raw = _open_raw(path, len(databases), durable=durable, readonly=readonly, map_bytes=map_bytes)
        env = cls(path, raw, durable=durable, readonly=readonly)
        try:
            for name in databases:
                env._dbs[name] = raw.open_db(name.encode("ascii"), create=not readonly)
        except lmdb.Error as error:
            raw.close()
            raise _open_fault(path, error) from error
        return env

    def read(self) -> Reader:
        """A read transaction: `with env.read() as txn`. Keep it short: it pins pages."""
        return Reader(self)

    @contextmanager
    def write(self) -> Iterator[lmdb.Transaction]:
        """The write transaction: committed at the end of the block, aborted by an exception.

        Raises StoreIO for any failure of LMDB in it. Use it from one thread only.
        """
        if self._failed:
            raise StoreIO(f"{self.path.name}: an earlier commit failed; nothing is written any more")
        try:
            txn = self._raw.begin(write=True)
        except lmdb.Error as error:
            raise _failed(self.path, "begin", error) from error
        try:
            yield txn
        except lmdb.Error as error:
            txn.abort()
            raise _failed(self.path, "write", error) from error
        except BaseException:
            txn.abort()
            raise
        try:
            txn.commit()
        except (lmdb.Error, OSError) as error:
            self._failed = self.durable
            raise _failed(self.path, "commit", error) from error

    @property
    def failed(self) -> bool:
        """Whether a durable commit failed, after which only a new process may write."""
        return self._failed

    @property
    def map_bytes(self) -> int:
        """The address space that the environment may fill."""
        return int(self._raw.info()["map_size"])

    def used_bytes(self) -> int:
        """The bytes of the data file that are, or were, in use."""
        return (int(self._raw.info()["last_pgno"]) + 1) * self._page_bytes

    def free_bytes(self) -> int:
        """The bytes of the data file that are in use by nothing: what is written next goes there first. Pages that a
        reader may still see are among them."""
        with self.read() as txn:
            stats = [self._raw.stat(), *(txn.stat(db) for db in self._dbs.values())]
            pages = sum(each["branch_pages"] + each["leaf_pages"] + each["overflow_pages"] for each in stats)
            return max(0, int(self._raw.info()["last_pgno"]) + 1 - META_PAGES - pages) * self._page_bytes

    def entries(self, txn: lmdb.Transaction, name: str) -> int:
        """How many keys the database has, in the snapshot of `txn`."""
        return int(txn.stat(self._dbs[name])["entries"])

    def grow_if_needed(self, *, wait_s: float = 5.0) -> bool:
        """Double the map when it is 80 % full. False: it was needed, but the readers did not leave.

        To be called between transactions, by the thread that writes.
        """
        current = self.map_bytes
        if self.used_bytes() < GROW_AT * current:
            return True
        with self._gate:
            self.gate_closed = True
            try:
                return self._drain(wait_s) and self._set_map(current * 2)
            finally:
                self.gate_closed = False
                self._gate.notify_all()

    def wait_at_gate(self, reader: Reader) -> None:
        """Step back while the map grows, then enter. For `Reader`."""
        with self._gate:
            del self.readers[reader]
            self._gate.notify_all()
            self._gate.wait_for(lambda: not self.gate_closed)
            self.readers[reader] = monotonic_ns()

    def announce_leaving(self) -> None:
        """Tell a growth that waits that a reader has gone. For `Reader`."""
        with self._gate:
            self._gate.notify_all()

    def check_readers(self) -> int:
        """Free the reader slots of dead processes; how many there were."""
        return int(self._raw.reader_check())

    def oldest_reader_ms(self) -> int:
        """The age of the oldest read transaction of this process, 0 when there is none."""
        begun = list(self.readers.values())
        return (monotonic_ns() - min(begun)) // 1_000_000 if begun else 0

    def sync(self) -> None:
        """Bring everything that is committed to the disk. Raises StoreIO."""
        try:
            self._raw.sync(True)
        except lmdb.Error as error:
            self._failed = self.durable
            raise _failed(self.path, "sync", error) from error

    def copy(self, path: Path) -> None:
        """A compact, synced snapshot in the new directory `path`; freed pages are not in it."""
        path.mkdir(mode=DIRECTORY_MODE)
        with self.read() as txn:
            try:
                self._raw.copy(str(path), compact=True, txn=txn)
            except lmdb.Error as error:
                raise _failed(path, "copy", error) from error
        data = path / DATA_FILE
        data.chmod(FILE_MODE)
        for target in (data, path, path.parent):
            _sync_path(target)

    def close(self) -> None:
        """Close it; a second time does nothing. No transaction may be open."""
        self._raw.close()

    def _drain(self, wait_s: float) -> bool:
        until = monotonic() + wait_s
        while self.readers:
            left_s = until - monotonic()
            if left_s <= 0:
                return False
            self._gate.wait(left_s)
        return True

    def _set_map(self, map_bytes: int) -> bool:
        try:
            self._raw.set_mapsize(map_bytes)
        except (lmdb.Error, OSError) as error:
            self._failed = True  # the old map may be gone: only a new process may go on
            raise _failed(self.path, "growth", error) from error
        return True


def _open_raw(path: Path, max_dbs: int, *, durable: bool, readonly: bool, map_bytes: int) -> lmdb.Environment:
    """Open with the largest map that the address space has room for."""
    while True:
        try:
            return lmdb.open(
                str(path),
                map_size=map_bytes,
                max_dbs=max_dbs,
                max_readers=MAX_READERS,
                max_spare_txns=0,
                sync=durable,
                metasync=durable,
                writemap=False,
                readonly=readonly,
                create=not readonly,
                mode=FILE_MODE,
                lib_version=0,
            )
        except lmdb.MemoryError as error:
            if map_bytes // 2 < SMALLEST_MAP_BYTES:
                raise StoreIO(f"{path.name}: no address space for a map of {map_bytes} bytes") from error
            map_bytes //= 2
        except lmdb.Error as error:
            raise _open_fault(path, error) from error


def _open_fault(path: Path, error: lmdb.Error) -> NoctuaryFault:
    """Tell damage from a disk that can't be read or written now, where nothing at rest need be wrong.

    LMDB has no class for most errors of the system (EIO): they come as the root of its tree.
    """
    system = (lmdb.DiskError, lmdb.ReadonlyError, lmdb.MemoryError, lmdb.MapFullError, lmdb.LockError)
    if type(error) is lmdb.Error or isinstance(error, system):
        return _failed(path, "open", error)
    return _damaged(path, error)


def _damaged(path: Path, error: lmdb.Error) -> DamagedStore:
    return DamagedStore(f"LMDB environment {path.name}", str(error), RESTORE_A_BACKUP)


def _failed(path: Path, action: str, error: Exception) -> StoreIO:
    return StoreIO(f"{path.name}: {action} failed: {error}")


def _sync_path(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

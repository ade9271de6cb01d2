"""Where projections are kept: one LMDB environment of their own, disposable.

`meta` holds the row `watermark`: epoch u32, seq u64 (little-endian), chain 32 bytes, then msgpack of the
counters, CRC-32C. It is written in the same transaction as the change sets it stands for.

Not fsync'd per batch. The file `OPEN` (boot id, device, CRC) is made durable before the first write and
unlinked after a full sync at a clean stop. Same boot: only the process died, and the pages are in the
kernel: catch up from the watermark. Another boot: the directory is deleted unopened and folded afresh.
"""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import cast

import lmdb
import msgspec

from journal.environment import Environment
from journal.errors import DamagedStore
from journal.log import Log
from journal.record import Head, Record
from journal.trees import check_trees
from projections import blocks, rows, tables
from projections.fold import apply
from projections.state import Changes, Counters, State

_WATERMARK = struct.Struct("<IQ32s")
_WATERMARK_KEY = b"watermark"
_OPEN_KEY = b"OPEN"
_ENCODE = msgspec.msgpack.Encoder().encode
_DECODE = msgspec.msgpack.Decoder(Counters).decode
FOLD_CHUNK_RECORDS = 4096
DIGEST_STEP_ENTRIES = 4096


class TxnSnapshot:
    """A committed snapshot: one read transaction."""

    def __init__(self, env: Environment, txn: lmdb.Transaction) -> None:
        self._txn = txn
        self._handles = {database: env.db(database) for database in tables.DATABASES}

    def get(self, database: str, key: bytes) -> bytes | None:
        try:
            return cast("bytes | None", self._txn.get(key, db=self._handles[database]))
        except lmdb.Error as error:
            raise rows.DamagedRow(database) from error

    def prefix(self, database: str, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        try:
            with self._txn.cursor(db=self._handles[database]) as cursor:
                if not cursor.set_range(prefix):
                    return
                for raw_key, value in cursor:
                    key = bytes(raw_key)
                    if not key.startswith(prefix):
                        return
                    yield key, bytes(value)
        except lmdb.Error as error:
            raise rows.DamagedRow(database) from error


def may_be_trusted(directory: Path, boot_id: bytes) -> bool:
    """Whether what is there is of this boot, or of a clean stop. No page of it is read."""
    return _trusted(directory, directory / "OPEN", boot_id)


def peek_watermark(directory: Path, boot_id: bytes) -> Head | None:
    """The watermark of projections that may be trusted, None when there are none. Writes nothing."""
    if not directory.exists() or not _trusted(directory, directory / "OPEN", boot_id):
        return None
    try:
        return _read_watermark(directory)
    except (DamagedStore, rows.DamagedRow):
        return None  # what can't be read is folded anew


def _read_watermark(directory: Path) -> Head | None:
    """The watermark in `directory`. Raises DamagedStore, DamagedRow."""
    check_trees(directory / "data.mdb")
    try:
        env = Environment.open(directory, (*tables.DATABASES, tables.META), durable=False, readonly=True)
        try:
            with env.read() as txn:
                value = txn.get(_WATERMARK_KEY, db=env.db(tables.META))
        finally:
            env.close()
    except lmdb.Error as error:
        raise DamagedStore("projections", str(error), "They are folded anew.") from error
    if value is None:
        return None
    epoch, seq, chain = _WATERMARK.unpack_from(rows.open_row(tables.META, _WATERMARK_KEY, bytes(value)))
    return Head(epoch, seq, chain)


def check_watermark(directory: Path, boot_id: bytes, log: Log) -> None:
    """Raise DamagedStore when trusted projections are ahead of the journal, or come from another one."""
    found = peek_watermark(directory, boot_id)
    if found is not None:
        _check_place(found, log)


def _check_place(found: Head, log: Log) -> None:
    head = log.head()
    if found.seq > head.seq:
        raise DamagedStore(
            "projections",
            f"their watermark is record {found.seq}, the journal ends at {head.seq}",
            "The journal went back: put the newer journal back, or restore a backup.",
            head.seq,
        )
    if found.seq and _chain_of(log, found.seq) != found.chain:
        raise DamagedStore(
            "projections",
            f"the journal's record {found.seq} is another one than the projections were folded from",
            "Delete the directory projections/ if this is the journal you want.",
            found.seq,
        )


class ProjectionStore:
    """The opened projections. Only the writer's thread writes; any thread may read."""

    def __init__(self, env: Environment, directory: Path, counters: Counters, head: Head) -> None:
        self.env = env
        self._directory = directory
        self.damaged: set[str] = set()  # databases in which a damaged value was met
        self._distrusted = False
        self.counters = counters
        self.head = head

    @classmethod
    def open(cls, directory: Path, boot_id: bytes) -> ProjectionStore:
        """Open what is there if it can be trusted, else begin empty. Raises nothing for a bad watermark:
        an unreadable one means a rebuild."""
        opened = directory / "OPEN"
        if os.path.lexists(directory) and peek_watermark(directory, boot_id) is None:
            _remove(directory)
        directory.mkdir(mode=0o700, exist_ok=True)
        _write_open(opened, boot_id)
        env = Environment.open(directory, (*tables.DATABASES, tables.META), durable=False)
        store = cls(env, directory, Counters(), Head(0, 0, b""))
        store._load_watermark()
        return store

    @classmethod
    def open_readonly(cls, directory: Path, view: Path, boot_id: bytes, log: Log) -> ProjectionStore | None:
        """What is there for reading, None when it can't be trusted. Nothing is written in `directory`: LMDB sees it
        through a link in the new directory `view`, where its lock file comes to lie. The caller holds the store's lock.

        Raises DamagedStore when the watermark is not a place in this journal.
        """
        if not directory.exists() or not _trusted(directory, directory / "OPEN", boot_id):
            return None
        view.mkdir(mode=0o700)
        (view / "data.mdb").symlink_to((directory / "data.mdb").resolve())
        try:
            found = _read_watermark(view)
        except (DamagedStore, rows.DamagedRow):
            return None
        if found is None:
            return None
        _check_place(found, log)
        env = Environment.open(view, (*tables.DATABASES, tables.META), durable=False, readonly=True)
        store = cls(env, view, Counters(), found)
        store._load_watermark()
        return store

    def _load_watermark(self) -> None:
        with self.env.read() as txn:
            value = txn.get(_WATERMARK_KEY, db=self.env.db(tables.META))
        if value is None:
            return
        payload = rows.open_row(tables.META, _WATERMARK_KEY, bytes(value))
        epoch, seq, chain = _WATERMARK.unpack_from(payload)
        self.head = Head(epoch, seq, chain)
        self.counters = _DECODE(payload[_WATERMARK.size :])

    @contextmanager
    def snapshot(self) -> Iterator[TxnSnapshot]:
        """A read transaction on everything committed so far."""
        with self.env.read() as txn:
            yield TxnSnapshot(self.env, txn)

    def commit(self, changes: Changes, counters: Counters, head: Head) -> None:
        """Write a change set and its watermark in one transaction, one sorted put per database."""
        self.env.grow_if_needed()
        with self.env.write() as txn:
            for database, changed in changes.items():
                if changed:
                    self._put(txn, database, changed)
            payload = _WATERMARK.pack(head.epoch, head.seq, head.chain) + _ENCODE(counters)
            txn.put(_WATERMARK_KEY, rows.seal_row(_WATERMARK_KEY, payload), db=self.env.db(tables.META))
        self.counters = counters
        self.head = head

    def _put(self, txn: lmdb.Transaction, database: str, changed: dict[bytes, bytes | None]) -> None:
        handle = self.env.db(database)
        puts = [(key, value) for key, value in changed.items() if value is not None]
        puts.sort()
        with txn.cursor(db=handle) as cursor:
            cursor.putmulti(puts)
        if len(puts) != len(changed):
            for key, value in changed.items():
                if value is None:
                    txn.delete(key, db=handle)

    def catch_up(self, log: Log, progress: Callable[[int, int], None] | None = None, to_seq: int | None = None) -> int:
        """Fold what the journal has beyond the watermark, up to `to_seq` if given; the number of records folded.

        Raises DamagedStore when the watermark is not a place in this journal.
        """
        target = log.head()
        _check_place(self.head, log)
        folded = 0
        last_seq = target.seq if to_seq is None else min(to_seq, target.seq)
        for chunk in log.chunks(self.head.seq + 1, last_seq, FOLD_CHUNK_RECORDS):
            chain = _chain_of(log, chunk[-1].seq)
            self._fold_chunk(chunk, Head(target.epoch, chunk[-1].seq, chain))
            folded += len(chunk)
            if progress is not None:
                progress(chunk[-1].seq, target.seq)
        return folded

    def _fold_chunk(self, chunk: Iterable[Record], head: Head) -> None:
        with self.snapshot() as snapshot:
            state = State(snapshot, self.counters.copy(), self.head)
            for record in chunk:
                apply(state, record)
            changes = state.finish()
        self.commit(changes, state.counters, head)

    def digests(self) -> dict[str, str]:
        """BLAKE2b-128 over the entries of each projection, hex. Logical state only: no watermark."""
        return self.digests_at()[1]

    def digests_at(self, step: Callable[[], None] | None = None) -> tuple[int, dict[str, str]]:
        """`(the record they stand at, digests)`, both of one snapshot. `step` is called now and then; what it
        raises ends it.
        """
        found: dict[str, str] = {}
        with self.env.read() as txn:
            value = txn.get(_WATERMARK_KEY, db=self.env.db(tables.META))
            seq = 0
            if value is not None:
                seq = _WATERMARK.unpack_from(rows.open_row(tables.META, _WATERMARK_KEY, bytes(value)))[1]
            for projection, databases in tables.PROJECTIONS.items():
                digest = blake2b(digest_size=16)
                for database in databases:
                    with txn.cursor(db=self.env.db(database)) as cursor:
                        for count, (key, value) in enumerate(cursor):
                            if step is not None and count % DIGEST_STEP_ENTRIES == 0:
                                step()
                            if database == tables.BLOCKS and key[0] == blocks.SLOT:
                                continue  # where keys lie in the vault is no logical state
                            digest.update(len(key).to_bytes(2, "big") + key)
                            digest.update(len(value).to_bytes(4, "big") + value)
                found[projection] = digest.hexdigest()
        return seq, found

    def note_damage(self, database: str) -> None:
        """A value of `database` is damaged: the next open folds everything anew. Safe on any thread."""
        if not self.damaged:
            self.distrust()
        self.damaged.add(database)

    def distrust(self) -> None:
        """Mark what is there as not to be opened again: the next open folds from the journal."""
        self._distrusted = True
        _write_open(self._directory / "OPEN", bytes(16))

    def close(self, clean: bool) -> None:
        """Close; a clean stop syncs everything, then takes OPEN away, unless what is there is distrusted."""
        keeps = clean and not self._distrusted
        if keeps:
            self.env.sync()
        self.env.close()
        if keeps:
            (self._directory / "OPEN").unlink(missing_ok=True)
            _sync_directory(self._directory)


def _chain_of(log: Log, seq: int) -> bytes:
    with log.env.read() as txn:
        return log.chain_of(txn, seq)


def _trusted(directory: Path, opened: Path, boot_id: bytes) -> bool:
    """Whether what is there may be opened: after a clean stop, or when only the process died."""
    data, lock = directory / "data.mdb", directory / "lock.mdb"
    if not _is_file(data) or (os.path.lexists(lock) and not _is_file(lock)):
        return False
    if not os.path.lexists(opened):
        return True
    return _is_file(opened) and opened.read_bytes() == _open_content(directory, boot_id)


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _remove(path: Path) -> None:
    """Projections are disposable, whatever lies in their place. The data goes first, and durably: without OPEN
    beside it, it would pass for that of a clean stop."""
    if path.is_symlink() or not path.is_dir():
        path.unlink()
        return
    data = path / "data.mdb"
    if data.is_symlink() or data.is_file():
        data.unlink()
        _sync_directory(path)
    shutil.rmtree(path)


def _open_content(directory: Path, boot_id: bytes) -> bytes:
    device = os.stat(directory).st_dev
    return rows.seal_row(_OPEN_KEY, boot_id + device.to_bytes(8, "little"))


def _write_open(path: Path, boot_id: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        os.write(descriptor, _open_content(path.parent, boot_id))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    _sync_directory(path.parent)
    _sync_directory(path.parent.parent)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

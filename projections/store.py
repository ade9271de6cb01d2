"""Where projections are kept: one LMDB environment of their own, disposable.

Up to which record they are folded stands in each transaction with the change sets (`watermark.py`).

Not fsync'd per batch: `trust.py` says when what lies there may be opened. The version of each projection's fold
stands in `meta` too (`versions.py`): one that this code would fold in another way is folded anew, alone.

An opened store can `adopt` the environment of another one that stands at the same record. Whoever reads meanwhile
keeps the environment that they began with; it is closed when the last of them has gone.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, cast

import lmdb

from journal.environment import Environment
from journal.errors import DamagedStore
from journal.layout import sync_directory
from journal.log import Log
from journal.record import Head, Record
from projections import blocks, rows, tables, trust, versions, watermark
from projections.fold import Fold, apply, fold_of
from projections.state import Changes, Counters, State
from projections.uncollected import uncollected
from projections.watermark import Watermark, chain_of

FOLD_CHUNK_RECORDS = 4096
DIGEST_STEP_ENTRIES = 4096

Progress = Callable[[int, int], None]
"""Called with the record that is folded and the one to be reached. What it raises ends the fold."""


class TxnSnapshot:
    """A committed snapshot: one read transaction. `head` is a record that it has folded: the newest, or nearly."""

    def __init__(self, env: Environment, txn: lmdb.Transaction, head: Head) -> None:
        self.head = head
        self._txn = txn
        self._db = env.db

    def get(self, database: str, key: bytes) -> bytes | None:
        try:
            value: Any = self._txn.get(key, db=self._db(database))
        except lmdb.Error as error:
            raise rows.DamagedRow(database) from error
        found: bytes | None = value
        return found

    def many(self, database: str, keys: list[bytes]) -> dict[bytes, bytes]:
        """The values of those of the keys that are there, with one look into LMDB."""
        try:
            with self._txn.cursor(db=self._db(database)) as cursor:
                return dict(cast("list[tuple[bytes, bytes]]", cursor.getmulti(keys)))
        except lmdb.Error as error:
            raise rows.DamagedRow(database) from error

    def prefix(self, database: str, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        try:
            with self._txn.cursor(db=self._db(database)) as cursor:
                if not cursor.set_range(prefix):
                    return
                for raw_key, value in cursor:
                    key = bytes(raw_key)
                    if not key.startswith(prefix):
                        return
                    yield key, bytes(value)
        except lmdb.Error as error:
            raise rows.DamagedRow(database) from error

    def cursor(self, database: str) -> lmdb.Cursor:
        """A cursor of this transaction, for many looks in key order."""
        return self._txn.cursor(db=self._db(database))

    def watermark_seq(self) -> int:
        """The record that this very snapshot stands at; 0 when nothing was folded. Raises DamagedRow."""
        head = watermark.read_head(self._txn, self._db(tables.META))
        return 0 if head is None else head.seq


class ProjectionStore:
    """The opened projections. Only the writer's thread writes; any thread may read."""

    def __init__(self, env: Environment, directory: Path, counters: Counters, head: Head) -> None:
        self.env = env
        self._directory = directory
        self.damaged: set[str] = set()  # databases in which a damaged value was met
        self.noticed = threading.Event()  # set when one is: for whoever heals it
        self.place = threading.RLock()
        """Held by whoever changes what lies in the directory, or names a copy of it."""
        self.unmarked: OSError | None = None
        """Why the mark of distrust is not on the disk, when it should be."""
        self._distrusted = False
        self.counters = counters
        self.head = head

    @classmethod
    def open(cls, directory: Path, boot_id: bytes) -> ProjectionStore:
        """Open what is there if it can be trusted, else begin empty. Raises nothing for a bad watermark:
        an unreadable one means a rebuild."""
        if os.path.lexists(directory) and watermark.peek(directory, boot_id) is None:
            trust.remove(directory)
        directory.mkdir(mode=0o700, exist_ok=True)
        trust.write_open(directory, boot_id)
        env = Environment.open(directory, (*tables.DATABASES, tables.META), durable=False)
        return cls.of(env, directory)

    @classmethod
    def of(cls, env: Environment, directory: Path) -> ProjectionStore:
        """What an opened environment holds. Raises DamagedRow for a watermark that doesn't hold."""
        store = cls(env, directory, Counters(), Head(0, 0, b""))
        store._load_watermark()
        return store

    @classmethod
    def open_readonly(cls, directory: Path, view: Path, boot_id: bytes, log: Log) -> ProjectionStore | None:
        """What is there for reading, None when it can't be trusted or is of another version. Nothing is written in
        `directory`: LMDB sees it through a link in the new directory `view`, where its lock file comes to lie. The
        caller holds the store's lock.

        Raises DamagedStore when the watermark is not a place in this journal.
        """
        if not directory.exists() or not trust.may_be_trusted(directory, boot_id):
            return None
        view.mkdir(mode=0o700)
        (view / "data.mdb").symlink_to((directory / "data.mdb").resolve())
        try:
            found = watermark.read_in(view)
        except (DamagedStore, rows.DamagedRow):
            return None
        if found is None:
            return None
        watermark.check_place(found, log)
        try:
            env = Environment.open(view, (*tables.DATABASES, tables.META), durable=False, readonly=True)
        except DamagedStore:
            return None  # a database is missing: another version
        store = cls.of(env, view)
        if store.stale():
            env.close()
            return None
        return store

    def _load_watermark(self) -> None:
        with self.env.read() as txn:
            found = watermark.read(txn, self.env.db(tables.META))
        if found is not None:
            self.head, self.counters = found.head, found.counters

    @contextmanager
    def snapshot(self) -> Iterator[TxnSnapshot]:
        """A read transaction on everything committed so far."""
        head = self.head  # first: what is in use is never behind it, whatever is committed or adopted meanwhile
        env = self.env
        with env.read() as txn:
            yield TxnSnapshot(env, txn, head)

    def commit(self, changes: Changes, counters: Counters, head: Head) -> None:
        """Write a change set and its watermark in one transaction, one sorted put per database."""
        stamped = () if self.head.seq else tables.VERSIONS
        self._write(changes, counters, head, stamped)
        self.counters = counters
        self.head = head

    def _write(self, changes: Changes, counters: Counters, head: Head, stamped: Collection[str]) -> None:
        """One transaction; `stamped` are the projections whose first fold it completes."""
        self.env.grow_if_needed()
        with self.env.write() as txn:
            for database, changed in changes.items():
                if changed:
                    self._put(txn, database, changed)
            watermark.write(txn, self.env.db(tables.META), Watermark(head, counters))
            versions.stamp(self.env, txn, stamped)

    def _put(self, txn: lmdb.Transaction, database: str, changed: dict[bytes, bytes | None]) -> None:
        handle = self.env.db(database)
        puts = sorted([(key, value) for key, value in changed.items() if value is not None])
        with txn.cursor(db=handle) as cursor:
            cursor.putmulti(puts)
        if len(puts) != len(changed):
            for key, value in changed.items():
                if value is None:
                    txn.delete(key, db=handle)

    @uncollected()
    def catch_up(self, log: Log, progress: Progress | None = None, to_seq: int | None = None) -> int:
        """Fold what the journal has beyond the watermark, up to `to_seq` if given; the number of records folded.
        Projections of another version are folded anew first.

        Raises DamagedStore when the watermark is not a place in this journal.
        """
        target = log.head()
        watermark.check_place(self.head, log)
        stale = self.stale()
        if stale:
            self.fold_anew(log, stale, progress)
        folded = 0
        last_seq = target.seq if to_seq is None else min(to_seq, target.seq)
        for chunk in log.chunks(self.head.seq + 1, last_seq, FOLD_CHUNK_RECORDS):
            changes, counters = self._folded(apply, chunk, self.counters, self.head)
            head = Head(target.epoch, chunk[-1].seq, chain_of(log, chunk[-1].seq))
            self.commit(changes, counters, head)
            folded += len(chunk)
            if progress is not None:
                progress(chunk[-1].seq, target.seq)
        return folded

    def stale(self) -> list[str]:
        """The projections that `fold_anew` is needed for: of another version, or not folded to their end."""
        if not self.head.seq:
            return []
        with self.env.read() as txn:
            return versions.stale(self.env, txn)

    @uncollected()
    def fold_anew(self, log: Log, projections: Collection[str], progress: Progress | None = None) -> None:
        """Empty these projections, and fold them alone up to the watermark. The others keep what they have.

        A crash in between leaves them stale. Raises DamagedRecord, StoreIO, and what `progress` raises.
        """
        self._empty(projections)
        fold, counters = fold_of(projections), Counters()
        last_seq = self.head.seq
        for chunk in log.chunks(1, last_seq, FOLD_CHUNK_RECORDS):
            before = Head(self.head.epoch, chunk[0].seq - 1, b"")
            changes, counters = self._folded(fold, chunk, counters, before)
            self.counters = self.counters.highest(counters)
            done = chunk[-1].seq == last_seq
            self._write(changes, self.counters, self.head, projections if done else ())
            if progress is not None:
                progress(chunk[-1].seq, last_seq)

    def _empty(self, projections: Collection[str]) -> None:
        with self.env.write() as txn:
            versions.unstamp(self.env, txn, projections)
            for name in projections:
                for database in tables.PROJECTIONS[name]:
                    txn.drop(self.env.db(database), delete=False)

    def _folded(self, fold: Fold, chunk: list[Record], counters: Counters, head: Head) -> tuple[Changes, Counters]:
        """What a fold makes of records behind `head`, over what is committed."""
        with self.snapshot() as snapshot:
            state = State(snapshot, counters.copy(), head)
            for record in chunk:
                fold(state, record)
            return state.finish(), state.counters

    def digests(self) -> dict[str, str]:
        """BLAKE2b-128 over the entries of each projection, hex. Logical state only: no watermark."""
        return self.digests_at()[1]

    def digests_at(self, step: Callable[[], None] | None = None) -> tuple[int, dict[str, str]]:
        """`(the record they stand at, digests)`, both of one snapshot. `step` is called now and then; what it
        raises ends it.
        """
        found: dict[str, str] = {}
        env = self.env
        with env.read() as txn:
            head = watermark.read_head(txn, env.db(tables.META))
            for projection, databases in tables.PROJECTIONS.items():
                digest = blake2b(digest_size=16)
                for database in databases:
                    with txn.cursor(db=env.db(database)) as cursor:
                        for count, (key, value) in enumerate(cursor):
                            if step is not None and count % DIGEST_STEP_ENTRIES == 0:
                                step()
                            if database == tables.BLOCKS and key[0] == blocks.SLOT:
                                continue  # where keys lie in the vault is no logical state
                            digest.update(len(key).to_bytes(2, "big") + key)
                            digest.update(len(value).to_bytes(4, "big") + value)
                found[projection] = digest.hexdigest()
        return 0 if head is None else head.seq, found

    def note_damage(self, database: str) -> None:
        """A value of `database` is damaged: unless it is healed before, the next open folds everything anew. Safe on
        any thread."""
        with self.place:
            is_marked = bool(self.damaged) and self.unmarked is None
            self.damaged.add(database)
            self.noticed.set()
            if not is_marked:
                self.distrust()

    def distrust(self) -> None:
        """Mark what is there as not to be opened again: the next open folds from the journal. A mark that can't be
        written is `unmarked`; `close` tries again."""
        with self.place:
            self._distrusted = True
            self.unmarked = None
            try:
                trust.write_distrust(self._directory)
            except FileNotFoundError:
                return  # what isn't there can't be opened
            except OSError as error:
                self.unmarked = error

    def adopt(self, fresh: ProjectionStore, rebuilt: Collection[str]) -> None:
        """Go on with what `fresh` holds: it stands at the same record, and its files lie in this store's directory by
        now. To be called where batches are committed, between two of them. `rebuilt` is what was folded anew for it.
        Raises nothing: whoever calls it can't go back.
        """
        fresh.env.path = self._directory
        self.env, self.counters, self.head = fresh.env, fresh.counters, fresh.head
        if set(rebuilt) == set(tables.PROJECTIONS):
            self.damaged.clear()
        else:
            self.damaged.difference_update(*(tables.PROJECTIONS[name] for name in rebuilt))
        self._distrusted, self.unmarked = False, None
        if self.damaged:
            self.distrust()

    def close(self, clean: bool) -> None:
        """Close; a clean stop syncs everything, then takes OPEN away, unless what is there is distrusted. Where no room
        was for the mark of that, the data go. Raises OSError when they can't be taken away either."""
        if self.unmarked is not None:
            self.distrust()
        if self.unmarked is not None:
            trust.remove_data(self._directory)
        keeps = clean and not self._distrusted
        if keeps:
            self.env.sync()
        self.env.close()
        if keeps:
            with suppress(FileNotFoundError):  # a swap that failed half way has left nothing there
                trust.open_file(self._directory).unlink(missing_ok=True)
                sync_directory(self._directory)

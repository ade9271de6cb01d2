"""Filling the working set's columns while the daemon serves: rows from the projections, Blooms by unsealing.

One thread. It works in steps of a few memories and lets go of the interpreter behind each, so that a write which comes
back from the disk waits for a fraction of a millisecond at most. It ends at the next step when it is told to.

Damage costs what it hit: a memory whose particulars can't be read keeps a Bloom that rules nothing out, and is a
finding; damaged header rows are told to the projections, whose repair is waited for, while questions read snapshots.
Anything else that goes wrong is told to `failed`, and tried again later.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from time import sleep

import lmdb
import msgspec
import numpy as np

from journal import events
from journal.codes import Part
from journal.errors import DamagedRecord, PartUnreadable
from journal.particulars import decode_particulars
from journal.store import Store
from journal.unsealing import unseal
from journal.verify import Finding
from projections import rows, tables
from projections.header_columns import HeaderColumns, Segment, View, cut
from projections.rows import DamagedRow
from projections.sealed_scan import SealedScan
from projections.state import KEY32_32, KEY64
from projections.store import ProjectionStore, TxnSnapshot
from projections.tag_blooms import ANY, bloom_in, bloom_of

STEP_PAGES = 16
STEP_MEMORIES = 16
PAUSE_S = 0.0003
"""Behind a step: the thread works about half of the time. Measured, that is 30,000 memories a second, and writes take
about three times as long at their 99th percentile; with a sixth of it twice as many, and about five times as long."""
LOOK_EVERY_S = 1.0
"""How often is looked for memories whose Blooms became unknown, and for projections that were repaired."""
FAILED_PAUSE_S = 10.0
_ACTION = "Run `noctuary audit`; restore a backup that still has it."


class Ended(Exception):
    """It was told to end."""


Failed = Callable[[Exception], None]
"""Told what went wrong. What it raises ends the thread."""


def _raise(error: Exception) -> None:
    raise error


class Filling:
    """Fills `columns` from when it is started until it is ended."""

    def __init__(
        self, columns: HeaderColumns, store: Store, projections: ProjectionStore, failed: Failed = _raise
    ) -> None:
        self._failed = failed
        self._columns = columns
        self._store = store
        self._projections = projections
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="filling", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Ended when this returns; a second time, or before it was started, does nothing."""
        self._ending.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._ending.is_set():
            pause_s = LOOK_EVERY_S
            try:
                self._fill()
            except Ended:
                return
            except Exception as error:
                self._failed(error)
                pause_s = FAILED_PAUSE_S
                if self._columns.newest is None:
                    self._columns.forget()  # what was begun collects no more
            self._ending.wait(pause_s)

    def _fill(self) -> None:
        """All that is missing. Raises Ended."""
        try:
            if self._columns.newest is None:
                self._load()
            self._columns.settle()
            view = self._columns.newest
            if view is not None and view.unknown:
                self._learn_all(view)
        except DamagedRow as damage:
            self._columns.forget()
            self._projections.note_damage(damage.database)

    def _breathe(self) -> None:
        if self._ending.is_set():
            raise Ended
        sleep(PAUSE_S)

    def _load(self) -> None:
        """The header rows of all partitions, from one snapshot. Raises DamagedRow, Ended."""
        self._columns.begin()
        with self._projections.snapshot() as snapshot:
            seq = snapshot.watermark_seq()
            pages = groupby(self._pages(snapshot), lambda entry: int(KEY32_32.unpack(entry[0])[0]))
            found = {partition: cut(entries) for partition, entries in pages}
        self._columns.load(seq, found)

    def _pages(self, snapshot: TxnSnapshot) -> Iterator[tuple[bytes, bytes]]:
        for count, entry in enumerate(snapshot.prefix(tables.ROWS, b"")):
            if count % STEP_PAGES == 0:
                self._breathe()
            yield entry

    def _learn_all(self, view: View) -> None:
        """The Blooms of one partition after the other. Raises DamagedRow, Ended."""
        for partition in list(view.partitions()):
            for place, segment in enumerate(view.segments(partition)):
                if not segment.known.all():
                    self._learn(partition, place, segment)

    def _learn(self, partition: int, place: int, segment: Segment) -> None:
        """The Blooms of a segment, in transactions of its own. Raises DamagedRow, Ended."""
        missing = np.flatnonzero(~segment.known)
        tsids = segment.rows["tsid"][missing].tolist()
        learned: list[int] = []
        with self._projections.snapshot() as snapshot, self._store.env.read() as txn:
            scan = SealedScan(self._store, snapshot, txn)
            for first in range(0, len(tsids), STEP_MEMORIES):
                learned += self._blooms(scan, snapshot, txn, tsids[first : first + STEP_MEMORIES])
                self._breathe()
        blooms = segment.blooms.copy()
        blooms[missing] = np.array(learned, np.uint64)
        self._columns.learn(partition, place, segment.rows, blooms)

    def _blooms(
        self, scan: SealedScan, snapshot: TxnSnapshot, txn: lmdb.Transaction, tsids: Sequence[int]
    ) -> list[int]:
        found: list[int] = []
        for tsid, said in zip(tsids, scan.particulars(tsids), strict=True):
            try:
                found.append(self._slowly(snapshot, txn, tsid) if said is None else bloom_in(said))
            except msgspec.DecodeError:
                found.append(self._slowly(snapshot, txn, tsid))
        return found

    def _slowly(self, snapshot: TxnSnapshot, txn: lmdb.Transaction, tsid: int) -> int:
        """The Bloom of a memory that didn't open at once, by the way that tells why. Raises DamagedRow."""
        key = KEY64.pack(tsid)
        value = snapshot.get(tables.MEMORIES, key)
        if value is None:
            return ANY
        seq = rows.unpack_memory(key, value).particulars_seq
        try:
            record = self._store.log.get(txn, seq)
            event = None if record is None else record.event
            if not isinstance(event, events.MemoryCreated | events.Moved):
                raise DamagedRecord(seq, "event")
            part = next((part for part in event.parts if part.part == Part.PARTICULARS), None)
            if part is None:
                return bloom_of(())
            return bloom_of(decode_particulars(unseal(self._store.log, self._store.sealer, txn, part)).tags)
        except (DamagedRecord, msgspec.DecodeError) as error:
            self._note(seq, error)
        except PartUnreadable as error:
            if error.state == "damaged":
                self._note(seq, error)
        return ANY

    def _note(self, seq: int, error: Exception) -> None:
        what = f"the tags that record {seq} brought can't be read: {type(error).__name__}"
        self._store.note(Finding("read_damaged", seq, what, _ACTION))

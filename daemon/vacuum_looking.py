"""What a vacuum looks up beside the writer: the next rows of a partition, and what lies in the journal of those that
were purged.

A ciphertext leaves when a PURGE lists its slot, the slot is shredded, and it is still there. It leaves with the memory
that the PURGE took it along with (`destroying.listed_by`), whatever its own record is about: that one is purged, so a
vacuum comes to its row, or finds that it was purged late. What goes with no memory (a session that is purged for
itself, a PURGE that was applied again after a restore and names none, a mean that was replaced) leaves when all
partitions are vacuumed by force: then all records that destroy keys are gone through, and nothing of a destroyed key
is left, also not in a partition whose rows can't be compacted: what is damaged there needs no text that nobody can
open. A shared text that lives is in no PURGE.

At most `PARTS_AT_ONCE` leave with one command: where more go with a slice, they go in commands of their own before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import lmdb
import numpy as np

from daemon.commands.vacuuming import TAIL_ROWS, Ciphertexts, Rest, Slice
from journal import events
from journal.destroying import destroyed_parts, listed_by
from journal.errors import DamagedRecord
from journal.events import Ref, SealedPart
from journal.log import sealed_key
from journal.record import Record
from journal.store import Store
from journal.vault import SlotState
from projections import partitions, removed, rows, tables
from projections.columns import HEADER
from projections.partitions import PartitionRow
from projections.rows import FLAG_PURGED, HEADER_BYTES, ROWS_PER_PAGE, DamagedRow
from projections.state import KEY32, KEY32_32, KEY64, KEY64_64, State, Unchanged
from projections.store import ProjectionStore
from projections.vacuumed import leaving

SLICE_ROWS = 12 * ROWS_PER_PAGE
"""Two or three milliseconds of the writer, its commits aside: the fewer, the more commits a vacuum takes."""
RECORDS_AT_ONCE = 128
"""So many records that destroy keys are gone through in one transaction, at most."""
PARTS_AT_ONCE = 2048
"""So many ciphertexts leave with one command, at most: a PURGE may list many more."""


class Destroying:
    """Which records destroy keys, as of when it was made. Read once for a vacuum; what came since is looked at."""

    def __init__(self, store: Store) -> None:
        self._head_seq = store.log.head().seq
        self.seqs = store.log.destroying_seqs()
        self._known = frozenset(self.seqs)

    def may_be(self, seq: int) -> bool:
        return seq in self._known or seq > self._head_seq


class Left(NamedTuple):
    """What is left of destroyed keys in some records: `rest` None when nothing is, `at` the place of the record to go
    on with, and what could not be read."""

    rest: Rest | None
    at: int
    damaged: list[DamagedRow | DamagedRecord]


class Looking:
    """At one partition. Every look has its own snapshot: all that was committed before it is seen."""

    def __init__(self, store: Store, projections: ProjectionStore, number: int, destroying: Destroying) -> None:
        self._store = store
        self._projections = projections
        self._number = number
        self._destroying = destroying

    def row_bytes(self) -> int:
        """Of the partition's pages as they are stored. Raises DamagedRow."""
        with self._projections.snapshot() as snapshot:
            return sum(len(value) for _, value in snapshot.prefix(tables.ROWS, KEY32.pack(self._number)))

    def row_bytes_or(self, otherwise: int) -> int:
        try:
            return self.row_bytes()
        except DamagedRow:
            return otherwise

    def left_of(self, found: Ciphertexts) -> int:
        """By how many bytes the ciphertexts of a slice that was committed are fewer now."""
        with self._store.env.read() as txn:
            there = (self._store.log.sealed(txn, *key) for key in found.keys)
            return found.size_bytes - sum(len(each) for each in there if each is not None)

    # --- what comes next -------------------------------------------------------------------------------

    def slice(self, forced: bool) -> Slice | Rest:
        """The next rows; or some of their ciphertexts, where these are too many to leave with them. Raises DamagedRow,
        DamagedRecord."""
        with self._projections.snapshot() as snapshot, self._store.env.read() as txn:
            state = Unchanged(snapshot, self._projections.counters, snapshot.head)
            row = partitions.load(state, self._number)
            first = row.reached or self._first_dead(state, row)
            until = min(row.rows, first + SLICE_ROWS)
            until = row.rows if row.rows - until <= TAIL_ROWS else until  # as it is decided: no slice is so small
            columns = np.frombuffer(self._content(state, first, until), HEADER)
            purged = frozenset(columns["tsid"][columns["flags"] & FLAG_PURGED != 0].tolist())
            found = self._there(state, txn)
            if not found.take(self._listed(state, txn, purged)):
                return Rest(self._number, (), found.ciphertexts(), forced)
        return Slice(self._number, first, until, purged, found.ciphertexts(), forced)

    def late(self, forced: bool) -> Rest | None:
        """Some of those that were purged late, None when there are none. Raises DamagedRow, DamagedRecord."""
        with self._projections.snapshot() as snapshot, self._store.env.read() as txn:
            state = Unchanged(snapshot, self._projections.counters, snapshot.head)
            tsids = list(islice(removed.late_of(state, self._number), SLICE_ROWS))
            if not tsids:
                return None
            found = self._there(state, txn)
            all_taken = found.take(self._listed(state, txn, frozenset(tsids)))
            late = tuple([_ref(state, tsid) for tsid in tsids]) if all_taken else ()
            return Rest(self._number, late, found.ciphertexts(), forced)

    def rest(self, tenant: int, seqs: Sequence[int], at: int) -> Left:
        """What the records of a tenant from `seqs[at]` on destroyed and is still there. What can't be read costs what
        it lists only."""
        until = min(len(seqs), at + RECORDS_AT_ONCE)
        damaged: list[DamagedRow | DamagedRecord] = []
        with self._projections.snapshot() as snapshot, self._store.env.read() as txn:
            found = self._there(Unchanged(snapshot, self._projections.counters, snapshot.head), txn)
            while at < until and self._take_destroyed(txn, tenant, seqs[at], found, damaged):
                at += 1
        ciphertexts = found.ciphertexts()
        return Left(Rest(self._number, (), ciphertexts, True) if ciphertexts.keys else None, at, damaged)

    def _first_dead(self, state: State, row: PartitionRow) -> int:
        """The first row of the first page that has one which leaves: what is before it stays where it is."""
        for page in range(-(-row.rows // ROWS_PER_PAGE)):
            columns = np.frombuffer(self._page(state, page), HEADER)
            if leaving(columns).any():
                return page * ROWS_PER_PAGE
        return row.rows - row.rows % ROWS_PER_PAGE

    def _page(self, state: State, page: int) -> bytes:
        key = KEY32_32.pack(self._number, page)
        value = state.get(tables.ROWS, key)
        if value is None:
            raise DamagedRow(tables.ROWS)
        return rows.open_row(tables.ROWS, key, value)

    def _content(self, state: State, first: int, until: int) -> bytes:
        if first == until:
            return b""
        low, high = first // ROWS_PER_PAGE, (until - 1) // ROWS_PER_PAGE
        content = b"".join(self._page(state, page) for page in range(low, high + 1))
        begin = (first - low * ROWS_PER_PAGE) * HEADER_BYTES
        found = content[begin : begin + (until - first) * HEADER_BYTES]
        if len(found) != (until - first) * HEADER_BYTES:
            raise DamagedRow(tables.ROWS)
        return found

    # --- ciphertexts -----------------------------------------------------------------------------------

    def _listed(self, state: State, txn: lmdb.Transaction, purged: frozenset[int]) -> Iterator[SealedPart]:
        """The parts that PURGEs list with these memories."""
        seqs = {seq for tsid in purged for seq in self._purges_of(state, tsid)}
        for seq in sorted(seqs):
            record = self._record(txn, seq)
            if isinstance(record.event, events.Purged):
                listed = listed_by(record.event.targets, self._all_parts(txn, record, record.event))
                for tsid in purged.intersection(listed):
                    yield from listed[tsid]

    def _all_parts(self, txn: lmdb.Transaction, record: Record, event: events.Purged) -> list[SealedPart]:
        """Of a PURGE that lists more than one record says: those without memories that follow it go on with it."""
        parts = list(event.parts)
        count = sum(target.keys_shredded for target in event.targets)
        seq = record.seq
        while len(parts) < count:
            seq += 1
            more = self._store.log.get(txn, seq)
            if more is None or not isinstance(more.event, events.Purged):
                break
            if more.event.targets or more.cause != record.cause:
                break
            parts += more.event.parts
        return parts

    def _purges_of(self, state: State, tsid: int) -> Iterator[int]:
        for key, _ in state.entries(tables.TOUCHES, KEY64.pack(tsid)):
            seq = int(KEY64_64.unpack(key)[1])
            if self._destroying.may_be(seq):
                yield seq

    def _take_destroyed(
        self, txn: lmdb.Transaction, tenant: int, seq: int, found: _There, damaged: list[DamagedRow | DamagedRecord]
    ) -> bool:
        """Whether there was room for all that the record lists. Part by part: what one lies in may be damaged."""
        try:
            record = self._record(txn, seq)
        except DamagedRecord as error:
            damaged.append(error)
            return True
        for part in destroyed_parts(record.event) if record.tenant == tenant else ():
            try:
                if not found.take((part,)):
                    return False
            except (DamagedRow, DamagedRecord) as error:
                damaged.append(error)
        return True

    def _there(self, state: State, txn: lmdb.Transaction) -> _There:
        return _There(self._store, state, txn, self._record)

    def _record(self, txn: lmdb.Transaction, seq: int) -> Record:
        record = self._store.log.get(txn, seq)
        if record is None:
            raise DamagedRecord(seq, "missing")
        return record


class _There:
    """What of some parts is shredded, and lies in the journal; at most `PARTS_AT_ONCE` of them."""

    def __init__(
        self, store: Store, state: State, txn: lmdb.Transaction, record: Callable[[lmdb.Transaction, int], Record]
    ) -> None:
        self._store, self._state, self._txn, self._record = store, state, txn, record
        self._sizes: dict[tuple[int, int], int] = {}
        self._counted: dict[int, int] = {}

    def take(self, parts: Iterable[SealedPart]) -> bool:
        """Whether there was room for all of them. Raises DamagedRow, DamagedRecord for one that is not taken then."""
        for part in parts:
            key = part.owner_seq, part.part
            if not part.slot or key in self._sizes:
                continue
            sealed = self._store.log.sealed(self._txn, *key)
            if sealed is None or self._store.vault.state(part.slot) is not SlotState.SHREDDED:
                continue
            if len(self._sizes) == PARTS_AT_ONCE:
                return False
            number = partitions.counted_with(self._state, self._record(self._txn, part.owner_seq).event)
            self._sizes[key] = len(sealed)
            if number is not None:
                self._counted[number] = self._counted.get(number, 0) + len(sealed)
        return True

    def ciphertexts(self) -> Ciphertexts:
        keys = sorted(self._sizes, key=lambda each: sealed_key(*each))
        return Ciphertexts(tuple(keys), sum(self._sizes.values()), tuple(sorted(self._counted.items())))


def _ref(state: State, tsid: int) -> Ref:
    row = state.memory(tsid)
    if row is None:
        raise DamagedRow(tables.LATE)
    return row.kind, tsid

"""What a vacuum looks up beside the writer: the next rows of a partition, and what lies in the journal of those that
were purged.

A ciphertext leaves when a PURGE names its slot, the slot is shredded, and it is still there. Which partition it leaves
with is that of the memory that its record is about; where that one has no row any more, or it is about none (the name
of a session), it leaves with whoever was purged with it. A shared text that lives is in no PURGE.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import lmdb
import numpy as np

from daemon.commands.vacuuming import TAIL_ROWS, Slice
from journal import events
from journal.errors import DamagedRecord
from journal.events import SealedPart
from journal.log import sealed_key
from journal.store import Store
from journal.vault import SlotState
from projections import partitions, removed, rows, tables
from projections.columns import HEADER
from projections.partitions import PartitionRow
from projections.rows import FLAG_PURGED, HEADER_BYTES, NO_ROW, ROWS_PER_PAGE, DamagedRow
from projections.state import KEY32, KEY32_32, KEY64, KEY64_64, State, Unchanged
from projections.store import ProjectionStore
from projections.vacuumed import leaving

SLICE_ROWS = 12 * ROWS_PER_PAGE
"""Two or three milliseconds of the writer, its commits aside: the fewer, the more commits a vacuum takes."""


class Looking:
    """At one partition. Every look has its own snapshot: all that was committed before it is seen."""

    def __init__(self, store: Store, projections: ProjectionStore, number: int) -> None:
        self._store = store
        self._projections = projections
        self._number = number
        self._destroying: frozenset[int] = frozenset()

    def row_bytes(self) -> int:
        """Of the partition's pages as they are stored. Raises DamagedRow."""
        with self._projections.snapshot() as snapshot:
            return sum(len(value) for _, value in snapshot.prefix(tables.ROWS, KEY32.pack(self._number)))

    def row_bytes_or(self, otherwise: int) -> int:
        try:
            return self.row_bytes()
        except DamagedRow:
            return otherwise

    def left_of(self, found: Slice) -> int:
        """By how many bytes the ciphertexts of a slice that was committed are fewer now."""
        with self._store.env.read() as txn:
            there = (self._store.log.sealed(txn, *key) for key in found.removed)
            return found.removed_bytes - sum(len(each) for each in there if each is not None)

    def slice(self, forced: bool) -> Slice:
        """What comes next. Raises DamagedRow, DamagedRecord."""
        self._destroying = frozenset(self._store.log.destroying_seqs())
        with self._projections.snapshot() as snapshot, self._store.env.read() as txn:
            state = Unchanged(snapshot, self._projections.counters, snapshot.head)
            row = partitions.load(state, self._number)
            first = row.reached or self._first_dead(state, row)
            until = min(row.rows, first + SLICE_ROWS)
            until = row.rows if row.rows - until <= TAIL_ROWS else until  # as it is decided: no slice is so small
            columns = np.frombuffer(self._content(state, first, until), HEADER)
            purged = [int(tsid) for tsid in columns["tsid"][columns["flags"] & FLAG_PURGED != 0]]
            if until == row.rows and row.late:
                purged += [tsid for tsid, taken in removed.of_partition(state, self._number) if taken.late]
            found, own_bytes, total = self._ciphertexts(state, txn, purged, until)
        return Slice(self._number, first, until, frozenset(purged), tuple(found), total, own_bytes, forced)

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

    def _ciphertexts(
        self, state: State, txn: lmdb.Transaction, purged: Iterable[int], until: int
    ) -> tuple[list[tuple[int, int]], int, int]:
        """`(sealed keys that leave, bytes of those counted with this partition, bytes of all)`."""
        found: list[tuple[int, int]] = []
        own_bytes = total = 0
        for part in self._shredded(state, txn, purged):
            sealed = self._store.log.sealed(txn, part.owner_seq, part.part)
            if sealed is None:
                continue
            leaves, is_own = self._leaves(state, txn, part, until)
            if leaves:
                found.append((part.owner_seq, part.part))
                total += len(sealed)
                own_bytes += len(sealed) * is_own
        found.sort(key=lambda each: sealed_key(*each))
        return found, own_bytes, total

    def _shredded(self, state: State, txn: lmdb.Transaction, purged: Iterable[int]) -> Iterator[SealedPart]:
        """The parts that the PURGEs of these memories name, each once, if their slot is shredded."""
        seqs = {seq for tsid in purged for seq in self._purges_of(state, tsid)}
        seen: set[int] = set()
        for seq in sorted(seqs):
            record = self._store.log.get(txn, seq)
            if record is None or not isinstance(record.event, events.Purged):
                raise DamagedRecord(seq, "event")
            for part in record.event.parts:
                if part.slot and part.slot not in seen:
                    seen.add(part.slot)
                    if self._store.vault.state(part.slot) is SlotState.SHREDDED:
                        yield part

    def _purges_of(self, state: State, tsid: int) -> Iterator[int]:
        for key, _ in state.entries(tables.TOUCHES, KEY64.pack(tsid)):
            seq = int(KEY64_64.unpack(key)[1])
            if seq in self._destroying:
                yield seq

    def _leaves(self, state: State, txn: lmdb.Transaction, part: SealedPart, until: int) -> tuple[bool, bool]:
        """`(whether it leaves with this slice, whether it was counted with this partition)`."""
        record = self._store.log.get(txn, part.owner_seq)
        if record is None:
            raise DamagedRecord(part.owner_seq, "missing")
        about = _about(record.event)
        row = None if about is None else state.memory(about)
        if row is None:
            return True, False
        is_own = row.partition == self._number
        return row.offset == NO_ROW or (is_own and row.offset < until), is_own


def _about(event: object) -> int | None:
    """The memory that a record is about, None when it is about none."""
    if isinstance(event, events.MemoryCreated):
        return event.id
    about = getattr(event, "memory", None)
    return None if about is None else int(about[1])

"""What was known of one memory at a moment: its row, folded from its own records up to then.

The fold is the one that keeps the projections, over a state in which nothing exists yet. Records that touch a memory
speak of others too (a source that is forgotten flags what was made from it, thousands perhaps): of the lists in them
only what names the memory is folded (`Focus`), and who is named else is a blank, which takes whatever is folded into it
and is dropped.

Order is the sequence number, and a clock may have been set back: what was known at T is everything up to the last
record that was written at T or before, so always a state that the memory really was in. A clock that was ahead for a
while hides nothing for ever, and nothing that was decided on an earlier record is seen without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from journal import events
from journal.record import Head, Record
from projections import partitions
from projections.fold import fold_of
from projections.partitions import PartitionRow
from projections.rows import HEADER_BYTES, ROWS_PER_PAGE, MemoryRow
from projections.state import Counters, State

_FOLD = fold_of(("memories",))
_BLANK = MemoryRow._make((0,) * len(MemoryRow._fields))
"""Any other memory: in a partition that no memory has, at offset 0."""


_NESTING = (tuple, msgspec.Struct)


class _Nothing:
    """A snapshot of a store in which nothing was written yet."""

    def get(self, database: str, key: bytes) -> bytes | None:
        return None

    def prefix(self, database: str, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        return iter(())


def mentions(event: Any, tsid: int) -> bool:
    """Whether an event names a memory anywhere: whatever touches one does."""
    return any(_names(getattr(event, name), tsid) for name in event.__struct_fields__)


def _names(value: Any, tsid: int) -> bool:
    if isinstance(value, int):
        return value == tsid
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.astuple(value)
    elif not isinstance(value, tuple):
        return False
    return tsid in value or any(_names(each, tsid) for each in value if isinstance(each, _NESTING))


class Focus:
    """One record as memories see it: with those items only of its lists that name the one that asks. For the first that
    asks its lists are searched; they are indexed when a second one does, so are gone through twice, however many ask.
    """

    def __init__(self, record: Record) -> None:
        self._record = record
        self._lists: dict[str, tuple[Any, ...]] = {}
        self._first: int | None = None
        self._first_named = False
        self._indexed: dict[str, dict[int, list[Any]]] | None = None
        self._named: set[int] = set()
        if isinstance(record.event, events.MemoryCreated):
            return  # its lists are what it was made from, and it is asked for by one
        for name in record.event.__struct_fields__:
            value = getattr(record.event, name)
            if isinstance(value, tuple) and len(value) > 2:  # a pair may be a reference
                self._lists[name] = value

    def names(self, tsid: int) -> bool:
        """As `mentions`."""
        if self._is_first(tsid):
            return self._first_named
        self._index()
        return tsid in self._named

    def on(self, tsid: int) -> Record:
        """The record, with what names `tsid` alone."""
        if not self._lists:
            return self._record
        if self._is_first(tsid):
            kept = {name: tuple(item for item in items if _names(item, tsid)) for name, items in self._lists.items()}
        else:
            kept = {name: tuple(found.get(tsid, ())) for name, found in self._index().items()}
        event = msgspec.structs.replace(self._record.event, **kept)
        return msgspec.structs.replace(self._record, event=event)

    def _is_first(self, tsid: int) -> bool:
        if self._first is None:
            self._first, self._first_named = tsid, mentions(self._record.event, tsid)
        return self._first == tsid

    def _index(self) -> dict[str, dict[int, list[Any]]]:
        if self._indexed is not None:
            return self._indexed
        self._named = _numbers(self._record.event)
        self._indexed = {}
        for name, items in self._lists.items():
            found = self._indexed.setdefault(name, {})
            for item in items:
                for tsid in _numbers(item):
                    found.setdefault(tsid, []).append(item)
        return self._indexed


def _numbers(item: Any) -> set[int]:
    """The numbers in an item of a list, at any depth."""
    if isinstance(item, int):
        return {item}
    if isinstance(item, msgspec.Struct):
        item = msgspec.structs.astuple(item)
    return set().union(*map(_numbers, item)) if isinstance(item, tuple) else set()


class _Alone(State):
    """The state of one memory, `tsid`; all others are blanks."""

    def __init__(self, tsid: int) -> None:
        super().__init__(_Nothing(), Counters(), Head(0, 0, b""))
        self._tsid = tsid
        self._stand_in(_BLANK.partition)
        self.pages[_BLANK.partition, 0] = bytearray(ROWS_PER_PAGE * HEADER_BYTES)

    def begin_in(self, partition: int) -> None:
        """The partition that the memory is created in; its rows are counted from there."""
        self._stand_in(partition)

    def memory(self, tsid: int) -> MemoryRow | None:
        row = super().memory(tsid)
        return _BLANK if row is None and tsid != self._tsid else row

    def _stand_in(self, number: int) -> None:
        partitions.store(self, number, PartitionRow(0, 0, None, 0, None, 0, 0, 0, 0))


def known_records(records: Sequence[Record], at_ms: int) -> Sequence[Record]:
    """Of a memory's records, in order, those known at `at_ms`: all up to the last one written then or before."""
    for count in range(len(records), 0, -1):
        if records[count - 1].at_ms <= at_ms:
            return records[:count]
    return ()


def known_at(records: Sequence[Record], row: MemoryRow, tsid: int, at_ms: int) -> MemoryRow | None:
    """The row of memory `tsid` as it was at `at_ms`, None when it was not yet written.

    `records` are the one that created it and all that touched it, in order; `row` is the present one, which says where
    its header row lies. Raises DamagedRow for nothing: the state it folds into is new.
    """
    return folded(known_records(records, at_ms), row, tsid)


def folded(records: Iterable[Record], row: MemoryRow, tsid: int) -> MemoryRow | None:
    """The row that these records make; where it lies is what `row` says."""
    state = _Alone(tsid)
    state.begin_in(row.partition)
    for record in records:
        _FOLD(state, record)
    found = state.memory(tsid)
    return None if found is None else found._replace(offset=row.offset)

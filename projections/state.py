"""The state a fold reads and changes: an overlay of changes over one snapshot.

Nothing is written through it. After a batch its `changes` are the change set: per database, key to value
or None for a deletion. Header rows are changed page by page; `pages` holds the pages that were touched.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import msgspec

from journal.record import Head
from projections import rows, tables

KEY64 = struct.Struct(">Q")
KEY32 = struct.Struct(">I")
KEY32_32 = struct.Struct(">II")
KEY32_64 = struct.Struct(">IQ")
KEY64_64 = struct.Struct(">QQ")

Pack = Callable[[bytes, Any], bytes]
Changes = dict[str, dict[bytes, bytes | None]]


class Snapshot(Protocol):
    """What is needed of a committed snapshot."""

    def get(self, database: str, key: bytes) -> bytes | None: ...

    def prefix(self, database: str, prefix: bytes) -> Iterator[tuple[bytes, bytes]]: ...


class Counters(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """The highest number of each series that any record has assigned, and the highest TSID."""

    tsid: int = 0
    slot: int = 0
    session: int = 0
    tenant: int = 0
    producer: int = 0
    entity: int = 0
    partition: int = 0

    def highest(self, other: Counters) -> Counters:
        """Of each series the higher number."""
        return Counters(*(max(getattr(self, name), getattr(other, name)) for name in self.__struct_fields__))

    def copy(self) -> Counters:
        return Counters(*(getattr(self, name) for name in self.__struct_fields__))


class State:
    """An overlay over `snapshot`. `counters` and `head` are those behind the last folded record."""

    def __init__(self, snapshot: Snapshot, counters: Counters, head: Head) -> None:
        self._snapshot = snapshot
        self.counters = counters
        self.head = head
        self.changes: Changes = defaultdict(dict)  # a question changes nothing: made when one is looked at
        self.memories = self.changes[tables.MEMORIES]
        self.pages: dict[tuple[int, int], bytearray] = {}
        self.unsteady: set[int] = set()  # partitions whose rows died, whose turns were settled, whose state changed
        self._deferred: dict[tuple[str, bytes], tuple[Any, Pack]] = {}
        self.noted: set[tuple[int, int, int, int]] = set()  # what `blocks` has said in this batch already
        self._sessions: dict[int, rows.SessionRow] = {}
        self._sessions_changed: set[int] = set()

    def deferred(self, database: str, key: bytes) -> Any | None:
        """The row that `defer` was last given for this key, not yet packed."""
        found = self._deferred.get((database, key))
        return None if found is None else found[0]

    def defer(self, database: str, key: bytes, row: Any, pack: Pack) -> None:
        """Change a row that many records of a batch change: it is packed once, when the batch is done."""
        self._deferred[database, key] = (row, pack)

    def get(self, database: str, key: bytes) -> bytes | None:
        changes = self.changes[database]
        if key in changes:
            return changes[key]
        return self._snapshot.get(database, key)

    def put(self, database: str, key: bytes, value: bytes) -> None:
        self.changes[database][key] = value

    def delete(self, database: str, key: bytes) -> None:
        self.changes[database][key] = None

    def prefix(self, database: str, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Entries whose key starts with `prefix`, in key order, changes included."""
        changed = {k: v for k, v in self.changes[database].items() if k.startswith(prefix)}
        if not changed:
            yield from self._snapshot.prefix(database, prefix)
            return
        merged: dict[bytes, bytes | None] = dict(self._snapshot.prefix(database, prefix))
        merged.update(changed)
        for key in sorted(merged):
            value = merged[key]
            if value is not None:
                yield key, value

    def entries(self, database: str, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """`(key, payload)` of what `prefix` gives. Each value's CRC covers its key, so it is looked at even where the
        key says all: a damaged key would name what nobody wrote. Raises DamagedRow."""
        for key, value in self.prefix(database, prefix):
            yield key, rows.open_row(database, key, value)

    def memory(self, tsid: int) -> rows.MemoryRow | None:
        """The memory row of `tsid`, or None. Raises DamagedRow."""
        key = KEY64.pack(tsid)
        value = self.memories.get(key)
        if value is None:
            value = self._snapshot.get(tables.MEMORIES, key)
            if value is None:
                return None
        return rows.unpack_memory(key, value)

    def memory_values(self, keys: list[bytes]) -> list[bytes | None]:
        """The stored values of many memory rows, unchecked."""
        many = getattr(self._snapshot, "many", None)
        if many is None:
            return [self.get(tables.MEMORIES, key) for key in keys]
        found = many(tables.MEMORIES, keys)
        found.update({key: value for key in keys if (value := self.memories.get(key)) is not None})
        return [found.get(key) for key in keys]

    def put_memory(self, tsid: int, row: rows.MemoryRow) -> None:
        key = KEY64.pack(tsid)
        self.memories[key] = rows.pack_memory(key, row)

    def session(self, number: int) -> rows.SessionRow | None:
        """The session row of `number`, or None. Raises DamagedRow."""
        row = self._sessions.get(number)
        if row is None:
            key = KEY32.pack(number)
            value = self._snapshot.get(tables.SESSIONS, key)
            if value is None:
                return None
            row = self._sessions[number] = rows.unpack_session(key, value)
        return row

    def put_session(self, number: int, row: rows.SessionRow) -> None:
        self._sessions[number] = row
        self._sessions_changed.add(number)

    def row_page(self, partition: int, page: int) -> bytearray:
        """The rows of a page without its CRC, to be changed in place. A new page is empty."""
        found = self.pages.get((partition, page))
        if found is not None:
            return found
        key = KEY32_32.pack(partition, page)
        value = self._snapshot.get(tables.ROWS, key)
        content = bytearray(rows.open_row(tables.ROWS, key, value)) if value is not None else bytearray()
        self.pages[partition, page] = content
        return content

    def finish(self) -> Changes:
        """The change set, with the touched pages and the deferred rows in it."""
        for (database, key), (row, pack) in self._deferred.items():
            self.changes[database][key] = pack(key, row)
        sessions = self.changes[tables.SESSIONS]
        for number in self._sessions_changed:
            key = KEY32.pack(number)
            sessions[key] = rows.pack_session(key, self._sessions[number])
        pages = self.changes[tables.ROWS]
        for (partition, page), content in self.pages.items():
            key = KEY32_32.pack(partition, page)
            pages[key] = rows.seal_row(key, bytes(content)) if content else None
        return self.changes


class Unchanged(State):
    """For questions: nothing is folded into it, so that no change is looked for before what is committed."""

    def get(self, database: str, key: bytes) -> bytes | None:
        return self._snapshot.get(database, key)

    def prefix(self, database: str, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self._snapshot.prefix(database, prefix)

    def memory(self, tsid: int) -> rows.MemoryRow | None:
        key = KEY64.pack(tsid)
        value = self._snapshot.get(tables.MEMORIES, key)
        return None if value is None else rows.unpack_memory(key, value)

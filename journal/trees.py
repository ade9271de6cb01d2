"""Whether the trees in a file of LMDB 0.9 hold together, asked before LMDB reads them.

LMDB believes its pages: one that lies in the place of another, or whose offsets are wrong, makes it end the
process, read past the map, or answer from the wrong place; a wrong free list makes it overwrite what is
kept. So this walks every tree in plain Python. Numbers are little-endian.

| offset in a page | size | field |
|---|---|---|
| 0 | 8 | its own number |
| 10 | 2 | flags: 1 branch, 2 leaf, 4 overflow |
| 12, 14 | 2, 2 | end of the offsets, begin of the nodes; in an overflow page: how many pages it spans, u32 |
| 16 | … | the offset of each node, u16 |

A node: size low u16, size high u16, flags u16, key size u16, key, data. In a branch the first six bytes are
the child's number. Flags of a leaf's node: 1 the data are the number of an overflow page; 2 the data are the
48 bytes of a database (as in `preflight`: flags, depth, pages of each kind, entries, root).

Breadth first and at most `pages` pages: what lies behind that in a large file is left to the walk that follows
a boot and to `audit`. Invariant of a walk that got to its end: every page is in one place, each tree has the
pages and entries that it counts itself, and no free page is in use.
"""

from __future__ import annotations

import os
import struct
from collections import deque
from pathlib import Path
from typing import NamedTuple

from journal.errors import RESTORE_A_BACKUP, DamagedStore, StoreIO
from journal.preflight import Meta, check_data_file

PAGES_CHECKED = 4096

_HEAD_BYTES = 16
_NODE_BYTES = 8
_NO_PAGE = (1 << 64) - 1
_BRANCH, _LEAF, _OVERFLOW = 1, 2, 4
_BIG, _DATABASE = 1, 2
_FREE_AT, _MAIN_AT = 40, 88

_HEAD = struct.Struct("<QHHHH")  # number, unused, flags, lower, upper
_SPAN = struct.Struct("<QHHI")  # number, unused, flags, pages of an overflow
_NODE = struct.Struct("<HHHH")  # low, high, flags, key size
_DATABASE_ROW = struct.Struct("<IHHQQQQQ")  # unused, flags, depth, branches, leaves, overflows, entries, root
_U64 = struct.Struct("<Q")


class _Database(NamedTuple):
    """A tree as it describes itself."""

    name: bytes
    depth: int
    branches: int
    leaves: int
    overflows: int
    entries: int
    root: int


class _Wrong(Exception):
    """What is wrong, and the page it is wrong in."""


def check_trees(path: Path, pages: int = PAGES_CHECKED) -> bool:
    """Whether the whole file was checked. Raises DamagedStore, StoreIO."""
    meta = check_data_file(path)
    name = f"{path.parent.name}/{path.name}"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return _Trees(descriptor, meta, pages).check()
        finally:
            os.close(descriptor)
    except (_Wrong, struct.error, ValueError, IndexError) as error:
        raise DamagedStore(name, str(error), RESTORE_A_BACKUP) from error
    except OSError as error:
        raise StoreIO(f"{name}: {error.strerror}") from error


class _Trees:
    """One walk over all trees of a file. `left` is how many pages may still be looked at."""

    def __init__(self, descriptor: int, meta: Meta, pages: int) -> None:
        self._descriptor = descriptor
        self._meta = meta
        self._size = meta.page_bytes
        self.left = pages
        self._used: set[int] = set()
        self._free: list[bytes] = []
        self._waiting: deque[_Database] = deque()

    def check(self) -> bool:
        which = self._meta.txn_id & 1
        page = self._read(which, 1)
        self._waiting.append(_database(b"free", page[_FREE_AT : _FREE_AT + _DATABASE_ROW.size]))
        self._waiting.append(_database(b"main", page[_MAIN_AT : _MAIN_AT + _DATABASE_ROW.size]))
        while self._waiting:
            if not self._walk(self._waiting.popleft()):
                return False
        self._check_free()
        return True

    def _walk(self, database: _Database) -> bool:
        """Level by level; False when there is no looking at more pages."""
        if database.root == _NO_PAGE:
            return True
        level, branches, leaves, entries = [database.root], 0, 0, 0
        overflows = 0
        for depth in range(1, database.depth + 1):
            below: list[int] = []
            for number in level:
                if self.left <= 0:
                    return False
                page = self._page(number, _BRANCH if depth < database.depth else _LEAF)
                if depth < database.depth:
                    branches += 1
                    below += _children(number, page)
                    continue
                leaves += 1
                found, big = self._leaf(number, page, database)
                entries += found
                overflows += big
            level = below
        counted = (branches, leaves, overflows, entries)
        if counted != (database.branches, database.leaves, database.overflows, database.entries):
            name = database.name.decode("ascii", "replace")
            raise _Wrong(f"database {name} counts {database[2:6]} pages and entries, there are {counted}")
        return True

    def _page(self, number: int, kind: int) -> bytes:
        page = self._take(number, 1)
        own, _, flags, lower, upper = _HEAD.unpack_from(page)
        if own != number:
            raise _Wrong(f"page {own} lies in the place of page {number}")
        if flags & 0xF != kind or lower < _HEAD_BYTES or not lower <= upper <= self._size or lower & 1:
            raise _Wrong(f"the head of page {number} does not hold")
        return page

    def _take(self, number: int, count: int) -> bytes:
        """The first of `count` pages, which are in use from now on."""
        if not 2 <= number <= self._meta.last_page - count + 1:
            raise _Wrong(f"page {number} is none of this file")
        numbers = range(number, number + count)
        if not self._used.isdisjoint(numbers):
            raise _Wrong(f"page {number} is used twice")
        self._used.update(numbers)
        self.left -= 1
        return self._read(number, 1)

    def _read(self, number: int, count: int) -> bytes:
        return os.pread(self._descriptor, self._size * count, self._size * number)

    def _leaf(self, number: int, page: bytes, database: _Database) -> tuple[int, int]:
        """`(entries, pages of overflows)` of a leaf."""
        overflows = 0
        offsets = _offsets(page)
        for at in offsets:
            low, high, flags, key_bytes = _NODE.unpack_from(page, at)
            data_bytes = low | high << 16
            data = at + _NODE_BYTES + key_bytes
            if data + (8 if flags & _BIG else data_bytes) > self._size or flags & ~(_BIG | _DATABASE):
                raise _Wrong(f"an entry of page {number} does not hold")
            if flags & _BIG:
                overflows += self._overflow(_U64.unpack_from(page, data)[0], data_bytes, database)
            elif flags & _DATABASE:
                name = page[at + _NODE_BYTES : data]
                self._waiting.append(_database(name, page[data : data + data_bytes]))
            elif database.name == b"free":
                self._free.append(page[data : data + data_bytes])
        return len(offsets), overflows

    def _overflow(self, number: int, data_bytes: int, database: _Database) -> int:
        """How many pages the overflow at `number` spans."""
        count = (_HEAD_BYTES + data_bytes + self._size - 1) // self._size
        own, _, flags, span = _SPAN.unpack_from(self._take(number, count))
        if own != number or flags & 0xF != _OVERFLOW or span != count:
            raise _Wrong(f"page {number} is not the overflow that it should be")
        if database.name == b"free":
            self._free.append(self._read(number, count)[_HEAD_BYTES : _HEAD_BYTES + data_bytes])
        return count

    def _check_free(self) -> None:
        """Each list: how many, then the numbers, from the highest to the lowest."""
        seen: set[int] = set()
        for data in self._free:
            if len(data) < _U64.size or len(data) % _U64.size:
                raise _Wrong("a free list has no whole numbers")
            count, *numbers = struct.unpack(f"<{len(data) // 8}Q", data)
            if count != len(numbers) or any(not 2 <= each <= self._meta.last_page for each in numbers):
                raise _Wrong("the free list names pages that are none")
            if not self._used.isdisjoint(numbers) or not seen.isdisjoint(numbers):
                raise _Wrong("the free list names a page that is in use")
            seen.update(numbers)


def _offsets(page: bytes) -> tuple[int, ...]:
    lower, upper = _HEAD.unpack_from(page)[3:]
    count = (lower - _HEAD_BYTES) // 2
    offsets = struct.unpack_from(f"<{count}H", page, _HEAD_BYTES)
    if offsets and (min(offsets) < upper or max(offsets) + _NODE_BYTES > len(page) or len(set(offsets)) != count):
        raise _Wrong(f"the offsets of page {_U64.unpack_from(page)[0]} do not hold")
    return offsets


def _children(number: int, page: bytes) -> list[int]:
    offsets = _offsets(page)
    if len(offsets) < 2:
        raise _Wrong(f"branch {number} has {len(offsets)} children")
    nodes = (_NODE.unpack_from(page, at) for at in offsets)
    children: list[int] = []
    for at, (low, high, top, key_bytes) in zip(offsets, nodes, strict=True):
        if at + _NODE_BYTES + key_bytes > len(page):
            raise _Wrong(f"a key of branch {number} does not hold")
        children.append(low | high << 16 | top << 32)
    return children


def _database(name: bytes, row: bytes) -> _Database:
    if len(row) != _DATABASE_ROW.size:
        raise _Wrong("a database is described by too few bytes")
    _, _, depth, branches, leaves, overflows, entries, root = _DATABASE_ROW.unpack(row)
    if depth > 32 or (root == _NO_PAGE) != (depth == 0):
        raise _Wrong(f"the depth {depth} of a database does not hold")
    return _Database(name, depth, branches, leaves, overflows, entries, root)

"""What stands in the pages of a file of LMDB 0.9, whether a tree still leads to them or not.

A page that a commit gives back keeps its bytes until another is written in its place, and a page in use keeps between
its offsets and its entries what stood there before an entry was taken out. So this looks at every page of the file by
itself, at the layout that `trees.py` describes, and yields whatever could be an entry:

| from | what |
|---|---|
| a leaf | its entries; one whose value lies in an overflow page with that page's bytes, as they are now |
| the gap of a leaf | what looks like an entry with a key of the wanted length (`sure` is false) |
| an overflow page | its number and how many pages it spans: the length of the value stands in its leaf only |

Nothing is believed: a page that is written just now may be torn, an entry that runs over its page is passed over, and
whoever reads an entry checks its content. Invariant: no read is behind the end of the file or longer than
`LONGEST_BYTES`, so that memory is bounded whatever the bytes are.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from journal.preflight import Meta

LONGEST_BYTES = 1 << 26
_BLOCK_PAGES = 256
_HEAD_BYTES = 16
_NODE_BYTES = 8
_LEAF, _OVERFLOW = 2, 4
_KIND = 0xF
_BIG = 1

_HEAD = struct.Struct("<QHHHH")  # number, unused, flags, lower, upper
_SPAN = struct.Struct("<QHHI")  # number, unused, flags, pages of an overflow
_NODE = struct.Struct("<HHHH")  # low, high, flags, key size
_U16 = struct.Struct("<H")
_U64 = struct.Struct("<Q")


class Entry(NamedTuple):
    """A key and its value. `overflow`: the page that the value lies in, 0 for one that lies in its leaf."""

    key: bytes
    value: bytes
    sure: bool
    overflow: int


class Overflow(NamedTuple):
    """A value without the leaf that says how long it is. It spans `pages`, unless others were written over it."""

    number: int
    pages: int


Found: TypeAlias = "Entry | Overflow"
Step: TypeAlias = Callable[[int, int], None]
"""Called with (pages done, of); what it raises ends the walk."""


class Pages:
    """The pages of an open file. `key_bytes`: entries with keys of this length are wanted."""

    def __init__(self, descriptor: int, meta: Meta) -> None:
        self._descriptor = descriptor
        self._size = meta.page_bytes
        self.count = os.fstat(descriptor).st_size // meta.page_bytes

    def walk(self, key_bytes: int, step: Step) -> Iterator[Found]:
        """Everything there is, page after page."""
        for first in range(0, self.count, _BLOCK_PAGES):
            step(first, self.count)
            block = os.pread(self._descriptor, self._size * min(_BLOCK_PAGES, self.count - first), self._size * first)
            for number in range(first, first + len(block) // self._size):
                at = (number - first) * self._size
                own, _, flags, lower, upper = _HEAD.unpack_from(block, at)
                if own != number or number < 2:
                    continue
                if flags & _KIND == _LEAF:
                    yield from self._leaf(block[at : at + self._size], lower, upper, key_bytes)
                elif flags & _KIND == _OVERFLOW:
                    yield Overflow(number, _SPAN.unpack_from(block, at)[3])
        step(self.count, self.count)

    def content(self, found: Overflow) -> bytes:
        """All bytes that an overflow can hold."""
        pages = min(found.pages, self.count - found.number, LONGEST_BYTES // self._size)
        return os.pread(self._descriptor, pages * self._size, found.number * self._size)[_HEAD_BYTES:]

    def span(self, value_bytes: int) -> int:
        """How many pages a value of this length spans when it doesn't lie in its leaf."""
        return (_HEAD_BYTES + value_bytes + self._size - 1) // self._size

    def _leaf(self, page: bytes, lower: int, upper: int, key_bytes: int) -> Iterator[Entry]:
        if not _HEAD_BYTES <= lower <= upper <= self._size:
            return
        for (at,) in _U16.iter_unpack(page[_HEAD_BYTES : lower & ~1]):
            entry = self._entry(page, at, key_bytes, True)
            if entry is not None:
                yield entry
        at = page.find(_U16.pack(key_bytes), lower, upper)
        while at >= 0:
            entry = self._entry(page, at - 6, key_bytes, False) if at - 6 >= lower else None
            if entry is not None:
                yield entry
            at = page.find(_U16.pack(key_bytes), at + 1, upper)

    def _entry(self, page: bytes, at: int, key_bytes: int, sure: bool) -> Entry | None:
        """The entry at `at`, None when there can't be one with such a key."""
        if at + _NODE_BYTES + key_bytes > self._size:
            return None
        low, high, flags, its_key_bytes = _NODE.unpack_from(page, at)
        data = at + _NODE_BYTES + key_bytes
        value_bytes = low | high << 16
        if its_key_bytes != key_bytes or flags & ~_BIG or value_bytes > LONGEST_BYTES:
            return None
        key = page[at + _NODE_BYTES : data]
        if not flags & _BIG:
            return Entry(key, page[data : data + value_bytes], sure, 0) if data + value_bytes <= self._size else None
        if data + _U64.size > self._size:
            return None
        number: int = _U64.unpack_from(page, data)[0]
        value = self._big(number, value_bytes)
        return None if value is None else Entry(key, value, sure, number)

    def _big(self, number: int, value_bytes: int) -> bytes | None:
        """What lies in an overflow page; None when there is none of that size any more."""
        if not 2 <= number < self.count:
            return None
        data = os.pread(self._descriptor, _HEAD_BYTES + value_bytes, self._size * number)
        if len(data) < _HEAD_BYTES + value_bytes:
            return None
        own, _, flags, pages = _SPAN.unpack_from(data)
        if own != number or flags & _KIND != _OVERFLOW or pages < self.span(value_bytes):
            return None
        return data[_HEAD_BYTES:]

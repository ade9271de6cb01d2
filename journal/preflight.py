"""Whether a file of LMDB 0.9 has all the pages that it speaks of, asked before LMDB maps it.

LMDB reads through a map: a page behind the end of the file ends the process with SIGBUS. So this reads
the file in plain Python. Numbers are little-endian, as on the machine that wrote them.

| offset in a meta page (0 and 1) | size | field |
|---|---|---|
| 10 | 2 | page flags: 0x08 is a meta page |
| 16, 20 | 4, 4 | magic 0xBEEFC0DE, version 1 |
| 40 | 48 | free database: page size u32, flags u16, depth u16, 4 counters u64, root u64 |
| 88 | 48 | main database, likewise |
| 136, 144 | 8, 8 | last page in use, transaction id; the higher id is the meta that counts |

A sound file may end before its last page: LMDB never writes a page that was taken and given back in one
transaction. Invariant: a page that the file lacks is in the free database, else the file is damaged.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from journal.errors import RESTORE_A_BACKUP, DamagedStore, StoreIO

_MAGIC = 0xBEEFC0DE
_VERSION = 1
_META_BYTES = 152
_PAGE_HEAD_BYTES = 16
_NODE_HEAD_BYTES = 8
_NO_PAGE = (1 << 64) - 1
_SMALLEST_PAGE, _LARGEST_PAGE = 512, 65536
_DEEPEST = 32

_P_BRANCH, _P_LEAF, _P_META = 0x01, 0x02, 0x08
_F_BIGDATA = 0x01

_FLAGS = struct.Struct("<10xH")
_MAGIC_VERSION = struct.Struct("<16xII")
_ROOTS = struct.Struct("<40xI36xQ40xQQQ")  # page size, free root, main root, last page, transaction id
_PAGE_HEAD = struct.Struct("<8xxxHHH")  # flags, lower, upper
_NODE_HEAD = struct.Struct("<HHHH")  # low, high, flags, key size
_U64 = struct.Struct("<Q")


class Meta(NamedTuple):
    """What the newer meta page says."""

    page_bytes: int
    free_root: int
    main_root: int
    last_page: int
    txn_id: int


def check_data_file(path: Path) -> Meta:
    """The meta that counts. Raises DamagedStore when the file can't be what LMDB wrote, StoreIO when it can't
    be read now."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return _check(path, descriptor)
        finally:
            os.close(descriptor)
    except FileNotFoundError as error:
        raise _damaged(path, "it is missing") from error
    except OSError as error:
        raise StoreIO(f"{path.parent.name}/{path.name}: {error.strerror}") from error


def _check(path: Path, descriptor: int) -> Meta:
    meta = _newer_meta(path, descriptor)
    roots = [root for root in (meta.free_root, meta.main_root) if root != _NO_PAGE]
    if any(root > meta.last_page for root in roots):
        raise _damaged(path, "a root lies behind its last page")
    pages = os.fstat(descriptor).st_size // meta.page_bytes
    lacking = set(range(pages, meta.last_page + 1)) if pages <= meta.last_page else set()
    if lacking and not lacking <= _free_pages(path, descriptor, meta, pages):
        raise _damaged(path, f"it is truncated: {pages} pages of {meta.last_page + 1}")
    return meta


def _newer_meta(path: Path, descriptor: int) -> Meta:
    first = _meta(path, os.pread(descriptor, _META_BYTES, 0), 0)
    second = _meta(path, os.pread(descriptor, _META_BYTES, first.page_bytes), 1)
    return max(first, second, key=lambda meta: meta.txn_id)


def _meta(path: Path, page: bytes, number: int) -> Meta:
    if len(page) < _META_BYTES:
        raise _damaged(path, f"it is truncated in meta page {number}")
    magic, version = _MAGIC_VERSION.unpack_from(page)
    if magic != _MAGIC or not _FLAGS.unpack_from(page)[0] & _P_META:
        raise _damaged(path, f"meta page {number} is none")
    if version != _VERSION:
        raise _damaged(path, f"its LMDB format is {version}, not {_VERSION}")
    meta = Meta(*_ROOTS.unpack_from(page))
    size = meta.page_bytes
    if not _SMALLEST_PAGE <= size <= _LARGEST_PAGE or size & (size - 1):
        raise _damaged(path, f"meta page {number} names a page size of {size}")
    return meta


def _free_pages(path: Path, descriptor: int, meta: Meta, pages: int) -> set[int]:
    """The pages on the free list. A node is (txn id) -> count, page numbers, all u64."""
    free: set[int] = set()
    if meta.free_root == _NO_PAGE:
        return free
    try:
        for number, big in _free_lists(descriptor, meta, pages, meta.free_root, 0):
            offset = number if not big else number * meta.page_bytes + _PAGE_HEAD_BYTES
            (count,) = _U64.unpack(os.pread(descriptor, 8, offset))
            if count > meta.last_page:
                raise _damaged(path, "its free list is damaged")
            free.update(struct.unpack(f"<{count}Q", os.pread(descriptor, 8 * count, offset + 8)))
    except (struct.error, RecursionError) as error:
        raise _damaged(path, "it is truncated in its free list") from error
    return free


def _free_lists(descriptor: int, meta: Meta, pages: int, number: int, depth: int) -> Iterator[tuple[int, bool]]:
    """Where the lists under page `number` lie: (byte offset, False), or (overflow page, True)."""
    if number >= pages or depth > _DEEPEST:
        raise struct.error("a page of the free list is missing")
    page = os.pread(descriptor, meta.page_bytes, number * meta.page_bytes)
    flags, lower, _upper = _PAGE_HEAD.unpack_from(page)
    nodes = (lower - _PAGE_HEAD_BYTES) // 2
    for at in struct.unpack_from(f"<{nodes}H", page, _PAGE_HEAD_BYTES):
        low, high, node_flags, key_bytes = _NODE_HEAD.unpack_from(page, at)
        if flags & _P_BRANCH:
            child = low | high << 16 | node_flags << 32
            yield from _free_lists(descriptor, meta, pages, child, depth + 1)
            continue
        if not flags & _P_LEAF:
            raise struct.error("neither a branch nor a leaf")
        data = at + _NODE_HEAD_BYTES + key_bytes
        if node_flags & _F_BIGDATA:
            yield _U64.unpack_from(page, data)[0], True
        else:
            yield number * meta.page_bytes + data, False


def _damaged(path: Path, found: str) -> DamagedStore:
    return DamagedStore(f"{path.parent.name}/{path.name}", found, RESTORE_A_BACKUP)

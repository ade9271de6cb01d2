"""Looking for bytes in every file of a directory, as they lie there.

A file is read in steps that overlap, so that what lies across two of them is found. Only regular files count; a link
is not followed, and one that goes away meanwhile was not there. Memory is bounded by a step and `TOLD` findings.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from journal.errors import StoreIO
from journal.layout import LMDB_LOCK_FILE

TOLD = 10_000
_READ_BYTES = 1 << 20


class Plain(NamedTuple):
    """The pattern stands in this file (its path below the directory) at this byte."""

    file: str
    offset: int


class PlainFound(NamedTuple):
    """`files` were read to their ends, unless `cut`: there was more to tell."""

    plain: list[Plain]
    files: int
    cut: bool


def scan_files(root: Path, pattern: bytes, step: Callable[[int, int], None]) -> PlainFound:
    """Every place of `pattern` below `root`. `step` hears (bytes done, of); what it raises ends it. Raises StoreIO."""
    paths = list(_files_below(root))
    of = sum(size for _, size in paths)
    found: list[Plain] = []
    done = files = 0
    for path, size in paths:
        name = path.relative_to(root).as_posix()
        with suppress(FileNotFoundError):
            for offset in _places(path, pattern, lambda at, done=done: step(min(done + at, of), of)):  # type: ignore[misc]
                if len(found) >= TOLD:
                    return PlainFound(found, files, True)
                found.append(Plain(name, offset))
            files += 1
        done += size
    step(of, of)
    return PlainFound(found, files, False)


def _places(path: Path, pattern: bytes, step: Callable[[int], None]) -> Iterator[int]:
    """Raises FileNotFoundError for a file that has gone meanwhile."""
    descriptor, is_ours = _opened(path)
    try:
        offset, kept = 0, b""
        while data := os.pread(descriptor, _READ_BYTES, offset):
            step(offset)
            window = kept + data
            at = window.find(pattern)
            while at >= 0:
                yield offset - len(kept) + at
                at = window.find(pattern, at + 1)
            offset += len(data)
            kept = window[max(0, len(window) - len(pattern) + 1) :]
    except OSError as error:
        raise StoreIO(f"{path.name}: {error.strerror}") from error
    finally:
        if is_ours:
            os.close(descriptor)


def _files_below(root: Path) -> Iterator[tuple[Path, int]]:
    """Every regular file with its size. Raises StoreIO for a directory that can't be read."""

    def fail(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise StoreIO(f"{Path(error.filename).name}: {error.strerror}") from error

    for directory, inner, names in os.walk(root, onerror=fail):
        inner.sort()
        for name in sorted(names):
            path = Path(directory, name)
            with suppress(FileNotFoundError):
                status = path.lstat()
                if stat.S_ISREG(status.st_mode):
                    yield path, status.st_size


def _opened(path: Path) -> tuple[int, bool]:
    """A descriptor to read a file with, and whether it is to be closed. LMDB's lock file is read through the descriptor
    that this process has of it: closing another would let go of LMDB's lock on it (fcntl)."""
    try:
        if path.name == LMDB_LOCK_FILE:
            wanted = path.stat()
            for each in os.listdir("/proc/self/fd"):
                with suppress(OSError):
                    if os.path.samestat(os.fstat(int(each)), wanted):
                        return int(each), False
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK), True
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StoreIO(f"{path.name}: {error.strerror}") from error

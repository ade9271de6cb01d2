"""Files that are copied in pieces, hashed while they are, and destroyed so that their bytes are gone.

Invariant: a copy is on the disk, its name included, when it is done; it is 0600, and no symbolic link is followed to
read or to write one.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from journal.errors import StoreIO
from journal.layout import FILE_MODE, LMDB_LOCK_FILE, sync_directory, write_all, write_synced

CHUNK_BYTES = 1 << 20
DIGEST_BYTES = 32
LMDB_LOCK_BYTES = 1 << 16
"""More than a table of readers takes (64 bytes each, `MAX_READERS` of them)."""

Step = Callable[[int, int], None]
"""Called with (bytes done, of how many); what it raises ends the work."""


class Copied(NamedTuple):
    """What was read: its whole length, and its BLAKE2b-256 in hex."""

    size_bytes: int
    digest: str


@contextmanager
def reading(path: Path) -> Iterator[int]:
    """A descriptor of a regular file. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def making(path: Path) -> Iterator[int]:
    """A descriptor of a new file, which is on the disk when the block is left well. Raises OSError."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, FILE_MODE)
    try:
        yield descriptor
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    sync_directory(path.parent)


def digest_of(path: Path, step: Step = lambda _done, _of: None) -> Copied:
    """What a file holds. Raises OSError, and what `step` raises."""
    with reading(path) as source:
        return _consume(source, None, None, step)


def copy_file(
    source: Path, target: Path, step: Step = lambda _done, _of: None, keep_bytes: int | None = None
) -> Copied:
    """Copy `source` to the new file `target`, its first `keep_bytes` if given; all of it is hashed.

    Raises StoreIO, which names the file that failed, and what `step` raises.
    """
    path = source
    try:
        with reading(source) as origin:
            path = target
            with making(target) as descriptor:
                return _consume(origin, descriptor, keep_bytes, step)
    except OSError as error:
        raise StoreIO(f"{path}: {error.strerror}") from error


def _consume(source: int, target: int | None, keep_bytes: int | None, step: Step) -> Copied:
    of_bytes = os.fstat(source).st_size
    digest = blake2b(digest_size=DIGEST_BYTES)
    done_bytes = 0
    while chunk := os.read(source, CHUNK_BYTES):
        digest.update(chunk)
        if target is not None:
            write_all(target, chunk if keep_bytes is None else chunk[: max(0, keep_bytes - done_bytes)])
        done_bytes += len(chunk)
        step(done_bytes, max(of_bytes, done_bytes))
    return Copied(done_bytes, digest.hexdigest())


def make_lock_file(directory: Path) -> None:
    """Give the LMDB environment in `directory` its lock file, with all its bytes on the disk. Raises StoreIO.

    LMDB writes to it through a map: on a disk that is full that ends the process, be it the one that only reads.
    """
    write_synced(directory / LMDB_LOCK_FILE, bytes(LMDB_LOCK_BYTES))


def wipe(path: Path) -> None:
    """Overwrite a file with zeros, on the disk, and remove it. One that isn't there is gone. Raises OSError.

    Of a symbolic link only the link is removed.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        path.unlink()
        return
    try:
        left_bytes = os.fstat(descriptor).st_size
        while left_bytes > 0:
            left_bytes -= os.write(descriptor, bytes(min(left_bytes, CHUNK_BYTES)))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    path.unlink()
    sync_directory(path.parent)

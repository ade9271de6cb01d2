"""Free space: when the store stops taking writes, and the reserve that lets it still destroy and close.

LMDB reports a full disk as a plain I/O error in the middle of a commit, so room is asked for before one.

Invariants: the reserve is not counted as free, whether it is on the disk or given up. The store goes
read-only below one threshold and comes back above a higher one, so that it does not flap.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from journal.errors import StoreIO

MIB = 1 << 20
RESERVE_BYTES = 32 * MIB
READ_ONLY_BELOW_BYTES = 16 * MIB
WRITABLE_FROM_BYTES = 32 * MIB
RESERVE_MODE = 0o600


class Space(NamedTuple):
    """`free_bytes` is what there is beyond the reserve, `needed_bytes` what writing asks for."""

    free_bytes: int
    needed_bytes: int

    @property
    def enough(self) -> bool:
        return self.free_bytes >= self.needed_bytes


class SpaceGuard:
    """Watches the file system that a store lies on. `read_only` is the answer of the last `measure`."""

    def __init__(
        self,
        directory: Path,
        reserve: Path,
        *,
        read_only_below: int = READ_ONLY_BELOW_BYTES,
        writable_from: int = WRITABLE_FROM_BYTES,
        reserve_bytes: int = RESERVE_BYTES,
    ) -> None:
        self._directory = directory
        self._reserve = reserve
        self._read_only_below = read_only_below
        self._writable_from = writable_from
        self._reserve_bytes = reserve_bytes
        self.read_only = False

    def measure(self, batch_bytes: int = 0) -> Space:
        """The space now, before a commit of about `batch_bytes`; decides `read_only`."""
        threshold = self._writable_from if self.read_only else self._read_only_below
        space = Space(free_bytes(self._directory) - self._missing_bytes(), threshold + batch_bytes)
        self.read_only = not space.enough
        return space

    def make_reserve(self) -> bool:
        """Put the reserve on the disk; False when there is no room for it (or it is there only in part)."""
        if not self._missing_bytes():
            return True
        if free_bytes(self._directory) < self._missing_bytes():
            return False
        descriptor = os.open(self._reserve, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, RESERVE_MODE)
        try:
            os.posix_fallocate(descriptor, 0, self._reserve_bytes)
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, 0)
            return False
        finally:
            os.close(descriptor)
        return True

    def give_up_reserve(self) -> None:
        """Free the reserve, for writes that must still happen. `make_reserve` brings it back."""
        try:
            descriptor = os.open(self._reserve, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreIO(f"reserve: {error.strerror}") from error
        try:
            os.ftruncate(descriptor, 0)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _missing_bytes(self) -> int:
        try:
            status = os.stat(self._reserve, follow_symlinks=False)
        except FileNotFoundError:
            return self._reserve_bytes
        return max(0, self._reserve_bytes - min(status.st_size, status.st_blocks * 512))


def free_bytes(directory: Path) -> int:
    """What an unprivileged process can still write there, by statvfs."""
    status = os.statvfs(directory)
    return status.f_bavail * status.f_frsize

"""Free space: when the store stops taking writes, and the reserve that lets it still destroy and close.

LMDB reports a full disk as a plain I/O error in the middle of a commit, so room is asked for before one.

Invariants: the reserve is not counted as free, whether it is on the disk or given up. The store goes
read-only below one threshold and comes back above a higher one, so that it does not flap; a single batch
that would not surely fit is refused without that. The reserve goes as soon as a permitted write needs the
room, however the store came to be read-only, and is back before ordinary writes are taken again.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import NamedTuple

from journal.errors import CannotCreate, StoreIO

MIB = 1 << 20
RESERVE_BYTES = 32 * MIB
READ_ONLY_BELOW_BYTES = 16 * MIB
WRITABLE_FACTOR = 2
WRITABLE_FROM_BYTES = WRITABLE_FACTOR * READ_ONLY_BELOW_BYTES
RESERVE_MODE = 0o600
MARGIN_BYTES = 2 * MIB
"""Left over beside every commit: keys written ahead, the head file, pages of the trees' upper levels."""
OPENING_BYTES = 4 * MIB
"""What the writes of an opening or a making take: OPENED, keys ahead, empty databases, OPEN, the head file."""


class NoRoom(StoreIO):
    """The disk is too full even to open the store. Nothing was written."""

    reason = "no_room"


class Space(NamedTuple):
    """`free_bytes` is what there is beyond the reserve, `needed_bytes` what writing asks for."""

    free_bytes: int
    needed_bytes: int

    @property
    def enough(self) -> bool:
        return self.free_bytes >= self.needed_bytes


class SpaceGuard:
    """Watches the file system that a store lies on. Safe on any thread."""

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
        self._was_read_only = False
        self._lock = threading.RLock()

    @property
    def read_only(self) -> bool:
        """Whether ordinary writes are refused, by what was free when it was last measured. Waits for nothing:
        the reserve may be under way to the disk meanwhile."""
        return self._was_read_only

    @property
    def read_only_below(self) -> int:
        """The lower of the two thresholds."""
        return self._read_only_below

    @property
    def held_bytes(self) -> int:
        """What the reserve holds on the disk."""
        return _held_bytes(self._reserve)

    def set_thresholds(self, read_only_below: int) -> None:
        """Read-only below so many bytes, writable again from twice as many; from the next measuring on.

        Waits for nothing, as `read_only`.
        """
        self._read_only_below = read_only_below
        self._writable_from = WRITABLE_FACTOR * read_only_below

    def measure(self) -> Space:
        """The space now; decides whether the store is read-only."""
        with self._lock:
            threshold = self._writable_from if self._was_read_only else self._read_only_below
            space = Space(free_bytes(self._directory) - self.missing_bytes, threshold)
            self._was_read_only = not space.enough
            return space

    def watch(self) -> Space:
        """Measure, and bring the reserve back when there is room to write again: without it there is none."""
        with self._lock:
            space = self.measure()
            if not self._was_read_only and not self.make_reserve():
                self._was_read_only = True
                space = Space(space.free_bytes, self._writable_from)
            return space

    def room_for(self, batch_bytes: int) -> Space:
        """Whether ordinary writes of about `batch_bytes` surely fit beside the reserve. Changes nothing."""
        with self._lock:
            return Space(free_bytes(self._directory) - self.missing_bytes, batch_bytes + MARGIN_BYTES)

    def make_room(self, batch_bytes: int) -> Space:
        """Whether writes that the reserve is for fit; it is given up when they need it. Raises StoreIO."""
        needed_bytes = batch_bytes + MARGIN_BYTES
        with self._lock:
            if free_bytes(self._directory) < needed_bytes:
                self.give_up_reserve()
            return Space(free_bytes(self._directory), needed_bytes)

    def make_reserve(self) -> bool:
        """Put the reserve on the disk; False when there is no room for it (or it is there only in part)."""
        with self._lock:
            if not self.missing_bytes:
                return True
            if free_bytes(self._directory) < self.missing_bytes:
                return False
            try:
                _allocate(self._reserve, self._reserve_bytes)
            except OSError:
                return False
            return True

    def give_up_reserve(self) -> None:
        """Free the reserve, for writes that must still happen. `make_reserve` brings it back. Raises StoreIO."""
        with self._lock:
            _empty(self._reserve)

    @property
    def missing_bytes(self) -> int:
        """What the reserve doesn't hold although it should: it is not counted as free."""
        return max(0, self._reserve_bytes - _held_bytes(self._reserve))


def make_way(directory: Path, reserve: Path, batch_bytes: int = 0) -> None:
    """Before a store's first writes: have room for them, and for `batch_bytes` more if the reserve has it.

    Raises NoRoom, with nothing changed, when there isn't even room for opening with the reserve given up.
    """
    free, held = free_bytes(directory), _held_bytes(reserve)
    if free + held < OPENING_BYTES:
        raise NoRoom(
            f"{directory}: the disk is full: {free + held} bytes are free or in the reserve, "
            f"{OPENING_BYTES} are needed to open the store; make room there"
        )
    if free < OPENING_BYTES + batch_bytes:
        _empty(reserve)


def require_room(directory: Path) -> None:
    """Before a store is made in `directory`, which need not exist. Raises NoRoom, with nothing changed; CannotCreate
    where the file system has no blocks at all, as /proc and /sys."""
    there = next((path for path in (directory, *directory.absolute().parents) if path.is_dir()), Path("/"))
    if not os.statvfs(there).f_blocks:
        raise CannotCreate(f"{directory}: {there} lies on a file system that keeps no files; choose another place")
    make_way(there, directory / "reserve")


def free_bytes(directory: Path) -> int:
    """What an unprivileged process can still write there, by statvfs."""
    status = os.statvfs(directory)
    return status.f_bavail * status.f_frsize


def _held_bytes(reserve: Path) -> int:
    try:
        status = os.stat(reserve, follow_symlinks=False)
    except FileNotFoundError:
        return 0
    return min(status.st_size, status.st_blocks * 512)


def _allocate(reserve: Path, size_bytes: int) -> None:
    """Raises OSError; nothing is held then."""
    descriptor = os.open(reserve, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, RESERVE_MODE)
    try:
        os.posix_fallocate(descriptor, 0, size_bytes)
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, 0)
        raise
    finally:
        os.close(descriptor)


def _empty(reserve: Path) -> None:
    try:
        descriptor = os.open(reserve, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreIO(f"reserve: {error.strerror}") from error
    try:
        os.ftruncate(descriptor, 0)
        os.fsync(descriptor)
    except OSError as error:
        raise StoreIO(f"reserve: {error.strerror}") from error
    finally:
        os.close(descriptor)

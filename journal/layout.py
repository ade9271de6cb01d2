"""Where everything of a store lies, how its files are made safely, and who may have it open.

`FORMAT` is one line of ASCII: `noctuary <version> <store id, 32 hex digits> <CRC-32C of what stands before
the last blank, 8 hex digits>`. It is written last when a store is made: without it there is no store.

Invariants: directories are 0700, files 0600, all ours and no symlinks. The lock file is never unlinked:
the flock on it, not its existence, says whether the store is open. A file that is replaced is complete
and on the disk before it takes its name.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from crc32c import crc32c

from journal.errors import CannotCreate, DamagedStore, ForeignStore, StoreAbsent, StoreIO, StoreLocked

FORMAT_VERSION = 1
STORE_ID_BYTES = 16
DIRECTORY_MODE = 0o700
FILE_MODE = 0o600
NEW_SUFFIX = ".new"
OLD_VAULT = "vault.old" + NEW_SUFFIX
DATA_FILE, LMDB_LOCK_FILE = "data.mdb", "lock.mdb"
LMDB_FILES = (DATA_FILE, LMDB_LOCK_FILE)

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_AUDIT = "audit"
_FORMAT_NAME = "noctuary"
_OTHERS = 0o077
_SYSTEM = frozenset({errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE})  # not what lies there


class UnsafePath(CannotCreate):
    """A path of the store is a symlink, not ours, open to others, or of the wrong type."""

    reason = "unsafe_path"


@dataclass(frozen=True, slots=True)
class StateDir:
    """The names in a state directory."""

    root: Path

    @property
    def format_file(self) -> Path:
        return self.root / "FORMAT"

    @property
    def lock_file(self) -> Path:
        return self.root / "lock"

    @property
    def journal_dir(self) -> Path:
        return self.root / "journal"

    @property
    def vault_file(self) -> Path:
        return self.root / "vault"

    @property
    def old_vault_file(self) -> Path:
        """What the vault before a change of the master key is called until it is overwritten."""
        return self.root / OLD_VAULT

    @property
    def projections_dir(self) -> Path:
        return self.root / "projections"

    @property
    def projections_copy_dir(self) -> Path:
        return self.root / "projections.copy"

    @property
    def head_file(self) -> Path:
        return self.root / "head"

    @property
    def purges_file(self) -> Path:
        return self.root / "purges"

    @property
    def reserve_file(self) -> Path:
        return self.root / "reserve"

    @property
    def unfinished_file(self) -> Path:
        return self.root / "unfinished"

    def all_paths(self) -> tuple[Path, ...]:
        """Every path that a store may have under its root."""
        return (
            self.format_file,
            self.lock_file,
            self.journal_dir,
            self.vault_file,
            self.projections_dir,
            self.projections_copy_dir,
            self.head_file,
            self.purges_file,
            self.reserve_file,
            self.unfinished_file,
        )

    def is_used(self) -> bool:
        """Whether a store lies here, be it damaged, unfinished or not ours to look into."""
        keeping = (self.vault_file, new_path(self.vault_file))
        marks = (self.format_file, new_path(self.format_file), self.unfinished_file, self.journal_dir, self.lock_file)
        return any(map(os.path.lexists, keeping)) and any(map(os.path.lexists, marks))

    def leftovers(self) -> list[Path]:
        """What an interrupted replacement, making or audit left behind: names ending in `.new`, and `unfinished`."""
        replacements = [new for path in self.all_paths() if os.path.lexists(new := new_path(path))]
        for path in (self.old_vault_file, self.unfinished_file):
            if os.path.lexists(path):
                replacements.append(path)
        return replacements + sorted(self.root.glob(f"{_AUDIT}*{NEW_SUFFIX}"))

    def make_audit_dir(self) -> Path:
        """A directory of its own for what an audit folds, or a restore has walked: for it to remove, else it is a
        leftover. Raises StoreIO.
        """
        try:
            return Path(tempfile.mkdtemp(NEW_SUFFIX, f"{_AUDIT}-", self.root))
        except OSError as error:
            raise StoreIO(f"{_AUDIT}: {error.strerror}") from error

    def check_safe(self) -> None:
        """Owner, type and mode of the root and of all in it that is ours. Raises UnsafePath."""
        directories = (self.journal_dir, self.projections_dir, self.projections_copy_dir)
        check_safe(self.root, directory=True)
        for path in self.all_paths():
            if os.path.lexists(path):
                check_safe(path, directory=path in directories)
        for path in (self.journal_dir / name for name in LMDB_FILES):
            if os.path.lexists(path):
                check_safe(path, directory=False)


def new_path(path: Path) -> Path:
    """The name that `path` has until it is complete."""
    return path.with_name(path.name + NEW_SUFFIX)


def read_boot_id() -> bytes:
    """The 16 bytes that the kernel drew at this boot."""
    return bytes.fromhex(_BOOT_ID.read_text("ascii").strip().replace("-", ""))


def check_safe(path: Path, *, directory: bool = False) -> None:
    """Raises UnsafePath unless it is our own file (or directory), closed to all others."""
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        raise UnsafePath(f"{path} is a symbolic link; put back what belongs there")
    if not (stat.S_ISDIR if directory else stat.S_ISREG)(status.st_mode):
        wanted = "directory" if directory else "regular file"
        raise UnsafePath(f"{path} is no {wanted}; put back what belongs there")
    if status.st_uid != os.geteuid():
        raise UnsafePath(f"{path} belongs to uid {status.st_uid}, this process is uid {os.geteuid()}")
    if status.st_mode & _OTHERS:
        mode = f"{stat.S_IMODE(status.st_mode):04o}"
        raise UnsafePath(f"{path} has mode {mode}; others may not have access: chmod go-rwx {path}")


def make_root(root: Path) -> None:
    """Make the state directory, and its parents, or close an empty one that is ours. Raises CannotCreate."""
    missing = [path for path in (root, *root.parents) if not path.exists()]
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        root.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
        # A store whose own name is lost is lost as a whole; an earlier making may have left it unsynced.
        for path in (root, *missing[1:]):
            with suppress(PermissionError):  # a parent that can't be read was made, and synced, by another
                sync_directory(path.parent)
        status = os.lstat(root)
        ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
        if ours and status.st_mode & _OTHERS and not any(root.iterdir()):
            root.chmod(DIRECTORY_MODE)
    except OSError as error:
        raise CannotCreate(f"{root}: {error.strerror}") from error
    check_safe(root, directory=True)


# --- the lock ------------------------------------------------------------------------------------


class StoreLock:
    """The exclusive lock on a store, held from `take` to `release`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def take(cls, path: Path) -> StoreLock:
        """Lock the store whose lock file is `path`. Raises StoreLocked, StoreAbsent, UnsafePath, StoreIO."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            descriptor = os.open(path, flags, FILE_MODE)
        except FileNotFoundError as error:
            raise StoreAbsent(f"{path.parent} does not exist") from error
        except OSError as error:
            if error.errno in _SYSTEM:
                raise StoreIO(f"{path.name}: {error.strerror}") from error
            raise UnsafePath(f"{path}: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise StoreLocked(f"{path.parent} is open in another process") from error
        return cls(descriptor)

    def fileno(self) -> int:
        """The descriptor, for a child process that is to hold the lock too."""
        return self._descriptor

    def release(self) -> None:
        """Give the lock up; a second time does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


# --- files ---------------------------------------------------------------------------------------


def sync_directory(path: Path) -> None:
    """Bring the names in a directory to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_synced(path: Path, data: bytes) -> None:
    """Write a whole file and bring it to the disk; its name is not synced. Raises StoreIO."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        descriptor = os.open(path, flags, FILE_MODE)
        try:
            write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StoreIO(f"{path.name}: {error.strerror}") from error


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data` at the descriptor's place: a short write is no error to the kernel."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def take_name(path: Path) -> None:
    """Let what stands complete under `new_path(path)` take the name `path`. Raises StoreIO."""
    try:
        new_path(path).rename(path)
        sync_directory(path.parent)
    except OSError as error:
        raise StoreIO(f"{path.name}: {error.strerror}") from error


def replace_file(path: Path, data: bytes) -> None:
    """Put a file in the place of `path`: either the old or the new one is there. Raises StoreIO."""
    write_synced(new_path(path), data)
    take_name(path)


# --- FORMAT --------------------------------------------------------------------------------------


def format_line(store_id: bytes) -> bytes:
    """The content of FORMAT."""
    covered = f"{_FORMAT_NAME} {FORMAT_VERSION} {store_id.hex()}".encode("ascii")
    return b"%b %08x\n" % (covered, crc32c(covered))


def read_format(path: Path) -> bytes:
    """The store id in FORMAT. Raises StoreAbsent, DamagedStore, and ForeignStore for another version."""
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise StoreAbsent(f"{path.parent} has no FORMAT: there is no store") from error
    except OSError as error:
        raise StoreIO(f"{path.name}: {error.strerror}") from error
    covered, _, checksum = data.removesuffix(b"\n").rpartition(b" ")
    if checksum != b"%08x" % crc32c(covered) or not covered:
        raise DamagedStore("FORMAT", "its CRC does not hold", "Restore it from your copy of the state directory.")
    return _format_fields(covered.decode("ascii", "replace").split(" "))


def _format_fields(fields: list[str]) -> bytes:
    if len(fields) < 2 or fields[0] != _FORMAT_NAME or fields[1] != str(FORMAT_VERSION):
        found = " ".join(fields[:2])
        raise ForeignStore(
            "FORMAT",
            f"it says '{found}', this program reads '{_FORMAT_NAME} {FORMAT_VERSION}'",
            "Use the version that wrote this store.",
        )
    try:
        store_id = bytes.fromhex(fields[2])
    except (IndexError, ValueError):
        store_id = b""
    if len(store_id) != STORE_ID_BYTES:
        raise DamagedStore("FORMAT", "it has no store id", "Restore it from your copy of the state directory.")
    return store_id

"""The directory that a backup is written into: whether it may be, what lies there, and what is left over in it.

Beside `manifest` and the files that it names there is only `work.new`, in which everything is made; the file FORMAT in
it says of which store, so that what an interrupted backup left is told from what is somebody else's.

Invariants: nothing is changed before it is known that the directory is empty, or holds a backup of this store (or what
is left of one that was never finished). Only files of our names are ever removed, a vault's after it was overwritten.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from journal.copying import wipe
from journal.errors import CannotCreate, DamagedStore, ForeignStore, StoreAbsent
from journal.layout import DIRECTORY_MODE, check_safe, format_line, read_format, sync_directory, write_synced
from journal.manifest import MANIFEST, PART_FILE, Manifest, read_manifest

WORK = "work.new"
_NEW_MANIFEST = f"{MANIFEST}.new"
_FORMAT, _JOURNAL, _VAULT = "FORMAT", "journal", "vault"


class UnfitDirectory(CannotCreate):
    """No backup can be written there: where it lies, what it is, or who may write it."""


class OccupiedDirectory(CannotCreate):
    """Something lies there that is not a backup of this store, or another backup or restore is at work on it."""


def fit_directory(path: str, state: Path) -> Path:
    """The directory `path` with its real parents, if a backup of the store in `state` may lie there.

    Raises UnfitDirectory. Nothing is made.
    """
    given = Path(path)
    if "\0" in path or not given.is_absolute():
        raise UnfitDirectory("an absolute path of this host is needed")
    if ".." in given.parts:
        raise UnfitDirectory("a path with .. in it is not taken")
    try:
        directory = given.parent.resolve(strict=True) / given.name
        if not stat.S_ISDIR(os.stat(directory.parent).st_mode):
            raise UnfitDirectory("its parent is no directory")
        _refuse_state(directory, state.resolve(strict=True))
        if os.path.lexists(directory):
            check_ours(directory)
        elif not os.access(directory.parent, os.W_OK | os.X_OK):
            raise UnfitDirectory("its parent can't be written to")
    except FileNotFoundError as error:
        raise UnfitDirectory("its parent does not exist") from error
    except (OSError, RuntimeError) as error:  # RuntimeError: links that lead in a circle
        raise UnfitDirectory(
            f"it can't be used: {getattr(error, 'strerror', None) or 'its links lead nowhere'}"
        ) from error
    return directory


def _refuse_state(directory: Path, state: Path) -> None:
    """Compared by what the directories are, not by name: a mount can show one at two places."""
    inside = any(os.path.samefile(each, state) for each in (directory, *directory.parents) if each.exists())
    if inside:
        raise UnfitDirectory("it lies in the state directory: a backup there is lost with it")
    if directory.exists() and any(os.path.samefile(each, directory) for each in state.parents):
        raise UnfitDirectory("the state directory lies in it")


def check_ours(directory: Path) -> None:
    """Raises UnfitDirectory unless it is a directory of this user that can be written to."""
    status = os.lstat(directory)
    if stat.S_ISLNK(status.st_mode):
        raise UnfitDirectory("it is a symbolic link")
    if not stat.S_ISDIR(status.st_mode):
        raise UnfitDirectory("it is no directory")
    if status.st_uid != os.geteuid():
        raise UnfitDirectory(f"it belongs to uid {status.st_uid}, the daemon is uid {os.geteuid()}")
    if status.st_mode & (stat.S_ISVTX | stat.S_IWGRP | stat.S_IWOTH):
        raise UnfitDirectory("others write there too: give a directory of its own, it is closed to all others")
    if not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
        raise UnfitDirectory("it can't be written to")


@contextmanager
def locked(directory: Path, *, shared: bool = False) -> Iterator[None]:
    """One backup at a time, and none while a restore reads it. Raises OccupiedDirectory, OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        with suppress(PermissionError):  # some network file systems lock no directory: then nobody is kept out
            _flock(descriptor, directory, shared)
        yield
    finally:
        os.close(descriptor)


def _flock(descriptor: int, directory: Path, shared: bool) -> None:
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise OccupiedDirectory(f"{directory}: another backup or restore is at work there") from error
    except OSError as error:
        raise PermissionError(error.errno, error.strerror) from error


def there_before(directory: Path, store_id: bytes) -> Manifest | None:
    """The manifest of this store's backup there, None when there is none yet. Raises OccupiedDirectory, StoreIO."""
    names = {each.name for each in directory.iterdir()}
    if MANIFEST in names:
        return _own_manifest(directory, store_id)
    rest = names - {WORK, _NEW_MANIFEST}
    work = directory / WORK
    ours = _is_own_work(work, store_id)
    if rest and not (ours and all(PART_FILE.match(name) for name in rest)):
        raise OccupiedDirectory(f"it is not empty, and no backup of this store: it holds {', '.join(sorted(rest)[:5])}")
    if WORK in names and not ours and {each.name for each in work.iterdir()} - {_FORMAT}:
        raise OccupiedDirectory("it holds an unfinished backup of another store")
    return None


def _own_manifest(directory: Path, store_id: bytes) -> Manifest:
    try:
        manifest = read_manifest(directory)
    except DamagedStore as error:
        raise OccupiedDirectory(f"it holds a manifest that can't be used: {error.found}") from error
    if manifest.store != store_id.hex():
        raise OccupiedDirectory(f"it holds a backup of another store, {manifest.store}")
    return manifest


def _is_own_work(work: Path, store_id: bytes) -> bool:
    try:
        return read_format(work / _FORMAT) == store_id
    except (StoreAbsent, DamagedStore, ForeignStore, NotADirectoryError):
        return False


def make_directory(directory: Path) -> bool:
    """Make it, closed to others; whether it wasn't there. Raises OSError."""
    if directory.exists():
        return False
    directory.mkdir(mode=DIRECTORY_MODE)
    sync_directory(directory.parent)
    return True


def close_to_others(directory: Path) -> None:
    """Whatever it was made as: from now on it is ours alone. Raises OSError, UnsafePath."""
    directory.chmod(DIRECTORY_MODE)
    check_safe(directory, directory=True)


def begin_work(directory: Path, store_id: bytes) -> Path:
    """The empty work directory, which says whose it is. Raises OSError, StoreIO."""
    work = directory / WORK
    work.mkdir(mode=DIRECTORY_MODE)
    sync_directory(directory)
    write_synced(work / _FORMAT, format_line(store_id))
    sync_directory(work)
    return work


def unlisted(directory: Path, manifest: Manifest) -> frozenset[str]:
    """The names there that `remove_unlisted` would remove. Raises OSError."""
    there = {path.name for path in directory.iterdir()} - manifest.names()
    return frozenset(name for name in there if name in (WORK, _NEW_MANIFEST) or PART_FILE.match(name))


def remove_unlisted(directory: Path, manifest: Manifest | None) -> None:
    """Remove what no manifest names: files of our names, and the work directory. Raises OSError, when all else is gone.

    The work directory goes last: until then it says whose the rest is, where no manifest does.
    """
    listed = manifest.names() if manifest is not None else frozenset()
    failed: list[OSError] = []
    for path in sorted(directory.iterdir()):
        if PART_FILE.match(path.name) and path.name not in listed:
            try:
                remove_part(path)
            except OSError as error:  # one that stays keeps no keys of another
                failed.append(error)
    if failed and manifest is None:
        raise failed[0]
    _remove_work(directory / WORK)
    (directory / _NEW_MANIFEST).unlink(missing_ok=True)
    sync_directory(directory)
    if failed:
        raise failed[0]


def _remove_work(work: Path) -> None:
    """What says whose it is goes last."""
    if not os.path.lexists(work):
        return
    if work.is_symlink():
        work.unlink()
        return
    wipe(work / _VAULT)
    shutil.rmtree(work / _JOURNAL, ignore_errors=not os.path.lexists(work / _JOURNAL))
    shutil.rmtree(work)


def remove_part(path: Path) -> None:
    """Remove the file of a part; the keys in a vault are overwritten first. Raises OSError."""
    if path.name.startswith(_VAULT):
        wipe(path)
    else:
        path.unlink(missing_ok=True)

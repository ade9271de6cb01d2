"""Whether the projections in a directory may be opened: the file `OPEN`, and how they are taken away.

`OPEN` holds the boot id (16 bytes), the device (u64, little-endian) and a CRC-32C. It is made durable before the
first write and unlinked after a full sync at a clean stop; nothing else is fsync'd. Same boot: only the process
died, and the pages are in the kernel. Another boot: what lies there is never opened again. A boot id of zeros is
none: whoever met damage leaves it, and the next open folds from the journal. It is replaced as a whole: what was
written half never stands under its name.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from journal.layout import DATA_FILE as DATA_FILE
from journal.layout import FILE_MODE, new_path, sync_directory, write_all
from projections import rows

_KEY = b"OPEN"
_NO_BOOT = bytes(16)
_CONTENT_BYTES = 24


def open_file(directory: Path) -> Path:
    """Where `OPEN` of the projections in `directory` lies."""
    return directory / "OPEN"


def may_be_trusted(directory: Path, boot_id: bytes) -> bool:
    """Whether what is there is of this boot, or of a clean stop. No page of it is read."""
    data, lock = directory / DATA_FILE, directory / "lock.mdb"
    if not is_file(data) or (os.path.lexists(lock) and not is_file(lock)):
        return False
    opened = open_file(directory)
    if not os.path.lexists(opened):
        return True
    return is_file(opened) and opened.read_bytes() == _content(directory, boot_id)


def is_of_another_boot(directory: Path, boot_id: bytes) -> bool:
    """Whether the machine went down while they were open: they were neither closed nor distrusted. An `OPEN` that
    doesn't hold says nothing of the kind."""
    opened = open_file(directory)
    if directory.is_symlink() or not is_file(opened):
        return False
    try:
        found = rows.open_row("OPEN", _KEY, opened.read_bytes())
    except rows.DamagedRow:
        return False
    return len(found) == _CONTENT_BYTES and found[: len(boot_id)] not in (boot_id, _NO_BOOT)


def write_open(directory: Path, boot_id: bytes) -> None:
    """Make `OPEN` durable; the one before is there until then. Not for two threads at once. Raises OSError."""
    opened = open_file(directory)
    fresh = new_path(opened)
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    try:
        write_all(descriptor, _content(directory, boot_id))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    fresh.rename(opened)
    sync_directory(directory)
    sync_directory(directory.parent)


def write_distrust(directory: Path) -> None:
    """What is there is not to be opened again. Raises OSError."""
    write_open(directory, _NO_BOOT)


def remove(path: Path) -> None:
    """Projections are disposable, whatever lies in their place. The data goes first, and durably: without OPEN
    beside it, it would pass for that of a clean stop."""
    if path.is_symlink() or not path.is_dir():
        path.unlink()
        return
    remove_data(path)
    shutil.rmtree(path)


def remove_data(directory: Path) -> None:
    """Take the data away, durably; `OPEN` stays."""
    data = directory / DATA_FILE
    if data.is_symlink() or data.is_file():
        data.unlink()
        sync_directory(directory)


def data_bytes(directory: Path) -> int:
    """The size of what lies there, 0 when nothing does."""
    data = directory / DATA_FILE
    return data.stat().st_size if is_file(data) else 0


def is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _content(directory: Path, boot_id: bytes) -> bytes:
    device = os.stat(directory).st_dev
    return rows.seal_row(_KEY, boot_id + device.to_bytes(8, "little"))

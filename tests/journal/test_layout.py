"""FORMAT, the lock and safe paths."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from crc32c import crc32c

from journal.errors import DamagedStore, ForeignStore, StoreAbsent, StoreLocked
from journal.layout import StateDir, StoreLock, UnsafePath, check_safe, format_line, read_boot_id, read_format

STORE_ID = bytes(range(16))


def test_format(tmp_path: Path) -> None:
    path = tmp_path / "FORMAT"
    with pytest.raises(StoreAbsent):
        read_format(path)
    path.write_bytes(format_line(STORE_ID))
    assert read_format(path) == STORE_ID
    path.write_bytes(format_line(STORE_ID).replace(b"00", b"01"))
    with pytest.raises(DamagedStore):
        read_format(path)
    path.write_bytes(b"noctuary 9 x %08x\n" % crc32c(b"noctuary 9 x"))
    with pytest.raises(ForeignStore, match=r"noctuary 9.*noctuary 1"):
        read_format(path)


def test_the_lock_is_exclusive_and_its_file_stays(tmp_path: Path) -> None:
    lock = StoreLock.take(tmp_path / "lock")
    with pytest.raises(StoreLocked):
        StoreLock.take(tmp_path / "lock")
    lock.release()
    lock.release()
    StoreLock.take(tmp_path / "lock").release()
    assert (tmp_path / "lock").exists()


def test_paths_open_to_others_and_symlinks_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch(mode=0o644)
    path.chmod(0o644)
    (tmp_path / "link").symlink_to(path)
    for unsafe in (path, tmp_path / "link"):
        with pytest.raises(UnsafePath):
            check_safe(unsafe)
    path.chmod(0o600)
    check_safe(path)


def test_boot_id_has_16_bytes() -> None:
    assert len(read_boot_id()) == 16


def test_a_lock_that_the_system_has_no_room_for_is_not_called_unsafe(tmp_path: Path) -> None:
    script = (
        "import resource, sys; from pathlib import Path; from journal.layout import StoreLock\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))\n"
        "try: StoreLock.take(Path(sys.argv[1]))\n"
        "except Exception as error: print(type(error).__name__)\n"
    )
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", script, str(tmp_path / "lock")]
    child = subprocess.run(command, cwd=root, capture_output=True, check=True, text=True)
    assert child.stdout == "StoreIO\n"


def test_each_audit_has_a_directory_of_its_own_that_is_a_leftover(tmp_path: Path) -> None:
    state_dir = StateDir(tmp_path)
    (tmp_path / "audit-notes").mkdir()  # not ours
    made = {state_dir.make_audit_dir(), state_dir.make_audit_dir()}
    assert len(made) == 2
    assert all(path.stat().st_mode & 0o777 == 0o700 for path in made)
    (tmp_path / "head.new").touch()
    assert set(state_dir.leftovers()) == {*made, tmp_path / "head.new"}

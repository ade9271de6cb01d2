"""An export: its first line, all frames up to the head, and a file that is whole or not there."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from daemon.cli.offline import open_to_read
from journal.errors import CannotCreate
from journal.exporting import export_file, export_lines
from journal.frames import Level, decode_frame, verify_frame
from journal.sealing import keyed_hash
from journal.store import open_store
from tests.journal.exported import exported, unpack_golden

ROOT = Path(__file__).resolve().parents[2]
WHOLE = b"all of it\n"


def test_the_first_line_names_the_head_and_the_rest_leads_to_it(tmp_path: Path) -> None:
    root = unpack_golden(tmp_path / "state")
    first, *rest = exported(root)
    head = msgspec.json.decode(first)
    store = open_store(root, version="", now_ms=0, readonly=True)
    try:
        at = store.log.head()
        assert head == {
            "export": 1, "store": store.store_id.hex(), "epoch": 1, "level": "content",
            "head": {
                "store": store.store_id.hex(), "epoch": 1, "seq": at.seq, "chain": at.chain.hex(),
                "at": decode_frame(rest[-1]).at,
            },
            "hash_key": store.vault.hash_key.hex(),
            "hash_key_check": keyed_hash(store.vault.hash_key, b"export", store.store_id).hex(),
        }  # fmt: skip
    finally:
        store.close(clean=False)
    frames = [decode_frame(line) for line in rest]
    assert [verify_frame(frame).seq for frame in frames] == list(range(1, at.seq + 1))
    assert frames[-1].chain == at.chain.hex()
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in [first, *rest])


def test_frames_name_their_tenants(tmp_path: Path) -> None:
    frames = [decode_frame(line) for line in exported(unpack_golden(tmp_path / "state"))[1:]]
    assert {frame.tenant for frame in frames} == {None, "default", "other"}
    assert all((frame.tenant is None) == (frame.type == "opened") for frame in frames)


def test_reading_a_store_for_an_export_writes_nothing_in_it(tmp_path: Path) -> None:
    root = unpack_golden(tmp_path / "state")
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in root.rglob("*") if path.is_file()}
    exported(root)
    after = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in root.rglob("*") if path.is_file()}
    assert after == before


def test_steps_are_told_and_end_at_the_head(tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []
    with open_to_read(unpack_golden(tmp_path / "state")) as (store, destroying):
        count = sum(
            1 for _ in export_lines(store, destroying, Level.SKELETON, lambda done, of: steps.append((done, of)))
        )
    assert steps[-1] == (count - 1, count - 1)


# --- the file ----------------------------------------------------------------------------------------


def test_an_export_file_is_there_when_it_is_whole_and_only_ours(tmp_path: Path) -> None:
    target = tmp_path / "out.ndjson"
    with export_file(target) as file:
        file.write(WHOLE)
        assert not target.exists()
    assert target.read_bytes() == WHOLE and stat.S_IMODE(target.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["out.ndjson"]


def test_a_failure_leaves_no_file_and_keeps_the_one_before(tmp_path: Path) -> None:
    target = tmp_path / "out.ndjson"
    with pytest.raises(RuntimeError), export_file(target) as file:
        file.write(b"half")
        raise RuntimeError
    assert os.listdir(tmp_path) == []
    target.write_bytes(WHOLE)
    with pytest.raises(RuntimeError), export_file(target, replace=True) as file:
        file.write(b"half")
        raise RuntimeError
    assert os.listdir(tmp_path) == ["out.ndjson"] and target.read_bytes() == WHOLE


def test_a_file_that_exists_is_replaced_only_when_asked(tmp_path: Path) -> None:
    target = tmp_path / "out.ndjson"
    target.write_bytes(WHOLE)
    with pytest.raises(CannotCreate, match="exists"), export_file(target):
        pytest.fail("it must not begin")
    assert target.read_bytes() == WHOLE
    with export_file(target, replace=True) as file:
        file.write(b"new")
    assert target.read_bytes() == b"new"


def test_a_file_that_came_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    target = tmp_path / "out.ndjson"
    with pytest.raises(CannotCreate), export_file(target) as file:
        file.write(b"mine")
        target.write_bytes(WHOLE)
    assert target.read_bytes() == WHOLE and os.listdir(tmp_path) == ["out.ndjson"]


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo, lambda path: os.symlink("/dev/null", path)])
def test_only_a_file_is_ever_replaced(tmp_path: Path, make: object) -> None:
    target = tmp_path / "out.ndjson"
    make(target)  # type: ignore[operator]
    before = os.lstat(target).st_mode
    with pytest.raises(CannotCreate), export_file(target, replace=True):
        pytest.fail("it must not begin")
    assert os.lstat(target).st_mode == before


def test_a_directory_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(CannotCreate, match="No such file"), export_file(tmp_path / "no" / "out.ndjson"):
        pytest.fail("it must not begin")


def test_a_file_that_can_not_grow_fails_and_is_gone(tmp_path: Path) -> None:
    """As on a full disk: the kernel refuses to write."""
    script = (
        "import resource, signal, sys; from pathlib import Path; from journal.exporting import *\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "try:\n"
        "  with export_file(Path(sys.argv[1])) as file: file.write(bytes(1 << 22))\n"
        "except ExportFailed as error: print(error.exit_code, error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "out")], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("74 "), done.stderr
    assert "File too large" in done.stdout and os.listdir(tmp_path) == []


def test_what_fails_beside_the_file_is_not_told_as_its_failure(tmp_path: Path) -> None:
    with pytest.raises(PermissionError, match="the journal"), export_file(tmp_path / "out") as file:
        file.write(b"half")
        raise PermissionError(13, "the journal")
    assert os.listdir(tmp_path) == []

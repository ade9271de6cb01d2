"""Restores that ended in the midst: no store is there, the next one begins anew, and no key of theirs is left."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from journal.creating import create_store
from journal.errors import CannotCreate
from journal.layout import write_synced
from journal.purges import read_purges
from tests.journal.backing import (
    Stop,
    StopAt,
    assert_sound,
    backed_up,
    directives_of,
    plaintexts,
    purge,
    restored_as_listed,
)
from tests.journal.test_store import made, opened, remember

ROOT = Path(__file__).resolve().parents[2]


def test_a_restore_that_is_stopped_anywhere_leaves_no_store_and_is_run_again(tmp_path: Path) -> None:
    store = opened(made(tmp_path))
    secret, kept = remember(store, b"secret"), remember(store, b"kept")
    backed_up(store, tmp_path / "b")
    purge(store, secret)
    lines = directives_of(store)
    store.close(clean=True)
    root, stopped = tmp_path / "r", 0
    while True:
        try:
            restored_as_listed(root, tmp_path / "b", lines, StopAt(stopped))
            break
        except Stop:
            stopped += 1
            assert not (root / "vault.new").exists()
            with pytest.raises(CannotCreate, match="interrupted"):
                opened(root)
            with pytest.raises(CannotCreate, match="interrupted"):
                create_store(root)
    assert stopped > 4
    assert plaintexts(root, [secret, kept]) == [None, b"kept"]
    assert_sound(root)


KILLED = """
import os, sys
from pathlib import Path
from journal.purges import read_purges
from tests.journal.backing import restored_as_listed

left = int(sys.argv[4])

def step(*told):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), 9)

restored_as_listed(Path(sys.argv[1]), Path(sys.argv[2]), read_purges(Path(sys.argv[3])).directives, step)
"""


WALKED = """
import os, sys
from pathlib import Path
from tests.journal.backing import restored_as_listed

def end(event, arguments):
    if event == "subprocess.Popen":
        os.kill(os.getpid(), 9)

sys.addaudithook(end)
restored_as_listed(Path({1!r}), Path({0!r}))
"""


def test_a_process_killed_while_it_restores_leaves_no_store_and_is_run_again(tmp_path: Path) -> None:
    store = opened(made(tmp_path))
    secret, kept = remember(store, b"secret"), remember(store, b"kept")
    backed_up(store, tmp_path / "b")
    purge(store, secret)
    store.close(clean=True)
    root, purges = tmp_path / "r", tmp_path / "state" / "purges"
    for number in (0, 1, 2, 3, 4):
        command = [sys.executable, "-c", KILLED, str(root), str(tmp_path / "b"), str(purges), str(number)]
        assert subprocess.run(command, cwd=ROOT, check=False).returncode == -9
        with pytest.raises(CannotCreate, match="interrupted"):
            opened(root)
    restored_as_listed(root, tmp_path / "b", read_purges(purges).directives)
    assert plaintexts(root, [secret, kept]) == [None, b"kept"]
    assert_sound(root)


@pytest.mark.parametrize("named", [(), ("vault",), ("vault", "journal")])
def test_one_that_ended_while_names_were_taken_is_finished_or_run_again(
    tmp_path: Path, backup: Path, named: tuple[str, ...]
) -> None:
    root = tmp_path / "r"
    restored_as_listed(root, backup)
    (root / "head").unlink()
    write_synced(root / "FORMAT.new.new", b"half")
    for name in {"vault", "journal", "FORMAT"} - set(named):
        (root / name).rename(root / f"{name}.new")
    write_synced(root / "unfinished", b"")
    shutil.copytree(root, tmp_path / "finished")
    create_store(tmp_path / "finished")
    assert_sound(tmp_path / "finished")
    restored_as_listed(root, backup)
    assert {path.name for path in root.iterdir()} == {"FORMAT", "lock", "journal", "vault", "head"}
    assert_sound(root)


def test_a_store_is_never_taken_for_what_a_restore_left(tmp_path: Path, backup: Path) -> None:
    """The mark of an unfinished restore may come back after a power cut; the store beside it has been written to."""
    root = tmp_path / "r"
    restored_as_listed(root, backup)
    store = opened(root)
    part = remember(store, b"since")
    store.close(clean=True)
    write_synced(root / "unfinished", b"")
    with pytest.raises(CannotCreate, match="not empty"):
        restored_as_listed(root, backup)
    assert plaintexts(root, [part]) == [b"since"]


@pytest.mark.parametrize("name", ["vault.new", "vault"])
def test_keys_of_an_interrupted_restore_are_overwritten(tmp_path: Path, backup: Path, name: str) -> None:
    """Between the taking of two names the vault has its last one."""
    root = tmp_path / "r"
    root.mkdir(mode=0o700)
    write_synced(root / "unfinished", b"")
    write_synced(root / name, b"keys" * 100)
    os.link(root / name, tmp_path / "bytes")
    restored_as_listed(root, backup)
    assert not any((tmp_path / "bytes").read_bytes())


def test_what_can_not_be_removed_whole_does_not_pass_for_complete(tmp_path: Path, backup: Path) -> None:
    """A pipe in the vault's place can't be overwritten: the removal ends there."""
    root = tmp_path / "r"
    restored_as_listed(root, backup)
    for name in ("vault", "journal", "FORMAT"):
        (root / name).rename(root / f"{name}.new")
    write_synced(root / "unfinished", b"")
    (root / "vault.new").unlink()
    (root / "head").unlink()
    os.mkfifo(root / "vault.new", 0o600)
    with pytest.raises(OSError, match="No such device"):
        restored_as_listed(root, backup)
    assert not (root / "FORMAT.new").exists()
    with pytest.raises(CannotCreate, match="interrupted"):
        create_store(root)


def test_all_that_a_killed_restore_leaves_is_in_the_state_directory_and_goes(tmp_path: Path, backup: Path) -> None:
    """Killed while its child walks the copy: what the child reads lies in the state directory too."""
    root, scratch = tmp_path / "r", tmp_path / "scratch"
    scratch.mkdir()
    script = WALKED.format(str(backup), str(root))
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env={**os.environ, "TMPDIR": str(scratch)}, check=False
    )
    assert done.returncode == -9
    left = {path.name for path in root.iterdir()} - {"lock", "unfinished", "journal.new", "vault.new"}
    assert len(left) == 1 and left.pop().endswith(".new") and os.listdir(scratch) == []
    restored_as_listed(root, backup)
    assert {path.name for path in root.iterdir()} == {"FORMAT", "lock", "journal", "vault", "head"}

"""Restores that ended in the midst: no store is there, the next one begins anew, and no key of theirs is left."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from daemon.repurging import PURGES_A_BATCH
from journal.creating import create_store
from journal.errors import CannotCreate
from journal.layout import write_synced
from tests.journal.backing import (
    Stop,
    StopAt,
    assert_sound,
    plaintexts,
    restored,
)
from tests.journal.lived import Lived, Looked, lived, look
from tests.journal.test_store import opened, remember

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Lived:
    """A store with a backup, and more purges since than are done again in one batch."""
    return lived(tmp_path_factory.mktemp("lived"), more=PURGES_A_BATCH)


def phases(story: Lived, root: Path) -> list[str]:
    """What a restore is asked at each of its steps, by the name of the phase."""
    found: list[str] = []
    restored(root, story.backup, story.directives, lambda phase, *_: found.append(phase))
    assert found.count("purges") == 2 and "fold" in found
    return found


def test_a_restore_that_is_stopped_anywhere_leaves_no_store_and_is_run_again(tmp_path: Path, story: Lived) -> None:
    root = tmp_path / "r"
    for number in range(len(phases(story, tmp_path / "whole"))):
        with pytest.raises(Stop):
            restored(root, story.backup, story.directives, StopAt(number))
        assert not (root / "vault.new").exists()
        with pytest.raises(CannotCreate, match="interrupted"):
            opened(root)
        with pytest.raises(CannotCreate, match="interrupted"):
            create_store(root)
    restored(root, story.backup, story.directives)
    assert look(root, story) == Looked()
    assert_sound(root)


def test_what_is_looked_for_is_seen_where_no_purge_is_done_again(tmp_path: Path, story: Lived) -> None:
    """So that `look` says something wherever it finds nothing."""
    restored(tmp_path / "r", story.backup)
    found = look(tmp_path / "r", story)
    assert found.revealed >= found.not_purged == len(story.gone) and found.let_in == 1


KILLED = """
import os, sys
from pathlib import Path
from journal.purges import read_purges
from tests.journal.backing import restored

left = int(sys.argv[4])

def step(*told):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), 9)

restored(Path(sys.argv[1]), Path(sys.argv[2]), read_purges(Path(sys.argv[3])).directives, step)
"""


WALKED = """
import os, sys
from pathlib import Path
from tests.journal.backing import restored

def end(event, arguments):
    if event == "subprocess.Popen":
        os.kill(os.getpid(), 9)

sys.addaudithook(end)
restored(Path({1!r}), Path({0!r}))
"""


def test_a_process_killed_while_it_restores_leaves_no_store_and_is_run_again(tmp_path: Path, story: Lived) -> None:
    root = tmp_path / "r"
    for number in range(len(phases(story, tmp_path / "whole"))):
        command = [sys.executable, "-c", KILLED, str(root), str(story.backup), str(story.purges), str(number)]
        assert subprocess.run(command, cwd=ROOT, check=False).returncode == -9
        with pytest.raises(CannotCreate, match="interrupted"):
            opened(root)
    restored(root, story.backup, story.directives)
    assert look(root, story) == Looked()
    assert_sound(root)


@pytest.mark.parametrize("named", [(), ("vault",), ("vault", "journal")])
def test_one_that_ended_while_names_were_taken_is_finished_or_run_again(
    tmp_path: Path, backup: Path, named: tuple[str, ...]
) -> None:
    root = tmp_path / "r"
    restored(root, backup)
    (root / "head").unlink()
    write_synced(root / "FORMAT.new.new", b"half")
    for name in {"vault", "journal", "FORMAT"} - set(named):
        (root / name).rename(root / f"{name}.new")
    write_synced(root / "unfinished", b"")
    shutil.copytree(root, tmp_path / "finished")
    create_store(tmp_path / "finished")
    assert_sound(tmp_path / "finished")
    restored(root, backup)
    assert {path.name for path in root.iterdir()} == {"FORMAT", "lock", "journal", "vault", "head"}
    assert_sound(root)


def test_a_store_is_never_taken_for_what_a_restore_left(tmp_path: Path, backup: Path) -> None:
    """The mark of an unfinished restore may come back after a power cut; the store beside it has been written to."""
    root = tmp_path / "r"
    restored(root, backup)
    store = opened(root)
    part = remember(store, b"since")
    store.close(clean=True)
    write_synced(root / "unfinished", b"")
    with pytest.raises(CannotCreate, match="not empty"):
        restored(root, backup)
    assert plaintexts(root, [part]) == [b"since"]


@pytest.mark.parametrize("name", ["vault.new", "vault"])
def test_keys_of_an_interrupted_restore_are_overwritten(tmp_path: Path, backup: Path, name: str) -> None:
    """Between the taking of two names the vault has its last one."""
    root = tmp_path / "r"
    root.mkdir(mode=0o700)
    write_synced(root / "unfinished", b"")
    write_synced(root / name, b"keys" * 100)
    os.link(root / name, tmp_path / "bytes")
    restored(root, backup)
    assert not any((tmp_path / "bytes").read_bytes())


def test_what_can_not_be_removed_whole_does_not_pass_for_complete(tmp_path: Path, backup: Path) -> None:
    """A pipe in the vault's place can't be overwritten: the removal ends there."""
    root = tmp_path / "r"
    restored(root, backup)
    for name in ("vault", "journal", "FORMAT"):
        (root / name).rename(root / f"{name}.new")
    write_synced(root / "unfinished", b"")
    (root / "vault.new").unlink()
    (root / "head").unlink()
    os.mkfifo(root / "vault.new", 0o600)
    with pytest.raises(OSError, match="No such device"):
        restored(root, backup)
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
    restored(root, backup)
    assert {path.name for path in root.iterdir()} == {"FORMAT", "lock", "journal", "vault", "head"}

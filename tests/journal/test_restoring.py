"""Restoring: what is refused, what the new store is, and that what was purged stays purged."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from journal.creating import create_store
from journal.errors import CannotCreate, DamagedStore, ForeignStore, NoctuaryFault, StoreLocked
from journal.events import Restored
from journal.headfile import read_head
from journal.layout import StateDir, StoreLock, write_synced
from journal.manifest import MANIFEST
from journal.purges import read_purges
from journal.store import purge_parts
from tests.journal.backing import (
    Stop,
    StopAt,
    assert_sound,
    backed_up,
    directives_of,
    files_in,
    plaintexts,
    purge,
    raw_record,
    restored,
)
from tests.journal.test_store import body as body_of
from tests.journal.test_store import made, opened, purged, remember

ROOT = Path(__file__).resolve().parents[2]


# --- what is refused -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with three texts in `state`, its backup in `b`."""
    directory = tmp_path_factory.mktemp("template")
    store = opened(made(directory))
    for text in (b"one", b"two", b"three"):
        remember(store, text)
    backed_up(store, directory / "b")
    store.close(clean=True)
    return directory


@pytest.fixture
def backup(template: Path, tmp_path: Path) -> Path:
    """The backup, beside its store, for this test to harm."""
    for name in ("state", "b"):
        shutil.copytree(template / name, tmp_path / name)
    return tmp_path / "b"


def name_of(backup: Path, part: str) -> Path:
    return next(path for path in backup.iterdir() if path.name.startswith(part))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def link(path: Path) -> None:
    path.rename(path.with_name("aside"))
    path.symlink_to("aside")


@pytest.mark.parametrize("part", ["journal", "vault", MANIFEST])
@pytest.mark.parametrize("harm", [cut, flip, link, Path.unlink])
def test_a_backup_that_is_not_whole_is_refused(
    tmp_path: Path, backup: Path, part: str, harm: Callable[[Path], None]
) -> None:
    harm(name_of(backup, part))
    with pytest.raises(NoctuaryFault) as caught:
        restored(tmp_path / "r", backup)
    assert caught.value.exit_code == 65, caught.value
    with pytest.raises(NoctuaryFault):
        opened(tmp_path / "r")


@pytest.mark.parametrize("path", ["nowhere", "state", "state/journal", "state/FORMAT"])
def test_what_is_not_a_backup_is_called_so(tmp_path: Path, backup: Path, path: str) -> None:
    with pytest.raises(DamagedStore, match="not a backup"):
        restored(tmp_path / "r", tmp_path / path)
    assert not (tmp_path / "r").exists()


def test_parts_of_different_stores_are_refused(tmp_path: Path, backup: Path) -> None:
    other = opened(made(tmp_path / "elsewhere"))
    for text in (b"one", b"two", b"three"):
        remember(other, text)
    backed_up(other, tmp_path / "theirs")
    other.close(clean=True)
    with pytest.raises(ForeignStore, match="that of the vault"):
        restored(tmp_path / "r", backup, vault_from=tmp_path / "theirs")
    theirs, ours = (name_of(tmp_path / "theirs", "journal"), name_of(backup, "journal"))
    assert theirs.name == ours.name
    shutil.copy(tmp_path / "theirs" / MANIFEST, backup / MANIFEST)
    with pytest.raises(DamagedStore, match="digest"):
        restored(tmp_path / "r", backup)
    shutil.copy(theirs, ours)
    with pytest.raises(DamagedStore, match="digest"):
        restored(tmp_path / "r", backup)


def test_an_older_vault_is_refused(tmp_path: Path) -> None:
    store = opened(made(tmp_path))
    remember(store, b"one")
    backed_up(store, tmp_path / "b")
    remember(store, b"two")
    backed_up(store, tmp_path / "b", ["journal"])
    store.close(clean=True)
    with pytest.raises(DamagedStore, match="older vault"):
        restored(tmp_path / "r", tmp_path / "b")


def test_only_an_empty_directory_is_filled(tmp_path: Path, backup: Path) -> None:
    root = tmp_path / "r"
    root.mkdir(mode=0o700)
    (root / "letter").write_bytes(b"mine")
    with pytest.raises(CannotCreate, match="letter"):
        restored(root, backup)
    assert files_in(root) == {"letter": b"mine", "lock": b""}
    before = files_in(tmp_path / "state")
    with pytest.raises(CannotCreate, match="not empty"):
        restored(tmp_path / "state", backup)
    assert files_in(tmp_path / "state") == before
    with pytest.raises(CannotCreate):
        restored(backup, backup)


def test_a_locked_directory_is_refused(tmp_path: Path, backup: Path) -> None:
    root = tmp_path / "r"
    root.mkdir(mode=0o700)
    lock = StoreLock.take(root / "lock")
    with pytest.raises(StoreLocked):
        restored(root, backup)
    lock.release()
    restored(root, backup)


# --- what the new store is ---------------------------------------------------------------------------------


def test_a_restored_store_continues_under_a_new_epoch(tmp_path: Path) -> None:
    store = opened(made(tmp_path))
    parts = [remember(store, b"one"), remember(store, b"two")]
    backed_up(store, tmp_path / "b")
    forked_from, ahead = store.log.head(), store.vault.key(store.log.state.vault_next)
    store.close(clean=True)
    outcome = restored(tmp_path / "r", tmp_path / "b")
    assert outcome.forked_from == forked_from
    assert (outcome.head.epoch, outcome.head.seq) == (2, forked_from.seq + 1)
    assert read_head(tmp_path / "r" / "head") == outcome.head
    assert {path.name for path in (tmp_path / "r").iterdir()} == {"FORMAT", "lock", "journal", "vault", "head"}
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in (tmp_path / "r").rglob("*") if path.is_file())
    assert_sound(tmp_path / "r")
    after = opened(tmp_path / "r")
    assert after.epoch == 2 and after.clean
    event = raw_record(after, forked_from.seq + 1).event
    assert isinstance(event, Restored)
    assert (event.from_store, event.from_epoch, event.from_seq, event.from_chain) == (after.store_id, *forked_from)
    assert after.vault.key(parts[1].slot + 1) != ahead
    remember(after, b"three")
    backed_up(after, tmp_path / "b2")
    after.close(clean=True)
    assert restored(tmp_path / "r2", tmp_path / "b2").head.epoch == 3
    assert plaintexts(tmp_path / "r2", parts) == [b"one", b"two"]
    assert_sound(tmp_path / "r2")


def test_a_head_of_a_later_time_is_refused_with_both_named(tmp_path: Path, backup: Path) -> None:
    root = tmp_path / "r"
    restored(root, backup)
    shutil.copytree(root, tmp_path / "early")
    store = opened(root)
    remember(store, b"more")
    store.close(clean=True)
    shutil.copy(root / "head", tmp_path / "early" / "head")
    with pytest.raises(DamagedStore, match="epoch 2 seq 7, the journal at epoch 2 seq 5: the journal went back"):
        opened(tmp_path / "early")
    old = opened(tmp_path / "state")
    for _ in range(8):
        remember(old, b"more")
    old.close(clean=True)
    shutil.copy(root / "head", tmp_path / "state" / "head")
    with pytest.raises(DamagedStore, match="epoch 2 seq 7, the journal at epoch 1 seq 13: the journal went back"):
        opened(tmp_path / "state")


def test_slots_that_a_later_time_shredded_are_keyed_anew(tmp_path: Path) -> None:
    """A newer vault has keys, and shredded slots, that the older journal never handed out."""
    store = opened(made(tmp_path))
    remember(store, b"one")
    backed_up(store, tmp_path / "b")
    purge(store, remember(store, b"two"))
    directives = directives_of(store)
    backed_up(store, tmp_path / "b", ["vault"])
    store.close(clean=True)
    outcome = restored(tmp_path / "r", tmp_path / "b", directives)
    assert (outcome.reapplied.not_found, outcome.unnamed) == (1, 0)
    after = opened(tmp_path / "r")
    parts = [remember(after, b"other %d" % number) for number in range(3)]
    after.close(clean=True)
    assert plaintexts(tmp_path / "r", parts) == [b"other 0", b"other 1", b"other 2"]
    assert_sound(tmp_path / "r")


# --- interrupted --------------------------------------------------------------------------------------------


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
            restored(root, tmp_path / "b", lines, StopAt(stopped))
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
from tests.journal.backing import restored

left = int(sys.argv[4])

def step(*told):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), 9)

restored(Path(sys.argv[1]), Path(sys.argv[2]), read_purges(Path(sys.argv[3])).directives, step)
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
    restored(root, tmp_path / "b", read_purges(purges).directives)
    assert plaintexts(root, [secret, kept]) == [None, b"kept"]
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


def test_keys_of_an_interrupted_restore_are_overwritten(tmp_path: Path, backup: Path) -> None:
    root = tmp_path / "r"
    root.mkdir(mode=0o700)
    write_synced(root / "unfinished", b"")
    write_synced(root / "vault.new", b"keys" * 100)
    os.link(root / "vault.new", tmp_path / "bytes")
    restored(root, backup)
    assert not any((tmp_path / "bytes").read_bytes())


def test_a_journal_that_is_not_where_the_manifest_says_is_refused(tmp_path: Path, backup: Path) -> None:
    import msgspec

    from journal.manifest import read_manifest, write_manifest

    manifest = read_manifest(backup)
    assert manifest.journal is not None
    moved = msgspec.structs.replace(manifest.journal, seq=manifest.journal.seq - 1)
    write_manifest(backup, msgspec.structs.replace(manifest, journal=moved))
    with pytest.raises(ForeignStore, match="the manifest says"):
        restored(tmp_path / "r", backup)


def test_an_opened_restore_is_purged_by_the_rules_of_its_own(tmp_path: Path, backup: Path) -> None:
    """What the restored store purges later gets a line under its own epoch."""
    restored(tmp_path / "r", backup)
    store = opened(tmp_path / "r")
    part = remember(store, b"new secret")
    seq = store.log.head().seq + 1
    purge_parts(store, [body_of(seq, purged(part))], [], store.log.state)
    (line,) = directives_of(store)
    assert (line.epoch, line.seq) == (2, seq)
    store.close(clean=True)
    StateDir(tmp_path / "r").purges_file.unlink()
    opened(tmp_path / "r").close(clean=True)
    assert read_purges(tmp_path / "r" / "purges").directives == (line,)

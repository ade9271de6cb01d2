"""Restoring: what is refused, what the new store is, and that what was purged stays purged."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from journal.destination import OccupiedDirectory
from journal.errors import CannotCreate, DamagedStore, ForeignStore, NoctuaryFault, StoreLocked
from journal.events import Restored
from journal.headfile import read_head
from journal.layout import StateDir, StoreLock
from journal.manifest import MANIFEST
from journal.purges import Directive, append_purges, read_purges
from journal.store import purge_parts
from tests.daemon.purged import Purging
from tests.journal.backing import (
    assert_sound,
    backed_up,
    directives_of,
    files_in,
    plaintexts,
    raw_record,
    restored,
)
from tests.journal.test_store import body as body_of
from tests.journal.test_store import made, opened, purged, remember

ROOT = Path(__file__).resolve().parents[2]


# --- what is refused -------------------------------------------------------------------------------------


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
    backed_up(store, tmp_path / "v")
    remember(store, b"two")
    backed_up(store, tmp_path / "j", ["journal"])
    store.close(clean=True)
    with pytest.raises(DamagedStore, match="older vault"):
        restored(tmp_path / "r", tmp_path / "j", vault_from=tmp_path / "v")


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


def test_no_backup_takes_the_place_of_one_that_is_read(tmp_path: Path) -> None:
    store = opened(made(tmp_path))
    remember(store, b"one")
    for name in ("j", "v"):
        backed_up(store, tmp_path / name)
    tried: list[str] = []

    def step(phase: str, _done: int, _of: int) -> None:
        for name in ("j", "v"):
            with pytest.raises(OccupiedDirectory, match="another backup or restore"):
                backed_up(store, tmp_path / name)
        tried.append(phase)

    before = files_in(tmp_path / "j"), files_in(tmp_path / "v")
    restored(tmp_path / "r", tmp_path / "j", step=step, vault_from=tmp_path / "v")
    assert {"journal", "vault", "check"} <= set(tried)
    assert (files_in(tmp_path / "j"), files_in(tmp_path / "v")) == before
    for name in ("j", "v"):
        backed_up(store, tmp_path / name)
    store.close(clean=True)


def test_two_restores_read_one_backup_at_a_time(tmp_path: Path, backup: Path) -> None:
    beside = tmp_path / "beside"

    def step(*_told: object) -> None:
        if not beside.exists():
            restored(beside, backup)

    restored(tmp_path / "r", backup, step=step)
    assert_sound(beside)


def test_a_locked_directory_is_refused(tmp_path: Path, backup: Path) -> None:
    root = tmp_path / "r"
    root.mkdir(mode=0o700)
    lock = StoreLock.take(root / "lock")
    with pytest.raises(StoreLocked):
        restored(root, backup)
    lock.release()
    restored(root, backup)


def test_an_epoch_that_the_purge_list_there_speaks_of_is_not_used_again(tmp_path: Path, backup: Path) -> None:
    """The list lies in the directory, and none of it is carried out (`--without-purges`)."""
    root = tmp_path / "r"
    root.mkdir(mode=0o700)
    store = opened(tmp_path / "state")
    line = Directive(store.store_id.hex(), 7, 90, bytes(32).hex(), (), (), 90, "default", 0, 0, 0, (0, 0, 0))
    store.close(clean=True)
    append_purges(root / "purges", [line, msgspec.structs.replace(line, store=bytes(16).hex(), epoch=30)])
    assert restored(root, backup).head.epoch == 8
    assert_sound(root)


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
    live = Purging(tmp_path / "live")
    live.capture("one")
    backed_up(live.store, tmp_path / "b")
    live.purge(live.capture("two"))
    directives = directives_of(live.store)
    backed_up(live.store, tmp_path / "b", ["vault"])
    live.close(True)
    outcome = restored(tmp_path / "r", tmp_path / "b", directives)
    assert (outcome.reapplied.not_found, outcome.unnamed) == (1, 0)
    again = Purging(tmp_path / "r")
    texts = [f"other {number}" for number in range(3)]
    refs = [again.capture(text) for text in texts]
    assert [again.memory(ref)["text"] for ref in refs] == texts
    again.close(True)
    assert_sound(tmp_path / "r")


def test_a_journal_that_is_not_where_the_manifest_says_is_refused(tmp_path: Path, backup: Path) -> None:
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

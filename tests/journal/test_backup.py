"""Backups: what is in them, where they may lie, and that an earlier one outlives whatever goes wrong with the next."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from hashlib import blake2b
from pathlib import Path

import pytest

from journal.destination import OccupiedDirectory, UnfitDirectory
from journal.errors import DamagedStore, StoreIO
from journal.events import MemoryCreated, SealedPart
from journal.log import sealed_key
from journal.manifest import MANIFEST, read_manifest
from journal.store import Store
from journal.vault import SLOT_BYTES, SLOTS_OFFSET, SlotState, Vault
from tests.journal.backing import (
    Stop,
    StopAt,
    backed_up,
    files_in,
    place_of,
    purge,
    restored,
    with_vault_next,
)
from tests.journal.test_store import body, made, opened, read, remember

ROOT = Path(__file__).resolve().parents[2]


def readable(root: Path, part: SealedPart) -> bytes:
    """What a restored store says of a part; it is closed again."""
    store = opened(root)
    try:
        return read(store, part)
    finally:
        store.close(clean=True)


def key_state(directory: Path, store: Store, slot: int) -> SlotState:
    manifest = read_manifest(directory)
    assert manifest.vault is not None
    vault = Vault.open(directory / manifest.vault.file.name, store.store_id, readonly=True)
    try:
        return vault.state(slot)
    finally:
        vault.close()


# --- what is in one ------------------------------------------------------------------------------------


def test_a_backup_is_closed_files_that_its_manifest_describes(tmp_path: Path) -> None:
    store = opened(made(tmp_path))
    parts = [remember(store, b"text %d" % number) for number in range(3)]
    manifest = backed_up(store, tmp_path / "b")
    head, state = store.log.head(), store.log.state
    assert manifest == read_manifest(tmp_path / "b")
    assert manifest.store == store.store_id.hex()
    assert {path.name for path in (tmp_path / "b").iterdir()} == manifest.names() | {MANIFEST}
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o700
    for part in (manifest.journal, manifest.vault):
        assert part is not None
        assert (part.epoch, part.seq, part.chain, part.vault_next) == (1, head.seq, head.chain.hex(), state.vault_next)
        data = (tmp_path / "b" / part.file.name).read_bytes()
        assert (len(data), blake2b(data, digest_size=32).hexdigest()) == (part.file.bytes, part.file.digest)
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in (tmp_path / "b").iterdir())
    store.close(clean=True)
    restored(tmp_path / "r", tmp_path / "b")
    assert readable(tmp_path / "r", parts[2]) == b"text 2"


def test_keys_ahead_of_use_are_not_copied(tmp_path: Path) -> None:
    store = opened(made(tmp_path))
    remember(store, b"one")
    manifest = backed_up(store, tmp_path / "b")
    assert manifest.vault is not None and store.vault.slot_count() > 4000
    assert manifest.vault.file.bytes == SLOTS_OFFSET + store.log.state.vault_next * SLOT_BYTES
    store.close(clean=True)


def test_a_flipped_or_lost_byte_of_a_manifest_is_found(tmp_path: Path) -> None:
    store = opened(made(tmp_path))
    backed_up(store, tmp_path / "b")
    store.close(clean=True)
    path = tmp_path / "b" / MANIFEST
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(DamagedStore):
            read_manifest(tmp_path / "b")
    for length in range(len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(DamagedStore):
            read_manifest(tmp_path / "b")


# --- purges while it is made ------------------------------------------------------------------------------


def test_what_is_purged_between_journal_and_vault_is_shredded_in_the_copy(tmp_path: Path) -> None:
    store = opened(made(tmp_path))
    secret, kept = remember(store, b"secret"), remember(store, b"kept")

    def step(phase: str, done: int, _of: int) -> None:
        if (phase, done) == ("vault", 0):
            purge(store, secret)

    manifest = backed_up(store, tmp_path / "b", step=step)
    assert manifest.journal is not None and manifest.vault is not None
    assert manifest.vault.seq == store.log.head().seq > manifest.journal.seq
    assert key_state(tmp_path / "b", store, secret.slot) is SlotState.SHREDDED
    assert key_state(tmp_path / "b", store, kept.slot) is SlotState.KEYED
    store.close(clean=True)


def test_what_is_purged_while_keys_are_copied_is_shredded_and_what_is_written_has_its_key(tmp_path: Path) -> None:
    store = opened(made(tmp_path))
    secret = remember(store, b"secret")
    fresh: list[SealedPart] = []

    def place() -> object:
        """The keys were copied already when these come."""
        purge(store, secret)
        fresh.append(remember(store, b"fresh"))
        return place_of(store)

    backed_up(store, tmp_path / "b", place=place)  # type: ignore[arg-type]
    assert key_state(tmp_path / "b", store, secret.slot) is SlotState.SHREDDED
    assert key_state(tmp_path / "b", store, fresh[0].slot) is SlotState.KEYED
    backed_up(store, tmp_path / "b", ["journal"])
    store.close(clean=True)


def test_a_newer_vault_part_opens_the_older_journal_and_not_what_was_purged(tmp_path: Path) -> None:
    store = opened(made(tmp_path))
    secret, kept = remember(store, b"secret"), remember(store, b"kept")
    first = backed_up(store, tmp_path / "b")
    purge(store, secret)
    remember(store, b"later")
    second = backed_up(store, tmp_path / "b", ["vault"])
    assert second.journal == first.journal and second.vault != first.vault
    store.close(clean=True)
    outcome = restored(tmp_path / "r", tmp_path / "b")
    assert outcome.unnamed == 1
    assert readable(tmp_path / "r", kept) == b"kept"
    with pytest.raises(Exception, match="shredded"):
        readable(tmp_path / "r", secret)


def test_parts_kept_in_directories_of_their_own_go_together(tmp_path: Path) -> None:
    store = opened(made(tmp_path))
    kept = remember(store, b"kept")
    backed_up(store, tmp_path / "j", ["journal"])
    remember(store, b"later")
    backed_up(store, tmp_path / "v", ["vault"])
    store.close(clean=True)
    with pytest.raises(DamagedStore, match="no vault part"):
        restored(tmp_path / "r", tmp_path / "j")
    assert not (tmp_path / "r").exists()
    restored(tmp_path / "r", tmp_path / "j", vault_from=tmp_path / "v")
    assert readable(tmp_path / "r", kept) == b"kept"


# --- replacing one ------------------------------------------------------------------------------------


def test_a_vault_that_is_replaced_is_overwritten_with_zeros(tmp_path: Path) -> None:
    store = opened(made(tmp_path))
    remember(store, b"one")
    manifest = backed_up(store, tmp_path / "b")
    assert manifest.vault is not None
    os.link(tmp_path / "b" / manifest.vault.file.name, tmp_path / "old")  # the bytes of it, when its name is gone
    assert any((tmp_path / "old").read_bytes())
    backed_up(store, tmp_path / "b", ["vault"])
    assert not any((tmp_path / "old").read_bytes())
    store.close(clean=True)


@pytest.mark.parametrize("replaces", [False, True])
def test_a_backup_that_is_stopped_anywhere_leaves_what_was_there(tmp_path: Path, replaces: bool) -> None:
    store = opened(made(tmp_path))
    remember(store, b"one")
    if replaces:
        backed_up(store, tmp_path / "b")
    before = files_in(tmp_path / "b") if replaces else {}
    purge(store, remember(store, b"two"))
    stopped = 0
    while True:
        try:
            backed_up(store, tmp_path / "b", step=StopAt(stopped))
            break
        except Stop:
            stopped += 1
            assert (files_in(tmp_path / "b") if replaces else {}) == before
            assert (tmp_path / "b").exists() is replaces
    assert stopped > 6
    store.close(clean=True)
    restored(tmp_path / "r", tmp_path / "b")


KILLED = """
import os, sys
from pathlib import Path
from tests.journal.backing import backed_up
from tests.journal.test_store import opened

left = int(sys.argv[3])

def step(*told):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), 9)

backed_up(opened(Path(sys.argv[1])), sys.argv[2], step=step)
"""


@pytest.mark.parametrize("replaces", [False, True])
def test_a_process_killed_while_it_backs_up_costs_only_that_backup(tmp_path: Path, replaces: bool) -> None:
    root = made(tmp_path)
    store = opened(root)
    part = remember(store, b"one")
    if replaces:
        backed_up(store, tmp_path / "b")
    store.close(clean=True)
    for number in (0, 2, 5, 6):
        child = subprocess.run(
            [sys.executable, "-c", KILLED, str(root), str(tmp_path / "b"), str(number)], cwd=ROOT, check=False
        )
        assert child.returncode == -9
        if replaces:
            restored(tmp_path / f"r{number}", tmp_path / "b")
            assert readable(tmp_path / f"r{number}", part) == b"one"
        else:
            with pytest.raises(DamagedStore, match="not a backup"):
                restored(tmp_path / f"r{number}", tmp_path / "b")
    store = opened(root)
    manifest = backed_up(store, tmp_path / "b")
    assert {path.name for path in (tmp_path / "b").iterdir()} == manifest.names() | {MANIFEST}
    store.close(clean=True)


def test_files_that_took_their_names_without_a_manifest_are_removed_by_the_next(tmp_path: Path) -> None:
    store = opened(made(tmp_path))
    backed_up(store, tmp_path / "b")
    work = tmp_path / "b" / "work.new"
    work.mkdir()
    shutil.copy(store.dir.format_file, work / "FORMAT")
    (tmp_path / "b" / MANIFEST).rename(tmp_path / "b" / f"{MANIFEST}.new")
    manifest = backed_up(store, tmp_path / "b")
    assert {path.name for path in (tmp_path / "b").iterdir()} == manifest.names() | {MANIFEST}
    store.close(clean=True)


# --- where it may lie ----------------------------------------------------------------------------------


def test_unfit_directories_are_refused_and_nothing_is_made(tmp_path: Path) -> None:
    root = made(tmp_path)
    store = opened(root)
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_bytes(b"")
    link.symlink_to(root)
    (tmp_path / "dangling").symlink_to(tmp_path / "target")
    before = files_in(tmp_path)
    unfit = {
        "relative": "absolute", str(root / "b"): "state directory", str(root): "state directory",
        str(root / "journal" / "b"): "state directory", str(link / "b"): "state directory",
        str(tmp_path): "state directory", "/": "state directory", str(file): "no directory",
        str(file / "b"): "can't be used|does not exist|no directory", str(tmp_path / "no" / "b"): "does not exist",
        str(link): "symbolic link|state directory", str(tmp_path / "dangling"): "symbolic link",
        str(tmp_path / "x" / ".." / "b"): r"\.\.", "/proc/self/b\0": "absolute",
    }  # fmt: skip
    for path, why in unfit.items():
        with pytest.raises(UnfitDirectory, match=why):
            backed_up(store, path)
    assert files_in(tmp_path) == before and not (tmp_path / "target").exists()
    store.close(clean=True)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_can_not_be_written_is_refused(tmp_path: Path) -> None:
    store = opened(made(tmp_path))
    (tmp_path / "b").mkdir(mode=0o500)
    with pytest.raises(UnfitDirectory, match="written"):
        backed_up(store, tmp_path / "b")
    store.close(clean=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    store = opened(made(tmp_path))
    (tmp_path / "b").mkdir()
    os.chown(tmp_path / "b", 12345, -1)
    with pytest.raises(UnfitDirectory, match="uid 12345"):
        backed_up(store, tmp_path / "b")
    store.close(clean=True)


def test_what_is_not_a_backup_of_this_store_is_left_alone(tmp_path: Path) -> None:
    store = opened(made(tmp_path))
    other = opened(made(tmp_path / "elsewhere"))
    backed_up(other, tmp_path / "theirs")
    backed_up(store, tmp_path / "damaged")
    manifest = tmp_path / "damaged" / MANIFEST
    manifest.write_bytes(manifest.read_bytes().replace(b"test", b"tost"))
    backed_up(store, tmp_path / "lost")
    (tmp_path / "lost" / MANIFEST).unlink()
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "letter").write_bytes(b"mine")
    half = tmp_path / "half" / "work.new"
    half.mkdir(parents=True)
    shutil.copy(other.dir.format_file, half / "FORMAT")
    (half / "vault").write_bytes(b"their keys")
    for name in ("theirs", "damaged", "lost", "letters", "half"):
        (tmp_path / name).chmod(0o755)
        before = files_in(tmp_path / name)
        with pytest.raises(OccupiedDirectory):
            backed_up(store, tmp_path / name)
        assert files_in(tmp_path / name) == before and (tmp_path / name).stat().st_mode & 0o777 == 0o755
    store.close(clean=True)
    other.close(clean=True)


def test_an_empty_directory_is_taken_and_closed_to_others(tmp_path: Path) -> None:
    store = opened(made(tmp_path))
    (tmp_path / "b").mkdir(mode=0o755)
    backed_up(store, tmp_path / "b")
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o700
    store.close(clean=True)


# --- what must not take a good backup's place ----------------------------------------------------------------


def test_a_damaged_journal_takes_no_place(tmp_path: Path) -> None:
    store = opened(made(tmp_path))
    remember(store, b"one")
    backed_up(store, tmp_path / "b")
    before = files_in(tmp_path / "b")
    seq = store.log.head().seq + 1
    slot, length, _digest, sealed = store.sealer.seal(1, b"two")
    wrong = SealedPart(seq, 1, slot, length, bytes(16))
    event = MemoryCreated(id=seq, slot=seq, kind=0, subtype=1, origin=0, partition=1, parts=(wrong,))
    store.log.append([body(seq, event)], [(sealed_key(seq, 1), sealed)], with_vault_next(store, seq))
    for name in ("b", "fresh"):
        with pytest.raises(DamagedStore, match="sealed_damaged"):
            backed_up(store, tmp_path / name)
    assert files_in(tmp_path / "b") == before and not (tmp_path / "fresh").exists()
    store.close(clean=True)


def test_a_damaged_key_takes_no_sound_one_s_place(tmp_path: Path) -> None:
    store = opened(made(tmp_path))
    part = remember(store, b"one")
    backed_up(store, tmp_path / "b")
    before = files_in(tmp_path / "b")
    with store.dir.vault_file.open("r+b") as file:
        file.seek(SLOTS_OFFSET + part.slot * SLOT_BYTES + 20)
        file.write(b"\xff\x00\xff")
    with pytest.raises(DamagedStore, match=f"slot {part.slot}"):
        backed_up(store, tmp_path / "b")
    assert files_in(tmp_path / "b") == before
    backed_up(store, tmp_path / "fresh")  # better than none
    store.close(clean=True)


def test_a_vault_of_another_line_takes_no_place_beside_a_journal(tmp_path: Path) -> None:
    root = made(tmp_path)
    store = opened(root)
    remember(store, b"one")
    backed_up(store, tmp_path / "early")
    remember(store, b"two")
    backed_up(store, tmp_path / "late")
    store.close(clean=True)
    restored(tmp_path / "fork", tmp_path / "early")
    fork = opened(tmp_path / "fork")
    for number in range(5):
        remember(fork, b"other %d" % number)
    with pytest.raises(OccupiedDirectory, match="does not lead through"):
        backed_up(fork, tmp_path / "late", ["vault"])
    backed_up(fork, tmp_path / "early", ["vault"])
    backed_up(fork, tmp_path / "v", ["vault"])
    fork.close(clean=True)
    with pytest.raises(DamagedStore, match="another line"):
        restored(tmp_path / "r", tmp_path / "late", vault_from=tmp_path / "v")
    restored(tmp_path / "r", tmp_path / "early")


def test_a_part_that_is_not_whole_is_not_kept(tmp_path: Path) -> None:
    store = opened(made(tmp_path))
    manifest = backed_up(store, tmp_path / "b")
    assert manifest.journal is not None
    os.truncate(tmp_path / "b" / manifest.journal.file.name, 100)
    with pytest.raises(OccupiedDirectory, match="not whole"):
        backed_up(store, tmp_path / "b", ["vault"])
    backed_up(store, tmp_path / "b")
    store.close(clean=True)
    restored(tmp_path / "r", tmp_path / "b")


def test_two_backups_into_one_directory_exclude_each_other(tmp_path: Path) -> None:
    store = opened(made(tmp_path))

    def step(phase: str, _done: int, _of: int) -> None:
        if phase == "vault":
            with pytest.raises(OccupiedDirectory, match="another backup"):
                backed_up(store, tmp_path / "b")

    backed_up(store, tmp_path / "b", step=step)
    store.close(clean=True)


def test_a_destination_that_fails_leaves_the_store_serving(tmp_path: Path) -> None:
    """A limit on the size of a file stands for a disk that fails in the middle of a copy."""
    import resource

    store = opened(made(tmp_path))
    part = remember(store, b"x" * 300_000)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises((StoreIO, OSError)):
            backed_up(store, tmp_path / "b")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not (tmp_path / "b").exists()
    assert read(store, part) == b"x" * 300_000
    remember(store, b"more")
    store.close(clean=True)

"""Backups that must not be made, and ones that are made although something behind them failed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from journal.backup import NoRoomThere, Source, Step, Written, back_up
from journal.creating import create_store
from journal.destination import OccupiedDirectory
from journal.manifest import MANIFEST, PARTS, read_manifest
from journal.space import MARGIN_BYTES, RESERVE_BYTES, WRITABLE_FROM_BYTES, free_bytes
from journal.store import Store
from ops.drills.full_disk import CannotMount, fill, small_disk
from tests.journal.backing import AT, backed_up, files_in, nothing, place_of, purge, restored
from tests.journal.test_store import made, opened, remember


def written(store: Store, directory: Path, step: Step = nothing) -> Written:
    source = Source(store, "test", lambda: AT, lambda: place_of(store), step, lambda: False)
    return back_up(source, str(directory), PARTS)


# --- a pair that does not fit -------------------------------------------------------------------------


def test_a_journal_takes_no_place_beside_a_vault_that_lacks_its_keys(tmp_path: Path) -> None:
    store = opened(made(tmp_path))
    remember(store, b"one")
    backed_up(store, tmp_path / "b")
    remember(store, b"two")
    before = files_in(tmp_path / "b")
    with pytest.raises(OccupiedDirectory, match="lacks keys"):
        backed_up(store, tmp_path / "b", ["journal"], step=lambda *_told: pytest.fail("it must not begin"))
    assert files_in(tmp_path / "b") == before
    backed_up(store, tmp_path / "b", ["vault"])
    backed_up(store, tmp_path / "b", ["journal"])
    restored(tmp_path / "r", tmp_path / "b")
    store.close(clean=True)


def test_a_journal_takes_no_place_beside_a_vault_that_lacks_its_purges(tmp_path: Path) -> None:
    store = opened(made(tmp_path))
    part = remember(store, b"one")
    backed_up(store, tmp_path / "b")
    purge(store, part)  # uses no slot
    before = files_in(tmp_path / "b")
    with pytest.raises(OccupiedDirectory, match="lacks keys"):
        backed_up(store, tmp_path / "b", ["journal"])
    assert files_in(tmp_path / "b") == before
    store.close(clean=True)


def test_what_is_written_before_the_snapshot_counts_too(tmp_path: Path) -> None:
    store = opened(made(tmp_path))
    remember(store, b"one")
    backed_up(store, tmp_path / "b")
    before = files_in(tmp_path / "b")

    def step(phase: str, done: int, _of: int) -> None:
        if (phase, done) == ("journal", 0):
            remember(store, b"meanwhile")

    with pytest.raises(OccupiedDirectory, match="lacks keys"):
        backed_up(store, tmp_path / "b", ["journal"], step=step)
    assert files_in(tmp_path / "b") == before
    restored(tmp_path / "r", tmp_path / "b")
    store.close(clean=True)


# --- behind the manifest ----------------------------------------------------------------------------------


@pytest.mark.parametrize("stays", ["journal", "vault"])
def test_what_can_not_be_removed_is_told_and_the_backup_is_made(tmp_path: Path, stays: str) -> None:
    """A directory in an old part's place can be neither overwritten nor unlinked. The other part goes all the same."""
    store = opened(made(tmp_path))
    remember(store, b"one")
    first = written(store, tmp_path / "b")
    assert (first.leftover, first.why) == ((), None)
    purge(store, remember(store, b"two"))
    old = next(path for path in (tmp_path / "b").iterdir() if path.name.startswith(stays))

    def step(phase: str, done: int, _of: int) -> None:
        if (phase, done) == ("manifest", 1):
            old.unlink()
            old.mkdir()

    second = written(store, tmp_path / "b", step)
    assert second.manifest == read_manifest(tmp_path / "b") != first.manifest
    assert second.leftover == (old.name,)
    assert isinstance(second.why, IsADirectoryError)
    assert {path.name for path in (tmp_path / "b").iterdir()} == second.manifest.names() | {MANIFEST, old.name}
    restored(tmp_path / "r", tmp_path / "b")
    old.rmdir()
    old.write_bytes(b"keys")
    third = written(store, tmp_path / "b")
    assert third.leftover == ()
    assert {path.name for path in (tmp_path / "b").iterdir()} == third.manifest.names() | {MANIFEST}
    store.close(clean=True)


# --- room -------------------------------------------------------------------------------------------------


@pytest.fixture
def disk() -> Iterator[Path]:
    try:
        with small_disk(128) as path:
            yield path
    except CannotMount as refusal:
        pytest.skip(f"no small file system can be mounted here: {refusal}")


def test_a_backup_on_the_store_s_own_disk_leaves_it_writable(tmp_path: Path, disk: Path) -> None:
    create_store(disk / "state")
    store = opened(disk / "state")
    remember(store, b"one")
    backup_bytes = store.env.used_bytes() + 8192 + MARGIN_BYTES
    fill(disk / "foreign", leave_bytes=WRITABLE_FROM_BYTES + RESERVE_BYTES)
    assert free_bytes(disk) > 4 * backup_bytes
    with pytest.raises(NoRoomThere) as caught:
        backed_up(store, disk / "b")
    assert caught.value.space.needed_bytes > WRITABLE_FROM_BYTES + RESERVE_BYTES
    assert not (disk / "b").exists()
    backed_up(store, tmp_path / "b")  # on a disk of its own
    (disk / "foreign").unlink()
    fill(disk / "foreign", leave_bytes=WRITABLE_FROM_BYTES + RESERVE_BYTES + 2 * backup_bytes)
    backed_up(store, disk / "b")
    assert free_bytes(disk) >= WRITABLE_FROM_BYTES + RESERVE_BYTES
    store.close(clean=True)

"""The copy of the projections: what the next boot begins with, when it is sound, and only then."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from daemon.opening import open_journal, open_projections
from daemon.tending import leave_copy
from daemon.wire.results import RecoveryOut
from journal.layout import StateDir, new_path, read_boot_id
from projections import tables, trust
from projections.copy import copied_seq, make_copy, seal_file
from projections.rows import DamagedRow
from tests.model.opened import OpenedService

NOW_MS = 1_790_000_000_000
OTHER_BOOT = b"o" * 16
TURN = {"kind": "raw", "role": "user"}


def made(root: Path, first: str = "t") -> tuple[int, dict[str, str]]:
    """A store whose copy stands some records behind, and what its projections are; left as a power cut leaves it."""
    opened = OpenedService(root, lambda: NOW_MS)
    for number in range(20):
        opened.write("remember", {**TURN, "text": f"{first} {number}", "session": {"agent": "a", "key": f"{number}"}})
    state_dir = opened.store.dir
    assert leave_copy(opened.service, lambda: None) is None
    copied = opened.projections.head.seq
    for number in range(5):
        opened.write("remember", {**TURN, "text": f"later {number}"})
    digests = opened.digests()
    opened.close(False)
    trust.write_open(state_dir.projections_dir, OTHER_BOOT)
    return copied, digests


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "state"


def opened_again(root: Path) -> tuple[RecoveryOut, dict[str, str]]:
    store = open_journal(root, "test", NOW_MS)
    try:
        projections, recovery = open_projections(store)
        digests = projections.digests()
        projections.close(True)
        return recovery, digests
    finally:
        store.close(True)


def unlike_blocks(digests: dict[str, str]) -> dict[str, str]:
    """Without the projection that the record of an opening changes."""
    return {name: digest for name, digest in digests.items() if name != "blocks"}


def copy_of(root: Path) -> Path:
    return StateDir(root).projections_copy_dir


def test_after_another_boot_only_what_is_behind_the_copy_is_folded(root: Path) -> None:
    copied, digests = made(root)
    assert copied_seq(copy_of(root)) == copied > 20
    recovery, found = opened_again(root)
    assert recovery.from_seq == copied + 1
    assert recovery.rebuilt == []
    assert unlike_blocks(found) == unlike_blocks(digests)
    assert copied_seq(copy_of(root)) == copied, "it is there for the next time too"
    assert not new_path(StateDir(root).projections_dir).exists()


def test_what_the_copy_gave_is_what_a_fold_from_the_journal_gives(root: Path) -> None:
    made(root)
    _, found = opened_again(root)
    shutil.rmtree(StateDir(root).projections_dir)
    store = open_journal(root, "test", NOW_MS)
    projections, recovery = open_projections(store)
    assert recovery.from_seq == 1 and recovery.rebuilt == list(tables.PROJECTIONS)
    assert unlike_blocks(projections.digests()) == unlike_blocks(found)
    projections.close(True)
    store.close(True)


def flip(path: Path, place: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        (byte,) = file.read(1)
        file.seek(place)
        file.write(bytes((byte ^ 0x10,)))


def not_used(root: Path, digests: dict[str, str]) -> None:
    recovery, found = opened_again(root)
    assert recovery.from_seq == 1
    assert recovery.rebuilt == list(tables.PROJECTIONS)
    assert unlike_blocks(found) == unlike_blocks(digests)
    assert not copy_of(root).exists()


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.5, 0.9, 0.9999])
def test_a_flipped_bit_of_the_copy_keeps_it_from_being_used(root: Path, share: float) -> None:
    _, digests = made(root)
    data = copy_of(root) / trust.DATA_FILE
    flip(data, int(data.stat().st_size * share))
    not_used(root, digests)


@pytest.mark.parametrize("place", [0, 8, 16, 47, 51])
def test_a_flipped_bit_of_the_seal_keeps_it_from_being_used(root: Path, place: int) -> None:
    _, digests = made(root)
    flip(seal_file(copy_of(root)), place)
    assert copied_seq(copy_of(root)) == 0
    not_used(root, digests)


@pytest.mark.parametrize("left", [0, 1, 4096, 8192, -4096, -1])
def test_a_truncated_copy_is_not_used(root: Path, left: int) -> None:
    _, digests = made(root)
    data = copy_of(root) / trust.DATA_FILE
    os.truncate(data, left if left >= 0 else data.stat().st_size + left)
    not_used(root, digests)


def test_a_copy_without_its_seal_or_its_data_is_not_used(root: Path) -> None:
    _, digests = made(root)
    seal_file(copy_of(root)).unlink()
    not_used(root, digests)


def test_a_copy_that_is_a_link_is_refused_before_anything_is_done(root: Path) -> None:
    _, digests = made(root)
    data = copy_of(root) / trust.DATA_FILE
    data.rename(root / "elsewhere")
    data.symlink_to(root / "elsewhere")
    not_used(root, digests)


def test_the_copy_of_another_store_is_not_used(tmp_path: Path, root: Path) -> None:
    _, digests = made(root)
    made(tmp_path / "other", first="o")
    shutil.rmtree(copy_of(root))
    shutil.copytree(copy_of(tmp_path / "other"), copy_of(root))
    not_used(root, digests)


def test_a_copy_ahead_of_the_journal_is_not_used(root: Path, tmp_path: Path) -> None:
    opened = OpenedService(root, lambda: NOW_MS)
    opened.write("remember", {**TURN, "text": "t"})
    digests = opened.digests()
    opened.close(True)
    shutil.copytree(root, tmp_path / "before")
    opened = OpenedService(root, lambda: NOW_MS)
    for number in range(5):
        opened.write("remember", {**TURN, "text": f"{number}"})
    assert leave_copy(opened.service, lambda: None) is None
    opened.close(True)
    shutil.copytree(copy_of(root), copy_of(tmp_path / "before"))
    trust.write_open(StateDir(tmp_path / "before").projections_dir, OTHER_BOOT)
    not_used(tmp_path / "before", digests)


def test_a_copy_of_another_version_is_not_used(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, digests = made(root)
    monkeypatch.setattr(tables, "VERSIONS", {**tables.VERSIONS, "edges": 9})
    not_used(root, digests)


def test_projections_that_are_gone_are_folded_from_the_journal_and_the_copy_goes(root: Path) -> None:
    _, digests = made(root)
    shutil.rmtree(StateDir(root).projections_dir)
    not_used(root, digests)


def test_projections_that_are_distrusted_are_folded_from_the_journal_and_the_copy_goes(root: Path) -> None:
    _, digests = made(root)
    trust.write_distrust(StateDir(root).projections_dir)
    not_used(root, digests)


def test_projections_that_can_be_trusted_are_gone_on_with(root: Path) -> None:
    copied, _ = made(root)
    trust.write_open(StateDir(root).projections_dir, read_boot_id())
    recovery, _ = opened_again(root)
    assert recovery.from_seq > copied + 1 and recovery.rebuilt == []
    assert copied_seq(copy_of(root)) == copied


class Killed(BaseException):
    """Where a process is gone, nothing is cleaned up."""


@pytest.mark.parametrize("name", ["copy_file", "remove_new", "take_place"])
def test_being_killed_while_the_copy_is_taken_takes_it_again(
    root: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    copied, digests = made(root)

    def killed(*_arguments: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(f"projections.copy.{name}", killed)
        with pytest.raises(Killed):
            opened_again(root)
    recovery, found = opened_again(root)
    assert recovery.from_seq == copied + 1 and recovery.rebuilt == []
    assert unlike_blocks(found) == unlike_blocks(digests)


def test_being_killed_between_the_two_names_folds_from_the_journal(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, digests = made(root)

    def killed(*_arguments: object) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr("projections.swap.take_name", killed)
        with pytest.raises(Killed):
            opened_again(root)
    not_used(root, digests)


def test_a_copy_of_damaged_values_is_not_made(root: Path) -> None:
    opened = OpenedService(root, lambda: NOW_MS)
    with opened.projections.env.write() as txn:
        txn.put(b"????", b"not sealed", db=opened.projections.env.db(tables.TENANTS))
    opened.close(True)
    with pytest.raises(DamagedRow):
        make_copy(StateDir(root).projections_dir, copy_of(root))
    assert not copy_of(root).exists()
    assert new_path(copy_of(root)).exists(), "what was begun is a leftover"
    open_journal(root, "test", NOW_MS).close(True)
    assert not new_path(copy_of(root)).exists()

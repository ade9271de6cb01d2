"""Where nobody has projections open: what was folded beside them takes their place; the copy of the old goes first."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from daemon.opening import journal_for_rebuilding
from daemon.tending import leave_copy
from journal.errors import StoreIO
from journal.layout import StateDir, new_path
from projections import trust
from projections.swap import settle
from tests.model.opened import OpenedService

NOW_MS = 1_790_000_000_000


@pytest.fixture
def state_dir(tmp_path: Path) -> StateDir:
    """A stopped store with a copy of its projections, and what would take their place beside them."""
    opened = OpenedService(tmp_path / "state", lambda: NOW_MS)
    opened.write("remember", {"kind": "raw", "role": "user", "text": "t"})
    assert leave_copy(opened.service, lambda: None) is None
    opened.close(True)
    found = StateDir(tmp_path / "state")
    shutil.copytree(found.projections_dir, new_path(found.projections_dir))
    return found


class Killed(BaseException):
    """Where a process is gone, nothing is cleaned up."""


def test_killed_as_they_take_their_place_it_leaves_no_copy_of_the_old(
    state_dir: StateDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(_directory: Path) -> None:
        raise Killed

    store = journal_for_rebuilding(state_dir.root)
    with monkeypatch.context() as patched:
        patched.setattr("projections.swap.take_place", killed)
        with pytest.raises(Killed):
            settle(state_dir, store.boot_id, store.log)
    store.close(False)
    assert not state_dir.projections_copy_dir.exists()


def test_a_name_that_could_not_be_synced_is_told(state_dir: StateDir, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_directory: Path) -> None:
        raise OSError(errno.EIO, "not now")

    store = journal_for_rebuilding(state_dir.root)
    with monkeypatch.context() as patched:
        patched.setattr("projections.swap.sync_directory", fails)
        with pytest.raises(StoreIO):
            settle(state_dir, store.boot_id, store.log)
    store.close(False)
    assert trust.may_be_trusted(state_dir.projections_dir, b"o" * 16), "it is whole, and left as a clean stop leaves it"
    assert not new_path(state_dir.projections_dir).exists()

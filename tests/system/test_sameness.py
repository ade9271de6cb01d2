"""A command that names a state directory is never answered for another store, also when that has the same id."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.process import DaemonProcess
from tests.system.test_backup import restore
from tests.system.test_rolled_back import remember


@pytest.fixture
def restored(daemon: DaemonProcess, short_dir: Path) -> Iterator[DaemonProcess]:
    """A daemon on a restored copy of `daemon`'s store. Both have gone on since."""
    (short_dir / "copy").mkdir()
    process = DaemonProcess(short_dir / "copy")
    remember(daemon, "text")
    daemon.call("backup", dir=str(short_dir / "backup"))
    assert restore(process, short_dir / "backup", "--without-purges").returncode == 0
    process.start()
    remember(daemon, "later")
    yield process
    process.close()


@pytest.mark.parametrize("words", [("audit",), ("export", "--out"), ("rebuild", "names")])
def test_the_copys_directory_is_not_answered_for_by_the_original(
    daemon: DaemonProcess, restored: DaemonProcess, words: tuple[str, ...], short_dir: Path
) -> None:
    command = [*words, str(short_dir / "out")] if words[0] == "export" else list(words)
    wrong = daemon.command(*command, "--state", str(restored.state))
    assert wrong.returncode == 75, wrong.stdout
    assert "epoch 2" in wrong.stderr and "epoch 1" in wrong.stderr
    assert not (short_dir / "out").exists()
    right = restored.command(*command, "--state", str(restored.state))
    assert right.returncode == 0, right.stderr
    original = daemon.command(*command, "--state", str(daemon.state), *(["--force"] if words[0] == "export" else []))
    assert original.returncode == 0, original.stderr


def test_a_head_from_before_the_fork_is_rewritten_where_the_restore_went_on(
    daemon: DaemonProcess, restored: DaemonProcess
) -> None:
    noted = daemon.call("head")
    forked = restored.call("records", types=["restored"], store_wide=True)["frames"][0]["seq"]
    assert restored.call("audit", against=[noted])["against"] == [f"rewritten at {forked}"]
    assert daemon.call("audit", against=[noted])["against"] == ["same"]
    behind = {**noted, "seq": noted["seq"] + 100}
    assert daemon.call("audit", against=[behind])["against"] == ["journal behind by 100"]

"""Backup and restore of real daemons: under load, killed, out of room, through the command line."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import noctuary
from daemon.asking import Asking
from daemon.refusal import Reason, Refused
from daemon.repurging import PURGES_A_BATCH
from daemon.wire.verbs import VERBS
from journal.errors import NoctuaryFault
from journal.manifest import MANIFEST, read_manifest
from ops.drills import backup_under_load
from ops.drills.full_disk import CannotMount, fill, small_disk
from tests.journal.backing import restored
from tests.journal.lived import Looked, lived, look
from tests.model.opened import OPERATOR, OpenedService
from tests.system.process import ENTRY, ROOT, DaemonEnded, DaemonProcess, everything
from tests.system.test_rolled_back import purge_one, remember


def restore(daemon: DaemonProcess, backup: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command, into the state directory of a daemon that isn't started."""
    return subprocess.run(
        [*ENTRY, "restore", str(backup), "--state", str(daemon.state), *words],
        cwd=ROOT, env=daemon.environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.fixture
def second(short_dir: Path) -> Iterator[DaemonProcess]:
    """Another daemon, with a state directory of its own, not started."""
    (short_dir / "second").mkdir()
    process = DaemonProcess(short_dir / "second")
    yield process
    process.close()


def texts(daemon: DaemonProcess) -> list[Any]:
    return [memory.get("text") for memory in everything(daemon)]


def test_every_write_that_was_answered_before_a_backup_is_in_it() -> None:
    row = backup_under_load.drill(memories=1500, backups=2, writers=3)
    assert (row.lost, row.changed, row.findings) == (0, 0, 0)
    assert row.checked > 3000 and row.during_ms


def test_from_the_command_line_and_back(daemon: DaemonProcess, second: DaemonProcess, short_dir: Path) -> None:
    remember(daemon, "text")
    backup = short_dir / "backup"
    made = daemon.command("backup", str(backup))
    assert made.returncode == 0, made.stderr
    assert json.loads(made.stdout) == json.loads((backup / MANIFEST).read_bytes().splitlines()[0])
    done = restore(second, backup, "--json")
    assert done.returncode == 0
    told = json.loads(done.stdout)
    assert "NO PURGE LIST" in done.stderr and len(told["warnings"]) == 1
    assert (told["epoch"], told["from"]["epoch"], told["seq"]) == (2, 1, told["from"]["seq"] + 1)
    again = restore(second, backup)
    assert again.returncode == 73 and "not empty" in again.stderr
    second.start()
    assert second.call("head")["epoch"] == second.call("hello")["epoch"] == 2
    assert texts(second) == texts(daemon)
    assert second.audit()["findings"] == []
    assert restore(second, backup).returncode == 75  # it is open
    cursor = daemon.call("list", limit=5)["next_cursor"]
    with pytest.raises(noctuary.Conflict):
        second.call("list", limit=5, cursor=cursor)
    second.restart()
    assert second.call("status")["recovery"]["clean"]


def test_an_old_vault_that_can_not_be_removed_is_warned_of(daemon: DaemonProcess, short_dir: Path) -> None:
    """A directory in its place can be neither overwritten nor unlinked."""
    backup = short_dir / "backup"
    assert daemon.command("backup", str(backup)).returncode == 0
    old = next(path for path in backup.iterdir() if path.name.startswith("vault"))
    old.unlink()
    old.mkdir()
    made = daemon.command("backup", str(backup))
    assert made.returncode == 0 and json.loads(made.stdout)["leftover"] == [old.name]
    assert "warning" in made.stderr and old.name in made.stderr
    assert old.name not in read_manifest(backup).names()


def test_words_that_do_not_go_together_are_refused(stopped: DaemonProcess, short_dir: Path) -> None:
    for words in (["--purges", "x", "--without-purges"], ["more"], ["--tenant", "t"], ["--unknown"]):
        assert restore(stopped, short_dir / "backup", *words).returncode == 2, words
    assert restore(stopped, short_dir / "nowhere").returncode == 65
    assert restore(stopped, short_dir / "nowhere", "--purges", str(short_dir / "none")).returncode == 2
    (short_dir / "purges").write_bytes(b"00000000 {}\n00000000 {}\n")
    refused = restore(stopped, short_dir / "nowhere", "--purges", str(short_dir / "purges"))
    assert refused.returncode == 65 and "2 lines: 1, 2" in refused.stderr
    assert not stopped.state.exists()


def test_the_purge_list_beside_a_lost_store_is_taken(
    daemon: DaemonProcess, second: DaemonProcess, short_dir: Path
) -> None:
    remember(daemon, "text")
    assert daemon.command("backup", str(short_dir / "backup")).returncode == 0
    assert daemon.stop() == 0
    purge_one(daemon.state)
    second.state.mkdir(mode=0o700)
    shutil.copy(daemon.state / "purges", second.state / "purges")
    done = restore(second, short_dir / "backup", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["purges"]["applied"] == 1
    second.start()
    listed = second.call("list", sel={"status": ["active", "purged"]}, limit=100)["memories"]
    assert [memory["status"] for memory in listed].count("purged") == 1
    assert len(texts(second)) == 29
    assert second.audit()["findings"] == []
    assert second.stop() == 0
    assert len((second.state / "purges").read_bytes().splitlines()) == 2
    shutil.rmtree(second.state)
    done = restore(second, short_dir / "backup", "--without-purges")
    assert (done.returncode, done.stderr) == (0, "")
    second.start()
    assert len(texts(second)) == 30


def test_a_rotted_purge_list_is_refused_and_one_cut_short_is_warned_of(
    daemon: DaemonProcess, second: DaemonProcess, short_dir: Path
) -> None:
    remember(daemon, "text")
    assert daemon.command("backup", str(short_dir / "backup")).returncode == 0
    assert daemon.stop() == 0
    purge_one(daemon.state)
    whole, given = (daemon.state / "purges").read_bytes(), short_dir / "purges"
    given.write_bytes(whole[:30] + bytes([whole[30] ^ 1]) + whole[31:])
    refused = restore(second, short_dir / "backup", "--purges", str(given))
    assert refused.returncode == 65 and "1 lines: 1" in refused.stderr and not second.state.exists()
    given.write_bytes(whole[:-20])
    done = restore(second, short_dir / "backup", "--json", "--purges", str(given))
    assert done.returncode == 0 and "cut short" in done.stderr and "READS AGAIN" in done.stderr
    warnings = json.loads(done.stdout)["warnings"]
    assert any("1 lines of the purge list are cut short, as a crash leaves them: 1." in each for each in warnings)


@pytest.mark.parametrize("phase", ["journal", "check", "vault"])
def test_a_daemon_killed_while_it_backs_up_comes_up_and_backs_up(
    daemon: DaemonProcess, second: DaemonProcess, short_dir: Path, phase: str
) -> None:
    remember(daemon, "text")
    backup = short_dir / "backup"
    daemon.call("backup", dir=str(backup))
    before = (backup / MANIFEST).read_bytes()

    def kill(note: noctuary.Progress) -> None:
        if note.phase == phase and daemon.is_running():  # notes that were on their way still arrive
            daemon.kill()

    with daemon.client() as client, pytest.raises(noctuary.NoctuaryError):
        client.call("backup", {"dir": str(backup)}, dict, kill)
    if (backup / MANIFEST).read_bytes() == before:  # else it was done sooner than it was killed
        assert restore(second, backup, "--without-purges").returncode == 0
    daemon.start()
    assert len(texts(daemon)) == 30
    daemon.call("backup", dir=str(backup))
    assert {path.name for path in backup.iterdir()} == read_manifest(backup).names() | {MANIFEST}


def test_a_half_restored_store_is_not_opened(stopped: DaemonProcess, short_dir: Path) -> None:
    stopped.start()
    remember(stopped, "text")
    stopped.call("backup", dir=str(short_dir / "backup"))
    assert stopped.stop() == 0
    shutil.rmtree(stopped.state)

    def step(phase: str, _done: int, _of: int) -> None:
        if phase == "check":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        restored(stopped.state, short_dir / "backup", step=step)
    with pytest.raises(DaemonEnded, match="a restore or an import was interrupted"):
        stopped.start()
    assert restore(stopped, short_dir / "backup", "--without-purges").returncode == 0
    stopped.start()
    assert len(texts(stopped)) == 30


def test_a_restored_journal_that_went_back_is_refused(daemon: DaemonProcess, second: DaemonProcess) -> None:
    remember(daemon, "text")
    backup = daemon.state.parent / "backup"
    daemon.call("backup", dir=str(backup))
    assert restore(second, backup, "--without-purges").returncode == 0
    second.start()
    early = second.state.with_name("early")
    assert second.stop() == 0
    shutil.copytree(second.state / "journal", early)
    second.start()
    remember(second, "late")
    head = second.call("head")
    assert second.stop() == 0
    shutil.rmtree(second.state / "journal")
    early.rename(second.state / "journal")
    second.spawn()
    assert second.wait() == 65
    assert f"the head file is at epoch 2 seq {head['seq']}, the journal at epoch 2 seq" in second.logged()
    shutil.rmtree(second.state / "journal")
    assert daemon.stop() == 0
    shutil.copytree(daemon.state / "journal", second.state / "journal")  # of the line before the restore
    second.log.unlink()
    second.spawn()
    assert second.wait() == 65
    assert f"the head file is at epoch 2 seq {head['seq']}, the journal at epoch 1 seq" in second.logged()


# --- disks that fill ---------------------------------------------------------------------------------------


@pytest.fixture
def disk() -> Iterator[Path]:
    try:
        with small_disk(12) as path:
            yield path
    except CannotMount as refusal:
        pytest.skip(f"no small file system can be mounted here: {refusal}")


def filled_service(root: Path) -> OpenedService:
    """About 3 MB of texts."""
    service = OpenedService(root, lambda: 1_800_000_000_000)
    for number in range(6):
        service.write("remember", {"kind": "raw", "origin": "told", "text": f"{number} ".ljust(500_000, "x")})
    return service


def filling(disk: Path, at: tuple[str, int], leave_bytes: int = 0) -> Callable[[str, int, int], None]:
    """A step that fills the disk once, when that phase is that far."""

    def step(phase: str, done: int, _of: int) -> None:
        if (phase, done) == at and not (disk / "foreign").exists():
            fill(disk / "foreign", leave_bytes)

    return step


def test_a_disk_that_fills_during_a_backup_costs_the_backup_only(tmp_path: Path, disk: Path) -> None:
    service = filled_service(tmp_path / "state")
    params = msgspec.convert({"dir": str(disk / "b")}, VERBS["backup"].params)
    try:
        for phase in ("journal", "vault"):
            with pytest.raises(Refused) as caught:
                asking = Asking(tell=filling(disk, (phase, 0)))
                service.service.read("backup", params, OPERATOR, asking=asking)
            assert caught.value.reason is Reason.UNAVAILABLE, caught.value.message
            (disk / "foreign").unlink()
            assert list(disk.iterdir()) == []
            service.write("remember", {"kind": "raw", "origin": "told", "text": "it goes on"})
        fill(disk / "foreign", leave_bytes=1 << 20)
        with pytest.raises(Refused) as caught:
            service.read("backup", {"dir": str(disk / "b")})
        assert caught.value.reason is Reason.READ_ONLY
        assert caught.value.data["free_bytes"] < 2 << 20 < caught.value.data["needed_bytes"]
        (disk / "foreign").unlink()
        service.read("backup", {"dir": str(disk / "b")})
    finally:
        service.close(True)
    restored(tmp_path / "r", disk / "b")


def test_a_disk_that_fills_during_a_restore_leaves_no_store(tmp_path: Path, disk: Path) -> None:
    service = filled_service(tmp_path / "state")
    service.read("backup", {"dir": str(tmp_path / "b")})
    service.close(True)
    for at in (("journal", 1 << 20), ("vault", service.store.log.state.vault_next * 64 + 4096), ("check", 0)):
        with pytest.raises(NoctuaryFault) as caught:
            restored(disk / "r", tmp_path / "b", step=filling(disk, at))
        assert caught.value.exit_code == 74, at
        (disk / "foreign").unlink()
        assert not (disk / "r" / "FORMAT").exists()
    fill(disk / "foreign", leave_bytes=4 << 20)
    with pytest.raises(NoctuaryFault, match="needed") as caught:
        restored(disk / "r", tmp_path / "b")
    assert caught.value.exit_code == 74
    (disk / "foreign").unlink()
    restored(disk / "r", tmp_path / "b")


def test_a_disk_that_fills_while_purges_are_done_again_leaves_no_store(tmp_path: Path, disk: Path) -> None:
    story = lived(tmp_path, more=PURGES_A_BATCH)
    told: list[tuple[str, int]] = []
    restored(tmp_path / "whole", story.backup, story.directives, lambda phase, done, _: told.append((phase, done)))
    walked = next(done for phase, done in reversed(told) if phase == "check")
    fills = [(("check", walked), left << 10) for left in (0, 96, 192, 256)]  # before the fold: it has this much room
    ended: list[str] = []
    for at, left in (*fills, (("purges", 0), 0), (("purges", PURGES_A_BATCH), 0)):
        assert at in told
        with pytest.raises(NoctuaryFault) as caught:
            restored(disk / "r", story.backup, story.directives, filling(disk, at, left))
        assert caught.value.exit_code == 74, at
        ended.append(str(caught.value))
        (disk / "foreign").unlink()
        assert not (disk / "r" / "FORMAT").exists()
    assert any(each.startswith("folded: commit") for each in ended), ended
    restored(disk / "r", story.backup, story.directives)
    shutil.copytree(disk / "r", tmp_path / "r")  # where there is room to fold again
    assert look(tmp_path / "r", story) == Looked()

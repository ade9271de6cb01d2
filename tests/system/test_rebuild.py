"""Rebuilds of a real daemon: under load, killed anywhere, on a full disk, by damage, and without a daemon."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import noctuary
from journal.layout import StateDir, new_path
from projections import tables, trust
from tests.system.damaging import damage_values
from tests.system.process import ENTRY, ROOT, DaemonProcess, everything
from tests.system.raw_client import RawClient, request

TURN = {"kind": "raw", "role": "user"}
WITHIN_S = 60.0
MANY = 3000


def fill(daemon: DaemonProcess, many: int = MANY) -> list[str]:
    """Turns of several sessions; their ids."""
    found: list[str] = []
    with daemon.client() as client:
        for first in range(0, many, 500):
            items = [
                {**TURN, "text": f"turn {number}", "session": {"agent": "a", "key": f"s{number % 7}"}}
                for number in range(first, min(first + 500, many))
            ]
            rows = client.call("remember_many", {"items": items, "atomic": False}, dict)["results"]
            found += [row["id"] for row in rows]
    return found


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)


def new_of(daemon: DaemonProcess) -> Path:
    return new_path(StateDir(daemon.state).projections_dir)


def checked(daemon: DaemonProcess) -> dict[str, str]:
    """The digests, which are those of a fold from the journal."""
    found = daemon.audit()
    assert found["findings"] == []
    return dict(found["digests"])


class Load:
    """Writers that note what was answered, and readers that hold every answer against it."""

    def __init__(self, daemon: DaemonProcess, writers: int = 2, readers: int = 2) -> None:
        self._daemon = daemon
        self._done = threading.Event()
        self.acked: dict[str, str] = {}
        self.wrong: list[str] = []
        self.reads = 0
        self._threads = [threading.Thread(target=self._write, args=(number,)) for number in range(writers)]
        self._threads += [threading.Thread(target=self._read) for _ in range(readers)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        until(lambda: len(self.acked) > 20)
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        for thread in self._threads:
            thread.join(WITHIN_S)

    def _write(self, number: int) -> None:
        count = 0
        with self._daemon.client() as client:
            while not self._done.is_set():
                text = f"writer {number} turn {count}"
                try:
                    row = client.call("remember", {**TURN, "text": text}, dict)
                except Exception as error:
                    self.wrong.append(f"write: {error!r}")
                    return
                self.acked[row["id"]] = text
                count += 1

    def _read(self) -> None:
        with self._daemon.client() as client:
            while not self._done.is_set():
                wanted = dict(list(self.acked.items())[-10:])
                if not wanted:
                    continue
                try:
                    answer = client.call("get", {"ids": list(wanted)}, dict)
                except Exception as error:
                    self.wrong.append(f"read: {error!r}")
                    return
                found = {memory["id"]: memory["text"] for memory in answer["memories"]}
                if found != wanted:
                    self.wrong.append(f"{len(wanted)} wanted, {len(found)} found")
                self.reads += 1


def test_under_load_no_answer_is_wrong_and_no_write_is_lost(daemon: DaemonProcess) -> None:
    kept = fill(daemon)
    with Load(daemon) as load:
        for what in ("all", "memories", "all", "sessions"):
            before = len(load.acked)
            rebuilt = daemon.call("rebuild", what=what)["rebuilt"]
            assert rebuilt == (list(tables.PROJECTIONS) if what == "all" else [what])
            assert len(load.acked) > before, "writes went on"
    assert load.wrong == []
    assert load.reads > 20
    texts = {memory["id"]: memory["text"] for memory in everything(daemon)}
    assert set(kept) <= set(texts)
    assert {tsid: texts.get(tsid) for tsid in load.acked} == load.acked
    checked(daemon)
    assert daemon.call("status")["health"] == "ok"
    daemon.kill()
    daemon.start()
    assert daemon.call("status")["recovery"]["rebuilt"] == []
    checked(daemon)


def in_the_background(daemon: DaemonProcess, **params: Any) -> tuple[threading.Thread, list[Any]]:
    """A rebuild that is asked for, and what came of it."""
    outcome: list[Any] = []

    def ask() -> None:
        try:
            outcome.append(daemon.call("rebuild", **params))
        except noctuary.NoctuaryError as error:
            outcome.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    return thread, outcome


def children_of(pid: int) -> list[int]:
    """The processes that fold for this daemon."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if parent == pid and b"projections.refold" in words:
            found.append(int(entry.name))
    return found


def is_running(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_killing_the_child_refuses_the_rebuild_and_changes_nothing(daemon: DaemonProcess) -> None:
    fill(daemon)
    before = checked(daemon)
    thread, outcome = in_the_background(daemon)
    until(lambda: bool(children_of(daemon.pid)))
    for child in children_of(daemon.pid):
        os.kill(child, signal.SIGKILL)
    thread.join(WITHIN_S)
    (refused,) = outcome
    assert isinstance(refused, noctuary.Unavailable), refused
    assert not new_of(daemon).exists()
    assert checked(daemon) == before


@pytest.mark.parametrize("what", ["all", "blocks"])
@pytest.mark.parametrize("moment", ["begun", "folding", "folded", "swapped"])
def test_killed_at_any_moment_it_comes_up_with_the_same_state(daemon: DaemonProcess, moment: str, what: str) -> None:
    kept = fill(daemon)
    directory = StateDir(daemon.state).projections_dir
    inode = (directory / trust.DATA_FILE).stat().st_ino
    thread, _ = in_the_background(daemon, what=what)

    def reached() -> bool:
        data = new_of(daemon) / trust.DATA_FILE
        if moment == "begun":
            return bool(children_of(daemon.pid))
        if moment == "folding":
            return data.exists()
        if moment == "folded":
            return (not children_of(daemon.pid) and (new_of(daemon) / "OPEN").exists()) or not thread.is_alive()
        try:
            return (directory / trust.DATA_FILE).stat().st_ino != inode
        except OSError:
            return False

    until(reached)
    children = children_of(daemon.pid)
    daemon.kill()
    thread.join(WITHIN_S)
    until(lambda: not any(is_running(child) for child in children))  # it ends with its parent
    daemon.start()
    assert not new_of(daemon).exists()
    assert {memory["id"] for memory in everything(daemon)} == set(kept)
    checked(daemon)


def test_it_is_cancelled_over_the_socket_and_tells_how_far_it_is(daemon: DaemonProcess) -> None:
    fill(daemon)
    before = checked(daemon)
    with RawClient(daemon.socket) as raw:
        raw.send(request("rebuild", 1, progress=True))
        until(lambda: bool(children_of(daemon.pid)))
        raw.send(request("cancel", 2, request=1))
        answers: dict[int, Any] = {}
        phases: set[str] = set()
        while len(answers) < 2:
            line = raw.answer()
            if "id" in line:
                answers[line["id"]] = line
            else:
                phases.add(line["params"]["phase"])
    assert answers[2]["result"] == {"cancelled": True}
    assert answers[1]["error"]["data"]["cancelled"] is True
    assert phases == {"fold"}
    assert not new_of(daemon).exists()
    assert checked(daemon) == before


def test_a_stop_ends_a_rebuild(daemon: DaemonProcess) -> None:
    fill(daemon)
    thread, outcome = in_the_background(daemon)
    until(lambda: bool(children_of(daemon.pid)))
    children = children_of(daemon.pid)
    assert daemon.stop() == 0
    thread.join(WITHIN_S)
    assert outcome
    until(lambda: not any(is_running(child) for child in children))
    daemon.start()
    checked(daemon)


def test_two_at_once_are_a_conflict(daemon: DaemonProcess) -> None:
    fill(daemon)
    thread, outcome = in_the_background(daemon)
    until(lambda: bool(children_of(daemon.pid)))
    with pytest.raises(noctuary.NoctuaryError) as refused:
        daemon.call("rebuild")
    thread.join(WITHIN_S)
    assert refused.value.reason == "conflict"
    assert outcome[0]["rebuilt"] == list(tables.PROJECTIONS)


@pytest.mark.parametrize("database", [tables.MEMORIES, tables.EDGES_OUT, tables.PARTITIONS])
def test_damage_while_it_serves_heals_by_itself(daemon: DaemonProcess, database: str) -> None:
    first = daemon.call("remember", **TURN, text="from this")["id"]
    note = daemon.call("remember", kind="note", origin="told", text="a note", derived_from=[first])["id"]
    before = checked(daemon)
    assert damage_values(daemon.state / "projections", database) > 0
    asked = {
        tables.MEMORIES: ("get", {"ids": [first]}),
        tables.EDGES_OUT: ("trace", {"id": note, "direction": "sources"}),
        tables.PARTITIONS: ("list", {}),
    }
    verb, params = asked[database]
    if database == tables.PARTITIONS:
        assert daemon.call("status")["partitions"] == {}, "which looks at them"
    until(lambda: _answers(daemon, verb, params) and daemon.call("status")["health"] == "ok")
    assert checked(daemon) == before
    assert '"healing"' in daemon.logged() and '"healed"' in daemon.logged()
    daemon.kill()
    daemon.start()
    assert daemon.call("status")["recovery"]["rebuilt"] == []


def _answers(daemon: DaemonProcess, verb: str, params: dict[str, Any]) -> bool:
    try:
        daemon.call(verb, **params)
        return True
    except noctuary.NoctuaryError as error:
        assert error.reason == "damaged", error
        return False


def test_the_copy_is_what_another_boot_begins_with(stopped: DaemonProcess) -> None:
    stopped.start("--config", str(_config(stopped, "copy_every_records = 1000")))
    kept = fill(stopped)
    until(lambda: '"copied"' in stopped.logged())
    before = checked(stopped)
    stopped.kill()
    trust.write_open(stopped.state / "projections", b"o" * 16)
    stopped.start()
    recovery = stopped.call("status")["recovery"]
    assert recovery["from_seq"] > 1000 and recovery["rebuilt"] == []
    assert {memory["id"] for memory in everything(stopped)} == set(kept)
    after = checked(stopped)
    assert {name for name in after if after[name] != before[name]} <= {"blocks"}


def _config(daemon: DaemonProcess, line: str) -> Path:
    path = daemon.state.parent / "noctuary.toml"
    path.write_text(line + "\n")
    return path


# --- without a daemon ----------------------------------------------------------------------------


def offline(daemon: DaemonProcess, *words: str) -> subprocess.CompletedProcess[str]:
    return daemon.command("rebuild", "--state", str(daemon.state), *words)


@pytest.mark.parametrize("what", [(), ("edges",), ("--what", "memories")])
def test_without_a_daemon_it_folds_itself(daemon: DaemonProcess, what: tuple[str, ...]) -> None:
    fill(daemon, 500)
    before = checked(daemon)
    head = daemon.call("head")
    assert daemon.stop() == 0
    assert damage_values(daemon.state / "projections", tables.EDGES_OUT if what == ("edges",) else tables.ROWS) >= 0
    done = offline(daemon, *what)
    assert done.returncode == 0, done.stderr
    assert f'"{what[-1]}"' in done.stdout if what else all(f'"{name}"' in done.stdout for name in tables.PROJECTIONS)
    assert not (daemon.state / "projections" / "OPEN").exists() and not new_of(daemon).exists()
    daemon.start()
    assert daemon.call("status")["recovery"]["rebuilt"] == []
    assert daemon.call("head")["seq"] == head["seq"] + 1, "nothing was written to the journal but the next opening"
    after = checked(daemon)
    assert {name for name in after if after[name] != before[name]} <= {"blocks"}


def test_where_the_lock_is_held_the_daemon_is_asked(daemon: DaemonProcess, tmp_path: Path) -> None:
    fill(daemon, 10)
    done = offline(daemon, "usage")
    assert done.returncode == 0 and '"usage"' in done.stdout
    assert '"rebuilt"' in daemon.logged()
    other = [*ENTRY, "--json", "--socket", str(tmp_path / "none"), "rebuild", "--state", str(daemon.state)]
    lost = subprocess.run(other, cwd=ROOT, env=daemon.environment, capture_output=True, timeout=60, check=False)
    assert lost.returncode == 3


def test_exit_codes_of_the_offline_rebuild(daemon: DaemonProcess, short_dir: Path) -> None:
    fill(daemon, 10)
    assert offline(daemon, "nonsense").returncode == 2
    assert offline(daemon, "all", "more").returncode == 2
    assert daemon.stop() == 0
    absent = daemon.command("rebuild", "--state", str(short_dir / "absent"))
    assert absent.returncode not in (0, 70)
    projections = StateDir(daemon.state).projections_dir
    kept = (projections / trust.DATA_FILE).read_bytes()
    data = daemon.state / "journal" / "data.mdb"
    content = bytearray(data.read_bytes())
    content[len(content) // 2 :: 97] = bytes(0x55 for _ in content[len(content) // 2 :: 97])
    data.write_bytes(content)
    damaged = offline(daemon)
    assert damaged.returncode == 65, damaged
    assert (projections / trust.DATA_FILE).read_bytes() == kept


def test_a_journal_that_went_back_is_refused_with_its_witness_left(daemon: DaemonProcess, short_dir: Path) -> None:
    fill(daemon, 10)
    daemon.restart()
    assert daemon.stop() == 0
    shutil.copytree(daemon.state / "journal", short_dir / "journal")
    daemon.start()
    fill(daemon, 10)
    daemon.kill()
    shutil.rmtree(daemon.state / "journal")
    shutil.copytree(short_dir / "journal", daemon.state / "journal")
    (daemon.state / "head").unlink(missing_ok=True)
    kept = (daemon.state / "projections" / trust.DATA_FILE).read_bytes()
    assert offline(daemon).returncode == 65
    assert (daemon.state / "projections" / trust.DATA_FILE).read_bytes() == kept


# --- a full disk ---------------------------------------------------------------------------------


@pytest.fixture
def small_disk(short_dir: Path) -> Iterator[Path]:
    """A file system of 160 MiB in memory."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    place = short_dir / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=160m", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("a file system can't be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_without_room_it_is_refused_before_and_ended_in_between(small_disk: Path) -> None:
    daemon = DaemonProcess(small_disk)
    try:
        daemon.start()
        fill(daemon, 6000)
        before = checked(daemon)
        thread, outcome = in_the_background(daemon)
        until(lambda: new_of(daemon).exists())
        take = os.statvfs(small_disk)
        _ballast(small_disk, take.f_bavail * take.f_frsize - (10 << 20))
        thread.join(WITHIN_S)
        (refused,) = outcome
        assert isinstance(refused, noctuary.NoctuaryError) and refused.reason == "read_only", refused
        assert not new_of(daemon).exists()
        with pytest.raises(noctuary.NoctuaryError) as again:
            daemon.call("rebuild")
        assert again.value.reason == "read_only"
        assert again.value.data["needed_bytes"] > again.value.data["free_bytes"]
        (small_disk / "ballast").unlink()
        assert checked(daemon) == before
        assert daemon.call("rebuild")["rebuilt"] == list(tables.PROJECTIONS)
        assert checked(daemon) == before
    finally:
        daemon.close()


def _ballast(place: Path, size_bytes: int) -> None:
    with (place / "ballast").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, size_bytes))

"""A daemon that was killed, robbed of its projections, doubled, or given a damaged journal."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import noctuary
from ops.drills.kill9 import Drill, request_line
from tests.system.process import DaemonEnded, DaemonProcess, everything


def write_some(daemon: DaemonProcess) -> list[str]:
    """A session of turns, a derived note, one of them forgotten: something in every projection."""
    with daemon.client() as client:
        session = {"agent": "tester", "key": "one"}
        ids = []
        for number in range(60):
            params = {"kind": "raw", "role": "user", "text": f"turn {number} " + "x" * 400, "session": session}
            ids.append(client.call("remember", {**params, "idempotency_key": f"k{number}"}, dict)["id"])
        note = {"kind": "note", "subtype": "observation", "origin": "inferred", "text": "sum", "derived_from": ids[:3]}
        ids.append(client.call("remember", {**note, "entities": [{"name": "Ada", "type": "person"}]}, dict)["id"])
        client.call("forget", {"id": ids[0]}, dict)
        return ids


@pytest.mark.parametrize("clients", [1, 4])
def test_kill_under_load_loses_and_doubles_nothing(stopped: DaemonProcess, clients: int) -> None:
    drill = Drill(stopped, clients, acks=700)
    for number in range(2):
        counts = drill.round(number)
        assert counts.acked >= 700 * (number + 1)
        assert counts.unanswered > 0, "it was killed while nothing was under way"
        assert counts.clean, counts


def test_half_a_line_leaves_nothing(daemon: DaemonProcess) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
        stream.connect(str(daemon.socket))
        stream.sendall(request_line("whole") + request_line("torn")[:-10])
        with stream.makefile("rb") as answers:
            assert b'"result"' in answers.readline()
            daemon.kill()
            assert answers.readline() == b""
    daemon.start()
    assert [memory["text"] for memory in everything(daemon)] == ["whole"]


@pytest.mark.parametrize("end", [DaemonProcess.kill, DaemonProcess.stop])
def test_projections_are_folded_again(daemon: DaemonProcess, end: Callable[[DaemonProcess], object]) -> None:
    write_some(daemon)
    before, memories = daemon.audit(), everything(daemon)
    assert before["findings"] == [] and len(before["digests"]) >= 5 and len(memories) == 60
    end(daemon)
    shutil.rmtree(daemon.state / "projections")
    daemon.start()
    after = daemon.audit()
    assert after["digests"] == before["digests"]
    assert after["findings"] == []
    assert everything(daemon) == memories


def test_what_was_live_survives_kill_and_clean_stop_alike(daemon: DaemonProcess) -> None:
    write_some(daemon)
    before = daemon.audit()["digests"]
    daemon.kill()
    daemon.start()
    assert daemon.audit()["digests"] == before
    assert daemon.call("status")["recovery"]["clean"] is False
    daemon.restart()
    assert daemon.audit()["digests"] == before
    assert daemon.call("status")["recovery"]["clean"] is True


def test_heads_noted_before_a_crash_still_hold(daemon: DaemonProcess) -> None:
    write_some(daemon)
    noted = daemon.call("head")
    daemon.kill()
    daemon.start()
    assert daemon.call("audit", against=[noted])["against"] == ["same"]
    ahead = {**noted, "seq": noted["seq"] + 1000}
    assert daemon.call("audit", against=[ahead])["against"][0].startswith("journal behind by")


def test_a_second_daemon_is_refused(daemon: DaemonProcess) -> None:
    second = DaemonProcess(daemon.socket.parent, "second")
    second.spawn()
    assert second.wait() == 75
    assert not second.socket.exists()
    assert second.logged()
    assert daemon.call("hello")["state"] == "ready"
    assert daemon.call("remember", kind="raw", text="still served", role="user")["duplicate"] is False


def test_the_lock_is_not_the_socket(daemon: DaemonProcess) -> None:
    """A socket file left by a killed daemon hinders nobody."""
    daemon.kill()
    assert daemon.socket.exists()
    daemon.start()
    assert daemon.call("hello")["state"] == "ready"
    assert daemon.stop() == 0
    assert not daemon.socket.exists()


def truncate(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def flip(path: Path) -> None:
    """One bit of a record among the newest, wherever a copy of its page stands."""
    content = bytearray(path.read_bytes())
    assert b"newest-stamp" in content
    while (place := content.find(b"newest-stamp")) >= 0:
        content[place] ^= 1
    path.write_bytes(bytes(content))


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("harm", [truncate, flip, empty])
def test_a_damaged_journal_is_refused_and_left_alone(daemon: DaemonProcess, harm: Callable[[Path], None]) -> None:
    write_some(daemon)
    daemon.call("remember", kind="raw", text="a", role="user", producer={"agent": "newest-stamp"})
    assert daemon.stop() == 0
    harm(daemon.state / "journal" / "data.mdb")
    before = daemon.files()
    daemon.spawn()
    assert daemon.wait() == 65
    # LMDB's table of readers and the lock hold nothing that is kept.
    passing = {daemon.state / "journal" / "lock.mdb", daemon.state / "lock"}
    after = daemon.files()
    assert before.keys() - passing == after.keys() - passing
    assert [path for path in before if path not in passing and before[path] != after[path]] == []
    assert "journal" in daemon.logged()


def test_a_missing_format_is_no_empty_start(daemon: DaemonProcess) -> None:
    write_some(daemon)
    assert daemon.stop() == 0
    (daemon.state / "FORMAT").unlink()
    before = daemon.files()
    with pytest.raises(DaemonEnded):
        daemon.start()
    assert daemon.files() == before


def test_a_journal_that_went_back_is_refused(daemon: DaemonProcess) -> None:
    daemon.call("remember", kind="raw", text="early", role="user")
    assert daemon.stop() == 0
    journal = daemon.state / "journal" / "data.mdb"
    early = journal.read_bytes()
    daemon.start()
    write_some(daemon)
    assert daemon.stop() == 0
    journal.write_bytes(early)
    daemon.spawn()
    assert daemon.wait() == 65
    assert journal.read_bytes() == early


def test_old_damage_is_found_by_a_start_that_checks_all(daemon: DaemonProcess) -> None:
    """The newest 1024 records are checked at every start; the rest only when they are asked for, or folded."""
    daemon.call("remember", kind="raw", text="a", role="user", producer={"agent": "newest-stamp"})
    with daemon.client() as client:
        for _ in range(3):
            items = [{"kind": "raw", "text": f"t{number}", "role": "user"} for number in range(500)]
            client.call("remember_many", {"items": items}, dict)
    assert daemon.stop() == 0
    daemon.start("--check")
    assert daemon.stop() == 0
    flip(daemon.state / "journal" / "data.mdb")
    before = (daemon.state / "journal" / "data.mdb").read_bytes()
    daemon.spawn("--check")
    assert daemon.wait() == 65
    assert (daemon.state / "journal" / "data.mdb").read_bytes() == before
    daemon.start()
    assert [finding["code"] for finding in daemon.call("audit")["findings"]] == ["record_damaged"]


def state_of(daemon: DaemonProcess) -> str:
    """What `hello` says, as soon as somebody listens: the name of the socket is there a moment before."""
    while True:
        with suppress(noctuary.Unreachable):
            return str(daemon.call("hello")["state"])
        assert not daemon.is_gone()


@pytest.mark.parametrize("moment", ["opening", "listening", "ready"])
@pytest.mark.parametrize("again", [False, True], ids=["once", "again and again"])
def test_being_told_to_stop_ends_with_0(stopped: DaemonProcess, moment: str, again: bool) -> None:
    for _ in range(3):
        (stopped.state / "lock").unlink(missing_ok=True)
        stopped.spawn()
        while moment == "opening" and not (stopped.state / "lock").exists():
            assert not stopped.is_gone()
        while moment != "opening" and not stopped.socket.exists():
            assert not stopped.is_gone()
        if moment == "ready":
            assert state_of(stopped) in ("folding", "ready")
        os.kill(stopped.pid, signal.SIGTERM)
        while again and not stopped.is_gone():
            os.kill(stopped.pid, signal.SIGTERM)
        assert stopped.wait() == 0, stopped.logged()[-500:]
    stopped.start()
    assert stopped.audit()["findings"] == []


def test_a_daemon_that_can_not_listen_writes_nothing(daemon: DaemonProcess) -> None:
    assert daemon.stop() == 0
    before = daemon.files()
    daemon.socket.write_bytes(b"")
    daemon.spawn()
    assert daemon.wait() == 78
    assert daemon.files() == before

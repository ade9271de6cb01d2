"""A real daemon and a real NOTIFY_SOCKET: what is said when, and that READY=1 is true."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ops.drills.faults import tracing
from tests.system.process import DaemonProcess
from tests.system.raw_client import RawClient, request

WITHIN_S = 20.0
TURN = {"kind": "raw", "text": "the kettle is on", "role": "user"}


class Heard:
    """A NOTIFY_SOCKET, read message by message."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self.variables = {"NOTIFY_SOCKET": str(path)}
        self.all: list[str] = []

    def until(self, beginning: str) -> str:
        """The next message that begins so. Raises TimeoutError."""
        deadline = time.monotonic() + WITHIN_S
        while True:
            self._socket.settimeout(max(0.01, deadline - time.monotonic()))
            message = self._socket.recv(65_536).decode()
            self.all.append(message)
            if message.startswith(beginning):
                return message

    def without(self, message: str, for_s: float) -> None:
        """Return when that has not come for so long. Raises TimeoutError."""
        began = last = time.monotonic()
        self._socket.settimeout(0.05)
        while time.monotonic() - last < for_s:
            if time.monotonic() - began > WITHIN_S:
                raise TimeoutError(f"{message} keeps coming")
            try:
                if self._socket.recv(65_536).decode() == message:
                    last = time.monotonic()
            except TimeoutError:
                continue

    def rest(self) -> list[str]:
        """What has come already."""
        self._socket.setblocking(False)
        found: list[str] = []
        try:
            while True:
                found.append(self._socket.recv(65_536).decode())
        except BlockingIOError:
            self.all += found
            return found

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def heard(short_dir: Path) -> Iterator[Heard]:
    listening = Heard(short_dir / "notify")
    yield listening
    listening.close()


@pytest.fixture
def told(stopped: DaemonProcess, heard: Heard) -> DaemonProcess:
    """A daemon that is not started yet and knows whom to notify."""
    stopped.variables = dict(heard.variables)
    return stopped


def test_ready_is_said_when_everything_is_answered(told: DaemonProcess, heard: Heard) -> None:
    told.spawn()
    heard.until("READY=1")
    assert told.call("hello")["state"] == "ready"
    assert told.call("remember", **TURN)["id"]
    before = [line for line in heard.all if line != "READY=1"]
    assert before[0] == "STATUS=Checking the journal before anything is written."
    assert "EXTEND_TIMEOUT_USEC=30000000" in before
    assert heard.until("STATUS=") == "STATUS=Serving. The head is record 1."


def test_the_end_is_announced_before_it_comes(told: DaemonProcess, heard: Heard) -> None:
    told.start()
    heard.until("STATUS=Serving")
    assert told.stop() == 0
    messages = heard.rest()
    assert messages.index("STOPPING=1") < messages.index("STATUS=Stopping: the store is being closed.")
    assert messages.count("STOPPING=1") == 1 and "READY=1" not in messages
    assert any(each.startswith("EXTEND_TIMEOUT_USEC=") for each in messages[messages.index("STOPPING=1") :])


def test_the_fold_is_told_while_it_gets_on(told: DaemonProcess, heard: Heard) -> None:
    told.start()
    items = [{**TURN, "text": f"turn {number}"} for number in range(1000)]
    for _ in range(9):
        told.call("remember_many", items=items)
    assert told.stop() == 0
    for path in (told.state / "projections").iterdir():
        path.unlink()
    (told.state / "projections").rmdir()
    heard.rest()
    told.spawn()
    heard.until("READY=1")
    heard.until("STATUS=Serving. The head is record 9,0")
    assert told.call("head")["seq"] > 9000


def test_a_watchdog_hears_from_an_idle_and_from_a_busy_daemon(told: DaemonProcess, heard: Heard) -> None:
    told.variables["WATCHDOG_USEC"] = "400000"
    told.start()
    for _ in range(4):
        heard.until("WATCHDOG=1")
    heard.rest()
    with told.client() as client:
        began = time.monotonic()
        while time.monotonic() - began < 1.0:
            client.call("remember", TURN, dict)
    assert heard.rest().count("WATCHDOG=1") >= 3


WHY_NOT = tracing.why_not()
HANGS_US = 6_000_000


@pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
def test_a_commit_that_hangs_is_not_told_alive(short_dir: Path, heard: Heard) -> None:
    """The journal's fdatasync takes seconds, once. The loop answers meanwhile; the watchdog hears nothing."""
    hanging = tracing.TracedDaemon(short_dir)
    hanging.variables = {**heard.variables, "WATCHDOG_USEC": "400000"}
    try:
        hanging.start()
        heard.until("WATCHDOG=1")
        data = str(hanging.state / "journal" / "data.mdb")
        inject = f"inject=fdatasync:delay_enter={HANGS_US}:when=1"
        hanging.attach(hanging.other_threads(), ["-P", data, "-e", "trace=fdatasync", "-e", inject])
        with RawClient(hanging.socket) as client:
            client.send(request("remember", 1, **TURN))
            heard.without("WATCHDOG=1", 1.5)
            assert hanging.call("hello")["state"] == "ready"
            assert "result" in client.answer()
        heard.until("WATCHDOG=1")
    finally:
        hanging.close()


def test_no_watchdog_without_being_asked(told: DaemonProcess, heard: Heard) -> None:
    told.start()
    assert told.stop() == 0
    assert "WATCHDOG=1" not in heard.rest()


def test_nobody_at_the_socket_keeps_nothing_from_working(told: DaemonProcess, heard: Heard) -> None:
    heard.close()
    told.start()
    assert told.call("remember", **TURN)["id"]
    assert told.stop() == 0
    assert told.logged().count("cannot_notify") == 1


def test_a_full_disk_is_told(told: DaemonProcess, heard: Heard, short_dir: Path) -> None:
    """The threshold is above what any disk has."""
    told.variables["NOCTUARY_READ_ONLY_BELOW_BYTES"] = str(1 << 40)
    told.spawn()
    assert "Read-only: the disk is full, " in heard.until("STATUS=Read-only")
    assert told.call("hello")["state"] == "read_only"

"""A socket that was passed: used, left where it is; and what can't be used is refused with exit 78."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from daemon.exits import Exit
from tests.system.process import ENTRY, DaemonProcess
from tests.system.raw_client import eventually

SHIM = (
    "import fcntl, os, sys; passed = [int(n) for n in sys.argv[1].split(',') if n]; "
    "moved = [fcntl.fcntl(n, fcntl.F_DUPFD, 20) for n in passed]; "
    "[os.dup2(n, 3 + place) for place, n in enumerate(moved)]; "
    "os.environ['LISTEN_PID'] = str(os.getpid()); "
    "os.execv(sys.argv[2], sys.argv[2:])"
)
"""Puts descriptors at 3 and after, and becomes the daemon under the pid that LISTEN_PID names."""


@pytest.fixture
def resources() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def listening(resources: ExitStack, path: Path) -> socket.socket:
    made = resources.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    made.bind(str(path))
    made.listen(5)
    return made


def spawn(daemon: DaemonProcess, *passed: int, **variables: str) -> None:
    daemon.variables = {"LISTEN_FDS": str(len(passed)), **variables}
    through = (sys.executable, "-c", SHIM, ",".join(map(str, passed)))
    daemon.spawn(through=through, passed=passed)


def test_a_passed_socket_is_used_and_left_at_the_end(stopped: DaemonProcess, resources: ExitStack) -> None:
    passed = listening(resources, stopped.socket)
    node = os.stat(stopped.socket).st_ino
    spawn(stopped, passed.fileno(), LISTEN_FDNAMES="whatever:it:says")
    stopped.await_ready()
    assert stopped.call("status")["socket"] == str(stopped.socket)
    assert stopped.stop() == Exit.OK
    assert os.stat(stopped.socket).st_ino == node
    spawn(stopped, passed.fileno())
    stopped.await_ready()
    assert stopped.stop() == Exit.OK, "the same socket serves the next daemon"


def test_who_connected_before_it_ran_is_answered(stopped: DaemonProcess, resources: ExitStack) -> None:
    passed = listening(resources, stopped.socket)
    early = resources.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    early.settimeout(30)
    early.connect(str(stopped.socket))
    early.sendall(b'{"jsonrpc":"2.0","id":1,"method":"hello","params":{}}\n')
    spawn(stopped, passed.fileno())
    assert b'"state"' in early.recv(65_536)


def test_what_is_meant_for_another_process_is_not_taken(stopped: DaemonProcess, resources: ExitStack) -> None:
    passed = listening(resources, stopped.state.parent / "other.sock")
    stopped.variables = {"LISTEN_FDS": "1", "LISTEN_PID": "1"}
    stopped.spawn(passed=(passed.fileno(),))
    stopped.await_ready()
    assert stopped.call("status")["socket"] == str(stopped.socket)


def refused(daemon: DaemonProcess) -> str:
    assert daemon.wait() == Exit.CONFIGURATION
    assert not daemon.state.exists(), "nothing was written for a socket that can't be used"
    return daemon.logged().splitlines()[-1]


def test_two_sockets_are_one_too_many(stopped: DaemonProcess, resources: ExitStack) -> None:
    one = listening(resources, stopped.socket)
    two = listening(resources, stopped.state.parent / "two.sock")
    spawn(stopped, one.fileno(), two.fileno())
    assert "exactly one socket" in refused(stopped)


@pytest.mark.parametrize("what", ["not_listening", "datagram", "internet", "connected", "file", "nothing"])
def test_what_is_no_listening_unix_stream_socket_is_refused(
    stopped: DaemonProcess, resources: ExitStack, what: str
) -> None:
    spawn_with(stopped, resources, what)
    assert "listening Unix stream socket" in refused(stopped)


def spawn_with(daemon: DaemonProcess, resources: ExitStack, what: str) -> None:
    if what == "nothing":
        daemon.variables = {"LISTEN_FDS": "1"}
        daemon.spawn(through=(sys.executable, "-c", SHIM, ""))
        return
    if what == "file":
        file = os.open(os.devnull, os.O_RDONLY)
        resources.callback(os.close, file)
        spawn(daemon, file)
        return
    if what == "connected":
        one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        resources.callback(two.close)
        spawn(daemon, resources.enter_context(one).fileno())
        return
    family = socket.AF_INET if what == "internet" else socket.AF_UNIX
    kind = socket.SOCK_DGRAM if what == "datagram" else socket.SOCK_STREAM
    made = resources.enter_context(socket.socket(family, kind))
    made.bind(("127.0.0.1", 0) if what == "internet" else str(daemon.socket))
    if what == "internet":
        made.listen(1)
    spawn(daemon, made.fileno())


@pytest.mark.parametrize("number", ["one", "-1", "1.0"])
def test_a_number_that_is_none_is_refused(stopped: DaemonProcess, number: str) -> None:
    spawn(stopped, LISTEN_FDS=number)
    assert "LISTEN_FDS" in refused(stopped) or "exactly one" in refused(stopped)


ACTIVATE = shutil.which("systemd-socket-activate")


@pytest.mark.skipif(ACTIVATE is None, reason="systemd-socket-activate is not installed")
def test_systemd_starts_it_with_the_first_connection(stopped: DaemonProcess) -> None:
    assert ACTIVATE is not None
    with stopped.log.open("ab") as log:
        activator = subprocess.Popen(
            [ACTIVATE, "-l", str(stopped.socket), *(f"-E{name}" for name in ("PYTHONPATH", "XDG_CONFIG_HOME")),
             *ENTRY, "daemon", "--state", str(stopped.state), "--socket", "/nowhere/to/be/used"],
            cwd=Path(__file__).resolve().parents[2], env=stopped.environment, stdin=subprocess.DEVNULL,
            stdout=log, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    try:
        eventually(stopped.socket.exists)
        eventually(lambda: stopped.call("hello")["state"] == "ready")
        assert stopped.call("remember", kind="raw", text="the kettle is on", role="user")["id"]
        assert stopped.call("status")["socket"] == str(stopped.socket)
        activator.send_signal(signal.SIGTERM)
        assert activator.wait(30) == Exit.OK
        assert stopped.socket.exists()
    finally:
        activator.kill()
        activator.wait(30)

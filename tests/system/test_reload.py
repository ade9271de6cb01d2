"""SIGHUP: what can change changes at once, what can't is named, and a broken file changes nothing and is told."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import noctuary
from tests.system.process import DaemonProcess
from tests.system.raw_client import RawClient, eventually

TURN = {"kind": "raw", "text": "the kettle is on", "role": "user"}
OPERATOR = f'[[peer]]\nuid = {os.getuid()}\ntenant = "default"\nrole = "operator"\n'
AGENT = f'[[peer]]\nuid = {os.getuid()}\ntenant = "default"\nrole = "agent"\n'


class Configured:
    """A daemon with a configuration file that is written anew."""

    def __init__(self, daemon: DaemonProcess, directory: Path) -> None:
        self.daemon = daemon
        self.file = directory / "noctuary.toml"
        self._signals = 0
        self._notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._notified.bind(str(directory / "notify"))
        self._notified.settimeout(20)
        daemon.variables["NOTIFY_SOCKET"] = str(directory / "notify")

    def start(self, text: str = "") -> None:
        self.file.write_text(text)
        self.daemon.start("--config", str(self.file))
        self.until("STATUS=Serving")

    def until(self, beginning: str) -> str:
        """The next thing the service manager hears that begins so."""
        while True:
            message = self._notified.recv(65_536).decode()
            if message.startswith(beginning):
                return message

    def reload(self, text: str) -> None:
        """Write the file, send SIGHUP, and return when it was taken."""
        self.file.write_text(text)
        os.kill(self.daemon.pid, signal.SIGHUP)
        assert self.until("RELOADING=1").splitlines()[1].startswith("MONOTONIC_USEC=")
        self.until("READY=1")

    def logged(self, event: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.daemon.logged().splitlines()]
        return [line for line in lines if line["event"] == event]

    def close(self) -> None:
        self._notified.close()


@pytest.fixture
def configured(stopped: DaemonProcess, short_dir: Path) -> Iterator[Configured]:
    made = Configured(stopped, short_dir)
    yield made
    made.close()


def test_peers_count_at_once_for_open_connections_too(configured: Configured) -> None:
    configured.start(OPERATOR)
    with configured.daemon.client() as client:
        assert client.call("hello", {}, dict)["role"] == "operator"
        configured.reload(AGENT)
        assert client.call("hello", {}, dict)["role"] == "agent"
        with pytest.raises(noctuary.Denied):
            client.call("metrics", {}, dict)
        configured.reload(OPERATOR.replace(str(os.getuid()), "4242"))
        with pytest.raises(noctuary.Denied):
            client.call("hello", {}, dict)


def test_a_bound_of_a_tenant_counts_at_once(configured: Configured) -> None:
    configured.start()
    with configured.daemon.client() as client:
        client.call("remember", TURN, dict)
        configured.reload('[[tenant]]\nname = "default"\nmax_bytes = 600\n')
        with pytest.raises(noctuary.ReadOnly) as caught:
            client.call("remember", TURN, dict)
        assert caught.value.data["limit"] == 600
        usage = client.call("status", {}, dict)["usage"]
        assert usage["max_bytes"] == 600 and usage["bytes"] == caught.value.data["current"]
        configured.reload("")
        assert client.call("remember", TURN, dict)["id"]


def test_the_thresholds_of_the_disk_count_at_once_and_it_comes_back(configured: Configured) -> None:
    configured.start()
    with configured.daemon.client() as client:
        written = client.call("remember", TURN, dict)["id"]
        configured.reload(f"read_only_below_bytes = {1 << 40}")
        with pytest.raises(noctuary.ReadOnly):
            client.call("remember", TURN, dict)
        assert client.call("hello", {}, dict)["state"] == "read_only"
        assert client.call("forget", {"id": written}, dict)["found"] is True
        configured.reload(f"read_only_below_bytes = {1 << 20}")
        eventually(lambda: client.call("hello", {}, dict)["state"] == "ready")
        assert client.call("remember", TURN, dict)["id"]


def test_patience_with_clients_counts_at_once(configured: Configured) -> None:
    configured.start()
    with RawClient(configured.daemon.socket) as client:
        client.send(b'{"half')
        configured.reload("half_line_s = 0.1\nstuck_client_s = 0.1")
        eventually(client.is_closed)
    assert [line["why"] for line in configured.logged("client_dropped")] == ["half_line"]


def test_the_log_level_counts_at_once(configured: Configured) -> None:
    configured.start()
    configured.reload('log_level = "error"')
    configured.reload('log_level = "error"')
    assert len(configured.logged("reloaded")) <= 1, "the one that changed it is already below the level"
    configured.reload('log_level = "info"')
    assert configured.logged("reloaded")


def test_what_needs_a_restart_is_named_and_stays_named(configured: Configured) -> None:
    configured.start()
    for _ in range(2):
        configured.reload('zone = "Europe/Oslo"\nnode = 7\nstop_within_s = 1')
    named = [line["key"] for line in configured.logged("needs_restart")]
    assert sorted(named) == ["node", "node", "stop_within_s", "stop_within_s", "zone", "zone"]
    configured.reload("")
    assert len(configured.logged("needs_restart")) == len(named), "what is again as it runs needs none"


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("nod = 1", "there is no key nod"),
        ("node = [", "configuration file"),
        ('[[tenant]]\nname = "a"\nmax_bytes = 1\n' * 2, "more than one [[tenant]]"),
    ],
)
def test_a_broken_file_changes_nothing_and_is_told(configured: Configured, broken: str, said: str) -> None:
    configured.start(AGENT)
    configured.reload(broken)
    told = configured.until("STATUS=The old configuration stays")
    assert said in told
    assert [line["reason"] for line in configured.logged("reload_failed")] == ["configuration"]
    assert configured.daemon.call("hello")["role"] == "agent"
    configured.reload(AGENT)
    assert configured.until("STATUS=Serving.")


def test_a_file_that_has_gone_changes_nothing(configured: Configured) -> None:
    configured.start(AGENT)
    configured.file.unlink()
    os.kill(configured.daemon.pid, signal.SIGHUP)
    assert "The old configuration stays" in configured.until("STATUS=")
    assert configured.daemon.call("hello")["role"] == "agent"

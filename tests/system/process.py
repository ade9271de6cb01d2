"""A real daemon in a directory of its own: started, watched, killed, started again.

Readiness is asked for, never waited out: a connection and a `hello` until one is answered, the process
ended, or the deadline passed. What it printed is kept in a file, so that nothing can block on a pipe.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import noctuary
from tests.watching import WATCH

ROOT = Path(__file__).resolve().parents[2]
READY_WITHIN_S = 30.0
END_WITHIN_S = 30.0
POLL_S = 0.01
MEASURED_WITHIN_S = 2.0
ENTRY = (sys.executable, "-m", "daemon.cli.entry")


class DaemonEnded(AssertionError):
    """It ended, or didn't get ready, when it was to serve."""


class DaemonProcess:
    """One state directory and socket, with at most one daemon of ours on them at a time."""

    def __init__(self, directory: Path, name: str = "daemon") -> None:
        self.state = directory / "state"
        self.socket = directory / f"{name}.sock"
        self.log = directory / f"{name}.log"
        self.variables: dict[str, str] = {}
        """Of its environment, beside what it inherits."""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("NOCTUARY_", "XDG_"))}
        ours = {"PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": str(self.state.parent / "no-config")}
        return {**kept, **ours, **self.variables}

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def spawn(self, *flags: str, through: tuple[str, ...] = (), passed: tuple[int, ...] = ()) -> None:
        """Start it, not waiting for anything; `through` another command, with `passed` descriptors."""
        assert self._process is None, "there is one running"
        command = [*through, *ENTRY, "daemon", "--state", str(self.state), "--socket", str(self.socket), *flags]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                pass_fds=passed,
            )  # fmt: skip

    def start(self, *flags: str) -> None:
        """Start it and return when it answers. Raises DaemonEnded."""
        self.spawn(*flags)
        self.await_ready()

    def await_ready(self) -> None:
        """Return when it answers. Raises DaemonEnded."""
        assert self._process is not None
        deadline = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < deadline:
            code = self._process.poll()
            if code is not None:
                self._ended()
                raise DaemonEnded(f"exit {code}: {self.logged()[-2000:]}")
            if self._answers():
                return
            time.sleep(POLL_S)  # between two questions; nothing is assumed to have happened meanwhile
        self.kill()
        raise DaemonEnded(f"not ready within {READY_WITHIN_S} s: {self.logged()[-2000:]}")

    def _answers(self) -> bool:
        try:
            with self.client() as client:
                return bool(client.hello().state == "ready")
        except (noctuary.Unreachable, noctuary.Unavailable):
            return False

    def kill(self) -> None:
        """SIGKILL, and gone when this returns."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM; its exit code."""
        self._measure()
        return self._end(signal.SIGTERM)

    def restart(self) -> None:
        """An orderly stop and a new start."""
        assert self.stop() == 0, self.logged()[-2000:]
        self.start()

    def wait(self) -> int:
        """The exit code of a daemon that is expected to end by itself."""
        assert self._process is not None
        try:
            return self._process.wait(END_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        finally:
            self._ended()

    def _ended(self) -> None:
        self._process = None
        WATCH.logs.append(self.logged())

    def is_running(self) -> bool:
        """Whether it was started and nobody here ended it or waited for it."""
        return self._process is not None

    def is_gone(self) -> bool:
        """Whether it is gone already; `wait` tells its exit code."""
        assert self._process is not None
        return self._process.poll() is not None

    def close(self) -> None:
        """Whatever state it is in: no process is left."""
        if self._process is not None:
            self._measure()
            self.kill()

    def _measure(self) -> None:
        """Have its metrics looked at, if it is in a state to tell them."""
        line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "metrics", "params": {}}) + "\n"
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
                stream.settimeout(MEASURED_WITHIN_S)
                stream.connect(str(self.socket))
                stream.sendall(line.encode())
                with stream.makefile("rb") as answers:
                    answer = json.loads(answers.readline() or "{}")
        except (OSError, ValueError):
            return
        if "result" in answer:
            WATCH.metrics.append(answer["result"]["text"])

    def _end(self, number: signal.Signals) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        return self.wait()

    def client(self, tenant: str | None = None) -> noctuary.Client:
        return noctuary.Client(str(self.socket), tenant)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One call on a connection of its own; the plain result."""
        with self.client() as client:
            return client.call(method, params, dict)

    def audit(self) -> dict[str, Any]:
        """The audit that also folds everything afresh beside the live projections."""
        return self.call("audit", rebuild=True)

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The command line against this daemon."""
        return subprocess.run(
            [*ENTRY, "--json", "--socket", str(self.socket), *words],
            cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    def logged(self) -> str:
        return self.log.read_text("utf-8", "replace") if self.log.exists() else ""

    def files(self) -> dict[Path, bytes]:
        """Every file of the state directory, with its content."""
        return {path: path.read_bytes() for path in sorted(self.state.rglob("*")) if path.is_file()}


def everything(daemon: DaemonProcess) -> list[dict[str, Any]]:
    """All memories of the default tenant, page by page."""
    found: list[dict[str, Any]] = []
    with daemon.client() as client:
        params: dict[str, Any] = {"limit": 1000, "full": True}
        while True:
            page = client.call("list", params, dict)
            found += page["memories"]
            if page["next_cursor"] is None:
                return found
            params["cursor"] = page["next_cursor"]

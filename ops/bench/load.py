"""The load generator: a closed loop over the unix socket, and the daemon process that it talks to.

Each client is one connection with at most `in_flight` requests unanswered; answers are matched by id, in
whatever order they come. Requests are encoded before the clock starts. One thread and one selector serve
all clients, so the generator takes as little of the shared cores as Python allows. An answer with an error
is never counted as done: it ends the run.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).resolve().parents[2]
READY_WITHIN_S = 60.0
STOP_WITHIN_S = 60.0
RECEIVE_BYTES = 1 << 18


class Answer(msgspec.Struct):
    """As much of an answer as the loop has to read; the rest is skipped by the decoder."""

    id: int | None = None
    error: Any = None


class IdResult(msgspec.Struct):
    id: str


_DECODE = msgspec.json.Decoder(Answer).decode


class LoadFailed(Exception):
    """The daemon refused, closed or didn't answer."""


class Measured(msgspec.Struct, frozen=True):
    """One run of the loop: how long it took, and each request's time to its answer."""

    seconds: float
    latencies_ms: list[float]

    @property
    def per_second(self) -> float:
        return len(self.latencies_ms) / self.seconds

    def quantile_ms(self, share: float) -> float:
        ordered = sorted(self.latencies_ms)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def connect(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(str(path))
    return connection


class _Client:
    """One connection: its share of the requests, those under way, and bytes of an unfinished line."""

    def __init__(self, path: Path, requests: Sequence[bytes]) -> None:
        self.socket = connect(path)
        self._requests = requests
        self._next = 0
        self._sent_at: dict[int, float] = {}
        self._rest = b""
        self.done = False

    def send(self, count: int) -> None:
        """Send the next `count` requests at once. Ids are indexes into this client's requests' ids."""
        chosen = self._requests[self._next : self._next + count]
        if not chosen:
            return
        now = time.perf_counter()
        for line in chosen:
            self._sent_at[_id_of(line)] = now
        self._next += len(chosen)
        self.socket.sendall(b"".join(chosen))

    def receive(self, latencies_ms: list[float]) -> None:
        """Take in what arrived, and send as many as were answered."""
        data = self.socket.recv(RECEIVE_BYTES)
        now = time.perf_counter()
        if not data:
            raise LoadFailed("the daemon closed the connection")
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            answer = _DECODE(line)
            if answer.error is not None or answer.id is None:
                raise LoadFailed(line[:500].decode("utf-8", "replace"))
            latencies_ms.append((now - self._sent_at.pop(answer.id)) * 1000)
        self.send(len(lines))
        self.done = not self._sent_at


_ID_AT = len(b'{"jsonrpc":"2.0","id":')


def _id_of(line: bytes) -> int:
    return int(line[_ID_AT : line.index(b",", _ID_AT)])


def closed_loop(path: Path, requests: Sequence[bytes], clients: int, in_flight: int) -> Measured:
    """Send all `requests`, dealt out to `clients` with `in_flight` each; every one is answered."""
    latencies_ms: list[float] = []
    waiting = [_Client(path, requests[i::clients]) for i in range(clients)]
    with selectors.DefaultSelector() as selector:
        for client in waiting:
            selector.register(client.socket, selectors.EVENT_READ, client)
        began = time.perf_counter()
        for client in waiting:
            client.send(in_flight)
        left = len(waiting)
        while left:
            ready = selector.select(30.0)
            if not ready:
                raise LoadFailed("no answer within 30 s")
            for key, _ in ready:
                client = key.data
                client.receive(latencies_ms)
                if client.done:
                    selector.unregister(client.socket)
                    left -= 1
        seconds = time.perf_counter() - began
    for client in waiting:
        client.socket.close()
    if len(latencies_ms) != len(requests):
        raise LoadFailed(f"{len(latencies_ms)} answers to {len(requests)} requests")
    return Measured(seconds, latencies_ms)


class Asker:
    """One connection with one request at a time, whose whole answer is wanted."""

    def __init__(self, path: Path) -> None:
        self._socket = connect(path)
        self._lines = self._socket.makefile("rb")

    def ask(self, line: bytes) -> Any:
        """The result. Raises LoadFailed on an error."""
        self._socket.sendall(line)
        answer = msgspec.json.decode(self._lines.readline() or b'{"error": "closed"}')
        if "error" in answer:
            raise LoadFailed(str(answer["error"])[:500])
        return answer["result"]

    def close(self) -> None:
        self._lines.close()
        self._socket.close()


class Daemon:
    """A real daemon on a throw-away directory."""

    def __init__(self, directory: Path) -> None:
        self.state = directory / "state"
        self.socket = directory / "d.sock"
        self._log = directory / "daemon.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        """Start it; seconds until the socket accepts."""
        kept = {n: v for n, v in os.environ.items() if not n.startswith(("NOCTUARY_", "XDG_"))}
        command = [sys.executable, "-m", "daemon.cli.entry", "daemon"]
        command += ["--state", str(self.state), "--socket", str(self.socket)]
        began = time.monotonic()
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env={**kept, "PYTHONPATH": str(ROOT)}, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log,
            )  # fmt: skip
        while time.monotonic() - began < READY_WITHIN_S:
            if self.process.poll() is not None:
                raise LoadFailed(f"the daemon ended: {self._log.read_text()[-2000:]}")
            try:
                connect(self.socket).close()
            except OSError:
                time.sleep(0.01)
            else:
                return time.monotonic() - began
        raise LoadFailed("the daemon didn't get ready")

    def rss_anon_kib(self) -> int:
        assert self.process is not None
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1])
        return 0

    def stop(self) -> None:
        if self.process is None:
            return
        process, self.process = self.process, None
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

"""A client without manners: bytes in, lines out, and a well-behaved one beside it that must not notice.

`RawClient` sends whatever it is told. `Witness` writes and reads all the while on a connection of its own; at
its end every write that was answered must be there, every wait was short, and the audit finds nothing.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import noctuary
from tests.system.process import POLL_S, DaemonProcess

ANSWER_WITHIN_S = 20.0
OTHERS_WITHIN_S = 2.0
"""How long anybody else may wait for one answer, whatever a hostile client does. Far above what it takes."""
RAW = {"kind": "raw", "text": "the kettle is on", "role": "user"}
T = TypeVar("T")


class RawClient:
    """One connection of which nothing is taken for granted."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(ANSWER_WITHIN_S)
        self.socket.connect(str(path))
        self._lines = self.socket.makefile("rb")

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, *pieces: bytes) -> None:
        self.socket.sendall(b"".join(pieces))

    def send_what_fits(self, data: bytes) -> int:
        """As much as is taken at once; how much that was."""
        self.socket.setblocking(False)
        sent = 0
        try:
            while sent < len(data):
                sent += self.socket.send(data[sent : sent + 65_536])
        except BlockingIOError:
            pass
        finally:
            self.socket.settimeout(ANSWER_WITHIN_S)
        return sent

    def end_input(self) -> None:
        self.socket.shutdown(socket.SHUT_WR)

    def line(self) -> bytes:
        """The next line, as it came."""
        return self._lines.readline()

    def answer(self) -> dict[str, Any]:
        """The next line. Raises EOFError when there is none."""
        line = self._lines.readline()
        if not line:
            raise EOFError
        found: dict[str, Any] = json.loads(line)
        return found

    def rest(self) -> list[dict[str, Any]]:
        """All lines until the daemon closes."""
        return [json.loads(line) for line in self._lines]

    def is_closed(self) -> bool:
        """Read and throw away what is there; whether the daemon has closed or dropped it."""
        self.socket.setblocking(False)
        try:
            while self.socket.recv(1 << 20):
                pass
        except BlockingIOError:
            return False
        except ConnectionError:
            return True
        return True

    def is_gone(self) -> bool:
        """Whether the daemon has dropped it, without reading anything."""
        try:
            self.socket.setblocking(False)
            self.socket.send(b"\n")
        except BlockingIOError:
            return False
        except ConnectionError:
            return True
        return False

    def close(self) -> None:
        self._lines.close()
        self.socket.close()


def request(method: str, number: Any = 1, **params: Any) -> bytes:
    """One line."""
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n"


def ask(path: Path, *pieces: bytes) -> list[dict[str, Any]]:
    """Send all, end the input, and take every answer."""
    with RawClient(path) as client:
        client.send(*pieces)
        client.end_input()
        return client.rest()


def reason_of(answer: dict[str, Any]) -> str | None:
    """The reason of a refusal, None for a result."""
    reason: str | None = answer["error"]["data"]["reason"] if "error" in answer else None
    return reason


def eventually(what: Callable[[], T], within_s: float = ANSWER_WITHIN_S) -> T:
    """The first truthy value of `what`. Raises TimeoutError."""
    deadline = time.monotonic() + within_s
    while not (found := what()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {within_s} s")
        time.sleep(POLL_S)  # between two questions; nothing is assumed to have happened meanwhile
    return found


def anonymous_bytes(pid: int) -> int:
    """What the process holds that is no file: RssAnon."""
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("RssAnon"))) * 1024


class Witness(threading.Thread):
    """Writes, and reads what it wrote, until it is told to stop."""

    def __init__(self, daemon: DaemonProcess) -> None:
        super().__init__(name="witness")
        self._daemon = daemon
        self._stopped = threading.Event()
        self.acked: list[str] = []
        self.slowest_s = 0.0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            with self._daemon.client() as client:
                while not self._stopped.is_set():
                    self._timed(client, f"witness {len(self.acked)}")
        except BaseException as error:
            self.failure = error

    def _timed(self, client: noctuary.Client, text: str) -> None:
        started = time.monotonic()
        written = client.call("remember", {**RAW, "text": text}, dict)["id"]
        between = time.monotonic()
        self.acked.append(written)
        assert client.call("get", {"ids": [written]}, dict)["memories"][0]["text"] == text
        self.slowest_s = max(self.slowest_s, between - started, time.monotonic() - between)
        self._stopped.wait(0.002)  # so that it is one client among others, and no load

    def stop(self) -> None:
        self._stopped.set()
        self.join(ANSWER_WITHIN_S)


@contextmanager
def unharmed(daemon: DaemonProcess) -> Iterator[Witness]:
    """Whatever is done inside: others are answered, soon, and all that was answered is there afterwards."""
    witness = Witness(daemon)
    witness.start()
    try:
        eventually(lambda: witness.acked or witness.failure)
        yield witness
        seen = len(witness.acked)
        eventually(lambda: len(witness.acked) > seen or witness.failure)
    finally:
        witness.stop()
    assert witness.failure is None, repr(witness.failure)
    assert witness.slowest_s < OTHERS_WITHIN_S
    for start in range(0, len(witness.acked), 20):
        assert daemon.call("get", ids=witness.acked[start : start + 20])["not_found"] == []
    assert daemon.audit()["findings"] == []

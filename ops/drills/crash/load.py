"""What the traced daemon is asked: a few clients that write at once, every kind of write, each with a key.

The id of a request is its idempotency key too, so that an answer seen in the trace names the write that it
is about. Invariant: no two texts are the same.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

ANSWER_WITHIN_S = 60.0


class Request(NamedTuple):
    """A write. `id` is its idempotency key."""

    id: str
    method: str
    params: dict[str, Any]

    def line(self) -> bytes:
        told = {"jsonrpc": "2.0", "id": self.id, "method": self.method, "params": self.params}
        return json.dumps(told).encode() + b"\n"


class Refused(AssertionError):
    """A write of the load was refused: the scenario is wrong, not the daemon."""


@dataclass
class Client:
    """One connection. Everything it sent is in `sent`, answered or not."""

    path: Path
    name: str
    on_answer: Callable[[], None] = lambda: None
    sent: list[Request] = field(default_factory=list)
    error: BaseException | None = None

    def run(self, rounds: int) -> None:
        """Write until done, or until the daemon is gone."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
                stream.settimeout(ANSWER_WITHIN_S)
                stream.connect(str(self.path))
                with stream.makefile("rb") as answers:
                    self._rounds(rounds, lambda requests: self._ask(stream, answers, requests))
        except (ConnectionError, BrokenPipeError):
            return
        except BaseException as error:
            self.error = error

    def _rounds(self, rounds: int, ask: Callable[[list[Request]], list[dict[str, Any]]]) -> None:
        session = {"agent": f"agent-{self.name}", "key": f"talk {self.name}"}
        (opened,) = ask([self._request("session_open", **session)])
        for number in range(rounds):
            turns = [self._turn(session, number, place) for place in range(4)]
            refs = [answer["id"] for answer in ask(turns)]
            ask([self._note(number, refs[1:3]), self._batch(number), self._request("forget", id=refs[0])])
        ask([self._request("session_close", session=opened["session"])])

    def _request(self, method: str, **params: Any) -> Request:
        key = f"{self.name}-{len(self.sent)}"
        request = Request(key, method, {**params, "idempotency_key": key})
        self.sent.append(request)
        return request

    def _turn(self, session: dict[str, str], number: int, place: int) -> Request:
        text = f"turn {self.name} {number}.{place} " + "abc " * (40 * place)
        return self._request("remember", kind="raw", role="user", text=text, session=session)

    def _note(self, number: int, sources: list[str]) -> Request:
        return self._request(
            "remember", kind="note", origin="inferred", text=f"note {self.name} {number}", derived_from=sources,
            tags=["crash", self.name], entities=[{"name": f"Person {self.name} {number}", "type": "person"}],
        )  # fmt: skip

    def _batch(self, number: int) -> Request:
        texts = [f"item {self.name} {number}.{place} " + "x" * (900 * place) for place in range(4)]
        items = [{"kind": "raw", "subtype": "capture", "origin": "stated", "text": text} for text in texts]
        return self._request("remember_many", items=items, atomic=True)

    def _ask(self, stream: socket.socket, answers: Any, requests: list[Request]) -> list[dict[str, Any]]:
        """Send all at once, and wait for all answers."""
        stream.sendall(b"".join(request.line() for request in requests))
        results: dict[str, dict[str, Any]] = {}
        for _ in requests:
            line = answers.readline()
            if not line.endswith(b"\n"):
                raise ConnectionError("the daemon is gone")
            told = json.loads(line)
            if "result" not in told:
                raise Refused(f"{told['id']}: {told['error']}")
            results[told["id"]] = told["result"]
            self.on_answer()
        return [results[request.id] for request in requests]


def run_clients(
    path: Path, names: list[str], rounds: int, on_answer: Callable[[], None] = lambda: None
) -> list[Request]:
    """Let the clients write at the same time; what they sent. Raises what one of them raised."""
    clients = [Client(path, name, on_answer) for name in names]
    threads = [threading.Thread(target=client.run, args=(rounds,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for client in clients:
        if client.error is not None:
            raise client.error
    return [request for client in clients for request in client.sent]

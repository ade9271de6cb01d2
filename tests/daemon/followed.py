"""A service with its socket in this process, for tests that look at both sides of a subscription."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

import noctuary
from daemon.asking import Asking, Tell
from daemon.call import Call, Outcome
from daemon.caller import Caller
from daemon.listening import bind_listener
from daemon.moment import Moment
from daemon.opening import open_all
from daemon.peers import Peers
from daemon.server import Server
from daemon.service import Service
from daemon.wire.verbs import VERBS
from journal.codes import CallerRole
from journal.events import MemoryCreated, Purged, TenantBegan
from journal.events.memories import PurgeTarget
from journal.record import Actor, Cause, Record, encode_body
from journal.store import Store, purge_parts

NOW_MS = 1_790_000_000_000
ANSWER_WITHIN_S = 20.0


class Gate:
    """The service. While `open` is not set, what `subscribe` found waits here."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.open = threading.Event()
        self.open.set()
        self.waiting = threading.Semaphore(0)

    def submit(self, call: Call) -> None:
        self.service.submit(call)

    def asking(self, tell: Tell | None = None) -> Asking:
        return self.service.asking(tell)

    def read(
        self, method: str, params: Any, caller: Caller, budget: int | None = None, asking: Asking | None = None
    ) -> Any:
        found = self.service.read(method, params, caller, budget, asking)
        if method == "subscribe":
            self.waiting.release()
            assert self.open.wait(ANSWER_WITHIN_S)
        return found


class Followed:
    """One store, its service and its server. `bounds` are the server's."""

    def __init__(self, directory: Path, **bounds: Any) -> None:
        self.path = directory / "s"
        self.peers = Peers(())
        self.store, self.projections, _ = open_all(directory / "state", "test", NOW_MS)
        self.server = Server(self.peers, **{"stuck_s": 30.0, "mark_every_s": 0.05, **bounds})
        self.service = Service(self.store, self.projections, Moment(lambda: NOW_MS), self._deliver)
        self.service.start()
        self.gate = Gate(self.service)
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()
        self._on_loop(self.server.start(bind_listener(self.path, None), self.gate))

    def _on_loop(self, what: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(what, self.loop).result(ANSWER_WITHIN_S)

    def client(self, tenant: str | None = None) -> noctuary.Client:
        return noctuary.Client(str(self.path), tenant)

    def write(self, *texts: str, tenant: str | None = None) -> None:
        items = [{"kind": "raw", "role": "user", "text": text} for text in texts]
        with self.client(tenant) as client:
            client.remember_many(items)

    def write_inside(self, text: str) -> None:
        """A write of the default tenant that comes from no client: whatever the peers may do now."""
        params = msgspec.convert({"kind": "raw", "role": "user", "text": text}, VERBS["remember"].params)
        caller = Caller(uid=os.geteuid(), role=CallerRole.OPERATOR, tenants_read=None, tenants_write=None)
        self.service.submit(Call("remember", params, caller, _to_nobody))
        self.service.writer.between(lambda: None)

    def _deliver(self, answers: list[tuple[Call, Outcome]]) -> None:
        self.server.deliver([answer for answer in answers if answer[0].reply is not _to_nobody])

    def record_unfolded(self) -> int:
        """A record that is committed and not folded yet, as in the midst of a batch; its number."""
        return self.service.writer.between(lambda: _append(self.store))

    def fold(self) -> None:
        self.service.writer.between(lambda: self.projections.catch_up(self.store.log))

    def beginning(self) -> dict[str, Any]:
        """The place before the first record."""
        return {"epoch": self.store.log.head().epoch, "seq": 0, "chain": self.store.store_id.hex()}

    def head(self) -> dict[str, Any]:
        head = self.store.log.head()
        return {"epoch": head.epoch, "seq": head.seq, "chain": head.chain.hex()}

    def purge_newest(self) -> int:
        """Purge the newest memory, as a batch of its own; the number of the record that created it."""
        seq = self.service.writer.between(lambda: _purge(self.store))
        self.fold()
        return seq

    def stop_serving(self) -> None:
        self.service.end_long_reads()
        self._on_loop(self.server.stop(5))

    def close(self) -> None:
        self.stop_serving()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()
        self.service.stop()
        self.projections.close(True)
        self.store.close(True)


def _to_nobody(_outcome: Outcome) -> None:
    """The reply of a write that no client waits for."""


def _append(store: Store) -> int:
    seq = store.log.head().seq + 1
    event = TenantBegan(number=77, name="seventy-seven")
    record = Record(seq, NOW_MS, 77, Actor(0, 0, 0), Cause(seq, "remember"), event)
    return store.log.append([encode_body(record)], [], store.log.state).seq


def _purge(store: Store) -> int:
    seq = store.log.head().seq
    record = [each for chunk in store.log.chunks() for each in chunk if isinstance(each.event, MemoryCreated)][-1]
    made = record.event
    assert isinstance(made, MemoryCreated)
    event = Purged(targets=(PurgeTarget(made.kind, made.id),), parts=made.parts)
    purge = Record(seq + 1, NOW_MS, record.tenant, Actor(0, 0, 0), Cause(seq + 1, "purge"), event)
    purge_parts(store, [encode_body(purge)], [], store.log.state)
    return record.seq


def records_in(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in lines if line.get("method") == "record"]


def texts(frames: Iterator[Any], count: int) -> list[str]:
    """The texts of the next memories."""
    found = (frame for frame in frames if frame["type"] == "memory_created")
    return [next(p["content"] for p in frame["parts"] if p["part"] == "text") for frame in islice(found, count)]


class Wire:
    """A connection of which every line is seen."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(ANSWER_WITHIN_S)
        self.socket.connect(os.fspath(path))
        self._lines = self.socket.makefile("rb")

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()
        self.socket.close()

    def send(self, number: int | str, method: str, **params: Any) -> None:
        line = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self.socket.sendall(json.dumps(line).encode() + b"\n")

    def line(self) -> dict[str, Any]:
        """The next line. Raises EOFError."""
        line = self._lines.readline()
        if not line:
            raise EOFError
        found: dict[str, Any] = json.loads(line)
        return found

    def rest(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._lines]

    def ask(self, number: int | str, method: str, **params: Any) -> dict[str, Any]:
        """The answer; what comes before it is passed over."""
        self.send(number, method, **params)
        return self.until(lambda line: line.get("id") == number)[-1]

    def until(self, ends: Any) -> list[dict[str, Any]]:
        """The lines up to the first for which `ends` holds."""
        found: list[dict[str, Any]] = []
        while not found or not ends(found[-1]):
            found.append(self.line())
        return found

    def records(self, number: int | str) -> Iterator[dict[str, Any]]:
        """The frames of one subscription, without end."""
        while True:
            line = self.line()
            if line.get("method") == "end" and line["params"]["request"] == number:
                return
            if line.get("method") == "record" and line["params"]["request"] == number:
                yield line["params"]["frame"]


def reason_of(line: dict[str, Any]) -> str | None:
    """The reason in an answer or an `end`, None for a result."""
    error = line.get("error") or line.get("params", {}).get("error")
    reason: str | None = error["data"]["reason"] if error else None
    return reason

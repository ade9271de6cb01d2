"""A server over a small stand-in for the service, which answers on its own thread when it is let: nothing is stored."""

from __future__ import annotations

import asyncio
import json
import os
import queue
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from daemon.asking import Asking, Tell
from daemon.call import Call
from daemon.caller import Caller
from daemon.listening import bind_listener
from daemon.peers import Peers
from daemon.server import Server
from daemon.wire.results import DescribeResult, ForgetResult, Result


class Counting:
    """Answers writes in batches on a thread; a read tells how many writes it could see."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.audit_gate = threading.Event()
        self.audit_gate.set()
        self.audits = threading.Semaphore(0)
        self.audits_ended = threading.Semaphore(0)
        self.phases = ["walk", "fold", "digests"]
        self.heads = 0
        self.seen: list[str] = []
        self.deliver: Any = None
        self.big = 0
        self._queue: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while (call := self._queue.get()) is not None:
            self.gate.wait()
            self.seen.append(call.params.id)
            self.deliver([(call, ForgetResult(found=True, tombstoned_at=call.params.id, flagged=[]))])

    def submit(self, call: Call) -> None:
        self._queue.put(call)

    def asking(self, tell: Tell | None = None) -> Asking:
        return Asking(tell=tell)

    def read(
        self, method: str, params: Any, caller: Caller, budget: int | None = None, asking: Asking | None = None
    ) -> Result:
        assert asking is not None
        if method == "audit":
            self._audit(asking)
        if method == "head":
            self.heads += 1
            asking.step("only", 1, 1)
        if method == "status":
            return DescribeResult(params={}, result={"torn": "\ud800"})
        return DescribeResult(params={"seen": len(self.seen), "via": caller.via.wire}, result={"x": "x" * self.big})

    def _audit(self, asking: Asking) -> None:
        self.audits.release()
        try:
            while not self.audit_gate.wait(0.001):
                asking.check()
            for phase in self.phases:
                asking.step(phase, 0, 2)
                asking.step(phase, 2, 2)
        finally:
            self.audits_ended.release()

    def stop(self) -> None:
        self.gate.set()
        self.audit_gate.set()
        self._queue.put(None)
        self._thread.join()


class Running:
    """A server on a loop in a thread."""

    def __init__(self, path: Path, **bounds: Any) -> None:
        self.path = path
        self.bounds = {"half_line_s": 0.5, "stuck_s": 0.5, **bounds}
        self.service = Counting()
        self.peers = Peers(())
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self.loop).result(10)

    async def _start(self) -> None:
        self.server = Server(self.peers, **self.bounds)
        self.service.deliver = self.server.deliver
        await self.server.start(bind_listener(self.path, None), self.service)

    def connect(self) -> socket.socket:
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(20)
        client.connect(os.fspath(self.path))
        return client

    def stop(self) -> None:
        self.service.gate.set()
        self.service.audit_gate.set()
        asyncio.run_coroutine_threadsafe(self.server.stop(5), self.loop).result(10)
        self.service.stop()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


@contextmanager
def serving(path: Path, **bounds: Any) -> Iterator[Running]:
    found = Running(path, **bounds)
    try:
        yield found
    finally:
        found.stop()


def request(number: int | str, method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n"


def ask_all(client: socket.socket, data: bytes) -> list[dict[str, Any]]:
    """Send, end the input, and read until the daemon closes."""
    client.sendall(data)
    client.shutdown(socket.SHUT_WR)
    with client, client.makefile("rb") as lines:
        return [json.loads(line) for line in lines]

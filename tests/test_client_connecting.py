"""The client where it connects, is cancelled, closes, and is used in more than one loop."""

from __future__ import annotations

import asyncio
import inspect
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import noctuary
from tests.test_client import HEAD, Scripted, Server, begun, end, note, record


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "s")


class Crowded:
    """A daemon that hangs, and for which as many wait already as may."""

    def __init__(self, path: str) -> None:
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(0)
        self.waiting: list[socket.socket] = []
        while True:
            stream = socket.socket(socket.AF_UNIX)
            stream.setblocking(False)
            self.waiting.append(stream)
            try:
                stream.connect(path)
            except BlockingIOError:
                return

    def go_on(self) -> None:
        """Take those who wait, then whoever comes, and answer it."""
        for _ in self.waiting[:-1]:
            self.listener.accept()[0].close()
        stream, _address = self.listener.accept()
        with stream, stream.makefile("rb") as lines:
            stream.sendall(json.dumps({"id": json.loads(lines.readline())["id"], "result": HEAD}).encode() + b"\n")


@pytest.fixture
def crowded(path: str) -> Iterator[Crowded]:
    found = Crowded(path)
    yield found
    for stream in (found.listener, *found.waiting):
        stream.close()


@pytest.mark.parametrize("kind", ["call", "write", "subscription"])
def test_a_daemon_that_takes_no_connection_costs_no_more_than_the_timeout(
    path: str, crowded: Crowded, kind: str
) -> None:
    client = noctuary.Client(path, timeout_s=0.1)
    asked: dict[str, Callable[[], Any]] = {
        "call": client.head, "write": lambda: client.forget("raw:1"), "subscription": lambda: next(client.subscribe()),
    }  # fmt: skip
    failures: list[BaseException] = []

    def ask() -> None:
        with pytest.raises(noctuary.Unreachable) as caught:
            asked[kind]()
        failures.append(caught.value)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(10)
    assert len(failures) == 1 and "takes no connection" in str(failures[0])


@pytest.mark.parametrize("kind", ["call", "write", "subscription"])
def test_an_async_write_that_was_never_sent_has_no_unknown_outcome(path: str, crowded: Crowded, kind: str) -> None:
    async def run() -> None:
        async with noctuary.AsyncClient(path, timeout_s=0.1) as client:
            if kind == "subscription":
                await anext(aiter(client.subscribe()))
            await (client.head() if kind == "call" else client.forget("raw:1"))

    with pytest.raises(noctuary.Unreachable):
        asyncio.run(run())


def test_a_connection_that_has_to_wait_is_waited_for(path: str, crowded: Crowded) -> None:
    serving = threading.Thread(target=crowded.go_on, daemon=True)
    threading.Timer(0.1, serving.start).start()
    with noctuary.Client(path, timeout_s=20) as client:
        assert client.head().seq == 7
    serving.join(10)


def test_an_async_write_over_a_connection_that_is_gone_was_not_sent(path: str) -> None:
    """The connection broke while nobody asked; and then there is no daemon any more."""
    server = Server(path, lambda _: {"result": HEAD})

    async def run() -> None:
        async with noctuary.AsyncClient(path) as client:
            await client.head()
            assert client._writer is not None
            server.listener.close()
            Path(path).unlink()
            client._writer.transport.abort()
            await client.forget("raw:1")

    with pytest.raises(noctuary.Unreachable):
        asyncio.run(run())


@pytest.mark.parametrize("cancels", [True, False])
def test_an_async_client_can_be_used_in_one_loop_after_another(path: str, cancels: bool) -> None:
    """`cancels`: whether the first loop ended its tasks, as `asyncio.run` does, before it was closed."""

    class Served(Server):
        def run(self) -> None:
            while True:
                try:
                    stream, _ = self.listener.accept()
                except OSError:
                    return
                threading.Thread(target=self.answer, args=(stream,), daemon=True).start()

        def answer(self, stream: socket.socket) -> None:
            with stream, stream.makefile("rb") as lines:
                for line in lines:
                    body = {"id": json.loads(line)["id"], "result": HEAD}
                    stream.sendall(json.dumps(body).encode() + b"\n")

    Served(path, lambda _: None)
    client = noctuary.AsyncClient(path, timeout_s=5)

    async def head() -> int:
        return (await client.head()).seq

    if cancels:
        assert asyncio.run(head()) == 7
        assert client._writer is None
    else:
        loop = asyncio.new_event_loop()
        assert loop.run_until_complete(head()) == 7
        loop.close()
    assert asyncio.run(head()) == 7
    asyncio.run(client.close())


class Cancellable:
    """Tells once how far it is with the first request, and answers it when its cancelling has come."""

    def __init__(self, path: str) -> None:
        self.seen: list[dict[str, Any]] = []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        threading.Thread(target=self.run, daemon=True).start()

    def run(self) -> None:
        stream, _ = self.listener.accept()
        with stream, stream.makefile("rb") as lines:
            for line in lines:
                request = json.loads(line)
                self.seen.append(request)
                if request["method"] != "cancel":
                    told = {"request": request["id"], "done": 1, "of": 9, "phase": "walk"}
                    answers = [{"method": "progress", "params": told}]
                else:
                    data = {"reason": "unavailable", "cancelled": True}
                    answers = [
                        {"id": request["id"], "result": {"cancelled": True}},
                        {"id": request["params"]["request"], "error": {"code": -1, "message": "", "data": data}},
                    ]
                stream.sendall(b"".join(json.dumps(answer).encode() + b"\n" for answer in answers))


@pytest.mark.parametrize("by", ["its listener", "another thread"])
def test_a_call_that_waits_can_be_cancelled(path: str, by: str) -> None:
    server = Cancellable(path)
    told: list[bool] = []
    with noctuary.Client(path, timeout_s=20) as client:

        def listen(note: noctuary.Progress) -> None:
            assert isinstance(note.request, int)
            number = note.request
            if by == "its listener":
                told.append(client.cancel(number))
            else:
                threading.Thread(target=lambda: told.append(client.cancel(number))).start()

        with pytest.raises(noctuary.Unavailable) as caught:
            client.audit(on_progress=listen)
        assert caught.value.data["cancelled"] is True
        assert not client.cancel(server.seen[0]["id"]), "it waits no more"
    assert [request["method"] for request in server.seen] == ["audit", "cancel"]
    assert server.seen[1]["params"]["request"] == server.seen[0]["id"] and told in ([True], [])


def test_what_is_cancelled_before_it_is_sent_whole_is_sent_whole(path: str) -> None:
    """The cancelling goes behind it, never into the midst of it."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    client = noctuary.Client(path, timeout_s=20)
    failures: list[BaseException] = []

    def ask() -> None:
        with pytest.raises(noctuary.NoctuaryError) as caught:
            client.get(["x" * 4_000_000])
        failures.append(caught.value)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    stream, _ = listener.accept()
    while not client.cancel(1):
        pass
    with listener, stream, stream.makefile("rb") as lines:
        assert [json.loads(lines.readline())["method"] for _ in range(2)] == ["get", "cancel"]
        stream.sendall(b'{"id": 1, "error": {"code": -1, "message": "", "data": {"reason": "unavailable"}}}\n')
        asking.join(10)
    assert isinstance(failures[0], noctuary.Unavailable)
    client.close()


def test_subscribing_is_iterating(path: str) -> None:
    Scripted(path, [begun(3), record(4), end("denied")])
    with noctuary.Client(path, tenant="t").subscribe(tenant="u") as subscription:
        assert isinstance(subscription, noctuary.Subscription) and next(subscription).seq == 4
        assert subscription.tenant == "u"
    assert isinstance(noctuary.AsyncClient(path).subscribe(), noctuary.AsyncSubscription)


def test_a_closed_subscription_has_closed_its_socket(path: str) -> None:
    Scripted(path, [begun(3), record(4), record(5)])
    subscription = noctuary.Client(path).subscribe()
    assert next(subscription).seq == 4
    stream = subscription._stream
    assert stream is not None
    subscription.close()
    assert stream.fileno() == -1 and list(subscription) == []


def test_the_methods_take_listeners_where_it_takes_long_and_no_flag(path: str) -> None:
    server = Scripted(path, [note(1), {"id": "ID", "result": {"memories": [], "next_cursor": None, "total": 0}}])
    told: list[int] = []
    with noctuary.Client(path) as client:
        client.list(on_progress=lambda progress: told.append(progress.done))
    assert told == [1] and server.seen[0]["params"]["progress"] is True
    for verb in noctuary.RESULTS:
        if verb not in ("subscribe", "cancel"):
            names = inspect.signature(getattr(noctuary.Client, verb)).parameters
            assert "progress" not in names, verb

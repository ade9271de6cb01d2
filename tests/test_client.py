"""The client's transport, against a small real server on a Unix socket."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import noctuary

ROOT = Path(__file__).resolve().parent.parent
HEAD = {"store": "00", "epoch": 1, "seq": 7, "chain": "00", "at": None, "new_field": 1}
Reply = Callable[[dict[str, Any]], "dict[str, Any] | None"]


class Server:
    """Answers by `reply`; None drops the connection."""

    def __init__(self, path: str, reply: Reply) -> None:
        self.seen: list[dict[str, Any]] = []
        self.reply = reply
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        threading.Thread(target=self.run, daemon=True).start()

    def run(self) -> None:
        while True:
            try:
                stream, _ = self.listener.accept()
            except OSError:
                return
            with stream, stream.makefile("rb") as lines:
                for line in lines:
                    request = json.loads(line)
                    self.seen.append(request)
                    body = self.reply(request)
                    if body is None:
                        stream.shutdown(socket.SHUT_RDWR)
                        break
                    stream.sendall(json.dumps({"jsonrpc": "2.0", "id": request["id"], **body}).encode() + b"\n")


@pytest.fixture
def path(tmp_path: Path) -> Iterator[str]:
    yield str(tmp_path / "s")


def test_unknown_fields_are_ignored_and_the_tenant_is_sent(path: str) -> None:
    server = Server(path, lambda _: {"result": HEAD})
    with noctuary.Client(path, tenant="t") as client:
        assert client.head().seq == 7
    assert server.seen[0]["params"] == {"tenant": "t"}


@pytest.mark.parametrize("reason", sorted(noctuary.ERRORS))
def test_each_reason_has_its_exception(path: str, reason: str) -> None:
    body = {"error": {"code": -32000, "message": "no", "data": {"reason": reason, "parameter": "p"}}}
    Server(path, lambda _: body)
    with noctuary.Client(path) as client, pytest.raises(noctuary.ERRORS[reason]) as caught:
        client.head()
    assert caught.value.data["parameter"] == "p"


def test_a_write_is_sent_again_under_the_same_key(path: str) -> None:
    result = {"id": "raw:1", "address": {"epoch": 1, "seq": 1}, "duplicate": False}
    result |= {"session": None, "turn": None, "notes": []}
    server = Server(path, lambda _: {"result": result} if len(server.seen) > 1 else None)
    with noctuary.Client(path) as client:
        assert client.remember("raw", "x", origin="stated").id == "raw:1"
    keys = [request["params"]["idempotency_key"] for request in server.seen]
    assert len(keys) == 2 and keys[0] == keys[1]


def test_items_get_keys_of_their_own_when_not_atomic() -> None:
    params = noctuary.keyed("remember_many", {"items": [{"text": "a"}], "atomic": False})
    assert "idempotency_key" not in params and params["items"][0]["idempotency_key"]


def test_many_calls_keep_their_order_and_return_errors(path: str) -> None:
    refusal = {"error": {"code": -32001, "message": "", "data": {"reason": "not_found"}}}
    Server(path, lambda r: refusal if r["id"] == 3 else {"result": {**HEAD, "seq": r["id"]}})
    with noctuary.Client(path) as client:
        out = client.call_many([("head", {})] * 1200)
    assert isinstance(out.pop(2), noctuary.NotFound)
    assert [item.seq for item in out] == [1, 2, *range(4, 1201)]


def test_async_reconnects(path: str) -> None:
    server = Server(path, lambda _: {"result": HEAD} if len(server.seen) > 1 else None)

    async def run() -> int:
        async with noctuary.AsyncClient(path) as client:
            return (await client.head()).seq

    assert asyncio.run(run()) == 7


def test_no_daemon(path: str) -> None:
    with pytest.raises(noctuary.Unreachable):
        noctuary.Client(path).head()


def test_socket_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NOCTUARY_SOCKET", "/a")
    assert noctuary.default_socket() == "/a"
    monkeypatch.delenv("NOCTUARY_SOCKET")
    (tmp_path / "noctuary.sock").touch()
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path))
    assert noctuary.default_socket() == str(tmp_path / "noctuary.sock")


def test_the_generated_half_is_current() -> None:
    assert subprocess.run([sys.executable, "ops/generate_client.py", "--check"], cwd=ROOT).returncode == 0

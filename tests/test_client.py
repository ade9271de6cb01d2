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

import msgspec
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


def test_a_write_that_was_taken_but_never_answered_has_an_unknown_outcome(path: str) -> None:
    """Whoever asked can ask again: the key that the client made is told."""
    server = Server(path, lambda _: None)
    with noctuary.Client(path) as client, pytest.raises(noctuary.UnknownOutcome) as caught:
        client.remember("raw", "x", origin="stated")
    (key,) = {request["params"]["idempotency_key"] for request in server.seen}
    assert caught.value.data["idempotency_keys"] == [key] and caught.value.retryable
    with noctuary.Client(path) as client, pytest.raises(noctuary.Unreachable):
        client.head()  # a question changes nothing


def test_an_async_write_that_was_taken_but_never_answered_has_an_unknown_outcome(path: str) -> None:
    Server(path, lambda _: None)

    async def run() -> None:
        async with noctuary.AsyncClient(path) as client:
            await client.forget("raw:1")

    with pytest.raises(noctuary.UnknownOutcome):
        asyncio.run(run())


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


# --- notifications ---


class Scripted:
    """Answers the n-th connection with the n-th script: lines to send once a request came, then it hangs up."""

    def __init__(self, path: str, *scripts: list[dict[str, Any]]) -> None:
        self.seen: list[dict[str, Any]] = []
        self.scripts = scripts
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        threading.Thread(target=self.run, daemon=True).start()

    def run(self) -> None:
        for script in self.scripts:
            stream, _ = self.listener.accept()
            with stream, stream.makefile("rb") as lines:
                request = json.loads(lines.readline())
                self.seen.append(request)
                told = [json.loads(json.dumps(line).replace('"ID"', str(request["id"]))) for line in script]
                stream.sendall(b"".join(json.dumps({"jsonrpc": "2.0", **line}).encode() + b"\n" for line in told))


def begun(seq: int) -> dict[str, Any]:
    return {"id": "ID", "result": {"head": {**HEAD, "seq": seq}}}


def record(seq: int) -> dict[str, Any]:
    frame = {
        "store": "00", "epoch": 1, "seq": seq, "at": "", "tenant": None, "type": "opened", "version": 1, "event": {},
        "body": "", "prev": "", "chain": f"{seq:02x}", "parts": [], "new_field": 1,
        "actor": {"uid": 0, "role": "agent", "via": "client"},
        "cause": {"first_seq": seq, "verb": "", "correlation": None},
    }  # fmt: skip
    return {"method": "record", "params": {"request": "ID", "frame": frame}}


def mark(seq: int) -> dict[str, Any]:
    return {"method": "mark", "params": {"request": "ID", "epoch": 1, "seq": seq, "chain": f"{seq:02x}"}}


def end(reason: str, **data: Any) -> dict[str, Any]:
    error = {"code": -1, "message": "", "data": {"reason": reason, **data}}
    return {"method": "end", "params": {"request": "ID", "error": error}}


def test_a_subscription_goes_on_behind_its_place_and_says_it_anew(path: str) -> None:
    server = Scripted(
        path,
        [begun(3), record(4), mark(9)],
        [begun(20), record(10), end("unavailable", retryable=True)],
        [begun(20), end("damaged", seq=11)],
    )
    seqs = []
    with noctuary.Client(path).subscription(level="content") as subscription:
        with pytest.raises(noctuary.Damaged):
            for item in subscription:
                seqs.append((type(item).__name__, item.seq))
        assert subscription.place == {"store": "00", "epoch": 1, "seq": 10, "chain": "0a"}
    assert seqs == [("Frame", 4), ("Mark", 9), ("Frame", 10)]
    places = [request["params"].get("after") for request in server.seen]
    assert places[0] is None
    assert places[1:] == [{"store": "00", "epoch": 1, "seq": seq, "chain": f"{seq:02x}"} for seq in (9, 10)]
    assert {request["params"]["level"] for request in server.seen} == {"content"}


def test_a_connection_lost_before_anything_came_is_gone_on_from_where_it_began(path: str) -> None:
    server = Scripted(path, [begun(3)], [begun(8), record(4), end("denied")])
    with pytest.raises(noctuary.Denied), noctuary.Client(path).subscription() as subscription:
        assert next(subscription).seq == 4
        next(subscription)
    assert server.seen[1]["params"]["after"]["seq"] == 3


def test_a_daemon_that_folds_after_a_restart_is_waited_for(path: str) -> None:
    folding = {"id": "ID", "error": {"code": -1, "message": "", "data": {"reason": "unavailable"}}}
    server = Scripted(path, [begun(3)], [folding], [folding], [begun(3), record(4)])
    with noctuary.Client(path).subscription() as subscription:
        assert next(subscription).seq == 4
    assert len(server.seen) == 4
    with pytest.raises(noctuary.Unavailable):  # but who begins is told
        Scripted(path + "2", [folding])
        next(noctuary.Client(path + "2").subscription())


def test_what_is_no_use_to_wait_out_is_raised_at_once(path: str) -> None:
    refusal = {"id": "ID", "error": {"code": -1, "message": "", "data": {"reason": "conflict", "current": {"seq": 1}}}}
    Scripted(path, [refusal], [begun(3)], [refusal])
    subscription = noctuary.Client(path).subscription({"epoch": 1, "seq": 1, "chain": "00"})
    with pytest.raises(noctuary.Conflict) as caught:
        next(subscription)
    assert caught.value.data["current"] == {"seq": 1}
    with pytest.raises(noctuary.Conflict):  # the second connection is lost, and the third refuses the place
        next(noctuary.Client(path).subscription())


def test_a_subscription_without_a_daemon_is_told_at_once(path: str) -> None:
    with pytest.raises(noctuary.Unreachable):
        next(noctuary.Client(path).subscription())


def test_its_patience_has_an_end(path: str) -> None:
    Scripted(path, [begun(3)])
    subscription = noctuary.Client(path).subscription()
    subscription.patience_s = 0.2
    subscription._connect()
    Path(path).unlink()
    with pytest.raises(noctuary.Unreachable):
        next(subscription)


def test_closing_ends_the_iteration_of_another_thread(path: str) -> None:
    Server(path, lambda _: {"result": {"head": HEAD}})
    subscription = noctuary.Client(path).subscription()
    found: list[Any] = []
    follower = threading.Thread(target=lambda: found.extend(subscription))
    follower.start()
    while subscription.place is None:
        follower.join(0.001)
    subscription.close()
    follower.join(10)
    assert not follower.is_alive() and found == []


def test_the_asynchronous_subscription_is_the_same(path: str) -> None:
    server = Scripted(path, [begun(3), record(4)], [begun(8), mark(7), end("denied")])

    async def run() -> list[int]:
        seqs = []
        with pytest.raises(noctuary.Denied):
            async with noctuary.AsyncClient(path).subscription() as subscription:
                async for item in subscription:
                    seqs.append(item.seq)
        return seqs

    assert asyncio.run(run()) == [4, 7]
    assert server.seen[1]["params"]["after"]["seq"] == 4


def note(done: int) -> dict[str, Any]:
    return {"method": "progress", "params": {"request": "ID", "done": done, "of": 9, "phase": "walk"}}


def test_progress_reaches_who_listens_and_nobody_else(path: str) -> None:
    foreign = {"method": "progress", "params": {"request": "other", "done": 0, "of": 9, "phase": "walk"}}
    lines = [note(1), foreign, note(5), {"id": "ID", "result": HEAD}]
    server = Scripted(path, lines, lines, lines)
    told: list[tuple[str, int, int]] = []

    def listen(progress: noctuary.Progress) -> None:
        told.append((progress.phase, progress.done, progress.of))

    with noctuary.Client(path) as client:
        assert client.call("head", {}, dict, listen)["seq"] == 7
    with noctuary.Client(path) as client:
        assert client.head().seq == 7

    async def run() -> Any:
        async with noctuary.AsyncClient(path) as client:
            return (await client.call("head", {}, dict, listen))["seq"]

    assert asyncio.run(run()) == 7
    assert told == [("walk", 1, 9), ("walk", 5, 9)] * 2
    assert [request["params"].get("progress") for request in server.seen] == [True, None, True]


def test_what_a_listener_raises_is_raised_and_not_taken_for_a_lost_connection(path: str) -> None:
    lines = [note(1), {"id": "ID", "result": HEAD}]
    server = Scripted(path, lines, lines)

    def listen(_: noctuary.Progress) -> None:
        raise BrokenPipeError("mine")

    with noctuary.Client(path) as client, pytest.raises(BrokenPipeError, match="mine"):
        client.call("head", {}, dict, listen)

    async def run() -> None:
        async with noctuary.AsyncClient(path) as client:
            await client.call("head", {}, dict, listen)

    with pytest.raises(BrokenPipeError, match="mine"):
        asyncio.run(run())
    assert len(server.seen) == 2


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


# --- what a caller has in hand -------------------------------------------------------------------


def test_results_of_a_batch_and_of_a_session_are_typed(path: str) -> None:
    address = {"epoch": 1, "seq": 2}
    done = {"id": "raw:1", "address": address, "duplicate": False, "session": None, "turn": None, "notes": []}
    refused = {"index": 1, "error": {"code": -32602, "message": "no", "data": {"reason": "invalid_input"}}}
    note = {"id": "note:1", "kind": "note", "subtype": None, "status": "active", "at": "", "session": None,
            "turn": None, "topic": None, "text": "n"}  # fmt: skip
    session = {
        "session": "session:1", "agent": "a", "key": "k", "state": "open", "activation": 1, "turns": 0,
        "opened_at": "", "last_at": "", "closed_at": None, "project": None, "subject": None, "producer": None,
        "sleep": {"eligible": True, "why_not": None, "unsettled": 0, "promoted": 0, "noise": 0},
        "passes": [{"pass": 1, "facts": 2, "turns": 3, "at": "", "partial": False}], "derived": [note],
    }  # fmt: skip
    Server(path, lambda asked: {"result": session if asked["method"] == "session" else {"results": [done, refused]}})
    with noctuary.Client(path) as client:
        written, failed = client.remember_many([{}, {}]).results
        assert isinstance(written, noctuary.RememberResult) and written.id == "raw:1" and written.address.seq == 2
        assert isinstance(failed, noctuary.RefusedItem) and failed.error.message == "no"
        told = client.session("session:1", include=["derived", "passes"])
        assert told.derived is not None and told.derived[0].id == "note:1"
        assert told.passes is not None and told.passes[0].pass_ == 1


def test_an_item_that_is_none_breaks_the_answer_not_the_program(path: str) -> None:
    Server(path, lambda _: {"result": {"results": [{"id": 3}]}})
    with noctuary.Client(path) as client, pytest.raises(msgspec.ValidationError):
        client.remember_many([{}])


def test_an_error_as_a_text_says_which_parameter_and_what_would_do(path: str) -> None:
    data = {"reason": "invalid_input", "parameter": "kind", "allowed": ["raw", "note"], "index": 2, "limit": 0}
    Server(path, lambda _: {"error": {"code": -32602, "message": "no such word", "data": data}})
    with noctuary.Client(path) as client, pytest.raises(noctuary.InvalidInput) as found:
        client.head()
    assert str(found.value) == "kind: no such word (index 2; limit 0; allowed: raw, note)"
    assert found.value.message == "no such word"
    assert str(noctuary.NotFound("gone")) == "gone"

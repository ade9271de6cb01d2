"""Clients that send what no client should: others don't notice, and each line gets the answer it deserves."""

from __future__ import annotations

import json
import random
import resource
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from daemon.limits import LINE_BYTES
from daemon.listening import FILES_KEPT
from tests.system import process
from tests.system.process import DaemonProcess, everything
from tests.system.raw_client import RAW, RawClient, anonymous_bytes, ask, eventually, reason_of, request, unharmed

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def shared() -> Iterator[DaemonProcess]:
    """One daemon for all that must leave it as it was."""
    with tempfile.TemporaryDirectory(prefix="noctuary-") as name:
        daemon = DaemonProcess(Path(name))
        daemon.start()
        yield daemon
        assert daemon.stop() == 0, daemon.logged()[-2000:]
        assert "Traceback" not in daemon.logged() and '"internal"' not in daemon.logged()
        daemon.close()


# --- lines ---------------------------------------------------------------------------------------


def remember(more: bytes, number: bytes = b"7") -> bytes:
    """A `remember` with something put in as it is, valid or not."""
    head = b'{"jsonrpc":"2.0","id":' + number + b',"method":"remember","params":'
    return head + b'{"kind":"raw","role":"user"' + more + b"}}\n"


LINES = {
    "a NUL byte": (remember(b',"text":"a\x00b"'), None, "parse_error", None),
    "bytes that are no UTF-8": (remember(b',"text":"a\xff"'), None, "parse_error", None),
    "no UTF-8 in metadata": (remember(b',"text":"a","metadata":{"a":"\xff"}'), 7, "invalid_input", "metadata"),
    "an encoded surrogate": (remember(b',"text":"a\xed\xa0\x80"'), None, "parse_error", None),
    "a lone surrogate": (remember(b',"text":"a\\ud800"'), 7, "invalid_input", "text"),
    "surrogates the wrong way": (remember(b',"text":"a\\udc00\\ud800"'), 7, "invalid_input", "text"),
    "a surrogate in a name": (remember(b',"text":"a","\\udfff":1'), 7, "invalid_input", "params"),
    "brackets without end": (b"[" * 100_000 + b"\n", None, "parse_error", None),
    "deep nesting": (b"[" * 100_000 + b"]" * 100_000 + b"\n", None, "parse_error", None),
    "deep metadata": (
        remember(b',"text":"a","metadata":{"a":' + b"[" * 400 + b"]" * 400 + b"}"), 7, "invalid_input", "metadata",
    ),
    "a deep parameter": (remember(b',"text":"a","x":' + b"[" * 400 + b"]" * 400), 7, "invalid_input", "x"),
    "5,000 digits": (remember(b',"text":"a","importance":' + b"9" * 5000), 7, "invalid_input", "importance"),
    "5,000 digits and NaN": (
        remember(b',"text":"a","importance":' + b"9" * 5000 + b',"arousal":NaN'), 7, "invalid_input", "importance",
    ),
    "5,000 digits for an id": (remember(b',"text":"a"', b"9" * 5000), None, "invalid_request", "id"),
    "1e999": (remember(b',"text":"a","importance":1e999'), 7, "invalid_input", "importance"),
    "1e999 in metadata": (remember(b',"text":"a","metadata":{"a":1e999}'), 7, "invalid_input", "metadata"),
    "NaN": (remember(b',"text":"a","confidence":NaN'), 7, "invalid_input", "confidence"),
    "Infinity": (remember(b',"text":"a","confidence":Infinity'), 7, "invalid_input", "confidence"),
    "-Infinity in metadata": (remember(b',"text":"a","metadata":{"a":[-Infinity]}'), 7, "invalid_input", "metadata.a"),
    "a byte order mark": (b"\xef\xbb\xbf" + remember(b',"text":"a"'), None, "parse_error", None),
    "a batch": (b"[" + remember(b',"text":"a"')[:-1] + b"]\n", None, "invalid_request", None),
    "an empty batch": (b"[]\n", None, "invalid_request", None),
    "a notification": (b'{"jsonrpc":"2.0","method":"remember","params":{}}\n', None, "invalid_request", "id"),
    "two requests in a line": (remember(b',"text":"a"')[:-1] + remember(b',"text":"b"'), None, "parse_error", None),
    "positional parameters": (
        b'{"jsonrpc":"2.0","id":7,"method":"remember","params":["raw"]}\n', 7, "invalid_request", "params",
    ),
    "no version": (b'{"id":7,"method":"head"}\n', 7, "invalid_request", "jsonrpc"),
    "an envelope with more": (b'{"jsonrpc":"2.0","id":7,"method":"head","auth":1}\n', 7, "invalid_request", None),
    **{
        f"the id {number.decode()[:20]}": (remember(b',"text":"a"', number), None, "invalid_request", "id")
        for number in (b"null", b"true", b"1.0", b"1e2", b"[]", b"{}", b"9223372036854775808", b'"' + b"x" * 129 + b'"')
    },
}  # fmt: skip


@pytest.mark.parametrize(("line", "number", "reason", "parameter"), LINES.values(), ids=LINES)
def test_a_line_that_is_refused_does_nothing_and_the_next_is_answered(
    shared: DaemonProcess, line: bytes, number: int | None, reason: str, parameter: str | None
) -> None:
    before = shared.call("head")["seq"]
    refused, answered = ask(shared.socket, line, request("head", 8))
    assert (refused["id"], reason_of(refused)) == (number, reason)
    assert refused["error"]["data"].get("parameter") == parameter
    assert answered["id"] == 8 and answered["result"]["seq"] == before


def test_what_looks_odd_but_is_sound_is_taken(shared: DaemonProcess) -> None:
    head = b'{"jsonrpc":"2.0","id":%b,"method":"head"}'
    ids = [b"-9223372036854775808", b"9223372036854775807", b'""', b'"' + b"x" * 128 + b'"', b'"\\u0000"', b"7", b"7"]
    answers = ask(shared.socket, *(head % number + b"\r\n\r\n\n \n" for number in ids))
    assert Counter(answer["id"] for answer in answers) == Counter(json.loads(number) for number in ids)
    assert all("result" in answer for answer in answers)
    (nul,) = ask(shared.socket, remember(b',"text":"a\\u0000b"'))
    (memory,) = shared.call("get", ids=[nul["result"]["id"]])["memories"]
    assert memory["text"] == "a\0b"
    twice = b'{"jsonrpc":"2.0","id":1,"id":2,"method":"status","method":"head","params":{"x":1},"params":{}}\n'
    (last,) = ask(shared.socket, twice)
    assert last["id"] == 2 and "seq" in last["result"]


# --- how much ------------------------------------------------------------------------------------


def padded(line: bytes, length: int) -> bytes:
    return line[:-1] + b" " * (length - len(line)) + b"\n"


def test_a_line_at_the_limit_is_taken_and_one_over_closes(shared: DaemonProcess) -> None:
    with unharmed(shared):
        answers = ask(shared.socket, padded(request("head", 1), LINE_BYTES), request("head", 2))
        assert {answer["id"]: reason_of(answer) for answer in answers} == {1: None, 2: None}
        before = len(shared.call("list", sel={"text": "behind it"})["memories"])
        with RawClient(shared.socket) as client:
            behind = request("remember", 2, **{**RAW, "text": "behind it"})
            client.send(request("head", 0), padded(request("head", 1), LINE_BYTES + 1), behind)
            answers = client.rest()
        assert len(answers) == 2 and {answer["id"] for answer in answers} == {0, None}
        (refused,) = (answer["error"]["data"] for answer in answers if "error" in answer)
        assert refused == {"reason": "too_large", "retryable": False, "limit": LINE_BYTES}
        assert len(shared.call("list", sel={"text": "behind it"})["memories"]) == before == 0


def test_a_hundred_megabytes_without_end_are_not_kept(shared: DaemonProcess) -> None:
    before = anonymous_bytes(shared.pid)
    with unharmed(shared), RawClient(shared.socket) as client:
        piece = b"x" * MIB
        for _ in range(100):
            client.send(piece)
        assert reason_of(client.answer()) == "too_large"
        assert anonymous_bytes(shared.pid) - before < 48 * MIB
        with pytest.raises(EOFError):
            client.answer()


@pytest.mark.parametrize("values", [b"0,", b"[],", b'{"a":0},', b'"\\u00e9",'])
def test_millions_of_values_hold_up_nobody(shared: DaemonProcess, values: bytes) -> None:
    many = b'"text":"a","x":[' + values * (7 * MIB // len(values)) + b"0]"
    with unharmed(shared):
        unknown, malformed = ask(shared.socket, remember(b"," + many), remember(b"," + many + b',"y":NaN'))
    assert (unknown["id"], unknown["error"]["data"]["parameter"]) == (7, "x")
    assert reason_of(malformed) == "parse_error"


def test_a_flood_of_rubbish_is_answered_line_by_line(shared: DaemonProcess) -> None:
    with unharmed(shared) as witness, RawClient(shared.socket) as client:
        before = len(witness.acked)
        for _ in range(20):
            client.send(b"x\n" * 1000, b"\n" * 5000)
            assert [reason_of(client.answer()) for _ in range(1000)] == ["parse_error"] * 1000
        assert len(witness.acked) > before


def test_two_thousand_requests_in_one_go_are_all_answered_though_the_input_ended(shared: DaemonProcess) -> None:
    session = {"agent": "tester", "key": "pipeline"}
    lines = [
        request("session", n, session="session:0000000000000") if n % 4 == 3
        else request("remember", n, **{**RAW, "text": f"p{n}"}, session=session)
        for n in range(2000)
    ]  # fmt: skip
    with unharmed(shared), RawClient(shared.socket) as client:
        client.send(*lines)
        client.end_input()
        answers = {answer["id"]: answer for answer in client.rest()}
    assert sorted(answers) == list(range(2000))
    turns = [answers[n]["result"]["turn"] for n in range(2000) if n % 4 != 3]
    assert turns == list(range(1, 1501))
    assert {reason_of(answers[n]) for n in range(3, 2000, 4)} == {"not_found"}


def test_byte_by_byte_in_both_directions_is_a_client_like_others(shared: DaemonProcess) -> None:
    line = request("remember", 1, **{**RAW, "text": "dripping"}) + request("list", 2, sel={"text": "dripping"})
    with unharmed(shared), RawClient(shared.socket) as client:
        for byte in line:
            client.socket.send(bytes((byte,)))
        found = b""
        while found.count(b"\n") < 2:
            found += client.socket.recv(1)
    written, listed = (json.loads(each)["result"] for each in found.splitlines())
    assert [memory["id"] for memory in listed["memories"]] == [written["id"]]


# --- coming and going ----------------------------------------------------------------------------


def test_a_thousand_clients_that_leave_in_the_middle_of_a_request(shared: DaemonProcess) -> None:
    chance = random.Random(7)
    whole = request("remember", 1, **RAW) + request("list", 2, limit=1)
    files = Path(f"/proc/{shared.pid}/fd")
    with unharmed(shared):
        before = len(list(files.iterdir()))
        for _ in range(1000):
            with RawClient(shared.socket) as client:
                client.send(whole[: chance.randrange(len(whole) + 1)])
        eventually(lambda: len(list(files.iterdir())) <= before + 3)


def test_a_write_whose_client_left_is_there_once_after_a_retry(shared: DaemonProcess) -> None:
    def write(number: int) -> dict[str, Any]:
        return {**RAW, "text": f"left {number}", "idempotency_key": f"left-{number}"}

    with unharmed(shared):
        for number in range(100):
            with RawClient(shared.socket) as client:
                client.send(request("remember", 1, **write(number)))
        ids = {shared.call("remember", **write(number))["id"] for number in range(100)}
    found = [memory["id"] for memory in everything(shared) if memory["text"].startswith("left ")]
    assert len(found) == 100 and set(found) == ids


def test_who_comes_when_all_places_are_taken_is_told_so(
    stopped: DaemonProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited = ("/bin/sh", "-c", f'ulimit -n {FILES_KEPT + 24} && exec "$@"', "sh", *process.ENTRY)
    monkeypatch.setattr(process, "ENTRY", limited)
    stopped.start()
    with unharmed(stopped):
        clients: list[RawClient] = []
        while len(clients) < 100:
            clients.append(RawClient(stopped.socket))
            with suppress(BrokenPipeError):
                clients[-1].send(request("head", 1))
            if reason_of(answer := clients[-1].answer()) is not None:
                break
        assert len(clients) == 24, "one is the witness's, and one was told that there is no place"
        assert answer["id"] is None and answer["error"]["data"]["retryable"] is True
        assert reason_of(answer) == "overloaded"
        clients[0].send(request("remember", 2, **RAW))
        assert clients[0].answer()["result"]["duplicate"] is False
        clients[1].close()
        assert eventually(lambda: is_served(stopped))
        for client in clients:
            client.close()
    assert stopped.stop() == 0


def is_served(daemon: DaemonProcess) -> bool:
    """Whether a new connection gets its answer now."""
    with RawClient(daemon.socket) as client:
        try:
            client.send(request("head", 1))
            return reason_of(client.answer()) is None
        except (ConnectionError, EOFError):
            return False


def test_without_a_single_file_left_those_who_are_there_are_served(daemon: DaemonProcess) -> None:
    with unharmed(daemon) as witness:
        soft, hard = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (8, hard))
        with RawClient(daemon.socket) as late:
            late.send(request("head", 1))
            eventually(lambda: "cannot_accept" in daemon.logged())
            seen = len(witness.acked)
            eventually(lambda: len(witness.acked) > seen + 20)
            resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (soft, hard))
            assert "result" in late.answer()

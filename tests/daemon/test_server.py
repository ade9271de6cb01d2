"""The transport, over real sockets: order, pipelining, limits, and clients that misbehave."""

from __future__ import annotations

import json
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from daemon.connection import REQUEST_OVERHEAD_BYTES
from daemon.limits import LINE_BYTES, PIPELINED, PIPELINED_BYTES
from daemon.listening import bind_listener
from daemon.peers import PeerEntry
from journal.codes import CallerRole
from journal.errors import BadConfiguration
from tests.daemon.serving import Running, ask_all, request, serving


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with serving(tmp_path / "s") as found:
        yield found


def test_the_socket_is_ours_and_the_groups(running: Running) -> None:
    assert stat.S_IMODE(running.path.stat().st_mode) == 0o660


def test_writes_keep_their_order_and_a_read_waits_for_them(running: Running) -> None:
    running.service.gate.clear()
    client = running.connect()
    data = b"".join(request(n, "forget", id=f"note:{n}") for n in range(500))
    client.sendall(data + request(1000, "head"))
    running.service.gate.set()
    answers = ask_all(client, request(1001, "forget", id="last"))
    assert running.service.seen == [f"note:{n}" for n in range(500)] + ["last"]
    assert len(answers) == 502
    head = next(a for a in answers if a["id"] == 1000)
    assert head["result"]["params"]["seen"] >= 500


def test_more_than_the_pipeline_is_answered_too(running: Running) -> None:
    count = PIPELINED * 3
    client = running.connect()
    data = b"".join(request(n, "forget", id="a") for n in range(count))
    assert sorted(a["id"] for a in ask_all(client, data)) == list(range(count))


def test_errors_carry_their_id_and_the_connection_goes_on(running: Running) -> None:
    data = b"nonsense\n" + request(1, "nothing") + b"\n" + request(2, "head") + request(3, "head", x=1)
    answers = ask_all(running.connect(), data)
    assert {(a["id"], a.get("error", {}).get("code")) for a in answers} == {
        (None, -32700),
        (1, -32601),
        (2, None),
        (3, -32602),
    }


def test_a_last_line_without_end_is_not_done(running: Running) -> None:
    answers = ask_all(running.connect(), request(1, "forget", id="a") + request(2, "forget", id="b")[:-1])
    assert {a["id"] for a in answers} == {1, None} and running.service.seen == ["a"]


def test_a_line_that_is_too_long_is_told_and_closed(running: Running) -> None:
    client = running.connect()
    sender = threading.Thread(target=client.sendall, args=(b"x" * (LINE_BYTES + 100_000),))
    sender.start()
    with client.makefile("rb") as lines:
        answer = json.loads(lines.readline())
        assert answer["error"]["data"] == {"reason": "too_large", "retryable": False, "limit": LINE_BYTES}
        assert lines.readline() == b""
    sender.join()
    client.close()


def test_a_half_line_is_dropped_and_others_are_served(running: Running) -> None:
    half = running.connect()
    half.sendall(b'{"jsonrpc"')
    assert ask_all(running.connect(), request(1, "head"))[0]["id"] == 1
    with half:
        assert half.recv(1) == b""


def test_a_client_that_does_not_read_is_dropped(running: Running) -> None:
    running.service.big = 1_000_000
    stuck = running.connect()
    stuck.sendall(b"".join(request(n, "head") for n in range(20)))
    other = running.connect()
    with other, other.makefile("rb") as lines:
        # The other one goes on asking until the first is gone from the server.
        for number in range(100_000):
            other.sendall(request(number, "head"))
            assert json.loads(lines.readline())["id"] == number
            if len(running.server._connections) == 1:
                break
        else:
            pytest.fail("it was never dropped")
    stuck.close()


def test_over_the_bytes_in_flight_a_request_is_told_overloaded_and_room_comes_back(tmp_path: Path) -> None:
    with serving(tmp_path / "s", in_flight_bytes=1_000_000) as running:
        running.service.gate.clear()
        line = request(1, "forget", id="a", note="x" * 1000)
        first, second = running.connect(), running.connect()
        first.sendall(line * 400)
        with second.makefile("rb") as lines:
            while running.server._in_flight_bytes < 400 * (len(line) - 1 + REQUEST_OVERHEAD_BYTES):
                second.sendall(request(0, "head"))
                assert json.loads(lines.readline())["id"] == 0
            second.sendall(line * 400)  # together they are more than there is room for
            refused = json.loads(lines.readline())["error"]["data"]
            assert (refused["reason"], refused["retryable"]) == ("overloaded", True) and refused["retry_after_ms"] > 0
            running.service.gate.set()
            answers = [json.loads(lines.readline()) for _ in range(399)]
        assert 0 < sum("result" in answer for answer in answers) < 400
        assert ["result" in answer for answer in ask_all(first, b"")] == [True] * 400
        assert ["result" in answer for answer in ask_all(second, line)] == [True]
    assert running.server._in_flight_bytes == 0


def test_what_one_client_has_in_flight_is_bounded_in_bytes(running: Running) -> None:
    """It is not refused: the daemon stops reading, and goes on when answers have left."""
    running.service.gate.clear()
    client = running.connect()
    line = request(1, "forget", id="a")
    line = line[:-1] + b" " * (LINE_BYTES // 4 - len(line)) + b"\n"
    sender = threading.Thread(target=client.sendall, args=(line * 24,))
    sender.start()
    other = running.connect()
    with other, other.makefile("rb") as lines:
        most = turns_since = 0
        while turns_since < 500:  # far more turns of the loop than it takes to read all that is sent
            other.sendall(request(1, "head"))
            lines.readline()
            most = max(most, running.server._in_flight_bytes)
            turns_since += most >= PIPELINED_BYTES
    assert most < PIPELINED_BYTES + LINE_BYTES
    assert sender.is_alive()
    running.service.gate.set()
    sender.join()
    assert len(ask_all(client, b"")) == 24


def test_when_too_much_waits_those_who_hold_the_most_are_dropped(tmp_path: Path) -> None:
    with serving(tmp_path / "s", held_bytes=4_000_000, half_line_s=60.0) as running:
        modest, greedy = running.connect(), running.connect()
        modest.sendall(b"x" * 100_000)
        greedy.sendall(b"x" * 5_000_000)
        with greedy, suppress(ConnectionResetError):
            assert greedy.recv(1) == b""
        modest.sendall(b"\n" + request(1, "head"))
        assert [answer["id"] for answer in ask_all(modest, b"")] == [None, 1]


def test_an_audit_is_in_nobodys_way(running: Running) -> None:
    running.service.audit_gate.clear()
    auditors = [running.connect() for _ in range(4)]
    for client in auditors:
        client.sendall(request(1, "audit"))
    assert ask_all(running.connect(), request(2, "head"))[0]["id"] == 2
    running.service.audit_gate.set()
    assert all("result" in ask_all(client, b"")[0] for client in auditors)


def test_what_waits_for_a_thread_waits_per_caller_and_connection(running: Running) -> None:
    running.service.audit_gate.clear()
    pool = running.server._own_pools["audit"]
    first, second = running.connect(), running.connect()
    first.sendall(request(0, "audit"))
    while len(pool._turns) or not pool._threads:  # until it is taken
        pass
    first.sendall(b"".join(request(n, "audit") for n in range(1, 4)))
    while len(pool._turns) < 3:
        pass
    second.sendall(request(1, "audit"))
    while len(pool._turns) < 4:
        pass
    ((caller, waiting),) = pool._turns._ring.items()
    assert caller == os.geteuid() and [len(each) for each in waiting.values()] == [3, 1]
    running.service.audit_gate.set()
    assert all("result" in answer for client in (first, second) for answer in ask_all(client, b""))


def test_an_answer_that_cannot_be_written_costs_only_itself(running: Running) -> None:
    data = request(1, "forget", id="a") + request(2, "status") + request(3, "head")
    answers = {answer["id"]: answer for answer in ask_all(running.connect(), data)}
    assert answers[2]["error"]["data"]["reason"] == "internal"
    assert "result" in answers[1] and "result" in answers[3]


def test_roles_and_tenants_are_those_of_the_peer_now(running: Running) -> None:
    client = running.connect()
    with client, client.makefile("rb") as lines:

        def reason(data: bytes) -> str | None:
            client.sendall(data)
            found: str | None = json.loads(lines.readline()).get("error", {}).get("data", {}).get("reason")
            return found

        assert reason(request(1, "audit")) is None
        entry = PeerEntry(role=CallerRole.AGENT, tenant="a", uid=os.geteuid())
        running.loop.call_soon_threadsafe(running.peers.replace, (entry,))
        while reason(request(2, "audit")) is None:
            pass
        assert reason(request(3, "audit")) == "denied"
        assert reason(request(4, "head", tenant="b")) == "not_found"
        assert reason(request(5, "head", tenant="a")) is None
        client.sendall(request(6, "hello", via="mcp"))
        assert json.loads(lines.readline())["result"]["params"]["via"] == "mcp"


def test_stopping_answers_what_was_read(tmp_path: Path) -> None:
    running = Running(tmp_path / "s")
    client = running.connect()
    client.sendall(request(1, "forget", id="a"))
    with client, client.makefile("rb") as lines:
        assert json.loads(lines.readline())["id"] == 1
        running.stop()
        assert lines.readline() == b""


def test_what_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(BadConfiguration):
        bind_listener(tmp_path / "file", None)
    with pytest.raises(BadConfiguration):
        bind_listener(tmp_path / ("x" * 108), None)
    bind_listener(tmp_path / "s", None).close()
    bind_listener(tmp_path / "s", None).close()

"""`cancel` and progress on the connection: what is ended, what is left alone, and what is told in which order."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.serving import Running, ask_all, request, serving


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with serving(tmp_path / "s") as found:
        yield found


def reason_of(answer: dict[str, Any]) -> str | None:
    """The reason of a refusal, None for a result."""
    reason: str | None = answer.get("error", {}).get("data", {}).get("reason")
    return reason


def lines_of(client: socket.socket, count: int) -> list[dict[str, Any]]:
    with client.makefile("rb") as lines:
        return [json.loads(lines.readline()) for _ in range(count)]


def is_cancelled(answer: dict[str, Any]) -> bool:
    return reason_of(answer) == "unavailable" and answer["error"]["data"]["cancelled"] is True


def test_a_question_that_runs_is_cancelled_and_says_so(running: Running) -> None:
    running.service.audit_gate.clear()
    with running.connect() as client:
        client.sendall(request(1, "audit"))
        assert running.service.audits.acquire(timeout=20)
        client.sendall(request(2, "cancel", request=1))
        answers = {answer["id"]: answer for answer in lines_of(client, 2)}
    assert answers[2]["result"] == {"cancelled": True} and is_cancelled(answers[1])


def test_a_question_that_waits_is_cancelled_before_it_is_asked(running: Running) -> None:
    """Behind a write of its own connection, or behind another question for the same thread."""
    running.service.gate.clear()
    with running.connect() as client:
        client.sendall(request(1, "forget", id="a") + request(2, "head") + request(3, "cancel", request=2))
        assert lines_of(client, 1)[0]["result"] == {"cancelled": True}  # while the write isn't answered yet
        running.service.gate.set()
        answers = {answer["id"]: answer for answer in lines_of(client, 2)}
    assert "result" in answers[1] and is_cancelled(answers[2]) and running.service.heads == 0
    running.service.audit_gate.clear()
    with running.connect() as client:
        client.sendall(request(1, "audit") + request(2, "audit"))
        assert running.service.audits.acquire(timeout=20)
        client.sendall(request(3, "cancel", request=2))
        assert lines_of(client, 1)[0]["result"] == {"cancelled": True}
        running.service.audit_gate.set()
        answers = {answer["id"]: answer for answer in lines_of(client, 2)}
    assert "result" in answers[1] and is_cancelled(answers[2])
    assert not running.service.audits.acquire(blocking=False)


@pytest.mark.parametrize("which", ["answered", "never asked", "a foreign one", "a write", "itself", "of another type"])
def test_what_can_not_be_cancelled_is_left_alone(running: Running, which: str) -> None:
    running.service.audit_gate.clear()
    running.service.gate.clear()
    with running.connect() as other, running.connect() as client:
        other.sendall(request(1, "audit"))
        assert running.service.audits.acquire(timeout=20)
        client.sendall(request(2, "head"))
        assert lines_of(client, 1)[0]["id"] == 2
        client.sendall(request(3, "forget", id="a"))
        asked = {
            "answered": 2,
            "never asked": 99,
            "a foreign one": 1,
            "a write": 3,
            "itself": 4,
            "of another type": "1",
        }
        client.sendall(request(4, "cancel", request=asked[which]))
        assert lines_of(client, 1)[0] == {"jsonrpc": "2.0", "id": 4, "result": {"cancelled": False}}
        running.service.gate.set()
        running.service.audit_gate.set()
        assert "result" in lines_of(client, 1)[0] and "result" in lines_of(other, 1)[0]
    assert running.service.seen == ["a"]


def test_an_id_that_is_used_twice_at_a_time_is_answered_twice_and_cancelled_as_both(running: Running) -> None:
    running.service.audit_gate.clear()
    with running.connect() as client:
        client.sendall(request(7, "audit") + request(7, "audit") + request(7, "forget", id="a"))
        assert lines_of(client, 1)[0]["result"]["found"] is True
        client.sendall(request(8, "cancel", request=7))
        answers = lines_of(client, 3)
    assert sorted(answer["id"] for answer in answers) == [7, 7, 8]
    assert [is_cancelled(answer) for answer in answers if answer["id"] == 7] == [True, True]


def test_who_is_gone_has_cancelled_everything(running: Running) -> None:
    running.service.audit_gate.clear()
    with running.connect() as client:
        client.sendall(request(1, "audit") + request(2, "audit"))
        assert running.service.audits.acquire(timeout=20)
    assert running.service.audits_ended.acquire(timeout=20)  # though its gate is closed
    running.service.audit_gate.set()
    assert "result" in ask_all(running.connect(), request(3, "audit"))[0]
    assert running.service.audits.acquire(timeout=20) and not running.service.audits.acquire(blocking=False)


def test_progress_is_told_in_order_to_who_asked_for_it_and_not_behind_the_answer(running: Running) -> None:
    lines = ask_all(running.connect(), request("a", "audit", progress=True) + request("b", "audit"))
    notes = [line["params"] for line in lines if "method" in line]
    assert [(note["phase"], note["done"], note["of"]) for note in notes] == [
        (phase, done, 2) for phase in running.service.phases for done in (0, 2)
    ]
    assert {note["request"] for note in notes} == {"a"}
    answered = next(place for place, line in enumerate(lines) if line.get("id") == "a")
    assert all("method" not in line for line in lines[answered:])


def test_a_brief_question_has_no_progress_behind_its_answer(running: Running) -> None:
    lines = ask_all(running.connect(), request(1, "head", progress=True) + request(2, "head"))
    assert [line["id"] for line in lines] == [1, 2]


def test_notes_to_a_client_that_takes_nothing_are_dropped_and_answers_are_not(tmp_path: Path) -> None:
    with serving(tmp_path / "s", stuck_s=60.0) as running:
        running.service.big = 1_000_000
        running.service.phases = [str(number) for number in range(1000)]
        running.service.audit_gate.clear()
        with running.connect() as client:
            client.sendall(request(1, "audit", progress=True))
            assert running.service.audits.acquire(timeout=20)
            client.sendall(b"".join(request(number, "head") for number in range(2, 5)))
            while running.service.heads < 2:
                ask_all(running.connect(), request(1, "sessions"))
            running.service.audit_gate.set()
            assert running.service.audits_ended.acquire(timeout=20)
            lines = ask_all(client, b"")
    assert sorted(line["id"] for line in lines if "id" in line) == [1, 2, 3, 4]
    assert sum("method" in line for line in lines) < 1000

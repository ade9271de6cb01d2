"""SIGHUP bites at once: for connections that were open before, for what they follow, and between two requests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.process import DaemonProcess
from tests.system.raw_client import RAW, RawClient, reason_of, request
from tests.system.test_reload import Configured


def peer(role: str, tenant: str, *more: str) -> str:
    return "\n".join([f'[[peer]]\nuid = {os.getuid()}\ntenant = "{tenant}"\nrole = "{role}"', *more]) + "\n"


@pytest.fixture
def configured(stopped: DaemonProcess, short_dir: Path) -> Iterator[Configured]:
    made = Configured(stopped, short_dir)
    yield made
    made.close()


def test_another_role_bites_between_two_requests_of_one_connection(configured: Configured) -> None:
    configured.start(peer("agent", "ada"))
    with RawClient(configured.daemon.socket) as client:
        client.send(request("remember", 1, **RAW), request("get", 2, ids=["raw:0000000000001"]))
        assert [reason_of(client.answer()) for _ in range(2)] == [None, None]
        configured.reload(peer("auditor", "ada"))
        client.send(request("remember", 3, **RAW), request("list", 4), request("get", 5, ids=["raw:0000000000001"]))
        answers = {answer["id"]: answer for answer in (client.answer() for _ in range(3))}
        assert {number: reason_of(answer) for number, answer in answers.items()} == {3: "denied", 4: None, 5: "denied"}
        assert answers[4]["result"]["total"] == 1 and not answers[4]["result"]["memories"][0].get("text")
        configured.reload(peer("agent", "ada").replace(str(os.getuid()), "4242"))
        client.send(request("hello", 6))
        assert reason_of(client.answer()) == "denied"


def test_another_tenant_bites_between_two_requests_of_one_connection(configured: Configured) -> None:
    configured.start(peer("agent", "ada", 'reads = ["bob"]'))
    with RawClient(configured.daemon.socket) as client:
        client.send(request("remember", 1, **RAW), request("list", 2, tenants=["ada", "bob"]))
        assert [reason_of(client.answer()) for _ in range(2)] == [None, None]
        configured.reload(peer("agent", "bob"))
        client.send(request("hello", 4), request("list", 5), request("list", 6, tenant="ada"))
        client.send(request("remember", 7, **RAW))
        answers = {answer["id"]: answer for answer in (client.answer() for _ in range(4))}
        assert answers[4]["result"]["tenant"] == "bob"
        assert answers[5]["result"]["total"] == 0 and reason_of(answers[6]) == "not_found"
        assert reason_of(answers[7]) is None
        client.send(request("list", 8), request("list", 9, tenants=["bob", "ada"]))
        answers = {answer["id"]: answer for answer in (client.answer() for _ in range(2))}
        assert answers[8]["result"]["total"] == 1 and reason_of(answers[9]) == "not_found"


@pytest.mark.parametrize(
    ("then", "why"),
    [
        (peer("agent", "bob"), "not_found"),
        (peer("agent", "bob", 'reads = ["ada"]'), None),
        (peer("auditor", "ada"), "denied"),
        (peer("agent", "ada").replace(str(os.getuid()), "4242"), "denied"),
    ],
)
def test_what_is_followed_ends_when_it_may_not_be_followed(configured: Configured, then: str, why: str | None) -> None:
    configured.start(peer("agent", "ada"))
    with RawClient(configured.daemon.socket) as client:
        client.send(request("subscribe", 1), request("remember", 2, **RAW))
        seen = [client.answer() for _ in range(3)]
        while not any(answer.get("method") == "record" for answer in seen):
            seen.append(client.answer())
        configured.reload(then)
        if why is None:
            client.send(request("list", 3, tenant="ada"))
            while (answer := client.answer()).get("id") != 3:
                assert answer["method"] != "end"
            return
        while (answer := client.answer()).get("method") != "end":
            assert answer["method"] in ("record", "mark")
        assert answer["params"]["error"]["data"]["reason"] == why

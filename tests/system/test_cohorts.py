"""Cohorts over the socket and from the command line: their order among other requests, and kills in their middle."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from typing import Any

import pytest

from tests.system.process import ENTRY, ROOT, DaemonProcess
from tests.system.raw_client import RawClient, request

BAD = {"model": "m", "extractor": "v1"}
OF_BAD: dict[str, Any] = {"producer": {"extractor": "v1"}}
MEMBERS = 4000


def fill(daemon: DaemonProcess, count: int) -> None:
    with daemon.client() as client:
        for first in range(0, count, 1000):
            items = [
                {"kind": "raw", "role": "user", "text": f"number {n}", "producer": BAD}
                for n in range(first, min(count, first + 1000))
            ]
            client.call("remember_many", {"items": items}, dict)


def quarantined(daemon: DaemonProcess) -> int:
    return int(daemon.call("list", sel={"status": ["quarantined"]}, limit=1)["total"])


def test_who_looks_sees_what_was_sent_before_and_nothing_behind(daemon: DaemonProcess) -> None:
    raw = {"kind": "raw", "role": "user", "text": "t", "producer": BAD}
    sent = b""
    for number in range(60):
        if number % 20 == 10:
            sent += request("cohort", number, sel=OF_BAD, action="quarantine")
        elif number % 20 == 15:
            sent += request("list", number, sel=OF_BAD)
        else:
            sent += request("remember", number, **raw)
    with RawClient(daemon.socket) as client:
        client.send(sent)
        found = {answer["id"]: answer["result"] for answer in (client.answer() for _ in range(60))}
    assert [found[number]["count"] for number in (10, 30, 50)] == [10, 28, 46]
    assert [found[number]["total"] >= least for number, least in ((15, 14), (35, 32), (55, 50))] == [True] * 3
    seqs = [found[number]["address"]["seq"] for number in range(60) if "address" in found[number]]
    assert seqs == sorted(seqs) and len(seqs) == 54


def test_one_who_only_looks_first_is_refused_like_the_others(daemon: DaemonProcess) -> None:
    with RawClient(daemon.socket) as client:
        client.send(
            request("cohort", 1, sel={}, action="demote"), request("lift", 2, cohort="cohort:x"),
            request("cohort", 3, sel=OF_BAD, action="demote", token="forged"),
            request("remember", 4, kind="raw", text="t"),
            request("cohort", 5, sel=OF_BAD, action="nothing"), request("lift", 6, cohort="cohort:0000000000001"),
            request("head", 7),
        )  # fmt: skip
        found = {answer["id"]: answer for answer in (client.answer() for _ in range(7))}
    reasons = [found[number]["error"]["data"]["reason"] for number in range(1, 7)]
    assert reasons == ["invalid_input"] * 5 + ["not_found"] and "result" in found[7]


@pytest.mark.parametrize("after_s", [0.0, 0.05, 0.15, 0.3, 0.5])
def test_a_kill_in_the_middle_leaves_all_of_a_cohort_or_nothing(daemon: DaemonProcess, after_s: float) -> None:
    fill(daemon, MEMBERS)
    token = daemon.call("cohort", sel=OF_BAD, action="quarantine")["token"]
    params = {"sel": OF_BAD, "action": "quarantine", "token": token, "idempotency_key": "once"}
    acked: list[Any] = []

    def act() -> None:
        try:
            with RawClient(daemon.socket) as client:
                client.send(request("cohort", 1, **params))
                acked.append(client.answer()["result"])
        except (OSError, EOFError, ValueError):
            pass  # it was killed

    asking = threading.Thread(target=act)
    asking.start()
    time.sleep(after_s)  # not to wait for something: to kill at some moment
    daemon.kill()
    asking.join()
    daemon.start()
    assert quarantined(daemon) in ((MEMBERS,) if acked else (0, MEMBERS))
    again = daemon.call("cohort", **params)
    assert again["done"] == MEMBERS == quarantined(daemon)
    assert not acked or again["cohort"] == acked[0]["cohort"]
    assert daemon.call("cohorts")["total"] == 1
    digests = daemon.call("audit", rebuild=True)
    assert digests["findings"] == []
    daemon.call("lift", cohort=again["cohort"])
    assert quarantined(daemon) == 0


def told(daemon: DaemonProcess, *words: str) -> subprocess.CompletedProcess[str]:
    command = [*ENTRY, "--socket", str(daemon.socket), *words]
    return subprocess.run(command, cwd=ROOT, env=daemon.environment, capture_output=True, text=True, check=False)


def test_from_the_command_line(daemon: DaemonProcess) -> None:
    fill(daemon, 30)
    sel = ["--producer", json.dumps({"extractor": "v1"})]
    looked = told(daemon, "cohort", "quarantine", *sel)
    assert looked.returncode == 0 and looked.stdout.startswith("30 memories are meant\n"), looked
    assert "and 10 more" in looked.stdout
    token = looked.stdout.rstrip().split("\n")[-1].split()
    assert token[0] == "--token" and quarantined(daemon) == 0
    done = told(daemon, "cohort", "quarantine", *sel, *token)
    assert done.returncode == 0 and "30 memories touched" in done.stdout and quarantined(daemon) == 30
    cohort = done.stdout.split()[0].rstrip(":")
    listed = told(daemon, "cohorts")
    assert cohort in listed.stdout and "model m extractor v1" in listed.stdout
    lifted = told(daemon, "lift", cohort)
    assert lifted.stdout == f"{cohort} lifted: 30 memories given back\n" and quarantined(daemon) == 0
    assert told(daemon, "lift", cohort).stdout == f"{cohort} was lifted before\n"
    compared = told(daemon, "cohort", "compare", *sel, "--with", '{"producer":{"extractor":"v2"}}')
    assert compared.returncode == 0 and "SELECTION" in compared.stdout
    stale = told(daemon, "cohort", "quarantine", *sel, *token)
    assert (stale.returncode, stale.stdout) == (4, "")
    assert told(daemon, "lift", "cohort:0000000000001").returncode == 1
    assert told(daemon, "cohort", "quarantine").returncode == 2


def test_with_the_client(daemon: DaemonProcess) -> None:
    fill(daemon, 3)
    with daemon.client() as client:
        looked = client.cohort(OF_BAD, "demote")
        assert looked.count == 3 and looked.token is not None
        done = client.cohort(OF_BAD, "demote", token=looked.token)
        assert done.done == 3 and done.cohort is not None
        assert client.cohorts().cohorts[0].count == 3
        assert client.lift(done.cohort).already is False and client.lift(done.cohort).already is True

"""Proposals over a real socket: two who decide at once, a kill in the middle, who may, what the command line says."""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from typing import Any

import pytest

import noctuary
from tests.system.process import DaemonProcess
from tests.system.raw_client import RawClient, eventually, reason_of, request

FACT = {"subject": "the fence", "predicate": "colour", "value": "canary green"}
PROPOSALS = 40


def notes(daemon: DaemonProcess, count: int) -> list[str]:
    with daemon.client() as client:
        turn = client.call("remember", {"kind": "raw", "origin": "stated", "text": "a turn"}, dict)["id"]
        params = {"kind": "note", "origin": "inferred", "text": "a note", "derived_from": [turn]}
        return [client.call("remember", params, dict)["id"] for _ in range(count)]


def staged(daemon: DaemonProcess, count: int) -> list[str]:
    """So many notes that one and the same is to supersede, each by a proposal of its own."""
    newest, *older = notes(daemon, count + 1)
    with daemon.client() as client:
        params = {"proposal_kind": "edge", "memory": newest, "edge": "supersedes"}
        return [client.call("propose", {**params, "other": each}, dict)["proposal"] for each in older]


def rows(daemon: DaemonProcess, status: str) -> dict[str, dict[str, Any]]:
    found = daemon.call("proposals", status=status, limit=1000)["proposals"]
    return {row["proposal"]: row for row in found}


def products(daemon: DaemonProcess) -> dict[str, list[str]]:
    """By proposal, the edges that say they came of it, as the records have them."""
    found: dict[str, list[str]] = {}
    for frame in daemon.call("records", types=["superseded"], limit=1000)["frames"]:
        found.setdefault(frame["event"]["proposal"], []).append(frame["event"]["edge"])
    return found


def decisions(proposals: list[str]) -> bytes:
    return b"".join(request("decide", number, proposal=each, accept=True) for number, each in enumerate(proposals))


def test_of_two_who_decide_the_same_at_once_exactly_one_does(daemon: DaemonProcess) -> None:
    proposals = staged(daemon, PROPOSALS)
    begin = threading.Barrier(2)
    answers: list[list[dict[str, Any]]] = [[], []]

    def decide_all(place: int) -> None:
        with RawClient(daemon.socket) as client:
            begin.wait(30)
            client.send(decisions(proposals))
            client.end_input()
            answers[place] = sorted(client.rest(), key=lambda answer: answer["id"])

    threads = [threading.Thread(target=decide_all, args=(place,)) for place in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [len(each) for each in answers] == [PROPOSALS, PROPOSALS]
    for one, other in zip(*answers, strict=True):
        assert sorted([reason_of(one) or "applied", reason_of(other) or "applied"]) == ["applied", "not_found"]
    applied = rows(daemon, "applied")
    assert {ref: row["produced"] for ref, row in applied.items()} == products(daemon)
    assert all(len(row["produced"]) == 1 for row in applied.values()) and set(applied) == set(proposals)


def test_a_kill_leaves_no_decision_by_half_and_none_that_was_answered_is_lost(daemon: DaemonProcess) -> None:
    proposals = staged(daemon, PROPOSALS)
    with RawClient(daemon.socket) as client:
        client.send(decisions(proposals[: PROPOSALS // 2]))
        answered = [client.answer()]
        client.send(decisions(proposals[PROPOSALS // 2 :]))
        daemon.kill()
        with suppress(ConnectionError):  # it was killed while it wrote
            while (line := client.line()).endswith(b"\n"):
                answered.append(json.loads(line))
    daemon.start()
    applied, waiting = rows(daemon, "applied"), rows(daemon, "proposed")
    assert applied.keys() | waiting.keys() == set(proposals)
    assert {ref: row["produced"] for ref, row in applied.items()} == products(daemon)
    known = [row["produced"] for row in applied.values()]
    assert all(answer["result"]["produced"] in known for answer in answered) and len(applied) >= len(answered)
    for proposal in waiting:
        assert daemon.call("decide", proposal=proposal, accept=True)["decided"] == "applied"
    superseded = daemon.call("list", sel={"status": ["superseded"]}, limit=1000)
    assert superseded["total"] == PROPOSALS
    audit = daemon.audit()
    assert audit["findings"] == []


def test_the_client_s_retry_under_its_key_is_answered_behind_a_kill(daemon: DaemonProcess) -> None:
    (proposal,) = staged(daemon, 1)
    first = daemon.call("decide", proposal=proposal, accept=True, idempotency_key="k")
    daemon.kill()
    daemon.start()
    again = daemon.call("decide", proposal=proposal, accept=True, idempotency_key="k")
    assert again == {**first, "duplicate": True}
    with pytest.raises(noctuary.NotFound):
        daemon.call("decide", proposal=proposal, accept=True)


def test_an_auditor_lists_without_words_and_may_not_decide(stopped: DaemonProcess) -> None:
    stopped.start()
    (note,) = notes(stopped, 1)
    proposal = stopped.call("propose", proposal_kind="fact", memory=note, fact=FACT, note="why")["proposal"]
    stopped.stop()
    config = stopped.state.parent / "auditor.toml"
    config.write_text(f'[[peer]]\nuid = {os.getuid()}\ntenant = "default"\nrole = "auditor"\n')
    stopped.spawn("--config", str(config))
    eventually(lambda: _listed(stopped))
    (row,) = _listed(stopped)
    assert (row["proposal"], row["memory"], row["fact"], row["note"]) == (proposal, note, None, None)
    for verb, params in (
        ("decide", {"proposal": proposal, "accept": True}),
        ("propose", {"proposal_kind": "resolution", "memory": note}),
        ("review", {"what": ["proposals"]}),
    ):
        with pytest.raises(noctuary.Denied):
            stopped.call(verb, **params)
    assert [row["status"] for row in _listed(stopped)] == ["proposed"]


def _listed(daemon: DaemonProcess) -> list[dict[str, Any]]:
    try:
        return list(daemon.call("proposals")["proposals"])
    except (noctuary.Unreachable, noctuary.Unavailable):
        return []


def test_the_words_rest_nowhere_but_sealed(daemon: DaemonProcess) -> None:
    (note,) = notes(daemon, 1)
    proposal = daemon.call("propose", proposal_kind="fact", memory=note, fact=FACT, note="canary reason")["proposal"]
    daemon.call("decide", proposal=proposal, accept=True)
    assert daemon.stop() == 0
    for path, content in daemon.files().items():
        assert b"canary" not in content, path
    assert "canary" not in daemon.logged()
    daemon.start()
    (memory,) = daemon.call("get", ids=[note])["memories"]
    assert [fact["value"] for fact in memory["facts"]] == ["canary green"]


def test_the_command_line_stages_lists_and_decides(daemon: DaemonProcess) -> None:
    one, other = notes(daemon, 2)
    kind, _, tsid = one.partition(":")
    staged_one = daemon.command("propose", "edge", kind, tsid, "--other", other, "--edge", "extends", "--note", "why")
    proposal = json.loads(staged_one.stdout)["proposal"]
    assert (staged_one.returncode, json.loads(daemon.command("proposals").stdout)["total"]) == (0, 1)
    assert daemon.command("decide", proposal).returncode == 2, "which way is never a default"
    assert daemon.command("decide", proposal, "--accept").returncode == 0
    again = daemon.command("decide", proposal, "--no-accept")
    assert (again.returncode, json.loads(again.stderr)["error"]["data"]["reason"]) == (1, "not_found")
    rejected = daemon.command("propose", "resolution", one)
    assert daemon.command("decide", json.loads(rejected.stdout)["proposal"], "--no-accept").returncode == 0
    strange = daemon.command("propose", "resolution", one, "--edge", "extends")
    assert (strange.returncode, json.loads(strange.stderr)["error"]["data"]["parameter"]) == (4, "edge")

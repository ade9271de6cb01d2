"""A planted defect, through the socket: one extractor's memories of one window among look-alikes, in two tenants.

Recall and precision of the selection are 1.0 at both ends of the window (the first millisecond is in it, the last is
not); quarantine hides exactly those from default reads while a trace still shows them; lifting gives back every byte.
The clock is the daemon's own, so the window is made of the times that it gave to what was written.
"""

from __future__ import annotations

import itertools
import json
import time
from datetime import datetime, timedelta
from typing import Any

import pytest

import noctuary
from tests.system.process import DaemonProcess

BAD = {"agent": "sleeper", "model": "m", "version": "2026-11-01", "extractor": "v7"}
LOOK_ALIKES: tuple[dict[str, str] | None, ...] = (
    {**BAD, "extractor": "v6"}, {**BAD, "extractor": "v70"}, {"agent": "sleeper", "model": "v7"}, {"version": "v7"},
    None,
)  # fmt: skip
OF_BAD = {"producer": {"extractor": "v7"}}
ROUNDS = 7
WINDOW = range(2, 5)
"""The rounds in which the defect was made; the same extractor wrote well before and after."""
TENANTS = ("ours", "theirs")


class Planted:
    """What both tenants wrote, round by round; of our tenant: the bad of each round, and its time."""

    def __init__(self, daemon: DaemonProcess) -> None:
        self.client = daemon.client("ours")
        self.bad: list[str] = []
        self.at: list[str] = []
        self.derived: list[str] = []
        self.all: dict[str, list[str]] = {tenant: [] for tenant in TENANTS}
        with daemon.client("theirs") as theirs:
            for _ in range(ROUNDS):
                for tenant, client in (("ours", self.client), ("theirs", theirs)):
                    self._round(tenant, client)

    def _round(self, tenant: str, client: noctuary.Client) -> None:
        turn = _written(client, {"kind": "raw", "role": "user", "text": "what was said"})
        note = {"kind": "note", "origin": "inferred", "text": "what was made of it", "derived_from": [turn["id"]]}
        made = [turn, *(_written(client, {**note, **_by(stamp)}) for stamp in LOOK_ALIKES)]
        bad = _written(client, {**note, **_by(BAD)})
        belief = {"kind": "belief", "origin": "derived", "text": "so it is", "derived_from": [bad["id"]]}
        derived = _written(client, {**belief, **_by(LOOK_ALIKES[0])})
        self.all[tenant] += [each["id"] for each in (*made, bad, derived)]
        if tenant == "ours":
            self.bad.append(bad["id"])
            self.at.append(bad["at"])
            self.derived.append(derived["id"])

    @property
    def planted(self) -> list[str]:
        return [self.bad[number] for number in WINDOW]

    @property
    def sel(self) -> dict[str, Any]:
        """From the very millisecond of the first to that of the first one behind the window."""
        return {**OF_BAD, "since": self.at[WINDOW.start], "until": self.at[WINDOW.stop]}

    def listed(self, **more: Any) -> list[dict[str, Any]]:
        found = self.client.call("list", {"limit": 1000, "full": True, **more}, dict)
        assert found["next_cursor"] is None
        memories: list[dict[str, Any]] = found["memories"]
        return memories


def _by(stamp: dict[str, str] | None) -> dict[str, Any]:
    return {} if stamp is None else {"producer": stamp}


def _written(client: noctuary.Client, params: dict[str, Any]) -> dict[str, Any]:
    """The memory; nothing else is written in its millisecond."""
    ref = client.call("remember", params, dict)["id"]
    memory: dict[str, Any] = client.call("get", {"ids": [ref]}, dict)["memories"][0]
    began_ms = time.time_ns() // 1_000_000
    while time.time_ns() // 1_000_000 == began_ms:
        pass
    return memory


def ids(memories: list[dict[str, Any]]) -> list[str]:
    return [memory["id"] for memory in memories]


@pytest.fixture
def planted(daemon: DaemonProcess) -> Planted:
    return Planted(daemon)


def test_the_planted_defect_is_caught_hidden_traced_and_given_back(daemon: DaemonProcess, planted: Planted) -> None:
    client, before = planted.client, planted.listed()
    assert len({*planted.at}) == ROUNDS and ids(before) == planted.all["ours"]
    looked = client.call("cohort", {"sel": planted.sel, "action": "quarantine"}, dict)
    caught, meant = set(looked["ids"]), set(planted.planted)
    recall, precision = len(caught & meant) / len(meant), len(caught & meant) / len(caught)
    assert (recall, precision, looked["count"]) == (1.0, 1.0, len(WINDOW))
    assert set(looked["downstream"]) == {planted.derived[number] for number in WINDOW}
    assert planted.listed() == before, "who only looks changes nothing"
    acted = {"sel": planted.sel, "action": "quarantine", "token": looked["token"]}
    cohort = client.call("cohort", acted, dict)["cohort"]
    assert ids(planted.listed()) == [ref for ref in planted.all["ours"] if ref not in meant]
    assert ids(planted.listed(sel={"status": ["quarantined"]})) == planted.planted
    for number, ref in enumerate(planted.bad):
        nodes = client.call("trace", {"id": planted.derived[number]}, dict)["nodes"]
        hidden = [node["ref"] for node in nodes if node["status"] == "quarantined"]
        assert hidden == ([ref] if ref in meant else []), number
        (memory,) = client.call("get", {"ids": [ref]}, dict)["memories"]
        assert memory["status"] == ("quarantined" if ref in meant else "active")
    daemon.kill()
    daemon.start()
    assert ids(planted.listed(sel={"status": ["quarantined"]})) == planted.planted
    assert client.call("lift", {"cohort": cohort}, dict)["done"] == len(WINDOW)
    assert json.dumps(planted.listed()) == json.dumps(before)
    with daemon.client("theirs") as theirs:
        found = theirs.call("list", {"limit": 1000, "full": True, "sel": {"producer": {"extractor": "v7"}}}, dict)
        assert found["total"] == ROUNDS and {memory["status"] for memory in found["memories"]} == {"active"}
        with pytest.raises(noctuary.NotFound):
            theirs.call("lift", {"cohort": cohort}, dict)
    assert daemon.audit()["findings"] == []


def test_a_millisecond_at_either_end_of_the_window_decides(planted: Planted) -> None:
    """The window begins with what was written in its first millisecond, and ends before its last one."""
    for since_by, until_by in itertools.product((-1, 0, 1), (-1, 0, 1)):
        sel = {**OF_BAD, "since": _moved(planted.at[2], since_by), "until": _moved(planted.at[5], until_by)}
        first, last = 3 if since_by > 0 else 2, 5 if until_by > 0 else 4
        looked = planted.client.call("cohort", {"sel": sel, "action": "demote"}, dict)
        assert sorted(looked["ids"]) == sorted(planted.bad[first : last + 1]), (since_by, until_by)


def _moved(at: str, by_ms: int) -> str:
    moved = datetime.fromisoformat(at) + timedelta(milliseconds=by_ms)
    return moved.isoformat(timespec="milliseconds").replace("+00:00", "Z")

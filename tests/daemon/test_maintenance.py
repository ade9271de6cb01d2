"""A tenant in maintenance: whatever would change what it knows is refused, whichever verb says so. Asking goes on, and
so does erasure (contract §4.7)."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from daemon.refusal import Reason
from daemon.wire.verbs import VERBS
from tests.daemon.proposed import FACT, head, propose
from tests.daemon.told import Told, reason_of

GOES_ON: dict[str, dict[str, Any]] = {
    "hold": {"sel": {"ids": ["@note"]}},
    "purge": {"ids": ["@note"]},
    "vacuum": {"force": True},
}
WRITING = sorted(v.name for v in VERBS.values() if v.writes and v.name not in {"lifecycle", *GOES_ON})
OF_NOTES = {"sel": {"kinds": ["note"]}}
STATED = {"text": "so it is", "origin": "stated"}
PARAMS: dict[str, dict[str, Any]] = {
    "remember": {"kind": "raw", **STATED},
    "remember_many": {"items": [{"kind": "raw", **STATED}]},
    **{verb: {"id": "@note"} for verb in ("forget", "verify", "reinforce", "weaken", "reaffirm")},
    "recover": {"id": "@forgotten"},
    "mark": {"id": "@note", "mark": "archived"},
    "relate": {"from": "@note", "to": "@other", "type": "extends"},
    "revise": {"id": "@note", **STATED},
    "session_open": {"agent": "claude", "key": "another"},
    "session_close": {"session": "@session"},
    "propose": {"proposal_kind": "fact", "memory": "@note", "fact": FACT},
    "decide": {"proposal": "@proposal", "accept": True},
    "cohort": {**OF_NOTES, "action": "demote", "token": "@token"},
    "lift": {"cohort": "@cohort"},
}


@pytest.fixture
def things(told: Told) -> dict[str, str]:
    """What the verbs are about, and that each of them could be done."""
    turn = told.raw()
    found = {name: told.note(turn) for name in ("note", "other", "forgotten")}
    told.do("forget", found["forgotten"])
    found["session"] = told.write("session_open", {"agent": "claude", "key": "one"})["session"]
    found["proposal"] = propose(told, "resolution", found["note"])
    demoted = {"sel": {"ids": [turn]}, "action": "demote"}
    found["cohort"] = told.write("cohort", {**demoted, "token": told.write("cohort", demoted)["token"]})["cohort"]
    found["token"] = told.write("cohort", {**OF_NOTES, "action": "demote"})["token"]
    return found


def filled(value: Any, things: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: filled(each, things) for name, each in value.items()}
    if isinstance(value, list):
        return [filled(each, things) for each in value]
    return things[value[1:]] if isinstance(value, str) and value.startswith("@") else value


def test_every_verb_that_writes_is_tried() -> None:
    assert sorted(PARAMS) == WRITING


@pytest.mark.parametrize("verb", WRITING)
def test_nothing_that_writes_is_taken_in_maintenance(told: Told, things: dict[str, str], verb: str) -> None:
    """B12: opening a session no less than writing a memory."""
    params = filled(PARAMS[verb], things)
    told.write("lifecycle", {"state": "maintenance"})
    before, memories = head(told), told.read("list", {"full": True, "sel": {"status": ["active", "forgotten"]}})
    assert reason_of(partial(told.write, verb, params))[0] is Reason.LIFECYCLE
    assert head(told) == before
    assert told.read("list", {"full": True, "sel": {"status": ["active", "forgotten"]}}) == memories
    told.write("lifecycle", {"state": "active"})
    written = head(told)
    told.write(verb, params)
    assert head(told) > written, "it was refused for nothing else"


@pytest.mark.parametrize("verb", GOES_ON)
def test_erasure_goes_on_in_maintenance_and_does_not_end_it(told: Told, things: dict[str, str], verb: str) -> None:
    told.write("lifecycle", {"state": "maintenance"})
    before = head(told)
    told.write(verb, filled(GOES_ON[verb], things))
    assert head(told) > before
    assert told.write("lifecycle", {})["state"] == "maintenance"
    assert reason_of(partial(told.write, "remember", PARAMS["remember"]))[0] is Reason.LIFECYCLE
    (note,) = told.read("get", {"ids": [things["note"]]})["memories"]
    assert note["status"] == ("purged" if verb == "purge" else "active")


def test_what_is_held_in_maintenance_is_held(told: Told, things: dict[str, str]) -> None:
    told.write("lifecycle", {"state": "maintenance"})
    told.write("hold", filled(GOES_ON["hold"], things))
    assert reason_of(partial(told.write, "purge", filled(GOES_ON["purge"], things)))[0] is Reason.LEGAL_HOLD

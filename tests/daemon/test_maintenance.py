"""A tenant in maintenance: whatever would change it is refused, whichever verb says so, and asking goes on."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from daemon.refusal import Reason
from daemon.wire.verbs import VERBS
from tests.daemon.proposed import FACT, head, propose
from tests.daemon.told import Told, reason_of

WRITING = sorted(verb.name for verb in VERBS.values() if verb.writes and verb.name != "lifecycle")
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

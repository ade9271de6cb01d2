"""What lies outside the store: each once, also what was brought later, and told to whom may know it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from daemon.caller import Caller
from daemon.refusal import Reason
from daemon.wire.times import format_ms
from daemon.wire.verbs import VERBS
from journal.codes import CallerRole
from journal.events import ResolvableChanged
from journal.tsid import parse_memory_ref
from tests.daemon.slept import Slept
from tests.daemon.told import Told, reason_of, remember

AUDITOR = Caller(uid=7, role=CallerRole.AUDITOR, content=False)
PAGE = {"kind": "url", "id": "https://example.org/page"}
PAPER = {"kind": "document", "id": "paper"}


def shown(external: dict[str, Any], resolvable: bool = True) -> dict[str, Any]:
    return {**external, "resolvable": resolvable}


def evidence_of(told: Any, ref: str) -> tuple[list[Any], list[Any]]:
    """As `get` has it, and as `explain` has it."""
    return told.memory(ref)["evidence"], [each["ref"] for each in told.read("explain", {"id": ref})["evidence"]]


def test_what_is_named_twice_stands_there_once(told: Told) -> None:
    turn = told.raw()
    note = remember(told, "note", PAGE, turn, {**PAGE, "resolvable": True}, "context:x", PAPER, "context:x")
    assert told.memory(note)["derived_from"] == [turn, shown(PAGE), "context:x", shown(PAPER)]
    traced = told.read("trace", {"id": note})["edges"]
    assert len(traced) == len({(edge["from"], edge["to"]) for edge in traced}) == 4


@pytest.mark.parametrize("parameter", ["derived_from", "evidence"])
def test_what_is_said_to_be_resolvable_and_not_is_refused(told: Told, parameter: str) -> None:
    params = {"kind": "raw", "origin": "told", "text": "x", parameter: [PAGE, {**PAGE, "resolvable": False}]}
    reason, data = reason_of(lambda: told.write("remember", params))
    assert (reason, data["parameter"]) == (Reason.INVALID_INPUT, parameter)


@pytest.mark.parametrize("enforce", [True, False])
def test_annotations_never_stand_alone_enforced_or_not(told: Told, enforce: bool) -> None:
    turn = told.raw()
    told.write("lifecycle", {"enforce": enforce})
    reason, data = reason_of(lambda: remember(told, "note", "context:x"))
    assert (reason, data["parameter"]) == (Reason.PROVENANCE, "derived_from")
    remember(told, "note", "context:x", turn)


def test_support_that_is_brought_later_is_shown_once_and_inherited(slept: Slept) -> None:
    turn = slept.turn("t")
    made = {"kind": "note", "origin": "told", "text": "n", "derived_from": [turn, PAPER], "evidence": [PAGE]}
    note = str(slept.write("remember", made)["id"])
    tool = {"kind": "tool", "id": "t"}
    slept.write("verify", {"id": note, "evidence": [PAGE, tool]})
    slept.write("weaken", {"id": note, "evidence": [PAPER, turn], "note": "n"})
    wanted = [turn, shown(PAGE), shown(tool), shown(PAPER)]
    assert evidence_of(slept, note) == (wanted, [turn, "url:" + PAGE["id"], "tool:t", "document:paper"])
    weakened = next(r for chunk in slept.store.log.chunks() for r in chunk if type(r.event).__name__ == "Weakened")
    slept.append(ResolvableChanged(memory=parse_memory_ref(note), owner_seq=weakened.seq, index=0, resolvable=False))
    wanted[3] = shown(PAPER, False)
    assert evidence_of(slept, note)[0] == wanted
    states = {each["ref"]: each["state"] for each in slept.explain(note)["evidence"]}
    assert states["document:paper"] == "unavailable"
    slept.write("revise", {"id": note, "disposition": "move", "fields": {"topic": "t"}})
    revised = str(slept.write("revise", {"id": note, "text": "n2", "origin": "told"})["id"])
    assert evidence_of(slept, revised)[0] == wanted, "inherited, and as it can be followed now"
    assert slept.memory(revised)["derived_from"] == [], "what it was made from is no support"
    again = str(slept.write("revise", {"id": revised, "text": "n3", "origin": "told"})["id"])
    assert evidence_of(slept, again)[0] == wanted
    assert slept.rebuilt_alike()


def test_what_was_brought_later_was_not_there_before(slept: Slept) -> None:
    note = slept.turn("t")
    then = slept.now_ms
    slept.now_ms += 60_000
    slept.write("verify", {"id": note, "evidence": [PAGE]})
    known = {"ids": [note], "as_known_at": format_ms(then)}
    assert slept.memory(note)["evidence"] == [shown(PAGE)]
    assert slept.read("get", known)["memories"][0]["evidence"] == []


def test_who_may_not_read_content_is_told_the_kinds_by_explain_and_trace_alike(slept: Slept) -> None:
    turn = slept.turn("t")
    other = {"kind": "url", "id": "https://example.org/other"}
    made = {"kind": "note", "origin": "told", "text": "n", "derived_from": [turn, PAPER, PAGE, other, "context:x"]}
    note = str(slept.write("remember", {**made, "evidence": [PAGE], "source": PAPER})["id"])
    slept.write("verify", {"id": note, "evidence": [other]})

    def asked(verb: str) -> Any:
        params = msgspec.convert({"id": note}, VERBS[verb].params)
        return json.loads(msgspec.json.encode(slept.service.read(verb, params, AUDITOR)))

    told, walk = asked("explain"), asked("trace")
    assert [each["ref"] for each in told["sources"]] == [turn, "document", "url", "context"]
    assert [each["ref"] for each in told["evidence"]] == ["url"]
    assert told["source"] == {
        "ref": "document",
        "state": "live",
        "text": None,
        "cut": False,
        "purged_at": None,
        "quarantined": False,
    }
    assert [node["ref"] for node in walk["nodes"]] == [note, turn, "document", "url", "context"]
    assert [edge["to"] for edge in walk["edges"]] == [turn, "document", "url", "context"]
    assert "example.org" not in json.dumps([told, walk])

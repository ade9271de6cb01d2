"""revise: when the predecessor stops to hold, who may say `stated`, and what is self-scoped."""

from __future__ import annotations

from typing import Any

import pytest

from daemon.refusal import Reason
from daemon.wire.times import format_ms
from journal.events import MemoryCreated
from tests.daemon.slept import Slept
from tests.daemon.told import DAY_MS, START_MS, Told, reason_of, remember

MODEL = {"model": "m", "version": "1"}


@pytest.mark.parametrize(
    ("begins", "ended", "wanted"),
    [
        (None, None, 0), (-9, None, 0), (3, None, 3), (-9, -5, -5), (-9, 5, 0), (3, 9, 3), (3, 3, 3), (None, -5, -5),
    ],
)  # fmt: skip
def test_the_predecessor_holds_no_longer_than_before_and_never_ends_before_it_begins(
    told: Told, begins: int | None, ended: int | None, wanted: int
) -> None:
    times = {"valid_from": begins, "valid_to": ended}
    given = {name: format_ms(START_MS + days * DAY_MS) for name, days in times.items() if days is not None}
    note = remember(told, "note", told.raw(), **given)
    successor = told.do("revise", note, text="anew", origin="told")["id"]
    memory = told.memory(note)
    assert memory["valid_to"] == format_ms(START_MS + wanted * DAY_MS)
    assert memory["valid_from"] == given.get("valid_from")
    after = told.memory(successor)
    starts = format_ms(START_MS + max(0, begins or 0) * DAY_MS)
    assert (after["valid_from"], after["valid_to"]) == (starts, None), "no moment has both"
    for moment in (START_MS - 400 * DAY_MS, START_MS - 6 * DAY_MS, START_MS, START_MS + 20 * DAY_MS):
        found = told.read("get", {"ids": [note, successor], "as_of": format_ms(moment)})["memories"]
        assert len(found) <= 1, "half-open windows meet"


def test_what_a_model_made_is_revised_as_stated_only_in_words_that_were_said(slept: Slept) -> None:
    turn = slept.turn("the gate is  green")
    note = {"kind": "note", "origin": "inferred", "text": "gate: green", "derived_from": [turn]}
    by_model = str(slept.write("remember", {**note, "producer": MODEL})["id"])
    by_hand = str(slept.write("remember", note)["id"])

    def revised(ref: str, text: str, origin: str = "stated", **fields: Any) -> str:
        return str(slept.write("revise", {"id": ref, "text": text, "origin": origin, "fields": fields})["id"])

    reason, data = reason_of(lambda: revised(by_model, "the gate is red"))
    assert (reason, data["parameter"], data["hint"]) == (Reason.PROVENANCE, "origin", "inferred")
    between = revised(by_model, "the gate may be green", "inferred")
    assert reason_of(lambda: revised(between, "the gate is red"))[0] is Reason.PROVENANCE, (
        "the version before had no stamp"
    )
    assert slept.memory(revised(between, "gate is green"))["origin"] == "stated", "it stands on the turn that says so"
    said = slept.turn("the gate is green, I think", producer=MODEL)
    assert reason_of(lambda: revised(said, "the gate is red"))[0] is Reason.PROVENANCE
    assert slept.memory(revised(said, "the gate is green"))["origin"] == "stated", "the turn itself says so"
    assert slept.memory(revised(by_hand, "the gate is red"))["origin"] == "stated", "no model is named"


def test_a_turn_that_supports_a_revision_may_hold_its_words(slept: Slept) -> None:
    turn, other = slept.turn("something else"), slept.turn("the gate is red")
    note = {"kind": "note", "origin": "inferred", "text": "n", "derived_from": [turn], "producer": MODEL}
    made = str(slept.write("remember", note)["id"])
    params = {"id": made, "text": "the gate is red", "origin": "stated"}
    assert reason_of(lambda: slept.write("revise", params))[0] is Reason.PROVENANCE
    slept.write("revise", {**params, "fields": {"evidence": [other]}})


@pytest.mark.parametrize(("subject", "effective"), [("self", 0.7), ("Self", 0.5), ("myself", 0.5), (None, 0.5)])
def test_a_belief_about_the_agent_itself_decays_as_a_value_does(
    told: Told, subject: str | None, effective: float
) -> None:
    note = remember(told, "note", told.raw())
    given = {} if subject is None else {"subject": subject}
    belief = remember(told, "belief", note, **given)
    told.now_ms += 3000 * DAY_MS
    revised = told.do("revise", belief, text="anew", origin="derived")["id"]
    assert told.memory(belief)["confidence"] == {"stored": 0.8, "effective": effective}
    told.now_ms += 60 * DAY_MS
    assert told.memory(revised)["confidence"]["effective"] == (0.795 if subject == "self" else 0.78)
    items = told.read("review", {"what": ["uncertain"], "threshold": 0.9})["items"]
    assert {item["id"]: item["confidence"] for item in items}[revised] == told.memory(revised)["confidence"][
        "effective"
    ]
    node = told.read("trace", {"id": revised})["nodes"][0]
    assert node["confidence"] == told.memory(revised)["confidence"]["effective"]


def test_only_beliefs_are_self_scoped_and_a_revision_that_is_about_another_is_not(told: Told) -> None:
    turn = told.raw()
    note = remember(told, "note", turn, subject="self")
    belief = remember(told, "belief", note, subject="self")
    other = told.do("revise", belief, text="anew", origin="derived", fields={"subject": "bob"})["id"]
    told.now_ms += 3000 * DAY_MS
    effective = [told.memory(ref)["confidence"]["effective"] for ref in (note, belief, other)]
    assert effective == [0.4, 0.7, 0.5]
    made = (record.event for chunk in told.store.log.chunks() for record in chunk)
    scoped = [event.self_scoped for event in made if isinstance(event, MemoryCreated)]
    assert scoped == [False, False, True, False]
    assert told.rebuilt_alike()


def test_the_subject_of_a_session_counts_too(told: Told) -> None:
    note = remember(told, "note", told.raw())
    session = told.write("session_open", {"agent": "a", "key": "k", "subject": "self"})["session"]
    belief = remember(told, "belief", note, session=session)
    told.now_ms += 3000 * DAY_MS
    assert told.memory(belief)["confidence"]["effective"] == 0.7

"""What is quarantined where nobody asked for it: told as what it is in `explain` and `session`, left out elsewhere."""

from __future__ import annotations

from typing import Any

from daemon.cli import render
from tests.daemon.cohorted import BAD, OF_BAD, Cohorted


def reviewed(held: Cohorted, what: str, **more: Any) -> list[str]:
    return [item["id"] for item in held.read("review", {"what": [what], **more})["items"]]


def test_a_source_that_is_quarantined_is_told_so(held: Cohorted) -> None:
    note = held.note(BAD)
    belief = held.belief(note)
    assert held.explain(belief)["sources"][0]["quarantined"] is False
    cohort = held.act(OF_BAD)
    (source,) = held.explain(belief)["sources"]
    assert (source["ref"], source["state"], source["quarantined"]) == (note, "live", True)
    assert f"{note} (live, quarantined)" in " ".join(render.render(held.explain(belief), "explain").split())
    held.lift(cohort)
    assert held.explain(belief)["sources"][0]["quarantined"] is False


def test_a_turn_that_is_quarantined_is_told_so_in_its_session(held: Cohorted) -> None:
    turn = held.turn("said")
    held.act({"ids": [turn]})
    (told,) = held.read("session", {"session": held.ref(), "include": ["turns"]})["memories"]
    assert (told["id"], told["status"]) == (turn, "quarantined")


def test_what_a_verified_memory_stands_on_gains_nothing_while_it_is_quarantined(held: Cohorted) -> None:
    note, other = held.note(BAD), held.note(None)
    belief = held.belief(note, other)
    held.write("weaken", {"id": note, "amount": 0.5})
    cohort = held.act(OF_BAD)
    assert [each["id"] for each in held.write("verify", {"id": belief})["boosted"]] == [other]
    assert held.memory(note)["strength"] == 0.5
    held.lift(cohort)
    assert [each["id"] for each in held.write("verify", {"id": belief})["boosted"]] == [note, other]


def test_a_review_leaves_out_what_is_quarantined(held: Cohorted) -> None:
    turn = held.turn("said")
    note, other = held.note(BAD, turn, confidence=0.1), held.note(None, turn)
    held.write("relate", {"from": note, "to": other, "type": "contradicts"})
    proposal = held.write("propose", {"proposal_kind": "resolution", "memory": note})["proposal"]
    held.write("forget", {"id": turn})
    found = {
        "uncertain": [note], "ungrounded": [note, other], "flags": [note, other], "contradictions": [note],
        "proposals": [proposal],
    }  # fmt: skip
    assert {what: reviewed(held, what, threshold=0.3) for what in found} == found
    cohort = held.act(OF_BAD)
    left = {"uncertain": [], "ungrounded": [other], "flags": [other], "contradictions": [], "proposals": []}
    assert {what: reviewed(held, what, threshold=0.3) for what in found} == left
    held.lift(cohort)
    assert {what: reviewed(held, what, threshold=0.3) for what in found} == found

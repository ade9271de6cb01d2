"""What time and newer versions do to memories: confidence decays, versions follow each other, days pass."""

from __future__ import annotations

import msgspec
import pytest

from daemon.call import Call
from daemon.refusal import Reason, Refused
from daemon.wire.verbs import VERBS
from tests.daemon.told import DAY_MS, Told, remember
from tests.model.opened import OPERATOR

# --- decay ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "confidence", "days", "wanted"),
    [
        ("belief", 0.9, 0.5, 0.9), ("belief", 0.9, 29 / 24, 0.899667), ("belief", 0.9, 15, 0.895),
        ("belief", 0.9, 30, 0.89), ("belief", 0.9, 400, 0.766667), ("belief", 0.9, 3650, 0.5), ("note", 0.5, 365, 0.4),
        ("value", 0.95, 120, 0.94), ("belief", 0.3, 2, 0.3), ("value", 0.9, 90, 0.8925), ("belief", 0.9, 90, 0.87),
        ("raw", 0.7, 3650, 0.7), ("drive", 0.8, 3650, 0.6), ("relationship", 0.8, 30, 0.79), ("belief", 0.5, 3650, 0.5),
    ],
)  # fmt: skip
def test_confidence_decays_by_whole_days_to_its_floor_and_never_upward(
    told: Told, kind: str, confidence: float, days: float, wanted: float
) -> None:
    made = {"kind": kind, "origin": "seeded", "text": "m", "confidence": confidence, "protected": False}
    ref = told.write("remember", made)["id"]
    told.now_ms += int(days * DAY_MS)
    assert told.memory(ref)["confidence"] == {"stored": confidence, "effective": pytest.approx(wanted, abs=1e-6)}
    told.do("mark", ref, mark="protected")
    assert told.memory(ref)["confidence"]["effective"] == confidence, "protected does not decay"


def test_reading_changes_nothing_however_often(told: Told) -> None:
    """Decay is looked at, never written: at one moment every read gives the same, and no record comes of it."""
    note = remember(told, "note", told.raw(), confidence=0.9)
    told.now_ms += 300 * DAY_MS
    before, digests = told.store.log.head().seq, told.digests()
    found = []
    for _ in range(3):
        found.append((told.memory(note), told.read("trace", {"id": note}), told.read("review", {"threshold": 0.9})))
    assert found[0] == found[1] == found[2]
    assert (told.store.log.head().seq, told.digests()) == (before, digests)
    assert told.memory(note)["confidence"]["stored"] == 0.9


def test_a_clock_that_goes_back_does_not_raise_or_lower(told: Told) -> None:
    note = remember(told, "note", told.raw(), confidence=0.9)
    told.now_ms -= 400 * DAY_MS
    assert told.memory(note)["confidence"]["effective"] == 0.9


# --- revising ------------------------------------------------------------------------------------


def test_the_history_of_three_versions_is_the_same_from_each(told: Told) -> None:
    first = remember(told, "belief", remember(told, "note", told.raw()), confidence=0.6)
    second = told.do("revise", first, text="second", origin="derived")["id"]
    third = told.do("revise", second, disposition="updates", text="third", origin="derived")["id"]
    found = [told.read("history", {"id": ref})["revisions"] for ref in (first, second, third)]
    assert found[0] == found[1] == found[2]
    assert [(each["id"], each["predecessor"], each["disposition"], each["status"]) for each in found[0]] == [
        (first, None, None, "superseded"), (second, first, "supersedes", "superseded"),
        (third, second, "updates", "active"),
    ]  # fmt: skip
    told.do("reinforce", first)
    told.do("verify", second)
    told.reopen(False)
    assert [each["id"] for each in told.read("history", {"id": second})["revisions"]] == [first, second, third]
    assert told.memory(first)["superseded_by"] == second, "reinforcing an old version leaves its chain alone"
    assert told.memory(first)["status"] == "superseded", "nor does it bring it back"


def test_a_revision_flags_nothing_and_leaves_strength_alone(told: Told) -> None:
    note = remember(told, "note", told.raw())
    belief = remember(told, "belief", note)
    told.do("revise", note, text="another", origin="derived")
    assert told.memory(note)["strength"] == 1.0 and told.memory(belief)["grounded"]
    assert told.read("review", {"what": ["flags"]})["items"] == []


def test_an_unprotected_value_has_an_unprotected_successor(told: Told) -> None:
    """What is inherited is how it stands, not how its kind is born."""
    told.write("lifecycle", {"enforce": False})
    value = remember(told, "value")
    assert told.memory(told.do("revise", value, text="v2", origin="derived")["id"])["marks"] == ["protected"]
    value = remember(told, "value")
    told.do("mark", value, mark="protected", on=False)
    assert told.memory(told.do("revise", value, text="v2", origin="derived")["id"])["marks"] == []
    goal = remember(told, "goal")
    aspiring = {"text": "more", "origin": "derived", "fields": {"subtype": "aspiration"}}
    assert told.memory(told.do("revise", goal, **aspiring)["id"])["marks"] == ["protected"]


def test_two_revisions_of_one_memory_at_once_make_one_successor(told: Told) -> None:
    note = remember(told, "note", told.raw())
    params = msgspec.convert({"id": note, "text": "new", "origin": "derived"}, VERBS["revise"].params)
    for _ in range(2):
        told.service.submit(Call("revise", params, OPERATOR, lambda _: None))
    outcomes = [told._answers.get(timeout=30)[1] for _ in range(2)]
    (lost,) = [outcome for outcome in outcomes if isinstance(outcome, Refused)]
    (won,) = [outcome for outcome in outcomes if not isinstance(outcome, Refused)]
    assert (lost.reason, lost.data["current"]) == (Reason.CONFLICT, msgspec.to_builtins(won)["id"])
    assert len(told.read("history", {"id": note})["revisions"]) == 2


# --- partitions ----------------------------------------------------------------------------------


def test_lineage_holds_across_the_days_that_memories_were_written_on(told: Told) -> None:
    """Also after restarts: no partition is seen alone."""
    turns = []
    for day in range(3):
        turns.append(told.raw(f"day {day}"))
        told.now_ms += DAY_MS
    episode = remember(told, "episode", *turns)
    belief = remember(told, "belief", episode)
    for clean in (True, False):
        told.reopen(clean)
        up = told.read("trace", {"id": belief})
        assert {node["ref"] for node in up["nodes"]} == {belief, episode, *turns}
        for turn in turns:
            down = told.read("trace", {"id": turn, "direction": "dependents"})
            assert [node["ref"] for node in down["nodes"]] == [turn, episode, belief]
    assert len({told.memory(turn)["partition"] for turn in turns}) == 3
    assert told.do("forget", turns[0])["flagged"] == [episode]
    fresh = told.raw("after a forget")
    assert told.memory(fresh)["processed_into"] == [], "a new memory takes over nothing of a dead one"

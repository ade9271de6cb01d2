"""verify, reinforce, weaken, reaffirm, mark, relate and revise: rules with numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from daemon.refusal import Reason
from tests.daemon.told import DAY_MS, Told, reason_of

# --- verify ----------------------------------------------------------------------------------------


def test_verify_raises_confidence_and_strength_and_each_live_source_once(told: Told) -> None:
    first, second, gone = told.raw("one"), told.raw("two"), told.raw("three")
    told.do("weaken", first, amount=0.5)
    told.do("forget", gone)
    note = told.note(first, second, gone, confidence=0.85)
    told.do("weaken", note, amount=0.4)
    told.now_ms += DAY_MS
    result = told.do("verify", note)
    assert result["confidence"] == {"old": 0.85, "new": pytest.approx(0.95)}
    assert result["strength"] == {"old": pytest.approx(0.6), "new": pytest.approx(0.7)}
    boosted = {each["id"]: (each["old"], each["new"]) for each in result["boosted"]}
    assert boosted == {first: (0.5, 0.52), second: (1.0, 1.0)}, "at the cap too, and no tombstone"
    assert (result["verifications"], told.memory(note)["verifications"]) == (1, 1)
    assert told.memory(note)["verified_at"] == result["verified_at"]
    assert told.memory(first)["strength"] == 0.52
    assert told.do("verify", note)["confidence"]["new"] == 1.0, "never above 1"


@pytest.mark.parametrize("verb", ["verify", "reinforce", "weaken", "reaffirm"])
def test_nothing_but_recover_brings_a_forgotten_memory_back(told: Told, verb: str) -> None:
    ref = told.raw()
    told.do("forget", ref)
    reason, data = reason_of(lambda: told.do(verb, ref))
    assert (reason, data["current"]) == (Reason.CONFLICT, "forgotten")
    assert told.memory(ref)["strength"] == 0.0


@pytest.mark.parametrize("verb", ["verify", "reinforce", "weaken", "reaffirm"])
def test_an_unknown_memory_is_not_found(told: Told, verb: str) -> None:
    told.raw()
    reason, data = reason_of(lambda: told.do(verb, "raw:0000000000001"))
    assert (reason, data["parameter"]) == (Reason.NOT_FOUND, "id")


def test_decay_counts_from_the_last_verification(told: Told) -> None:
    note = told.note(told.raw(), confidence=0.9)
    told.now_ms += 60 * DAY_MS
    assert told.memory(note)["confidence"]["effective"] == pytest.approx(0.9 - 0.015 * 2)
    told.do("reaffirm", note)
    memory = told.memory(note)
    assert memory["confidence"] == {"stored": 0.9, "effective": 0.9}
    assert memory["verifications"] == 0, "reaffirming is not verifying"


# --- reinforce -------------------------------------------------------------------------------------


def test_reinforcing_gains_less_each_time_and_never_passes_the_top(told: Told) -> None:
    note = told.note(told.raw(), confidence=0.5)
    wanted = 0.5
    for times in range(1, 6):
        wanted += (0.99 - wanted) * 0.05 / (1 + 0.1 * times)
        result = told.do("reinforce", note)
        assert result["confidence"]["new"] == pytest.approx(wanted)
        assert result["strength"]["old"] == result["strength"]["new"]


def test_reinforcing_never_lowers(told: Told) -> None:
    note = told.note(told.raw(), confidence=1.0)
    assert told.do("reinforce", note)["confidence"] == {"old": 1.0, "new": 1.0}


@pytest.mark.parametrize("verb", ["reinforce", "reaffirm", "recover"])
def test_an_amount_that_would_do_nothing_is_refused(told: Told, verb: str) -> None:
    reason, data = reason_of(lambda: told.do(verb, told.raw(), amount=0.2))
    assert (reason, data["parameter"]) == (Reason.INVALID_INPUT, "amount")


# --- weaken and flags ------------------------------------------------------------------------------


def test_weakening_stops_above_zero(told: Told) -> None:
    ref = told.raw()
    assert told.do("weaken", ref)["strength"] == {"old": 1.0, "new": 0.9}
    assert told.do("weaken", ref, amount=1.0)["strength"]["new"] == 0.01
    assert told.do("weaken", ref)["strength"] == {"old": 0.01, "new": 0.01}


def test_a_source_that_becomes_dormant_flags_its_children_once_and_not_theirs(told: Told) -> None:
    turn = told.raw()
    note = told.note(turn)
    belief = {"kind": "belief", "origin": "derived", "text": "a belief", "derived_from": [note]}
    told.write("remember", belief)
    assert told.do("weaken", turn, amount=0.5)["flags_set"] == [], "1.0 to 0.5 crosses nothing"
    assert told.do("weaken", turn, amount=0.4)["flags_set"] == [note]
    assert told.do("weaken", turn, amount=0.05)["flags_set"] == [], "it is dormant already"
    assert told.do("forget", turn)["flagged"] == [note], "its flag says another reason now"
    assert told.do("recover", turn)["flags_cleared"] == [note]


def test_a_source_that_comes_back_by_verification_clears_its_flags(told: Told) -> None:
    turn = told.raw()
    note = told.note(turn)
    told.do("weaken", turn, amount=0.85)
    result = told.do("verify", turn)
    assert (result["strength"]["new"], result["flags_cleared"]) == (pytest.approx(0.25), [note])
    assert told.do("weaken", turn, amount=0.1)["flags_set"] == [note], "once more, for it was lifted"


def test_verifying_a_flagged_memory_lifts_its_flag(told: Told) -> None:
    turn = told.raw()
    note = told.note(turn)
    told.do("forget", turn)
    assert told.do("verify", note)["flags_cleared"] == [note]
    assert told.do("recover", turn)["flags_cleared"] == []


def test_a_protected_memory_is_neither_weakened_nor_forgotten_until_the_mark_is_gone(told: Told) -> None:
    ref = told.raw(protected=True)
    for verb in ("weaken", "forget"):
        assert reason_of(lambda verb=verb: told.do(verb, ref))[0] is Reason.CONFLICT
    assert told.do("mark", ref, mark="protected", on=False)["marks"] == []
    assert told.do("weaken", ref)["strength"]["new"] == 0.9


# --- mark, relate ----------------------------------------------------------------------------------


def test_marks_are_independent_and_setting_one_twice_is_once(told: Told) -> None:
    ref = told.raw()
    assert told.do("mark", ref, mark="archived")["marks"] == ["archived"]
    before = told.store.log.head().seq
    assert told.do("mark", ref, mark="archived")["marks"] == ["archived"]
    assert told.store.log.head().seq == before
    assert set(told.do("mark", ref, mark="resolved")["marks"]) == {"archived", "resolved"}
    told.do("forget", ref)
    assert told.memory(ref)["status"] == "forgotten"
    told.do("recover", ref)
    assert told.memory(ref)["status"] == "archived", "recovering lifts the tombstone only"


def test_a_relation_is_drawn_once_and_contradicts_is_symmetric(told: Told) -> None:
    one, other = told.raw("one"), told.raw("other")

    def relate(source: str, target: str, kind: str) -> str:
        return str(told.write("relate", {"from": source, "to": target, "type": kind})["edge"])

    drawn = relate(one, other, "contradicts")
    assert relate(one, other, "contradicts") == relate(other, one, "contradicts") == drawn
    extends = relate(one, other, "extends")
    assert extends != drawn and relate(other, one, "extends") != extends
    assert reason_of(lambda: relate(one, one, "extends"))[0] is Reason.INVALID_INPUT
    assert reason_of(lambda: relate(one, "raw:0000000000001", "extends"))[1]["parameter"] == "to"
    assert told.memory(one)["grounded"] and told.memory(one)["processed_into"] == []


# --- revise ----------------------------------------------------------------------------------------


def test_a_revision_inherits_what_was_filed_and_nothing_of_its_telling(told: Told) -> None:
    turn, support = told.raw("source"), told.raw("support")
    note = told.note(
        turn, topic="herbs", tags=["a", "b"], project="roof", subject="Mira", importance=3.0, confidence=0.3,
        evidence=[support], entities=[{"name": "Ilse", "type": "person"}], speaker="Mira",
        metadata=msgspec.Raw(b'{"k":1}'), facts=[{"subject": "s", "predicate": "p", "value": "v"}],
        producer={"agent": "a"}, occurred_at="2026-01-01T00:00:00Z",
    )  # fmt: skip
    told.now_ms += DAY_MS
    result = told.do("revise", note, text="better", origin="derived")
    assert result["predecessor"] == note
    new, old = told.memory(result["id"]), told.memory(note)
    inherited = ("kind", "subtype", "topic", "tags", "project", "subject", "importance", "evidence", "entities")
    assert {name: new[name] for name in inherited} == {name: old[name] for name in inherited}
    assert (new["text"], new["origin"], new["confidence"]["stored"]) == ("better", "derived", 0.8)
    lost = ("speaker", "metadata", "occurred_at", "session")
    assert all(new[name] is None for name in lost) and new["facts"] == []
    assert new["producer"]["agent"] is None and new["derived_from"] == []
    assert (old["status"], old["superseded_by"], new["predecessor"]) == ("superseded", result["id"], note)
    assert old["valid_to"] == new["at"]


def test_a_revision_stands_on_the_sources_of_the_one_before(told: Told) -> None:
    turn = told.raw()
    second = told.do("revise", told.note(turn), text="second", origin="derived")["id"]
    third = told.do("revise", second, disposition="updates", text="third", origin="derived")["id"]
    assert told.memory(third)["grounded"]
    assert [each["id"] for each in told.do("verify", third)["boosted"]] == [turn]
    told.do("forget", turn)
    assert not told.memory(third)["grounded"]


def test_a_memory_is_superseded_once_and_the_conflict_names_the_head(told: Told) -> None:
    first = told.note(told.raw())
    second = told.do("revise", first, text="second", origin="derived")["id"]
    third = told.do("revise", second, text="third", origin="derived")["id"]
    reason, data = reason_of(lambda: told.do("revise", first, text="another", origin="derived"))
    assert (reason, data["current"]) == (Reason.CONFLICT, third)


def test_a_belief_may_take_the_place_of_a_belief(told: Told) -> None:
    note = told.note(told.raw())
    made = {"kind": "belief", "origin": "derived", "text": "so", "derived_from": [note]}
    belief = told.write("remember", made)["id"]
    assert told.do("revise", belief, text="not so", origin="derived")["predecessor"] == belief
    reason, _ = reason_of(lambda: told.write("remember", {**made, "derived_from": [belief]}))
    assert reason is Reason.PROVENANCE, "but derive from one only in this way"


def test_moving_files_anew_and_makes_no_successor(told: Told) -> None:
    note = told.note(told.raw(), topic="herbs", tags=["a"], subject="Mira", metadata=msgspec.Raw(b'{"k":1}'))
    result = told.do("revise", note, disposition="move", fields={"topic": "trees", "tags": ["b", "c"]})
    assert (result["id"], result["predecessor"]) == (note, None)
    memory = told.memory(note)
    assert (memory["topic"], memory["tags"], memory["subject"]) == ("trees", ["b", "c"], "Mira")
    assert memory["metadata"] == {"k": 1} and memory["status"] == "active"
    before = told.store.log.head().seq
    again = told.do("revise", note, disposition="move", fields={"topic": "trees"})
    assert told.store.log.head().seq == before and again["address"] == result["address"]
    (found,) = told.read("list", {"sel": {"tags": ["c"]}})["memories"]
    assert found["id"] == note
    assert told.read("list", {"sel": {"tags": ["a"]}})["memories"] == []


@pytest.mark.parametrize(
    ("params", "parameter"),
    [
        ({"disposition": "move"}, "fields"),
        ({"disposition": "move", "text": "x", "fields": {"topic": "t"}}, "text"),
        ({"disposition": "move", "fields": {"importance": 2.0}}, "fields.importance"),
        ({"text": "x"}, "origin"),
        ({"origin": "derived"}, "text"),
        ({"text": "x", "origin": "consolidated"}, "origin"),
        ({"text": "x", "origin": "derived", "fields": {"subtype": "task"}}, "fields.subtype"),
    ],
)
def test_what_a_revision_can_not_be_is_refused_with_the_parameter(
    told: Told, params: dict[str, Any], parameter: str
) -> None:
    note = told.note(told.raw())
    before = told.store.log.head().seq
    reason, data = reason_of(lambda: told.do("revise", note, **params))
    assert (reason, data["parameter"]) == (Reason.INVALID_INPUT, parameter)
    assert told.store.log.head().seq == before


def test_a_repeat_under_a_key_is_answered_as_the_first_time(told: Told) -> None:
    note = told.note(told.raw())
    for verb, more in (
        ("verify", {}), ("weaken", {"amount": 0.2}), ("mark", {"mark": "resolved"}),
        ("revise", {"text": "new", "origin": "derived"}),
    ):  # fmt: skip
        first = told.do(verb, note, idempotency_key=verb, **more)
        head = told.store.log.head().seq
        assert told.do(verb, note, idempotency_key=verb, **more) == {**first, "duplicate": True}
        assert told.store.log.head().seq == head
    assert reason_of(lambda: told.do("verify", note, idempotency_key="weaken"))[0] is Reason.CONFLICT


def test_evidence_that_is_brought_later_stands_with_the_memory(told: Told) -> None:
    note, support = told.note(told.raw()), told.raw("support")
    told.do("verify", note, evidence=[support, {"kind": "url", "id": "https://example.org/x"}], note="seen")
    told.do("reinforce", note, evidence=[support])
    url = {"kind": "url", "id": "https://example.org/x", "resolvable": True}
    assert told.memory(note)["evidence"] == [support, url]


@pytest.mark.parametrize("verb", ["verify", "reinforce", "weaken", "reaffirm", "mark", "revise", "relate"])
def test_in_maintenance_nothing_is_changed(told: Told, verb: str) -> None:
    ref, other = told.raw("one"), told.raw("other")
    told.write("lifecycle", {"state": "maintenance"})
    more: dict[str, dict[str, Any]] = {"mark": {"mark": "archived"}, "revise": {"text": "x", "origin": "stated"}}
    params = {"id": ref, **more.get(verb, {})}
    if verb == "relate":
        params = {"from": ref, "to": other, "type": "extends"}
    assert reason_of(lambda: told.write(verb, params))[0] is Reason.LIFECYCLE

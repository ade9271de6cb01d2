"""Rules about sources, forgetting, weakening and verifying, one behaviour each.

Many are here because another program got them wrong in a way that went unnoticed for long.
"""

from __future__ import annotations

import threading
from typing import Any

import msgspec
import pytest

from daemon.call import Call
from daemon.refusal import Reason, Refused
from daemon.wire.params import RecoverParams
from journal.events import OperatorCrossed
from projections.kinds import KINDS
from tests.daemon.told import Told, reason_of, remember
from tests.model.opened import OPERATOR


def refused(told: Told, verb: str, params: dict[str, Any]) -> tuple[Reason, dict[str, Any]]:
    """Why, after which nothing has changed, but that an operator's asking another tenant may be noted."""
    before = told.store.log.head().seq
    found = reason_of(lambda: told.write(verb, params))
    written = [record.event for chunk in told.store.log.chunks(before + 1) for record in chunk]
    assert all(isinstance(event, OperatorCrossed) for event in written)
    return found


# --- sources -------------------------------------------------------------------------------------


def test_one_bad_source_among_good_ones_refuses_the_whole_write(told: Told) -> None:
    """Also in a batch, of which nothing is written then."""
    turn, absent = told.raw(), "raw:0000000000001"
    note = {"kind": "note", "origin": "derived", "text": "n", "derived_from": [turn, absent]}
    for verb, params in (("remember", note), ("remember_many", {"items": [{**note, "derived_from": [turn]}, note]})):
        reason, data = refused(told, verb, params)
        assert (reason, data["ids"]) == (Reason.PROVENANCE, [absent])
    assert told.memory(turn)["processed_into"] == []


@pytest.mark.parametrize("bad", ["nonsense", "raw", "raw:", ":095PE3Y1R0000", "Raw:095PE3Y1R0000", " raw:095PE3Y1R0000",
                                 "raw:095PE3Y1R0000 ", "raw:095PE3Y1R000", "raw:Z95PE3Y1R0000", "edge:095PE3Y1R0000",
                                 "session:095PE3Y1R0000", "store/raw:095PE3Y1R0000", "", "@0", "@-1"])  # fmt: skip
def test_what_is_no_reference_is_refused_as_such(told: Told, bad: str) -> None:
    told.raw()
    note = {"kind": "note", "origin": "derived", "text": "n", "derived_from": [bad]}
    try:
        reason, data = refused(told, "remember", note)
    except msgspec.ValidationError:
        assert bad == ""
        return
    assert (reason, data["parameter"]) == (Reason.INVALID_INPUT, "derived_from")


@pytest.mark.parametrize("bad", [None, 3, ["raw:095PE3Y1R0000"], {"id": "x"}, {"kind": "raw", "id": "x"}, {}])
def test_what_is_neither_reference_nor_external_is_refused_before_it_is_looked_at(told: Told, bad: Any) -> None:
    note = {"kind": "note", "origin": "derived", "text": "n", "derived_from": [told.raw(), bad]}
    with pytest.raises((msgspec.ValidationError, Refused)):
        told.write("remember", note)
    with pytest.raises(msgspec.ValidationError):
        told.write("remember", {**note, "derived_from": None})


def test_a_source_named_twice_is_one_source(told: Told) -> None:
    turn = told.raw()
    note = remember(told, "note", turn, turn)
    assert told.memory(note)["derived_from"] == [turn] and told.memory(turn)["processed_into"] == [note]


def test_a_sources_kind_must_be_the_one_it_has(told: Told) -> None:
    turn = told.raw()
    episode = remember(told, "episode", turn)
    other = episode.replace("episode:", "raw:")
    note = {"kind": "note", "origin": "derived", "text": "n", "derived_from": [other]}
    assert refused(told, "remember", note)[1]["ids"] == [other]


def test_an_annotation_stands_beside_a_source_and_is_kept_whole_but_never_alone(told: Told) -> None:
    turn = told.raw()
    context = {"kind": "context", "id": "a:b:c d"}
    note = remember(told, "note", turn, context)
    assert told.memory(note)["derived_from"] == [turn, "context:a:b:c d"]
    assert [node["kind"] for node in told.read("trace", {"id": note})["nodes"]] == ["note", "raw", "context"]
    raw = {"kind": "raw", "origin": "derived", "text": "n", "derived_from": [context]}
    for params in (raw, {**raw, "kind": "note"}):
        assert refused(told, "remember", params)[0] is Reason.PROVENANCE


def test_a_forgotten_memory_may_still_be_a_source(told: Told) -> None:
    """It exists; what is made of it is ungrounded from the start."""
    turn = told.raw()
    told.do("forget", turn)
    note = remember(told, "note", turn)
    assert not told.memory(note)["grounded"]
    told.do("recover", turn)
    assert told.memory(note)["grounded"]


def test_lineage_is_written_once(told: Told) -> None:
    """Nothing that is done to a memory later changes what it was made from, or how it came to be."""
    turn, support = told.raw("turn"), told.raw("support")
    note = remember(told, "note", turn, confidence=0.5)
    born = {name: told.memory(note)[name] for name in ("derived_from", "origin", "at", "text", "producer", "actor")}
    told.do("verify", note, evidence=[support])
    told.do("reinforce", note, evidence=[support, {"kind": "tool", "id": "t"}])
    told.do("revise", note, disposition="move", fields={"topic": "t"})
    told.do("mark", note, mark="archived")
    told.do("forget", turn)
    told.do("revise", note, text="another", origin="told")
    assert {name: told.memory(note)[name] for name in born} == born
    tool = {"kind": "tool", "id": "t", "resolvable": True}
    assert told.memory(note)["evidence"] == [support, tool], "brought twice, kept once"


def test_what_was_made_of_a_memory_is_all_there_and_is_exactly_that(told: Told) -> None:
    """Made twice it has both; a source gets only what names it."""
    one, two = told.raw("one"), told.raw("two")
    first, second, third = remember(told, "note", one), remember(told, "episode", one), remember(told, "note", two)
    assert told.memory(one)["processed_into"] == sorted([first, second], key=lambda ref: ref[-13:])
    assert told.memory(two)["processed_into"] == [third]
    assert told.memory(first)["processed_into"] == []


def test_the_id_of_one_tenant_is_nothing_in_another(told: Told) -> None:
    turn = told.raw()
    note = {"kind": "note", "origin": "derived", "text": "n", "derived_from": [turn], "tenant": "other"}
    unknown = {**note, "derived_from": ["raw:0000000000001"]}
    told.write("remember", {"kind": "raw", "origin": "stated", "text": "t", "tenant": "other"})
    foreign, never = refused(told, "remember", note), refused(told, "remember", unknown)
    assert foreign[0] is never[0] is Reason.PROVENANCE
    for verb in ("verify", "weaken", "reinforce", "reaffirm", "recover"):
        assert refused(told, verb, {"id": turn, "tenant": "other"})[0] is Reason.NOT_FOUND
    assert told.memory(turn)["strength"] == 1.0


# --- forgetting ----------------------------------------------------------------------------------


def test_forgetting_flags_each_child_once_and_changes_nothing_else_of_it(told: Told) -> None:
    turn = told.raw()
    notes = [remember(told, "note", turn), remember(told, "note", turn)]
    belief = remember(told, "belief", notes[0])
    before = [told.memory(ref) for ref in (*notes, belief)]
    assert told.do("forget", turn)["flagged"] == notes
    assert told.do("forget", turn)["flagged"] == [], "twice is once"
    after = [told.memory(ref) for ref in (*notes, belief)]
    assert [{**memory, "grounded": True} for memory in after] == before
    assert told.do("recover", turn)["flags_cleared"] == notes
    assert told.do("forget", turn)["flagged"] == notes, "a second time, after it was lifted"


def test_forgetting_what_nothing_was_made_of_flags_nothing(told: Told) -> None:
    note = remember(told, "note", told.raw(), evidence=[support := told.raw("support")])
    assert told.do("forget", note)["flagged"] == []
    assert told.do("forget", support)["flagged"] == [], "evidence is no source"


def test_a_protected_memory_is_not_forgotten_and_a_living_one_not_recovered(told: Told) -> None:
    kept = told.raw(protected=True)
    note = remember(told, "note", kept)
    assert refused(told, "forget", {"id": kept})[0] is Reason.CONFLICT
    assert refused(told, "recover", {"id": kept})[0] is Reason.CONFLICT
    assert told.memory(kept)["strength"] == 1.0 and told.read("review", {"what": ["flags"]})["items"] == []
    assert told.memory(note)["grounded"]


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("kind", [kind.wire for kind in KINDS])
def test_protected_is_kept_as_it_was_given(told: Told, kind: str, batch: bool) -> None:
    """Of every kind, alone and in a batch, true and false; not given, it is that of the kind."""
    born = kind in ("value", "drive")
    for given, wanted in (({"protected": True}, True), ({"protected": False}, False), ({}, born)):
        item = {"kind": kind, "origin": "seeded", "text": kind, "source_entity": "someone", **given}
        result = told.write("remember_many", {"items": [item]})["results"][0] if batch else told.write("remember", item)
        memory = told.memory(result["id"])
        assert (("protected" in memory["marks"]), memory["source_entity"]) == (wanted, "someone")


def test_nothing_but_recovering_lifts_strength_from_zero(told: Told) -> None:
    """Neither looking at it, nor verifying what was made of it."""
    turn = told.raw()
    note = remember(told, "note", turn)
    told.do("forget", turn)
    assert told.do("verify", note)["boosted"] == []
    told.memory(turn), told.read("list", {"full": True}), told.read("trace", {"id": turn})
    assert told.memory(turn)["strength"] == 0.0 and not told.memory(note)["grounded"]
    result = told.do("recover", turn)
    assert result["strength"] == {"old": 0.0, "new": 0.2}
    assert result["confidence"]["old"] == result["confidence"]["new"]


def test_what_is_archived_or_superseded_still_grounds(told: Told) -> None:
    turn, other = told.raw("one"), told.raw("other")
    notes = [remember(told, "note", turn), remember(told, "note", other)]
    told.do("mark", turn, mark="archived")
    told.do("revise", other, text="corrected", origin="stated")
    assert all(told.memory(note)["grounded"] for note in notes)
    assert told.read("review", {"what": ["flags", "ungrounded"]})["items"] == []
    assert told.memory(other)["text"] == "other", "still readable"


# --- weakening -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "amount", "after", "flags"),
    [
        (1.0, 0.5, 0.5, False), (0.5, 0.4, 0.1, True), (0.1, 0.05, 0.05, False), (0.3, 0.1, 0.2, False),
        (0.3, 0.100001, 0.199999, True), (0.2, 0.0, 0.2, False), (0.2, 0.001, 0.199, True), (0.7, 0.5, 0.2, False),
        (1.0, 1.0, 0.01, True), (0.01, 1.0, 0.01, False),
    ],
)  # fmt: skip
def test_weakening_flags_when_it_crosses_and_a_fifth_is_not_below(
    told: Told, before: float, amount: float, after: float, flags: bool
) -> None:
    turn = told.raw()
    if before < 1.0:
        told.do("weaken", turn, amount=round(1.0 - before, 6))
    note = remember(told, "note", turn)
    result = told.do("weaken", turn, amount=amount)
    assert result["strength"]["new"] == after
    assert result["flags_set"] == ([note] if flags else [])
    assert told.memory(note)["strength"] == 1.0 and told.memory(note)["grounded"], "dormant grounds"


@pytest.mark.parametrize("amount", [-0.1, 1.1])
def test_an_amount_beyond_its_range_is_refused_not_bent(told: Told, amount: float) -> None:
    ref = told.raw()
    with pytest.raises(msgspec.ValidationError):
        told.do("weaken", ref, amount=amount)
    assert told.memory(ref)["strength"] == 1.0


# --- verifying and reinforcing -------------------------------------------------------------------


def test_verifying_moves_both_numbers_and_every_source_in_one_step(told: Told) -> None:
    """One operation, one record: there are not two kinds of verifying."""
    one, two = told.raw("one"), told.raw("two")
    for ref in (one, two):
        told.do("weaken", ref, amount=0.5)
    note = remember(told, "note", one, two, {"kind": "context", "id": "c"}, confidence=0.7)
    before = told.store.log.head().seq
    result = told.do("verify", note)
    assert told.store.log.head().seq == before + 1
    assert result["confidence"] == {"old": 0.7, "new": 0.8}
    assert result["boosted"] == [{"id": ref, "old": 0.5, "new": 0.52} for ref in (one, two)]
    assert told.do("verify", told.raw("alone"))["boosted"] == []


def test_a_number_never_passes_its_bounds(told: Told) -> None:
    note = remember(told, "note", told.raw(), confidence=0.95)
    for _ in range(3):
        told.do("verify", note)
    memory = told.memory(note)
    assert (memory["confidence"]["stored"], memory["strength"], memory["verifications"]) == (1.0, 1.0, 3)
    assert told.do("reinforce", note)["confidence"] == {"old": 1.0, "new": 1.0}, "above the top it stays"
    with pytest.raises(msgspec.ValidationError):
        remember(told, "note", told.raw(), confidence=1.1)


def test_each_step_of_a_confidence_begins_where_the_last_one_ended(told: Told) -> None:
    note = remember(told, "note", told.raw(), confidence=0.6)
    values = [0.6, *(told.do("reinforce", note)["confidence"]["new"] for _ in range(3))]
    assert values == pytest.approx([0.6, 0.617727, 0.633239, 0.646960], abs=1e-6)
    values.append(told.do("verify", note)["confidence"]["new"])
    steps = told.read("history", {"id": note})["confidence"]
    assert [step["new"] for step in steps] == values
    assert [step["old"] for step in steps] == [None, *values[:-1]]
    assert [step["reason"] for step in steps] == ["memory_created", *["reinforced"] * 3, "verified"]


def test_no_reinforcement_is_lost_when_many_arrive_at_once(told: Told) -> None:
    note = remember(told, "note", told.raw(), confidence=0.5)
    params = msgspec.convert({"id": note}, RecoverParams)

    def push() -> None:
        for _ in range(20):
            told.service.submit(Call("reinforce", params, OPERATOR, lambda _: None))

    threads = [threading.Thread(target=push) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    outcomes = [told._answers.get(timeout=30)[1] for _ in range(80)]
    assert not any(isinstance(outcome, Refused) for outcome in outcomes)
    wanted = 0.5
    for times in range(1, 81):
        wanted += (0.99 - wanted) * 0.05 / (1 + 0.1 * times)
    assert told.memory(note)["confidence"]["stored"] == pytest.approx(wanted)
    assert len(told.read("history", {"id": note})["confidence"]) == 81

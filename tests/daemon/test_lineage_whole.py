"""What a memory was given stays with it, and what is asked for is all there: no field of a kind is dropped, no list
ends early, no dead memory hands anything on, and what sleep makes is a memory like any other."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from daemon.refusal import Reason, Refused
from journal.events import MemoryCreated
from projections.kinds import KINDS
from tests.daemon.slept import Slept, fact
from tests.daemon.told import Told, reason_of, remember

KIND_WORDS = [kind.wire for kind in KINDS]
WORDS_OF_OTHERS = ("direct_experience", "inference", "external", "consolidation", "processing", "processed", "unknown",
                   "told_by_agent", "STATED", " stated", "stated ", "None")  # fmt: skip


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Told]:
    opened = Told(tmp_path / "state")
    try:
        yield opened
        assert opened.rebuilt_alike()
    finally:
        opened.close(True)


@pytest.fixture
def slept(tmp_path: Path) -> Iterator[Slept]:
    opened = Slept(tmp_path / "state")
    try:
        yield opened
        assert opened.rebuilt_alike()
    finally:
        opened.close(True)


def _open_again(opened: Told | Slept, clean: bool | None) -> None:
    """As a stop leaves it, as a kill does, or (None) folded from the journal."""
    if clean is None:
        opened.rebuild()
    else:
        opened.reopen(clean)


# --- what was given stays ------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("kind", KIND_WORDS)
def test_every_kind_keeps_all_that_it_was_given_alone_and_in_a_batch(told: Told, kind: str, batch: bool) -> None:
    """Also its strength, once that was moved; and behind a crash, a restart and a fold from the journal."""
    support = told.raw("support", origin="seeded")
    given: dict[str, Any] = {
        "kind": kind, "origin": "seeded", "text": f"a {kind}", "confidence": 0.625, "source_entity": "someone",
        "producer": {"agent": "a", "model": "m-1", "version": "7"}, "tags": ["t", "u"], "project": "p", "topic": "q",
        "importance": 3.5, "valence": -0.25, "arousal": 0.75, "evidence": [support], "protected": False,
    }  # fmt: skip
    result = told.write("remember_many", {"items": [given]})["results"][0] if batch else told.write("remember", given)
    told.do("weaken", result["id"], amount=0.25)
    memory = told.memory(result["id"])
    names = given.keys() - {"producer", "confidence", "protected"}
    assert {name: memory[name] for name in names} == {name: given[name] for name in names}
    assert given["producer"].items() <= memory["producer"].items()
    assert (memory["confidence"]["stored"], memory["strength"]) == (0.625, 0.75)
    for clean in (False, True, None):
        _open_again(told, clean)
        assert told.memory(result["id"]) == memory


@pytest.mark.parametrize("word", [*WORDS_OF_OTHERS, "", None, 1, ["stated"]], ids=str)
def test_an_origin_is_one_of_the_list_and_never_guessed(told: Told, word: Any) -> None:
    turn = told.raw()
    head = told.store.log.head().seq
    note = {"kind": "note", "origin": word, "text": "n", "derived_from": [turn]}
    for params in (note, {"items": [note]}):
        with pytest.raises((msgspec.ValidationError, Refused)):
            told.write("remember_many" if "items" in params else "remember", params)
    assert told.store.log.head().seq == head


@pytest.mark.parametrize("confidence", [-0.001, 1.001, 2, float("nan"), float("inf")])
def test_a_confidence_is_between_0_and_1_from_the_start(told: Told, confidence: float) -> None:
    raw = {"kind": "raw", "origin": "stated", "text": "t", "confidence": confidence}
    with pytest.raises((msgspec.ValidationError, Refused)):
        told.write("remember", raw)
    assert told.read("list", {})["total"] == 0


def test_an_empty_list_of_sources_is_none(told: Told) -> None:
    """Where sources are needed it doesn't stand for them; where none are, it does no harm."""
    turn = told.write("remember", {"kind": "raw", "origin": "stated", "text": "t", "derived_from": []})["id"]
    assert told.memory(turn)["derived_from"] == []
    note = {"kind": "note", "origin": "derived", "text": "n", "derived_from": [], "evidence": [turn]}
    assert reason_of(lambda: told.write("remember", note))[0] is Reason.PROVENANCE, "evidence is no source"


def test_a_state_that_is_set_again_stays_and_maintenance_is_left_from_any(told: Told) -> None:
    for state in ("maintenance", "maintenance", "active", "active", "maintenance"):
        assert told.write("lifecycle", {"state": state})["state"] == state
        told.reopen(False)
        assert told.write("lifecycle", {})["state"] == state
    head = told.store.log.head().seq
    told.write("lifecycle", {"state": "maintenance"})
    assert told.store.log.head().seq == head, "what changes nothing is no record"


def test_a_refused_forget_flags_nothing(told: Told) -> None:
    turn = told.raw(protected=True)
    note = remember(told, "note", turn)
    assert reason_of(lambda: told.do("forget", turn))[0] is Reason.CONFLICT
    assert told.read("review", {"what": ["flags"]})["items"] == [] and told.memory(note)["grounded"]
    assert told.memory(turn)["strength"] == 1.0


# --- what is asked for is all there --------------------------------------------------------------


def test_orphans_and_ungrounded_beyond_a_thousand_are_all_found(told: Told) -> None:
    turn = told.raw(origin="seeded")
    told.write("lifecycle", {"enforce": False})
    loose = [{"kind": "note", "origin": "told", "text": f"l{number}"} for number in range(1100)]
    held = [{**each, "text": f"h{place}", "derived_from": [turn]} for place, each in enumerate(loose)]
    made: dict[str, list[str]] = {"orphans": [], "ungrounded": []}
    for what, items in (("orphans", loose), ("ungrounded", held)):
        for at in range(0, len(items), 500):
            results = told.write("remember_many", {"items": items[at : at + 500]})["results"]
            made[what] += [result["id"] for result in results]
    told.do("forget", turn)
    for what, wanted in made.items():
        found: list[str] = []
        params: dict[str, Any] = {"what": [what], "limit": 300}
        while params.get("cursor", "") is not None:
            page = told.read("review", params)
            found += [item["id"] for item in page["items"]]
            assert page["total"] == len(wanted)
            params["cursor"] = page["next_cursor"]
        assert found == wanted


def test_a_history_of_more_than_a_hundred_steps_is_whole_and_each_begins_where_the_last_ended(told: Told) -> None:
    note = remember(told, "note", told.raw(), confidence=0.5)
    moved = [told.do("reinforce", note)["confidence"] for _ in range(130)]
    assert all(later["old"] == earlier["new"] for earlier, later in itertools.pairwise(moved))
    assert all(0.5 <= each["old"] < each["new"] < 0.99 for each in moved)
    told.reopen(False)
    events = told.read("history", {"id": note})["events"]
    assert sum(event["type"].lower() == "reinforced" for event in events) == 130
    assert told.memory(note)["confidence"]["stored"] == moved[-1]["new"]


# --- nothing is handed on ------------------------------------------------------------------------


def slots(opened: Told | Slept) -> list[int]:
    return [
        record.event.slot
        for chunk in opened.store.log.chunks()
        for record in chunk
        if isinstance(record.event, MemoryCreated)
    ]


def test_a_new_memory_inherits_nothing_of_a_forgotten_one(slept: Slept) -> None:
    """Its slot is its own for ever, whatever died before it and however the store was closed."""
    first = slept.turn("first")
    dead = slept.commit([fact(first)])["notes"][0]
    other = str(slept.write("remember", {"kind": "raw", "origin": "told", "text": "other"})["id"])
    slept.write("relate", {"from": dead, "to": other, "type": "extends"})
    belief = {"kind": "belief", "origin": "derived", "text": "b", "derived_from": [dead]}
    slept.write("remember", belief)
    slept.write("forget", {"id": dead})
    for clean in (True, False):
        slept.reopen(clean)
        turn = slept.turn(f"behind {clean}")
        (fresh,) = slept.commit([fact(turn, text=f"fresh {clean}")])["notes"]
        assert slept.memory(fresh)["processed_into"] == []
        for direction, wanted in (("sources", {fresh, turn}), ("dependents", {fresh})):
            nodes = slept.read("trace", {"id": fresh, "direction": direction})["nodes"]
            assert {node["ref"] for node in nodes} == wanted
    used = slots(slept)
    assert used == sorted(set(used)) and len(used) == 8


def test_memories_with_one_text_are_two_and_the_end_of_one_is_not_the_others(slept: Slept) -> None:
    turns = slept.turns(3)
    one, two = slept.commit([fact(turns[0], text="the same"), fact(turns[1], text="the same")])["notes"]
    third = slept.commit([fact(turns[2], text="the same")])["notes"][0]
    assert len({one, two, third}) == 3
    slept.write("forget", {"id": one})
    for clean in (True, False, None):
        _open_again(slept, clean)
        assert [slept.memory(ref)["text"] for ref in (two, third)] == ["the same"] * 2
        assert slept.row(two)["content_hash_hi"] == slept.row(third)["content_hash_hi"] != 0
        assert slept.row(one)["content_hash_hi"] == 0
        assert [slept.memory(ref)["derived_from"] for ref in (two, third)] == [[turns[1]], [turns[2]]]


# --- what sleep makes ----------------------------------------------------------------------------


def test_a_note_of_a_pass_is_a_memory_like_any_other(slept: Slept) -> None:
    """It is found, verified, revised, related, weakened and forgotten as one that a client wrote."""
    turn = slept.turn("t")
    (note,) = slept.commit([fact(turn, text="tea is on", tags=["tea"])])["notes"]
    for sel in ({"tags": ["tea"]}, {"kinds": ["note"]}, {"origins": ["consolidated"]}, {"session": slept.ref()}):
        assert note in [each["id"] for each in slept.read("list", {"sel": sel})["memories"]], sel
    assert slept.write("verify", {"id": note})["boosted"] == [{"id": turn, "old": 1.0, "new": 1.0}]
    newer = slept.write("revise", {"id": note, "text": "tea was on", "origin": "derived"})["id"]
    slept.write("relate", {"from": newer, "to": turn, "type": "extends"})
    belief = {"kind": "belief", "origin": "derived", "text": "b", "derived_from": [note]}
    belief_ref = slept.write("remember", belief)["id"]
    assert slept.write("weaken", {"id": note, "amount": 0.9})["flags_set"] == [belief_ref]
    told = slept.row(note)
    assert (told["state"], slept.explain(note)["how"]) == ("live", "consolidated")
    assert slept.explain(newer)["row"] is None, "a client's version is no fact of the pass"
    assert [row["id"] for row in slept.rows()] == [note]
    revisions = slept.read("history", {"id": newer})["revisions"]
    assert [each["id"] for each in revisions] == [note, newer]


def test_a_pass_that_is_refused_costs_no_other_session_its_pass(slept: Slept) -> None:
    """Many at once: each session has its own numbers, and the refused one waits as before."""
    keys = [f"s{number}" for number in range(12)]
    turns = {key: slept.turns(2, key) for key in keys}
    bad = set(keys[::4])
    outcomes: dict[str, Any] = {}
    for number in (1, 2):
        gate = threading.Barrier(len(keys))

        def work(key: str, number: int = number, gate: threading.Barrier = gate) -> None:
            of = "s1" if key in bad else key
            gate.wait()
            try:
                outcomes[key] = slept.commit([fact(turns[of][number - 1], text=f"{key} {number}")], key)
            except Refused as refused:
                outcomes[key] = refused.reason

        threads = [threading.Thread(target=work, args=(key,)) for key in keys]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for key in keys:
            assert outcomes[key] is Reason.PROVENANCE if key in bad else outcomes[key]["pass"] == number
    for key in keys:
        wanted = [] if key in bad else [(1, 0), (2, 0)]
        assert [(row["pass"], row["fact_index"]) for row in slept.rows(key)] == wanted
        assert slept.session(key)["sleep"]["unsettled"] == (2 if key in bad else 0)

"""What a pass made is made anew: its turns are opened, the next pass replaces what it made, lifting undoes that."""

from __future__ import annotations

from typing import Any

from daemon.refusal import Reason
from journal.codes import Mark
from journal.events import Marked
from journal.tsid import parse_memory_ref
from projections import passes
from tests.daemon.cohorted import Cohorted, refused
from tests.daemon.slept import MINUTE_MS, fact

V1 = {"extractor": "v1"}
V2 = {"extractor": "v2"}
OF_V1 = {"producer": V1}


def told(held: Cohorted, *notes: str) -> list[str]:
    return [str(held.memory(note)["status"]) for note in notes]


def settled(held: Cohorted, key: str = "one") -> dict[int, bool]:
    found = passes.settled_turns(held.state(), held.number(key))
    return {turn: each.promoted for turn, each in found.items()}


def test_equal_turns_supersede_and_others_archive(held: Cohorted) -> None:
    turns = held.turns(5)
    facts = [fact(turns[0], turns[1]), fact(turns[2]), fact(turns[3])]
    first, second, third = held.commit(facts, noise=turns[4:], producer=V1)["notes"]
    seen = held.look(OF_V1, "rederive")
    assert seen["ids"] == [first, second, third] and seen["not_rederivable"] == []
    cohort = held.act(OF_V1, "rederive")
    assert settled(held) == {5: False} and told(held, first, second, third) == ["active"] * 3
    held.now_ms += MINUTE_MS
    (same, _) = held.commit([fact(turns[1], turns[0]), fact(turns[2], turns[3])], producer=V2)["notes"]
    assert told(held, first, second, third) == ["superseded", "archived", "archived"]
    assert held.memory(first)["superseded_by"] == same
    assert held.memory(first)["valid_to"] is not None
    assert [row["id"] for row in held.rows() if row["pass"] == 1] == [first, second, third], "the old rows stay"
    lineage = [each["type"] for each in held.read("history", {"id": first})["events"]]
    assert lineage == ["memory_created", "cohort_made", "superseded"]
    held.lift(cohort)
    assert told(held, first, second, third) == ["active"] * 3
    memory = held.memory(first)
    assert (memory["superseded_by"], memory["valid_to"]) == (None, None)
    assert settled(held) == {1: True, 2: True, 3: True, 4: True, 5: False}, "the new pass has settled them"


def test_lifting_before_a_pass_settles_the_turns_as_they_were(held: Cohorted) -> None:
    turns = held.turns(3)
    (note,) = held.commit([fact(turns[0], turns[1])], noise=turns[2:], producer=V1)["notes"]
    before, sleep = settled(held), held.session()["sleep"]
    memories = [held.memory(ref) for ref in (*turns, note)]
    cohort = held.act(OF_V1, "rederive")
    assert held.session()["sleep"]["unsettled"] == 2 and "consolidated" not in held.memory(turns[0])["marks"]
    held.lift(cohort)
    assert (settled(held), held.session()["sleep"]) == (before, sleep)
    assert [held.memory(ref) for ref in (*turns, note)] == memories
    assert refused(Reason.CONFLICT, held.commit, [fact(turns[0])]).data["current"] == "settled"


def test_turns_that_a_pass_has_settled_since_stay_as_they_are(held: Cohorted) -> None:
    turns = held.turns(4)
    first, second = held.commit([fact(*turns[:2]), fact(*turns[2:])], producer=V1)["notes"]
    cohort = held.act(OF_V1, "rederive")
    held.commit([fact(turns[0])], noise=[turns[1]], producer=V2)
    assert told(held, first, second) == ["archived", "active"], "the second waits for its turns"
    held.lift(cohort)
    assert told(held, first, second) == ["active", "active"]
    assert settled(held) == {1: True, 2: False, 3: True, 4: True}


def test_notes_of_the_same_turns_are_paired_in_their_order(held: Cohorted) -> None:
    turns = held.turns(2)
    old = held.commit([fact(*turns, text=f"old {n}") for n in range(3)], producer=V1)["notes"]
    held.act(OF_V1, "rederive")
    new = held.commit([fact(*turns, text=f"new {n}") for n in range(2)], producer=V2)["notes"]
    assert [held.memory(note)["superseded_by"] for note in old] == [new[0], new[1], new[1]]


def test_a_pass_in_several_commits_replaces_what_each_has_settled(held: Cohorted) -> None:
    turns = held.turns(4)
    first, second = held.commit([fact(*turns[:2]), fact(*turns[2:])], producer=V1)["notes"]
    held.act(OF_V1, "rederive")
    held.commit([fact(*turns[:2])], last=False, producer=V2)
    assert told(held, first, second) == ["superseded", "active"]
    held.commit([fact(turns[2])], noise=[turns[3]], producer=V2)
    assert told(held, first, second) == ["superseded", "archived"]


def test_what_can_not_be_made_again_is_named_and_left(held: Cohorted) -> None:
    turns = held.turns(6)
    facts = [fact(turns[n]) for n in range(5)]
    by_pass, forgotten, purged, archived, revised = held.commit(facts, producer=V1)["notes"]
    by_client = held.note(V1, turns[5])
    held.write("forget", {"id": turns[1]})
    held.purge(turns[2])
    held.write("mark", {"id": archived, "mark": "archived"})
    held.write("revise", {"id": revised, "text": "x", "origin": "stated"})
    seen = held.look(OF_V1, "rederive")
    assert seen["count"] == 6 and set(seen["not_rederivable"]) == {forgotten, purged, archived, revised, by_client}
    done = held.look(OF_V1, "rederive", token=seen["token"])
    assert done["done"] == 1 and set(done["not_rederivable"]) == set(seen["not_rederivable"])
    assert held.look(OF_V1, "rederive", token=seen["token"]) == {**done, "duplicate": True}
    assert set(settled(held)) == {2, 3, 4, 5}
    (row,) = held.read("cohorts", {})["cohorts"]
    assert (row["action"], row["count"]) == ("rederive", 1)
    left = {**OF_V1, "ids": [by_client, forgotten]}
    assert held.look(left, "rederive")["token"] is None, "where nothing can be done"
    assert by_pass in seen["ids"]


def test_a_note_keeps_to_the_turns_that_are_left(held: Cohorted) -> None:
    turns = held.turns(2)
    (note,) = held.commit([fact(*turns)], producer=V1)["notes"]
    held.purge(turns[0])
    held.act(OF_V1, "rederive")
    assert set(settled(held)) == {1}
    held.commit([fact(turns[1])], producer=V2)
    assert told(held, note) == ["archived"]


def test_a_turn_that_is_gone_before_the_pass_holds_nothing_up(held: Cohorted) -> None:
    turns = held.turns(2)
    (note,) = held.commit([fact(*turns)], producer=V1)["notes"]
    held.act(OF_V1, "rederive")
    held.write("forget", {"id": turns[0]})
    held.commit([fact(turns[1])], producer=V2)
    assert told(held, note) == ["archived"]


def test_what_two_cohorts_re_derive_is_given_back_by_the_last(held: Cohorted) -> None:
    turns = held.turns(2)
    (note,) = held.commit([fact(turns[0])], noise=turns[1:], producer=V1)["notes"]
    first = held.act(OF_V1, "rederive")
    second = held.act({"ids": [note]}, "rederive")
    held.lift(first)
    assert set(settled(held)) == {2}, "the second still wants it made anew"
    held.lift(second)
    assert settled(held) == {1: True, 2: False}
    third, fourth = held.act(OF_V1, "rederive"), held.act({"ids": [note]}, "rederive")
    held.commit([fact(turns[0])], producer=V2)
    held.lift(third)
    assert told(held, note) == ["superseded"]
    held.lift(fourth)
    assert told(held, note) == ["active"]


def test_a_turn_that_another_cohort_waits_for_stays_open(held: Cohorted) -> None:
    turns = held.turns(3)
    one, other = held.commit([fact(*turns[:2]), fact(*turns[1:])], producer=V1)["notes"]
    first, second = held.act({"ids": [one]}, "rederive"), held.act({"ids": [other]}, "rederive")
    held.lift(first)
    assert settled(held) == {1: True}, "the second note is made from the second turn too"
    held.lift(second)
    assert settled(held) == {1: True, 2: True, 3: True}


def test_an_old_note_stays_as_long_as_one_of_its_turns_waits(held: Cohorted) -> None:
    turns = held.turns(2)
    (note,) = held.commit([fact(*turns)], producer=V1)["notes"]
    held.act(OF_V1, "rederive")
    held.commit([fact(turns[0])], producer=V2)
    assert told(held, note) == ["active"]
    held.commit([fact(turns[1])], producer=V2)
    assert told(held, note) == ["archived"]


def test_what_somebody_else_did_to_a_note_is_not_undone(held: Cohorted) -> None:
    turns = held.turns(3)
    archived, revised, again = held.commit([fact(turn) for turn in turns], producer=V1)["notes"]
    cohort = held.act(OF_V1, "rederive")
    held.write("mark", {"id": archived, "mark": "archived"})
    new = held.write("revise", {"id": revised, "text": "x", "origin": "stated"})["id"]
    held.commit([], noise=turns, producer=V2)
    held.write("mark", {"id": again, "mark": "archived", "on": False})
    held.write("mark", {"id": again, "mark": "archived"})
    held.lift(cohort)
    assert told(held, archived, revised, again) == ["archived", "superseded", "archived"]
    assert held.memory(revised)["superseded_by"] == new


def test_the_end_of_validity_comes_back_as_it_was(held: Cohorted) -> None:
    turn = held.turn("t")
    (note,) = held.commit([fact(turn)], producer=V1)["notes"]
    end_ms = held.now_ms - 5
    held.append(Marked(memory=parse_memory_ref(note), mark=int(Mark.RESOLVED), on=True, valid_to=end_ms))
    ended = held.memory(note)["valid_to"]
    cohort = held.act(OF_V1, "rederive")
    held.now_ms += MINUTE_MS
    held.commit([fact(turn)], producer=V2)
    assert held.memory(note)["valid_to"] != ended
    held.lift(cohort)
    assert ended is not None and held.memory(note)["valid_to"] == ended


def test_turns_in_quarantine_or_held_are_not_opened(held: Cohorted) -> None:
    turns = held.turns(2)
    notes = held.commit([fact(turns[0]), fact(turns[1])], producer=V1)["notes"]
    cohort = held.act({"ids": [turns[0]]})
    assert held.look(OF_V1, "rederive")["not_rederivable"] == [notes[0]]
    held.lift(cohort)
    assert held.look(OF_V1, "rederive")["not_rederivable"] == []


def test_sessions_are_opened_each_for_itself(held: Cohorted) -> None:
    of_one, of_two = held.turns(2), held.turns(2, "two")
    held.commit([fact(*of_one)], producer=V1)
    held.commit([fact(*of_two)], "two", producer=V2)
    (other,) = [row["id"] for row in held.rows("two")]
    held.act(OF_V1, "rederive")
    assert (settled(held), settled(held, "two")) == ({}, {1: True, 2: True})
    late = held.turn("late", "two")
    held.commit([fact(late)], "two", producer=V2)
    assert told(held, other) == ["active"]


def test_what_derives_from_a_note_is_left_unless_a_pass_made_it(held: Cohorted) -> None:
    turns = held.turns(1)
    (note,) = held.commit([fact(*turns)], producer=V1)["notes"]
    belief = held.belief(note)
    seen: dict[str, Any] = held.look({"ids": turns}, "rederive", downstream=True)
    assert seen["downstream"] == [note, belief] and set(seen["not_rederivable"]) == {turns[0], belief}
    done = held.look({"ids": turns}, "rederive", downstream=True, token=seen["token"])
    assert done["done"] == 1
    (row,) = held.read("cohorts", {})["cohorts"]
    assert (row["count"], row["downstream"]) == (1, 1)

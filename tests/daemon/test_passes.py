"""Passes of sleep: notes, rows, marks and the pass number in one commit; and what a pass must not take."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon.refusal import Reason, Refused
from journal.tsid import parse_memory_ref
from projections import passes, provenance
from projections.region import LIVE, PARTIAL, TOMBSTONE
from tests.daemon.slept import DAY_MS, Slept, fact


@pytest.fixture
def slept(tmp_path: Path) -> Iterator[Slept]:
    opened = Slept(tmp_path / "state")
    try:
        yield opened
        assert opened.rebuilt_alike()
    finally:
        opened.close(True)


def refused(call: Any) -> Refused:
    with pytest.raises(Refused) as found:
        call()
    return found.value


def stored(slept: Slept, memory: str) -> list[Any]:
    """The rows of a memory as they lie in the region."""
    return provenance.rows_of(slept.state(), parse_memory_ref(memory)[1])


def consolidated(slept: Slept, ref: str) -> bool:
    return "consolidated" in slept.memory(ref)["marks"]


# --- one commit ----------------------------------------------------------------------------------


def test_a_commit_makes_notes_rows_and_marks_and_settles_its_turns(slept: Slept) -> None:
    turns = slept.turns(5)
    done = slept.commit([fact(turns[3], turns[0], tags=["tea"])], noise=[turns[1]])
    (note,) = done["notes"]
    assert done | {"notes": []} == {
        "session": slept.ref(), "pass": 1, "notes": [], "settled": 3, "partial": False,
    }  # fmt: skip
    memory = slept.memory(note)
    assert (memory["kind"], memory["subtype"], memory["origin"]) == ("note", "finding", "consolidated")
    assert memory["derived_from"] == [turns[0], turns[3]] and memory["tags"] == ["tea"]
    assert [consolidated(slept, turn) for turn in turns] == [True, False, False, True, False]
    row = slept.row(note)
    told = ("state", "pass", "fact_index", "batch_count", "turn_count", "first_seq", "last_seq")
    assert [row[name] for name in told] == ["live", 1, 0, 1, 2, 1, 4]
    sleep = slept.session()["sleep"]
    assert (sleep["promoted"], sleep["noise"], sleep["unsettled"]) == (2, 1, 2)


def test_all_records_of_a_commit_are_one_command(slept: Slept) -> None:
    turns = slept.turns(3)
    before = slept.store.log.head().seq
    slept.commit([fact(turns[0]), fact(turns[1], text="another")], noise=[turns[2]])
    records = [record for chunk in slept.store.log.chunks(before + 1) for record in chunk]
    assert {(record.cause.first_seq, record.cause.verb) for record in records} == {(before + 1, "commit_pass")}
    assert {(record.actor.role, record.actor.via) for record in records} == {(3, 4)}, "the daemon, by way of a relay"
    assert [type(record.event).__name__ for record in records] == [
        "PartitionOpened", "MemoryCreated", "MemoryCreated", "PassCommitted",
    ]  # fmt: skip


def test_the_pass_is_one_more_than_any_row_of_the_session_has(slept: Slept) -> None:
    for number in (1, 2, 3):
        turn = slept.turn(f"turn {number}")
        assert slept.commit([fact(turn, text=f"fact {number}")])["pass"] == number
    other = slept.turn("elsewhere", "two")
    assert slept.commit([fact(other)], "two")["pass"] == 1
    slept.write("forget", {"id": slept.rows()[2]["id"]})
    assert slept.commit([fact(slept.turn("again"))])["pass"] == 4, "tombstones count"
    assert [row["pass"] for row in slept.rows()] == [1, 2, 3, 4]
    told = slept.session(include=["passes"])["passes"]
    assert [(each["pass"], each["facts"], each["turns"], each["partial"]) for each in told] == [
        (number, 1, 1, False) for number in (1, 2, 3, 4)
    ]


def test_a_pass_of_noise_alone_leaves_no_row_and_its_number_to_the_next(slept: Slept) -> None:
    assert slept.commit([], noise=[slept.turn("hm")])["pass"] == 1
    assert slept.rows() == []
    assert slept.commit([fact(slept.turn("news"))])["pass"] == 1
    assert [(row["pass"], row["fact_index"], row["batch_count"]) for row in slept.rows()] == [(1, 0, 1)]


# --- several commits -----------------------------------------------------------------------------


def test_rows_are_partial_until_the_commit_that_ends_the_pass(slept: Slept) -> None:
    turns = slept.turns(4)
    first = slept.commit([fact(turns[0]), fact(turns[1], text="two")], last=False)
    assert first["partial"] and [row["state"] for row in slept.rows()] == ["partial", "partial"]
    second = slept.commit([fact(turns[2], text="three")], last=False)
    assert second["pass"] == first["pass"] == 1
    assert slept.session(include=["passes"])["passes"][0]["partial"] is True
    slept.commit([], noise=[turns[3]])
    assert [(row["state"], row["fact_index"], row["batch_count"]) for row in slept.rows()] == [
        ("live", 0, 3), ("live", 1, 3), ("live", 2, 3),
    ]  # fmt: skip
    (told,) = slept.session(include=["passes"])["passes"]
    assert (told["facts"], told["turns"], told["partial"]) == (3, 4, False)


def test_a_pass_may_be_ended_when_no_turn_is_left(slept: Slept) -> None:
    slept.commit([fact(slept.turn("t"))], last=False)
    assert slept.commit([])["settled"] == 0
    assert [row["state"] for row in slept.rows()] == ["live"]
    assert refused(lambda: slept.commit([])).reason is Reason.PROVENANCE


def test_two_sessions_may_have_open_passes_at_once(slept: Slept) -> None:
    one, two = slept.turn("a", "one"), slept.turn("b", "two")
    slept.commit([fact(one)], "one", last=False)
    slept.commit([fact(two)], "two")
    assert [row["state"] for row in slept.rows("one") + slept.rows("two")] == ["partial", "live"]


# --- states --------------------------------------------------------------------------------------


@pytest.mark.parametrize("last", [True, False])
def test_a_row_is_a_tombstone_while_its_note_is_forgotten(slept: Slept, last: bool) -> None:
    (note,) = slept.commit([fact(slept.turn("t"))], last=last)["notes"]
    before = LIVE if last else PARTIAL
    assert [row.flags for row in stored(slept, note)] == [before]
    slept.write("forget", {"id": note})
    assert [row.flags for row in stored(slept, note)] == [TOMBSTONE] and slept.row(note)["content_hash_hi"] == 0
    slept.write("recover", {"id": note})
    assert [row.flags for row in stored(slept, note)] == [before] and slept.row(note)["content_hash_hi"] != 0


def test_a_pass_that_ends_meanwhile_is_what_the_row_comes_back_to(slept: Slept) -> None:
    (note,) = slept.commit([fact(slept.turn("t"))], last=False)["notes"]
    slept.write("forget", {"id": note})
    slept.commit([fact(slept.turn("u"), text="two")])
    assert slept.row(note)["state"] == "tombstone"
    slept.write("recover", {"id": note})
    assert slept.row(note)["state"] == "live"


# --- the six faults of a pass, each with a test that fails when it is there ----------------------


def test_offsets_are_those_of_the_turns_in_their_partition(slept: Slept) -> None:
    """Not from where the pass began to read, nor over all partitions; and the same when folded anew."""
    slept.write("remember", {"kind": "raw", "origin": "observed", "text": "a capture before"})
    slept.turns(2, "two")
    first_day = [slept.turn("one"), slept.turn("two")]
    slept.now_ms += DAY_MS
    slept.write("remember", {"kind": "raw", "origin": "observed", "text": "a capture of the next day"})
    next_day = slept.turn("three")
    made = slept.commit([fact(*first_day), fact(next_day, text="later")])["notes"]
    places = [(row.first_offset, row.last_offset) for note in made for row in stored(slept, note)]
    assert places == [(3, 4), (1, 1)]
    slept.rebuild()
    assert [(row.first_offset, row.last_offset) for note in made for row in stored(slept, note)] == places


def test_identical_turns_are_each_settled(slept: Slept) -> None:
    turns = [slept.turn("a") for _ in range(6)]
    slept.commit([fact(*turns[:4])], noise=turns[4:])
    assert [consolidated(slept, turn) for turn in turns] == [True] * 4 + [False] * 2
    assert slept.session()["sleep"]["unsettled"] == 0
    settled = passes.settled_turns(slept.state(), slept.number())
    assert [settled[turn].promoted for turn in range(1, 7)] == [True] * 4 + [False] * 2
    assert slept.rows()[0]["turn_count"] == 4


def test_a_fact_keeps_the_affect_it_was_given(slept: Slept) -> None:
    slept.turn("calm", valence=-0.5, arousal=0.25, importance=2.0)
    (first,) = (row["id"] for row in slept.session(include=["turns"])["memories"])
    second = slept.turn("stirred", valence=0.25, arousal=0.75, importance=4.0)
    given = slept.commit([fact(first, valence=-0.125, arousal=0.5, importance=7.5), fact(second, text="two")])["notes"]
    felt = [[slept.memory(note)[name] for name in ("valence", "arousal", "importance")] for note in given]
    assert felt == [[-0.125, 0.5, 7.5], [0.25, 0.75, 4.0]]
    third = slept.turn("both", importance=1.0, valence=-1.0)
    fourth = slept.turn("too", importance=2.0, arousal=1.0)
    (note,) = slept.commit([fact(third, fourth, text="three")])["notes"]
    assert [slept.memory(note)[name] for name in ("valence", "arousal", "importance")] == [0.0, 1.0, 1.5]


def test_a_note_belongs_to_its_session(slept: Slept) -> None:
    slept.turn("elsewhere", "two")
    (note,) = slept.commit([fact(slept.turn("here"))])["notes"]
    assert slept.memory(note)["session"] == slept.row(note)["session"] == slept.ref()
    assert [each["id"] for each in slept.session(include=["derived"])["derived"]] == [note]
    assert [
        each["id"] for each in slept.read("list", {"sel": {"session": slept.ref(), "kinds": ["note"]}})["memories"]
    ] == [note]


@pytest.mark.parametrize("lost", ["nothing", "projections", "all"])
def test_after_a_crash_each_fact_is_there_once(slept: Slept, tmp_path: Path, lost: str) -> None:
    """Behind the commit, between journal and projections, and before it. Whoever tries again is told, or does it."""
    turns = slept.turns(4)  # one of them waits on
    facts = [fact(turns[0]), fact(turns[1], text="two")]
    slept.reopen(True)
    slept.close(True)
    shutil.copytree(slept.root, tmp_path / "before")
    slept._open()
    slept.commit(facts, noise=[turns[2]])
    slept.close(False)
    if lost == "projections":
        shutil.rmtree(slept.root / "projections")
        shutil.copytree(tmp_path / "before" / "projections", slept.root / "projections")
    if lost == "all":
        shutil.rmtree(slept.root)
        shutil.copytree(tmp_path / "before", slept.root)
    slept._open()
    if lost == "all":
        slept.commit(facts, noise=[turns[2]])
    else:
        told = refused(lambda: slept.commit(facts, noise=[turns[2]]))
        assert (told.reason, told.data["current"]) == (Reason.CONFLICT, "settled")
    rows = slept.rows()
    assert [(row["pass"], row["fact_index"]) for row in rows] == [(1, 0), (1, 1)]
    assert slept.read("list", {"sel": {"kinds": ["note"]}})["total"] == 2


def test_the_partition_of_a_row_is_that_of_its_first_turn(slept: Slept) -> None:
    """A session over midnight is one row; where new memories go when the pass runs doesn't matter."""
    days = []
    turns = []
    for _ in range(3):
        turns.append(slept.turn("t"))
        days.append(slept.memory(turns[-1])["partition"])
        slept.now_ms += DAY_MS
    made = slept.commit([fact(*turns[1:]), fact(turns[0], text="first"), fact(*turns, text="all")])["notes"]
    assert len(set(days)) == 3
    assert [slept.row(note)["partition"] for note in made] == [days[1], days[0], days[0]]
    assert [slept.row(note)["turn_count"] for note in made] == [2, 1, 3]


# --- what comes back -----------------------------------------------------------------------------


def test_noise_comes_back_when_the_session_has_new_turns(slept: Slept) -> None:
    noise = slept.turn("hm")
    slept.commit([], noise=[noise])
    assert refused(lambda: slept.commit([fact(noise)])).data["current"] == "settled"
    new = slept.turn("that was it")
    slept.commit([fact(noise, new)])
    sleep = slept.session()["sleep"]
    assert (sleep["promoted"], sleep["noise"], sleep["unsettled"]) == (2, 0, 0)
    assert consolidated(slept, noise)


def test_noise_of_the_open_pass_stays_settled_in_it(slept: Slept) -> None:
    turns = slept.turns(3)
    slept.commit([fact(turns[0])], noise=[turns[1]], last=False)
    assert refused(lambda: slept.commit([fact(turns[1], turns[2])])).data["current"] == "settled"


def test_a_repeated_key_answers_as_the_first_time(slept: Slept) -> None:
    turn = slept.turn("t")
    first = slept.commit([fact(turn)], idempotency_key="cycle/1")
    slept.reopen(False)
    assert slept.commit([fact(turn)], idempotency_key="cycle/1") == {**first, "duplicate": True}
    assert len(slept.rows()) == 1


# --- what a pass must not take -------------------------------------------------------------------


def test_a_bad_pass_is_refused_and_changes_nothing(slept: Slept) -> None:
    turns = slept.turns(3)
    foreign = slept.turn("elsewhere", "two")
    other = str(slept.write("remember", {
        "kind": "raw", "role": "user", "text": "theirs", "tenant": "other", "session": {"agent": "x", "key": "y"},
    })["id"])  # fmt: skip
    capture = str(slept.write("remember", {"kind": "raw", "origin": "observed", "text": "c"})["id"])
    note = str(
        slept.write("remember", {"kind": "note", "origin": "told", "text": "n", "derived_from": [turns[0]]})["id"]
    )
    head = slept.store.log.head().seq
    cases: list[tuple[Any, Reason, dict[str, Any]]] = [
        (lambda: slept.commit([fact(turns[0], turns[0])]), Reason.INVALID_INPUT, {"ids": [turns[0]]}),
        (lambda: slept.commit([fact(turns[0], foreign)]), Reason.PROVENANCE, {"ids": [foreign]}),
        (lambda: slept.commit([fact(other)]), Reason.PROVENANCE, {"ids": [other]}),
        (lambda: slept.commit([fact(capture)]), Reason.PROVENANCE, {"ids": [capture]}),
        (lambda: slept.commit([fact(note)]), Reason.PROVENANCE, {"ids": [note]}),
        (lambda: slept.commit([fact("raw:0000000000000")]), Reason.PROVENANCE, {}),
        (lambda: slept.commit([fact()]), Reason.PROVENANCE, {"parameter": "derived_from"}),
        (lambda: slept.commit([]), Reason.PROVENANCE, {"parameter": "derived_from"}),
        (lambda: slept.commit([fact(turns[0])], noise=[turns[0]]), Reason.INVALID_INPUT, {"parameter": "noise"}),
        (lambda: slept.commit([fact(turns[0], quoted_from=[turns[1]])]), Reason.PROVENANCE, {"ids": [turns[1]]}),
        (lambda: slept.commit([fact(turns[0], text=" \n")]), Reason.INVALID_INPUT, {"parameter": "facts.text"}),
        (lambda: slept.commit([fact(turns[0])], number=2), Reason.CONFLICT, {"current": 1}),
        (lambda: slept.commit([fact(turns[0])], scores=[{"turn": turns[1], "importance": 1.0}]),
         Reason.INVALID_INPUT, {"parameter": "scores"}),
        (lambda: slept.commit([fact(turns[0])] * 256), Reason.INVALID_INPUT, {"parameter": "facts", "limit": 255}),
    ]  # fmt: skip
    for call, reason, data in cases:
        told = refused(call)
        assert (told.reason, {**told.data, **data}) == (reason, told.data)
    assert slept.store.log.head().seq == head


@pytest.mark.parametrize("part", ["turn", "session"])
def test_a_session_of_another_tenant_is_none(slept: Slept, part: str) -> None:
    turn = slept.turn("t")
    from daemon.commands.passes import PassFact, PassParams

    params = PassParams(session=slept.ref(), facts=[PassFact(text="f", turns=[turn])])
    slept.write("remember", {"kind": "raw", "origin": "told", "text": "theirs", "tenant": "other"})
    tenant = "other" if part == "turn" else "never"
    assert refused(lambda: slept.service.commit_pass(params, tenant)).reason is Reason.NOT_FOUND


def test_a_settled_turn_is_not_taken_again(slept: Slept) -> None:
    turn, more = slept.turn("t"), slept.turn("u")
    slept.commit([fact(turn)])
    told = refused(lambda: slept.commit([fact(turn, more)]))
    assert (told.reason, told.data["ids"], told.data["current"]) == (Reason.CONFLICT, [turn], "settled")
    assert refused(lambda: slept.commit([], noise=[turn])).data["current"] == "settled"


def test_a_forgotten_turn_is_not_taken(slept: Slept) -> None:
    turn = slept.turn("t")
    slept.write("forget", {"id": turn})
    told = refused(lambda: slept.commit([fact(turn)]))
    assert (told.reason, told.data["current"]) == (Reason.CONFLICT, "forgotten")


def test_a_pass_has_at_most_255_facts_over_all_its_commits(slept: Slept) -> None:
    turn = slept.turn("t")
    slept.commit([fact(turn, text=str(number)) for number in range(254)], last=False)
    more = slept.turns(2)
    told = refused(lambda: slept.commit([fact(more[0]), fact(more[1], text="two")]))
    assert (told.reason, told.data["limit"]) == (Reason.INVALID_INPUT, 255)
    slept.commit([fact(more[0])])
    rows = slept.rows()
    assert [row["fact_index"] for row in rows] == list(range(255)) and rows[-1]["batch_count"] == 255


def test_nothing_is_consolidated_in_maintenance(slept: Slept) -> None:
    turn = slept.turn("t")
    slept.write("lifecycle", {"state": "maintenance"})
    assert refused(lambda: slept.commit([fact(turn)])).reason is Reason.LIFECYCLE

"""What a pass leaves of its session and turns: scores, activity, times; and whether sleep would take it again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from journal.events import PassFailed, TurnsReopened, Unparked
from journal.tsid import parse_memory_ref
from projections import passes
from tests.daemon.slept import DAY_MS, MINUTE_MS, Slept, fact


@pytest.fixture
def slept(tmp_path: Path) -> Iterator[Slept]:
    opened = Slept(tmp_path / "state")
    try:
        yield opened
        assert opened.rebuilt_alike()
    finally:
        opened.close(True)


def why_not(slept: Slept) -> str | None:
    sleep = slept.session()["sleep"]
    assert sleep["eligible"] is (sleep["why_not"] is None)
    found: str | None = sleep["why_not"]
    return found


# --- scores and the session ----------------------------------------------------------------------


def test_scores_are_what_a_turn_is_worth_from_then_on(slept: Slept) -> None:
    turns = slept.turns(2)
    scores = [
        {"turn": turns[0], "importance": 3.0, "surprise": 0.5, "distance": 1.0},
        {"turn": turns[1], "importance": 10.0, "surprise": 4.0, "pinned": True},
    ]
    (note,) = slept.commit([fact(*turns)], scores=scores)["notes"]
    told = [slept.memory(turn) for turn in turns]
    assert [memory["importance"] for memory in told] == [3.0, 10.0]
    assert [("pinned" in memory["marks"]) for memory in told] == [False, True]
    assert slept.memory(note)["importance"] == 6.5, "the mean of what its turns are worth now"


def test_a_pass_is_no_activity_of_the_session(slept: Slept) -> None:
    turn = slept.turn("t")
    before = slept.session()["last_at"]
    slept.now_ms += 40 * MINUTE_MS
    slept.commit([fact(turn)])
    assert slept.session()["last_at"] == before


def test_a_note_is_valid_from_its_first_turn_and_filed_like_its_session(slept: Slept) -> None:
    slept.write("session_open", {"agent": "sleeper", "key": "one", "project": "house", "subject": "Ada"})
    early = slept.turn("early", occurred_at="2020-01-01T00:00:00Z")
    late = slept.turn("late")
    (note,) = slept.commit([fact(early, late)])["notes"]
    memory = slept.memory(note)
    assert (memory["valid_from"], memory["project"], memory["subject"]) == ("2020-01-01T00:00:00.000Z", "house", "Ada")


def test_turns_of_interleaved_sessions_stay_apart(slept: Slept) -> None:
    turns: dict[str, list[str]] = {"one": [], "two": [], "three": []}
    for number in range(12):
        key = list(turns)[number % 3]
        turns[key].append(slept.turn("x", key))
    for key, found in turns.items():
        slept.commit([fact(*found[::2], text="x")], key, noise=found[1:2])
    for key, found in turns.items():
        (row,) = slept.rows(key)
        assert (row["first_seq"], row["last_seq"], row["turn_count"]) == (1, 3, 2)
        waiting = [tsid for _, tsid in passes.unsettled_turns(slept.state(), slept.number(key))]
        assert waiting == [parse_memory_ref(found[3])[1]]


# --- who may be taken ----------------------------------------------------------------------------


def test_sleep_says_why_it_would_not_take_a_session(slept: Slept) -> None:
    slept.write("session_open", {"agent": "sleeper", "key": "one"})
    assert why_not(slept) == "no_turns"
    turn = slept.turn("t")
    assert why_not(slept) == "session_open"
    slept.now_ms += 30 * MINUTE_MS
    assert why_not(slept) == "partition_active"
    slept.now_ms += DAY_MS
    assert why_not(slept) is None, "the day is over"
    slept.write("forget", {"id": turn})
    assert why_not(slept) == "settled"
    slept.write("recover", {"id": turn})
    slept.commit([fact(turn)])
    assert why_not(slept) == "settled"
    slept.turn("more")
    slept.write("session_close", {"session": slept.ref()})
    assert why_not(slept) == "partition_active"


def test_what_a_turn_was_before_its_pass_can_be_asked(slept: Slept) -> None:
    turns = slept.turns(3)
    before = slept.memory(turns[1])
    slept.now_ms += MINUTE_MS
    scores = [{"turn": turn, "importance": 4.0, "surprise": 1.0, "pinned": True} for turn in turns]
    slept.commit([fact(*turns[:2])], noise=turns[2:], scores=scores)
    now = slept.memory(turns[1])
    assert (now["marks"], now["importance"]) == (["pinned", "consolidated"], 4.0)
    (then,) = slept.read("get", {"ids": [turns[1]], "as_known_at": before["at"]})["memories"]
    assert (then["marks"], then["importance"], then["processed_into"]) == ([], before["importance"], [])
    words = [each["type"] for each in slept.read("history", {"id": turns[2]})["events"]]
    assert words == ["memory_created", "pass_committed"]


def test_a_session_that_failed_too_often_is_parked_until_it_is_unparked(slept: Slept) -> None:
    turn = slept.turn("t")
    slept.now_ms += 2 * DAY_MS
    number = slept.number()
    slept.append(PassFailed(session=number, attempt=2, error="timeout", parked=False))
    assert why_not(slept) is None
    slept.append(PassFailed(session=number, attempt=3, error="timeout", parked=True))
    assert why_not(slept) == "parked"
    slept.append(Unparked(session=number))
    assert why_not(slept) is None
    slept.append(PassFailed(session=number, attempt=1, error="timeout", parked=False))
    slept.commit([fact(turn)])
    assert passes.sleep_of(slept.state(), number).attempts == 0


def test_turns_that_are_reopened_wait_for_a_new_pass(slept: Slept) -> None:
    turns = slept.turns(3)
    slept.commit([fact(turns[0], turns[1])], noise=[turns[2]])
    again = (turns[0], turns[2])
    slept.append(
        TurnsReopened(session=slept.number(), turns=tuple(parse_memory_ref(ref)[1] for ref in again), cohort=5)
    )
    sleep = slept.session()["sleep"]
    assert (sleep["promoted"], sleep["noise"], sleep["unsettled"]) == (1, 0, 2)
    assert ["consolidated" in slept.memory(turn)["marks"] for turn in turns] == [False, True, False]
    assert slept.commit([fact(*again, text="anew")])["pass"] == 2
    assert [row["pass"] for row in slept.rows()] == [1, 2]


def test_a_turn_of_one_character_is_a_turn(slept: Slept) -> None:
    turns = [slept.turn(text) for text in ("a", "é", "\u200b", "0", "a")]
    slept.commit([fact(*turns, text="x")])
    assert slept.rows()[0]["turn_count"] == 5 and slept.session()["sleep"]["unsettled"] == 0

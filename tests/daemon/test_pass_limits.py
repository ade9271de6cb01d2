"""A commit of a pass that comes from within is held to what the wire holds its callers to; and what it may settle."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon.commands.passes import PassFact, PassParams, PassScore
from daemon.refusal import Reason, Refused
from journal import events
from journal.codes import Mark, ReopenCause
from journal.tsid import parse_memory_ref
from projections.partitions import load
from projections.rows import HEADER_BYTES
from tests.daemon.slept import MINUTE_MS, Slept, fact


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


def written(slept: Slept, kind: type) -> list[Any]:
    return [r.event for chunk in slept.store.log.chunks() for r in chunk if isinstance(r.event, kind)]


# --- what the wire would refuse ------------------------------------------------------------------

NUMBERS = [math.nan, math.inf, -math.inf, 1e300]
BAD_FACTS: list[tuple[str, Any, str]] = [
    *[(name, number, f"facts.{name}") for name in ("surprise", "distance", "importance") for number in NUMBERS],
    *[(name, number, f"facts.{name}") for name in ("valence", "arousal") for number in (math.nan, 1.5, -1.5)],
    ("tags", [" "], "facts.tags"), ("tags", [""], "facts.tags"), ("tags", ["x" * 10_000], "facts.tags"),
    ("tags", ["\ud800"], "facts.tags"), ("text", "a\udfffb", "facts.text"), ("text", "", "facts.text"),
    ("text", "\t", "facts.text"), ("valid_from", "yesterday", "facts.valid_from"),
    ("importance", 0.0, "facts.importance"), ("tags", ["t"] * 10_000, "facts.tags"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "parameter"), BAD_FACTS)
def test_a_fact_that_no_caller_could_have_sent_is_refused(slept: Slept, name: str, value: Any, parameter: str) -> None:
    turn = slept.turn("t")
    given = PassFact(**{"text": "f", "turns": [turn], name: value})
    told = refused(lambda: slept.service.commit_pass(PassParams(session=slept.ref(), facts=[given]), "default"))
    assert (told.reason, told.data["parameter"]) == (Reason.INVALID_INPUT, parameter)
    assert slept.session()["sleep"]["unsettled"] == 1
    slept.commit([fact(turn)])


def test_a_text_is_measured_in_bytes(slept: Slept) -> None:
    turn = slept.turn("t")
    told = refused(lambda: slept.commit([fact(turn, text="é" * 600_000)]))
    assert (told.reason, told.data["parameter"], told.data["limit"]) == (Reason.TOO_LARGE, "facts.text", 1 << 20)
    slept.commit([fact(turn, text="é" * (1 << 19))])


@pytest.mark.parametrize(
    ("given", "parameter"),
    [
        ({"cycle": -1}, "cycle"), ({"cycle": 1 << 32}, "cycle"), ({"number": 0}, "number"),
        ({"number": 1 << 16}, "number"), ({"idempotency_key": ""}, "idempotency_key"),
        ({"idempotency_key": "k" * 1000}, "idempotency_key"),
    ],
)  # fmt: skip
def test_a_number_or_key_out_of_range_is_refused(slept: Slept, given: dict[str, Any], parameter: str) -> None:
    turn = slept.turn("t")
    params = PassParams(session=slept.ref(), facts=[PassFact(text="f", turns=[turn])], **given)
    told = refused(lambda: slept.service.commit_pass(params, "default"))
    assert (told.reason, told.data["parameter"]) == (Reason.INVALID_INPUT, parameter)


@pytest.mark.parametrize("name", ["surprise", "distance", "importance"])
@pytest.mark.parametrize("number", NUMBERS)
def test_a_score_that_is_no_measure_is_refused(slept: Slept, name: str, number: float) -> None:
    turn = slept.turn("t")
    measures: dict[str, Any] = {"importance": 1.0, name: number}
    score = PassScore(turn=turn, **measures)
    params = PassParams(session=slept.ref(), noise=[turn], scores=[score])
    told = refused(lambda: slept.service.commit_pass(params, "default"))
    assert (told.reason, told.data["parameter"]) == (Reason.INVALID_INPUT, f"scores.{name}")


def test_a_turn_is_scored_once(slept: Slept) -> None:
    turn = slept.turn("t")
    scores = [{"turn": turn, "importance": 1.0}, {"turn": turn, "importance": 2.0}]
    told = refused(lambda: slept.commit([fact(turn)], scores=scores))
    assert (told.reason, told.data["parameter"], told.data["ids"]) == (Reason.INVALID_INPUT, "scores", [turn])


# --- which turns ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mark", [Mark.HELD, Mark.QUARANTINED])
def test_what_is_held_or_quarantined_is_not_consolidated(slept: Slept, mark: Mark) -> None:
    turn, other = slept.turns(2)
    slept.append(events.Marked(memory=parse_memory_ref(turn), mark=int(mark), on=True))
    told = refused(lambda: slept.commit([fact(turn, other)]))
    assert (told.reason, told.data["current"], told.data["ids"]) == (Reason.CONFLICT, mark.wire, [turn])
    slept.commit([fact(other)])
    slept.now_ms += 40 * MINUTE_MS
    sleep = slept.session()["sleep"]
    assert (sleep["unsettled"], sleep["why_not"]) == (1, mark.wire)


@pytest.mark.parametrize("how", ["forget", "prune", "purge"])
def test_a_dead_turn_is_no_new_one(slept: Slept, how: str) -> None:
    """No pass ever takes it: if it counted as one that waits, noise would come back at every pass, for ever."""
    noise, dead = slept.turns(2)
    if how == "forget":
        slept.write("forget", {"id": dead})
    elif how == "prune":
        slept.append(events.Pruned(memories=(parse_memory_ref(dead),), cycle=1))
    else:
        slept.purge(dead)
    slept.commit([], noise=[noise])
    assert refused(lambda: slept.commit([], noise=[noise])).data["current"] == "settled"
    slept.now_ms += 40 * MINUTE_MS
    sleep = slept.session()["sleep"]
    assert (sleep["unsettled"], sleep["why_not"], sleep["eligible"]) == (0, "settled", False)


def test_noise_comes_back_in_every_commit_of_a_pass_that_began_with_new_turns(slept: Slept) -> None:
    """The new ones may have been settled by the first of them."""
    noise = slept.turns(3)
    slept.commit([], noise=noise)
    slept.commit([fact(slept.turn("new"))], last=False)
    slept.commit([fact(noise[0], noise[1], text="two")], last=False)
    assert refused(lambda: slept.commit([fact(noise[0], text="again")])).data["current"] == "settled"
    slept.commit([fact(noise[2], text="three")])
    reopened = written(slept, events.TurnsReopened)
    assert [len(event.turns) for event in reopened] == [2, 1]
    assert {event.cause for event in reopened} == {int(ReopenCause.NEW_TURNS)}
    sleep = slept.session()["sleep"]
    assert (sleep["promoted"], sleep["noise"], sleep["unsettled"]) == (4, 0, 0)


# --- what a pass leaves --------------------------------------------------------------------------


def test_the_number_of_facts_is_that_of_the_whole_pass_once_it_has_ended(slept: Slept) -> None:
    turns = slept.turns(4)
    notes = []
    for place in range(3):
        notes += slept.commit([fact(turns[place], text=str(place))], last=False)["notes"]
    assert [row["batch_count"] for row in slept.rows()] == [1, 2, 3], "as far as the pass has come"
    slept.write("forget", {"id": notes[0]})
    slept.commit([fact(turns[3], text="3")])
    assert [row["batch_count"] for row in slept.rows()] == [4] * 4, "a tombstone too"
    slept.write("recover", {"id": notes[0]})
    assert [(row["state"], row["batch_count"]) for row in slept.rows()] == [("live", 4)] * 4
    slept.commit([fact(slept.turn("next"), text="next")])
    assert [row["batch_count"] for row in slept.rows()] == [4, 4, 4, 4, 1]


def test_a_score_says_what_stood_before(slept: Slept) -> None:
    """So that it can be given back."""
    plain, pinned = slept.turn("a", importance=3.0), slept.turn("b", importance=4.0)
    slept.append(events.Marked(memory=parse_memory_ref(pinned), mark=int(Mark.PINNED), on=True))
    slept.commit(
        [fact(plain, pinned)], scores=[{"turn": each, "importance": 9.0, "pinned": True} for each in (plain, pinned)]
    )
    (event,) = written(slept, events.PassCommitted)
    assert [(each.old_importance, each.was_pinned) for each in event.scores] == [(3.0, False), (4.0, True)]


def test_surprise_stands_in_the_header_row_of_its_turn_alone(slept: Slept) -> None:
    turns = slept.turns(3)
    scores = [
        {"turn": turn, "importance": 1.0, "surprise": by} for turn, by in zip(turns[:2], (0.5, None), strict=True)
    ]
    slept.commit([fact(*turns)], scores=scores)
    partition = slept.state().memory(parse_memory_ref(turns[0])[1]).partition  # type: ignore[union-attr]
    page = slept.state().row_page(partition, 0)
    told = [struct.unpack_from("<f", page, at * HEADER_BYTES + 36)[0] for at in range(3)]
    assert told == [0.5, 0.0, 0.0]


@pytest.mark.parametrize("order", ["forget, prune", "prune, forget", "prune, prune", "forget, purge", "purge, prune"])
def test_a_row_dies_once_however_often_it_is_killed(slept: Slept, order: str) -> None:
    turn = slept.turns(2)[0]
    ref = parse_memory_ref(turn)
    for how in order.split(", "):
        event: Any = {
            "forget": events.Forgotten(memory=ref, strength=0.0),
            "prune": events.Pruned(memories=(ref,), cycle=1),
            "purge": events.Purged(targets=(events.PurgeTarget(*ref),), parts=()),
        }[how]
        slept.append(event)
    partition = slept.state().memory(ref[1]).partition  # type: ignore[union-attr]
    assert load(slept.state(), partition).dead == 1

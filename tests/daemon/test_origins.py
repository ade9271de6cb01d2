"""Where a memory comes from decides what may be said of it: the table of consumers, and the rule for `stated`."""

from __future__ import annotations

from itertools import combinations
from typing import Any, get_args

import msgspec
import pytest

from daemon.call import Call
from daemon.caller import Caller
from daemon.refusal import Reason, Refused
from daemon.wire.verbs import VERBS
from daemon.wire.vocabulary import KindWord, OriginWord
from journal.codes import CallerRole, Kind, Origin, Via
from projections.kinds import DEFAULT_SUBTYPE, KINDS, ORIGINS, Assertable, Sweep, may_assert, weakest
from tests.daemon.told import Told, reason_of

CONSUMERS = {
    "recorded": ("yes", None, 0, "witnessed"),
    "stated": ("as_theirs", "you said", 1, "witnessed"),
    "experienced": ("yes", None, 2, "witnessed"),
    "told": ("with_source", "I was told", 3, "reported"),
    "observed": ("with_source", "according to", 4, "reported"),
    "derived": ("hedged", "I conclude", 5, "concluded"),
    "consolidated": ("as_sources", "from our conversations", 6, "slept"),
    "inferred": ("hedged", "it seems", 7, "concluded"),
    "seeded": ("hedged", "I was set up to", 8, "given"),
}
"""The contract's table by hand: may be asserted, hedge, rank in a conflict, what a sweep can do. A tenth origin is
missing here until each consumer has been thought of."""


def test_every_consumer_knows_every_origin() -> None:
    assert [origin.wire for origin in Origin] == list(CONSUMERS) == list(get_args(OriginWord))
    for origin, rule in ORIGINS.items():
        found = (rule.assertable.value, rule.hedge, rule.rank, rule.sweep.value)
        assert found == CONSUMERS[origin.wire], origin
    assert {rule.assertable for rule in ORIGINS.values()} == set(Assertable)
    assert {rule.sweep for rule in ORIGINS.values()} == set(Sweep)


def test_every_consumer_knows_every_kind() -> None:
    """A tenth kind fails here until its tier, sources, decay, confidence and protection have been thought of."""
    assert [kind.wire for kind in Kind] == list(get_args(KindWord))
    assert list(KINDS) == list(DEFAULT_SUBTYPE) == list(Kind) and len(Kind) == 9


@pytest.mark.parametrize(("one", "other"), list(combinations(Origin, 2)))
def test_no_two_origins_are_the_same_to_all_consumers(one: Origin, other: Origin) -> None:
    assert ORIGINS[one] != ORIGINS[other]
    assert ORIGINS[one].rank < ORIGINS[other].rank, "each wins over all below it"
    assert weakest([one, other]) is weakest([other, one]) is other


def test_of_nothing_the_weakest_origin_is_one_that_is_hedged() -> None:
    assert weakest([]) is Origin.SEEDED and not may_assert(weakest([]))


@pytest.mark.parametrize("origin", [origin for origin in Origin if origin is not Origin.CONSOLIDATED])
def test_get_says_what_the_table_says(told: Told, origin: Origin) -> None:
    memory = told.memory(told.raw(origin=origin.wire))
    assert (memory["assertable"], memory["hedge"]) == (CONSUMERS[origin.wire][0] != "hedged", CONSUMERS[origin.wire][1])


# --- what sleep made -----------------------------------------------------------------------------


def slept(told: Told, kind: str, *sources: str) -> str:
    """A consolidated memory, as an importer may bring it."""
    params = {
        "kind": kind, "origin": "consolidated", "text": "found asleep", "imported": {"format": "other"},
        "derived_from": list(sources),
    }  # fmt: skip
    importer = Caller(uid=1, role=CallerRole.OPERATOR, tenants_read=None, tenants_write=None, via=Via.IMPORTER)
    told.service.submit(Call("remember", msgspec.convert(params, VERBS["remember"].params), importer, lambda _: None))
    _, outcome = told._answers.get(timeout=30)
    assert not isinstance(outcome, Refused), outcome
    return str(msgspec.to_builtins(outcome)["id"])


@pytest.mark.parametrize(
    ("origins", "assertable"),
    [
        (["stated"], True), (["stated", "observed"], True), (["recorded", "seeded"], False), (["inferred"], False),
        (["experienced", "told", "stated"], True), (["derived", "recorded"], False),
    ],
)  # fmt: skip
def test_what_sleep_made_is_asserted_as_the_weakest_of_its_sources(
    told: Told, origins: list[str], assertable: bool
) -> None:
    note = slept(told, "note", *(told.raw(origin=origin) for origin in origins))
    memory = told.memory(note)
    assert (memory["origin"], memory["assertable"], memory["hedge"]) == (
        "consolidated", assertable, "from our conversations",
    )  # fmt: skip


def test_through_what_sleep_made_as_well_the_sources_below_decide(told: Told) -> None:
    sure, unsure = told.raw(origin="recorded"), told.raw(origin="inferred")
    notes = [slept(told, "note", sure), slept(told, "note", unsure)]
    beliefs = [slept(told, "belief", note) for note in notes]
    assert [told.memory(ref)["assertable"] for ref in (*notes, *beliefs)] == [True, False, True, False]
    both = slept(told, "belief", *notes)
    assert not told.memory(both)["assertable"]


def test_without_a_source_nothing_that_sleep_made_is_asserted(told: Told) -> None:
    told.raw()
    told.write("lifecycle", {"enforce": False})
    assert not told.memory(slept(told, "note"))["assertable"]


def test_a_forgotten_source_still_says_what_it_was(told: Told) -> None:
    turn = told.raw(origin="inferred")
    note = slept(told, "note", turn, told.raw(origin="stated"))
    told.do("forget", turn)
    assert not told.memory(note)["assertable"]


# --- stated --------------------------------------------------------------------------------------

MODEL = {"agent": "a", "model": "m-1"}


def spoken(told: Told, text: str, role: str = "user") -> str:
    return told.raw(text, role=role, session={"agent": "a", "key": "k"})


def claim(told: Told, text: str, *turns: str, **more: Any) -> dict[str, Any]:
    params = {"kind": "note", "origin": "stated", "text": text, "producer": MODEL, "derived_from": list(turns), **more}
    return told.write("remember", params)


def unproven(told: Told, text: str, *turns: str, **more: Any) -> None:
    before = told.store.log.head().seq
    reason, data = reason_of(lambda: claim(told, text, *turns, **more))
    assert (reason, data["parameter"], data["hint"]) == (Reason.PROVENANCE, "origin", "inferred")
    assert told.store.log.head().seq == before


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("I paint the gate green", "the gate"), ("the  gate\n is\tgreen", "the gate is green"),
        ("the gate is green", " the   gate\u00a0is\u2003green \n"), ("gate", "gate"), ("Ünïcödé ☂ ok", "ïcödé ☂"),
    ],
)  # fmt: skip
def test_words_that_stand_in_a_user_turn_are_stated(told: Told, said: str, text: str) -> None:
    assert claim(told, text, spoken(told, said))["id"]


@pytest.mark.parametrize("text", ["The gate", "the gate is", "thegate", "gate the", "the gate."])
def test_words_that_do_not_stand_there_are_not_stated(told: Told, text: str) -> None:
    unproven(told, text, spoken(told, "paint the gate"))


def test_words_are_not_put_together_from_two_turns(told: Told) -> None:
    one, two = spoken(told, "the gate"), spoken(told, "is green")
    unproven(told, "the gate is green", one, two)
    assert claim(told, "is green", one, two)["id"], "either of them will do"


def test_a_dead_turn_proves_nothing_until_it_is_back(told: Told) -> None:
    turn = spoken(told, "the gate is green")
    told.do("forget", turn)
    unproven(told, "the gate", turn)
    told.do("recover", turn)
    assert claim(told, "the gate", turn)["id"]


def test_evidence_proves_it_as_well(told: Told) -> None:
    turn, other = spoken(told, "the gate is green"), spoken(told, "nothing to do with it")
    assert claim(told, "the gate", other, evidence=[turn])["id"]


def test_only_the_users_own_turns_prove_it(told: Told) -> None:
    for role in ("assistant", "tool"):
        unproven(told, "the gate", spoken(told, "the gate is green", role))
    capture = told.raw("the gate is green", role="user")
    unproven(told, "the gate", capture)
    unproven(told, "the gate", told.raw("the gate is green"))


def test_a_turn_of_the_same_batch_proves_it(told: Told) -> None:
    turn = {"kind": "raw", "role": "user", "text": "the gate is green", "session": {"agent": "a", "key": "k"}}
    note = {"kind": "note", "origin": "stated", "text": "the gate", "producer": MODEL, "derived_from": ["@0"]}
    assert len(told.write("remember_many", {"items": [turn, note]})["results"]) == 2


def test_without_a_model_or_as_the_utterance_itself_nothing_is_to_be_proven(told: Told) -> None:
    turn = spoken(told, "something else")
    assert claim(told, "the gate", turn, producer={"agent": "a"})["id"]
    itself = {"kind": "raw", "role": "user", "text": "never said before", "producer": MODEL}
    assert told.write("remember", {**itself, "session": {"agent": "a", "key": "k"}})["turn"]


def test_a_model_that_a_session_gives_counts_too(told: Told) -> None:
    session = told.write("session_open", {"agent": "a", "key": "with", "producer": MODEL})["session"]
    turn = told.raw("something else", role="user", session=session)
    params = {"kind": "note", "origin": "stated", "text": "the gate", "derived_from": [turn], "session": session}
    assert reason_of(lambda: told.write("remember", params))[0] is Reason.PROVENANCE
    assert told.write("remember", {**params, "producer": {"agent": "a"}})["id"], "what is given replaces it whole"

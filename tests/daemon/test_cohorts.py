"""Cohorts: what a selection finds is told first, then quarantined or demoted as one command, and given back exactly."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from daemon.asking import Asking
from daemon.call import Call
from daemon.refusal import Reason
from daemon.wire.verbs import VERBS
from journal.codes import Mark
from journal.times import format_ms
from journal.tsid import parse_memory_ref
from projections.rows import MemoryRow
from tests.daemon.cohorted import BAD, GOOD, OF_BAD, Cohorted, refused
from tests.daemon.slept import fact
from tests.model.opened import OPERATOR


def row_of(held: Cohorted, ref: str) -> MemoryRow:
    row = held.state().memory(parse_memory_ref(ref)[1])
    assert row is not None
    return row


# --- which memories ------------------------------------------------------------------------------


def test_one_extractors_memories_are_found_among_look_alikes_exactly(held: Cohorted) -> None:
    turn = held.turn("said")
    theirs = {"kind": "raw", "role": "user", "text": "theirs", "tenant": "other", "session": {"agent": "a", "key": "k"}}
    foreign = held.write("remember", theirs)["id"]
    since_ms = held.now_ms + 1000
    until_ms = since_ms + 50
    planted: list[str] = []
    others: list[str] = []
    look_alikes = (GOOD, None, {"model": "v1"}, {"model": "m", "version": "v1"}, {"extractor": "v1.0"}, {"agent": "v1"})
    for at_ms in (since_ms - 1, since_ms, since_ms + 1, until_ms - 1, until_ms):
        held.now_ms = at_ms - 1  # `note` steps it
        (planted if since_ms <= at_ms < until_ms else others).append(held.note(BAD, turn))
        for stamp in look_alikes:
            held.now_ms = at_ms - 1
            others.append(held.note(stamp, turn))
        held.now_ms = at_ms - 1
        others.append(held.note(BAD, foreign, tenant="other"))
    sel = {**OF_BAD, "since": format_ms(since_ms), "until": format_ms(until_ms)}
    told = held.look(sel)
    assert sorted(told["ids"]) == sorted(planted) and told["count"] == len(planted) == 3
    assert len(held.look(OF_BAD)["ids"]) == 5, "also those outside of the window, but no other tenant's"
    unstamped = held.look({"producer": {"model": None, "extractor": None, "version": None, "agent": None}})["ids"]
    assert len(set(unstamped) & set(others)) == 5 and not set(unstamped) & set(planted)
    cohort = held.act(sel)
    assert set(held.listed(status=["quarantined"])) == set(planted)
    assert set(planted).isdisjoint(held.listed())
    held.lift(cohort)
    assert set(planted) < set(held.listed())


def test_a_memory_of_any_status_but_purged_is_meant_unless_a_status_is_asked_for(held: Cohorted) -> None:
    active, forgotten, archived, purged = (held.note(BAD) for _ in range(4))
    held.write("forget", {"id": forgotten})
    held.write("mark", {"id": archived, "mark": "archived"})
    held.purge(purged)
    assert set(held.look(OF_BAD)["ids"]) == {active, forgotten, archived}
    assert held.look({**OF_BAD, "status": ["active"]})["ids"] == [active]
    assert refused(Reason.INVALID_INPUT, held.look, {"status": ["purged"]}).data["parameter"] == "sel.status"


@pytest.mark.parametrize(
    "sel", [{"project": "house"}, {"tags": ["red"]}, {"text": "CHIMNEY"}, {"entity": "Ada"}, {"subject": "roof"}]
)
def test_what_is_sealed_is_selected_by_too(held: Cohorted, sel: dict[str, Any]) -> None:
    turn = held.turn("said")
    filed = {
        "project": "house",
        "tags": ["red", "x"],
        "entities": [{"name": "Ada", "type": "person"}],
        "subject": "roof",
    }
    meant = [held.note(BAD, turn, **filed, text=f"the chimney {n}") for n in range(3)]
    held.note(BAD, turn, project="garden", tags=["x"], text="the gate")
    assert held.look(sel)["ids"] == meant
    assert held.lift(held.act(sel))["done"] == 3


def test_looking_ends_when_it_is_cancelled(held: Cohorted) -> None:
    held.note(BAD, project="house")
    asking = Asking()
    asking.cancel()
    params = msgspec.convert({"sel": {"project": "house"}, "action": "demote"}, VERBS["cohort"].params)
    call = Call("cohort", params, OPERATOR, lambda outcome: None, 0, asking)
    assert refused(Reason.UNAVAILABLE, held.service.submit, call).data["cancelled"] is True


@pytest.mark.parametrize("sel", [{}, {"producer": {}}])
def test_an_empty_selection_is_refused(held: Cohorted, sel: dict[str, Any]) -> None:
    assert refused(Reason.INVALID_INPUT, held.look, sel).data["parameter"] == "sel"


def test_a_window_that_ends_before_it_starts_is_refused(held: Cohorted) -> None:
    sel = {"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"}
    assert refused(Reason.INVALID_INPUT, held.look, sel).data["parameter"] == "sel.until"


def test_where_nothing_is_found_there_is_no_token(held: Cohorted) -> None:
    held.note(GOOD)
    assert held.look(OF_BAD) == {
        "count": 0, "ids": [], "ids_cut": False, "downstream": [], "downstream_cut": False,
        "not_rederivable": [], "not_rederivable_cut": False, "token": None,
    }  # fmt: skip
    assert held.write("cohort", {"sel": OF_BAD, "action": "demote", "tenant": "nobody"})["count"] == 0


def test_a_dry_run_writes_nothing_and_keeps_no_key(held: Cohorted) -> None:
    held.note(BAD)
    seq = held.store.log.head().seq
    token = held.look(OF_BAD, idempotency_key="k")["token"]
    assert held.store.log.head().seq == seq
    assert held.look(OF_BAD, token=token, idempotency_key="k")["done"] == 1


# --- quarantine ----------------------------------------------------------------------------------


def test_what_is_quarantined_is_out_of_default_reads_and_of_assertion_but_not_of_trace(held: Cohorted) -> None:
    turn = held.turn("said")
    note = held.note(BAD, turn, origin="recorded")
    belief = held.belief(note)
    assert held.memory(note)["assertable"] is True
    cohort = held.act(OF_BAD)
    assert note not in held.listed() and belief in held.listed() and held.listed(status=["quarantined"]) == [note]
    shown = held.memory(note)
    assert (shown["status"], shown["marks"], shown["assertable"]) == ("quarantined", ["quarantined"], False)
    nodes = held.read("trace", {"id": belief})["nodes"]
    assert [node["status"] for node in nodes] == ["active", "quarantined", "active"]
    assert held.read("explain", {"id": note})["sources"][0]["ref"] == turn
    events_told = held.read("history", {"id": note})["events"]
    assert [each["type"] for each in events_told] == ["memory_created", "cohort_made"]
    held.lift(cohort)
    assert held.memory(note)["assertable"] is True and note in held.listed()


def test_nothing_is_written_about_what_is_quarantined(held: Cohorted) -> None:
    turn = held.turn("t")
    note = held.note(BAD, turn)
    other = held.note(GOOD)
    held.act(OF_BAD)
    for verb, params in (
        ("verify", {"id": note}), ("reinforce", {"id": note}), ("weaken", {"id": note}), ("reaffirm", {"id": note}),
        ("mark", {"id": note, "mark": "resolved"}), ("relate", {"from": other, "to": note, "type": "extends"}),
        ("revise", {"id": note, "text": "x", "origin": "told"}),
        ("remember", {"kind": "belief", "text": "b", "origin": "derived", "derived_from": [note]}),
        ("verify", {"id": other, "evidence": [note]}),
    ):  # fmt: skip
        assert refused(Reason.QUARANTINED, held.write, verb, params).data["ids"] == [note], verb
    assert held.write("forget", {"id": note})["found"] is True
    assert held.memory(note)["status"] == "quarantined"
    held.write("recover", {"id": note})
    assert held.memory(note)["marks"] == ["quarantined"]


def test_lifting_gives_back_exactly_what_was(held: Cohorted) -> None:
    notes = [held.note(BAD) for _ in range(5)]
    held.write("forget", {"id": notes[1]})
    held.write("mark", {"id": notes[2], "mark": "protected"})
    held.write("revise", {"id": notes[3], "text": "better", "origin": "told"})
    before = [row_of(held, note) for note in notes]
    told = held.digests()
    cohort = held.act(OF_BAD)
    assert [row_of(held, note).has(Mark.QUARANTINED) for note in notes] == [True] * 5
    assert held.lift(cohort) == {"cohort": cohort, "already": False, "done": 5, "held_by_others": 0}
    assert [row_of(held, note) for note in notes] == before
    changed = {name for name, digest in held.digests().items() if digest != told[name]}
    assert changed <= {"memories", "cohorts", "chain", "usage", "blocks"}, "of memories: the touches"
    seq = held.store.log.head().seq
    assert held.lift(cohort) == {"cohort": cohort, "already": True, "done": 0}
    assert held.store.log.head().seq == seq


def test_a_mark_that_two_cohorts_lay_stays_until_the_last_is_lifted(held: Cohorted) -> None:
    note, other = held.note(BAD), held.note({"model": "m"})
    first = held.act(OF_BAD)
    second = held.act({"producer": {"model": "m"}})
    held.lift(first)
    assert held.listed(status=["quarantined"]) == [note, other]
    held.lift(second)
    assert held.listed(status=["quarantined"]) == []


def test_a_foreign_and_an_unknown_cohort_are_not_found(held: Cohorted) -> None:
    held.note(BAD)
    cohort = held.act(OF_BAD)
    for params in ({"cohort": cohort, "tenant": "other"}, {"cohort": "cohort:0000000000001"}):
        assert refused(Reason.NOT_FOUND, held.write, "lift", params).data["parameter"] == "cohort"
    refused(Reason.INVALID_INPUT, held.write, "lift", {"cohort": "note:0000000000001"})


def test_maintenance_refuses_to_act_and_to_lift(held: Cohorted) -> None:
    held.note(BAD)
    cohort = held.act(OF_BAD)
    token = held.look(OF_BAD, "demote")["token"]
    held.write("lifecycle", {"state": "maintenance"})
    refused(Reason.LIFECYCLE, held.look, OF_BAD, "demote", token=token)
    refused(Reason.LIFECYCLE, held.lift, cohort)
    assert held.look(OF_BAD)["count"] == 1, "looking goes on"
    held.write("lifecycle", {"state": "active"})
    assert held.look(OF_BAD, "demote", token=token)["done"] == 1


def test_a_tenant_that_keeps_as_much_as_it_may_is_read_only_for_cohorts_too(held: Cohorted) -> None:
    held.note(BAD)
    cohort = held.act(OF_BAD)
    token = held.look(OF_BAD, "demote")["token"]
    held.service.quotas.replace({"default": 1})
    refused(Reason.READ_ONLY, held.look, OF_BAD, "demote", token=token)
    refused(Reason.READ_ONLY, held.lift, cohort)
    held.service.quotas.replace({})
    assert held.look(OF_BAD, "demote", token=token)["done"] == 1


def test_what_was_known_then_is_quarantined_or_not_as_it_was_then(held: Cohorted) -> None:
    notes = [held.note(BAD, importance=2.0) for _ in range(3)]
    times = []

    def passes_by() -> None:
        times.append(format_ms(held.now_ms))
        held.now_ms += 1000

    passes_by()
    cohort = held.act(OF_BAD)
    passes_by()
    demoted = held.act(OF_BAD, "demote")
    passes_by()
    held.lift(cohort)
    held.lift(demoted)
    passes_by()
    told = [held.read("get", {"ids": notes, "as_known_at": at})["memories"] for at in times]
    assert [[memory["status"] for memory in then] for then in told] == [
        ["active"] * 3, ["quarantined"] * 3, ["quarantined"] * 3, ["active"] * 3,
    ]  # fmt: skip
    assert [{memory["importance"] for memory in then} for then in told] == [{2.0}, {2.0}, {1.0}, {2.0}]


# --- demote --------------------------------------------------------------------------------------


def test_importance_is_halved_once_and_never_below_what_it_may_be(held: Cohorted) -> None:
    notes = [held.note(BAD, importance=importance) for importance in (1.0, 3.0, 0.08, 0.05)]

    def now() -> list[float]:
        return [row_of(held, note).importance for note in notes]

    first = held.act(OF_BAD, "demote")
    assert now() == [0.5, 1.5, 0.05, 0.05]
    second = held.act({"producer": {"model": "m"}}, "demote")
    third = held.act({"kinds": ["note"]}, "demote")
    assert now() == [0.5, 1.5, 0.05, 0.05], "no cohort halves what another has halved"
    held.lift(first)
    held.lift(second)
    assert now() == [0.5, 1.5, 0.05, 0.05], "until the last is lifted"
    held.lift(third)
    assert now() == [1.0, 3.0, 0.08, 0.05]


def test_a_later_word_on_importance_outlasts_lifting(held: Cohorted) -> None:
    turns = held.turns(2)
    cohort = held.act({"kinds": ["raw"]}, "demote")
    held.commit([fact(*turns)], scores=[{"turn": turns[0], "importance": 4.0}])
    held.lift(cohort)
    assert [row_of(held, turn).importance for turn in turns] == [4.0, 1.0]

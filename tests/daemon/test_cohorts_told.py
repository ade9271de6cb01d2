"""What is told of cohorts: what derives from them, how many, which there are, and two producers side by side."""

from __future__ import annotations

from typing import Any

import pytest

from daemon import limits
from daemon.commands import cohorts as command
from daemon.reads import cohorts as told_by
from daemon.refusal import Reason, Refused
from journal import events
from journal.tsid import parse_memory_ref
from projections import cohorts, rows, tables
from projections import edges as table
from tests.daemon.cohorted import BAD, GOOD, OF_BAD, Cohorted, refused
from tests.daemon.slept import DAY_MS

# --- downstream ----------------------------------------------------------------------------------


def test_what_derives_is_told_transitively_and_touched_when_asked(held: Cohorted) -> None:
    turn = held.turn("t")
    note, twin = held.note(BAD, turn), held.note(BAD, turn)
    belief = held.belief(note, twin)
    value = held.write("remember", {"kind": "value", "text": "v", "origin": "derived", "derived_from": [belief]})["id"]
    told = held.look(OF_BAD)
    assert (told["downstream"], told["downstream_cut"]) == ([belief, value], False), "a diamond once"
    held.act(OF_BAD)
    assert belief in held.listed()
    held.now_ms += 1
    cohort = held.act({"ids": [note]}, downstream=True)
    assert set(held.listed(status=["quarantined"])) == {note, twin, belief, value}
    (row, _) = held.read("cohorts", {})["cohorts"]
    assert (row["cohort"], row["count"], row["downstream"]) == (cohort, 3, 2)
    held.lift(cohort)
    assert set(held.listed(status=["quarantined"])) == {note, twin}


def test_what_was_made_from_something_purged_is_found_through_it(held: Cohorted) -> None:
    note = held.note(BAD)
    belief = held.belief(note)
    value = held.write("remember", {"kind": "value", "text": "v", "origin": "derived", "derived_from": [belief]})["id"]
    held.purge(belief)
    assert held.look(OF_BAD)["downstream"] == [value]
    assert held.look(OF_BAD, token=held.look(OF_BAD, downstream=True)["token"], downstream=True)["done"] == 2


def test_a_circle_of_derivation_ends(held: Cohorted) -> None:
    """No verb makes one; a journal that says so is walked all the same."""
    note = held.note(BAD)
    belief = held.belief(note)
    (_, one), (_, other) = parse_memory_ref(note), parse_memory_ref(belief)
    key = table.IN_KEY.pack(other, 0, one)
    assert table.IN_KEY.pack(one, 0, other)[8] == 0
    with held.projections.env.write() as txn:
        txn.put(key, rows.seal_row(key, b"\x02"), db=held.projections.env.db(tables.EDGES_IN))
    assert held.look(OF_BAD)["downstream"] == [belief]
    held.rebuild()


def test_as_many_ids_as_fit_are_told_and_all_are_counted(held: Cohorted, monkeypatch: Any) -> None:
    monkeypatch.setattr(told_by, "TOLD", 3)
    monkeypatch.setattr(limits, "DOWNSTREAM_TOLD", 3)
    turn = held.turn("t")
    notes = [held.note(BAD, turn) for _ in range(5)]
    beliefs = [held.belief(note) for note in notes]
    told = held.look(OF_BAD)
    assert (told["count"], told["ids"], told["ids_cut"]) == (5, notes[:3], True)
    assert (told["downstream"], told["downstream_cut"]) == (beliefs[:3], True)
    told = held.look({"ids": [turn]}, "rederive")
    assert (told["downstream"], told["downstream_cut"]) == (notes[:3], True)


def test_more_than_one_action_takes_is_refused_with_the_count(held: Cohorted, monkeypatch: Any) -> None:
    for _ in range(4):
        held.note(BAD)
    monkeypatch.setattr(limits, "MEMORIES_PER_ACTION", 3)
    data = refused(Reason.INVALID_INPUT, held.look, OF_BAD).data
    assert (data["parameter"], data["limit"], data["current"]) == ("sel", 3, 4)


def test_a_large_cohort_is_one_command_in_several_records(held: Cohorted, monkeypatch: Any) -> None:
    monkeypatch.setattr(command, "CHANGES_A_RECORD", 4)
    turn = held.turn("t")
    notes = [held.note(BAD, turn) for _ in range(6)]
    for note in notes[:5]:
        held.belief(note)
    cohort = held.act(OF_BAD, downstream=True)
    made = [
        record for chunk in held.store.log.chunks() for record in chunk if isinstance(record.event, events.CohortMade)
    ]
    told = [record.event for record in made if isinstance(record.event, events.CohortMade)]
    assert [(len(e.changes), e.part, e.last, e.downstream) for e in told] == [
        (4, 0, False, 0), (4, 1, False, 2), (3, 2, True, 3),
    ]  # fmt: skip
    assert len({record.cause for record in made}) == 1
    (row,) = held.read("cohorts", {})["cohorts"]
    assert (row["count"], row["downstream"]) == (11, 5)
    assert held.lift(cohort)["done"] == 11
    assert held.listed(status=["quarantined"]) == []
    assert all(not cohorts.holding(held.state(), member.tsid) for member in cohorts.members(held.state(), told[0].id))


def test_a_cohort_tells_whose_status_and_session_were_asked_for_and_that_content_was(held: Cohorted) -> None:
    turn = held.turn("so it was said")
    session = str(held.memory(turn)["session"])
    held.note(BAD, turn)
    plain = held.act({**OF_BAD, "status": ["active", "archived"]}, "demote")
    sealed = held.act({"text": "so it was", "session": session}, "demote")
    rows = {row["cohort"]: row for row in held.read("cohorts", {})["cohorts"]}
    told = {cohort: (row["statuses"], row["session"], row["sealed"]) for cohort, row in rows.items()}
    assert told[plain] == (["archived", "active"], None, False)
    assert told[sealed][1:] == (session, True) and session.startswith("session:")


# --- which there are -----------------------------------------------------------------------------


def test_cohorts_are_listed_newest_first_page_by_page(held: Cohorted) -> None:
    held.note(BAD)
    made = []
    for action in ("quarantine", "demote", "quarantine"):
        made.append(
            held.act({**OF_BAD, "origins": ["inferred"], "kinds": ["note"], "since": "2020-01-01T00:00:00Z"}, action)
        )
        held.now_ms += DAY_MS
    held.lift(made[1])
    first = held.read("cohorts", {"limit": 2})
    assert [row["cohort"] for row in first["cohorts"]] == [made[2], made[1]] and first["total"] == 3
    newer = held.act(OF_BAD, "demote")
    last = held.read("cohorts", {"limit": 2, "cursor": first["next_cursor"]})
    assert [row["cohort"] for row in last["cohorts"]] == [made[0]] and last["next_cursor"] is None
    (row,) = last["cohorts"]
    assert (row["action"], row["origins"], row["kinds"], row["since"], row["until"], row["lifted_at"]) == (
        "quarantine", ["inferred"], ["note"], "2020-01-01T00:00:00.000Z", None, None,
    )  # fmt: skip
    assert [stamp["extractor"] for stamp in row["producers"]] == ["v1"]
    assert first["cohorts"][1]["lifted_at"] is not None
    assert held.read("cohorts", {"tenant": "other"}) == {"cohorts": [], "next_cursor": None, "total": 0}
    assert held.read("cohorts", {})["cohorts"][0]["cohort"] == newer


# --- compare -------------------------------------------------------------------------------------


def test_two_producers_are_compared_in_numbers_only(held: Cohorted) -> None:
    bad = [held.note(BAD, importance=2.0) for _ in range(4)]
    held.note(GOOD, origin="recorded", confidence=0.5, importance=1.0)
    held.write("forget", {"id": bad[0]})
    held.write("revise", {"id": bad[1], "text": "x", "origin": "told"})
    held.note(BAD, importance=2.0, derived_from=[held.turn("t"), {"kind": "url", "id": "u", "resolvable": False}])
    seq = held.store.log.head().seq
    told = held.look(OF_BAD, "compare", **{"with": {"producer": {"extractor": "v2"}}})
    assert list(told) == ["compared"] and held.store.log.head().seq == seq
    one, other = told["compared"]
    assert (one["count"], one["by_origin"], one["by_kind"]) == (5, {"inferred": 5}, {"note": 5})
    assert (one["forgotten_rate"], one["superseded_rate"], one["rejected_rate"]) == (0.2, 0.2, None)
    assert one["unresolvable_rate"] == pytest.approx(1 / 6) and one["mean_importance"] == 2.0
    assert (other["count"], other["mean_confidence"], other["mean_importance"]) == (1, 0.5, 1.0)
    nothing = held.look(OF_BAD, "compare", **{"with": {"producer": {"extractor": "v9"}}})["compared"][1]
    assert nothing["count"] == 0 and nothing["superseded_rate"] is None and nothing["mean_confidence"] is None


def test_a_proposal_that_a_purge_ended_was_rejected_by_nobody(held: Cohorted) -> None:
    gone, stays = held.note(BAD), held.note(BAD)
    for note in (gone, stays):
        held.write("propose", {"proposal_kind": "resolution", "memory": note})
    applied = held.write("propose", {"proposal_kind": "resolution", "memory": held.note(BAD)})["proposal"]
    held.write("decide", {"proposal": applied, "accept": True})
    held.write("purge", {"ids": [gone]})

    def rate() -> Any:
        sel = {**OF_BAD, "status": ["purged", "active"]}
        return held.look(sel, "compare", **{"with": OF_BAD})["compared"][0]["rejected_rate"]

    assert rate() == 0.0
    (waiting,) = held.read("proposals", {})["proposals"]
    held.write("decide", {"proposal": waiting["proposal"], "accept": False})
    assert rate() == 0.5


@pytest.mark.parametrize(
    ("params", "parameter"),
    [
        ({"action": "compare"}, "with"),
        ({"action": "compare", "with": {}}, "with"),
        ({"action": "compare", "with": OF_BAD, "token": "x"}, "token"),
        ({"action": "compare", "with": OF_BAD, "downstream": True}, "downstream"),
        ({"action": "demote", "with": OF_BAD}, "with"),
    ],
)
def test_what_a_comparison_takes_and_what_it_does_not(held: Cohorted, params: dict[str, Any], parameter: str) -> None:
    asked = {"sel": OF_BAD, **params}
    assert refused(Reason.INVALID_INPUT, held.write, "cohort", asked).data["parameter"] == parameter


def test_a_session_that_is_none_of_the_tenants_is_not_found(held: Cohorted) -> None:
    held.note(BAD)
    with pytest.raises(Refused) as caught:
        held.look({"session": "session:0000000000001"})
    assert caught.value.reason is Reason.NOT_FOUND

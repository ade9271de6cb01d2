"""decide: guards in their order, one commit, a product that names its proposal, once."""

from __future__ import annotations

from typing import Any

import pytest

from daemon import limits
from daemon.refusal import Reason
from daemon.wire.times import format_ms
from tests.daemon.proposed import FACT, conflict, decide, edge, events_of, fact, head, ids, listed, pair, propose
from tests.daemon.told import DAY_MS, START_MS, Told, reason_of, remember

UNKNOWN = "proposal:0000000000001"


# --- who may decide what ---------------------------------------------------------------------------


def test_missing_foreign_and_decided_are_one_answer(told: Told) -> None:
    turn = told.raw(tenant="theirs")
    theirs = told.note(turn, tenant="theirs")
    foreign = told.write("propose", {"proposal_kind": "fact", "memory": theirs, "fact": FACT, "tenant": "theirs"})
    note = told.note(told.raw())
    applied, rejected = fact(told, note, "one"), fact(told, note, "two")
    decide(told, applied)
    decide(told, rejected, accept=False)
    seq = head(told)
    for accept in (True, False):
        for proposal in (UNKNOWN, foreign["proposal"], applied, rejected):
            reason, data = reason_of(lambda proposal=proposal, accept=accept: decide(told, proposal, accept))
            assert (reason, data) == (Reason.NOT_FOUND, {"parameter": "proposal"}), proposal
    assert head(told) == seq
    assert ids(told, tenant="theirs") == [foreign["proposal"]], "still proposed"


def test_a_tenant_without_a_write_has_no_proposal_to_decide(told: Told) -> None:
    proposal = fact(told, told.note(told.raw()))
    reason, data = reason_of(lambda: decide(told, proposal, tenant="nobody"))
    assert (reason, data) == (Reason.NOT_FOUND, {"parameter": "proposal"})


@pytest.mark.parametrize("ref", ["note:0000000000001", "proposal:", "proposal:not-an-id", "0000000000001"])
def test_what_is_no_reference_to_a_proposal_is_refused(told: Told, ref: str) -> None:
    reason, data = reason_of(lambda: decide(told, ref))
    assert (reason, data["parameter"]) == (Reason.INVALID_INPUT, "proposal")


def test_rejecting_writes_the_decision_and_nothing_else(told: Told) -> None:
    older, newer = pair(told)
    before = [told.memory(ref) for ref in (older, newer)]
    proposal = edge(told, newer, older)
    seq = head(told)
    assert decide(told, proposal, accept=False) == {"decided": "rejected", "produced": []}
    assert [each["type"] for each in events_of(told, seq)] == ["proposal_decided"]
    assert [told.memory(ref) for ref in (older, newer)] == before
    (row,) = listed(told, status="rejected")
    assert (row["status"], row["produced"], row["decided_at"]) == ("rejected", [], format_ms(told.now_ms))


def test_what_can_not_be_accepted_can_be_rejected(told: Told) -> None:
    older, newer = pair(told)
    proposal = edge(told, newer, older)
    told.do("forget", newer)
    conflict(told, proposal)
    assert decide(told, proposal, accept=False)["decided"] == "rejected"


# --- what closes a memory --------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["supersedes", "updates"])
def test_accepting_closes_the_predecessor_in_the_same_command(told: Told, word: str) -> None:
    older, newer = pair(told)
    proposal = edge(told, newer, older, word)
    told.now_ms += DAY_MS
    seq = head(told)
    answer = decide(told, proposal)
    (made,) = answer["produced"]
    closed, decided = events_of(told, seq)
    assert (closed["type"], decided["type"]) == ("superseded", "proposal_decided")
    assert closed["cause"] == decided["cause"]
    assert (closed["proposal"], closed["edge"], closed["edge_type"], closed["session"]) == (proposal, made, word, None)
    assert (closed["predecessor"], closed["successor"]) == (older, newer)
    assert (decided["id"], decided["accepted"], decided["edges"], decided["seqs"]) == (proposal, True, [made], [])
    was, now = told.memory(older), told.memory(newer)
    assert (was["status"], was["superseded_by"], was["valid_to"]) == ("superseded", newer, format_ms(told.now_ms))
    assert (now["status"], now["predecessor"]) == ("active", older)
    traced = told.read("trace", {"id": newer})["edges"]
    assert {"from": newer, "to": older, "type": word} in traced


def test_a_truth_that_ended_before_does_not_last_longer_by_being_superseded(told: Told) -> None:
    ended = format_ms(START_MS - DAY_MS)
    turn = told.raw()
    older, newer = told.note(turn, valid_to=ended), told.note(turn)
    decide(told, edge(told, newer, older))
    assert told.memory(older)["valid_to"] == ended


def test_accepting_moves_nothing_else_of_either(told: Told) -> None:
    older, newer = pair(told)
    child = remember(told, "belief", older)
    told.do("forget", newer)
    told.do("recover", newer)
    before = [told.memory(ref) for ref in (older, newer, child)]
    decide(told, edge(told, newer, older))
    changed: tuple[set[str], ...] = (
        {"status", "marks", "superseded_by", "valid_to", "assertable", "hedge"},
        {"predecessor"},
        set(),
    )
    for was, now, may in zip(before, (told.memory(ref) for ref in (older, newer, child)), changed, strict=True):
        assert {name for name in was if was[name] != now[name]} <= may
    assert told.read("review", {"what": ["flags", "ungrounded"]})["items"] == [], "as with revise"


def test_a_protected_memory_may_be_superseded_and_archived_as_by_revise_and_mark(told: Told) -> None:
    older, newer = pair(told, protected=True)
    decide(told, edge(told, newer, older))
    decide(told, propose(told, "retention", newer, action="archive"))
    assert told.memory(older)["status"] == "superseded"
    assert told.memory(newer)["marks"] == ["archived", "protected"]


def test_a_predecessor_is_superseded_once_and_the_conflict_names_the_newest_version(told: Told) -> None:
    older, newer = pair(told)
    proposal = edge(told, newer, older)
    second = told.write("revise", {"id": older, "text": "better", "origin": "told"})["id"]
    third = told.write("revise", {"id": second, "text": "best", "origin": "told"})["id"]
    assert conflict(told, proposal)["current"] == third
    assert told.memory(older)["superseded_by"] == second


@pytest.mark.parametrize("gone", ["forgotten", "archived", "superseded", "ended"])
def test_a_successor_that_is_not_live_takes_no_place(told: Told, gone: str) -> None:
    turn = told.raw()
    ends = {"valid_to": format_ms(told.now_ms + DAY_MS)} if gone == "ended" else {}
    older, newer = told.note(turn), told.note(turn, **ends)
    proposals = [edge(told, newer, older), propose(told, "retention", older, action="supersede", other=newer)]
    if gone == "forgotten":
        told.do("forget", newer)
    elif gone == "archived":
        told.do("mark", newer, mark="archived")
    elif gone == "superseded":
        told.write("revise", {"id": newer, "text": "newest", "origin": "told"})
    told.now_ms += DAY_MS
    for proposal in proposals:
        data = conflict(told, proposal)
        assert (data["ids"], data["current"]) == ([newer], gone)
    assert told.memory(older)["status"] == "active"


def test_a_forgotten_predecessor_is_not_superseded(told: Told) -> None:
    older, newer = pair(told)
    proposal = edge(told, newer, older)
    told.do("forget", older)
    data = conflict(told, proposal)
    assert (data["ids"], data["current"]) == ([older], "forgotten")
    told.do("recover", older)
    assert decide(told, proposal)["decided"] == "applied", "it waited"


def test_two_that_want_each_other_s_place_can_not_both_have_it(told: Told) -> None:
    older, newer = pair(told)
    one, other = edge(told, newer, older), edge(told, older, newer)
    decide(told, one)
    assert conflict(told, other)["current"] == "superseded"


def test_the_very_edge_that_is_there_already_is_applied_and_nothing_is_written(told: Told) -> None:
    older, newer = pair(told)
    edges = [edge(told, newer, older), propose(told, "retention", older, action="supersede", other=newer)]
    first = decide(told, edges[0])
    told.now_ms += DAY_MS
    closed = told.memory(older)
    seq = head(told)
    assert decide(told, edges[1]) == {"decided": "applied", "produced": []}
    assert [each["type"] for each in events_of(told, seq)] == ["proposal_decided"]
    assert told.memory(older) == closed and len(first["produced"]) == 1
    assert {row["proposal"]: row["produced"] for row in listed(told, status="applied")} == {
        edges[0]: first["produced"], edges[1]: [],
    }  # fmt: skip


def test_an_edge_of_revise_is_there_already(told: Told) -> None:
    older = told.note(told.raw())
    newer = told.write("revise", {"id": older, "text": "better", "origin": "told"})["id"]
    told.do("forget", newer)
    assert decide(told, edge(told, newer, older))["produced"] == [], "that comes before whether it is live"
    assert conflict(told, edge(told, newer, older, "updates"))["current"] == "forgotten"


def test_a_retention_gives_the_place_to_the_other(told: Told) -> None:
    older, newer = pair(told)
    proposal = propose(told, "retention", older, action="supersede", other=newer)
    seq = head(told)
    (made,) = decide(told, proposal)["produced"]
    closed = events_of(told, seq)[0]
    assert (closed["predecessor"], closed["successor"], closed["edge"], closed["proposal"]) == (
        older, newer, made, proposal,
    )  # fmt: skip
    assert made.startswith("edge:") and told.memory(older)["superseded_by"] == newer


def test_one_memory_may_take_the_place_of_several(told: Told) -> None:
    turn = told.raw()
    first, second, newer = told.note(turn), told.note(turn), told.note(turn)
    for older in (first, second):
        decide(told, edge(told, newer, older))
    assert [told.memory(ref)["superseded_by"] for ref in (first, second)] == [newer, newer]
    assert told.memory(newer)["predecessor"] == first
    versions = [each["id"] for each in told.read("history", {"id": newer})["revisions"]]
    assert sorted(versions) == sorted([first, second, newer]) and versions[-1] == newer
    assert [each["id"] for each in told.read("history", {"id": second})["revisions"]][-2:] == [second, newer]


def test_an_older_memory_may_take_the_place_of_a_newer_and_stands_on_its_sources(told: Told) -> None:
    told.write("lifecycle", {"enforce": False})
    turn = told.raw()
    bare, sourced = remember(told, "note"), told.note(turn)
    decide(told, edge(told, bare, sourced))
    assert told.read("review", {"what": ["orphans", "ungrounded"]})["items"] == []
    told.do("forget", turn)
    found = {item["id"] for item in told.read("review", {"what": ["ungrounded"]})["items"]}
    assert found == {bare}, "of a line of versions the newest is told"
    assert told.memory(bare)["grounded"] is False


def test_as_known_before_the_decision_nothing_was_superseded(told: Told) -> None:
    older, newer = pair(told)
    proposal = edge(told, newer, older)
    before = format_ms(told.now_ms)
    told.now_ms += DAY_MS
    decide(told, proposal)
    was, would = told.read("get", {"ids": [older, newer], "as_known_at": before})["memories"]
    assert (was["status"], was["superseded_by"], would["predecessor"]) == ("active", None, None)
    was, would = told.read("get", {"ids": [older, newer], "as_known_at": format_ms(told.now_ms)})["memories"]
    assert (was["status"], was["superseded_by"], would["predecessor"]) == ("superseded", newer, older)


# --- what closes nothing ---------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["extends", "contradicts"])
def test_accepting_draws_an_edge_that_names_its_proposal(told: Told, word: str) -> None:
    older, newer = pair(told)
    proposal = edge(told, newer, older, word)
    seq = head(told)
    (made,) = decide(told, proposal)["produced"]
    drawn, _ = events_of(told, seq)
    assert (drawn["type"], drawn["proposal"], drawn["edge"]) == ("related", proposal, made)
    assert (drawn["source"], drawn["target"], drawn["edge_type"]) == (newer, older, word)
    assert told.memory(older)["status"] == told.memory(newer)["status"] == "active"
    assert told.write("relate", {"from": newer, "to": older, "type": word})["edge"] == made


def test_an_edge_that_was_drawn_meanwhile_is_not_drawn_twice(told: Told) -> None:
    older, newer = pair(told)
    proposals = [edge(told, newer, older, "extends"), edge(told, newer, older, "contradicts")]
    told.write("relate", {"from": newer, "to": older, "type": "extends"})
    told.write("relate", {"from": older, "to": newer, "type": "contradicts"})
    seq = head(told)
    assert [decide(told, proposal)["produced"] for proposal in proposals] == [[], []]
    assert [each["type"] for each in events_of(told, seq)] == ["proposal_decided"] * 2


def test_what_closes_nothing_goes_also_between_what_is_superseded_or_forgotten(told: Told) -> None:
    older, newer = pair(told)
    told.write("revise", {"id": older, "text": "better", "origin": "told"})
    told.do("forget", newer)
    assert len(decide(told, edge(told, newer, older, "extends"))["produced"]) == 1, "as with relate"


# --- facts -----------------------------------------------------------------------------------------


def test_a_fact_that_waited_long_is_the_newest_when_it_is_accepted(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has its id from then, so a chain that is cut keeps it."""
    monkeypatch.setattr(limits, "CHAIN_FACTS", 2)
    note = told.note(told.raw())
    waiting = fact(told, note, "long ago")
    for value in ("a", "b", "c"):
        decide(told, fact(told, note, value))
    (made,) = decide(told, waiting)["produced"]
    (memory,) = told.read("get", {"ids": [note], "include": ["provenance"]})["memories"]
    assert memory["provenance"]["facts"]["truncated"] is True
    assert memory["provenance"]["facts"]["items"][0]["id"] == made
    assert memory["facts"][-1]["id"] == made


def test_an_accepted_fact_is_the_memory_s_with_its_words_sealed_again(told: Told) -> None:
    note = told.note(told.raw(), facts=[{**FACT, "value": "old"}])
    proposal = propose(told, "fact", note, fact={**FACT, "confidence": 0.5}, note="because")
    told.now_ms += DAY_MS
    seq = head(told)
    (made,) = decide(told, proposal)["produced"]
    added, decided = events_of(told, seq)
    assert (added["type"], added["memory"], added["fact"]["id"]) == ("fact_added", note, made)
    assert (added["fact"]["proposal"], added["fact"]["valid_from"]) == (proposal, format_ms(told.now_ms))
    (part,) = added["parts"]
    assert (part["part"], part["owner_seq"]) == ("particulars", added["seq"]), "its own key, not the proposal's"
    assert (decided["facts"], decided["edges"], decided["seqs"]) == ([made], [], [])
    first, second = told.memory(note)["facts"]
    assert (first["value"], first["source_proposal"]) == ("old", None)
    assert second == {
        "id": made, **FACT, "confidence": 0.5, "valid_from": format_ms(told.now_ms), "valid_to": None,
        "source_proposal": proposal,
    }  # fmt: skip


def test_a_fact_keeps_the_window_that_was_proposed(told: Told) -> None:
    bounds = {"valid_from": "2020-01-01T00:00:00.000Z", "valid_to": "2021-01-01T00:00:00.000Z"}
    note = told.note(told.raw())
    decide(told, propose(told, "fact", note, fact={**FACT, **bounds}))
    (found,) = told.memory(note)["facts"]
    assert {name: found[name] for name in bounds} == bounds


def test_a_superseded_memory_may_get_a_fact_and_a_forgotten_one_not(told: Told) -> None:
    note = told.note(told.raw())
    first, second = fact(told, note), fact(told, note, "blue")
    told.write("revise", {"id": note, "text": "better", "origin": "told"})
    assert len(decide(told, first)["produced"]) == 1
    told.do("forget", note)
    data = conflict(told, second)
    assert (data["ids"], data["current"]) == ([note], "forgotten")


def test_a_fact_is_applied_once_and_not_after_it_was_rejected(told: Told) -> None:
    note = told.note(told.raw())
    applied, rejected = fact(told, note), fact(told, note, "blue")
    decide(told, applied)
    decide(told, rejected, accept=False)
    for proposal in (applied, rejected):
        assert reason_of(lambda proposal=proposal: decide(told, proposal))[0] is Reason.NOT_FOUND
    assert [each["value"] for each in told.memory(note)["facts"]] == ["green"]


# --- marks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "more", "mark"), [("resolution", {}, "resolved"),
                                                    ("retention", {"action": "archive"}, "archived")])  # fmt: skip
def test_accepting_marks_the_memory_and_names_the_record(told: Told, kind: str, more: Any, mark: str) -> None:
    note = told.note(told.raw())
    first = propose(told, kind, note, **more)
    seq = head(told)
    assert decide(told, first)["produced"] == [f"record:{seq + 1}"]
    marked, decided = events_of(told, seq)
    assert (marked["type"], marked["mark"], marked["on"], marked["proposal"]) == ("marked", mark, True, first)
    assert (decided["seqs"], decided["edges"]) == ([seq + 1], [])
    assert told.memory(note)["marks"] == [mark]
    again = propose(told, kind, note, **more)
    seq = head(told)
    assert decide(told, again)["produced"] == [], "it stands that way already"
    assert [each["type"] for each in events_of(told, seq)] == ["proposal_decided"]


def test_a_memory_takes_so_many_facts_that_it_can_still_be_told(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FACTS_ACCEPTED", 3)
    note = told.note(told.raw())
    staged = [fact(told, note, str(value)) for value in range(4)]
    for proposal in staged[:3]:
        decide(told, proposal)
    reason, data = reason_of(lambda: decide(told, staged[3]))
    assert (reason, data["limit"]) == (Reason.CONFLICT, 3)
    assert len(told.memory(note)["facts"]) == 3
    assert told.read("proposals", {})["total"] == 1, "it waits on"


def test_a_value_that_a_purge_keeps_out_is_not_accepted(told: Told) -> None:
    turn = told.raw()
    note = told.note(turn)
    waiting, other = fact(told, note, "the fence is green"), fact(told, note, "the fence is red")
    gone = told.note(turn, text="the fence is green")
    told.write("purge", {"ids": [gone], "block_reingest": True})
    assert conflict(told, waiting)["current"] == "purged"
    assert decide(told, other)["decided"] == "applied"
    assert decide(told, waiting, accept=False)["decided"] == "rejected"

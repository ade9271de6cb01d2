"""Proposals about what was purged or that only sleep stages; a decision is taken once, in one batch, behind a kill."""

from __future__ import annotations

import io
from collections import deque
from pathlib import Path
from typing import Any

import msgspec
import pytest

from daemon import limits
from daemon.call import Call
from daemon.cli import render
from daemon.refusal import Reason, Refused
from daemon.wire.verbs import VERBS
from journal import events
from journal.codes import CallerRole, EdgeType, ProposalKind, Via
from journal.importing import import_frames
from journal.record import Actor, Cause, Record, encode_body
from journal.store import open_store, purge_parts
from journal.tsid import format_tsid, parse_memory_ref, parse_ref
from tests.daemon.proposed import FACT, conflict, decide, edge, events_of, fact, head, listed, pair, propose
from tests.daemon.told import DAY_MS, Told, reason_of, remember
from tests.journal.exported import exported
from tests.model.opened import OPERATOR

# --- purged since, and what only sleep or another store could stage --------------------------------


def write_by_hand(told: Told, *made: events.AnyEvent) -> None:
    """What no verb writes, while the service is closed."""
    told.close(True)
    store = open_store(told.root, version="test", now_ms=told.now_ms)
    try:
        for event in made:
            seq = store.log.head().seq + 1
            record = Record(seq, told.now_ms, 1, Actor(0, CallerRole.DAEMON, Via.RELAY), Cause(seq, "test"), event)
            if isinstance(event, events.Purged):
                purge_parts(store, [encode_body(record)], [], store.log.state)
            else:
                store.log.append([encode_body(record)], [], store.log.state)
    finally:
        store.close(True)
    told._open()


def test_nothing_is_accepted_or_proposed_about_what_was_purged(told: Told) -> None:
    older, newer = pair(told)
    waiting = [
        edge(told, newer, older), edge(told, newer, older, "extends"), fact(told, newer),
        propose(told, "resolution", newer), propose(told, "retention", newer, action="archive"),
        propose(told, "retention", older, action="supersede", other=newer),
    ]  # fmt: skip
    kind, tsid = parse_memory_ref(newer)
    write_by_hand(told, events.Purged(targets=(events.PurgeTarget(kind, tsid),), parts=()))
    for proposal in waiting:
        data = conflict(told, proposal)
        assert (data["ids"], data["current"]) == ([newer], "purged"), proposal
    for call in (lambda: fact(told, newer, "blue"), lambda: edge(told, older, newer)):
        reason, data = reason_of(call)
        assert (reason, data["current"]) == (Reason.CONFLICT, "purged")
    for proposal in waiting:
        assert decide(told, proposal, accept=False)["decided"] == "rejected"


def test_a_proposal_whose_words_were_destroyed_is_told_without_them(told: Told) -> None:
    note = told.note(told.raw())
    proposal = fact(told, note, note="why")
    seq = head(told)
    with told.store.env.read() as txn:
        record = told.store.log.get(txn, seq)
    assert record is not None and isinstance(record.event, events.ProposalMade)
    kind, tsid = parse_memory_ref(note)
    parts = record.event.parts
    purge = events.Purged(targets=(events.PurgeTarget(kind, tsid),), parts=parts, proposals=(record.event.id,))
    write_by_hand(told, purge)
    (row,) = listed(told)
    assert (row["proposal"], row["fact"], row["note"], row["memory"]) == (proposal, None, None, note)
    assert row["unread"] == "purged"
    assert "(gone)" in render.render(told.read("proposals", {}), "proposals")


@pytest.mark.parametrize("word", [EdgeType.SUPERSEDES, EdgeType.UPDATES])
def test_an_event_is_not_revised_whoever_staged_it(told: Told, word: EdgeType) -> None:
    """Also where the exact edge or a dead end would be found later: that guard is the first."""
    turn = told.raw()
    one, other = (parse_memory_ref(remember(told, "episode", turn, subtype="event")) for _ in range(2))
    made = events.ProposalMade(
        id=one[1] + 1000, kind=int(ProposalKind.EDGE), memory=one, other=other, edge_type=int(word)
    )
    write_by_hand(told, made)
    told.do("forget", f"episode:{format_tsid(other[1])}")
    proposal = f"proposal:{format_tsid(made.id)}"
    data = conflict(told, proposal)
    assert data["ids"] == [f"episode:{format_tsid(tsid)}" for _, tsid in (one, other)] and "current" not in data
    (row,) = listed(told)
    assert (row["note"], row["fact"]) == (None, None)


# --- no more than can be looked at ------------------------------------------------------------------


def test_as_many_wait_about_a_memory_as_may_and_a_decision_makes_room(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "OPEN_PROPOSALS", 3)
    older, newer = pair(told)
    first = fact(told, older, "a")
    second = edge(told, newer, older, "extends")
    fact(told, older, "b")
    for more in (lambda: fact(told, older, "c"), lambda: edge(told, newer, older, "contradicts")):
        reason, data = reason_of(more)
        assert (reason, data["limit"], data["current"], data["ids"]) == (Reason.CONFLICT, 3, 3, [older])
    assert fact(told, older, "a") == first, "what waits already is told all the same"
    assert edge(told, newer, older, "extends") == second
    fact(told, newer, "a")
    decide(told, first, accept=False)
    fact(told, older, "c")


# --- once, also in one batch and behind a crash ----------------------------------------------------


def in_one_batch(told: Told, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    """The answers to writes that are admitted together: they are queued while the writer is kept from taking any."""
    service = told.service
    typed = [Call(verb, msgspec.convert(params, VERBS[verb].params), OPERATOR, ignored) for verb, params in calls]
    before = sum(service.counts.batches.counts)
    service.writer.between(lambda: deque(map(service.submit, typed), maxlen=0))
    outcomes = [told._answers.get(timeout=30)[1] for _ in calls]
    assert sum(service.counts.batches.counts) == before + 1
    return [each if isinstance(each, Refused) else msgspec.to_builtins(each) for each in outcomes]


def ignored(outcome: object) -> None:
    """The answers are taken from the service's own delivery."""


def test_of_two_decisions_in_one_batch_exactly_one_is_taken(told: Told) -> None:
    older, newer = pair(told)
    proposal = edge(told, newer, older)
    params = {"proposal": proposal, "accept": True}
    first, second = in_one_batch(told, ("decide", params), ("decide", params))
    assert first["decided"] == "applied"
    assert second.reason is Reason.NOT_FOUND
    types = [each["type"] for each in events_of(told, 0)]
    assert (types.count("superseded"), types.count("proposal_decided")) == (1, 1)


def test_of_two_successors_in_one_batch_exactly_one_takes_the_place(told: Told) -> None:
    turn = told.raw()
    older, one, other = told.note(turn), told.note(turn), told.note(turn)
    calls = [("decide", {"proposal": edge(told, each, older), "accept": True}) for each in (one, other)]
    first, second = in_one_batch(told, *calls)
    assert (first["decided"], second.reason, second.data["current"]) == ("applied", Reason.CONFLICT, one)
    assert told.memory(older)["superseded_by"] == one
    assert [row["memory"] for row in listed(told)] == [other]


def test_what_a_batch_stages_it_can_decide(told: Told) -> None:
    note = told.note(told.raw())
    params = {"proposal_kind": "fact", "memory": note, "fact": FACT}
    first, second = in_one_batch(told, ("propose", params), ("propose", params))
    assert (first["existed"], second["existed"], second["proposal"]) == (False, True, first["proposal"])
    assert decide(told, first["proposal"])["decided"] == "applied"


def test_a_key_answers_a_decision_again_behind_a_kill(told: Told) -> None:
    older, newer = pair(told)
    proposal = edge(told, newer, older)
    first = decide(told, proposal, idempotency_key="k")
    seq = head(told)
    told.reopen(clean=False)
    again = decide(told, proposal, idempotency_key="k")
    assert again == {**first, "duplicate": True} and len(first["produced"]) == 1
    assert [each["type"] for each in events_of(told, seq) if each["type"] != "opened"] == []
    reason, _ = reason_of(lambda: decide(told, proposal, accept=False, idempotency_key="k"))
    assert reason is Reason.CONFLICT


def test_a_refused_decision_keeps_no_key(told: Told) -> None:
    older, newer = pair(told)
    proposal = edge(told, newer, older)
    told.do("forget", newer)
    reason_of(lambda: decide(told, proposal, idempotency_key="k"))
    told.do("recover", newer)
    assert decide(told, proposal, idempotency_key="k")["decided"] == "applied"


def test_a_keyed_answer_names_the_memories_that_a_purge_would_ask_for(told: Told) -> None:
    older, newer = pair(told)
    params = {"proposal_kind": "edge", "memory": newer, "other": older, "edge": "supersedes", "idempotency_key": "p"}
    proposal = told.write("propose", params)["proposal"]
    decide(told, proposal, idempotency_key="d")
    keyed = [each for each in events_of(told, 0) if each["type"] == "keyed"]
    tsids = {ref.partition(":")[2] for ref in (older, newer)}
    assert [set(each["memories"]) for each in keyed] == [tsids, tsids]
    seq = head(told)
    decide(told, fact(told, newer), idempotency_key="f")
    (keyed_fact,) = [each for each in events_of(told, seq) if each["type"] == "keyed"]
    assert keyed_fact["memories"] == [newer.partition(":")[2]]


def test_ids_rise_behind_an_accepted_edge_though_the_clock_went_back(told: Told) -> None:
    older, newer = pair(told)
    proposal = edge(told, newer, older)
    told.now_ms += DAY_MS
    (made,) = decide(told, proposal)["produced"]
    told.now_ms -= DAY_MS
    told.rebuilt_alike()
    assert parse_memory_ref(told.raw())[1] > parse_ref("edge", made)


def test_an_imported_store_waits_and_decides_as_the_one_it_came_from(told: Told, tmp_path: Path) -> None:
    older, newer = pair(told)
    waiting, applied = fact(told, newer, note="why"), edge(told, newer, older)
    decide(told, applied)
    rows = [listed(told, status=status) for status in ("proposed", "applied")]
    told.close(True)
    import_frames(tmp_path / "new", io.BytesIO(b"".join(exported(told.root))))
    told._open()
    there = Told(tmp_path / "new")
    try:
        assert [listed(there, status=status) for status in ("proposed", "applied")] == rows
        assert fact(there, newer) == waiting, "its words are known there too"
        assert decide(there, waiting)["decided"] == "applied"
        assert [each["value"] for each in there.memory(newer)["facts"]] == [FACT["value"]]
        assert there.rebuilt_alike()
    finally:
        there.close(True)

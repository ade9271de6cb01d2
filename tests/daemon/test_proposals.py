"""propose: what each kind takes, one open proposal for each thing said, and what is written of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from daemon.commands.proposable import BY_KIND, BY_SUBTYPE, proposable
from daemon.refusal import Reason
from journal.codes import EdgeType, Kind, ProposalKind, ProposalStatus, subtype_code
from journal.tsid import parse_memory_ref
from projections import proposals
from projections.pairs import settled
from projections.rows import MemoryRow
from projections.state import State
from tests.daemon.proposed import FACT, decide, edge, fact, head, ids, listed, pair, propose
from tests.daemon.told import Told, reason_of, remember

# --- parameters ------------------------------------------------------------------------------------

NEEDED: dict[str, dict[str, Any]] = {
    "edge": {"other": "note:0000000000001", "edge": "extends"},
    "fact": {"fact": FACT},
    "resolution": {},
    "retention": {"action": "archive"},
}
STRANGE: dict[str, Any] = {"other": "note:0000000000001", "edge": "extends", "fact": FACT, "action": "archive"}


@pytest.mark.parametrize("kind", NEEDED)
def test_a_missing_parameter_is_named(told: Told, kind: str) -> None:
    assert set(NEEDED) == {each.wire for each in ProposalKind}
    for name in NEEDED[kind]:
        given = {other: value for other, value in NEEDED[kind].items() if other != name}
        params = {"proposal_kind": kind, "memory": "note:0000000000002", **given}
        reason, data = reason_of(lambda params=params: told.write("propose", params))
        assert (reason, data["parameter"]) == (Reason.INVALID_INPUT, name)


@pytest.mark.parametrize("kind", NEEDED)
def test_a_parameter_of_another_kind_is_named(told: Told, kind: str) -> None:
    for name in STRANGE.keys() - NEEDED[kind].keys():
        params = {"proposal_kind": kind, "memory": "note:0000000000002", **NEEDED[kind], name: STRANGE[name]}
        reason, data = reason_of(lambda params=params: told.write("propose", params))
        assert (reason, data["parameter"]) == (Reason.INVALID_INPUT, name), (kind, name)


def test_only_what_supersedes_names_another(told: Told) -> None:
    older, newer = pair(told)
    reason, data = reason_of(lambda: propose(told, "retention", older, action="supersede"))
    assert (reason, data["parameter"]) == (Reason.INVALID_INPUT, "other")
    assert propose(told, "retention", older, action="supersede", other=newer)


@pytest.mark.parametrize(("kind", "action"), [("resolution", "archive"), ("retention", "resolve")])
def test_an_action_of_another_kind_is_refused_with_those_there_are(told: Told, kind: str, action: str) -> None:
    reason, data = reason_of(lambda: propose(told, kind, told.raw(), action=action))
    assert (reason, data["parameter"]) == (Reason.INVALID_INPUT, "action")
    assert action not in data["allowed"] and data["allowed"]


def test_a_resolution_may_leave_its_one_action_out(told: Told) -> None:
    note = told.note(told.raw())
    first = propose(told, "resolution", note)
    assert told.write("propose", {"proposal_kind": "resolution", "memory": note, "action": "resolve"}) == {
        "proposal": first, "existed": True,
    }  # fmt: skip


def test_a_memory_and_itself_are_no_pair(told: Told) -> None:
    note = told.note(told.raw())
    reason, data = reason_of(lambda: edge(told, note, note))
    assert (reason, data["parameter"]) == (Reason.INVALID_INPUT, "other")


@pytest.mark.parametrize("parameter", ["memory", "other"])
def test_unknown_and_foreign_memories_are_not_found_alike(told: Told, parameter: str) -> None:
    ours = told.note(told.raw())
    foreign_turn = told.raw(tenant="theirs")
    theirs = told.note(foreign_turn, tenant="theirs")
    wrong_kind = "belief:" + ours.partition(":")[2]
    answers = set()
    for ref in ("note:0000000000001", theirs, wrong_kind):
        params = {"proposal_kind": "edge", "memory": ours, "other": ours, "edge": "extends", parameter: ref}
        reason, data = reason_of(lambda params=params: told.write("propose", params))
        answers.add((reason, repr(data)))
    assert answers == {(Reason.NOT_FOUND, repr({"parameter": parameter}))}


@pytest.mark.parametrize("bounds", [{}, {"valid_from": "2030-01-02T00:00:00Z"}])
def test_a_fact_that_would_end_before_it_begins_is_refused(told: Told, bounds: dict[str, str]) -> None:
    reason, data = reason_of(
        lambda: propose(told, "fact", told.raw(), fact={**FACT, **bounds, "valid_to": "2030-01-01T00:00:00Z"})
    )
    assert reason is Reason.INVALID_INPUT and data["parameter"].startswith("fact.valid_")


# --- which edges -----------------------------------------------------------------------------------


def row(kind: Kind, subtype: str | None = None) -> MemoryRow:
    blank = MemoryRow._make((0,) * len(MemoryRow._fields))
    return blank._replace(kind=int(kind), subtype=subtype_code(kind, subtype))


def test_what_a_pair_may_have_is_what_both_ends_allow() -> None:
    event, preference = row(Kind.EPISODE, "event"), row(Kind.BELIEF, "preference")
    rule, note = row(Kind.BELIEF, "rule"), row(Kind.NOTE, "finding")
    everything = {EdgeType.SUPERSEDES, EdgeType.UPDATES, EdgeType.EXTENDS, EdgeType.CONTRADICTS}
    assert proposable(note, note) == everything
    assert proposable(event, event) == {EdgeType.EXTENDS, EdgeType.CONTRADICTS}
    assert proposable(event, row(Kind.EPISODE, "success")) == {EdgeType.EXTENDS, EdgeType.CONTRADICTS}
    assert proposable(preference, rule) == proposable(rule, preference) == everything - {EdgeType.EXTENDS}
    assert proposable(note, rule) == {EdgeType.EXTENDS, EdgeType.CONTRADICTS}, "a successor is of the same kind"
    assert proposable(event, preference) == {EdgeType.CONTRADICTS}


def test_no_table_offers_what_is_never_proposed() -> None:
    offered = set().union(*BY_KIND.values(), *BY_SUBTYPE.values())
    assert offered.isdisjoint({EdgeType.DERIVED_FROM, EdgeType.EVIDENCE})


def test_an_edge_that_the_two_can_not_have_is_refused_with_those_they_can(told: Told) -> None:
    turn = told.raw()
    one = remember(told, "episode", turn, subtype="event")
    other = remember(told, "episode", turn, subtype="success")
    reason, data = reason_of(lambda: edge(told, one, other))
    assert (reason, data["parameter"], data["allowed"]) == (
        Reason.INVALID_INPUT, "edge", ["contradicts", "extends"],
    )  # fmt: skip
    reason, data = reason_of(lambda: propose(told, "retention", other, action="supersede", other=one))
    assert (reason, data["parameter"], data["allowed"]) == (Reason.INVALID_INPUT, "action", ["archive"])
    assert edge(told, one, other, "extends")


# --- one open proposal says a thing ----------------------------------------------------------------


def test_the_same_again_is_the_one_that_waits_and_its_first_words_stand(told: Told) -> None:
    older, newer = pair(told)
    first = edge(told, newer, older, note="the first reason")
    seq = head(told)
    again = {"proposal_kind": "edge", "memory": newer, "other": older, "edge": "supersedes", "note": "another"}
    assert told.write("propose", again) == {"proposal": first, "existed": True}
    assert head(told) == seq, "nothing is written"
    assert [row["note"] for row in listed(told)] == ["the first reason"]


def test_what_differs_in_anything_that_counts_is_another(told: Told) -> None:
    older, newer = pair(told)
    made = [
        edge(told, newer, older), edge(told, older, newer), edge(told, newer, older, "updates"),
        fact(told, newer), fact(told, newer, "blue"), fact(told, older), propose(told, "resolution", newer),
        propose(told, "retention", newer, action="archive"),
        propose(told, "retention", newer, action="supersede", other=older),
    ]  # fmt: skip
    assert len(set(made)) == len(made)
    assert ids(told) == made[::-1], "newest first"


def test_a_contradiction_is_the_same_whichever_way_it_is_told(told: Told) -> None:
    older, newer = pair(told)
    first = edge(told, newer, older, "contradicts")
    assert edge(told, older, newer, "contradicts") == first
    assert edge(told, newer, older, "extends") != edge(told, older, newer, "extends")


def test_a_fact_is_known_again_by_its_words_alone(told: Told) -> None:
    note = told.note(told.raw())
    first = propose(told, "fact", note, fact={**FACT, "confidence": 0.9, "valid_from": "2026-01-01T00:00:00Z"})
    assert fact(told, note) == first
    (row,) = listed(told)
    assert (row["fact"]["confidence"], row["fact"]["valid_from"]) == (0.9, "2026-01-01T00:00:00.000Z")


@pytest.mark.parametrize("accept", [True, False])
def test_what_was_decided_may_be_proposed_again(told: Told, accept: bool) -> None:
    note = told.note(told.raw())
    first = fact(told, note)
    decide(told, first, accept)
    second = fact(told, note)
    assert second != first and ids(told) == [second]


def test_two_tenants_may_propose_the_same(told: Told) -> None:
    made = []
    for tenant in ("ours", "theirs"):
        turn = told.raw(tenant=tenant)
        note = told.note(turn, tenant=tenant)
        made.append(told.write("propose", {"proposal_kind": "fact", "memory": note, "fact": FACT, "tenant": tenant}))
    assert [each["existed"] for each in made] == [False, False]
    assert ids(told, tenant="ours") == [made[0]["proposal"]]
    assert ids(told, tenant="theirs") == [made[1]["proposal"]]
    assert ids(told) == []


def test_words_of_a_proposal_stand_in_no_record(told: Told) -> None:
    note = told.note(told.raw())
    propose(told, "fact", note, fact={**FACT, "value": "canary value"}, note="canary note")
    with told.store.env.read() as txn:
        bodies = [record for chunk in told.store.log.chunks() for record in chunk]
        (made,) = [record for record in bodies if type(record.event).__name__ == "ProposalMade"]
        assert told.store.log.get(txn, made.seq) is not None
    assert "canary" not in repr(made)
    assert {part.part for part in made.event.parts} == {2, 4}  # type: ignore[union-attr]
    assert [(row["fact"]["value"], row["note"]) for row in listed(told)] == [("canary value", "canary note")]


def test_nothing_is_proposed_in_maintenance(told: Told) -> None:
    note = told.note(told.raw())
    proposal = fact(told, note)
    told.write("lifecycle", {"state": "maintenance"})
    for call in (
        lambda: fact(told, note, "blue"),
        lambda: decide(told, proposal),
        lambda: decide(told, proposal, False),
    ):
        assert reason_of(call)[0] is Reason.LIFECYCLE
    assert ids(told) == [proposal]


def test_a_key_answers_a_proposal_again_and_knows_another_request(told: Told) -> None:
    older, newer = pair(told)
    params: dict[str, Any] = {"proposal_kind": "edge", "memory": newer, "other": older, "edge": "supersedes"}
    first = told.write("propose", {**params, "idempotency_key": "k"})
    decide(told, first["proposal"], accept=False)
    told.reopen(clean=False)
    assert told.write("propose", {**params, "idempotency_key": "k"}) == {**first, "duplicate": True}
    reason, data = reason_of(lambda: told.write("propose", {**params, "edge": "updates", "idempotency_key": "k"}))
    assert (reason, data["parameter"]) == (Reason.CONFLICT, "idempotency_key")
    assert ids(told) == []


def test_two_spellings_of_a_time_are_one_request(told: Told) -> None:
    note = told.note(told.raw())
    for at in ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000Z"):
        made = {"proposal_kind": "fact", "memory": note, "fact": {**FACT, "valid_from": at}, "idempotency_key": "k"}
        answer = told.write("propose", made)
    assert answer["duplicate"] is True


# --- pairs that are settled ------------------------------------------------------------------------


def test_a_pair_is_settled_by_any_proposal_and_by_any_edge_whichever_way(told: Told) -> None:
    turn = told.raw()
    waiting, rejected, drawn, free = (told.note(turn) for _ in range(4))
    base = told.note(turn)
    edge(told, base, waiting, "extends")
    decide(told, edge(told, rejected, base, "extends"), accept=False)
    told.write("relate", {"from": drawn, "to": base, "type": "contradicts"})
    with told.projections.snapshot() as snapshot:
        state = State(snapshot, told.projections.counters, snapshot.head)
        tsid = {ref: parse_memory_ref(ref)[1] for ref in (base, waiting, rejected, drawn, free, turn)}
        for other, wanted in ((waiting, True), (rejected, True), (drawn, True), (turn, True), (free, False)):
            assert settled(state, tsid[base], tsid[other]) is wanted, other
            assert settled(state, tsid[other], tsid[base]) is wanted, other
        assert not settled(state, tsid[waiting], tsid[rejected]), "both are named with the base, not together"
    assert edge(told, base, rejected, "extends"), "whoever looks at them may propose again"


def test_a_pair_with_a_hub_is_found_settled_in_as_many_looks_as_the_other_needs(told: Told) -> None:
    turn = told.raw()
    hub, first, last, free = (told.note(turn) for _ in range(4))
    edge(told, first, hub, "extends")
    for number in range(20):
        fact(told, hub, f"v{number}")
    edge(told, hub, last, "extends")
    fact(told, free)
    with told.projections.snapshot() as snapshot:
        state = _Counting(snapshot, told.projections.counters, snapshot.head)
        tsid = {ref: parse_memory_ref(ref)[1] for ref in (hub, first, last, free)}
        for other, wanted in ((first, True), (last, True), (free, False)):
            for one, two in ((tsid[hub], tsid[other]), (tsid[other], tsid[hub])):
                state.looks = 0
                assert proposals.naming_both(state, one, two, ProposalStatus.PROPOSED) is wanted, other
                assert state.looks <= 4


class _Counting(State):
    """Counts what it gives."""

    looks = 0

    def get(self, database: str, key: bytes) -> bytes | None:
        self.looks += 1
        return super().get(database, key)

    def prefix(self, database: str, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        for entry in super().prefix(database, prefix):
            self.looks += 1
            yield entry


def test_what_names_a_memory_is_found_from_either_end(told: Told) -> None:
    older, newer = pair(told)
    proposal = edge(told, newer, older)
    with told.projections.snapshot() as snapshot:
        state = State(snapshot, told.projections.counters, snapshot.head)
        named = [proposals.naming(state, parse_memory_ref(ref)[1], ProposalStatus.PROPOSED) for ref in (older, newer)]
    assert named[0] == named[1] and len(named[0]) == 1
    assert proposal.endswith(named_ref(named[0][0]))


def named_ref(tsid: int) -> str:
    from journal.tsid import format_tsid

    return format_tsid(tsid)

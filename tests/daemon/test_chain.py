"""`get` with `include: ["provenance"]`: what the five sections of a chain say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from daemon.refusal import Reason
from daemon.wire.checks import check_params
from daemon.wire.verbs import VERBS
from journal.codes import Mark, ProposalAction, ProposalKind, Via
from journal.events import FactHead, Moved, Reaffirmed
from journal.tsid import format_tsid, parse_memory_ref
from tests.daemon.chained import DECISION, Applied, Chained, fact_added, fact_ref, resolved
from tests.daemon.told import reason_of
from tests.journal.appending import Legacy

EMPTY = {"items": [], "truncated": False}
NO_VERSIONS = {"predecessors": [], "successors": [], "truncated": False}
ALL_OK = dict.fromkeys(("origin", "supersession", "events", "proposals", "facts"), "ok")


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Chained]:
    opened = Chained(tmp_path / "state")
    try:
        yield opened
        assert opened.rebuilt_alike()
    finally:
        opened.close(True)


def kinds(chain: dict[str, Any]) -> list[str]:
    return [event["event_kind"] for event in chain["events"]["items"]]


def test_a_single_memory_has_its_origin_its_run_and_one_create_event(told: Chained) -> None:
    session = told.session()
    opened_at = told.read("session", {"session": session})["opened_at"]
    ref = told.decision(session=session)
    memory = told.memory(ref)
    chain = told.chain(ref)
    assert chain["origin"] == {
        "session": session, "actor_kind": "client", "created_at": memory["at"],
        "run": {"agent": "claude", "opened_at": opened_at},
    }  # fmt: skip
    assert chain["events"] == {
        "items": [
            {
                "id": f"record:{memory['address']['seq']}", "event_kind": "create", "actor_kind": "client",
                "created_at": memory["at"], "session": session, "proposal": None,
            }
        ],
        "truncated": False,
    }  # fmt: skip
    assert chain["supersession"] == NO_VERSIONS
    assert chain["proposals"] == chain["facts"] == EMPTY
    assert chain["sections"] == ALL_OK


def test_a_write_without_a_session_has_no_run_but_says_who_and_when(told: Chained) -> None:
    ref = told.decision()
    origin = told.chain(ref)["origin"]
    assert origin == {"session": None, "actor_kind": "client", "created_at": told.memory(ref)["at"], "run": None}


def test_without_include_there_is_no_chain_and_what_is_not_found_gets_none(told: Chained) -> None:
    ref = told.decision()
    assert "provenance" not in told.memory(ref)
    assert "provenance" not in told.read("get", {"ids": [ref], "include": []})["memories"][0]
    missing = "note:0000000000001"
    found = told.got(ref.upper().replace("NOTE", "note"), missing, ref)
    assert [memory["id"] for memory in found["memories"]] == [ref]
    assert found["not_found"] == [missing]


def test_six_ids_with_provenance_are_too_many_also_when_they_are_one(told: Chained) -> None:
    params = {"ids": ["note:0000000000001"] * 6, "include": ["provenance"]}
    reason, data = reason_of(lambda: check_params(msgspec.convert(params, VERBS["get"].params)))
    assert (reason, data["parameter"], data["limit"]) == (Reason.INVALID_INPUT, "ids", 5)
    params["ids"] = params["ids"][:5]
    check_params(msgspec.convert(params, VERBS["get"].params))
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**params, "include": ["prose"]}, VERBS["get"].params)


@pytest.mark.parametrize("ref", ["note:", "0000000000001", "note:000000000000U", "decision:0000000000001", "session:1"])
def test_a_malformed_id_is_refused_for_the_whole_call(told: Chained, ref: str) -> None:
    """T4, T22: what is no id is not looked for; what is one and isn't there is `not_found`."""
    reason, data = reason_of(lambda: told.got(told.decision(), ref))
    assert (reason, data["parameter"]) == (Reason.INVALID_INPUT, "ids")


def test_a_chain_as_it_was_known_then_is_refused(told: Chained) -> None:
    ref = told.decision()
    reason, data = reason_of(lambda: told.got(ref, as_known_at="2026-11-01T00:00:00Z"))
    assert (reason, data["parameter"]) == (Reason.INVALID_INPUT, "as_known_at")


def test_three_versions_are_a_chain_of_updates_then_supersedes(told: Chained) -> None:
    """T1, T2."""
    first = told.decision(topic="queue store", project="daemon", valid_from="2026-01-02T03:04:05.678Z")
    second = told.revised(first, "updates")
    third = told.revised(second, "supersedes")
    chain = told.chain(third)
    rows = chain["supersession"]["predecessors"]
    assert [(row["id"], row["depth"], row["edge_type"]) for row in rows] == [
        (second, 1, "supersedes"),
        (first, 2, "updates"),
    ]
    memory = told.memory(first)
    assert rows[1] == {
        "id": first, "kind": "note", "subtype": "decision", "topic": "queue store", "project": "daemon",
        "status": "superseded", "valid_from": "2026-01-02T03:04:05.678Z", "valid_to": memory["valid_to"],
        "created_at": memory["at"], "edge": rows[1]["edge"], "edge_type": "updates", "created_by": "client",
        "edge_created_at": told.memory(second)["at"], "depth": 2, "source_proposal": None, "created_by_session": None,
    }  # fmt: skip
    assert rows[1]["edge"].startswith("edge:") and rows[1]["edge"] != rows[0]["edge"]
    assert chain["supersession"]["successors"] == [] and chain["supersession"]["truncated"] is False
    assert sorted(kinds(told.chain(second))) == ["create", "supersede"]
    assert kinds(chain) == ["create"]
    backward = told.chain(first)["supersession"]
    assert [(row["id"], row["depth"]) for row in backward["successors"]] == [(second, 1), (third, 2)]
    assert backward["successors"][0]["edge"] == rows[1]["edge"]


def test_each_version_has_the_session_that_it_was_written_in_itself(told: Chained) -> None:
    one, two = told.session("one"), told.session("two", "codex")
    first = told.decision(session=one)
    second = told.revised(first, session=two)
    third = told.revised(second, "updates")
    chain = told.chain(third)
    assert [row["created_by_session"] for row in chain["supersession"]["predecessors"]] == [two, one]
    assert chain["origin"]["session"] is None


def test_a_moved_memory_has_a_revise_event_its_new_topic_and_no_other_version(told: Chained) -> None:
    first = told.decision(topic="before")
    told.write("revise", {"id": first, "disposition": "move", "fields": {"topic": "behind"}})
    chain = told.chain(first)
    assert kinds(chain) == ["revise", "create"]
    assert chain["supersession"] == NO_VERSIONS
    second = told.revised(first)
    assert told.chain(second)["supersession"]["predecessors"][0]["topic"] == "behind"


def test_what_verbs_do_is_told_newest_first_without_a_proposal(told: Chained) -> None:
    ref = told.decision()
    told.do("mark", ref, mark="resolved")
    told.do("mark", ref, mark="resolved", on=False)
    told.do("mark", ref, mark="archived")
    told.do("reaffirm", ref)
    told.do("forget", ref)
    chain = told.chain(ref)
    assert kinds(chain) == ["forget", "reaffirm", "archive", "unresolve", "resolve", "create"]
    assert {event["proposal"] for event in chain["events"]["items"]} == {None}
    assert [event["id"] for event in chain["events"]["items"]] == sorted(
        (event["id"] for event in chain["events"]["items"]), key=lambda ref: -int(ref.partition(":")[2])
    )


def test_an_imported_memory_has_no_origin_of_its_own_and_an_import_event(told: Chained) -> None:
    imported = {"format": "other", "foreign_id": "x", "created_at": "2020-01-01T00:00:00Z"}
    ref = told.decision(imported=imported, session=told.session())
    chain = told.chain(ref)
    assert chain["origin"] == {"session": None, "actor_kind": None, "created_at": None, "run": None}
    assert kinds(chain) == ["import"]
    assert chain["sections"]["origin"] == "ok"


def test_each_event_has_the_session_of_its_own_record_and_takes_none_from_another(told: Chained) -> None:
    one, two = told.session("one"), told.session("two")
    ref, newer = told.decision(session=one), told.decision("newer")
    memory = parse_memory_ref(ref)
    told.by_hand(
        Moved(memory=memory, session=2), resolved(ref), Reaffirmed(memory=memory, session=1),
        msgspec.structs.replace(resolved(ref, mark=Mark.ARCHIVED), session=2), told.edge(newer, ref, session=1),
    )  # fmt: skip
    found = [(event["event_kind"], event["session"]) for event in told.chain(ref)["events"]["items"]]
    assert found == [
        ("supersede", one), ("archive", two), ("reaffirm", one), ("resolve", None), ("revise", two), ("create", one),
    ]  # fmt: skip


def test_a_record_that_names_a_session_of_another_tenant_tells_nothing_of_it(told: Chained) -> None:
    ref = told.decision()
    told.write("session_open", {"agent": "foreign", "key": "theirs", "tenant": "other"})
    told.by_hand(Moved(memory=parse_memory_ref(ref), session=1))
    event = told.chain(ref)["events"]["items"][0]
    assert (event["event_kind"], event["session"]) == ("revise", None)
    found = told.read("get", {"ids": [ref], "include": ["provenance"], "tenants": ["default", "other"]})
    assert found["memories"][0]["provenance"]["events"]["items"][0]["session"] is None


def test_an_accepted_edge_names_its_proposal_on_both_sides_and_its_supersede_event_does_not(told: Chained) -> None:
    old, new = told.decision("old"), told.decision("new")
    edge = told.edge(new, old)
    proposal = told.applied(ProposalKind.EDGE, new, old, edges=(edge.edge,))
    made = msgspec.structs.replace(edge, proposal=proposal.id)
    told.by_hand(proposal.made, Legacy(made, via=Via.MCP), proposal.decided)
    source = {"kind": "edge", "id": proposal.ref}
    chain = told.chain(new)
    (row,) = chain["supersession"]["predecessors"]
    assert (row["id"], row["source_proposal"], row["created_by"]) == (old, source, "mcp")
    (told_of,) = chain["proposals"]["items"]
    assert told_of == {
        "id": proposal.ref, "kind": "edge", "edge_type": "supersedes", "action": None, "other_memory": old,
        "created_at": told_of["created_at"], "decided_at": told_of["decided_at"],
        "produced": [f"edge:{format_tsid(edge.edge)}"],
    }  # fmt: skip
    backward = told.chain(old)
    assert backward["supersession"]["successors"][0]["source_proposal"] == source
    assert backward["proposals"]["items"][0]["other_memory"] == new
    supersede = backward["events"]["items"][0]
    assert (supersede["event_kind"], supersede["proposal"], supersede["actor_kind"]) == ("supersede", None, "mcp")


def test_an_edge_that_was_there_keeps_no_source_and_its_proposal_produced_nothing(told: Chained) -> None:
    old = told.decision()
    new = told.revised(old)
    proposal = told.applied(ProposalKind.EDGE, new, old)
    told.by_hand(proposal.made, proposal.decided)
    chain = told.chain(new)
    assert chain["supersession"]["predecessors"][0]["source_proposal"] is None
    assert [row["produced"] for row in chain["proposals"]["items"]] == [[]]


def test_open_and_rejected_proposals_are_absent(told: Chained) -> None:
    ref = told.decision()
    waiting = told.applied(ProposalKind.RESOLUTION, ref, action=ProposalAction.RESOLVE)
    rejected = told.applied(ProposalKind.RESOLUTION, ref, action=ProposalAction.RESOLVE, accepted=False)
    told.by_hand(waiting.made, rejected.made, rejected.decided)
    assert told.chain(ref)["proposals"] == EMPTY


@pytest.mark.parametrize(
    ("kind", "action", "mark", "word"),
    [
        (ProposalKind.RESOLUTION, ProposalAction.RESOLVE, Mark.RESOLVED, "resolve"),
        (ProposalKind.RETENTION, ProposalAction.ARCHIVE, Mark.ARCHIVED, "archive"),
    ],
)
def test_what_a_proposal_resolved_or_archived_names_it(
    told: Chained, kind: ProposalKind, action: ProposalAction, mark: Mark, word: str
) -> None:
    ref = told.decision()
    proposal = told.applied(kind, ref, action=action)
    first = told.store.log.head().seq + 1 + 2  # two openings and the proposal lie before
    made = msgspec.structs.replace(proposal.decided, seqs=(first,))
    *_, marked, _ = told.by_hand(proposal.made, resolved(ref, proposal.id, mark), made)
    chain = told.chain(ref)
    event = chain["events"]["items"][0]
    assert (event["event_kind"], event["proposal"], event["id"]) == (word, proposal.ref, f"record:{marked}")
    (row,) = chain["proposals"]["items"]
    assert (row["kind"], row["action"], row["edge_type"], row["other_memory"]) == (kind.wire, action.wire, None, None)
    assert row["produced"] == [f"record:{first}"]


def test_an_applied_proposal_without_its_record_is_listed_and_produced_nothing(told: Chained) -> None:
    ref = told.decision()
    told.do("mark", ref, mark="resolved")
    proposal = told.applied(ProposalKind.RESOLUTION, ref, action=ProposalAction.RESOLVE)
    told.by_hand(proposal.made, proposal.decided)
    chain = told.chain(ref)
    assert chain["proposals"]["items"][0]["produced"] == []
    assert chain["events"]["items"][0]["proposal"] is None


def test_facts_tell_what_they_came_of_and_never_their_words(told: Chained) -> None:
    words = {"subject": "s-canary", "predicate": "p-canary", "value": "v-canary"}
    ref = told.decision(facts=[{**words, "valid_from": "2026-02-03T04:05:06.007Z", "valid_to": "2027-01-01T00:00:00Z"}])
    own = told.memory(ref)["facts"][0]["id"]
    proposal = told.applied(ProposalKind.FACT, ref)
    added = fact_added(told, ref, ("a-canary", "b-canary", "c-canary"), proposal.id, valid_from=1_700_000_000_000)
    assert isinstance(added.event.fact, FactHead)  # type: ignore[union-attr]
    told.by_hand(proposal.made, added, _produced(proposal, added))
    found = told.got(ref)
    chain = found["memories"][0]["provenance"]
    assert chain["facts"] == {
        "items": [
            {"id": fact_ref(added), "valid_from": "2023-11-14T22:13:20.000Z", "valid_to": None,
             "source_proposal": proposal.ref},
            {"id": own, "valid_from": "2026-02-03T04:05:06.007Z", "valid_to": "2027-01-01T00:00:00.000Z",
             "source_proposal": None},
        ],
        "truncated": False,
    }  # fmt: skip
    assert chain["proposals"]["items"][0]["produced"] == [fact_ref(added)]
    assert kinds(chain) == ["create"]
    assert "canary" not in str(chain)


def _produced(proposal: Applied, added: Legacy) -> Any:
    return msgspec.structs.replace(proposal.decided, facts=(added.event.fact.id,))  # type: ignore[union-attr]


def test_a_purged_memory_keeps_its_chain_without_words(told: Chained) -> None:
    first = told.decision(topic="t-canary", project="p-canary")
    second = told.revised(first, fields={"topic": "t-canary-2"})
    told.purge(first)
    (memory,) = told.got(first)["memories"]
    assert memory["status"] == "purged"
    chain = memory["provenance"]
    assert chain["sections"] == ALL_OK
    assert kinds(chain) == ["purge", "supersede", "create"]
    assert chain["supersession"]["successors"][0]["topic"] == "t-canary-2"
    (row,) = told.chain(second)["supersession"]["predecessors"]
    assert (row["id"], row["topic"], row["project"], row["status"]) == (first, None, None, "purged")


def test_two_notes_in_one_call_stand_in_request_order_with_their_own_chains(told: Chained) -> None:
    session = told.session()
    one = told.decision(session=session)
    two = str(told.write("remember", {**DECISION, "text": "two", "derived_from": [told.raw("two")]})["id"])
    found = told.got(two, one)["memories"]
    assert [memory["id"] for memory in found] == [two, one]
    assert [memory["provenance"]["origin"]["session"] for memory in found] == [None, session]

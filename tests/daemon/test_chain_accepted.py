"""What came of a proposal that was accepted by the verb, as the chains of both its memories tell it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.chained import Chained
from tests.daemon.proposed import decide, edge, fact, propose


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Chained]:
    opened = Chained(tmp_path / "state")
    try:
        yield opened
        assert opened.rebuilt_alike()
    finally:
        opened.close(True)


@pytest.mark.parametrize("word", ["supersedes", "updates"])
def test_an_accepted_edge_is_in_both_chains_with_its_proposal(told: Chained, word: str) -> None:
    old, new = told.decision("old"), told.decision("new")
    proposal = edge(told, new, old, word)
    (made,) = decide(told, proposal)["produced"]
    source = {"kind": "edge", "id": proposal}
    forward, backward = told.chain(new), told.chain(old)
    for rows, other in (
        (forward["supersession"]["predecessors"], old),
        (backward["supersession"]["successors"], new),
    ):
        assert [(row["id"], row["edge"], row["edge_type"], row["source_proposal"]) for row in rows] == [
            (other, made, word, source)
        ]
    for chain, other in ((forward, old), (backward, new)):
        (row,) = chain["proposals"]["items"]
        assert (row["id"], row["kind"], row["edge_type"], row["other_memory"]) == (proposal, "edge", word, other)
        assert row["produced"] == [made] and row["created_at"] < row["decided_at"]
    assert [(event["event_kind"], event["proposal"]) for event in backward["events"]["items"]] == [
        ("supersede", None),
        ("create", None),
    ]
    assert [event["event_kind"] for event in forward["events"]["items"]] == ["create"]


def test_an_accepted_extension_is_a_proposal_that_made_an_edge_and_no_version(told: Chained) -> None:
    old, new = told.decision("old"), told.decision("new")
    proposal = edge(told, new, old, "extends")
    produced = decide(told, proposal)["produced"]
    chain = told.chain(new)
    assert chain["supersession"] == {"predecessors": [], "successors": [], "truncated": False}
    assert [(row["id"], row["produced"]) for row in chain["proposals"]["items"]] == [(proposal, produced)]
    assert [event["event_kind"] for event in chain["events"]["items"]] == ["create"]


def test_an_edge_that_was_there_has_no_source_though_two_proposals_of_it_were_accepted(told: Chained) -> None:
    """P12: the second one, of another kind, changed nothing."""
    old, new = told.decision("old"), told.decision("new")
    first = edge(told, new, old)
    second = propose(told, "retention", old, other=new, action="supersede")
    made = decide(told, second)["produced"]
    assert decide(told, first)["produced"] == []
    chain = told.chain(new)
    (row,) = chain["supersession"]["predecessors"]
    assert row["source_proposal"] == {"kind": "retention", "id": second} and row["edge"] == made[0]
    assert {each["id"]: each["produced"] for each in chain["proposals"]["items"]} == {first: [], second: made}


def test_an_accepted_fact_names_its_proposal_and_is_no_event(told: Chained) -> None:
    ref = told.decision()
    proposal = fact(told, ref)
    produced = decide(told, proposal)["produced"]
    chain = told.chain(ref)
    assert [(row["id"], row["source_proposal"]) for row in chain["facts"]["items"]] == [(produced[0], proposal)]
    assert chain["proposals"]["items"][0]["produced"] == produced
    assert [event["event_kind"] for event in chain["events"]["items"]] == ["create"]
    (shown,) = told.memory(ref)["facts"]
    assert (shown["id"], shown["source_proposal"], shown["value"]) == (produced[0], proposal, "green")


@pytest.mark.parametrize(
    ("kind", "action", "word"), [("resolution", "resolve", "resolve"), ("retention", "archive", "archive")]
)
def test_what_was_accepted_to_resolve_or_archive_is_an_event_with_its_proposal(
    told: Chained, kind: str, action: str, word: str
) -> None:
    ref = told.decision()
    proposal = propose(told, kind, ref, action=action)
    produced = decide(told, proposal)["produced"]
    chain = told.chain(ref)
    event = chain["events"]["items"][0]
    assert (event["event_kind"], event["proposal"], [event["id"]]) == (word, proposal, produced)
    (row,) = chain["proposals"]["items"]
    assert (row["kind"], row["action"], row["produced"]) == (kind, action, produced)


def test_what_waits_and_what_was_rejected_is_in_no_chain(told: Chained) -> None:
    old, new = told.decision("old"), told.decision("new")
    edge(told, new, old)
    decide(told, fact(told, new), accept=False)
    for ref in (old, new):
        chain = told.chain(ref)
        assert chain["proposals"]["items"] == chain["facts"]["items"] == []

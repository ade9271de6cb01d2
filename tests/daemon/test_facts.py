"""`facts[]` of `get`: those a memory was made with and those accepted later, in order of their ids, words and all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon.wire.times import format_ms
from journal.codes import ProposalKind
from journal.record import HEAD_BYTES, seq_key
from tests.daemon.chained import Chained, fact_added, fact_ref

WORDS = {"subject": "the queue", "predicate": "uses", "value": "lmdb"}


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Chained]:
    opened = Chained(tmp_path / "state")
    try:
        yield opened
    finally:
        opened.close(True)


def with_facts(told: Chained) -> tuple[str, list[dict[str, Any]]]:
    """A memory made with two facts, and two more that were accepted, the second of them through a proposal."""
    ref = told.decision(facts=[WORDS, {**WORDS, "value": "fsync", "confidence": 0.5}])
    proposal = told.applied(ProposalKind.FACT, ref)
    plain = fact_added(told, ref, ("a", "b", "c"))
    produced = fact_added(told, ref, ("d", "e", "f"), proposal.id, confidence=0.25, valid_from=1_700_000_000_000)
    told.by_hand(proposal.made, produced, proposal.decided, plain)
    own = told.memory(ref)["facts"][:2]
    null = {"confidence": None, "valid_from": None, "valid_to": None, "source_proposal": None}
    return ref, [
        {**null, **WORDS, "id": own[0]["id"]},
        {**null, **WORDS, "id": own[1]["id"], "value": "fsync", "confidence": 0.5},
        {**null, "id": fact_ref(plain), "subject": "a", "predicate": "b", "value": "c"},
        {**null, "id": fact_ref(produced), "subject": "d", "predicate": "e", "value": "f", "confidence": 0.25,
         "valid_from": "2023-11-14T22:13:20.000Z", "source_proposal": proposal.ref},
    ]  # fmt: skip


def test_all_facts_are_told_in_order_of_id_with_the_proposal_that_one_came_of(told: Chained) -> None:
    ref, wanted = with_facts(told)
    facts = told.memory(ref)["facts"]
    assert facts == wanted
    assert [fact["id"] for fact in facts] == sorted(fact["id"] for fact in facts)
    (listed,) = [row for row in told.read("list", {"full": True})["memories"] if row["id"] == ref]
    assert listed["facts"] == wanted


def test_a_superseded_memory_keeps_its_facts_and_its_successor_has_none(told: Chained) -> None:
    ref, wanted = with_facts(told)
    successor = told.revised(ref)
    assert told.memory(ref)["facts"] == wanted
    assert told.memory(successor)["facts"] == []


def test_a_memory_that_was_filed_anew_keeps_its_facts(told: Chained) -> None:
    ref, wanted = with_facts(told)
    told.write("revise", {"id": ref, "disposition": "move", "fields": {"topic": "elsewhere"}})
    assert told.memory(ref)["facts"] == wanted


def test_a_purged_memory_has_no_facts_and_its_chain_keeps_their_ids(told: Chained) -> None:
    ref, wanted = with_facts(told)
    told.purge(ref)
    (memory,) = told.got(ref)["memories"]
    assert memory["status"] == "purged" and "facts" not in memory
    assert [fact["id"] for fact in memory["provenance"]["facts"]["items"]] == [fact["id"] for fact in wanted][::-1]


def test_a_fact_that_was_accepted_later_was_not_known_before(told: Chained) -> None:
    ref, wanted = with_facts(told)
    accepted_ms = told.now_ms
    for at_ms, known in ((accepted_ms - 1, wanted[:2]), (accepted_ms, wanted)):
        (memory,) = told.read("get", {"ids": [ref], "as_known_at": format_ms(at_ms)})["memories"]
        assert memory["facts"] == known


def test_a_damaged_fact_is_a_damaged_memory_and_a_finding_at_its_own_record(told: Chained) -> None:
    ref, _ = with_facts(told)
    seq = told.store.log.head().seq - 1  # of the last fact; then the store was opened
    env = told.store.env
    with env.write() as txn:
        value = bytearray(txn.get(seq_key(seq), db=env.db("records")) or b"")
        value[HEAD_BYTES + 3] ^= 1
        txn.put(seq_key(seq), bytes(value), db=env.db("records"))
    memory = told.memory(ref)
    assert memory["damaged"] is True and memory["id"] == ref
    assert [finding.seq for finding in told.store.findings] == [seq]

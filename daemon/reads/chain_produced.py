"""The sections `proposals` and `facts` of a provenance chain. A proposal tells what it produced, a fact what produced
it, each as it was recorded when the proposal was accepted; neither is found by looking for the other. But where the one
names the other, and the other's index hasn't got it, that index has lost something: its section can't be told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

from daemon import limits
from daemon.reads.chain_tracing import Tracing, proposal_ref
from daemon.wire import chain_results as c
from daemon.wire.times import format_ms
from journal.codes import EdgeType, ProposalAction, ProposalKind, ProposalStatus
from journal.errors import DamagedRecord
from journal.events import FactAdded, FactHead
from journal.tsid import format_tsid, memory_ref
from projections import proposals, revisions, tables
from projections.rows import DamagedRow
from projections.state import KEY64_64


def proposals_told(tracing: Tracing) -> c.ChainProposals:
    """Applied ones that name the memory at either end, newest first. Raises DamagedRow."""
    most = limits.CHAIN_PROPOSALS
    with tracing.reading.snapshot.cursor(tables.PROPOSALS_OF) as cursor:
        named = proposals.newest_naming(cursor, tracing.tsid, ProposalStatus.APPLIED)
        told = (_proposal(tracing, proposal) for proposal in named)
        found = list(islice((each for each in told if each is not None), most + 1))
    _check_proposals(tracing)
    return c.ChainProposals(items=found[:most], truncated=len(found) > most)


def _check_proposals(tracing: Tracing) -> None:
    """Raises DamagedRow when one that a fact of the memory came of is not among those that name the memory."""
    heads: list[FactHead] = []
    with suppress(DamagedRecord, DamagedRow):  # what is wrong with the facts, their section tells
        heads += _added(tracing, _newest_added(tracing, limits.CHAIN_FACTS))
    for head in heads:
        row = tracing.proposal(head.proposal) if head.proposal else None
        if row is not None and row.memory[1] == tracing.tsid:
            applied = int(ProposalStatus.APPLIED)
            tracing.require(tables.PROPOSALS_OF, proposals.OF_KEY.pack(tracing.tsid, applied, head.proposal))


def _check_facts(tracing: Tracing) -> None:
    """Raises DamagedRow when one that a proposal produced is not among those that the memory got."""
    rows: list[proposals.ProposalRow | None] = []
    with suppress(DamagedRow), tracing.reading.snapshot.cursor(tables.PROPOSALS_OF) as cursor:
        named = proposals.newest_naming(cursor, tracing.tsid, ProposalStatus.APPLIED)
        rows += [tracing.proposal(proposal) for proposal in islice(named, limits.CHAIN_PROPOSALS)]
    for row in rows:
        for fact in () if row is None or row.memory[1] != tracing.tsid else row.facts:
            tracing.require(tables.FACTS_ADDED, KEY64_64.pack(tracing.tsid, fact))


def _proposal(tracing: Tracing, proposal: int) -> c.ChainProposal | None:
    """None for one that leads out of the tenant."""
    row = tracing.proposal(proposal)
    if row is None:
        return None
    other = row.other if row.memory[1] == tracing.tsid else row.memory
    if other is not None and tracing.memory(other[1]) is None:
        return None
    return c.ChainProposal(
        id=proposal_ref(proposal),
        kind=ProposalKind(row.kind).wire,
        edge_type=EdgeType(row.edge_type).wire if row.edge_type else None,
        action=ProposalAction(row.action).wire if row.action else None,
        other_memory=None if other is None else memory_ref(*other),
        created_at=format_ms(row.made_at),
        decided_at=format_ms(row.decided_at),
        produced=[
            *(f"edge:{format_tsid(edge)}" for edge in row.edges),
            *(f"fact:{format_tsid(fact)}" for fact in row.facts),
            *(f"record:{seq}" for seq in row.seqs),
        ],
    )


def facts_told(tracing: Tracing) -> c.ChainFacts:
    """Those it was made with and those accepted later, newest first. Raises DamagedRecord, DamagedRow."""
    most = limits.CHAIN_FACTS
    added = _newest_added(tracing, most + 1)
    _check_facts(tracing)
    heads = list(_added(tracing, added[:most]))
    if len(added) <= most:
        heads += tracing.genesis(tracing.row)[1].facts
    heads.sort(key=lambda head: head.id, reverse=True)
    return c.ChainFacts(
        items=[_fact(tracing, head) for head in heads[:most]], truncated=len(heads) > most or len(added) > most
    )


def _newest_added(tracing: Tracing, most: int) -> list[int]:
    """The records of the facts that the memory got later. Raises DamagedRow."""
    with tracing.reading.snapshot.cursor(tables.FACTS_ADDED) as cursor:
        return list(islice(revisions.newest_facts(cursor, tracing.tsid), most))


def _added(tracing: Tracing, seqs: list[int]) -> Iterator[FactHead]:
    for seq in seqs:
        record = tracing.record(seq)
        if record is None:
            continue
        event = record.event
        if not isinstance(event, FactAdded) or event.memory[1] != tracing.tsid:
            raise DamagedRecord(seq, "event")
        yield event.fact


def _fact(tracing: Tracing, head: FactHead) -> c.ChainFact:
    return c.ChainFact(
        id=f"fact:{format_tsid(head.id)}",
        valid_from=None if head.valid_from is None else format_ms(head.valid_from),
        valid_to=None if head.valid_to is None else format_ms(head.valid_to),
        source_proposal=tracing.proposal_ref(head.proposal),
    )

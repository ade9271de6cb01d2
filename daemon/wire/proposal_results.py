"""What the verbs of proposals answer."""

from __future__ import annotations

from collections.abc import Iterable

from daemon.wire.results import Result, WriteResult
from journal.tsid import format_tsid


def produced_refs(edges: Iterable[int], facts: Iterable[int], seqs: Iterable[int]) -> list[str]:
    """What came of a proposal, as references: edges, facts, records that marked a memory."""
    return [
        *(f"edge:{format_tsid(edge)}" for edge in edges),
        *(f"fact:{format_tsid(fact)}" for fact in facts),
        *(f"record:{seq}" for seq in seqs),
    ]


class ProposeResult(WriteResult, kw_only=True):
    """`existed`: one that says the same waits already; what was said with it first stands."""

    proposal: str
    existed: bool


class DecideResult(WriteResult, kw_only=True):
    """`decided` is applied or rejected."""

    decided: str
    produced: list[str]


class ProposedFact(Result, kw_only=True):
    """A fact that is proposed, with its words. It gets an id when it is accepted."""

    subject: str
    predicate: str
    value: str
    confidence: float | None
    valid_from: str | None
    valid_to: str | None


class ProposalRow(Result, kw_only=True):
    """`fact` and `note` are null when there is none, and when it can't be told: `unread` says why then."""

    proposal: str
    proposal_kind: str
    status: str
    memory: str
    other: str | None
    edge: str | None
    action: str | None
    fact: ProposedFact | None
    note: str | None
    unread: str | None
    cycle: str | None
    at: str
    decided_at: str | None
    produced: list[str]


class ProposalsResult(Result, kw_only=True):
    proposals: list[ProposalRow]
    next_cursor: str | None
    total: int

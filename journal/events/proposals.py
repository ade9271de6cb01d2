"""Events of proposals and cohorts."""

from __future__ import annotations

from journal.events.root import Change, Event, FactHead, Ref, SealedPart


class ProposalMade(Event, frozen=True, tag=48):
    """Words part: the rationale. Particulars part: a fact's words."""

    id: int
    kind: int
    memory: Ref
    other: Ref | None = None
    edge_type: int = 0
    action: int = 0
    fact: FactHead | None = None
    similarity: float | None = None
    cycle: int = 0
    parts: tuple[SealedPart, ...] = ()


class ProposalDecided(Event, frozen=True, tag=49):
    id: int
    accepted: bool
    edges: tuple[int, ...] = ()
    facts: tuple[int, ...] = ()
    seqs: tuple[int, ...] = ()
    parts: tuple[SealedPart, ...] = ()


class CohortMade(Event, frozen=True, tag=50):
    """`changes` are importances for demote; for quarantine and rederive they hold the same number twice."""

    id: int
    action: int
    changes: tuple[Change, ...]
    superseded: tuple[Ref, ...] = ()
    archived: tuple[Ref, ...] = ()
    not_rederivable: tuple[Ref, ...] = ()
    producers: tuple[int, ...] = ()
    origins: tuple[int, ...] = ()
    since: int | None = None
    until: int | None = None


class CohortLifted(Event, frozen=True, tag=51):
    """`reopened`: with the valid_to they get back. `settled`: turns, with promoted or not."""

    id: int
    changes: tuple[Change, ...]
    reopened: tuple[tuple[Ref, int | None], ...] = ()
    unarchived: tuple[Ref, ...] = ()
    settled: tuple[tuple[int, bool], ...] = ()

"""The provenance chain of one memory, as `get` with `include: ["provenance"]` gives it (contract §5).

Ids, enumerations, booleans, times and identity fields only; nothing inferred. A section that can't be read is
`unavailable` in `sections`, and empty.
"""

from __future__ import annotations

from daemon.wire.results import Result


class ChainRun(Result, kw_only=True):
    """The session that a memory was written in. `agent` is as its opener reported it."""

    agent: str
    opened_at: str


class ChainOrigin(Result, kw_only=True):
    """Of the memory's own native create event; all null for an imported one."""

    session: str | None = None
    actor_kind: str | None = None
    created_at: str | None = None
    run: ChainRun | None = None


class SourceProposal(Result, kw_only=True):
    kind: str
    id: str


class ChainVersion(Result, kw_only=True):
    """One edge of revision, and the memory at its other end."""

    id: str
    kind: str
    subtype: str | None
    topic: str | None
    project: str | None
    status: str
    valid_from: str | None
    valid_to: str | None
    created_at: str
    edge: str
    edge_type: str
    created_by: str
    edge_created_at: str
    depth: int
    source_proposal: SourceProposal | None
    created_by_session: str | None


class ChainSupersession(Result, kw_only=True):
    predecessors: list[ChainVersion]
    successors: list[ChainVersion]
    truncated: bool


class ChainEvent(Result, kw_only=True):
    """`id` is `record:SEQ`."""

    id: str
    event_kind: str
    actor_kind: str
    created_at: str
    session: str | None
    proposal: str | None


class ChainEvents(Result, kw_only=True):
    items: list[ChainEvent]
    truncated: bool


class ChainProposal(Result, kw_only=True):
    """An applied proposal. `produced`: edges, facts, and records that marked a memory (`record:SEQ`)."""

    id: str
    kind: str
    edge_type: str | None
    action: str | None
    other_memory: str | None
    created_at: str
    decided_at: str
    produced: list[str]


class ChainProposals(Result, kw_only=True):
    items: list[ChainProposal]
    truncated: bool


class ChainFact(Result, kw_only=True):
    id: str
    valid_from: str | None
    valid_to: str | None
    source_proposal: str | None


class ChainFacts(Result, kw_only=True):
    items: list[ChainFact]
    truncated: bool


class ChainSections(Result, kw_only=True):
    """Each is ok or unavailable."""

    origin: str
    supersession: str
    events: str
    proposals: str
    facts: str


class Chain(Result, kw_only=True):
    origin: ChainOrigin
    supersession: ChainSupersession
    events: ChainEvents
    proposals: ChainProposals
    facts: ChainFacts
    sections: ChainSections

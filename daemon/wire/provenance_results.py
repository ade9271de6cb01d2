"""What `explain` and `session_provenance` answer, and the passes of a `session`."""

from __future__ import annotations

import msgspec

from daemon.wire.results import Actor, Producer, Result


class SourceTold(Result, kw_only=True):
    """What a memory was made from, or is supported by. `state`: live, forgotten, pruned, purged, unavailable or
    not_found; `text` has at most 200 characters, and `cut` says that there are more. `quarantined`: a cohort holds it
    back, so what it says is in doubt."""

    ref: str
    state: str
    text: str | None
    cut: bool = False
    purged_at: str | None = None
    quarantined: bool = False


class ProvenanceRow(Result, kw_only=True):
    """A row of the provenance region. Of a client's note `pass` and the place in it are null."""

    id: str
    session: str | None
    state: str
    pass_: int | None = msgspec.field(name="pass")
    fact_index: int | None
    batch_count: int | None
    turn_count: int
    first_seq: int | None
    last_seq: int | None
    partition: str | None
    at: str
    source: str | None
    content_hash_hi: int


class ExplainResult(Result, kw_only=True):
    """`how`: written, consolidated, imported or seeded. `grounds` are what it stands on: its `sources` within the
    store, or, when it has none, those of the version before it. `row` is the first of `rows`."""

    id: str
    how: str
    at: str
    actor: Actor
    producer: Producer | None
    origin: str
    session: str | None
    turn: int | None
    sources: list[SourceTold]
    evidence: list[SourceTold]
    quoted_from: list[str]
    row: ProvenanceRow | None
    rows: list[ProvenanceRow]
    grounds: list[str]
    predecessor: str | None
    disposition: str | None
    source: SourceTold | None


class SessionProvenanceResult(Result, kw_only=True):
    """`client_notes`: how many notes clients made of it, told or not."""

    derived: list[ProvenanceRow]
    truncated: bool
    client_notes: int


class PassTold(Result, kw_only=True):
    """One pass of sleep over a session. `partial`: it has not ended."""

    pass_: int = msgspec.field(name="pass")
    facts: int
    turns: int
    at: str
    partial: bool

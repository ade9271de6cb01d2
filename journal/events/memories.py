"""Events of memories."""

from __future__ import annotations

import msgspec

from journal.events.root import Change, Event, External, FactHead, Ref, RegionRow, SealedPart


class MemoryCreated(Event, frozen=True, tag=16):
    """A memory with its whole lineage. The record it stands in is its genesis.

    Numbers: `slot` is the memory's store-wide ordinal (graph planes key on it), never reused. `session`
    and `turn` are numbers, 0 none. `producer` 0 none. `surprise` None: not measured. `hints` are
    (interest, challenge, urgency). `made_by_pass` is (pass, fact_index, batch_count). `imported` is
    (format, created_at ms or None); the foreign id is in the particulars. `key` is the keyed hash of
    the idempotency key; the digest of the request is in the particulars. `predecessor` and
    `disposition` (an EdgeType) are set by revise; `edge` is then that edge's id. `rows` are what the
    provenance region gets of it: one of a note made by a pass, one per semantic source of a procedure.
    """

    id: int
    slot: int
    kind: int
    subtype: int
    origin: int
    partition: int
    session: int = 0
    turn: int = 0
    role: int = 0
    producer: int = 0
    sources: tuple[Ref, ...] = ()
    evidence: tuple[Ref, ...] = ()
    externals: tuple[External, ...] = ()
    importance: float = 1.0
    importance_by: int = 0
    confidence: float = 0.8
    strength: float = 1.0
    valence: float = 0.0
    arousal: float = 0.0
    hints: tuple[float | None, float | None, float | None] | None = None
    surprise: float | None = None
    soul_version: int = 0
    pinned: bool = False
    protected: bool = False
    entities: tuple[int, ...] = ()
    facts: tuple[FactHead, ...] = ()
    quoted_from: tuple[int, ...] = ()
    made_by_pass: tuple[int, int, int] | None = None
    imported: tuple[str, int | None] | None = None
    occurred_at: int | None = None
    occurred_offset: int | None = None
    valid_from: int | None = None
    valid_to: int | None = None
    key: bytes | None = None
    notes: tuple[int, ...] = ()
    predecessor: Ref | None = None
    disposition: int = 0
    edge: int = 0
    proposal: int = 0
    modality: int = 0
    encoding: tuple[int, int, int] | None = None
    parts: tuple[SealedPart, ...] = ()
    distance: float | None = None
    self_scoped: bool = False
    rows: tuple[RegionRow, ...] = ()


class Forgotten(Event, frozen=True, tag=17):
    """Tombstone; strength 0. `flagged` are the direct children that were flagged by it."""

    memory: Ref
    strength: float
    flagged: tuple[Ref, ...] = ()
    cycle: int = 0
    parts: tuple[SealedPart, ...] = ()


class Recovered(Event, frozen=True, tag=18):
    """The tombstone (`mark` forgotten or pruned) is lifted. `cleared` are the flags that went with it."""

    memory: Ref
    mark: int
    old_strength: float
    new_strength: float
    cleared: tuple[Ref, ...] = ()
    cycle: int = 0
    parts: tuple[SealedPart, ...] = ()
    evidence: tuple[Ref, ...] = ()
    externals: tuple[External, ...] = ()


class PurgeTarget(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """One memory of a purge, with the counts that its receipt shows.

    The lists of what went along or survives are bounded, the counts of them at the end are complete.
    `is_fingerprinted`: its text is kept from coming again.
    """

    kind: int
    id: int
    keys_shredded: int = 0
    payload_bytes: int = 0
    text_bytes: int = 0
    text_retained_shared: int = 0
    text_shared_with: int = 0
    hebbian_edges_removed: int = 0
    temporal_unlinked: bool = False
    entity_links_removed: int = 0
    hyperedges_removed: int = 0
    quoting_purged: tuple[Ref, ...] = ()
    derived_surviving: tuple[Ref, ...] = ()
    sources_surviving: tuple[Ref, ...] = ()
    versions_surviving: tuple[Ref, ...] = ()
    quoting_purged_count: int = 0
    derived_surviving_count: int = 0
    sources_surviving_count: int = 0
    versions_surviving_count: int = 0
    is_fingerprinted: bool = False


class Purged(Event, frozen=True, tag=19):
    """PURGE: the memories and every sealed part whose key is destroyed by it.

    `parts` names what is destroyed (owner, part, slot, length, digest), wherever it lies. `sessions` are
    those whose key went too. `fingerprints` block a re-ingestion; `fingerprint_key` is what their key is made from
    (`journal/fingerprints.py`), and neither tells anything without the vault's key for hashes.
    `file_system` is what the disclosure names, `tenant_name` what the line in the purges file does. `directive` is the
    (store, epoch, seq) of a PURGE that was applied again after a restore; then `first_at` and `first_actor` (uid, role,
    via) say when and by whom it was done first, and `earlier` under which (epoch, seq) restores before told of it. Of
    a memory with more parts than a record names, the rest stand in
    records without targets that follow in the same command; so do those of a session that is purged without a memory.
    A record without targets may also only keep texts out.
    """

    targets: tuple[PurgeTarget, ...]
    parts: tuple[SealedPart, ...]
    reason: int = 0
    cascade: int = 0
    sessions: tuple[int, ...] = ()
    proposals: tuple[int, ...] = ()
    entities: tuple[int, ...] = ()
    fingerprint_key: bytes | None = None
    fingerprints: tuple[bytes, ...] = ()
    file_system: str | None = None
    directive: tuple[bytes, int, int] | None = None
    tenant_name: str = ""
    first_at: int = 0
    first_actor: tuple[int, int, int] | None = None
    earlier: tuple[tuple[int, int], ...] = ()


class Verified(Event, frozen=True, tag=20):
    """`cleared` are flags that this memory had set on others. `boost_cleared`: (source, child) of the flags of sources
    that came back above dormant by it."""

    memory: Ref
    old_confidence: float
    new_confidence: float
    old_strength: float
    new_strength: float
    verifications: int
    boosted: tuple[Change, ...] = ()
    evidence: tuple[Ref, ...] = ()
    externals: tuple[External, ...] = ()
    parts: tuple[SealedPart, ...] = ()
    cleared: tuple[Ref, ...] = ()
    boost_cleared: tuple[tuple[Ref, Ref], ...] = ()


class Reinforced(Event, frozen=True, tag=21):
    memory: Ref
    old_confidence: float
    new_confidence: float
    reinforcements: int
    evidence: tuple[Ref, ...] = ()
    externals: tuple[External, ...] = ()
    parts: tuple[SealedPart, ...] = ()


class Weakened(Event, frozen=True, tag=22):
    memory: Ref
    old_strength: float
    new_strength: float
    flagged: tuple[Ref, ...] = ()
    parts: tuple[SealedPart, ...] = ()
    evidence: tuple[Ref, ...] = ()
    externals: tuple[External, ...] = ()


class Reaffirmed(Event, frozen=True, tag=23):
    memory: Ref
    parts: tuple[SealedPart, ...] = ()
    session: int = 0
    evidence: tuple[Ref, ...] = ()
    externals: tuple[External, ...] = ()


class Marked(Event, frozen=True, tag=24):
    memory: Ref
    mark: int
    on: bool
    valid_to: int | None = None
    proposal: int = 0
    parts: tuple[SealedPart, ...] = ()
    session: int = 0
    cohort: int = 0


class Superseded(Event, frozen=True, tag=25):
    """The predecessor's half of a revision: closed at `valid_to` by `successor`."""

    predecessor: Ref
    successor: Ref
    edge_type: int
    edge: int
    valid_to: int
    proposal: int = 0
    session: int = 0
    cohort: int = 0


class Related(Event, frozen=True, tag=26):
    source: Ref
    target: Ref
    edge_type: int
    edge: int
    proposal: int = 0


class Moved(Event, frozen=True, tag=27):
    """Filed anew: the particulars part of this record replaces the memory's earlier one."""

    memory: Ref
    entities: tuple[int, ...] | None = None
    parts: tuple[SealedPart, ...] = ()
    session: int = 0


class Held(Event, frozen=True, tag=28):
    memories: tuple[Ref, ...]
    on: bool
    parts: tuple[SealedPart, ...] = ()


class FactAdded(Event, frozen=True, tag=29):
    """A fact that was accepted for a memory; its words are in the part particulars."""

    memory: Ref
    fact: FactHead
    parts: tuple[SealedPart, ...] = ()


class ResolvableChanged(Event, frozen=True, tag=30):
    """The external reference at `index` of the memory's `externals` can (or can't) be resolved now."""

    memory: Ref
    index: int
    resolvable: bool
    owner_seq: int = 0


class EmbedFailed(Event, frozen=True, tag=31):
    """No vector could be made for a memory; `error` is an enumeration's wire name."""

    memory: Ref
    model: str
    error: str

"""What a record can say: the closed union of events.

Each event is a frozen, array-like msgspec Struct with an integer tag that is never reused. Fields are
only ever added at the end, with a default; stored bytes never change. Decoding forbids unknown trailing
fields, because msgspec would otherwise drop them in silence.

An event holds outcomes, never recipes to be run again: every number, name and id stands in it, assigned
by `decide`. Ids are TSIDs as unsigned 64-bit integers; times are UTC milliseconds; a `Ref` is
`(kind code, TSID)`. What a caller wrote freely is never in an event: it is in the sealed parts that the
event's `parts` name. `ops/docs/formats.md` has the table of all events, generated from this file.

Tags: 1-15 store, tenants and names; 16-31 memories; 32-39 partitions; 40-47 passes; 48-55 proposals and
cohorts; 56-79 sleep and graph; 80-95 bookkeeping.
"""

from __future__ import annotations

from typing import Union

import msgspec

Ref = tuple[int, int]  # (kind code, TSID)


class SealedPart(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False
):
    """Where one sealed part lies and what its ciphertext must be.

    `owner_seq` is this record's own number, or the record whose part is shared. `slot` 0 means that
    there is no part any more (an imported frame of a purged one). `length` is that of the plaintext in
    bytes, `digest` the BLAKE2b-128 of nonce and ciphertext.
    """

    owner_seq: int
    part: int
    slot: int
    length: int
    digest: bytes


class External(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """An external source. Its id is content and stands in the particulars, in the same order."""

    use: int
    kind: int
    resolvable: bool


class FactHead(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """The open half of a fact; its words are in the particulars, in the same order."""

    id: int
    confidence: float | None = None
    valid_from: int | None = None
    valid_to: int | None = None
    proposal: int = 0


class Change(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """One number of one memory, before and after."""

    kind: int
    id: int
    old: float
    new: float


class Event(
    msgspec.Struct,
    frozen=True,
    array_like=True,
    forbid_unknown_fields=True,
    kw_only=True,
    gc=False,
):
    """The root of all events."""


# --- the store, tenants, names -------------------------------------------------------------------


class Opened(Event, frozen=True, tag=1):
    """The daemon opened the store. Housekeeping: no projection digest covers it."""

    boot_id: bytes
    version: str
    format: int
    epoch: int
    vault_nonce: bytes


class Restored(Event, frozen=True, tag=2):
    """The store was restored from a backup and continues under a new epoch."""

    boot_id: bytes
    version: str
    format: int
    epoch: int
    vault_nonce: bytes
    from_store: bytes
    from_epoch: int
    from_seq: int
    from_chain: bytes


class TenantBegan(Event, frozen=True, tag=3):
    """A tenant's first write. It begins INITIALIZING with enforcement on."""

    number: int
    name: str


class TenantChanged(Event, frozen=True, tag=4):
    """Lifecycle state or enforcement after the change; None is unchanged."""

    state: int | None = None
    enforce: bool | None = None


class ProducerNamed(Event, frozen=True, tag=5):
    """A producer stamp of the record's tenant, interned."""

    number: int
    agent: str | None
    model: str | None
    version: str | None
    extractor: str | None


class EntityNamed(Event, frozen=True, tag=6):
    """An entity of the record's tenant. Part name: msgpack [name, type]."""

    number: int
    parts: tuple[SealedPart, ...] = ()


class SessionOpened(Event, frozen=True, tag=7):
    """A session. Part name: the caller's key. Part particulars: project and subject, if given.

    Its activation is 1. `uid` is who opened it (for writes that name no session); `producer` 0 is none.
    """

    id: int
    number: int
    agent: str
    uid: int
    opened_at: int
    producer: int = 0
    parts: tuple[SealedPart, ...] = ()


class SessionReopened(Event, frozen=True, tag=8):
    """A closed or stale session lives again. `activation` is the new one."""

    number: int
    activation: int
    at: int
    cause: int


class SessionClosed(Event, frozen=True, tag=9):
    number: int
    at: int


class SessionTouched(Event, frozen=True, tag=10):
    """The lease of a live session was renewed without a write to it."""

    number: int
    at: int


# --- memories ------------------------------------------------------------------------------------


class MemoryCreated(Event, frozen=True, tag=16):
    """A memory with its whole lineage. The record it stands in is its genesis.

    Numbers: `slot` is the memory's store-wide ordinal (graph planes key on it), never reused. `session`
    and `turn` are numbers, 0 none. `producer` 0 none. `surprise` None: not measured. `hints` are
    (interest, challenge, urgency). `made_by_pass` is (pass, fact_index, batch_count). `imported` is
    (format, created_at ms or None); the foreign id is in the particulars. `key` is the keyed hash of
    the idempotency key; the digest of the request is in the particulars. `predecessor` and
    `disposition` (an EdgeType) are set by revise; `edge` is then that edge's id.
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


class PurgeTarget(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False
):
    """One memory of a purge, with the counts that its receipt shows."""

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


class Purged(Event, frozen=True, tag=19):
    """PURGE: the memories and every sealed part whose key is destroyed by it.

    `parts` names what is destroyed (owner, part, slot, length, digest), wherever it lies. `sessions` are
    those whose key went too. `fingerprint_key` and `fingerprints` block a re-ingestion.
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


class Verified(Event, frozen=True, tag=20):
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


class Reaffirmed(Event, frozen=True, tag=23):
    memory: Ref
    parts: tuple[SealedPart, ...] = ()


class Marked(Event, frozen=True, tag=24):
    memory: Ref
    mark: int
    on: bool
    valid_to: int | None = None
    proposal: int = 0
    parts: tuple[SealedPart, ...] = ()


class Superseded(Event, frozen=True, tag=25):
    """The predecessor's half of a revision: closed at `valid_to` by `successor`."""

    predecessor: Ref
    successor: Ref
    edge_type: int
    edge: int
    valid_to: int
    proposal: int = 0


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


# --- partitions ----------------------------------------------------------------------------------


class PartitionOpened(Event, frozen=True, tag=32):
    """`day` is the local date as days since 1970-01-01 in `zone`, None outside the episodic tier.
    `part` counts the partitions of one day from 0: a name is `<day>` or `<day>.<part>`."""

    number: int
    tier: int
    day: int | None = None
    part: int = 0
    zone: str | None = None


class PartitionChanged(Event, frozen=True, tag=33):
    number: int
    old: int
    new: int
    rows: int
    dead: int


class Vacuumed(Event, frozen=True, tag=34):
    """Live rows were relocated densely, in row order; dead rows left; ciphertexts of shredded keys went.

    `removed` are the sealed keys (owner seq, part) that were deleted.
    """

    partition: int
    before_count: int
    after_count: int
    tombstones_removed: int
    bytes_reclaimed: int
    forced: bool
    removed: tuple[tuple[int, int], ...] = ()


# --- passes --------------------------------------------------------------------------------------


class PassCommitted(Event, frozen=True, tag=40):
    """One commit of a pass: what it settled. `last` ends the pass. Its notes are MemoryCreated events of
    the same command."""

    session: int
    number: int
    promoted: tuple[int, ...]
    noise: tuple[int, ...]
    last: bool
    cycle: int = 0


class PassFailed(Event, frozen=True, tag=41):
    session: int
    attempt: int
    error: str
    parked: bool
    cycle: int = 0


class Unparked(Event, frozen=True, tag=42):
    session: int


class TurnsReopened(Event, frozen=True, tag=43):
    """Settled turns wait for a new pass again. `cohort` 0: because their session got new turns."""

    session: int
    turns: tuple[int, ...]
    cohort: int = 0


# --- proposals and cohorts -----------------------------------------------------------------------


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


class CohortLifted(Event, frozen=True, tag=51):
    id: int
    changes: tuple[Change, ...]


# --- sleep and graph -----------------------------------------------------------------------------


class SoulSet(Event, frozen=True, tag=56):
    """Particulars part: topics."""

    version: int
    interest: float
    challenge: float
    novelty: float
    urgency: float
    steepness: float
    parts: tuple[SealedPart, ...] = ()


class MeanMoved(Event, frozen=True, tag=57):
    """Relay 3's prior mean is content: part mean. `destroyed` is the one before. None: it restarts."""

    model: str
    count: int
    destroyed: tuple[SealedPart, ...] = ()
    cycle: int = 0
    parts: tuple[SealedPart, ...] = ()


class CycleStarted(Event, frozen=True, tag=58):
    """Arguments and constants are kept, so that a resumed cycle uses the same ones."""

    id: int
    boot_id: bytes
    process_start: int
    fence: int
    tenants: tuple[int, ...]
    relays: tuple[int, ...]
    include_active: bool
    sessions: tuple[int, ...]
    constants: dict[str, float]


class CycleTaken(Event, frozen=True, tag=59):
    id: int
    boot_id: bytes
    process_start: int
    fence: int


class RelayEnded(Event, frozen=True, tag=60):
    """`outcome`: did_work, nothing_to_do, skipped:REASON, failed:CLASS."""

    cycle: int
    relay: int
    outcome: str
    took_ms: int
    counters: dict[str, float]


class CycleCheckpointed(Event, frozen=True, tag=61):
    """REFLECT: one tenant's cycle is finished. `report` is the msgpack of its report, ids and numbers only."""

    cycle: int
    local_date: int | None
    report: bytes
    head_seq: int
    head_chain: bytes
    digests: dict[str, bytes]


class CycleEnded(Event, frozen=True, tag=62):
    """A cycle ended without (all) its checkpoints; `reason` is an enumeration's wire name."""

    cycle: int
    reason: str


class CycleReverted(Event, frozen=True, tag=63):
    cycle: int
    restored: tuple[Change, ...] = ()
    not_restorable: tuple[Ref, ...] = ()


class BulkChanged(Event, frozen=True, tag=64):
    """A versioned, elementwise float32 recipe over folded state, with its parameters."""

    recipe: int
    recipe_version: int
    parameters: tuple[float, ...]
    cycle: int = 0


class Recalled(Event, frozen=True, tag=65):
    """New recall counts: (TSID, count)."""

    counts: tuple[tuple[int, int], ...]


class Pruned(Event, frozen=True, tag=66):
    memories: tuple[Ref, ...]
    cycle: int


class Rescored(Event, frozen=True, tag=67):
    """Importances moved by sleep. `cause` is the relay; `soul_version` 0 leaves the stamp."""

    cause: int
    changes: tuple[Change, ...]
    soul_version: int = 0
    cycle: int = 0


class Unlinked(Event, frozen=True, tag=68):
    """Nodes taken out of the temporal chain (relay 6)."""

    memories: tuple[int, ...]
    cycle: int


class Interfered(Event, frozen=True, tag=69):
    """A pair of near-duplicates was handled, once for ever: (older, newer)."""

    pairs: tuple[tuple[int, int], ...]
    cycle: int


class EntityMerged(Event, frozen=True, tag=70):
    winner: int
    loser: int
    on: bool
    cycle: int = 0


class HyperedgePut(Event, frozen=True, tag=71):
    """Upsert by (type, sorted members). Members are (entity number, role)."""

    id: int
    edge_type: int
    members: tuple[tuple[int, int], ...]
    weight: float
    memories: tuple[int, ...] = ()
    cycle: int = 0


class Linked(Event, frozen=True, tag=72):
    """Hebbian co-occurrence beyond what turns themselves say: (slot, slot, weight added)."""

    pairs: tuple[tuple[int, int, float], ...]


# --- bookkeeping ---------------------------------------------------------------------------------


class Keyed(Event, frozen=True, tag=80):
    """The idempotency key of a command that owns no memory, and its result without content (msgpack).

    Part request: the digest of the request. `memories` are those a purge of which turns the answer into
    `purged`.
    """

    key: bytes
    result: bytes
    memories: tuple[int, ...] = ()
    parts: tuple[SealedPart, ...] = ()


class OperatorCrossed(Event, frozen=True, tag=81):
    """An operator read or changed a tenant other than its own: `verb` on the record's tenant."""

    verb: str


class Upgraded(Event, frozen=True, tag=82):
    old_format: int
    new_format: int


AnyEvent = Union[
    Opened,
    Restored,
    TenantBegan,
    TenantChanged,
    ProducerNamed,
    EntityNamed,
    SessionOpened,
    SessionReopened,
    SessionClosed,
    SessionTouched,
    MemoryCreated,
    Forgotten,
    Recovered,
    Purged,
    Verified,
    Reinforced,
    Weakened,
    Reaffirmed,
    Marked,
    Superseded,
    Related,
    Moved,
    Held,
    FactAdded,
    ResolvableChanged,
    PartitionOpened,
    PartitionChanged,
    Vacuumed,
    PassCommitted,
    PassFailed,
    Unparked,
    TurnsReopened,
    ProposalMade,
    ProposalDecided,
    CohortMade,
    CohortLifted,
    SoulSet,
    MeanMoved,
    CycleStarted,
    CycleTaken,
    RelayEnded,
    CycleCheckpointed,
    CycleEnded,
    CycleReverted,
    BulkChanged,
    Recalled,
    Pruned,
    Rescored,
    Unlinked,
    Interfered,
    EntityMerged,
    HyperedgePut,
    Linked,
    Keyed,
    OperatorCrossed,
    Upgraded,
]

HOUSEKEEPING: tuple[type, ...] = (Opened, Restored, Upgraded)
"""Events that no logical digest covers."""

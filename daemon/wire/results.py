"""What each verb answers (contract PROTOCOL §5, §6; ANSWERS §7). Open: a client ignores what it doesn't
know.

Times are RFC 3339, UTC, 3 digits and `Z`. A field that the contract lists is always there, null if there
is nothing to say; `UNSET` fields are there only when they apply.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType


class Result(msgspec.Struct, kw_only=True):
    """The root of all answers."""


class WriteResult(Result, kw_only=True):
    """`duplicate` and `state` are for a request that was done before (PROTOCOL §4)."""

    duplicate: bool | UnsetType = UNSET
    state: str | UnsetType = UNSET


class Address(Result, kw_only=True):
    epoch: int
    seq: int


class Producer(Result, kw_only=True):
    agent: str | None
    model: str | None
    version: str | None
    extractor: str | None


class Actor(Result, kw_only=True):
    uid: int
    role: str
    via: str


class Confidence(Result, kw_only=True):
    stored: float
    effective: float


class Entity(Result, kw_only=True):
    name: str
    type: str


class External(Result, kw_only=True):
    kind: str
    id: str
    resolvable: bool


class Fact(Result, kw_only=True):
    id: str
    subject: str
    predicate: str
    value: str
    confidence: float | None
    valid_from: str | None
    valid_to: str | None
    source_proposal: str | None


class Imported(Result, kw_only=True):
    format: str
    foreign_id: str | None
    created_at: str | None


class Memory(Result, kw_only=True):
    """A memory in full."""

    id: str
    kind: str
    subtype: str | None
    text: str | None
    status: str
    marks: list[str]
    origin: str
    assertable: bool
    hedge: str | None
    role: str | None
    speaker: str | None
    session: str | None
    turn: int | None
    producer: Producer
    actor: Actor
    address: Address
    at: str
    occurred_at: str | None
    occurred_offset: str | None
    valid_from: str | None
    valid_to: str | None
    verified_at: str | None
    verifications: int
    topic: str | None
    tags: list[str]
    entities: list[Entity]
    subject: str | None
    project: str | None
    source_entity: str | None
    importance: float
    strength: float
    confidence: Confidence
    valence: float
    arousal: float
    predecessor: str | None
    superseded_by: str | None
    derived_from: list[str | External]
    evidence: list[str | External]
    processed_into: list[str]
    grounded: bool
    facts: list[Fact]
    metadata: msgspec.Raw | None
    partition: str
    soul_version: int
    source: External | UnsetType = UNSET
    imported: Imported | UnsetType = UNSET
    provenance: Any = UNSET  # a Chain


class CompactMemory(Result, kw_only=True):
    """A memory in a list. `text` has at most 200 characters; `cut` says that there are more."""

    id: str
    kind: str
    subtype: str | None
    status: str
    at: str
    session: str | None
    turn: int | None
    topic: str | None
    text: str | None
    cut: bool = False


class PurgedMemory(Result, kw_only=True):
    """What is left of a purged memory. `purged_at` null: its key was destroyed, and no record says so."""

    id: str
    kind: str
    status: str
    purged_at: str | None
    subtype: str | None
    origin: str
    at: str
    session: str | None
    turn: int | None
    actor: Actor
    address: Address
    derived_from: list[str]
    predecessor: str | None
    superseded_by: str | None
    provenance: Any = UNSET  # a Chain


class DamagedMemory(Result, kw_only=True):
    """A memory of which something at rest can't be read. `what` names it."""

    id: str
    kind: str
    status: str
    damaged: bool
    what: str
    at: str | None = None
    address: Address | None = None
    provenance: Any = UNSET  # a Chain


AnyMemory = Memory | PurgedMemory | DamagedMemory
AnyListed = CompactMemory | Memory | PurgedMemory | DamagedMemory


class RememberResult(Result, kw_only=True):
    id: str
    address: Address
    duplicate: bool
    session: str | None
    turn: int | None
    notes: list[str]
    state: str | UnsetType = UNSET


class ItemError(Result, kw_only=True):
    """The error of one item of a batch that isn't atomic."""

    code: int
    message: str
    data: dict[str, Any]


class RefusedItem(Result, kw_only=True):
    index: int
    error: ItemError


class RememberManyResult(WriteResult, kw_only=True):
    results: list[Any]  # of RememberResult | RefusedItem


class GetResult(Result, kw_only=True):
    memories: list[Any]  # of AnyMemory
    not_found: list[str]


class ListResult(Result, kw_only=True):
    memories: list[Any]  # of AnyListed
    next_cursor: str | None
    total: int


class ForgetResult(WriteResult, kw_only=True):
    """`state` is `purged`, and `tombstoned_at` null, when there is nothing left to be forgotten."""

    found: bool
    tombstoned_at: str | None
    flagged: list[str]


class OldNew(Result, kw_only=True):
    old: float
    new: float


class RecoverResult(WriteResult, kw_only=True):
    """Also that of reinforce, weaken and reaffirm."""

    strength: OldNew
    confidence: OldNew
    flags_set: list[str]
    flags_cleared: list[str]
    notes: list[str] | UnsetType = UNSET


class Boost(Result, kw_only=True):
    id: str
    old: float
    new: float


class VerifyResult(WriteResult, kw_only=True):
    confidence: OldNew
    strength: OldNew
    boosted: list[Boost]
    verified_at: str
    verifications: int
    flags_cleared: list[str]


class MarkResult(WriteResult, kw_only=True):
    marks: list[str]
    notes: list[str] | UnsetType = UNSET


class RelateResult(WriteResult, kw_only=True):
    edge: str


class ReviseResult(WriteResult, kw_only=True):
    """Of a `move` the id is that of the memory itself, and there is no predecessor."""

    id: str
    predecessor: str | None
    address: Address
    notes: list[str] | UnsetType = UNSET


class SessionOpenResult(WriteResult, kw_only=True):
    session: str
    activation: int
    created: bool
    reopened: bool
    opened_at: str


class SessionCloseResult(WriteResult, kw_only=True):
    closed_at: str
    already_closed: bool


class SessionListed(Result, kw_only=True):
    """One session. `state`: open, stale, closed or purged; `key` and the rest null when purged."""

    session: str
    agent: str
    key: str | None
    state: str
    activation: int
    turns: int
    opened_at: str
    last_at: str
    closed_at: str | None
    project: str | None
    subject: str | None
    producer: Producer | None


class SessionsResult(Result, kw_only=True):
    sessions: list[SessionListed]
    next_cursor: str | None
    total: int


class SleepEligibility(Result, kw_only=True):
    eligible: bool
    why_not: str | None
    unsettled: int
    promoted: int
    noise: int


class SessionResult(SessionListed, kw_only=True):
    """`memories` (its turns), `passes` and `derived` are there when they were asked for."""

    sleep: SleepEligibility
    memories: list[Any] | UnsetType = UNSET
    passes: list[Any] | UnsetType = UNSET
    derived: list[Any] | UnsetType = UNSET
    next_cursor: str | UnsetType | None = UNSET
    total: int | UnsetType = UNSET


class TraceNode(Result, kw_only=True, gc=False):
    ref: str
    kind: str
    status: str
    origin: str | None
    at: str | None
    depth: int
    confidence: float | None


class TraceEdge(Result, kw_only=True, gc=False):
    from_: str = msgspec.field(name="from")
    to: str
    type: str


class TraceResult(Result, kw_only=True):
    root: str
    nodes: list[TraceNode]
    edges: list[TraceEdge]
    truncated: bool


class LifecycleResult(WriteResult, kw_only=True):
    state: str
    enforce: bool


class HeadResult(Result, kw_only=True):
    store: str
    epoch: int
    seq: int
    chain: str
    at: str | None


class FindingOut(Result, kw_only=True):
    code: str
    seq: int | None
    what: str
    action: str


class HelloResult(Result, kw_only=True):
    version: str
    protocol: int
    store: str
    epoch: int
    tenant: str
    role: str
    state: str
    limits: dict[str, int]
    verbs: list[str]


class DescribeResult(Result, kw_only=True):
    params: dict[str, Any]
    result: dict[str, Any]


class RecoveryOut(Result, kw_only=True):
    clean: bool
    boot_changed: bool
    from_seq: int
    to_seq: int
    rebuilt: list[str]
    took_ms: int


class CyclesOut(Result, kw_only=True):
    last: str | None
    next: str | None


class UsageOut(Result, kw_only=True):
    records: int
    bytes: int
    max_bytes: int | None


class StatusResult(Result, kw_only=True):
    health: str
    findings: list[FindingOut]
    recovery: RecoveryOut
    head: HeadResult
    lag: int
    map_bytes: int | None
    disk_free_bytes: int | None
    oldest_reader_ms: int | None
    warmed: float
    cycle: CyclesOut
    partitions: dict[str, int]
    keys_ready: int | None
    tenant: str
    tenant_state: str
    enforce: bool
    usage: UsageOut | None
    read_only: bool
    socket: str | None

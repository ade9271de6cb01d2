"""The parameters of each verb (contract PROTOCOL §6). Closed: an unknown name is refused.

A field that may be left out is `UNSET` then, so that "not given" and "given" never look alike; the
digest of a request covers given ones only. Lengths and ranges are enforced while decoding; what msgspec
can't say (bytes of a text, of metadata, fewer ids with provenance) is in `request.py`.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from daemon import limits
from daemon.wire.vocabulary import (
    Agent,
    CohortActionWord,
    Correlation,
    Cursor,
    Depth,
    DirectionWord,
    DispositionWord,
    EntityTypeName,
    ExternalId,
    ExternalWord,
    FactValue,
    IdempotencyKey,
    Importance,
    KindWord,
    Limit,
    MarkWord,
    Name,
    NoteText,
    OriginWord,
    ProposableEdgeWord,
    ProposalActionWord,
    ProposalKindWord,
    ProposalStatusWord,
    Reference,
    RelationWord,
    ReviewWord,
    RoleWord,
    SessionKeyText,
    SessionPartWord,
    Stamp,
    StatusWord,
    Tag,
    TenantName,
    TenantStateWord,
    Text,
    Time,
    Token,
    Topic,
    Unit,
    Valence,
    ViaWord,
)


class Closed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The root of all that a caller sends."""


class ProducerIn(Closed, frozen=True, kw_only=True):
    """Who or what made the content, as the caller reports it. None and absent are the same."""

    agent: Stamp | None = None
    model: Stamp | None = None
    version: Stamp | None = None
    extractor: Stamp | None = None


class EntityIn(Closed, frozen=True, kw_only=True):
    name: Name
    type: EntityTypeName


class ExternalIn(Closed, frozen=True, kw_only=True):
    """A source outside the store. `resolvable` says that `id` can be followed to its content."""

    kind: ExternalWord
    id: ExternalId
    resolvable: bool | UnsetType = UNSET


class SessionKeyIn(Closed, frozen=True, kw_only=True):
    """A session by its natural key; it is opened if there is none."""

    agent: Agent
    key: SessionKeyText


class FactIn(Closed, frozen=True, kw_only=True):
    subject: Name
    predicate: Name
    value: FactValue
    confidence: Unit | UnsetType = UNSET
    valid_from: Time | UnsetType = UNSET
    valid_to: Time | UnsetType = UNSET


class VectorIn(Closed, frozen=True, kw_only=True):
    model: Stamp
    values: Annotated[list[float], Meta(min_length=1, max_length=limits.VECTOR_VALUES)]


class ImportedIn(Closed, frozen=True, kw_only=True):
    """Where a memory came from that another program wrote first."""

    format: Annotated[str, Meta(pattern=r"^[a-z0-9._-]{1,64}\Z")]
    foreign_id: Name | UnsetType = UNSET
    created_at: Time | UnsetType = UNSET


SourceList = Annotated[list[Reference | ExternalIn], Meta(max_length=limits.REFERENCES)]
TagList = Annotated[list[Tag], Meta(max_length=limits.TAGS)]
EntityList = Annotated[list[EntityIn], Meta(max_length=limits.ENTITIES)]
FactList = Annotated[list[FactIn], Meta(max_length=limits.FACTS)]
TenantList = Annotated[list[TenantName], Meta(min_length=1, max_length=limits.TENANTS)]


class AnyParams(Closed, frozen=True, kw_only=True):
    """What every verb takes."""

    tenant: TenantName | UnsetType = UNSET
    correlation: Correlation | UnsetType = UNSET
    progress: bool | UnsetType = UNSET


class ReadParams(AnyParams, frozen=True, kw_only=True):
    tenants: TenantList | UnsetType = UNSET


class WriteParams(AnyParams, frozen=True, kw_only=True):
    idempotency_key: IdempotencyKey | UnsetType = UNSET


class RememberItem(Closed, frozen=True, kw_only=True):
    """A memory to be written. `metadata` is the JSON object as the caller wrote it, byte for byte."""

    kind: KindWord
    text: Text
    origin: OriginWord | UnsetType = UNSET
    subtype: Name | UnsetType = UNSET
    session: Reference | SessionKeyIn | UnsetType = UNSET
    role: RoleWord | UnsetType = UNSET
    speaker: Name | UnsetType = UNSET
    derived_from: SourceList | UnsetType = UNSET
    evidence: SourceList | UnsetType = UNSET
    topic: Topic | UnsetType = UNSET
    tags: TagList | UnsetType = UNSET
    entities: EntityList | UnsetType = UNSET
    importance: Importance | UnsetType = UNSET
    valence: Valence | UnsetType = UNSET
    arousal: Unit | UnsetType = UNSET
    interest: Unit | UnsetType = UNSET
    challenge: Unit | UnsetType = UNSET
    urgency: Unit | UnsetType = UNSET
    confidence: Unit | UnsetType = UNSET
    protected: bool | UnsetType = UNSET
    vector: VectorIn | UnsetType = UNSET
    producer: ProducerIn | UnsetType = UNSET
    subject: Name | UnsetType = UNSET
    project: Name | UnsetType = UNSET
    source_entity: Name | UnsetType = UNSET
    source: ExternalIn | UnsetType = UNSET
    facts: FactList | UnsetType = UNSET
    valid_from: Time | UnsetType = UNSET
    valid_to: Time | UnsetType = UNSET
    occurred_at: Time | UnsetType = UNSET
    metadata: msgspec.Raw | UnsetType = UNSET
    imported: ImportedIn | UnsetType = UNSET
    idempotency_key: IdempotencyKey | UnsetType = UNSET


class RememberParams(RememberItem, frozen=True, kw_only=True):
    tenant: TenantName | UnsetType = UNSET
    correlation: Correlation | UnsetType = UNSET
    progress: bool | UnsetType = UNSET


class RememberManyParams(WriteParams, frozen=True, kw_only=True):
    items: Annotated[list[RememberItem], Meta(min_length=1, max_length=limits.BATCH)]
    atomic: bool = True


class GetParams(ReadParams, frozen=True, kw_only=True):
    ids: Annotated[list[Reference], Meta(min_length=1, max_length=limits.IDS_PER_GET)]
    include: list[Literal["provenance"]] | UnsetType = UNSET
    as_of: Time | UnsetType = UNSET
    as_known_at: Time | UnsetType = UNSET


class ProducerMatch(Closed, frozen=True, kw_only=True):
    """A producer to be matched: a field that is None means memories without that stamp."""

    agent: Stamp | UnsetType | None = UNSET
    model: Stamp | UnsetType | None = UNSET
    version: Stamp | UnsetType | None = UNSET
    extractor: Stamp | UnsetType | None = UNSET


class Selection(Closed, frozen=True, kw_only=True):
    """Which memories, all conditions at once. `text` is a case-folded substring."""

    ids: Annotated[list[Reference], Meta(min_length=1, max_length=limits.IDS_PER_SELECTION)] | UnsetType = UNSET
    session: Reference | UnsetType = UNSET
    subject: Name | UnsetType = UNSET
    entity: Name | UnsetType = UNSET
    text: NoteText | UnsetType = UNSET
    producer: ProducerMatch | UnsetType = UNSET
    origins: Annotated[list[OriginWord], Meta(min_length=1)] | UnsetType = UNSET
    kinds: Annotated[list[KindWord], Meta(min_length=1)] | UnsetType = UNSET
    status: Annotated[list[StatusWord], Meta(min_length=1)] | UnsetType = UNSET
    tags: Annotated[list[Tag], Meta(min_length=1, max_length=limits.TAGS)] | UnsetType = UNSET
    project: Name | UnsetType = UNSET
    since: Time | UnsetType = UNSET
    until: Time | UnsetType = UNSET


class PagedParams(ReadParams, frozen=True, kw_only=True):
    limit: Limit = limits.LIST_DEFAULT
    cursor: Cursor | UnsetType = UNSET


class ListParams(PagedParams, frozen=True, kw_only=True):
    sel: Selection | UnsetType = UNSET
    full: bool = False
    as_of: Time | UnsetType = UNSET
    as_known_at: Time | UnsetType = UNSET


class ForgetParams(WriteParams, frozen=True, kw_only=True):
    id: Reference
    note: NoteText | UnsetType = UNSET


class RecoverParams(WriteParams, frozen=True, kw_only=True):
    id: Reference
    evidence: SourceList | UnsetType = UNSET
    amount: Unit | UnsetType = UNSET
    note: NoteText | UnsetType = UNSET


class ReaffirmParams(RecoverParams, frozen=True, kw_only=True):
    """`session` is the one in which it was done."""

    session: Reference | UnsetType = UNSET


class ReviseFields(Closed, frozen=True, kw_only=True):
    """What a successor inherits, where it is to be another. None clears it."""

    subtype: Name | UnsetType = UNSET
    topic: Topic | UnsetType | None = UNSET
    tags: TagList | UnsetType = UNSET
    entities: EntityList | UnsetType = UNSET
    project: Name | UnsetType | None = UNSET
    subject: Name | UnsetType | None = UNSET
    evidence: SourceList | UnsetType = UNSET
    importance: Importance | UnsetType = UNSET
    protected: bool | UnsetType = UNSET


class ReviseParams(WriteParams, frozen=True, kw_only=True):
    """`move` files a memory anew: it takes fields only, and makes no successor. `session` is the one in which it was
    done."""

    id: Reference
    disposition: DispositionWord = "supersedes"
    text: Text | UnsetType = UNSET
    origin: OriginWord | UnsetType = UNSET
    fields: ReviseFields | UnsetType = UNSET
    session: Reference | UnsetType = UNSET
    producer: ProducerIn | UnsetType = UNSET


class RelateParams(WriteParams, frozen=True, kw_only=True):
    from_: Reference = msgspec.field(name="from")
    to: Reference
    type: RelationWord


class VerifyParams(WriteParams, frozen=True, kw_only=True):
    id: Reference
    evidence: SourceList | UnsetType = UNSET
    note: NoteText | UnsetType = UNSET


class MarkParams(WriteParams, frozen=True, kw_only=True):
    id: Reference
    mark: MarkWord
    on: bool = True
    note: NoteText | UnsetType = UNSET
    session: Reference | UnsetType = UNSET


class ProposeParams(WriteParams, frozen=True, kw_only=True):
    """`edge` runs from `memory` to `other`. For `action` supersede, `other` is what takes the place of `memory`."""

    proposal_kind: ProposalKindWord
    memory: Reference
    other: Reference | UnsetType = UNSET
    edge: ProposableEdgeWord | UnsetType = UNSET
    fact: FactIn | UnsetType = UNSET
    action: ProposalActionWord | UnsetType = UNSET
    note: NoteText | UnsetType = UNSET


class DecideParams(WriteParams, frozen=True, kw_only=True):
    proposal: Reference
    accept: bool


class ProposalsParams(PagedParams, frozen=True, kw_only=True):
    status: ProposalStatusWord | UnsetType = UNSET
    proposal_kind: ProposalKindWord | UnsetType = UNSET


class CohortParams(WriteParams, frozen=True, kw_only=True):
    """`with` is the second selection of a comparison. `downstream`: what derives from them is touched too."""

    sel: Selection
    action: CohortActionWord
    with_: Selection | UnsetType = msgspec.field(name="with", default=UNSET)
    downstream: bool = False
    token: Token | UnsetType = UNSET


class CohortsParams(PagedParams, frozen=True, kw_only=True):
    pass


class LiftParams(WriteParams, frozen=True, kw_only=True):
    cohort: Reference


class ExplainParams(ReadParams, frozen=True, kw_only=True):
    id: Reference


class SessionProvenanceParams(ReadParams, frozen=True, kw_only=True):
    session: Reference
    include_clients: bool = False


class ReviewParams(PagedParams, frozen=True, kw_only=True):
    what: Annotated[list[ReviewWord], Meta(min_length=1)] | UnsetType = UNSET
    threshold: Unit = 0.6


class SessionOpenParams(WriteParams, frozen=True, kw_only=True):
    agent: Agent
    key: SessionKeyText
    project: Name | UnsetType = UNSET
    subject: Name | UnsetType = UNSET
    producer: ProducerIn | UnsetType = UNSET
    at: Time | UnsetType = UNSET


class SessionCloseParams(WriteParams, frozen=True, kw_only=True):
    session: Reference
    at: Time | UnsetType = UNSET


class SessionsParams(PagedParams, frozen=True, kw_only=True):
    agent: Agent | UnsetType = UNSET
    open: bool | UnsetType = UNSET


class SessionParams(PagedParams, frozen=True, kw_only=True):
    session: Reference
    include: list[SessionPartWord] | UnsetType = UNSET


class TraceParams(ReadParams, frozen=True, kw_only=True):
    id: Reference
    direction: DirectionWord = "sources"
    depth: Depth = limits.TRACE_DEPTH_DEFAULT


class LifecycleParams(WriteParams, frozen=True, kw_only=True):
    """Neither `state` nor `enforce` given: it is a question only."""

    state: TenantStateWord | UnsetType = UNSET
    enforce: bool | UnsetType = UNSET


class HelloParams(ReadParams, frozen=True, kw_only=True):
    via: ViaWord | UnsetType = UNSET


class DescribeParams(ReadParams, frozen=True, kw_only=True):
    verb: Name


class HeadParams(ReadParams, frozen=True, kw_only=True):
    pass


class StatusParams(ReadParams, frozen=True, kw_only=True):
    pass

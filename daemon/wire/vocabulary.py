"""The words and constrained values that requests are built of.

Each name is a type that msgspec enforces while it decodes. The words of a closed set are its wire names
in the order of its codes; a test holds them against `journal.codes`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from daemon import limits
from daemon.wire.forms import Form
from journal.events import EVENT_WORDS
from projections.tables import PROJECTIONS

KindWord = Literal["raw", "episode", "note", "belief", "value", "goal", "relationship", "drive", "procedure"]
OriginWord = Literal[
    "recorded",
    "stated",
    "experienced",
    "told",
    "observed",
    "derived",
    "consolidated",
    "inferred",
    "seeded",
]
RoleWord = Literal["user", "assistant", "tool", "system"]
StatusWord = Literal["purged", "quarantined", "forgotten", "pruned", "archived", "superseded", "active"]
ExternalWord = Literal["document", "tool", "conversation", "url", "context"]
ViaWord = Literal["client", "hook", "importer", "mcp"]
TenantStateWord = Literal["initializing", "active", "maintenance"]
DirectionWord = Literal["sources", "dependents"]
SessionPartWord = Literal["turns", "passes", "derived"]
DispositionWord = Literal["supersedes", "updates", "move"]
RelationWord = Literal["extends", "contradicts"]
MarkWord = Literal["protected", "archived", "resolved"]
ReviewWord = Literal["uncertain", "ungrounded", "orphans", "flags", "contradictions", "proposals", "parked"]
ProposalKindWord = Literal["edge", "fact", "resolution", "retention"]
ProposalStatusWord = Literal["proposed", "applied", "rejected"]
ProposalActionWord = Literal["resolve", "archive", "supersede"]
ProposableEdgeWord = Literal["supersedes", "updates", "extends", "contradicts"]
CohortActionWord = Literal["quarantine", "demote", "rederive", "compare"]
CascadeWord = Literal["none", "derived", "ungrounded", "versions"]
PurgeReasonWord = Literal["request", "privacy", "retention", "correction", "security"]
TierWord = Literal["episodic", "semantic", "procedural"]
ActorRoleWord = Literal["agent", "auditor", "operator", "daemon"]
LevelWord = Literal["skeleton", "sealed", "content"]
SubscribeLevelWord = Literal["skeleton", "content"]
BackupPartWord = Literal["journal", "vault"]
EVENT_NAMES: tuple[str, ...] = tuple(EVENT_WORDS.values())
EventWord = Literal[EVENT_NAMES]  # type: ignore[valid-type]
"""Every event there is, named as in frames."""
PROJECTION_NAMES: tuple[str, ...] = ("all", *PROJECTIONS)
ProjectionWord = Literal[PROJECTION_NAMES]  # type: ignore[valid-type]

PartitionName = Annotated[str, Meta(min_length=1, max_length=limits.REFERENCE)]
Pattern = Annotated[str, Meta(max_length=limits.REASON_AND_NOTE), Form.NOT_BLANK.meta]
"""What is looked for in the state directory."""
TENANT_PATTERN = r"^[a-z0-9._-]{1,64}\Z"
Time = Annotated[str, Meta(max_length=29), Form.TIME.meta]
TenantName = Annotated[str, Meta(pattern=TENANT_PATTERN)]
Correlation = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._:/@+-]+\Z", max_length=limits.CORRELATION)]
IdempotencyKey = Annotated[str, Meta(min_length=1, max_length=limits.IDEMPOTENCY_KEY_BYTES)]
Text = Annotated[str, Meta(max_length=limits.TEXT_BYTES), Form.NOT_BLANK.meta]
Name = Annotated[str, Meta(max_length=limits.NAME), Form.NOT_BLANK.meta]
Agent = Annotated[str, Form.AGENT.meta]
"""An agent's name stands open in records, so its characters are few."""
Stamp = Annotated[str, Form.STAMP.meta]
"""A producer's field stands open too, and names something."""
Topic = Annotated[str, Meta(max_length=limits.TOPIC), Form.NOT_BLANK.meta]
Tag = Annotated[str, Meta(max_length=limits.TAG), Form.NOT_BLANK.meta]
EntityTypeName = Annotated[str, Meta(max_length=limits.ENTITY_TYPE), Form.NOT_BLANK.meta]
SessionKeyText = Annotated[str, Meta(max_length=limits.KEY), Form.NOT_BLANK.meta]
NoteText = Annotated[str, Meta(max_length=limits.REASON_AND_NOTE), Form.NOT_BLANK.meta]
ExternalId = Annotated[str, Meta(max_length=limits.EXTERNAL_ID), Form.NOT_BLANK.meta]
FactValue = Annotated[str, Meta(max_length=limits.FACT_VALUE), Form.NOT_BLANK.meta]
Reference = Annotated[str, Meta(min_length=1, max_length=limits.REFERENCE)]
Token = Annotated[str, Meta(min_length=1, max_length=limits.CURSOR)]
Cursor = Annotated[str, Meta(min_length=1, max_length=limits.CURSOR)]
Limit = Annotated[int, Meta(ge=1, le=limits.LIST_MAX)]
Depth = Annotated[int, Meta(ge=1, le=limits.TRACE_DEPTH_MAX)]
RequestIdIn = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)] | Annotated[str, Meta(max_length=limits.REQUEST_ID)]
Uid = Annotated[int, Meta(ge=0, le=(1 << 32) - 1)]
DirectoryPath = Annotated[str, Meta(min_length=1, max_length=limits.PATH), Form.NOT_BLANK.meta]
Seq = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Unit = Annotated[float, Meta(ge=0.0, le=1.0)]
Valence = Annotated[float, Meta(ge=-1.0, le=1.0)]
Importance = Annotated[float, Meta(ge=limits.IMPORTANCE_MIN, le=limits.IMPORTANCE_MAX)]
Hex16 = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")]
ChainHex = Annotated[str, Meta(pattern=r"^([0-9a-f]{2}){16,32}\Z")]

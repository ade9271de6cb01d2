"""Closed sets and the numbers they have at rest.

Every enumeration that stands in a record or a row is here, once. A number is never reused and never
changes its meaning; a member is only ever added at the end. The wire name of a member is its `wire`
property (its name in lower case).
"""

from __future__ import annotations

from enum import IntEnum, unique
from functools import cached_property


class Code(IntEnum):
    """An integer code whose wire name is the member's name in lower case."""

    @cached_property
    def wire(self) -> str:
        return self.name.lower()

    @classmethod
    def from_wire(cls, name: str) -> Code:
        """The member called `name` on the wire. Raises KeyError for a name that is none."""
        return cls[name.upper()]


@unique
class Kind(Code):
    """What a memory is (contract §4.2)."""

    RAW = 0
    EPISODE = 1
    NOTE = 2
    BELIEF = 3
    VALUE = 4
    GOAL = 5
    RELATIONSHIP = 6
    DRIVE = 7
    PROCEDURE = 8


@unique
class Tier(Code):
    """The tiers of the provenance region; 0 is never used."""

    EPISODIC = 1
    SEMANTIC = 2
    PROCEDURAL = 3


@unique
class Origin(Code):
    """How a memory came to be. The order is the conflict rank: a smaller code wins."""

    RECORDED = 0
    STATED = 1
    EXPERIENCED = 2
    TOLD = 3
    OBSERVED = 4
    DERIVED = 5
    CONSOLIDATED = 6
    INFERRED = 7
    SEEDED = 8


@unique
class Role(Code):
    """Who spoke a turn. NONE is a memory that no role was given for."""

    NONE = 0
    USER = 1
    ASSISTANT = 2
    TOOL = 3
    SYSTEM = 4


@unique
class EdgeType(Code):
    """Edges between memories (contract §4.5)."""

    DERIVED_FROM = 1
    EVIDENCE = 2
    SUPERSEDES = 3
    UPDATES = 4
    EXTENDS = 5
    CONTRADICTS = 6


@unique
class ExternalKind(Code):
    """External sources. CONTEXT is an annotation, not a source: it never stands alone."""

    DOCUMENT = 0
    TOOL = 1
    CONVERSATION = 2
    URL = 3
    CONTEXT = 4


@unique
class ExternalUse(Code):
    """Which list of the creating request an external reference stood in."""

    DERIVED_FROM = 0
    EVIDENCE = 1
    SOURCE = 2


@unique
class CallerRole(Code):
    """The role part of an actor."""

    AGENT = 0
    AUDITOR = 1
    OPERATOR = 2
    DAEMON = 3


@unique
class Via(Code):
    """The way part of an actor. RELAY and DAEMON are set by code path only."""

    CLIENT = 0
    HOOK = 1
    IMPORTER = 2
    MCP = 3
    RELAY = 4
    DAEMON = 5


@unique
class Part(Code):
    """Sealed parts; the code is the part byte of a `sealed` key."""

    TEXT = 1
    PARTICULARS = 2
    VECTOR = 3
    WORDS = 4
    NAME = 5
    REQUEST = 6
    MEAN = 7


@unique
class TenantState(Code):
    INITIALIZING = 0
    ACTIVE = 1
    MAINTENANCE = 2


@unique
class PartitionState(Code):
    ACTIVE = 0
    SEALED = 1
    REFLECTABLE = 2
    TOMBSTONED = 3
    COMPACTED = 4


@unique
class Mark(Code):
    """The independent facts about a memory (contract §4.6), in the order of its list."""

    SUPERSEDED = 0
    ARCHIVED = 1
    PRUNED = 2
    FORGOTTEN = 3
    QUARANTINED = 4
    PURGED = 5
    PROTECTED = 6
    PINNED = 7
    HELD = 8
    RESOLVED = 9
    CONSOLIDATED = 10


@unique
class Status(Code):
    """What `status` shows: the first that applies."""

    PURGED = 0
    QUARANTINED = 1
    FORGOTTEN = 2
    PRUNED = 3
    ARCHIVED = 4
    SUPERSEDED = 5
    ACTIVE = 6


@unique
class ImportanceBy(Code):
    """Whose number the importance in a creating event is."""

    DEFAULT = 0
    CLIENT = 1
    SURPRISE = 2
    HINTS = 3
    FLASHBULB = 4
    CLUSTER = 5
    EXTRACTOR = 6


@unique
class Note(Code):
    """What the daemon wants the writer of a memory to know, answered as `notes`."""

    SESSION_CLOSED = 1
    SESSION_REVIVED = 2
    SESSION_ATTACHED = 3


@unique
class SessionCause(Code):
    """Why a session was reopened or touched."""

    OPEN = 0
    WRITE = 1


@unique
class PurgeReason(Code):
    REQUEST = 0
    PRIVACY = 1
    RETENTION = 2
    CORRECTION = 3
    SECURITY = 4


@unique
class Cascade(Code):
    NONE = 0
    DERIVED = 1
    UNGROUNDED = 2
    VERSIONS = 3


@unique
class ProposalKind(Code):
    EDGE = 0
    FACT = 1
    RESOLUTION = 2
    RETENTION = 3


@unique
class ProposalAction(Code):
    NONE = 0
    RESOLVE = 1
    ARCHIVE = 2
    SUPERSEDE = 3


@unique
class CohortAction(Code):
    QUARANTINE = 0
    DEMOTE = 1
    REDERIVE = 2


@unique
class ProposalStatus(Code):
    PROPOSED = 0
    APPLIED = 1
    REJECTED = 2


@unique
class Happening(Code):
    """What has happened to a memory, as its provenance chain tells it. CREATE and IMPORT are the record that it
    begins with; which of the other records gives which is said in one table (`projections/happenings.py`)."""

    CREATE = 0
    IMPORT = 1
    REVISE = 2
    SUPERSEDE = 3
    RESOLVE = 4
    UNRESOLVE = 5
    ARCHIVE = 6
    UNARCHIVE = 7
    EMBED_FAILED = 8
    REAFFIRM = 9
    VERIFY = 10
    REINFORCE = 11
    WEAKEN = 12
    FORGET = 13
    RECOVER = 14
    PRUNE = 15
    PURGE = 16
    PROTECT = 17
    UNPROTECT = 18
    RELATE = 19
    HOLD = 20
    RELEASE = 21
    QUARANTINE = 22
    DEMOTE = 23
    REDERIVE = 24
    LIFT = 25


@unique
class ReopenCause(Code):
    """Why settled turns wait for a pass again."""

    NEW_TURNS = 0
    COHORT = 1
    REVERT = 2


@unique
class Relay(Code):
    """The nine relays, in the order of a cycle."""

    SYNAPTIC_PRUNING = 1
    EPISODIC_LOG_CONSOLIDATION = 2
    SOUL_DRIFT_REFUSION = 3
    PROACTIVE_INTERFERENCE = 4
    HEBBIAN_HOMEOSTASIS = 5
    TEMPORAL_PRUNING = 6
    CROSS_LAYER_PROMOTION = 7
    ENTITY_MAINTENANCE = 8
    WAL_JOURNAL = 9


# Subtypes by kind, in the order of contract §4.2. The code is the place in the tuple plus one; 0 is "none".
SUBTYPES: dict[Kind, tuple[str, ...]] = {
    Kind.RAW: ("turn", "capture", "document"),
    Kind.EPISODE: ("success", "failure", "partial", "event"),
    Kind.NOTE: (
        "finding",
        "decision",
        "commitment",
        "blocker",
        "insight",
        "observation",
        "diagnostic",
        "quote",
        "reference",
    ),
    Kind.BELIEF: ("claim", "preference", "pattern", "rule", "principle", "hypothesis"),
    Kind.VALUE: (),
    Kind.GOAL: ("task", "aspiration", "commitment", "exploration"),
    Kind.RELATIONSHIP: (),
    Kind.DRIVE: (),
    Kind.PROCEDURE: (),
}


def subtype_code(kind: Kind, name: str | None) -> int:
    """The code of a subtype of `kind`; 0 for None. Raises KeyError when it does not fit."""
    if name is None:
        return 0
    try:
        return SUBTYPES[kind].index(name) + 1
    except ValueError:
        raise KeyError(name) from None


def subtype_name(kind: Kind, code: int) -> str | None:
    """The name behind a subtype code, None for 0. Raises IndexError for a code that is none."""
    return SUBTYPES[kind][code - 1] if code else None

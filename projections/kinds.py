"""The tables of kinds (contract §4.2) and origins (§4.3): what may derive from what, defaults, decay, consumers.

Every consumer of a kind or an origin reads it here; a kind or origin without a row fails at import.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from journal.codes import SUBTYPES, Kind, Mark, Origin, Role, Tier, subtype_code
from projections.rows import NO_TIME, SELF_SCOPED, Glance, MemoryRow


class KindRule(NamedTuple):
    """One row. `decay` is (rate per period, period in days, floor), None: never. `protected` from birth."""

    tier: Tier
    sources: frozenset[Kind]
    decay: tuple[float, int, float] | None
    confidence: float = 0.8
    protected: bool = False
    subtype: str | None = None


_STANDARD = (0.01, 30, 0.5)
KINDS: dict[Kind, KindRule] = {
    Kind.RAW: KindRule(Tier.EPISODIC, frozenset(), None, subtype="capture"),
    Kind.EPISODE: KindRule(Tier.EPISODIC, frozenset({Kind.RAW}), _STANDARD, subtype="event"),
    Kind.NOTE: KindRule(Tier.SEMANTIC, frozenset({Kind.RAW}), (0.015, 30, 0.4), subtype="observation"),
    Kind.BELIEF: KindRule(Tier.SEMANTIC, frozenset({Kind.EPISODE, Kind.NOTE}), _STANDARD, subtype="claim"),
    Kind.VALUE: KindRule(Tier.SEMANTIC, frozenset({Kind.BELIEF}), (0.005, 60, 0.7), confidence=0.9, protected=True),
    Kind.GOAL: KindRule(Tier.SEMANTIC, frozenset({Kind.EPISODE, Kind.BELIEF}), _STANDARD, subtype="task"),
    Kind.RELATIONSHIP: KindRule(Tier.SEMANTIC, frozenset({Kind.EPISODE}), _STANDARD),
    Kind.DRIVE: KindRule(Tier.SEMANTIC, frozenset({Kind.EPISODE, Kind.BELIEF}), (0.005, 60, 0.6), protected=True),
    Kind.PROCEDURE: KindRule(Tier.PROCEDURAL, frozenset({Kind.EPISODE, Kind.NOTE}), _STANDARD),
}

PROTECTED_GOALS = frozenset(subtype_code(Kind.GOAL, name) for name in ("aspiration", "commitment"))
TURN_SUBTYPE = subtype_code(Kind.RAW, "turn")
DOCUMENT_SUBTYPE = subtype_code(Kind.RAW, "document")
DEFAULT_SUBTYPE = {kind: subtype_code(kind, rule.subtype) for kind, rule in KINDS.items()}


class Assertable(Enum):
    """May it be told to a person?"""

    YES = "yes"
    AS_THEIRS = "as_theirs"
    WITH_SOURCE = "with_source"
    HEDGED = "hedged"
    AS_SOURCES = "as_sources"


class Sweep(Enum):
    """What a sweep over what a producer made (a cohort) can do about a memory besides listing it."""

    WITNESSED = "witnessed"  # came from the world itself: nothing else to go back to
    REPORTED = "reported"  # came from somebody: to be asked again
    CONCLUDED = "concluded"  # its maker can conclude anew
    SLEPT = "slept"  # a new pass over the same turns makes it again
    GIVEN = "given"  # was set up, and can be set up anew


class OriginRule(NamedTuple):
    """What each consumer of an origin needs. `rank`: the smaller one wins a conflict; equal ones don't."""

    assertable: Assertable
    hedge: str | None
    rank: int
    sweep: Sweep


ORIGINS: dict[Origin, OriginRule] = {
    Origin.RECORDED: OriginRule(Assertable.YES, None, 0, Sweep.WITNESSED),
    Origin.STATED: OriginRule(Assertable.AS_THEIRS, "you said", 1, Sweep.WITNESSED),
    Origin.EXPERIENCED: OriginRule(Assertable.YES, None, 2, Sweep.WITNESSED),
    Origin.TOLD: OriginRule(Assertable.WITH_SOURCE, "I was told", 3, Sweep.REPORTED),
    Origin.OBSERVED: OriginRule(Assertable.WITH_SOURCE, "according to", 4, Sweep.REPORTED),
    Origin.DERIVED: OriginRule(Assertable.HEDGED, "I conclude", 5, Sweep.CONCLUDED),
    Origin.CONSOLIDATED: OriginRule(Assertable.AS_SOURCES, "from our conversations", 6, Sweep.SLEPT),
    Origin.INFERRED: OriginRule(Assertable.HEDGED, "it seems", 7, Sweep.CONCLUDED),
    Origin.SEEDED: OriginRule(Assertable.HEDGED, "I was set up to", 8, Sweep.GIVEN),
}
"""All consumers of an origin read it here. What is `AS_SOURCES` is asserted, and ranks, as `weakest` of its sources."""


def weakest(origins: Iterable[Origin]) -> Origin:
    """The one of several origins that wins over the fewest; of none the weakest there is."""
    return max(origins, key=lambda origin: ORIGINS[origin].rank, default=Origin.SEEDED)


def may_assert(origin: Origin) -> bool:
    """Whether a memory of this origin may be told to a person without doubt being added."""
    return ORIGINS[origin].assertable not in (Assertable.HEDGED, Assertable.AS_SOURCES)


ROLE_ORIGIN: dict[Role, Origin] = {
    Role.USER: Origin.STATED,
    Role.ASSISTANT: Origin.EXPERIENCED,
    Role.TOOL: Origin.RECORDED,
}

assert set(KINDS) == set(Kind) == set(SUBTYPES) and set(ORIGINS) == set(Origin)


SELF = "self"
"""The subject of what the agent believes of itself."""
CONFIDENCE_DIGITS = 12
"""Decimal places of a confidence that decayed: one number, however it is worked out."""
_SCALE = 10.0**CONFIDENCE_DIGITS
_PROTECTED = 1 << Mark.PROTECTED


def is_self_scoped(kind: Kind, subject: str | None) -> bool:
    """A belief of the agent about itself: it decays as a value does (contract §4.2)."""
    return kind is Kind.BELIEF and subject == SELF


def stands_alone(kind: Kind, origin: Origin) -> bool:
    """Whether a memory needs nothing to stand on: its kind is a root, or it was there from the beginning."""
    return not KINDS[kind].sources or origin is Origin.SEEDED


DECAYING_AS = tuple((kind, Kind.VALUE if kind is Kind.BELIEF else kind) for kind in Kind)
"""By kind, the one whose row says how its memories decay: those that are not self-scoped, and those that are."""
_DECAYS = tuple(tuple(KINDS[kind].decay for kind in both) for both in DECAYING_AS)


def believed_since(row: MemoryRow | Glance) -> int:
    """When a memory was last verified, else written (UTC ms): its confidence decays from then on."""
    return row.at_ms if row.verified_at == NO_TIME else row.verified_at


def confidence_now(row: MemoryRow | Glance, now_ms: int) -> float:
    """Confidence after decay, linear in whole days, never below the floor and never upward."""
    stored = row.confidence
    days = (now_ms - believed_since(row)) // 86_400_000
    if days <= 0 or row.marks & _PROTECTED:
        return stored
    decay = _DECAYS[row.kind][row.traits & SELF_SCOPED != 0]
    if decay is None or stored <= decay[2]:
        return stored
    rate, period, floor = decay
    return round(max(floor, stored - rate * days / period) * _SCALE) / _SCALE  # as numpy rounds, to the last bit

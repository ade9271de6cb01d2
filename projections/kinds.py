"""The tables of kinds (contract §4.2) and origins (§4.3): what may derive from what, defaults, decay, consumers.

Every consumer of a kind or an origin reads it here; a kind or origin without a row fails at import.
"""

from __future__ import annotations

from typing import NamedTuple

from journal.codes import SUBTYPES, Kind, Origin, Role, Tier, subtype_code


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


class OriginRule(NamedTuple):
    """What each consumer of an origin needs: may it be asserted, and with which hedge."""

    assertable: str
    hedge: str | None


ORIGINS: dict[Origin, OriginRule] = {
    Origin.RECORDED: OriginRule("yes", None),
    Origin.STATED: OriginRule("as_theirs", "you said"),
    Origin.EXPERIENCED: OriginRule("yes", None),
    Origin.TOLD: OriginRule("with_source", "I was told"),
    Origin.OBSERVED: OriginRule("with_source", "according to"),
    Origin.DERIVED: OriginRule("hedged", "I conclude"),
    Origin.CONSOLIDATED: OriginRule("as_sources", "from our conversations"),
    Origin.INFERRED: OriginRule("hedged", "it seems"),
    Origin.SEEDED: OriginRule("hedged", "I was set up to"),
}

ROLE_ORIGIN: dict[Role, Origin] = {
    Role.USER: Origin.STATED,
    Role.ASSISTANT: Origin.EXPERIENCED,
    Role.TOOL: Origin.RECORDED,
}

assert set(KINDS) == set(Kind) == set(SUBTYPES) and set(ORIGINS) == set(Origin)


def effective_confidence(kind: Kind, stored: float, protected: bool, since_ms: int, now_ms: int) -> float:
    """Confidence after decay, linear in whole days, never below the floor and never upward."""
    decay = KINDS[kind].decay
    days = (now_ms - since_ms) // 86_400_000
    if decay is None or protected or days <= 0:
        return stored
    rate, period, floor = decay
    if stored <= floor:
        return stored
    return max(floor, stored - rate * days / period)

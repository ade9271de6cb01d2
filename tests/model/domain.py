"""What the reference knows of memories, sessions and tenants, and what follows from it. It calls no product code."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

LEASE_MS = 24 * 3_600_000
SOURCES: dict[str, frozenset[str]] = {
    "raw": frozenset(),
    "episode": frozenset({"raw"}),
    "note": frozenset({"raw"}),
    "belief": frozenset({"episode", "note"}),
    "value": frozenset({"belief"}),
    "goal": frozenset({"episode", "belief"}),
    "relationship": frozenset({"episode"}),
    "drive": frozenset({"episode", "belief"}),
    "procedure": frozenset({"episode", "note"}),
}
PROTECTED = frozenset({"value", "drive"})
CONFIDENCE = {"value": 0.9}
DECAY = {
    "episode": (0.01, 30, 0.5), "note": (0.015, 30, 0.4), "belief": (0.01, 30, 0.5), "value": (0.005, 60, 0.7),
    "goal": (0.01, 30, 0.5), "relationship": (0.01, 30, 0.5), "drive": (0.005, 60, 0.6), "procedure": (0.01, 30, 0.5),
}  # fmt: skip
MARKS = ("superseded", "archived", "forgotten", "protected", "resolved", "consolidated")
STATUSES = ("forgotten", "archived", "superseded")
DAY_MS = 86_400_000
DORMANT_BELOW = 0.2
ROLE_ORIGIN = {"user": "stated", "assistant": "experienced", "tool": "recorded"}


class Declined(Exception):
    """The command is refused for `reason`."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class Name(str):
    """What the reference calls a memory or a session."""


def ms_of(time: str) -> int:
    """What `when` said, in UTC ms."""
    return (datetime.fromisoformat(time) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def when(at_ms: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms)).isoformat(
        timespec="milliseconds"
    ).removesuffix("+00:00") + "Z"  # fmt: skip


@dataclass
class Memory:
    name: Name
    kind: str
    text: str
    origin: str
    role: str | None
    sources: list[Name]
    session: Name | None
    turn: int | None
    strength: float = 1.0
    forgotten_at: int | None = None
    flagged_by: set[Name] = field(default_factory=set)
    project: str | None = None
    producer: dict[str, str] = field(default_factory=dict)
    at: int = 0
    confidence: float = 0.8
    verified_at: int | None = None
    verifications: int = 0
    reinforcements: int = 0
    marked: set[str] = field(default_factory=set)
    evidence: list[Name] = field(default_factory=list)
    replaced: list[Name] = field(default_factory=list)
    revises: Name | None = None
    owners: list[Name] = field(default_factory=list)  # whose sources it stands on, when they are not its own
    quoted: list[Name] = field(default_factory=list)
    superseded_by: Name | None = None
    closed_as: str = ""
    valid_from: int | None = None
    valid_to: int | None = None
    facts: dict[Name, tuple[str, Name]] = field(default_factory=dict)

    @property
    def predecessor(self) -> Name | None:
        """The one that it was made to take the place of, else the first that it was given."""
        return self.replaced[0] if self.replaced else None

    def ends(self, at_ms: int) -> int:
        """When it stops to hold, if somebody says at `at_ms` that it does: one that had ended already ended then."""
        return at_ms if self.valid_to is None else min(self.valid_to, at_ms)

    @property
    def marks(self) -> list[str]:
        stands = {**dict.fromkeys(self.marked, True), "forgotten": self.forgotten_at is not None}
        stands["superseded"] = self.superseded_by is not None
        return [mark for mark in MARKS if stands.get(mark)]

    @property
    def status(self) -> str:
        return next((status for status in STATUSES if status in self.marks), "active")

    def effective(self, now_ms: int) -> float:
        rate, period, floor = DECAY.get(self.kind, (0.0, 1, 1.0))
        days = (now_ms - (self.at if self.verified_at is None else self.verified_at)) // DAY_MS
        if days <= 0 or "protected" in self.marked or self.confidence <= floor:
            return self.confidence
        return max(floor, self.confidence - rate * days / period)


@dataclass
class Row:
    """What a pass says of one of its notes. `turns`: their numbers; `count`: the facts of the pass up to its commit,
    once it has ended all of them."""

    note: Name
    number: int
    index: int
    count: int
    turns: list[int]
    at: int


@dataclass
class PassDone:
    """What the commits of a pass did so far."""

    turns: int = 0
    at: int = 0
    open: bool = False


@dataclass
class Session:
    name: Name
    agent: str
    key: str
    uid: int
    opened_at: int
    last_at: int
    closed_at: int | None = None
    activation: int = 1
    turns: list[Name] = field(default_factory=list)
    others: list[Name] = field(default_factory=list)
    defaults: dict[str, Any] = field(default_factory=dict)
    settled: dict[Name, tuple[bool, int]] = field(default_factory=dict)  # promoted, by which commit
    commits: int = 0
    open_pass: int = 0
    open_since: int = 0
    rows: list[Row] = field(default_factory=list)
    passes: dict[int, PassDone] = field(default_factory=dict)

    def state(self, now_ms: int) -> str:
        if self.closed_at is not None:
            return "closed"
        return "stale" if now_ms - self.last_at >= LEASE_MS else "open"

    def active(self, at_ms: int) -> None:
        self.last_at = max(self.last_at, at_ms)

    def revive(self, at_ms: int) -> None:
        self.activation += 1
        self.closed_at = None
        self.active(at_ms)


@dataclass
class Proposal:
    """`said`: kind; edge, action or the value of the fact; memory; the other or None. `fact` names the fact, if any."""

    name: Name
    said: tuple[str, str, Name, Any]
    fact: Name
    status: str = "proposed"
    produced: list[Name] = field(default_factory=list)


@dataclass
class Tenant:
    state: str = "initializing"
    enforce: bool = True
    memories: dict[Name, Memory] = field(default_factory=dict)
    sessions: dict[Name, Session] = field(default_factory=dict)
    keys: dict[str, tuple[str, Any, dict[str, Any]]] = field(default_factory=dict)
    relations: dict[tuple[str, Name, Name], Name] = field(default_factory=dict)
    proposals: dict[Name, Proposal] = field(default_factory=dict)


def refuse_in_maintenance(tenant: Tenant) -> None:
    if tenant.state == "maintenance":
        raise Declined("lifecycle")


def resolved_one(tenant: Tenant, ref: Name | int, earlier: list[Name]) -> Name:
    """A source by its name, or an item of the same batch by its place."""
    if isinstance(ref, int):
        if ref >= len(earlier):
            raise Declined("invalid_input")
        return earlier[ref]
    if ref not in tenant.memories:
        raise Declined("provenance")
    return ref


def children(tenant: Tenant, name: Name) -> list[Name]:
    """What names `name` as a source, in the order it was made."""
    return [memory.name for memory in tenant.memories.values() if name in memory.sources]


def flag_children(tenant: Tenant, name: Name) -> list[Name]:
    """Flag what was made of `name` and has no flag from it yet."""
    fresh = [child for child in children(tenant, name) if name not in tenant.memories[child].flagged_by]
    for child in fresh:
        tenant.memories[child].flagged_by.add(name)
    return fresh


def clear_children(tenant: Tenant, name: Name) -> list[Name]:
    """Lift the flags that `name` set."""
    flagged = [child for child in children(tenant, name) if name in tenant.memories[child].flagged_by]
    for child in flagged:
        tenant.memories[child].flagged_by.discard(name)
    return flagged


def resolved(tenant: Tenant, names: list[Name]) -> list[Name]:
    return list(dict.fromkeys(resolved_one(tenant, name, []) for name in names))


def support(tenant: Tenant, memory: Memory, args: dict[str, Any]) -> None:
    """Bring evidence."""
    found = resolved(tenant, args.get("evidence", []))
    if memory.name in found:
        raise Declined("provenance")
    memory.evidence += [name for name in found if name not in memory.evidence]


def first_version(tenant: Tenant, name: Name) -> Memory:
    memory = tenant.memories[name]
    while memory.revises is not None:
        memory = tenant.memories[memory.revises]
    return memory


def owners_of(tenant: Tenant, name: Name) -> list[Name]:
    """The memories whose sources it stands on."""
    return tenant.memories[name].owners or [name]


def inherit(tenant: Tenant, successor: Memory, predecessor: Memory) -> None:
    """What has no sources of its own stands where all those stood that it takes the place of."""
    if standing_on(tenant, predecessor.name) and not successor.sources:
        held = owners_of(tenant, successor.name) if standing_on(tenant, successor.name) else []
        successor.owners = list(dict.fromkeys([*held, *owners_of(tenant, predecessor.name)]))


def standing_on(tenant: Tenant, name: Name) -> list[Name]:
    """Its sources, or those of all whose place it took when it has none itself."""
    found = (source for owner in owners_of(tenant, name) for source in tenant.memories[owner].sources)
    return list(dict.fromkeys(found))


def grounded(tenant: Tenant, name: Name) -> bool:
    """Not when it has sources and each of them is forgotten, nor when it needs some and has none."""
    sources = standing_on(tenant, name)
    if not sources:
        return not is_orphan(tenant, name)
    return any(tenant.memories[source].forgotten_at is None for source in sources)


def is_orphan(tenant: Tenant, name: Name) -> bool:
    """It needs sources and has none; what was seeded, or revises what was, needs none."""
    first = first_version(tenant, name)
    return bool(SOURCES[first.kind]) and first.origin != "seeded" and not standing_on(tenant, name)


def review(tenant: Tenant, now_ms: int, threshold: float) -> dict[str, list[Any]]:
    """By word what is to be looked at: names, of flags `(memory, source)`, of contradictions sets of two."""
    living = [memory for memory in tenant.memories.values() if memory.forgotten_at is None]
    standing_ones = {memory.name for memory in living if memory.superseded_by is None}
    return {
        "uncertain": [m.name for m in living if m.status == "active" and round(m.effective(now_ms), 9) < threshold],
        "ungrounded": [
            m.name
            for m in living
            if m.superseded_by is None and standing_on(tenant, m.name) and not grounded(tenant, m.name)
        ],
        "orphans": [m.name for m in living if m.superseded_by is None and is_orphan(tenant, m.name)],
        "flags": [(m.name, source) for m in living for source in m.flagged_by],
        "contradictions": [
            {one, other}
            for kind, one, other in tenant.relations
            if kind == "contradicts" and {one, other} <= standing_ones
        ],
    }


def trace(tenant: Tenant, root: Name, direction: str) -> tuple[dict[Name, int], set[tuple[Name, Name]]]:
    """`(depth by name, (made, source) edges)` of the whole walk."""
    depths = {root: 0}
    edges: set[tuple[Name, Name]] = set()
    waiting = deque([root])
    while waiting:
        here = waiting.popleft()
        up = direction == "sources"
        memory = tenant.memories[here]
        behind = [] if memory.superseded_by is None else [memory.superseded_by]
        others = list(memory.sources) if up else children(tenant, here)
        for other in [*others, *(memory.replaced if up else behind)]:
            edges.add((here, other) if up else (other, here))
            if other not in depths:
                depths[other] = depths[here] + 1
                waiting.append(other)
    return depths, edges

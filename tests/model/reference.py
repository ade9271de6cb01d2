"""The domain rules once more, in memory and as plainly as they can be said. Nothing here calls the product.

The reference names memories `m1`, `m2`, … and sessions `s1`, `s2`, …; who compares maps these names to the
references that the daemon gave. A command either answers a dict or raises `Declined` with the reason's name,
and then nothing has changed.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable
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
ROLE_ORIGIN = {"user": "stated", "assistant": "experienced", "tool": "recorded"}


class Declined(Exception):
    """The command is refused for `reason`."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class Name(str):
    """What the reference calls a memory or a session."""


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

    @property
    def status(self) -> str:
        return "active" if self.forgotten_at is None else "forgotten"


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

    def state(self, now_ms: int) -> str:
        if self.closed_at is not None:
            return "closed"
        return "stale" if now_ms - self.last_at >= LEASE_MS else "open"

    def revive(self, at_ms: int) -> None:
        self.activation += 1
        self.closed_at = None
        self.last_at = max(self.last_at, at_ms)


@dataclass
class Tenant:
    state: str = "initializing"
    enforce: bool = True
    memories: dict[Name, Memory] = field(default_factory=dict)
    sessions: dict[Name, Session] = field(default_factory=dict)
    keys: dict[str, tuple[str, Any, dict[str, Any]]] = field(default_factory=dict)


class Reference:
    """All tenants. `uid` is the one caller's."""

    def __init__(self, uid: int) -> None:
        self.uid = uid
        self.tenants: dict[str, Tenant] = {}
        self._numbered = 0
        self._verbs: dict[str, Callable[[Tenant, dict[str, Any], int], dict[str, Any]]] = {
            "remember": self._remember,
            "remember_many": self._remember_many,
            "forget": self._forget,
            "recover": self._recover,
            "session_open": self._session_open,
            "session_close": self._session_close,
            "lifecycle": self._lifecycle,
        }

    def apply(self, tenant: str, verb: str, args: dict[str, Any], key: str | None, now_ms: int) -> dict[str, Any]:
        """Do a command once. Raises Declined, and then nothing has changed."""
        before = self.tenants.get(tenant)
        work = Tenant() if before is None else copy.deepcopy(before)
        if key is not None and key in work.keys:
            return _repeated(work.keys[key], verb, args)
        answer = self._verbs[verb](work, args, now_ms)
        begun = before is not None or key is not None or work != Tenant()
        if begun:
            if key is not None:
                work.keys[key] = (verb, args, answer)
            self.tenants[tenant] = work
        return answer

    def _fresh(self, letter: str) -> Name:
        self._numbered += 1
        return Name(f"{letter}{self._numbered}")

    # --- memories --------------------------------------------------------------------------------

    def _remember(self, tenant: Tenant, args: dict[str, Any], now_ms: int) -> dict[str, Any]:
        return self._remember_one(tenant, args, now_ms, [])

    def _remember_many(self, tenant: Tenant, args: dict[str, Any], now_ms: int) -> dict[str, Any]:
        results: list[dict[str, Any]] = []
        for item in args["items"]:
            results.append(self._remember_one(tenant, item, now_ms, [found["id"] for found in results]))
        return {"results": results}

    def _remember_one(self, tenant: Tenant, args: dict[str, Any], now_ms: int, earlier: list[Name]) -> dict[str, Any]:
        _refuse_in_maintenance(tenant)
        sources = [_resolved(tenant, ref, earlier) for ref in args.get("derived_from", [])]
        sources = list(dict.fromkeys(sources))
        kind, role = args["kind"], args.get("role")
        origin: str = args["origin"] if "origin" in args else ROLE_ORIGIN[str(role)]
        _check_lineage(tenant, kind, origin, sources)
        if origin != "seeded" and tenant.state == "initializing":
            tenant.state = "active"
        session, notes = self._attach(tenant, args.get("session"), args.get("producer", {}).get("agent"), now_ms)
        given = {**(session.defaults if session else {}), **args}
        producer = given.get("producer", {})
        if origin == "stated" and "model" in producer and not (kind == "raw" and role == "user"):
            _check_stated(tenant, args["text"], sources)
        is_turn = _is_turn(kind, args.get("subtype"), session, "session" in args)
        name = self._fresh("m")
        turn = None
        if session is not None:
            session.last_at = max(session.last_at, now_ms)
            (session.turns if is_turn else session.others).append(name)
            turn = len(session.turns) if is_turn else None
        owner = None if session is None else session.name
        memory = Memory(name, kind, args["text"], origin, role, sources, owner, turn)
        memory.project, memory.producer = given.get("project"), producer
        tenant.memories[name] = memory
        return {"id": name, "duplicate": False, "session": owner, "turn": turn, "notes": notes}

    def _attach(
        self, tenant: Tenant, asked: Any, agent: str | None, now_ms: int
    ) -> tuple[Session | None, list[str]]:  # fmt: skip
        if asked is None:
            live = [s for s in tenant.sessions.values() if s.agent == agent and s.state(now_ms) == "open"]
            return (live[0], ["session_attached"]) if len(live) == 1 else (None, [])
        if isinstance(asked, Name):
            if asked not in tenant.sessions:
                raise Declined("not_found")
            session = tenant.sessions[asked]
        else:
            found = _by_key(tenant, asked["agent"], asked["key"])
            if found is None:
                return self._begin(tenant, asked["agent"], asked["key"], now_ms), []
            session = found
        if session.state(now_ms) == "closed":
            return None, ["session_closed"]
        if session.state(now_ms) == "stale":
            session.revive(now_ms)
            return session, ["session_revived"]
        return session, []

    def _forget(self, tenant: Tenant, args: dict[str, Any], now_ms: int) -> dict[str, Any]:
        _refuse_in_maintenance(tenant)
        memory = tenant.memories.get(args["id"])
        if memory is None:
            return {"found": False, "tombstoned_at": None, "flagged": []}
        if memory.forgotten_at is not None:
            return {"found": True, "tombstoned_at": when(memory.forgotten_at), "flagged": []}
        if memory.kind in PROTECTED:
            raise Declined("conflict")
        memory.forgotten_at = now_ms
        memory.strength = 0.0
        flagged = children(tenant, memory.name)
        for child in flagged:
            tenant.memories[child].flagged_by.add(memory.name)
        return {"found": True, "tombstoned_at": when(now_ms), "flagged": flagged}

    def _recover(self, tenant: Tenant, args: dict[str, Any], now_ms: int) -> dict[str, Any]:
        _refuse_in_maintenance(tenant)
        memory = tenant.memories.get(args["id"])
        if memory is None:
            raise Declined("not_found")
        if memory.forgotten_at is None:
            raise Declined("conflict")
        memory.forgotten_at = None
        memory.strength = 0.2
        cleared = [m.name for m in tenant.memories.values() if memory.name in m.flagged_by]
        for child in cleared:
            tenant.memories[child].flagged_by.discard(memory.name)
        confidence = CONFIDENCE.get(memory.kind, 0.8)
        return {
            "strength": {"old": 0.0, "new": 0.2},
            "confidence": {"old": confidence, "new": confidence},
            "flags_set": [],
            "flags_cleared": cleared,
        }

    # --- sessions and tenants --------------------------------------------------------------------

    def _begin(self, tenant: Tenant, agent: str, key: str, now_ms: int) -> Session:
        session = Session(self._fresh("s"), agent, key, self.uid, now_ms, now_ms)
        tenant.sessions[session.name] = session
        return session

    def _session_open(self, tenant: Tenant, args: dict[str, Any], now_ms: int) -> dict[str, Any]:
        _refuse_in_maintenance(tenant)
        found = _by_key(tenant, args["agent"], args["key"])
        session = found or self._begin(tenant, args["agent"], args["key"], now_ms)
        session.defaults |= {name: args[name] for name in ("project", "producer") if name in args}
        reopened = session.state(now_ms) != "open"
        if reopened:
            session.revive(now_ms)
        session.last_at = max(session.last_at, now_ms)
        return {
            "session": session.name,
            "activation": session.activation,
            "created": found is None,
            "reopened": reopened,
            "opened_at": when(session.opened_at),
        }

    def _session_close(self, tenant: Tenant, args: dict[str, Any], now_ms: int) -> dict[str, Any]:
        _refuse_in_maintenance(tenant)
        session = tenant.sessions.get(args["session"])
        if session is None:
            raise Declined("not_found")
        already = session.closed_at is not None
        if session.closed_at is None:
            session.closed_at = max(now_ms, session.opened_at)
        return {"closed_at": when(session.closed_at), "already_closed": already}

    def _lifecycle(self, tenant: Tenant, args: dict[str, Any], now_ms: int) -> dict[str, Any]:
        wanted = args.get("state", tenant.state)
        if wanted == "initializing" and tenant.state != wanted:
            raise Declined("lifecycle")
        tenant.state = wanted
        tenant.enforce = args.get("enforce", tenant.enforce)
        return {"state": tenant.state, "enforce": tenant.enforce}


def _repeated(kept: tuple[str, Any, dict[str, Any]], verb: str, args: dict[str, Any]) -> dict[str, Any]:
    if kept[:2] != (verb, args):
        raise Declined("conflict")
    return {**kept[2], "duplicate": True}


def _refuse_in_maintenance(tenant: Tenant) -> None:
    if tenant.state == "maintenance":
        raise Declined("lifecycle")


def _resolved(tenant: Tenant, ref: Name | int, earlier: list[Name]) -> Name:
    """A source by its name, or an item of the same batch by its place."""
    if isinstance(ref, int):
        if ref >= len(earlier):
            raise Declined("invalid_input")
        return earlier[ref]
    if ref not in tenant.memories:
        raise Declined("provenance")
    return ref


def _check_lineage(tenant: Tenant, kind: str, origin: str, sources: list[Name]) -> None:
    if not tenant.enforce:
        return
    if any(tenant.memories[source].kind not in SOURCES[kind] for source in sources):
        raise Declined("provenance")
    seeding = origin == "seeded" and tenant.state == "initializing"
    if SOURCES[kind] and not sources and not seeding:
        raise Declined("provenance")


def _check_stated(tenant: Tenant, text: str, sources: list[Name]) -> None:
    for source in (tenant.memories[name] for name in sources):
        if source.role == "user" and source.turn and source.forgotten_at is None and text in source.text:
            return
    raise Declined("provenance")


def _is_turn(kind: str, subtype: str | None, session: Session | None, asked: bool) -> bool:
    if kind != "raw" or subtype == "capture":
        return False
    if subtype == "turn" and session is None and not asked:
        raise Declined("invalid_input")
    return session is not None


def _by_key(tenant: Tenant, agent: str, key: str) -> Session | None:
    return next((s for s in tenant.sessions.values() if (s.agent, s.key) == (agent, key)), None)


def children(tenant: Tenant, name: Name) -> list[Name]:
    """What names `name` as a source, in the order it was made."""
    return [memory.name for memory in tenant.memories.values() if name in memory.sources]


def grounded(tenant: Tenant, name: Name) -> bool:
    """Not when it has sources and each of them is forgotten."""
    sources = tenant.memories[name].sources
    return not sources or any(tenant.memories[source].forgotten_at is None for source in sources)


def trace(tenant: Tenant, root: Name, direction: str) -> tuple[dict[Name, int], set[tuple[Name, Name]]]:
    """`(depth by name, (made, source) edges)` of the whole walk."""
    depths = {root: 0}
    edges: set[tuple[Name, Name]] = set()
    waiting = deque([root])
    while waiting:
        here = waiting.popleft()
        up = direction == "sources"
        for other in tenant.memories[here].sources if up else children(tenant, here):
            edges.add((here, other) if up else (other, here))
            if other not in depths:
                depths[other] = depths[here] + 1
                waiting.append(other)
    return depths, edges

"""The domain rules once more, in memory and as plainly as they can be said. Nothing here calls the product.

The reference names memories `m1`, `m2`, … and sessions `s1`, `s2`, …; who compares maps these names to the
references that the daemon gave. A command either answers a dict or raises `Declined` with the reason's name,
and then nothing has changed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.model import passes, proposing, standing
from tests.model.domain import (
    CONFIDENCE,
    PROTECTED,
    ROLE_ORIGIN,
    SOURCES,
    Declined,
    Memory,
    Name,
    Session,
    Tenant,
    children,
    clear_children,
    first_version,
    flag_children,
    ms_of,
    owners_of,
    refuse_in_maintenance,
    resolved,
    resolved_one,
    standing_on,
    support,
    when,
)

RECORDED = frozenset({"weaken", "reaffirm"})
"""What is written down also where no number moves."""


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
            "verify": standing.verify,
            "reinforce": standing.reinforce,
            "weaken": standing.weaken,
            "reaffirm": partial(standing.reaffirm, self._join_named),
            "mark": partial(standing.mark, self._join_named),
            "relate": self._relate,
            "revise": self._revise,
            "propose": partial(proposing.propose, self._fresh),
            "decide": partial(proposing.decide, self._fresh),
            "session_open": self._session_open,
            "session_close": self._session_close,
            "lifecycle": self._lifecycle,
            "commit_pass": lambda tenant, args, now_ms: passes.commit_pass(tenant, args, now_ms, self._fresh),
        }

    def apply(self, tenant: str, verb: str, args: dict[str, Any], key: str | None, now_ms: int) -> dict[str, Any]:
        """Do a command once. Raises Declined, and then nothing has changed."""
        if verb == "commit_pass":
            passes.check_form(args, self._kind)
        before = self.tenants.get(tenant)
        work = Tenant() if before is None else copy.deepcopy(before)
        if key is not None and key in work.keys:
            return _repeated(work.keys[key], verb, args)
        answer = self._verbs[verb](work, args, now_ms)
        changed = verb in RECORDED or work != (before or Tenant())
        if changed and work.state == "initializing" and not _leaves_initializing(verb, args):
            work.state = "active"
        begun = before is not None or key is not None or work != Tenant()
        if begun:
            if key is not None:
                work.keys[key] = (verb, args, answer)
            self.tenants[tenant] = work
        return answer

    def _kind(self, name: Name) -> str:
        return next(tenant.memories[name].kind for tenant in self.tenants.values() if name in tenant.memories)

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
        refuse_in_maintenance(tenant)
        sources = [resolved_one(tenant, ref, earlier) for ref in args.get("derived_from", [])]
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
            session.active(now_ms)
            (session.turns if is_turn else session.others).append(name)
            turn = len(session.turns) if is_turn else None
        owner = None if session is None else session.name
        memory = Memory(name, kind, args["text"], origin, role, sources, owner, turn, at=now_ms)
        memory.project, memory.producer = given.get("project"), producer
        memory.valid_from, memory.valid_to = (
            ms_of(args[end]) if end in args else None for end in ("valid_from", "valid_to")
        )
        memory.confidence = CONFIDENCE.get(kind, 0.8)
        memory.marked = {"protected"} if kind in PROTECTED else set()
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

    def _join_named(self, tenant: Tenant, args: dict[str, Any], now_ms: int) -> list[str]:
        """What is done to a memory is done in the session it names, or in none."""
        if "session" not in args:
            return []
        session, notes = self._attach(tenant, args["session"], None, now_ms)
        if session is not None:
            session.active(now_ms)
        return notes

    def _forget(self, tenant: Tenant, args: dict[str, Any], now_ms: int) -> dict[str, Any]:
        refuse_in_maintenance(tenant)
        memory = tenant.memories.get(args["id"])
        if memory is None:
            return {"found": False, "tombstoned_at": None, "flagged": []}
        if memory.forgotten_at is not None:
            return {"found": True, "tombstoned_at": when(memory.forgotten_at), "flagged": []}
        if "protected" in memory.marked:
            raise Declined("conflict")
        memory.forgotten_at = now_ms
        memory.strength = 0.0
        flag_children(tenant, memory.name)
        flagged = children(tenant, memory.name)
        return {"found": True, "tombstoned_at": when(now_ms), "flagged": flagged}

    def _recover(self, tenant: Tenant, args: dict[str, Any], now_ms: int) -> dict[str, Any]:
        refuse_in_maintenance(tenant)
        memory = tenant.memories.get(args["id"])
        if memory is None:
            raise Declined("not_found")
        if memory.forgotten_at is None:
            raise Declined("conflict")
        support(tenant, memory, args)
        memory.forgotten_at = None
        memory.strength = 0.2
        cleared = clear_children(tenant, memory.name)
        return {
            "strength": {"old": 0.0, "new": 0.2},
            "confidence": {"old": memory.confidence, "new": memory.confidence},
            "flags_set": [],
            "flags_cleared": cleared,
        }

    def _relate(self, tenant: Tenant, args: dict[str, Any], now_ms: int) -> dict[str, Any]:
        refuse_in_maintenance(tenant)
        for end in ("from", "to"):
            if args[end] not in tenant.memories:
                raise Declined("not_found")
        if args["from"] == args["to"]:
            raise Declined("invalid_input")
        said = (args["type"], args["from"], args["to"])
        if args["type"] == "contradicts":
            said = ("contradicts", *sorted(said[1:]))
        if said not in tenant.relations:
            tenant.relations[said] = self._fresh("e")
        return {"edge": tenant.relations[said]}

    def _revise(self, tenant: Tenant, args: dict[str, Any], now_ms: int) -> dict[str, Any]:
        old = standing.living(tenant, args)
        standing.named(tenant, args)
        fields, agent = args.get("fields", {}), args.get("producer", {}).get("agent")
        if args.get("disposition") == "move":
            notes: list[str] = []
            if old.project != fields["project"]:
                old.project = fields["project"]
                session, notes = self._attach(tenant, args.get("session"), agent, now_ms)
                if session is not None:
                    session.active(now_ms)
            return {"id": old.name, "predecessor": None, "notes": notes}
        if old.superseded_by is not None:
            raise Declined("conflict")
        if old.kind == "raw" and "session" in args:
            raise Declined("invalid_input")
        session, notes = None, []
        if old.kind != "raw":
            session, notes = self._attach(tenant, args.get("session"), agent, now_ms)
        producer = args.get("producer", session.defaults.get("producer", {}) if session else {})
        evidence = resolved(tenant, fields["evidence"]) if "evidence" in fields else list(old.evidence)
        by_a_model = "model" in producer or "model" in first_version(tenant, old.name).producer
        if args["origin"] == "stated" and by_a_model:
            _check_stated(tenant, args["text"], [old.name, *standing_on(tenant, old.name), *evidence])
        owner = None if session is None else session.name
        new = Memory(self._fresh("m"), old.kind, args["text"], args["origin"], None, [], owner, None, at=now_ms)
        new.producer = producer
        if session is not None:
            session.active(now_ms)
            session.others.append(new.name)
        new.project = fields.get("project", old.project)
        new.confidence = CONFIDENCE.get(old.kind, 0.8)
        new.marked = {"protected"} & old.marked
        new.evidence, new.replaced, new.revises = evidence, [old.name], old.name
        new.owners = owners_of(tenant, old.name)
        old.superseded_by, old.closed_as = new.name, args.get("disposition", "supersedes")
        new.valid_from = now_ms if old.valid_from is None else max(now_ms, old.valid_from)
        old.valid_to = old.ends(new.valid_from)
        tenant.memories[new.name] = new
        return {"id": new.name, "predecessor": old.name, "notes": notes}

    # --- sessions and tenants --------------------------------------------------------------------

    def _begin(self, tenant: Tenant, agent: str, key: str, now_ms: int) -> Session:
        session = Session(self._fresh("s"), agent, key, self.uid, now_ms, now_ms)
        tenant.sessions[session.name] = session
        return session

    def _session_open(self, tenant: Tenant, args: dict[str, Any], now_ms: int) -> dict[str, Any]:
        refuse_in_maintenance(tenant)
        found = _by_key(tenant, args["agent"], args["key"])
        session = found or self._begin(tenant, args["agent"], args["key"], now_ms)
        session.defaults |= {name: args[name] for name in ("project", "producer") if name in args}
        reopened = session.state(now_ms) != "open"
        if reopened:
            session.revive(now_ms)
        session.active(now_ms)
        return {
            "session": session.name,
            "activation": session.activation,
            "created": found is None,
            "reopened": reopened,
            "opened_at": when(session.opened_at),
        }

    def _session_close(self, tenant: Tenant, args: dict[str, Any], now_ms: int) -> dict[str, Any]:
        refuse_in_maintenance(tenant)
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


def _leaves_initializing(verb: str, args: dict[str, Any]) -> bool:
    """What is seeded, and who decides on the state. A memory that isn't seeded ends it itself, item by item."""
    return verb in ("remember", "remember_many", "lifecycle") or args.get("origin") == "seeded"


def _repeated(kept: tuple[str, Any, dict[str, Any]], verb: str, args: dict[str, Any]) -> dict[str, Any]:
    if kept[:2] != (verb, args):
        raise Declined("conflict")
    return {**kept[2], "duplicate": True}


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

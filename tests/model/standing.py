"""How a memory stands, in the reference: verify, reinforce, weaken, reaffirm, mark. Nothing here calls the product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.model.domain import (
    DORMANT_BELOW,
    Declined,
    Memory,
    Tenant,
    clear_children,
    flag_children,
    refuse_in_maintenance,
    standing_on,
    support,
    when,
)

Join = Callable[[Tenant, dict[str, Any], int], list[str]]
"""Join the session that a command names, if any; what is to be said of it."""


def living(tenant: Tenant, args: dict[str, Any]) -> Memory:
    """The memory that a command is about. Raises Declined."""
    refuse_in_maintenance(tenant)
    memory = tenant.memories.get(args["id"])
    if memory is None:
        raise Declined("not_found")
    if memory.forgotten_at is not None:
        raise Declined("conflict")
    return memory


def named(tenant: Tenant, args: dict[str, Any]) -> None:
    """The session that a command names has to be there, whatever the command changes. Raises Declined."""
    if "session" in args and args["session"] not in tenant.sessions:
        raise Declined("not_found")


def verify(tenant: Tenant, args: dict[str, Any], now_ms: int) -> dict[str, Any]:
    memory = living(tenant, args)
    support(tenant, memory, args)
    sure, strong = memory.confidence, memory.strength
    boosted, back = [], []
    for source in (tenant.memories[name] for name in standing_on(tenant, memory.name)):
        if source.forgotten_at is None:
            new = min(1.0, round(source.strength + 0.02, 12))
            boosted.append({"id": source.name, "old": source.strength, "new": new})
            if source.strength < DORMANT_BELOW <= new:
                back.append(source.name)
            source.strength = new
    memory.confidence = min(1.0, round(sure + 0.1, 12))
    memory.strength = min(1.0, round(strong + 0.1, 12))
    memory.verified_at = now_ms
    memory.verifications += 1
    cleared = clear_children(tenant, memory.name) if strong < DORMANT_BELOW <= memory.strength else []
    own = bool(memory.flagged_by)
    memory.flagged_by.clear()
    for name in back:
        cleared += clear_children(tenant, name)
    cleared = list(dict.fromkeys([*cleared, *([memory.name] if own else [])]))
    return {
        "confidence": {"old": sure, "new": memory.confidence},
        "strength": {"old": strong, "new": memory.strength},
        "boosted": boosted,
        "verified_at": when(now_ms),
        "verifications": memory.verifications,
        "flags_cleared": cleared,
    }


def reinforce(tenant: Tenant, args: dict[str, Any], now_ms: int) -> dict[str, Any]:
    memory = living(tenant, args)
    support(tenant, memory, args)
    sure = memory.confidence
    memory.reinforcements += 1
    if sure < 0.99:
        memory.confidence += (0.99 - sure) * 0.05 / (1 + 0.1 * memory.reinforcements)
    return _moved(memory, sure, memory.strength)


def weaken(tenant: Tenant, args: dict[str, Any], now_ms: int) -> dict[str, Any]:
    memory = living(tenant, args)
    if "protected" in memory.marked:
        raise Declined("conflict")
    support(tenant, memory, args)
    strong = memory.strength
    memory.strength = min(strong, max(0.01, round(strong - args.get("amount", 0.1), 12)))
    falls = memory.strength < DORMANT_BELOW <= strong
    flagged = flag_children(tenant, memory.name) if falls else []
    return {**_moved(memory, memory.confidence, strong), "flags_set": flagged}


def reaffirm(join: Join, tenant: Tenant, args: dict[str, Any], now_ms: int) -> dict[str, Any]:
    memory = living(tenant, args)
    named(tenant, args)
    support(tenant, memory, args)
    notes = join(tenant, args, now_ms)
    memory.verified_at = now_ms
    return {**_moved(memory, memory.confidence, memory.strength), "notes": notes}


def mark(join: Join, tenant: Tenant, args: dict[str, Any], now_ms: int) -> dict[str, Any]:
    refuse_in_maintenance(tenant)
    memory = tenant.memories.get(args["id"])
    if memory is None:
        raise Declined("not_found")
    named(tenant, args)
    if (args["mark"] in memory.marked) == args["on"]:
        return {"marks": memory.marks, "notes": []}
    change = memory.marked.add if args["on"] else memory.marked.discard
    change(args["mark"])
    return {"marks": memory.marks, "notes": join(tenant, args, now_ms)}


def _moved(memory: Memory, sure: float, strong: float) -> dict[str, Any]:
    return {
        "confidence": {"old": sure, "new": memory.confidence},
        "strength": {"old": strong, "new": memory.strength},
        "flags_set": [],
        "flags_cleared": [],
    }

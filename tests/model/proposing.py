"""Proposals in the reference: what waits, and what an acceptance does. Nothing here calls the product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.model.domain import Declined, Memory, Name, Proposal, Tenant, inherit, refuse_in_maintenance

CLOSING = frozenset({"supersedes", "updates"})
Fresh = Callable[[str], Name]


def propose(fresh: Fresh, tenant: Tenant, args: dict[str, Any], now_ms: int) -> dict[str, Any]:
    if args["memory"] == args.get("other"):
        raise Declined("invalid_input")
    refuse_in_maintenance(tenant)
    for end in ("memory", "other"):
        if end in args and args[end] not in tenant.memories:
            raise Declined("not_found")
    word = _word(args)
    if word in CLOSING or word == "supersede":
        kinds = {tenant.memories[args[end]].kind for end in ("memory", "other")}
        if len(kinds) > 1 or kinds == {"episode"}:  # an episode is an event when nothing else was said
            raise Declined("invalid_input")
    said = (args["proposal_kind"], word, args["memory"], args.get("other"))
    for waiting in tenant.proposals.values():
        if waiting.status == "proposed" and _same(waiting.said, said):
            return {"proposal": waiting.name, "existed": True}
    proposal = Proposal(fresh("p"), said, fresh("f"))
    tenant.proposals[proposal.name] = proposal
    return {"proposal": proposal.name, "existed": False}


def _word(args: dict[str, Any]) -> str:
    """What it says: the edge, the action, the value of the fact."""
    found = args.get("edge") or args.get("action") or args.get("fact", {}).get("value")
    return str(found)


def _same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    if one[1] == "contradicts" and one[0] == "edge":
        return one[:2] == other[:2] and set(one[2:]) == set(other[2:])
    return one == other


def decide(fresh: Fresh, tenant: Tenant, args: dict[str, Any], now_ms: int) -> dict[str, Any]:
    refuse_in_maintenance(tenant)
    proposal = tenant.proposals.get(args["proposal"])
    if proposal is None or proposal.status != "proposed":
        raise Declined("not_found")
    if args["accept"]:
        proposal.produced = _accept(fresh, tenant, proposal, now_ms)
    proposal.status = "applied" if args["accept"] else "rejected"
    return {"decided": proposal.status, "produced": proposal.produced}


def _accept(fresh: Fresh, tenant: Tenant, proposal: Proposal, now_ms: int) -> list[Name]:
    kind, word, memory, other = proposal.said
    about = tenant.memories[memory]
    if kind == "fact":
        if about.forgotten_at is not None:
            raise Declined("conflict")
        about.facts[proposal.fact] = (word, proposal.name)
        return [proposal.fact]
    if kind == "resolution" or word == "archive":
        mark = "resolved" if kind == "resolution" else "archived"
        if mark in about.marked:
            return []
        about.marked.add(mark)
        return [fresh("r")]
    if word == "supersede":
        return _close(fresh, tenant, "supersedes", tenant.memories[other], about, now_ms)
    if word in CLOSING:
        return _close(fresh, tenant, word, about, tenant.memories[other], now_ms)
    said = ("contradicts", *sorted((memory, other))) if word == "contradicts" else (word, memory, other)
    if said in tenant.relations:
        return []
    tenant.relations[said] = fresh("e")
    return [tenant.relations[said]]


def _close(
    fresh: Fresh, tenant: Tenant, word: str, successor: Memory, predecessor: Memory, now_ms: int
) -> list[Name]:  # fmt: skip
    if predecessor.superseded_by == successor.name and predecessor.closed_as == word:
        return []
    if successor.valid_to is not None and successor.valid_to <= now_ms:
        raise Declined("conflict")
    if successor.status != "active" or predecessor.superseded_by is not None or predecessor.forgotten_at is not None:
        raise Declined("conflict")
    predecessor.superseded_by, predecessor.closed_as = successor.name, word
    predecessor.valid_to = predecessor.ends(now_ms)
    successor.replaced.append(predecessor.name)
    inherit(tenant, successor, predecessor)
    return [fresh("e")]

"""Which function prepares and decides which writing verb. The one way from a call to its drafts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from daemon.caller import Caller
from daemon.commands import (
    cohorts,
    deciding,
    holding,
    lifecycle,
    partitions,
    passes,
    proposing,
    purging,
    relating,
    remember,
    resolving,
    revising,
    sessions,
    standing,
    tombstones,
    vacuuming,
)
from daemon.commands.building import Building
from daemon.commands.keys import Request, answer_keyed, keyed_draft
from daemon.commands.preparation import Prepared
from daemon.commands.preparation import prepare as prepare_memory
from daemon.prepare import UNSET, NaturalKey, invalid, key_hash, natural_key, parse_memory, request_digest
from daemon.refusal import Refused
from daemon.selections import Resolved
from journal.codes import Origin

CROSSED = "operator_crossed"
"""What is counted for an operator's question that leaves a record; the record says which verb it was."""

COMMIT_PASS = "commit_pass"
"""What the records of a pass say was asked for."""

Decide = Callable[[Building, Any], dict[str, Any]]

_DECIDE: dict[str, Decide] = {
    "forget": tombstones.forget,
    "recover": tombstones.recover,
    "verify": standing.verify,
    "reinforce": standing.reinforce,
    "weaken": standing.weaken,
    "reaffirm": standing.reaffirm,
    "mark": standing.mark,
    "relate": relating.relate,
    "decide": deciding.decide,
    "lift": cohorts.lift,
    "session_close": sessions.session_close,
    "lifecycle": lifecycle.lifecycle,
    partitions.ROLL_OVER: partitions.roll_over,
    resolving.SET_RESOLVABLE: resolving.set_resolvable,
}


class Keyed(NamedTuple):
    """The keyed hash of an idempotency key and the digest of its request."""

    key: bytes
    digest: bytes


class PreparedWrite(NamedTuple):
    """A write that needs nothing more but the store. `items` are those of a batch."""

    verb: str
    tenant: str
    params: Any
    memory: Prepared | None = None
    items: tuple[Prepared | Refused, ...] = ()
    keyed: Keyed | None = None
    session_key: NaturalKey | None = None
    revision: revising.PreparedRevision | None = None
    consolidation: passes.PreparedPass | None = None
    proposal: proposing.PreparedProposal | None = None
    resolved: Resolved | None = None
    to_purge: purging.ToPurge | None = None
    vacuum: vacuuming.Slice | vacuuming.Rest | vacuuming.Done | None = None
    crossed: str = ""
    """The verb of an operator's question, when that it was asked is all there is to write."""


def prepare(verb: str, params: Any, tenant: str, caller: Caller, hash_key: bytes) -> PreparedWrite:
    """Everything about a write that needs no store. Raises Refused."""
    if verb == "remember":
        return PreparedWrite(verb, tenant, params, memory=prepare_memory(params, tenant, caller.via, hash_key))
    keyed = None
    if verb == "remember_many" and not params.atomic and params.idempotency_key is not UNSET:
        raise invalid("idempotency_key", "a batch has a key only when it is atomic; its items have their own")
    if params.idempotency_key is not UNSET:
        asked = purging.digested(params) if verb in ("purge", "cohort") else params
        keyed = Keyed(key_hash(hash_key, tenant, params.idempotency_key), request_digest(hash_key, verb, asked))
    items: tuple[Prepared | Refused, ...] = ()
    if verb == "remember_many":
        items = _prepare_items(params, tenant, caller, hash_key)
    session_key = None
    if verb == "session_open":
        session_key = natural_key(hash_key, tenant, params.agent, params.key)
    revision = revising.prepare(params, tenant, hash_key) if verb == "revise" else None
    proposal = proposing.prepare(params) if verb == "propose" else None
    return PreparedWrite(
        verb, tenant, params, items=items, keyed=keyed, session_key=session_key, revision=revision, proposal=proposal
    )


def prepare_pass(params: passes.PassParams, tenant: str, hash_key: bytes) -> PreparedWrite:
    """The same for a commit of a pass, which is no verb. Raises Refused."""
    keyed = None
    if params.idempotency_key is not UNSET:
        keyed = Keyed(key_hash(hash_key, tenant, params.idempotency_key), request_digest(hash_key, COMMIT_PASS, params))
    consolidation = passes.prepare(params, tenant, hash_key)
    return PreparedWrite(COMMIT_PASS, tenant, params, keyed=keyed, consolidation=consolidation)


def prepare_resolvable(memory: str, index: int, resolvable: bool, tenant: str) -> PreparedWrite:
    """The same for what became known of an external source, which is no verb either."""
    params = resolving.ResolvableParams(id=memory, index=index, resolvable=resolvable)
    return PreparedWrite(resolving.SET_RESOLVABLE, tenant, params)


def _prepare_items(params: Any, tenant: str, caller: Caller, hash_key: bytes) -> tuple[Prepared | Refused, ...]:
    prepared: list[Prepared | Refused] = []
    for index, item in enumerate(params.items):
        if isinstance(item, Refused):
            prepared.append(item)
            continue
        try:
            prepared.append(prepare_memory(item, tenant, caller.via, hash_key))
        except Refused as refused:
            refused.data["index"] = index
            if params.atomic:
                raise
            prepared.append(refused)
    return tuple(prepared)


def decide(building: Building, write: PreparedWrite) -> dict[str, Any]:
    """Decide any write but a batch that isn't atomic. Raises Refused."""
    if write.memory is not None:
        return remember.decide(building, write.memory)
    keyed = write.keyed
    if keyed is not None and building.tenant:
        seq = building.view.answered(building.tenant, keyed.key)
        if seq is not None:
            request = Request(write.verb, keyed.digest, _named(building, write))
            answer = answer_keyed(building.view, seq, request)
            return purging.again(building, write.params, write.to_purge, answer) if write.verb == "purge" else answer
    if write.verb == "remember_many":
        result = _decide_items(building, write.items)
    elif write.consolidation is not None:
        result = passes.commit_pass(building, write.consolidation)
    elif write.revision is not None:
        result = revising.revise(building, write.revision)
    elif write.proposal is not None:
        result = proposing.propose(building, write.proposal)
    elif write.vacuum is not None:
        result = vacuuming.decide(building, write.vacuum)
    elif write.verb == "cohort":
        result = cohorts.make(building, write.params, write.resolved)
    elif write.to_purge is not None:
        result = purging.purge(building, write.params, write.to_purge)
    elif write.verb == "hold":
        result = holding.hold(building, write.params, write.resolved)
    elif write.session_key is not None:
        result = sessions.session_open(building, write.params, write.session_key)
    else:
        result = _DECIDE[write.verb](building, write.params)
    if building.drafts and not _leaves_initializing(write):
        building.activate()
    if keyed is not None:
        building.begin_tenant()
        if write.to_purge is not None:
            building.add(purging.keyed_draft(keyed.key, keyed.digest, result))
            return result
        about = tuple(dict.fromkeys((*building.kinds, *_about(building, write, result))))
        building.add(keyed_draft(keyed.key, keyed.digest, result, about, building.session_numbers))
    return result


def _leaves_initializing(write: PreparedWrite) -> bool:
    """Whether a write that changes something leaves a tenant in INITIALIZING: what is seeded does, and who decides on
    the state itself. Of memories their `decide` says so, item by item."""
    if write.verb == "revise":
        return bool(write.params.origin == Origin.SEEDED.wire)
    return write.verb in ("remember_many", "lifecycle", "purge", "hold", "vacuum", partitions.ROLL_OVER)


def _about(building: Building, write: PreparedWrite, result: dict[str, Any]) -> tuple[int, ...]:
    """The memories that a keyed answer speaks of, and what its request says may be known from: with the first of them
    that is purged the digest of the request goes."""
    if write.verb == "hold":
        return () if write.resolved is None else write.resolved.selected
    if write.verb == "remember_many":
        return tuple([parse_memory("id", each["id"])[1] for each in result["results"]])
    return _named(building, write)


def _named(building: Building, write: PreparedWrite) -> tuple[int, ...]:
    """The memories of the tenant that a request is about by itself. What else it names is nobody's here."""
    if write.verb == "decide":
        return deciding.named_in(building, write.params)
    refs = (getattr(write.params, name, UNSET) for name in ("id", "from_", "to", "memory", "other"))
    tsids = [parse_memory("id", ref)[1] for ref in refs if ref is not UNSET]
    return tuple([tsid for tsid in tsids if building.view.memory(building.tenant, tsid) is not None])


def _decide_items(building: Building, items: tuple[Prepared | Refused, ...]) -> dict[str, Any]:
    results: list[dict[str, Any]] = []
    refs: list[tuple[int, int]] = []
    for index, item in enumerate(items):
        assert not isinstance(item, Refused)
        try:
            result = remember.decide(building, item, refs)
        except Refused as refused:
            refused.data["index"] = index
            raise
        results.append(result)
        refs.append(remember.ref_of(result))
    return {"results": results}

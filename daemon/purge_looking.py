"""Looking before a purge or a hold: what a selection means, what would go with it, and how much that is to write.

A purge by ids acts at once; by a selection it first tells, and gives a token. The plan that is told is made by the same
code as the one that the writer carries out. An agent who may purge names ids.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from daemon import limits
from daemon.caller import Caller
from daemon.cascading import Going
from daemon.commands.purging import RESULTS_TOLD, ToPurge, named, refuse_held, told
from daemon.commands.table import PreparedWrite
from daemon.erasing import Plan
from daemon.erasure_words import file_system
from daemon.prepare import UNSET, invalid
from daemon.purge_told import outcome, totals
from daemon.reads.reading import Reading
from daemon.reads.resolving import Found, find
from daemon.refusal import Reason, Refused
from daemon.selections import Resolved, Token, bound_to, changed, check, digest_of, digest_of_all, seal, unseal
from daemon.wire.erasure_results import PurgeOutcome, PurgeResult
from journal import events
from journal.codes import CallerRole, Cascade
from journal.store import Store
from journal.vault import SlotState

_SOME_KEY = bytes(1)
"""Stands for the key of a purge that is not made yet."""


def acts_at_once(verb: str, params: Any) -> bool:
    """Whether a purge needs no look: its memories are named, and nothing but their copies goes with them."""
    return verb == "purge" and params.ids is not UNSET and not params.dry_run and params.cascade == Cascade.NONE.wire


def check_asked(verb: str, params: Any, caller: Caller) -> None:
    """What needs no store to be refused. Raises Refused."""
    if verb == "hold":
        check(params.sel)
        return
    if caller.role is CallerRole.AGENT and not caller.purge:
        raise Refused(Reason.DENIED, "purging needs the grant `purge`")
    if (params.ids is UNSET) is (params.sel is UNSET):
        raise invalid("ids" if params.ids is UNSET else "sel", "say which memories: either by ids, or by a selection")
    if params.ids is not UNSET:
        if params.token is not UNSET:
            raise invalid("token", "what is named by ids is purged at once")
        named(params)
        return
    if caller.role is CallerRole.AGENT:
        raise Refused(Reason.DENIED, "an agent purges by ids", parameter="sel")
    if params.dry_run and params.token is not UNSET:
        raise invalid("token", "a token is for doing it, and a dry run does nothing")
    check(params.sel)


def prepared(store: Store, resolved: Resolved | None = None) -> ToPurge:
    """What the writer is given with a purge."""
    vault = store.vault

    def is_shredded(slot: int) -> bool:
        return vault.state(slot) is SlotState.SHREDDED

    return ToPurge(vault.hash_key, file_system(store.dir.root), is_shredded, resolved)


def look_hold(view: Reading, params: Any) -> tuple[int, Resolved]:
    """How many memories are meant, and which."""
    found = find(view, params.sel, False)
    return len(found.selected), _resolved(view, found, _token(view, found.selected.tolist(), found.selected.tolist()))


def look_purge(view: Reading, params: Any, write: PreparedWrite) -> PurgeResult | tuple[int, ToPurge]:
    """What a dry run answers, else `(how many memories go, what the writer is given)`. Raises Refused."""
    found: Found | None = None
    if params.ids is not UNSET:
        asked = named(params)
    else:
        found = find(view, params.sel, False)
        asked = [(row.kind, tsid) for tsid in found.selected.tolist() if (row := view.memory(tsid)) is not None]
    going = Going(view.state, view.record, Cascade[params.cascade.upper()], view.asking.check)
    going.walk(tsid for kind, tsid in asked if view.memory(tsid, kind) is not None)
    if len(going.rows) > limits.MEMORIES_PER_ACTION:
        raise invalid(
            "cascade", "more memories would go than one action takes: purge less at a time",
            limit=limits.MEMORIES_PER_ACTION, current=len(going.rows),
        )  # fmt: skip
    refuse_held(going)
    if found is None:
        return _would(view, params, asked, going, None) if params.dry_run else (len(going.rows), prepared(view.store))
    bound = bound_to(
        write.tenant, "purge", f"{params.cascade} {params.block_reingest} {params.reason}", False, params.sel
    )
    now = _token(view, found.selected.tolist(), list(going.rows))
    hash_key = view.store.vault.hash_key
    if params.token is UNSET:
        return _would(view, params, asked, going, seal(now, hash_key, bound) if going.rows else None)
    given = unseal(params.token, hash_key, bound, view.store.epoch)
    if now[2:] != given[2:]:
        raise changed(now.selected_count)
    return len(going.rows), prepared(view.store, _resolved(view, found, given))


def _token(view: Reading, selected: list[int], touched: list[int]) -> Token:
    return Token(
        view.store.epoch, view.snapshot.watermark_seq(), len(selected), len(touched),
        digest_of(np.array(selected, np.uint64)), digest_of_all(touched),
    )  # fmt: skip


def _resolved(view: Reading, found: Found, token: Token) -> Resolved:
    return Resolved(view.snapshot.watermark_seq(), token, found.fields, tuple(found.selected.tolist()))


def _would(view: Reading, params: Any, asked: list[events.Ref], going: Going, token: str | None) -> PurgeResult:
    name = file_system(view.store.dir.root)
    plan = Plan(view.state, view.record, going, prepared(view.store).is_shredded)
    planned: list[events.Purged] = []
    outcomes: dict[int, PurgeOutcome] = {}
    tenant = view.tenant_names[0]
    for piece in plan.pieces():
        view.asking.check()
        event = events.Purged(
            targets=tuple([each.target for each in piece.erased]), parts=tuple(piece.parts), file_system=name,
            fingerprint_key=_SOME_KEY if params.block_reingest else None,
        )  # fmt: skip
        planned.append(event)
        for target in event.targets[: RESULTS_TOLD + 1 - len(outcomes)]:
            outcomes[target.id] = outcome(target, tenant, None, event)
    results, before_now = told(asked, outcomes, view.memory, tenant, name)
    answer = PurgeResult(
        results=results[:RESULTS_TOLD], results_cut=_is_cut(results, going), totals=totals(planned, before_now),
        receipt=None, count=len(going.rows), dry_run=True,
    )  # fmt: skip
    if token is not None:
        answer.token = token
    return answer


def _is_cut(results: list[PurgeOutcome], going: Going) -> bool:
    return len(results) > RESULTS_TOLD or len(going.rows) > RESULTS_TOLD

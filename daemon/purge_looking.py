"""Looking before a purge or a hold: what a selection means, what would go with it, and how much that is to write.

A purge by ids acts at once; by a selection it first tells, and gives a token. The plan that is told is made by the same
code as the one that the writer carries out. An agent who may purge names ids.
"""

from __future__ import annotations

import os
from typing import Any

import msgspec
import numpy as np

from daemon.caller import Caller
from daemon.cascading import Going
from daemon.commands.purging import WORDS_OF_HELD, ToPurge, named, refuse_held, session_alone, slots_of
from daemon.commands.table import PreparedWrite
from daemon.erasing import Erased, held_among, plan
from daemon.erasure_words import file_system
from daemon.peers import check_grant
from daemon.prepare import UNSET, invalid
from daemon.purge_told import RESULTS_TOLD, Telling, outcome, totals
from daemon.reads.reading import Reading
from daemon.reads.resolving import Found, find
from daemon.selections import Resolved, Token, bound_to, changed, check, digest_of, digest_of_all, seal, unseal
from daemon.wire.erasure_results import PurgeOutcome, PurgeResult
from daemon.wire.verbs import VERBS
from journal import events
from journal.codes import Cascade
from journal.errors import DamagedRecord
from journal.fingerprints import KEY_BYTES
from journal.store import Store
from journal.tsid import format_tsid
from journal.vault import SlotState
from journal.verify import Finding


def acts_at_once(verb: str, params: Any) -> bool:
    """Whether a purge needs no look: its memories are named, and nothing but their copies goes with them."""
    return verb == "purge" and params.ids is not UNSET and not params.dry_run and params.cascade == Cascade.NONE.wire


def check_asked(verb: str, params: Any, caller: Caller) -> None:
    """What needs no store to be refused. Raises Refused."""
    if verb == "hold":
        check(params.sel)
        return
    check_grant(VERBS[verb], params, caller)
    if (params.ids is UNSET) is (params.sel is UNSET):
        raise invalid("ids" if params.ids is UNSET else "sel", "say which memories: either by ids, or by a selection")
    if params.ids is not UNSET:
        if params.token is not UNSET:
            raise invalid("token", "what is named by ids is purged at once")
        named(params)
        return
    if params.dry_run and params.token is not UNSET:
        raise invalid("token", "a token is for doing it, and a dry run does nothing")
    check(params.sel)


def prepared(store: Store, resolved: Resolved | None = None) -> ToPurge:
    """What the writer is given with a purge."""
    vault = store.vault

    def is_shredded(slot: int) -> bool:
        return vault.state(slot) is SlotState.SHREDDED

    def note(error: DamagedRecord) -> None:
        store.note(Finding("read_damaged", error.seq, str(error), "Run `noctuary audit`."))

    return ToPurge(
        vault.hash_key, os.urandom(KEY_BYTES), file_system(store.dir.root), is_shredded, store.epoch_of_purge, note,
        resolved,
    )  # fmt: skip


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
    refuse_held(held_among(going.rows.items()))
    if found is None:
        return _would(view, params, asked, going, 0, "") if params.dry_run else (len(going.rows), prepared(view.store))
    bound = bound_to(
        write.tenant, "purge", f"{params.cascade} {params.block_reingest} {params.reason}", False, params.sel
    )
    now = _token(view, found.selected.tolist(), list(going.rows))
    hash_key = view.store.vault.hash_key
    if params.token is UNSET:
        return _would(view, params, asked, going, session_alone(params, found.fields), seal(now, hash_key, bound))
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


def _target(erased: Erased, keeps_out: bool) -> events.PurgeTarget:
    """What the purge would say of it: a text is kept out whether it goes or stays with another memory."""
    target = erased.target
    has_text = bool(target.text_bytes or target.text_retained_shared)
    return msgspec.structs.replace(target, is_fingerprinted=keeps_out and has_text)


def _would(view: Reading, params: Any, asked: list[events.Ref], going: Going, session: int, token: str) -> PurgeResult:
    """What a purge would do; the token only where there is something to do."""
    given = prepared(view.store)
    planned = plan(view.state, view.record, going, given.is_shredded, session)
    refuse_held(planned.held, WORDS_OF_HELD)
    for error in going.unreadable.values():
        given.note_damage(error)
    purged: list[events.Purged] = []
    outcomes: dict[int, PurgeOutcome] = {}
    tenant = view.tenant_names[0]
    for piece in planned.pieces:
        view.asking.check()
        event = events.Purged(
            targets=tuple([_target(each, params.block_reingest) for each in piece.erased]), parts=tuple(piece.parts),
            file_system=given.file_system, sessions=tuple(piece.sessions),
        )  # fmt: skip
        purged.append(event)
        for target in event.targets[: RESULTS_TOLD + 1 - len(outcomes)]:
            outcomes[target.id] = outcome(target, tenant, None, event)
    slots = slots_of(purged)
    telling = Telling(
        view.state, view.record, view.memory, tenant, given.file_system, given.epoch_of, going.unreadable,
        lambda slot: slot in slots or given.is_shredded(slot), lambda tsid: not going.goes(tsid),
    )  # fmt: skip
    results, cut = telling.results(asked, outcomes)
    rows = (view.session(number) for event in purged for number in event.sessions)
    answer = PurgeResult(
        results=results, results_cut=cut, totals=totals(purged, telling.before(asked)), receipt=None,
        count=len(going.rows), dry_run=True,
        sessions=[f"session:{format_tsid(row.id)}" for row in rows if row is not None][:RESULTS_TOLD],
    )  # fmt: skip
    if token and purged:
        answer.token = token
    return answer

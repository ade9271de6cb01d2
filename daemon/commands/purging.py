"""purge: what was sealed for some memories is made unreadable for good (contract ERASURE §2).

The command decides which memories go and which keys, and says so in PURGE records of at most a thousand memories each;
the writer commits them in a batch of their own and destroys the keys. Nothing of a purge that is refused is done: one
memory under hold, also a copy or one that a cascade reached, refuses the whole call. What is purged already is told as
such, and purged no second time. MAINTENANCE doesn't keep anybody from it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from daemon import limits
from daemon.cascading import Going
from daemon.commands import keys
from daemon.commands.building import Building
from daemon.decision import Draft
from daemon.erasing import Erased, IsShredded, Piece, Plan, held_among
from daemon.prepare import parse_memory
from daemon.purge_told import nothing_done, outcome, totals
from daemon.refusal import Reason, Refused
from daemon.selections import Resolved, changed, digest_of_all, require_unchanged
from daemon.wire.erasure_results import PurgeOutcome
from journal import events
from journal.codes import Cascade, Mark, Part, ProposalStatus, PurgeReason
from journal.errors import DamagedRecord, PartUnreadable
from journal.events import Ref, SealedPart
from journal.tsid import memory_ref
from projections.rows import MemoryRow
from projections.workingset import Blocked, Gone, fingerprint, text_hash

FindRow = Callable[[int], "MemoryRow | None"]
RESULTS_TOLD = limits.DOWNSTREAM_TOLD
KEY_BYTES = 32


class ToPurge(NamedTuple):
    """What a purge needs of the store beside its view. `resolved`: what a selection means; None: ids are given."""

    hash_key: bytes
    file_system: str
    is_shredded: IsShredded
    resolved: Resolved | None = None


def named(params: Any) -> list[Ref]:
    """The memories that are asked for by their ids, each once. Raises Refused."""
    return list(dict.fromkeys(parse_memory("ids", ref) for ref in params.ids))


def nothing() -> None:
    """The step of whoever wants to hear of none."""


def purge(building: Building, params: Any, to_purge: ToPurge) -> dict[str, Any]:
    """Add the drafts of a purge; its result. Raises Refused: `legal_hold`, and `conflict` for a stale token."""
    asked = _asked(building, params, to_purge)
    view = building.view
    going = Going(view.state, view.record, Cascade[params.cascade.upper()], nothing)
    if building.tenant:
        going.walk(tsid for _, tsid in _there(building, asked))
    resolved = to_purge.resolved
    if resolved is not None and digest_of_all(going.rows) != resolved.token.touched:
        raise changed(len(going.rows))
    refuse_held(going)
    purged, outcomes, gone = _Purging(building, params, to_purge, going).draft()
    if purged:
        building.learn().gone = gone
    results, before_now = told(
        asked, outcomes, lambda tsid: view.memory(building.tenant, tsid) if building.tenant else None,
        building.tenant_name, to_purge.file_system,
    )  # fmt: skip
    receipt = None if not purged else {"epoch": view.state.head.epoch, "seq": view.next_seq}
    return {
        "results": results[:RESULTS_TOLD], "results_cut": max(len(results), len(going.rows)) > RESULTS_TOLD,
        "totals": totals(purged, before_now), "receipt": receipt, "count": len(going.rows), "dry_run": False,
    }  # fmt: skip


def refuse_held(going: Going) -> None:
    held = held_among(going.rows.items())
    if held:
        told_ids = [memory_ref(*ref) for ref in held[: limits.DOWNSTREAM_TOLD]]
        message = "what is held can't be purged; nothing was done"
        raise Refused(Reason.LEGAL_HOLD, message, ids=told_ids, current=len(held))


def _asked(building: Building, params: Any, to_purge: ToPurge) -> list[Ref]:
    """The memories that are named, or selected: these are all there. Raises Refused."""
    resolved = to_purge.resolved
    if resolved is None:
        return named(params)
    require_unchanged(building.view, building.tenant, resolved)
    asked: list[Ref] = []
    for tsid in resolved.selected:
        row = building.view.memory(building.tenant, tsid)
        if row is None or row.has(Mark.PURGED):
            raise changed()
        asked.append((row.kind, tsid))
    return asked


def _there(building: Building, asked: list[Ref]) -> Iterator[Ref]:
    for kind, tsid in asked:
        row = building.view.memory(building.tenant, tsid)
        if row is not None and row.kind == kind:
            yield kind, tsid


def told(
    asked: list[Ref], outcomes: dict[int, PurgeOutcome], find: FindRow, tenant_name: str, file_system: str
) -> tuple[list[PurgeOutcome], int]:
    """`(results, how many were purged before)`: those that were asked for, in their order, then what went
    with them. A few more than are told at most."""
    results: list[PurgeOutcome] = []
    before_now = 0
    left = dict(outcomes)
    for kind, tsid in asked:
        row = find(tsid)
        is_there = row is not None and row.kind == kind
        before_now += row is not None and is_there and row.has(Mark.PURGED)
        done = left.pop(tsid, None) if is_there else None
        if len(results) > RESULTS_TOLD:
            continue
        before = None if row is None or not is_there else row.dead_at
        results.append(done or nothing_done((kind, tsid), tenant_name, before, file_system))
    return [*results, *left.values()], before_now


class _Purging:
    """The drafts of one purge."""

    def __init__(self, building: Building, params: Any, to_purge: ToPurge, going: Going) -> None:
        self._building, self._params, self._to_purge, self._going = building, params, to_purge, going
        self._key = os.urandom(KEY_BYTES) if params.block_reingest else None
        self._texts: list[bytes] = []
        self._slots: set[int] = set()

    def draft(self) -> tuple[list[events.Purged], dict[int, PurgeOutcome], Gone]:
        """Raises DamagedRow, DamagedRecord."""
        building, view = self._building, self._building.view
        plan = Plan(view.state, view.record, self._going, self._to_purge.is_shredded)
        purged: list[events.Purged] = []
        outcomes: dict[int, PurgeOutcome] = {}
        closing: list[int] = []
        waiting: list[int] = []
        gone = Gone()
        for piece in plan.pieces():
            event = self._event(piece)
            building.add(Draft(event))
            purged.append(event)
            closing += event.sessions
            waiting += event.proposals
            gone = gone.and_also(Gone((), frozenset(piece.sessions), frozenset(piece.entities)))
            for each in piece.erased:
                if len(outcomes) <= RESULTS_TOLD:
                    outcomes[each.target.id] = outcome(each.target, building.tenant_name, view.now_ms, event)
        self._reject(waiting)
        self._close(closing)
        return purged, outcomes, gone._replace(texts=tuple(self._texts), slots=frozenset(self._slots))

    def _event(self, piece: Piece) -> events.Purged:
        blocked = tuple(dict.fromkeys(mark for each in piece.erased for mark in self._read_text(each)))
        return self._learn_blocked(events.Purged(
            targets=tuple([each.target for each in piece.erased]), parts=tuple(piece.parts),
            reason=int(PurgeReason[self._params.reason.upper()]), cascade=int(Cascade[self._params.cascade.upper()]),
            sessions=tuple(piece.sessions), proposals=tuple(piece.proposals), entities=tuple(piece.entities),
            fingerprint_key=self._key if blocked else None, fingerprints=blocked,
            file_system=self._to_purge.file_system,
        ))  # fmt: skip

    def _learn_blocked(self, event: events.Purged) -> events.Purged:
        if event.fingerprint_key is not None:
            tenant, seq = self._building.tenant, self._building.next_seq
            blocked = Blocked(event.fingerprint_key, frozenset(event.fingerprints))
            self._building.learn().blocked.setdefault(tenant, {})[seq] = blocked
        return event

    def _read_text(self, erased: Erased) -> Iterator[bytes]:
        """Its text is opened a last time: what it is found by is forgotten, and kept out when that is asked for."""
        part = erased.text or (self._text_of(erased) if self._key is not None else None)
        if part is None:
            return
        try:
            text = self._building.view.unseal(part)
        except PartUnreadable:
            self._slots.add(part.slot)
            return
        if erased.text is not None:
            self._texts.append(text_hash(self._to_purge.hash_key, self._building.tenant_name, text))
        if self._key is not None:
            yield fingerprint(self._key, text)

    def _text_of(self, erased: Erased) -> SealedPart | None:
        """A text that stays, because another memory has it."""
        record = self._building.view.record(self._going.rows[erased.target.id].seq)
        parts: tuple[SealedPart, ...] = () if record is None else getattr(record.event, "parts", ())
        return next((part for part in parts if part.part == Part.TEXT), None)

    def _reject(self, named_proposals: list[int]) -> None:
        """Nobody can decide any more about what is gone."""
        building = self._building
        for proposal in named_proposals:
            row = building.view.proposal(building.tenant, proposal)
            if row is not None and row.status == ProposalStatus.PROPOSED:
                building.add(Draft(events.ProposalDecided(id=proposal, accepted=False)))

    def _close(self, numbers: list[int]) -> None:
        """A session without a key takes no more writes."""
        building = self._building
        for number in numbers:
            if not building.session(number).closed:
                building.close_session(number, building.view.now_ms)


# --- asked again under its key ---------------------------------------------------------------------


def keyed_draft(key: bytes, digest: bytes, result: dict[str, Any]) -> Draft:
    """The event that keeps the answer of a purge: its receipt tells the results. What was asked is not kept then, since
    a selection may have said what the memories said."""
    if result["receipt"] is None:
        return keys.keyed_draft(key, digest, result, (), ())
    return Draft(events.Keyed(key=key, result=msgspec.msgpack.encode({**result, "results": []})))


def again(building: Building, answer: dict[str, Any]) -> dict[str, Any]:
    """An answer that was kept, with its results from the receipt."""
    receipt = answer.get("receipt")
    if receipt is None:
        return answer
    answer["state"] = Mark.PURGED.wire
    results: list[PurgeOutcome] = []
    seq = receipt["seq"]
    while len(results) < min(answer["count"], RESULTS_TOLD + 1):
        record = building.view.record(seq)
        if record is None or not isinstance(record.event, events.Purged):
            raise DamagedRecord(seq, "event")
        event = record.event
        results += [outcome(target, building.tenant_name, record.at_ms, event) for target in event.targets]
        seq += 1
    answer["results"], answer["results_cut"] = results[:RESULTS_TOLD], len(results) > RESULTS_TOLD
    return answer

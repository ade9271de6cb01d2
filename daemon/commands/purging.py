"""purge: what was sealed for some memories is made unreadable for good (contract ERASURE §2).

The command decides which memories go and which keys, and says so in PURGE records of at most a thousand memories each;
the writer commits them in a batch of their own and destroys the keys. Nothing of a purge that is refused is done: one
memory under hold, also a copy or one that a cascade reached, or that words which would go are about, refuses the whole
call. What is purged already is told as such, and purged no second time; what can't be read is told, and left. A session
goes with its last memory; one that has none, when it alone is selected. MAINTENANCE doesn't keep anybody from it.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from daemon import limits
from daemon.cascading import Going
from daemon.commands import keys
from daemon.commands.building import Building
from daemon.decision import Draft
from daemon.erasing import Erased, IsShredded, Piece, held_among, plan
from daemon.prepare import UNSET, parse_memory
from daemon.purge_told import RESULTS_TOLD, EpochOf, Telling, outcome, totals
from daemon.refusal import Reason, Refused
from daemon.selections import Fields, Resolved, changed, digest_of_all, open_half, require_unchanged
from daemon.wire.erasure_results import PurgeOutcome
from journal import events
from journal.codes import Cascade, Mark, Part, ProposalStatus, PurgeReason
from journal.errors import DamagedRecord, PartUnreadable
from journal.events import Ref, SealedPart
from journal.fingerprints import seal_fingerprints
from journal.tsid import format_tsid, memory_ref
from projections.workingset import Gone, text_hash

WORDS_OF_HELD = "words about what is held would go with it; nothing was done"


class ToPurge(NamedTuple):
    """What a purge needs of the store beside its view. `fingerprint_key` is new, and random. `note_damage` is told of
    each record that can't be read. `resolved`: what a selection means; None: ids are given."""

    hash_key: bytes
    fingerprint_key: bytes
    file_system: str
    is_shredded: IsShredded
    epoch_of: EpochOf
    note_damage: Callable[[DamagedRecord], None]
    resolved: Resolved | None = None


def named(params: Any) -> list[Ref]:
    """The memories that are asked for by their ids, each once. Raises Refused."""
    return list(dict.fromkeys(parse_memory("ids", ref) for ref in params.ids))


def nothing() -> None:
    """The step of whoever wants to hear of none."""


def purge(building: Building, params: Any, to_purge: ToPurge) -> dict[str, Any]:
    """Add the drafts of a purge; its result. Raises Refused: `legal_hold`, and `conflict` for a stale token; and
    DamagedRecord when nothing that is asked for can be read."""
    asked = _asked(building, params, to_purge)
    view = building.view
    going = Going(view.state, view.record, Cascade[params.cascade.upper()], nothing)
    if building.tenant:
        going.walk(tsid for _, tsid in _there(building, asked))
    resolved = to_purge.resolved
    if resolved is not None and digest_of_all(going.rows) != resolved.token.touched:
        raise changed(len(going.rows))
    refuse_held(held_among(going.rows.items()))
    session = 0 if resolved is None else session_alone(params, resolved.fields)
    planned = plan(view.state, view.record, going, to_purge.is_shredded, session)
    refuse_held(planned.held, WORDS_OF_HELD)
    for error in going.unreadable.values():
        to_purge.note_damage(error)
    purged, outcomes, gone = Purging(building, params, to_purge, going).draft(planned.pieces)
    if purged:
        building.learn().gone = gone
    telling = _telling(building, to_purge, going.unreadable, slots_of(purged), going)
    before = telling.before(asked)
    results, cut = telling.results(asked, outcomes)
    receipt = None if not purged else {"epoch": view.state.head.epoch, "seq": view.next_seq}
    return {
        "results": results, "results_cut": cut, "totals": totals(purged, before), "receipt": receipt,
        "count": len(going.rows), "dry_run": False, "sessions": _session_refs(building, purged),
    }  # fmt: skip


def _session_refs(building: Building, purged: list[events.Purged]) -> list[str]:
    numbers = [number for event in purged for number in event.sessions]
    return [f"session:{format_tsid(building.view.session(number).id)}" for number in numbers[:RESULTS_TOLD]]


def _telling(
    building: Building, to_purge: ToPurge, unreadable: dict[int, DamagedRecord], slots: frozenset[int] = frozenset(),
    going: Going | None = None,
) -> Telling:  # fmt: skip
    """`slots` and `going`: what goes by the purge that is told."""
    view, tenant = building.view, building.tenant
    going = going or Going(view.state, view.record, Cascade.NONE, nothing)
    return Telling(
        view.state, view.record, lambda tsid: view.memory(tenant, tsid) if tenant else None, building.tenant_name,
        to_purge.file_system, to_purge.epoch_of, unreadable,
        lambda slot: slot in slots or to_purge.is_shredded(slot), lambda tsid: not going.goes(tsid),
    )  # fmt: skip


def slots_of(purged: list[events.Purged]) -> frozenset[int]:
    """The slots that a purge destroys."""
    return frozenset(part.slot for event in purged for part in event.parts)


def refuse_held(held: list[Ref], message: str = "what is held can't be purged; nothing was done") -> None:
    if held:
        told_ids = [memory_ref(*ref) for ref in held[: limits.DOWNSTREAM_TOLD]]
        raise Refused(Reason.LEGAL_HOLD, message, ids=told_ids, current=len(held))


def session_alone(params: Any, fields: Fields | None) -> int:
    """The number of the session that a selection is about and nothing else; 0 when it is not."""
    given = [name for name in params.sel.__struct_fields__ if getattr(params.sel, name) is not UNSET]
    return 0 if fields is None or given != ["session"] else fields.session or 0


def _asked(building: Building, params: Any, to_purge: ToPurge) -> list[Ref]:
    """The memories that are named, or selected: these are all there. Raises Refused."""
    resolved = to_purge.resolved
    if resolved is None:
        if params.ids is UNSET:  # the key was known when it was asked for, and isn't: a restore lies between
            raise changed()
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


class Purging:
    """The drafts of one purge."""

    def __init__(self, building: Building, params: Any, to_purge: ToPurge, going: Going) -> None:
        self._building, self._params, self._to_purge, self._going = building, params, to_purge, going
        self._key = to_purge.fingerprint_key if params.block_reingest else None
        self._texts: list[bytes] = []
        self._slots: set[int] = set()

    def draft(self, pieces: list[Piece]) -> tuple[list[events.Purged], dict[int, PurgeOutcome], Gone]:
        """Raises DamagedRow, DamagedRecord."""
        building, view = self._building, self._building.view
        purged: list[events.Purged] = []
        outcomes: dict[int, PurgeOutcome] = {}
        closing: list[int] = []
        waiting: list[int] = []
        gone = Gone()
        for piece in pieces:
            event = self._event(piece)
            building.add(Draft(event))
            purged.append(event)
            closing += event.sessions
            waiting += event.proposals
            gone = gone.and_also(Gone((), frozenset(piece.sessions), frozenset(piece.entities)))
            for target in event.targets[: RESULTS_TOLD + 1 - len(outcomes)]:
                outcomes[target.id] = outcome(target, building.tenant_name, view.now_ms, event)
        self._reject(waiting)
        self._close(closing)
        return purged, outcomes, gone._replace(texts=tuple(self._texts), slots=frozenset(self._slots))

    def _event(self, piece: Piece) -> events.Purged:
        targets: list[events.PurgeTarget] = []
        blocked: dict[bytes, None] = {}
        for each in piece.erased:
            mark = self._read_text(each)
            if mark is not None:
                blocked[mark] = None
            targets.append(msgspec.structs.replace(each.target, is_fingerprinted=mark is not None))
        self._learn_blocked(blocked)
        sealed = seal_fingerprints(self._to_purge.hash_key, self._key, blocked) if self._key and blocked else ()
        return events.Purged(
            targets=tuple(targets), parts=tuple(piece.parts),
            reason=int(PurgeReason[self._params.reason.upper()]), cascade=int(Cascade[self._params.cascade.upper()]),
            sessions=tuple(piece.sessions), proposals=tuple(piece.proposals), entities=tuple(piece.entities),
            fingerprint_key=self._key if blocked else None, fingerprints=sealed,
            file_system=self._to_purge.file_system, tenant_name=self._building.tenant_name,
        )  # fmt: skip

    def _learn_blocked(self, found_by: Iterable[bytes]) -> None:
        for each in found_by:
            self._building.learn().blocked.setdefault(self._building.tenant, set()).add(each)

    def _read_text(self, erased: Erased) -> bytes | None:
        """Its text is opened a last time: what it is found by is forgotten, and kept out when that is asked for. What
        is kept out, None when nothing is."""
        part = erased.text or (self._text_of(erased) if self._key is not None else None)
        if part is None:
            return None
        try:
            text = self._building.view.unseal(part)
        except PartUnreadable:
            self._slots.add(part.slot)
            return None
        found_by = text_hash(self._to_purge.hash_key, self._building.tenant_name, text)
        if erased.text is not None:
            self._texts.append(found_by)
        return None if self._key is None else found_by

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


def digested(params: Any) -> Any:
    """What of a purge or a cohort makes it another request. Not the selection, which may say what the memories said,
    nor what is made from it: the open half of its token says which memories it found."""
    if params.sel is UNSET:
        return params
    token = UNSET if params.token is UNSET else base64.urlsafe_b64encode(open_half(params.token)).decode()
    return msgspec.structs.replace(params, sel=UNSET, token=token)


def keyed_draft(key: bytes, digest: bytes, result: dict[str, Any]) -> Draft:
    """The event that keeps the answer of a purge: the records that it speaks of tell the results. It names no memory,
    so that its digest stays."""
    return keys.keyed_draft(key, digest, {**result, "results": []}, (), ())


def again(building: Building, params: Any, to_purge: ToPurge | None, answer: dict[str, Any]) -> dict[str, Any]:
    """An answer that was kept, with its results from the records."""
    assert to_purge is not None
    outcomes: dict[int, PurgeOutcome] = {}
    if answer["receipt"] is not None:
        answer["state"] = Mark.PURGED.wire
        outcomes = _done(building, answer["receipt"]["seq"], answer["count"])
    asked = named(params) if params.sel is UNSET else [_ref_of(each) for each in outcomes.values()]
    answer["results"], cut = _telling(building, to_purge, {}).results(asked, outcomes)
    answer["results_cut"] = cut or answer["results_cut"]
    answer.setdefault("sessions", [])
    return answer


def _done(building: Building, seq: int, count: int) -> dict[int, PurgeOutcome]:
    """What the records from `seq` on did, of which a few more are read than are told. Raises DamagedRecord."""
    outcomes: dict[int, PurgeOutcome] = {}
    while len(outcomes) < min(count, RESULTS_TOLD + 1):
        record = building.view.record(seq)
        if record is None or not isinstance(record.event, events.Purged):
            raise DamagedRecord(seq, "event")
        event = record.event
        for target in event.targets[: RESULTS_TOLD + 1 - len(outcomes)]:
            outcomes[target.id] = outcome(target, building.tenant_name, record.at_ms, event)
        seq += 1
    return outcomes


def _ref_of(told: PurgeOutcome) -> Ref:
    return parse_memory("ids", told.memory)

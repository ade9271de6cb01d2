"""The event of a new memory, from a prepared `remember` and what was decided about it."""

from __future__ import annotations

from typing import Any, NamedTuple

from daemon.commands.preparation import Prepared
from daemon.prepare import UNSET, Sources
from daemon.view import View
from journal import events
from journal.codes import ExternalKind, ExternalUse, ImportanceBy, Kind, Note
from projections.kinds import KINDS, PROTECTED_GOALS

_DEFAULT, _CLIENT = int(ImportanceBy.DEFAULT), int(ImportanceBy.CLIENT)
_DERIVED_FROM, _EVIDENCE, _SOURCE = int(ExternalUse.DERIVED_FROM), int(ExternalUse.EVIDENCE), int(ExternalUse.SOURCE)


class Decided(NamedTuple):
    """What admitting adds to a prepared memory: its numbers and places."""

    tsid: int
    slot: int
    subtype: int
    partition: int
    session: int
    turn: int
    producer: int
    sources: tuple[events.Ref, ...]
    evidence: tuple[events.Ref, ...]
    entities: tuple[int, ...]
    notes: tuple[Note, ...]
    rows: tuple[events.RegionRow, ...] = ()
    self_scoped: bool = False
    quoted_from: tuple[int, ...] = ()


def creating_event(prepared: Prepared, decided: Decided, view: View) -> events.MemoryCreated:
    """The event; its sealed parts are put in when it is admitted."""
    params = prepared.params
    kind = prepared.kind
    importance = params.importance
    occurred = prepared.occurred
    origin = prepared.origin
    assert origin is not None
    return events.MemoryCreated(
        id=decided.tsid,
        slot=decided.slot,
        kind=int(kind),
        subtype=decided.subtype,
        origin=int(origin),
        partition=decided.partition,
        session=decided.session,
        turn=decided.turn,
        role=int(prepared.role),
        producer=decided.producer,
        sources=decided.sources,
        evidence=decided.evidence,
        externals=_externals(prepared),
        importance=1.0 if importance is UNSET else importance,
        importance_by=_DEFAULT if importance is UNSET else _CLIENT,
        confidence=KINDS[kind].confidence if params.confidence is UNSET else params.confidence,
        valence=0.0 if params.valence is UNSET else params.valence,
        arousal=0.0 if params.arousal is UNSET else params.arousal,
        hints=_hints(params),
        protected=_is_protected(prepared, decided.subtype),
        entities=decided.entities,
        facts=tuple([events.FactHead(view.new_tsid(), *fact) for fact in prepared.facts]),
        quoted_from=decided.quoted_from,
        imported=prepared.imported,
        occurred_at=occurred[0] if occurred else None,
        occurred_offset=occurred[1] if occurred else None,
        valid_from=prepared.valid_from,
        valid_to=prepared.valid_to,
        key=prepared.key,
        notes=tuple([int(note) for note in decided.notes]),
        rows=decided.rows,
        self_scoped=decided.self_scoped,
    )


def _hints(params: Any) -> tuple[float | None, float | None, float | None] | None:
    hints = (params.interest, params.challenge, params.urgency)
    if hints == (UNSET, UNSET, UNSET):
        return None
    interest, challenge, urgency = (None if hint is UNSET else hint for hint in hints)
    return interest, challenge, urgency


def _is_protected(prepared: Prepared, subtype: int) -> bool:
    if prepared.params.protected is not UNSET:
        return bool(prepared.params.protected)
    if KINDS[prepared.kind].protected:
        return True
    return prepared.kind is Kind.GOAL and subtype in PROTECTED_GOALS


def externals_of(use: int, sources: Sources) -> tuple[events.External, ...]:
    """What of a list of sources lies outside the store; their ids are sealed."""
    if not sources.externals:
        return ()
    return tuple([events.External(use, kind, resolvable) for kind, resolvable, _ in sources.externals])


def _externals(prepared: Prepared) -> tuple[events.External, ...]:
    found = [*externals_of(_DERIVED_FROM, prepared.sources), *externals_of(_EVIDENCE, prepared.evidence)]
    source = prepared.params.source
    if source is not UNSET:
        resolvable = True if source.resolvable is UNSET else source.resolvable
        found.append(events.External(_SOURCE, int(ExternalKind.from_wire(source.kind)), resolvable))
    return tuple(found)

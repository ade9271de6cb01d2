"""The event of a new memory and the plaintext of its sealed parts, from a prepared `remember`."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from daemon.prepare import UNSET, Sources, parse_time
from journal import events
from journal.codes import ExternalKind, ExternalUse, ImportanceBy, Kind, Note, Origin, Part, Role, Via
from journal.particulars import Particulars, Vector, encode
from projections.kinds import KINDS, PROTECTED_GOALS

TEXT, PARTICULARS, VECTOR = int(Part.TEXT), int(Part.PARTICULARS), int(Part.VECTOR)


class Prepared(NamedTuple):
    """A `remember` that is ready to be admitted."""

    params: Any
    kind: Kind
    subtype: int | None
    origin: Origin | None
    role: Role
    sources: Sources
    evidence: Sources
    session: int
    session_key: tuple[str, str] | None
    occurred: tuple[int, int] | None
    valid_from: int | None
    valid_to: int | None
    text: bytes
    key: bytes | None
    digest: bytes | None
    via: Via


def given(value: Any) -> Any:
    return () if value is UNSET else value


def creating_event(
    prepared: Prepared, tsid: int, view: Any, kind: Kind, subtype: int, session: int, turn: int, producer: int,
    sources: tuple[tuple[int, int], ...], evidence: tuple[tuple[int, int], ...], entities: tuple[int, ...],
    partition: int, notes: tuple[Note, ...],
) -> events.MemoryCreated:  # fmt: skip
    params = prepared.params
    rule = KINDS[kind]
    protected = rule.protected or params.protected is True
    if kind is Kind.GOAL and subtype in PROTECTED_GOALS:
        protected = True
    importance = params.importance
    hints = (params.interest, params.challenge, params.urgency)
    occurred = prepared.occurred
    origin = prepared.origin
    assert origin is not None
    imported = params.imported
    return events.MemoryCreated(
        id=tsid,
        slot=view.numbers.slot,
        kind=int(kind),
        subtype=subtype,
        origin=int(origin),
        partition=partition,
        session=session,
        turn=turn,
        role=int(prepared.role),
        producer=producer,
        sources=sources,
        evidence=evidence,
        externals=_externals(prepared),
        importance=1.0 if importance is UNSET else importance,
        importance_by=int(ImportanceBy.DEFAULT if importance is UNSET else ImportanceBy.CLIENT),
        confidence=rule.confidence if params.confidence is UNSET else params.confidence,
        valence=0.0 if params.valence is UNSET else params.valence,
        arousal=0.0 if params.arousal is UNSET else params.arousal,
        hints=None if hints == (UNSET, UNSET, UNSET) else (_or_none(hints[0]), _or_none(hints[1]), _or_none(hints[2])),
        protected=protected,
        entities=entities,
        facts=_facts(params, view),
        imported=None if imported is UNSET else (imported.format, _imported_at(imported)),
        occurred_at=occurred[0] if occurred else None,
        occurred_offset=occurred[1] if occurred else None,
        valid_from=prepared.valid_from,
        valid_to=prepared.valid_to,
        key=prepared.key,
        notes=tuple(int(note) for note in notes),
    )


def _or_none(value: Any) -> Any:
    return None if value is UNSET else value


def _imported_at(imported: Any) -> int | None:
    created_at = imported.created_at
    return None if created_at is UNSET else parse_time("imported.created_at", created_at)[0]


def _externals(prepared: Prepared) -> tuple[events.External, ...]:
    found = [
        events.External(int(use), kind, resolvable)
        for use, sources in (
            (ExternalUse.DERIVED_FROM, prepared.sources),
            (ExternalUse.EVIDENCE, prepared.evidence),
        )
        for kind, resolvable, _ in sources.externals
    ]
    source = prepared.params.source
    if source is not UNSET:
        resolvable = True if source.resolvable is UNSET else source.resolvable
        found.append(events.External(int(ExternalUse.SOURCE), int(ExternalKind.from_wire(source.kind)), resolvable))
    return tuple(found)


def _facts(params: Any, view: Any) -> tuple[events.FactHead, ...]:
    return tuple(
        events.FactHead(
            view.new_tsid(),
            _or_none(fact.confidence),
            None if fact.valid_from is UNSET else parse_time("facts", fact.valid_from)[0],
            None if fact.valid_to is UNSET else parse_time("facts", fact.valid_to)[0],
        )
        for fact in given(params.facts)
    )


def sealed_plaintexts(prepared: Prepared) -> tuple[tuple[int, bytes], ...]:
    params = prepared.params
    external_ids = tuple(e[2] for e in prepared.sources.externals + prepared.evidence.externals)
    if params.source is not UNSET:
        external_ids += (params.source.id,)
    metadata = params.metadata
    particulars = Particulars(
        topic=_or_none(params.topic),
        tags=tuple(given(params.tags)),
        entities=tuple((e.name, e.type) for e in given(params.entities)),
        speaker=_or_none(params.speaker),
        subject=_or_none(params.subject),
        project=_or_none(params.project),
        source_entity=_or_none(params.source_entity),
        metadata=None if metadata is UNSET else bytes(metadata),
        externals=external_ids,
        facts=tuple((f.subject, f.predicate, f.value) for f in given(params.facts)),
        foreign_id=None if params.imported is UNSET else _or_none(params.imported.foreign_id),
        request_digest=prepared.digest,
    )
    plain: tuple[tuple[int, bytes], ...] = ()
    if particulars != _NOTHING:
        plain = ((PARTICULARS, encode(particulars)),)
    if params.vector is not UNSET:
        values = params.vector.values
        packed = struct.pack(f"<{len(values)}f", *values)
        plain = (*plain, (VECTOR, encode(Vector(params.vector.model, packed))))
    return plain


_NOTHING = Particulars()

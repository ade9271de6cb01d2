"""remember: one new memory with its whole lineage.

`prepare` needs no store, `decide` is pure. The rules are those of contract §4.2-§4.5, §4.7 and §4.8.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from daemon.commands.building import Building
from daemon.commands.keys import answer_memory
from daemon.decision import Draft
from daemon.prepare import (
    UNSET,
    Sources,
    invalid,
    key_hash,
    parse_session,
    parse_sources,
    parse_time,
    request_digest,
)
from daemon.refusal import Reason, Refused
from journal import events
from journal.codes import (
    ExternalKind,
    ExternalUse,
    ImportanceBy,
    Kind,
    Mark,
    Note,
    Origin,
    Part,
    Role,
    SessionCause,
    TenantState,
    Via,
    subtype_code,
)
from journal.particulars import Particulars, Vector, encode
from journal.tsid import format_tsid, memory_ref, parse_memory_ref
from projections.kinds import (
    DEFAULT_SUBTYPE,
    KINDS,
    PROTECTED_GOALS,
    ROLE_ORIGIN,
    TURN_SUBTYPE,
)

_TEXT, _PARTICULARS, _VECTOR = int(Part.TEXT), int(Part.PARTICULARS), int(Part.VECTOR)
_KIND = {kind.wire: kind for kind in Kind}
_ORIGIN = {origin.wire: origin for origin in Origin}
_ROLE = {role.wire: role for role in Role if role is not Role.NONE}


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


def prepare(params: Any, tenant: str, via: Via, hash_key: bytes) -> Prepared:
    """Check and canonicalise a request. Raises Refused."""
    kind = _KIND[params.kind]
    subtype = None
    if params.subtype is not UNSET:
        try:
            subtype = subtype_code(kind, params.subtype)
        except KeyError:
            raise invalid("subtype", f"not a subtype of {kind.wire}") from None
    role = Role.NONE if params.role is UNSET else _ROLE[params.role]
    if params.text.isspace() or not params.text:
        raise invalid("text", "a text can't be blank")
    origin = _prepare_origin(params, kind, role, via)
    session, session_key = 0, None
    if params.session is not UNSET:
        if isinstance(params.session, str):
            session = parse_session("session", params.session)
        else:
            session_key = (params.session.agent, params.session.key)
    times = [None if t is UNSET else parse_time(n, t) for n, t in (
        ("occurred_at", params.occurred_at), ("valid_from", params.valid_from), ("valid_to", params.valid_to)
    )]  # fmt: skip
    occurred, valid_from, valid_to = times
    if valid_from and valid_to and valid_to[0] < valid_from[0]:
        raise invalid("valid_to", "valid_to is before valid_from")
    key = digest = None
    if params.idempotency_key is not UNSET:
        key = key_hash(hash_key, tenant, params.idempotency_key)
        digest = request_digest(hash_key, "remember", params)
    return Prepared(
        params, kind, subtype, origin, role,
        parse_sources("derived_from", params.derived_from), parse_sources("evidence", params.evidence),
        session, session_key, occurred, valid_from and valid_from[0], valid_to and valid_to[0],
        params.text.encode(), key, digest, via,
    )  # fmt: skip


def _prepare_origin(params: Any, kind: Kind, role: Role, via: Via) -> Origin | None:
    if params.origin is UNSET:
        if kind is Kind.RAW and role in ROLE_ORIGIN:
            return ROLE_ORIGIN[role]
        raise invalid("origin", "an origin is required; only a turn's role can stand for it")
    origin = _ORIGIN[params.origin]
    if origin is Origin.CONSOLIDATED and not (via is Via.IMPORTER and params.imported is not UNSET):
        raise invalid("origin", "consolidated is what sleep makes; a client can't say it")
    return origin


def decide(building: Building, prepared: Prepared, item_refs: Sequence[tuple[int, int] | None] | None = None) -> dict[str, Any]:
    """Add the drafts of one memory to `building` and return the result. Raises Refused.

    `item_refs` are the memories of the items before this one in a batch, for `@N`.
    """
    view = building.view
    if prepared.key is not None and building.tenant:
        seq = view.answered(building.tenant, prepared.key)
        if seq is not None:
            return answer_memory(view, seq, prepared.digest)
    building.refuse_in_maintenance()
    params = prepared.params
    kind = prepared.kind
    sources = _resolve(building, "derived_from", prepared.sources, item_refs)
    evidence = _resolve(building, "evidence", prepared.evidence, item_refs)
    _check_lineage(building, prepared, sources)
    origin = prepared.origin
    if origin is Origin.STATED and params.producer is not UNSET and params.producer.model is not None:
        _check_stated(building, prepared, sources + evidence)
    building.begin_tenant()
    if origin is not Origin.SEEDED:
        _activate(building)
    session, notes = _attach(building, prepared)
    subtype, turn = _file_turn(building, prepared, session)
    producer = _producer(building, params)
    entities = tuple(
        building.entity(e.name, e.type, msgspec.msgpack.encode([e.name, e.type])) for e in _given(params.entities)
    )
    partition = building.partition(kind)
    view.numbers.slot += 1
    tsid = view.new_tsid()
    seq = building.next_seq
    building.kinds[tsid] = int(kind)
    event = _event(
        prepared, tsid, view, kind, subtype, session, turn, producer, sources, evidence, entities,
        partition, notes,
    )  # fmt: skip
    text_key = view.keyed_hash(b"text", building.tenant.to_bytes(4, "big"), prepared.text)
    shared = building.learned.texts.get(text_key) or view.pending.texts.get(text_key) or view.base.texts.get(text_key)
    plain = _plain(prepared)
    if shared is None:
        plain = ((_TEXT, prepared.text), *plain)
    building.add(Draft(event, plain, (shared,) if shared is not None else ()))
    building.fresh_texts.append((seq, text_key))
    return {
        "id": memory_ref(kind, tsid),
        "address": {"epoch": view.state.head.epoch, "seq": seq},
        "duplicate": False,
        "session": f"session:{format_tsid(building.session(session).id)}" if session else None,
        "turn": turn or None,
        "notes": [note.wire for note in notes],
    }


def _given(value: Any) -> Any:
    return () if value is UNSET else value


def _resolve(
    building: Building, parameter: str, sources: Sources, item_refs: Sequence[tuple[int, int] | None] | None
) -> tuple[tuple[int, int], ...]:
    refs = list(sources.refs)
    for place in sources.within:
        if item_refs is None or place >= len(item_refs):
            raise invalid(parameter, f"@{place} is not an item before this one")
        earlier = item_refs[place]
        if earlier is None:
            raise Refused(Reason.PROVENANCE, f"@{place} was refused itself", parameter=parameter)
        refs.append(earlier)
    for kind, tsid in refs:
        known = building.kinds.get(tsid)
        if known is None:
            row = building.view.memory(building.tenant, tsid) if building.tenant else None
            if row is None or row.has(Mark.PURGED):
                raise _bad_source(parameter, kind, tsid, "it does not exist" if row is None else "it is purged")
            known = row.kind
        if known != kind:
            raise _bad_source(parameter, kind, tsid, "it does not exist")
    return tuple(refs)


def _bad_source(parameter: str, kind: int, tsid: int, why: str) -> Refused:
    ref = memory_ref(kind, tsid)
    return Refused(Reason.PROVENANCE, f"{ref} can't be a source: {why}", parameter=parameter, ids=[ref])


def _check_lineage(building: Building, prepared: Prepared, sources: tuple[tuple[int, int], ...]) -> None:
    tenant = building.tenant_row()
    if tenant is not None and not tenant.enforce:
        return
    kind = prepared.kind
    allowed = KINDS[kind].sources
    for source_kind, tsid in sources:
        if source_kind not in allowed:
            raise _bad_source("derived_from", source_kind, tsid, f"a {kind.wire} can't derive from it")
    seeding = prepared.origin is Origin.SEEDED and (tenant is None or tenant.state == TenantState.INITIALIZING)
    if allowed and not sources and not seeding:
        raise Refused(
            Reason.PROVENANCE,
            f"a {kind.wire} must derive from at least one {' or '.join(sorted(k.wire for k in allowed))}",
            parameter="derived_from", allowed=sorted(k.wire for k in allowed),
        )  # fmt: skip
    has_external = any(e[0] != ExternalKind.CONTEXT for e in prepared.sources.externals)
    only_context = prepared.sources.externals and not has_external
    if only_context and not sources:
        raise Refused(
            Reason.PROVENANCE, "an annotation never stands alone", parameter="derived_from"
        )


def _check_stated(building: Building, prepared: Prepared, refs: tuple[tuple[int, int], ...]) -> None:
    """A model says that the subject said so: the words must stand in one live user turn that is named."""
    if prepared.kind is Kind.RAW and prepared.role is Role.USER:
        return
    words = " ".join(prepared.params.text.split())
    view = building.view
    for _, tsid in refs:
        row = view.state.memory(tsid)
        if row is None or row.role != Role.USER or row.dead or not row.turn:
            continue
        record = view.record(row.seq)
        if record is None or not isinstance(record.event, events.MemoryCreated):
            continue
        spoken = view.unseal(record.event.parts[0]).decode()
        if words in " ".join(spoken.split()):
            return
    raise Refused(
        Reason.PROVENANCE, "a model can't say `stated` unless the words stand in a user turn that is named",
        parameter="origin", hint="inferred",
    )  # fmt: skip


def _activate(building: Building) -> None:
    row = building.tenant_row()
    if row is not None and row.state == TenantState.INITIALIZING:
        building.change_tenant(TenantState.ACTIVE, None)


def _attach(building: Building, prepared: Prepared) -> tuple[int, tuple[Note, ...]]:
    """`(session number or 0, notes)`: the session a write belongs to (contract §4.8)."""
    number = 0
    if prepared.session:
        found = building.view.session_number(building.tenant, prepared.session)
        if found is None:
            raise Refused(Reason.NOT_FOUND, "no such session", parameter="session")
        number = found
    elif prepared.session_key is not None:
        agent, key = prepared.session_key
        number, hashed = building.find_session(agent, key)
        if not number:
            number, _ = building.open_session(agent, key, hashed, building.view.now_ms, 0, None)
            return number, ()
    else:
        producer = prepared.params.producer
        if producer is UNSET or producer.agent is None:
            return 0, ()
        live = building.live_sessions(producer.agent)
        return (live[0], (Note.SESSION_ATTACHED,)) if len(live) == 1 else (0, ())
    row = building.session(number)
    if row.closed_at >= 0:
        return 0, (Note.SESSION_CLOSED,)
    if building.is_stale(row):
        building.revive(number, SessionCause.WRITE, building.view.now_ms)
        return number, (Note.SESSION_REVIVED,)
    return number, ()


def _file_turn(building: Building, prepared: Prepared, session: int) -> tuple[int, int]:
    """`(subtype, turn or 0)`: only a raw turn in a session is numbered."""
    subtype = prepared.subtype
    if prepared.kind is not Kind.RAW:
        return (DEFAULT_SUBTYPE[prepared.kind] if subtype is None else subtype), 0
    if subtype is None:
        subtype = TURN_SUBTYPE if session else DEFAULT_SUBTYPE[Kind.RAW]
    if subtype != TURN_SUBTYPE:
        return subtype, 0
    if session:
        return subtype, building.next_turn(session)
    if prepared.session or prepared.session_key:
        return DEFAULT_SUBTYPE[Kind.RAW], 0
    raise invalid("subtype", "a turn has a session")


def _producer(building: Building, params: Any) -> int:
    producer = params.producer
    if producer is UNSET:
        return 0
    return building.producer(producer.agent, producer.model, producer.version, producer.extractor)


def _event(
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
        hints=None
        if hints == (UNSET, UNSET, UNSET)
        else (_or_none(hints[0]), _or_none(hints[1]), _or_none(hints[2])),
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
        found.append(
            events.External(int(ExternalUse.SOURCE), int(ExternalKind.from_wire(source.kind)), resolvable)
        )
    return tuple(found)


def _facts(params: Any, view: Any) -> tuple[events.FactHead, ...]:
    return tuple(
        events.FactHead(
            view.new_tsid(),
            _or_none(fact.confidence),
            None if fact.valid_from is UNSET else parse_time("facts", fact.valid_from)[0],
            None if fact.valid_to is UNSET else parse_time("facts", fact.valid_to)[0],
        )
        for fact in _given(params.facts)
    )


def _plain(prepared: Prepared) -> tuple[tuple[int, bytes], ...]:
    params = prepared.params
    external_ids = tuple(e[2] for e in prepared.sources.externals + prepared.evidence.externals)
    if params.source is not UNSET:
        external_ids += (params.source.id,)
    metadata = params.metadata
    particulars = Particulars(
        topic=_or_none(params.topic),
        tags=tuple(_given(params.tags)),
        entities=tuple((e.name, e.type) for e in _given(params.entities)),
        speaker=_or_none(params.speaker),
        subject=_or_none(params.subject),
        project=_or_none(params.project),
        source_entity=_or_none(params.source_entity),
        metadata=None if metadata is UNSET else bytes(metadata),
        externals=external_ids,
        facts=tuple((f.subject, f.predicate, f.value) for f in _given(params.facts)),
        foreign_id=None if params.imported is UNSET else _or_none(params.imported.foreign_id),
        request_digest=prepared.digest,
    )
    plain: tuple[tuple[int, bytes], ...] = ()
    if particulars != _NOTHING:
        plain = ((_PARTICULARS, encode(particulars)),)
    if params.vector is not UNSET:
        values = params.vector.values
        packed = struct.pack(f"<{len(values)}f", *values)
        plain = (*plain, (_VECTOR, encode(Vector(params.vector.model, packed))))
    return plain


_NOTHING = Particulars()


def ref_of(result: dict[str, Any]) -> tuple[int, int]:
    """The memory that a result of `decide` names."""
    return parse_memory_ref(result["id"])

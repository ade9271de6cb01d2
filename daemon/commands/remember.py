"""remember: one new memory with its whole lineage.

`prepare` needs no store, `decide` is pure. The rules are those of contract §4.2-§4.5, §4.7 and §4.8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from daemon.commands.building import Building
from daemon.commands.creation import TEXT, Prepared, creating_event, given, sealed_plaintexts
from daemon.commands.keys import answer_memory, same_command
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
    Kind,
    Mark,
    Note,
    Origin,
    Role,
    SessionCause,
    TenantState,
    Via,
    subtype_code,
)
from journal.tsid import format_tsid, memory_ref, parse_memory_ref
from projections.kinds import (
    DEFAULT_SUBTYPE,
    KINDS,
    ROLE_ORIGIN,
    TURN_SUBTYPE,
)

_KIND = {kind.wire: kind for kind in Kind}
_ORIGIN = {origin.wire: origin for origin in Origin}
_ROLE = {role.wire: role for role in Role if role is not Role.NONE}


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
            if not session:
                raise Refused(Reason.NOT_FOUND, "no such session", parameter="session")
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


def decide(
    building: Building, prepared: Prepared, item_refs: Sequence[tuple[int, int] | None] | None = None
) -> dict[str, Any]:
    """Add the drafts of one memory to `building` and return the result. Raises Refused.

    `item_refs` are the memories of the items before this one in a batch, for `@N`.
    """
    view = building.view
    if prepared.key is not None and building.tenant:
        seq = view.answered(building.tenant, prepared.key)
        if seq is not None:
            return answer_memory(view, seq, prepared.digest)
    earlier = building.keys.get(prepared.key) if prepared.key is not None else None
    if earlier is not None:
        return same_command(earlier, prepared.digest)
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
        building.entity(e.name, e.type, msgspec.msgpack.encode([e.name, e.type])) for e in given(params.entities)
    )
    partition = building.partition(kind)
    view.numbers.slot += 1
    tsid = view.new_tsid()
    seq = building.next_seq
    building.kinds[tsid] = int(kind)
    event = creating_event(
        prepared, tsid, view, kind, subtype, session, turn, producer, sources, evidence, entities,
        partition, notes,
    )  # fmt: skip
    text_key = view.keyed_hash(b"text", building.tenant.to_bytes(4, "big"), prepared.text)
    shared = building.learned.texts.get(text_key) or view.pending.texts.get(text_key) or view.base.texts.get(text_key)
    plain = sealed_plaintexts(prepared)
    if shared is None:
        plain = ((TEXT, prepared.text), *plain)
    building.add(Draft(event, plain, (shared,) if shared is not None else ()))
    building.fresh_texts.append((seq, text_key))
    result = {
        "id": memory_ref(kind, tsid),
        "address": {"epoch": view.state.head.epoch, "seq": seq},
        "duplicate": False,
        "session": f"session:{format_tsid(building.session(session).id)}" if session else None,
        "turn": turn or None,
        "notes": [note.wire for note in notes],
    }
    if prepared.key is not None:
        building.keys[prepared.key] = (prepared.digest, result)
    return result


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
        raise Refused(Reason.PROVENANCE, "an annotation never stands alone", parameter="derived_from")


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


def ref_of(result: dict[str, Any]) -> tuple[int, int]:
    """The memory that a result of `decide` names."""
    return parse_memory_ref(result["id"])

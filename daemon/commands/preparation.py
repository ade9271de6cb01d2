"""A `remember` made ready: everything about a new memory that needs no store.

What comes out holds canonical times, references taken apart, keyed hashes of the names it will be found by,
and the particulars as they will be sealed. It may be made on any thread; only admitting has an order.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from daemon.prepare import (
    UNSET,
    NaturalKey,
    Sources,
    invalid,
    key_hash,
    natural_key,
    pack_name,
    parse_session,
    parse_sources,
    parse_time,
    request_digest,
)
from daemon.refusal import Reason, Refused
from journal.codes import SUBTYPES, Kind, Origin, Role, Via, subtype_code
from journal.particulars import Particulars, Vector, encode
from projections.kinds import ROLE_ORIGIN
from projections.workingset import entity_hash, text_hash

_KIND = {kind.wire: kind for kind in Kind}
_ORIGIN = {origin.wire: origin for origin in Origin}
_ROLE = {role.wire: role for role in Role if role is not Role.NONE}


class FactTerms(NamedTuple):
    """What of a fact stands open in the record: confidence, and when it holds (UTC ms)."""

    confidence: float | None
    valid_from: int | None
    valid_to: int | None


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
    session_key: NaturalKey | None
    occurred: tuple[int, int] | None
    valid_from: int | None
    valid_to: int | None
    text: bytes
    text_hash: bytes
    entities: tuple[tuple[bytes, bytes], ...]  # (plaintext of the name, what it is found by)
    facts: tuple[FactTerms, ...]
    imported: tuple[str, int | None] | None
    particulars: Particulars
    vector: bytes | None
    key: bytes | None
    digest: bytes | None
    via: Via


def prepare(params: Any, tenant: str, via: Via, hash_key: bytes) -> Prepared:
    """Check and canonicalise a request. Raises Refused."""
    kind = _KIND[params.kind]
    role = Role.NONE if params.role is UNSET else _ROLE[params.role]
    if params.text.isspace() or not params.text:
        raise invalid("text", "a text can't be blank")
    text = params.text.encode()
    session, session_key = _prepare_session(params, tenant, hash_key)
    valid_from, valid_to = _prepare_validity("", params)
    facts, imported = _prepare_facts(params), _prepare_imported(params)
    key = digest = None
    if params.idempotency_key is not UNSET:
        key = key_hash(hash_key, tenant, params.idempotency_key)
        digest = request_digest(hash_key, "remember", params)
    sources = parse_sources("derived_from", params.derived_from)
    evidence = parse_sources("evidence", params.evidence)
    return Prepared(
        params, kind, _prepare_subtype(params, kind), _prepare_origin(params, kind, role, via), role,
        sources, evidence, session, session_key,
        None if params.occurred_at is UNSET else parse_time("occurred_at", params.occurred_at),
        valid_from, valid_to, text, text_hash(hash_key, tenant, text),
        _prepare_entities(params, tenant, hash_key), facts, imported,
        _particulars(params, sources, evidence, digest), _prepare_vector(params), key, digest, via,
    )  # fmt: skip


def _given(value: Any) -> Any:
    return () if value is UNSET else value


def _or_none(value: Any) -> Any:
    return None if value is UNSET else value


def _prepare_subtype(params: Any, kind: Kind) -> int | None:
    if params.subtype is UNSET:
        return None
    try:
        return subtype_code(kind, params.subtype)
    except KeyError:
        raise invalid("subtype", f"not a subtype of {kind.wire}", allowed=list(SUBTYPES[kind])) from None


def _prepare_origin(params: Any, kind: Kind, role: Role, via: Via) -> Origin | None:
    if params.origin is UNSET:
        if kind is Kind.RAW and role in ROLE_ORIGIN:
            return ROLE_ORIGIN[role]
        raise invalid("origin", "an origin is required; only a turn's role can stand for it")
    origin = _ORIGIN[params.origin]
    if origin is Origin.CONSOLIDATED and not (via is Via.IMPORTER and params.imported is not UNSET):
        raise invalid("origin", "consolidated is what sleep makes; a client can't say it")
    return origin


def _prepare_session(params: Any, tenant: str, hash_key: bytes) -> tuple[int, NaturalKey | None]:
    session = params.session
    if session is UNSET:
        return 0, None
    if not isinstance(session, str):
        return 0, natural_key(hash_key, tenant, session.agent, session.key)
    tsid = parse_session("session", session)
    if not tsid:
        raise Refused(Reason.NOT_FOUND, "no such session", parameter="session")
    return tsid, None


def _prepare_validity(prefix: str, holder: Any) -> tuple[int | None, int | None]:
    """`(valid_from, valid_to)` in UTC ms of a memory or a fact."""
    start, end = holder.valid_from, holder.valid_to
    if start is UNSET and end is UNSET:
        return None, None
    valid_from = None if start is UNSET else parse_time(f"{prefix}valid_from", start)[0]
    valid_to = None if end is UNSET else parse_time(f"{prefix}valid_to", end)[0]
    if valid_from is not None and valid_to is not None and valid_to < valid_from:
        raise invalid(f"{prefix}valid_to", "valid_to is before valid_from")
    return valid_from, valid_to


def _prepare_entities(params: Any, tenant: str, hash_key: bytes) -> tuple[tuple[bytes, bytes], ...]:
    names = [pack_name(entity) for entity in _given(params.entities)]
    return tuple((name, entity_hash(hash_key, tenant, name)) for name in names)


def _prepare_facts(params: Any) -> tuple[FactTerms, ...]:
    return tuple(fact_terms("facts.", fact) for fact in _given(params.facts))


def fact_terms(prefix: str, fact: Any) -> FactTerms:
    """What of a fact stands open; `prefix` is where it stands in the request. Raises Refused."""
    return FactTerms(_or_none(fact.confidence), *_prepare_validity(prefix, fact))


def _prepare_imported(params: Any) -> tuple[str, int | None] | None:
    imported = params.imported
    if imported is UNSET:
        return None
    created_at = imported.created_at
    return imported.format, None if created_at is UNSET else parse_time("imported.created_at", created_at)[0]


def _prepare_vector(params: Any) -> bytes | None:
    vector = params.vector
    if vector is UNSET:
        return None
    return encode(Vector(vector.model, struct.pack(f"<{len(vector.values)}f", *vector.values)))


def _particulars(params: Any, sources: Sources, evidence: Sources, digest: bytes | None) -> Particulars:
    external_ids = tuple(external[2] for external in sources.externals + evidence.externals)
    if params.source is not UNSET:
        external_ids += (params.source.id,)
    metadata = params.metadata
    return Particulars(
        topic=_or_none(params.topic),
        tags=tuple(_given(params.tags)),
        entities=tuple([(entity.name, entity.type) for entity in _given(params.entities)]),
        speaker=_or_none(params.speaker),
        subject=_or_none(params.subject),
        project=_or_none(params.project),
        source_entity=_or_none(params.source_entity),
        metadata=None if metadata is UNSET else bytes(metadata),
        externals=external_ids,
        facts=tuple([(fact.subject, fact.predicate, fact.value) for fact in _given(params.facts)]),
        foreign_id=None if params.imported is UNSET else _or_none(params.imported.foreign_id),
        request_digest=digest,
    )

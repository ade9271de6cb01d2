"""revise: a memory gets a successor, or is filed anew (contract §4.5, PROTOCOL §6).

`supersedes` says that it was wrong or has changed, `updates` that it is refined. The successor names its predecessor in
the event that creates it, and the predecessor is closed in the same commit, once. It inherits what the caller doesn't
give, and never what belongs to one telling only: origin, producer, session, confidence, vector, facts, times. The
predecessor stops holding now and the successor begins, so that no moment has both; where the predecessor was to begin
later, then. One that had ended already ended when it did. `move` makes no successor: topic, tags and project are filed
anew. All that one revision says is of one session: that in which it was done. A revision is no turn, so the
successor of a raw memory has none.

Of what a model made, or when it names a model itself, a revision says `stated` only in words that stand in a live user
turn: the one that it revises, one that it stands on, or one that supports it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec.structs import replace

from daemon.commands.attachment import find_session, join, join_only, names_model, noted, producer_of
from daemon.commands.building import Building
from daemon.commands.lineage import check_words, resolve
from daemon.commands.targets import Target, grounds, newest_version, require_alive
from daemon.decision import Draft
from daemon.prepare import UNSET, Sources, invalid, pack_name, parse_sources
from daemon.refusal import Reason, Refused
from journal import events
from journal.codes import EdgeType, ExternalUse, ImportanceBy, Kind, Mark, Note, Origin, Part, subtype_code
from journal.errors import DamagedRecord, PartUnreadable
from journal.events import SealedPart
from journal.particulars import Particulars, decode_particulars, encode
from journal.record import Record
from journal.tsid import memory_ref
from projections import edges, names, provenance
from projections.kinds import DEFAULT_SUBTYPE, KINDS, PROTECTED_GOALS, TURN_SUBTYPE, is_self_scoped
from projections.rows import NO_TIME
from projections.workingset import entity_hash, text_hash

_PARTICULARS = int(Part.PARTICULARS)
_EVIDENCE = int(EdgeType.EVIDENCE)
MOVED_FIELDS = frozenset({"topic", "tags", "project"})


class PreparedRevision(NamedTuple):
    """A `revise` that needs nothing more but the store. Without a text it is a move."""

    params: Any
    origin: Origin | None
    text: bytes | None
    text_hash: bytes
    entities: tuple[tuple[bytes, bytes], ...] | None
    evidence: Sources | None


class Told(NamedTuple):
    """What the predecessor says of itself."""

    event: events.MemoryCreated
    particulars: Particulars


def prepare(params: Any, tenant: str, hash_key: bytes) -> PreparedRevision:
    """Everything that needs no store. Raises Refused."""
    fields = params.fields
    if params.disposition == "move":
        _check_move(params)
        return PreparedRevision(params, None, None, b"", None, None)
    for name in ("text", "origin"):
        if getattr(params, name) is UNSET:
            raise invalid(name, f"a revision that {params.disposition} needs its own")
    origin = Origin[params.origin.upper()]
    if origin is Origin.CONSOLIDATED:
        raise invalid("origin", "consolidated is what sleep makes; a client can't say it")
    text = params.text.encode()
    entities = evidence = None
    if fields is not UNSET and fields.entities is not UNSET:
        names = [pack_name(entity) for entity in fields.entities]
        entities = tuple([(name, entity_hash(hash_key, tenant, name)) for name in names])
    if fields is not UNSET and fields.evidence is not UNSET:
        evidence = parse_sources("fields.evidence", fields.evidence)
    return PreparedRevision(params, origin, text, text_hash(hash_key, tenant, text), entities, evidence)


def _check_move(params: Any) -> None:
    for name in ("text", "origin"):
        if getattr(params, name) is not UNSET:
            raise invalid(name, "a move files anew; it tells nothing")
    given = _given(params.fields)
    if not given:
        raise invalid("fields", "what is it to be filed under?", allowed=sorted(MOVED_FIELDS))
    for name in given:
        if name not in MOVED_FIELDS:
            raise invalid(f"fields.{name}", "a move files anew only", allowed=sorted(MOVED_FIELDS))


def _given(fields: Any) -> dict[str, Any]:
    if fields is UNSET:
        return {}
    return {name: value for name in fields.__struct_fields__ if (value := getattr(fields, name)) is not UNSET}


def revise(building: Building, prepared: PreparedRevision) -> dict[str, Any]:
    """Add the drafts of a revision; the result. Raises Refused."""
    building.refuse_in_maintenance()
    target = require_alive(building, prepared.params.id)
    named = find_session(building, prepared.params.session)
    if prepared.text is None:
        return _move(building, target, prepared.params, named)
    if target.row.superseded_by:
        head = newest_version(building, target)
        raise Refused(
            Reason.CONFLICT, "the memory was superseded; revise the one that took its place",
            parameter="id", ids=[prepared.params.id], current=head,
        )  # fmt: skip
    if named and target.kind == Kind.RAW:
        raise invalid("session", "a revision is no turn: what takes the place of a raw memory is in no session")
    return _succeed(building, target, prepared, named)


def _succeed(building: Building, target: Target, prepared: PreparedRevision, named: int) -> dict[str, Any]:
    view = building.view
    before = _told(building, target)
    if prepared.origin is not Origin.SEEDED:
        building.activate()
    session, notes = (0, ()) if target.kind == Kind.RAW else _join(building, prepared.params, named)
    event, particulars = _successor(building, target, prepared, before, session)
    seq = building.next_seq
    assert prepared.text is not None
    plain, shared = building.text(prepared.text_hash, prepared.text)
    if particulars != Particulars():
        plain.append((_PARTICULARS, encode(particulars)))
    building.add(Draft(event, tuple(plain), shared))
    successor = (target.kind, event.id)
    building.add(
        Draft(
            events.Superseded(
                predecessor=target.ref, successor=successor, edge_type=event.disposition, edge=event.edge,
                valid_to=_holds_to(target, event.valid_from), session=session,
            )
        )
    )  # fmt: skip
    building.kinds[event.id] = target.kind
    return {
        "id": memory_ref(*successor),
        "predecessor": memory_ref(*target.ref),
        "address": {"epoch": view.state.head.epoch, "seq": seq},
        **noted(notes),
    }


def _join(building: Building, params: Any, named: int) -> tuple[int, tuple[Note, ...]]:
    """The session in which it is done: the one that was named, else the only one it can be."""
    return join(building, named) if named else join_only(building, params.producer)


def _begins(told: Told, now_ms: int) -> int:
    """When the successor begins to hold: never before the predecessor did (UTC ms)."""
    return now_ms if told.event.valid_from is None else max(now_ms, told.event.valid_from)


def _holds_to(target: Target, begins: int | None) -> int:
    """When the predecessor stops to hold: as its successor begins, never later than it would have (UTC ms)."""
    assert begins is not None
    return begins if target.row.valid_to == NO_TIME else min(target.row.valid_to, begins)


def _a_model_told(building: Building, target: Target) -> bool:
    """Whether a model made the first version of what is revised."""
    state = building.view.state
    first = building.view.memory(building.tenant, edges.first_version(state, target.tsid))
    producer = None if first is None else names.producer_of(state, first.producer)
    return producer is not None and producer.model is not None


def _successor(
    building: Building, target: Target, prepared: PreparedRevision, told: Told, session: int
) -> tuple[events.MemoryCreated, Particulars]:
    """The event that creates the successor, and its particulars."""
    view, kind = building.view, Kind(target.kind)
    given = _given(prepared.params.fields)
    subtype = _subtype(kind, given, target.row.subtype)
    externals, external_ids, evidence = _evidence(building, target, prepared, told)
    defaults = building.defaults_of(session) if session else None
    by_a_model = names_model(prepared.params, defaults) or _a_model_told(building, target)
    quoted: tuple[int, ...] = ()
    if prepared.origin is Origin.STATED and by_a_model:
        stands_on = tuple([source.ref for source in grounds(building, target)])
        quoted = check_words(building, prepared.params.text, (target.ref, *stands_on, *evidence))
    producer = producer_of(building, prepared.params, defaults)
    entities = told.event.entities
    if prepared.entities is not None:
        entities = tuple([building.entity(name, hashed) for name, hashed in prepared.entities])
    importance_by = ImportanceBy.CLIENT if "importance" in given else told.event.importance_by
    partition = building.partition(kind)
    view.numbers.slot += 1
    particulars = _particulars(told.particulars, given, external_ids)
    assert prepared.origin is not None
    event = events.MemoryCreated(
        id=view.new_tsid(), slot=view.numbers.slot, kind=target.kind, subtype=subtype, origin=int(prepared.origin),
        partition=partition, session=session, producer=producer, evidence=evidence, externals=externals,
        importance=given.get("importance", target.row.importance), importance_by=int(importance_by),
        confidence=KINDS[kind].confidence, protected=_protected(kind, subtype, target, given), entities=entities,
        predecessor=target.ref, disposition=int(EdgeType[prepared.params.disposition.upper()]), edge=view.new_tsid(),
        self_scoped=is_self_scoped(kind, particulars.subject), valid_from=_begins(told, view.now_ms),
        quoted_from=quoted,
    )  # fmt: skip
    return event, particulars


def _evidence(
    building: Building, target: Target, prepared: PreparedRevision, told: Told
) -> tuple[tuple[events.External, ...], tuple[str, ...], tuple[events.Ref, ...]]:
    """`(externals, their ids, memories)`: those given, else the predecessor's."""
    use = int(ExternalUse.EVIDENCE)
    if prepared.evidence is not None:
        sources = prepared.evidence
        externals = tuple([events.External(use, kind, resolvable) for kind, resolvable, _ in sources.externals])
        ids = tuple([each[2] for each in sources.externals])
        return externals, ids, resolve(building, "fields.evidence", sources, None)
    kept = _external_evidence(building, target, told)
    outgoing = edges.outgoing(building.view.state, target.tsid)
    found = tuple([(kind, tsid) for edge_type, kind, tsid in outgoing if edge_type == _EVIDENCE])
    externals = tuple([events.External(use, kind, resolvable) for (kind, _), resolvable in kept.items()])
    return externals, tuple([external_id for _, external_id in kept]), found


def _external_evidence(building: Building, target: Target, told: Told) -> dict[tuple[int, str], bool]:
    """By kind and id: whether it can be followed now. What the predecessor was given at first, and was brought since.
    Raises DamagedRecord, PartUnreadable."""
    state = building.view.state
    brought = [(0, told.event.externals, told.particulars.externals)]
    for seq in edges.external_support(state, target.tsid):
        event: Any = _record(building, seq).event
        brought.append((seq, event.externals, _particulars_in(building, event.parts).externals))
    found: dict[tuple[int, str], bool] = {}
    for seq, externals, ids in brought:
        for index, (external, external_id) in enumerate(zip(externals, ids, strict=False)):
            if external.use == ExternalUse.EVIDENCE:
                said = provenance.is_resolvable(state, target.tsid, index, external.resolvable, seq)
                found.setdefault((external.kind, external_id), said)
    return found


def _subtype(kind: Kind, given: dict[str, Any], before: int) -> int:
    """The one given, else that of before. What takes the place of a turn is none: it has no session."""
    subtype = before
    if "subtype" in given:
        try:
            subtype = subtype_code(kind, given["subtype"])
        except KeyError:
            raise invalid("fields.subtype", f"not a subtype of {kind.wire}") from None
    if kind is not Kind.RAW or subtype != TURN_SUBTYPE:
        return subtype
    if "subtype" in given:
        raise invalid("fields.subtype", "a turn has a session, and a revision has none")
    return DEFAULT_SUBTYPE[kind]


def _protected(kind: Kind, subtype: int, target: Target, given: dict[str, Any]) -> bool:
    if "protected" in given:
        return bool(given["protected"])
    becomes = kind is Kind.GOAL and subtype in PROTECTED_GOALS and target.row.subtype not in PROTECTED_GOALS
    return becomes or target.row.has(Mark.PROTECTED)


def _particulars(before: Particulars, given: dict[str, Any], external_ids: tuple[str, ...]) -> Particulars:
    entities = before.entities
    if "entities" in given:
        entities = tuple([(entity.name, entity.type) for entity in given["entities"]])
    return Particulars(
        topic=given.get("topic", before.topic),
        tags=tuple(given.get("tags", before.tags)),
        entities=entities,
        subject=given.get("subject", before.subject),
        project=given.get("project", before.project),
        externals=external_ids,
    )


def _move(building: Building, target: Target, params: Any, named: int) -> dict[str, Any]:
    """Seal the particulars anew, with what is given in place of what was. The same again is no change."""
    before, given = _told(building, target).particulars, _given(params.fields)
    changed = replace(before, **{n: tuple(v) if n == "tags" else v for n, v in given.items()})
    seq = target.row.particulars_seq
    notes: tuple[Note, ...] = ()
    if changed != before:
        session, notes = _join(building, params, named)
        seq = building.next_seq
        event = events.Moved(memory=target.ref, session=session)
        building.add(Draft(event, ((_PARTICULARS, encode(changed)),)))
    return {
        "id": memory_ref(*target.ref),
        "predecessor": None,
        "address": {"epoch": building.view.state.head.epoch, "seq": seq},
        **noted(notes),
    }


def _told(building: Building, target: Target) -> Told:
    """Raises Refused when it is purged, DamagedRecord, PartUnreadable."""
    genesis = _record(building, target.row.seq)
    if not isinstance(genesis.event, events.MemoryCreated):
        raise DamagedRecord(target.row.seq, "event")
    latest = genesis if target.row.particulars_seq == genesis.seq else _record(building, target.row.particulars_seq)
    parts: tuple[SealedPart, ...] = getattr(latest.event, "parts", ())
    try:
        return Told(genesis.event, _particulars_in(building, parts))
    except PartUnreadable as error:
        if error.state != "purged":
            raise
        ref = memory_ref(*target.ref)
        raise Refused(Reason.CONFLICT, "the memory is purged", parameter="id", ids=[ref], current="purged") from error


def _particulars_in(building: Building, parts: tuple[SealedPart, ...]) -> Particulars:
    part = next((each for each in parts if each.part == _PARTICULARS), None)
    return Particulars() if part is None else decode_particulars(building.view.unseal(part))


def _record(building: Building, seq: int) -> Record:
    record = building.view.record(seq)
    if record is None:
        raise DamagedRecord(seq, "missing")
    return record

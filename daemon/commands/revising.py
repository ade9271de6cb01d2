"""revise: a memory gets a successor, or is filed anew (contract §4.5, PROTOCOL §6).

`supersedes` says that it was wrong or has changed, `updates` that it is refined. The successor names its predecessor in
the event that creates it, and the predecessor is closed in the same commit, once. It inherits what the caller doesn't
give, and never what belongs to one telling only: origin, producer, session, confidence, vector, facts, times. `move`
makes no successor: topic, tags and project are filed anew.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec.structs import replace

from daemon.commands.building import Building
from daemon.commands.lineage import resolve
from daemon.commands.targets import Target, require_alive
from daemon.decision import Draft
from daemon.prepare import UNSET, Sources, invalid, pack_name, parse_sources
from daemon.refusal import Reason, Refused
from journal import events
from journal.codes import EdgeType, ExternalUse, ImportanceBy, Kind, Mark, Origin, Part, subtype_code
from journal.errors import DamagedRecord
from journal.events import SealedPart
from journal.particulars import Particulars, decode_particulars, encode
from journal.record import Record
from journal.tsid import memory_ref
from projections import edges
from projections.kinds import DEFAULT_SUBTYPE, KINDS, PROTECTED_GOALS, TURN_SUBTYPE
from projections.workingset import entity_hash, text_hash

_TEXT, _PARTICULARS = int(Part.TEXT), int(Part.PARTICULARS)
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
    if prepared.text is None:
        return _move(building, target, _given(prepared.params.fields))
    if target.row.superseded_by:
        head = _head(building, target)
        raise Refused(
            Reason.CONFLICT, "the memory was superseded; revise the one that took its place",
            parameter="id", ids=[prepared.params.id], current=head,
        )  # fmt: skip
    return _succeed(building, target, prepared)


def _head(building: Building, target: Target) -> str:
    """The newest version of the chain."""
    row, tsid = target.row, target.tsid
    while row.superseded_by:
        tsid = row.superseded_by
        found = building.view.memory(building.tenant, tsid)
        if found is None:
            break
        row = found
    return memory_ref(row.kind, tsid)


def _succeed(building: Building, target: Target, prepared: PreparedRevision) -> dict[str, Any]:
    view = building.view
    told = _told(building, target)
    if prepared.origin is not Origin.SEEDED:
        building.activate()
    event, particulars = _successor(building, target, prepared, told)
    seq = building.next_seq
    shared = view.pending.texts.get(prepared.text_hash) or view.base.texts.get(prepared.text_hash)
    plain: list[tuple[int, bytes]] = []
    if shared is None:
        assert prepared.text is not None
        plain.append((_TEXT, prepared.text))
        building.fresh_texts.append((seq, prepared.text_hash))
    if particulars != Particulars():
        plain.append((_PARTICULARS, encode(particulars)))
    building.add(Draft(event, tuple(plain), (shared,) if shared is not None else ()))
    successor = (target.kind, event.id)
    building.add(
        Draft(
            events.Superseded(
                predecessor=target.ref, successor=successor, edge_type=event.disposition, edge=event.edge,
                valid_to=view.now_ms, session=target.row.session,
            )
        )
    )  # fmt: skip
    building.kinds[event.id] = target.kind
    return {
        "id": memory_ref(*successor),
        "predecessor": memory_ref(*target.ref),
        "address": {"epoch": view.state.head.epoch, "seq": seq},
    }


def _successor(
    building: Building, target: Target, prepared: PreparedRevision, told: Told
) -> tuple[events.MemoryCreated, Particulars]:
    """The event that creates the successor, and its particulars."""
    view, kind = building.view, Kind(target.kind)
    given = _given(prepared.params.fields)
    subtype = _subtype(kind, given, target.row.subtype)
    externals, external_ids, evidence = _evidence(building, target, prepared, told)
    entities = told.event.entities
    if prepared.entities is not None:
        entities = tuple([building.entity(name, hashed) for name, hashed in prepared.entities])
    importance_by = ImportanceBy.CLIENT if "importance" in given else told.event.importance_by
    partition = building.partition(kind)
    view.numbers.slot += 1
    assert prepared.origin is not None
    event = events.MemoryCreated(
        id=view.new_tsid(), slot=view.numbers.slot, kind=target.kind, subtype=subtype, origin=int(prepared.origin),
        partition=partition, evidence=evidence, externals=externals,
        importance=given.get("importance", target.row.importance), importance_by=int(importance_by),
        confidence=KINDS[kind].confidence, protected=_protected(kind, subtype, target, given), entities=entities,
        predecessor=target.ref, disposition=int(EdgeType[prepared.params.disposition.upper()]), edge=view.new_tsid(),
    )  # fmt: skip
    return event, _particulars(told.particulars, given, external_ids)


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
    pairs = zip(told.event.externals, told.particulars.externals, strict=False)
    kept = [(external, external_id) for external, external_id in pairs if external.use == use]
    outgoing = edges.outgoing(building.view.state, target.tsid)
    found = tuple([(kind, tsid) for edge_type, kind, tsid in outgoing if edge_type == _EVIDENCE])
    return tuple([external for external, _ in kept]), tuple([external_id for _, external_id in kept]), found


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


def _move(building: Building, target: Target, given: dict[str, Any]) -> dict[str, Any]:
    """Seal the particulars anew, with what is given in place of what was. The same again is no change."""
    told = _told(building, target)
    changed = replace(told.particulars, **{n: tuple(v) if n == "tags" else v for n, v in given.items()})
    seq = target.row.particulars_seq
    if changed != told.particulars:
        seq = building.next_seq
        event = events.Moved(memory=target.ref, session=target.row.session)
        building.add(Draft(event, ((_PARTICULARS, encode(changed)),)))
    return {
        "id": memory_ref(*target.ref),
        "predecessor": None,
        "address": {"epoch": building.view.state.head.epoch, "seq": seq},
    }


def _told(building: Building, target: Target) -> Told:
    """Raises DamagedRecord, PartUnreadable."""
    genesis = _record(building, target.row.seq)
    if not isinstance(genesis.event, events.MemoryCreated):
        raise DamagedRecord(target.row.seq, "event")
    latest = genesis if target.row.particulars_seq == genesis.seq else _record(building, target.row.particulars_seq)
    parts: tuple[SealedPart, ...] = getattr(latest.event, "parts", ())
    part = next((each for each in parts if each.part == _PARTICULARS), None)
    particulars = Particulars() if part is None else decode_particulars(building.view.unseal(part))
    return Told(genesis.event, particulars)


def _record(building: Building, seq: int) -> Record:
    record = building.view.record(seq)
    if record is None:
        raise DamagedRecord(seq, "missing")
    return record

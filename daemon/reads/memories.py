"""get, and how a memory is shown: in full, compact, purged or damaged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from daemon.prepare import UNSET, invalid, parse_memory, parse_time
from daemon.reads.asserting import assertion
from daemon.reads.chain import CHAIN_LOOKS, chain_of
from daemon.reads.filing import facts_of, particulars_of
from daemon.reads.grounds import is_grounded
from daemon.reads.holding import holds
from daemon.reads.known import KnownReading
from daemon.reads.once import OnceReading
from daemon.reads.outside import DERIVED_FROM, SOURCE, Outside, evidence_of, named_at_first
from daemon.reads.reading import Reading, is_purged
from daemon.wire import results as r
from daemon.wire.times import format_ms
from journal import events
from journal.codes import (
    CallerRole,
    EdgeType,
    ExternalKind,
    Kind,
    Mark,
    Origin,
    Role,
    Status,
    Via,
    subtype_name,
)
from journal.errors import DamagedRecord, PartUnreadable
from journal.particulars import Particulars
from journal.record import Record
from journal.tsid import format_tsid, memory_ref
from projections import edges, partitions, tables
from projections.kinds import confidence_now
from projections.rows import NO_TIME, MemoryRow
from projections.state import KEY32

CUT_CHARACTERS = 200
_REVISIONS = (EdgeType.SUPERSEDES, EdgeType.UPDATES)
_MARKS = tuple((1 << mark, mark.wire) for mark in Mark)


def get(reading: Reading, params: Any) -> r.GetResult:
    """Memories in request order, each once; unknown and foreign ids alike in `not_found`. With `as_known_at` they are
    as they were then, and one that was not yet written is unknown; what was purged since is gone all the same. With
    `as_of` one that doesn't hold at that moment is as unknown, and of the facts those are told that do.
    """
    chained = params.include is not UNSET and "provenance" in params.include
    if chained and params.as_known_at is not UNSET:
        raise invalid("as_known_at", "the chain is told as it is now; ask for the memory as it was without it")
    if chained:
        reading.spend(CHAIN_LOOKS)  # before anything is read that another thread would read again
    found: list[Any] = []
    missing: list[str] = []
    reading = at_moments(reading, params)
    for kind, tsid in dict.fromkeys(parse_memory("ids", ref) for ref in params.ids):
        looking = OnceReading(reading) if chained else reading
        shown = seen(looking, tsid, full, kind)
        if shown is None:
            missing.append(memory_ref(kind, tsid))
            continue
        found.append(shown)
        row = looking.memory(tsid, kind) if chained else None
        if row is not None:
            shown.provenance = chain_of(looking, tsid, row)
    return r.GetResult(memories=found, not_found=missing)


def at_moments(reading: Reading, params: Any) -> Reading:
    """The question's view at the moments that it is about: `as_of` in the world, `as_known_at` in the journal."""
    as_of = None if params.as_of is UNSET else parse_time("as_of", params.as_of)[0]
    then = None if params.as_known_at is UNSET else parse_time("as_known_at", params.as_known_at)[0]
    looking = reading if then is None else KnownReading(reading, then)
    looking.as_of_ms, looking.known_at_ms = as_of, then
    return looking


def seen(reading: Reading, tsid: int, show: Callable[..., Any], kind: int | None = None) -> Any:
    """A memory as `show` has it, at the question's moments; None when there is none, or it doesn't hold. One of which
    that can't be told is shown as damaged."""
    if isinstance(reading, KnownReading):
        return _then(reading, tsid, show, kind)
    row = reading.memory(tsid, kind)
    try:
        return None if row is None or not holds(reading, row) else show(reading, tsid, row)
    except DamagedRecord:
        return show(reading, tsid, row)


def _then(known: KnownReading, tsid: int, show: Callable[..., Any], kind: int | None) -> Any:
    now = known.memory_now(tsid, kind)
    if now is None:
        return None
    try:
        then = known.state_then(tsid, now)
        if then is None or not holds(known, then):
            return None
    except DamagedRecord:
        return _damaged(known, tsid, now, "journal record")
    return show(known, tsid, now if is_purged(now) else then)


Show = Callable[[Reading, int, MemoryRow, Record, events.MemoryCreated, str | None, Particulars], Any]


def full(reading: Reading, tsid: int, row: MemoryRow) -> Any:
    """The memory in full, or what can still be said of it."""
    return _shown(reading, tsid, row, _memory)


def compact(reading: Reading, tsid: int, row: MemoryRow) -> Any:
    """The form of lists: text up to 200 characters."""
    return _shown(reading, tsid, row, _compact)


def _shown(reading: Reading, tsid: int, row: MemoryRow, show: Show) -> Any:
    """The memory as `show` has it; purged and damaged ones have a form of their own."""
    try:
        record, event = reading.genesis(row)
    except DamagedRecord:
        return _damaged(reading, tsid, row, "journal record")
    if is_purged(row):
        return _purged(reading, row, record, event)
    try:
        text = reading.text(event) if reading.content else None
        particulars = particulars_of(reading, row, event)
        return show(reading, tsid, row, record, event, text, particulars)
    except PartUnreadable as error:
        if error.state == "purged":
            return _purged(reading, row, record, event)
        return _damaged(reading, tsid, row, "sealed part", record, error.seq)
    except DamagedRecord as error:
        return _damaged(reading, tsid, row, "journal record", record, error.seq)


def _damaged(
    reading: Reading, tsid: int, row: MemoryRow, what: str, record: Record | None = None, seq: int | None = None
) -> r.DamagedMemory:
    """`seq`: the damaged record, or the one whose part it is, when it isn't the one that made the memory."""
    reading.note_damage(row.seq if seq is None else seq, what)
    return r.DamagedMemory(
        id=memory_ref(row.kind, tsid),
        kind=Kind(row.kind).wire,
        status=row.status.wire,
        damaged=True,
        what=what,
        at=format_ms(record.at_ms) if record is not None else None,
        address=r.Address(epoch=reading.store.epoch, seq=row.seq),
    )


def producer_of(reading: Reading, row: MemoryRow) -> r.Producer:
    """The stamp of a memory; a field is null where it has none."""
    found = reading.producer(row.producer)
    if found is None:
        return r.Producer(agent=None, model=None, version=None, extractor=None)
    return r.Producer(agent=found.agent, model=found.model, version=found.version, extractor=found.extractor)


def actor_of(record: Record) -> r.Actor:
    """Who wrote a record, as the daemon knows."""
    actor = record.actor
    return r.Actor(uid=actor.uid, role=CallerRole(actor.role).wire, via=Via(actor.via).wire)


def _session_ref(reading: Reading, number: int) -> str | None:
    row = reading.session(number) if number else None
    return None if row is None else f"session:{format_tsid(row.id)}"


def _purged(reading: Reading, row: MemoryRow, record: Record, event: events.MemoryCreated) -> r.PurgedMemory:
    return r.PurgedMemory(
        id=memory_ref(row.kind, event.id), kind=Kind(row.kind).wire, status=Status.PURGED.wire,
        purged_at=format_ms(row.dead_at) if is_purged(row) else None, subtype=subtype_name(Kind(row.kind), row.subtype),
        origin=Origin(row.origin).wire, at=format_ms(record.at_ms),
        session=_session_ref(reading, row.session), turn=row.turn or None, actor=actor_of(record),
        address=r.Address(epoch=reading.store.epoch, seq=record.seq),
        derived_from=[memory_ref(*ref) for ref in event.sources],
        predecessor=_predecessor(reading, event),
        superseded_by=_successor(reading, row),
    )  # fmt: skip


def _successor(reading: Reading, row: MemoryRow) -> str | None:
    if not row.superseded_by:
        return None
    successor = reading.memory(row.superseded_by)
    return None if successor is None else memory_ref(successor.kind, row.superseded_by)


def _offset(minutes: int | None) -> str | None:
    if minutes is None:
        return None
    sign = "-" if minutes < 0 else "+"
    return f"{sign}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"


def _time(at_ms: int | None) -> str | None:
    return None if at_ms is None or at_ms == NO_TIME else format_ms(at_ms)


def _externals(found: list[Outside]) -> list[Any]:
    """As the wire has them: annotations as references, all else by kind and id."""
    return [
        f"context:{each.id or ''}"
        if each.kind is ExternalKind.CONTEXT
        else r.External(kind=each.kind.wire, id=each.id or "", resolvable=each.resolvable)
        for each in found
    ]


def _memory(
    reading: Reading, tsid: int, row: MemoryRow, record: Record, event: events.MemoryCreated,
    text: str | None, particulars: Particulars,
) -> r.Memory:  # fmt: skip
    kind = Kind(row.kind)
    origin = Origin(row.origin)
    assertable, hedge = assertion(reading, tsid, origin)
    memory = r.Memory(
        id=memory_ref(kind, tsid),
        kind=kind.wire,
        subtype=subtype_name(kind, row.subtype),
        text=text,
        status=row.status.wire,
        marks=[word for bit, word in _MARKS if row.marks & bit],
        origin=origin.wire,
        assertable=assertable and not row.has(Mark.QUARANTINED),
        hedge=hedge,
        role=Role(row.role).wire if row.role else None,
        speaker=particulars.speaker,
        session=_session_ref(reading, row.session),
        turn=row.turn or None,
        producer=producer_of(reading, row),
        actor=actor_of(record),
        address=r.Address(epoch=reading.store.epoch, seq=record.seq),
        at=format_ms(record.at_ms),
        occurred_at=_time(event.occurred_at),
        occurred_offset=_offset(event.occurred_offset),
        valid_from=_time(event.valid_from),
        valid_to=_time(row.valid_to),
        verified_at=_time(row.verified_at),
        verifications=row.verifications,
        topic=particulars.topic,
        tags=list(particulars.tags),
        entities=[r.Entity(name=name, type=entity_type) for name, entity_type in particulars.entities],
        subject=particulars.subject,
        project=particulars.project,
        source_entity=particulars.source_entity,
        importance=row.importance,
        strength=row.strength,
        confidence=r.Confidence(
            stored=row.confidence,
            effective=confidence_now(row, reading.now_ms),
        ),
        valence=event.valence,
        arousal=event.arousal,
        predecessor=_predecessor(reading, event),
        superseded_by=_successor(reading, row),
        derived_from=[memory_ref(*ref) for ref in event.sources]
        + _externals(named_at_first(reading, tsid, event, particulars.externals, DERIVED_FROM)),
        evidence=[memory_ref(*ref) for ref in reading.evidence(tsid, row)]
        + _externals(evidence_of(reading, tsid, row, event, particulars.externals)),
        processed_into=[
            memory_ref(child_kind, child) for _, child_kind, child in reading.incoming(tsid, int(EdgeType.DERIVED_FROM))
        ],
        grounded=is_grounded(reading, tsid),
        facts=facts_of(reading, tsid, row, event, particulars),
        metadata=None if particulars.metadata is None else msgspec.Raw(particulars.metadata),
        partition=partition_name(reading, row.partition),
        soul_version=event.soul_version,
    )
    source = _externals(named_at_first(reading, tsid, event, particulars.externals, SOURCE))
    if source:
        memory.source = source[0]
    if event.imported is not None:
        name, created_at = event.imported
        memory.imported = r.Imported(format=name, foreign_id=particulars.foreign_id, created_at=_time(created_at))
    return memory


def _predecessor(reading: Reading, event: events.MemoryCreated) -> str | None:
    """The one that it was made to take the place of, else the first that a proposal gave it."""
    if event.predecessor:
        return memory_ref(*event.predecessor)
    for edge_type, kind, other in edges.outgoing(reading.state, event.id):
        row = reading.memory(other) if edge_type in _REVISIONS else None
        if row is not None and row.superseded_by == event.id:
            return memory_ref(kind, other)
    return None


def partition_name(reading: Reading, number: int) -> str:
    """`<day>[.n]`, `semantic` or `procedural`."""
    key = KEY32.pack(number)
    value = reading.state.get(tables.PARTITIONS, key)
    if value is None:
        return ""
    return partitions.name_of(partitions.unpack(key, value))


def _compact(
    reading: Reading,
    tsid: int,
    row: MemoryRow,
    record: Record,
    event: events.MemoryCreated,
    text: str | None,
    particulars: Particulars,
) -> r.CompactMemory:
    cut = text is not None and len(text) > CUT_CHARACTERS
    return r.CompactMemory(
        id=memory_ref(row.kind, tsid),
        kind=Kind(row.kind).wire,
        subtype=subtype_name(Kind(row.kind), row.subtype),
        status=row.status.wire,
        at=format_ms(record.at_ms),
        session=_session_ref(reading, row.session),
        turn=row.turn or None,
        topic=particulars.topic,
        text=text[:CUT_CHARACTERS] if text is not None and cut else text,
        cut=cut,
    )

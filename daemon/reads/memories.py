"""get and list: memories in full, compact, purged or damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from daemon.prepare import UNSET, invalid, parse_memory, parse_session, parse_time
from daemon.reads.cursors import decode_cursor, encode_cursor
from daemon.reads.reading import Reading, is_purged
from daemon.refusal import Reason, Refused
from daemon.wire import results as r
from daemon.wire.times import format_ms
from journal import events
from journal.codes import (
    CallerRole,
    EdgeType,
    ExternalKind,
    ExternalUse,
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
from journal.tsid import format_tsid, memory_ref, tsid_ms
from projections import edges, partitions, sessions, tables
from projections.kinds import ORIGINS, effective_confidence
from projections.rows import MemoryRow
from projections.state import KEY32

CUT_CHARACTERS = 200


def get(reading: Reading, params: Any) -> r.GetResult:
    """Memories in request order, each once; unknown and foreign ids alike in `not_found`."""
    if params.include is not UNSET and params.include:
        raise Refused(Reason.INVALID_INPUT, "the chain is not served by this version", parameter="include", allowed=[])
    found: list[Any] = []
    missing: list[str] = []
    if params.as_known_at is not UNSET:
        raise invalid("as_known_at", "not served by this version")
    for kind, tsid in dict.fromkeys(parse_memory("ids", ref) for ref in params.ids):
        canonical = memory_ref(kind, tsid)
        row = reading.memory(tsid, kind)
        if row is None:
            missing.append(canonical)
        else:
            found.append(full(reading, tsid, row))
    return r.GetResult(memories=found, not_found=missing)


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
        particulars = _particulars(reading, row, event)
    except PartUnreadable as error:
        if error.state == "purged":
            return _purged(reading, row, record, event)
        return _damaged(reading, tsid, row, "sealed part", record)
    except DamagedRecord:
        return _damaged(reading, tsid, row, "journal record", record)
    return show(reading, tsid, row, record, event, text, particulars)


def _particulars(reading: Reading, row: MemoryRow, event: events.MemoryCreated) -> Particulars:
    if not reading.content:
        return Particulars()
    if row.particulars_seq == row.seq:
        return reading.particulars(event.parts)
    later = reading.record(row.particulars_seq).event
    return reading.particulars(getattr(later, "parts", ()))


def _damaged(reading: Reading, tsid: int, row: MemoryRow, what: str, record: Record | None = None) -> r.DamagedMemory:
    return r.DamagedMemory(
        id=memory_ref(row.kind, tsid),
        kind=Kind(row.kind).wire,
        status=row.status.wire,
        damaged=True,
        what=what,
        at=format_ms(record.at_ms) if record is not None else None,
        address=r.Address(epoch=reading.store.epoch, seq=row.seq),
    )


def _actor(record: Record) -> r.Actor:
    actor = record.actor
    return r.Actor(uid=actor.uid, role=CallerRole(actor.role).wire, via=Via(actor.via).wire)


def _session_ref(reading: Reading, number: int) -> str | None:
    row = reading.session(number) if number else None
    return None if row is None else f"session:{format_tsid(row.id)}"


def _purged(reading: Reading, row: MemoryRow, record: Record, event: events.MemoryCreated) -> r.PurgedMemory:
    return r.PurgedMemory(
        id=memory_ref(row.kind, event.id), kind=Kind(row.kind).wire, status=Status.PURGED.wire,
        purged_at=format_ms(row.dead_at), subtype=subtype_name(Kind(row.kind), row.subtype),
        origin=Origin(row.origin).wire, at=format_ms(record.at_ms),
        session=_session_ref(reading, row.session), turn=row.turn or None, actor=_actor(record),
        address=r.Address(epoch=reading.store.epoch, seq=record.seq),
        derived_from=[memory_ref(*ref) for ref in event.sources],
        predecessor=memory_ref(*event.predecessor) if event.predecessor else None,
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
    return None if at_ms is None or at_ms == -1 else format_ms(at_ms)


def _external(event: events.MemoryCreated, particulars: Particulars, use: ExternalUse) -> list[Any]:
    found: list[Any] = []
    for index, external in enumerate(event.externals):
        if external.use != use:
            continue
        known = index < len(particulars.externals)
        external_id = particulars.externals[index] if known else ""
        if external.kind == ExternalKind.CONTEXT:
            found.append(f"context:{external_id}")
        else:
            kind = ExternalKind(external.kind).wire
            found.append(r.External(kind=kind, id=external_id, resolvable=external.resolvable))
    return found


def _memory(
    reading: Reading, tsid: int, row: MemoryRow, record: Record, event: events.MemoryCreated,
    text: str | None, particulars: Particulars,
) -> r.Memory:  # fmt: skip
    kind = Kind(row.kind)
    origin = Origin(row.origin)
    rule = ORIGINS[origin]
    producer = reading.producer(row.producer)
    since = row.verified_at if row.verified_at >= 0 else record.at_ms
    protected = row.has(Mark.PROTECTED)
    memory = r.Memory(
        id=memory_ref(kind, tsid),
        kind=kind.wire,
        subtype=subtype_name(kind, row.subtype),
        text=text,
        status=row.status.wire,
        marks=[mark.wire for mark in Mark if row.has(mark)],
        origin=origin.wire,
        assertable=rule.assertable != "hedged",
        hedge=rule.hedge,
        role=Role(row.role).wire if row.role else None,
        speaker=particulars.speaker,
        session=_session_ref(reading, row.session),
        turn=row.turn or None,
        producer=r.Producer(
            agent=producer.agent if producer else None,
            model=producer.model if producer else None,
            version=producer.version if producer else None,
            extractor=producer.extractor if producer else None,
        ),
        actor=_actor(record),
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
            effective=effective_confidence(kind, row.confidence, protected, since, reading.now_ms),
        ),
        valence=event.valence,
        arousal=event.arousal,
        predecessor=memory_ref(*event.predecessor) if event.predecessor else None,
        superseded_by=_successor(reading, row),
        derived_from=[memory_ref(*ref) for ref in event.sources]
        + _external(event, particulars, ExternalUse.DERIVED_FROM),
        evidence=[memory_ref(*ref) for ref in event.evidence] + _external(event, particulars, ExternalUse.EVIDENCE),
        processed_into=[
            memory_ref(child_kind, child)
            for _, child_kind, child in edges.incoming(reading.state, tsid, int(EdgeType.DERIVED_FROM))
        ],
        grounded=_grounded(reading, event),
        facts=_facts(event, particulars),
        metadata=None if particulars.metadata is None else msgspec.Raw(particulars.metadata),
        partition=partition_name(reading, row.partition),
        soul_version=event.soul_version,
    )
    source = _external(event, particulars, ExternalUse.SOURCE)
    if source:
        memory.source = source[0]
    if event.imported is not None:
        name, created_at = event.imported
        memory.imported = r.Imported(format=name, foreign_id=particulars.foreign_id, created_at=_time(created_at))
    return memory


def _facts(event: events.MemoryCreated, particulars: Particulars) -> list[r.Fact]:
    found = []
    for head, words in zip(event.facts, particulars.facts, strict=False):
        subject, predicate, value = words
        found.append(
            r.Fact(
                id=f"fact:{format_tsid(head.id)}", subject=subject, predicate=predicate, value=value,
                confidence=head.confidence, valid_from=_time(head.valid_from), valid_to=_time(head.valid_to),
                source_proposal=f"proposal:{format_tsid(head.proposal)}" if head.proposal else None,
            )
        )  # fmt: skip
    return found


def _grounded(reading: Reading, event: events.MemoryCreated) -> bool:
    """False when it has sources and all of them are forgotten or purged (contract §4.6)."""
    if not event.sources:
        return True
    rows = (reading.memory(tsid) for _, tsid in event.sources)
    return any(row is not None and not (row.has(Mark.FORGOTTEN) or row.has(Mark.PURGED)) for row in rows)


def partition_name(reading: Reading, number: int) -> str:
    """`<day>[.n]`, `semantic` or `procedural`."""
    key = KEY32.pack(number)
    value = reading.state.get(tables.PARTITIONS, key)
    if value is None:
        return ""
    return partitions.name_of(partitions.unpack(key, value))


# --- list ----------------------------------------------------------------------------------------


def list_memories(reading: Reading, params: Any) -> r.ListResult:
    """Memories by selection, in id order. Without a status the active ones."""
    sel = params.sel
    key = repr((reading.tenant_names, sel, params.full))
    after, head_seq = decode_cursor(params.cursor, key, reading.state.head.seq)
    wanted = _Wanted(sel, head_seq)
    page: list[Any] = []
    total = 0
    last = after
    more = False
    for tsid, row in _candidates(reading, sel):
        if not wanted.row(tsid, row) or not _matches_content(reading, sel, row):
            continue
        total += 1
        if tsid <= after:
            continue
        if len(page) == params.limit:
            more = True
            continue
        page.append(full(reading, tsid, row) if params.full else compact(reading, tsid, row))
        last = tsid
    cursor = encode_cursor(last, head_seq, key) if more else None
    return r.ListResult(memories=page, next_cursor=cursor, total=total)


class _Wanted:
    """The conditions that a memory row alone can answer."""

    def __init__(self, sel: Any, head_seq: int) -> None:
        self._head_seq = head_seq
        given = sel if sel is not UNSET else None
        self._ids: set[int] | None = None
        self._kinds: set[int] | None = None
        self._origins: set[int] | None = None
        self._statuses = {int(Status.ACTIVE)}
        self._since = self._until = None
        if given is None:
            return
        if given.ids is not UNSET:
            self._ids = {parse_memory("sel.ids", ref)[1] for ref in given.ids}
        if given.kinds is not UNSET:
            self._kinds = {int(Kind.from_wire(kind)) for kind in given.kinds}
        if given.origins is not UNSET:
            self._origins = {int(Origin.from_wire(origin)) for origin in given.origins}
        if given.status is not UNSET:
            self._statuses = {int(Status.from_wire(status)) for status in given.status}
        self._since = None if given.since is UNSET else parse_time("sel.since", given.since)[0]
        self._until = None if given.until is UNSET else parse_time("sel.until", given.until)[0]

    def row(self, tsid: int, row: MemoryRow) -> bool:
        at_ms = tsid_ms(tsid)
        return (
            row.seq <= self._head_seq
            and (self._ids is None or tsid in self._ids)
            and (self._kinds is None or row.kind in self._kinds)
            and (self._origins is None or row.origin in self._origins)
            and int(row.status) in self._statuses
            and (self._since is None or at_ms >= self._since)
            and (self._until is None or at_ms < self._until)
        )


def _candidates(reading: Reading, sel: Any) -> Iterator[tuple[int, MemoryRow]]:
    """The tenant's memories in id order, narrowed to a session where one is named."""
    if not reading.tenants:
        return
    if sel is not UNSET and sel.session is not UNSET:
        number = reading.session_number(parse_session("sel.session", sel.session))
        if number is None:
            raise Refused(Reason.NOT_FOUND, "no such session", parameter="sel.session")
        ids = sorted(sessions.turn_ids(reading.state, number) + sessions.other_ids(reading.state, number))
    elif sel is not UNSET and sel.ids is not UNSET:
        ids = sorted({parse_memory("sel.ids", ref)[1] for ref in sel.ids})
    else:
        ids = [int.from_bytes(key, "big") for key, _ in reading.state.prefix(tables.MEMORIES, b"")]
    for tsid in ids:
        row = reading.memory(tsid)
        if row is not None:
            yield tsid, row


_SEALED_FIELDS = ("subject", "entity", "text", "tags", "project")


def _matches_content(reading: Reading, sel: Any, row: MemoryRow) -> bool:
    """The conditions that only unsealing, or the producer, can answer."""
    if sel is UNSET:
        return True
    if sel.producer is not UNSET and not _matches_producer(reading, sel.producer, row):
        return False
    given = [name for name in _SEALED_FIELDS if getattr(sel, name) is not UNSET]
    if not given:
        return True
    if is_purged(row):
        return False
    if not reading.content:
        raise Refused(Reason.DENIED, "selecting by content needs the grant `content`", parameter="sel")
    try:
        _, event = reading.genesis(row)
        particulars = _particulars(reading, row, event)
        text = reading.text(event) if "text" in given else ""
    except (PartUnreadable, DamagedRecord):
        return False
    return (
        (sel.subject is UNSET or particulars.subject == sel.subject)
        and (sel.project is UNSET or particulars.project == sel.project)
        and (sel.entity is UNSET or any(name == sel.entity for name, _ in particulars.entities))
        and (sel.tags is UNSET or set(sel.tags) <= set(particulars.tags))
        and (sel.text is UNSET or sel.text.casefold() in text.casefold())
    )


def _matches_producer(reading: Reading, match: Any, row: MemoryRow) -> bool:
    producer = reading.producer(row.producer)
    for name in ("agent", "model", "version", "extractor"):
        wanted = getattr(match, name)
        if wanted is not UNSET and wanted != (getattr(producer, name) if producer else None):
            return False
    return True


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

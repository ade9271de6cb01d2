"""explain: how a memory came to be, down to what it was made from (contract §5).

Every reference is resolved when it is shown, through the same access check as what it leads to; content is told only
to whom may read it.
"""

from __future__ import annotations

from typing import Any

from daemon import limits
from daemon.prepare import parse_memory
from daemon.reads.memories import actor_of, producer_of
from daemon.reads.provenance import row_told
from daemon.reads.reading import Reading, is_purged
from daemon.refusal import Reason, Refused
from daemon.wire import provenance_results as r
from daemon.wire.times import format_ms
from journal import events
from journal.codes import ExternalKind, ExternalUse, Kind, Mark, Origin
from journal.errors import DamagedRecord, PartUnreadable
from journal.tsid import format_tsid, memory_ref
from projections import provenance
from projections.rows import MemoryRow


def explain(reading: Reading, params: Any) -> r.ExplainResult:
    """Raises Refused (not_found), DamagedRecord when the record that made it can't be read."""
    kind, tsid = parse_memory("id", params.id)
    row = reading.memory(tsid, kind)
    if row is None:
        raise Refused(Reason.NOT_FOUND, "no such memory", parameter="id")
    record, event = reading.genesis(row)
    session = reading.session(row.session) if row.session else None
    found = provenance.rows_of(reading.state, tsid)
    outside = _external_ids(reading, row, event)
    return r.ExplainResult(
        id=memory_ref(kind, tsid),
        how=_how(event),
        at=format_ms(record.at_ms),
        actor=actor_of(record),
        producer=producer_of(reading, row),
        origin=Origin(row.origin).wire,
        session=None if session is None else f"session:{format_tsid(session.id)}",
        turn=row.turn or None,
        sources=[_source(reading, *ref) for ref in event.sources]
        + _externals(reading, tsid, event, outside, ExternalUse.DERIVED_FROM),
        evidence=[_source(reading, *ref) for ref in reading.evidence(tsid, row)]
        + _externals(reading, tsid, event, outside, ExternalUse.EVIDENCE),
        quoted_from=[memory_ref(Kind.RAW, turn) for turn in event.quoted_from],
        row=row_told(reading, found[0]) if found else None,
    )


def _how(event: events.MemoryCreated) -> str:
    """Where it first was counts most; a pass of ours is what makes it consolidated."""
    if event.imported is not None:
        return "imported"
    if event.made_by_pass is not None or event.origin == Origin.CONSOLIDATED:
        return "consolidated"
    return "seeded" if event.origin == Origin.SEEDED else "written"


def _source(reading: Reading, kind: int, tsid: int) -> r.SourceTold:
    ref = memory_ref(kind, tsid)
    row = reading.memory(tsid, kind)
    if row is None:
        return r.SourceTold(ref=ref, state="not_found", text=None)
    if is_purged(row):
        return r.SourceTold(ref=ref, state="purged", text=None, purged_at=format_ms(row.dead_at))
    state = _state(row)
    if not reading.content:
        return r.SourceTold(ref=ref, state=state, text=None)
    try:
        text = reading.text(reading.genesis(row)[1])
    except (DamagedRecord, PartUnreadable) as error:
        if isinstance(error, PartUnreadable) and error.state == "purged":
            return r.SourceTold(ref=ref, state="purged", text=None)
        reading.note_damage(row.seq, "the text")
        return r.SourceTold(ref=ref, state="unavailable", text=None)
    cut = len(text) > limits.COMPACT_TEXT
    return r.SourceTold(ref=ref, state=state, text=text[: limits.COMPACT_TEXT], cut=cut)


def _state(row: MemoryRow) -> str:
    for mark in (Mark.FORGOTTEN, Mark.PRUNED):
        if row.has(mark):
            return mark.wire
    return "live"


def _external_ids(reading: Reading, row: MemoryRow, event: events.MemoryCreated) -> tuple[str, ...]:
    """The ids of what lies outside: none without leave to read content, or when they are gone."""
    if not event.externals or not reading.content or is_purged(row):
        return ()
    try:
        return reading.particulars(event.parts).externals
    except PartUnreadable as error:
        if error.state == "damaged":
            reading.note_damage(row.seq, "what it was made from outside")
        return ()


def _externals(
    reading: Reading, tsid: int, event: events.MemoryCreated, ids: tuple[str, ...], use: ExternalUse
) -> list[r.SourceTold]:
    """External sources; one whose id isn't to be told is told as its kind alone."""
    found: list[r.SourceTold] = []
    for index, external in enumerate(event.externals):
        if external.use != use:
            continue
        kind = ExternalKind(external.kind).wire
        ref = f"{kind}:{ids[index]}" if index < len(ids) else kind
        known = provenance.is_resolvable(reading.state, tsid, index, external.resolvable)
        found.append(r.SourceTold(ref=ref, state="live" if known else "unavailable", text=None))
    return found

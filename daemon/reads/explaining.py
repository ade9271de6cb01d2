"""explain: how a memory came to be, down to what it was made from (contract §5).

Every reference is resolved when it is shown, through the same access check as what it leads to; content is told only
to whom may read it.
"""

from __future__ import annotations

from typing import Any

from daemon import limits
from daemon.prepare import parse_memory
from daemon.reads.memories import actor_of, producer_of
from daemon.reads.outside import DERIVED_FROM, SOURCE, Outside, evidence_of, ids_of, named_at_first
from daemon.reads.provenance import row_told
from daemon.reads.reading import Reading, is_purged
from daemon.refusal import Reason, Refused
from daemon.wire import provenance_results as r
from daemon.wire.times import format_ms
from journal import events
from journal.codes import EdgeType, Kind, Mark, Origin
from journal.errors import DamagedRecord, PartUnreadable
from journal.tsid import format_tsid, memory_ref
from projections import edges, provenance
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
    ids = ids_of(reading, row, row.seq, event.parts)
    rows = [row_told(reading, each) for each in found]
    source = named_at_first(reading, tsid, event, ids, SOURCE)
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
        + _externals(named_at_first(reading, tsid, event, ids, DERIVED_FROM)),
        evidence=[_source(reading, *ref) for ref in reading.evidence(tsid, row)]
        + _externals(evidence_of(reading, tsid, row, event, ids)),
        quoted_from=[memory_ref(Kind.RAW, turn) for turn in event.quoted_from],
        row=rows[0] if rows else None,
        rows=rows,
        grounds=[memory_ref(kind, ground) for _, kind, ground in edges.grounding(reading.state, tsid)],
        predecessor=memory_ref(*event.predecessor) if event.predecessor else None,
        disposition=EdgeType(event.disposition).wire if event.predecessor else None,
        source=_externals(source)[0] if source else None,
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
    state, quarantined = _state(row), row.has(Mark.QUARANTINED)
    if not reading.content:
        return r.SourceTold(ref=ref, state=state, text=None, quarantined=quarantined)
    try:
        text = reading.text(reading.genesis(row)[1])
    except (DamagedRecord, PartUnreadable) as error:
        if isinstance(error, PartUnreadable) and error.state == "purged":
            return r.SourceTold(ref=ref, state="purged", text=None)
        reading.note_damage(row.seq, "the text")
        return r.SourceTold(ref=ref, state="unavailable", text=None, quarantined=quarantined)
    cut = len(text) > limits.COMPACT_TEXT
    return r.SourceTold(ref=ref, state=state, text=text[: limits.COMPACT_TEXT], cut=cut, quarantined=quarantined)


def _state(row: MemoryRow) -> str:
    for mark in (Mark.FORGOTTEN, Mark.PRUNED):
        if row.has(mark):
            return mark.wire
    return "live"


def _externals(found: list[Outside]) -> list[r.SourceTold]:
    return [r.SourceTold(ref=each.ref, state=each.state, text=None) for each in found]

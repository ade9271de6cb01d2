"""One item of a review: what it is about, why it is there and since when. Looked up for the page that is shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from daemon.reads.reading import Reading
from daemon.wire import review_results as r
from daemon.wire.times import format_ms
from journal import events
from journal.codes import EdgeType, Kind, Mark
from journal.errors import DamagedRecord
from journal.record import Record
from journal.tsid import memory_ref
from projections import edges, flags
from projections.kinds import effective_confidence
from projections.rows import NO_TIME, MemoryRow


class Place(NamedTuple):
    """Where an item stands in the order of all: word, memory, the other memory that it is about or 0."""

    what: int
    tsid: int
    other: int


class Told(NamedTuple):
    """Why it is there, since when (UTC ms), which others it is about, how far it is believed."""

    why: str
    since_ms: int | None
    others: list[str]
    confidence: float | None = None


def shown(reading: Reading, word: str, place: Place) -> r.ReviewItem:
    """The item as the wire has it. Raises DamagedRow."""
    row = _row(reading, place.tsid)
    told = _TOLD[word](reading, place, row)
    return r.ReviewItem(
        what=word, id=memory_ref(row.kind, place.tsid), why=told.why,
        since=None if told.since_ms is None else format_ms(told.since_ms), others=told.others,
        confidence=told.confidence,
    )  # fmt: skip


def _row(reading: Reading, tsid: int) -> MemoryRow:
    row = reading.memory(tsid)
    if row is None:
        raise LookupError(f"memory {tsid} has a header row and no row")
    return row


def _uncertain(reading: Reading, place: Place, row: MemoryRow) -> Told:
    since = row.at_ms if row.verified_at == NO_TIME else row.verified_at
    effective = effective_confidence(Kind(row.kind), row.confidence, row.has(Mark.PROTECTED), since, reading.now_ms)
    return Told("believed_too_little", since, [], effective)


def _ungrounded(reading: Reading, place: Place, row: MemoryRow) -> Told:
    """Since the last of its sources went."""
    sources = [(kind, tsid, _row(reading, tsid)) for _, kind, tsid in edges.grounding(reading.state, place.tsid)]
    went = max((source.dead_at for _, _, source in sources), default=row.at_ms)
    return Told("sources_gone", went, [memory_ref(kind, tsid) for kind, tsid, _ in sources])


def _orphan(reading: Reading, place: Place, row: MemoryRow) -> Told:
    return Told("no_sources", row.at_ms, [])


def _flag(reading: Reading, place: Place, row: MemoryRow) -> Told:
    seq = next((seq for source, seq in flags.of_child(reading.state, place.tsid) if source == place.other), 0)
    others = [memory_ref(_row(reading, place.other).kind, place.other)]
    record = _record(reading, seq)
    if record is None:
        return Told("flagged", None, others)
    dormant = isinstance(record.event, events.Weakened)
    return Told("source_dormant" if dormant else "source_forgotten", record.at_ms, others)


def _contradiction(reading: Reading, place: Place, row: MemoryRow) -> Told:
    """Since it was drawn."""
    other = _row(reading, place.other)
    ends = {(row.kind, place.tsid), (other.kind, place.other)}
    records = (_record(reading, seq) for seq in reading.seqs_about(place.tsid, row)[1:])
    drawn = next((record.at_ms for record in records if record is not None and _draws(record.event, ends)), None)
    return Told("contradicts", drawn, [memory_ref(other.kind, place.other)])


def _draws(event: events.AnyEvent, ends: set[events.Ref]) -> bool:
    return (
        isinstance(event, events.Related)
        and event.edge_type == EdgeType.CONTRADICTS
        and {event.source, event.target} == ends
    )


def _record(reading: Reading, seq: int) -> Record | None:
    reading.spend()
    try:
        return reading.record(seq)
    except DamagedRecord:
        reading.note_damage(seq, "what it says")
        return None


_TOLD: dict[str, Callable[[Reading, Place, MemoryRow], Told]] = {
    "uncertain": _uncertain,
    "ungrounded": _ungrounded,
    "orphans": _orphan,
    "flags": _flag,
    "contradictions": _contradiction,
}

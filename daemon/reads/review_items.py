"""One item of a review: what it is about, why it is there and since when. Looked up for the page that is shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from daemon.reads.proposals import row_of
from daemon.reads.reading import Reading
from daemon.wire import review_results as r
from daemon.wire.times import format_ms
from journal import events
from journal.codes import EdgeType, Mark, ProposalAction
from journal.tsid import format_tsid, memory_ref
from projections import edges, flags, tables
from projections.kinds import believed_since, confidence_now
from projections.rows import DamagedRow, MemoryRow

PROPOSALS = "proposals"


class Place(NamedTuple):
    """Where an item stands in the order of all: word, memory or proposal, the other memory that it is about or 0."""

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
    if word == PROPOSALS:
        return _proposal(reading, place)
    row = _row(reading, place.tsid)
    told = _TOLD[word](reading, place, row)
    return r.ReviewItem(
        what=word, id=memory_ref(row.kind, place.tsid), why=told.why,
        since=None if told.since_ms is None else format_ms(told.since_ms), others=told.others,
        confidence=told.confidence,
    )  # fmt: skip


def _proposal(reading: Reading, place: Place) -> r.ReviewItem:
    """What is to be decided: the proposal, what it would do, whom it names."""
    row = row_of(reading, place.tsid)
    would = EdgeType(row.edge_type).wire if row.edge_type else ProposalAction(row.action).wire if row.action else "fact"
    ends = [row.memory] if row.other is None else [row.memory, row.other]
    return r.ReviewItem(
        what=PROPOSALS, id=f"proposal:{format_tsid(place.tsid)}", why=f"proposes_{would}",
        since=format_ms(row.made_at), others=[memory_ref(*end) for end in ends], confidence=None,
    )  # fmt: skip


def _row(reading: Reading, tsid: int) -> MemoryRow:
    row = reading.memory(tsid)
    if row is None:
        raise DamagedRow(tables.MEMORIES)  # it has a header row, or an edge leads to it
    return row


def _uncertain(reading: Reading, place: Place, row: MemoryRow) -> Told:
    return Told("believed_too_little", believed_since(row), [], confidence_now(row, reading.now_ms))


def _ungrounded(reading: Reading, place: Place, row: MemoryRow) -> Told:
    """Since it stood on nothing: when the last of its sources ceased to hold it."""
    sources = [(kind, tsid, _row(reading, tsid)) for _, kind, tsid in edges.grounding(reading.state, place.tsid)]
    went = max((_went(reading, tsid, source) for _, tsid, source in sources), default=row.at_ms)
    return Told("sources_gone", went, [memory_ref(kind, tsid) for kind, tsid, _ in sources])


def _went(reading: Reading, tsid: int, source: MemoryRow) -> int:
    """When a source that is gone ceased to hold. What else became of it later, a purge of what was forgotten, is not
    what made the difference; of the times it died the row keeps the last one only."""
    marks = [mark for mark in (Mark.FORGOTTEN, Mark.PRUNED, Mark.PURGED) if source.has(mark)]
    if len(marks) == 1:
        return source.dead_at
    for seq in reversed(reading.seqs_about(tsid, source)):
        record = reading.noted_record(seq, tsid)
        if record is not None and isinstance(record.event, events.Forgotten) and record.event.memory[1] == tsid:
            return record.at_ms
    return source.dead_at


def _orphan(reading: Reading, place: Place, row: MemoryRow) -> Told:
    return Told("no_sources", row.at_ms, [])


def _flag(reading: Reading, place: Place, row: MemoryRow) -> Told:
    seq = next((seq for source, seq in flags.of_child(reading.state, place.tsid) if source == place.other), 0)
    source = _row(reading, place.other)
    others = [memory_ref(source.kind, place.other)]
    record = reading.noted_record(seq)
    return Told(_flag_reason(source), None if record is None else record.at_ms, others)


def _flag_reason(source: MemoryRow) -> str:
    """By what the source is now, not by what it was when it set the flag."""
    if source.has(Mark.PURGED):
        return "source_purged"
    return "source_forgotten" if source.has(Mark.FORGOTTEN) else "source_dormant"


def _contradiction(reading: Reading, place: Place, row: MemoryRow) -> Told:
    """Since it was drawn."""
    other = _row(reading, place.other)
    ends = {(row.kind, place.tsid), (other.kind, place.other)}
    records = (reading.noted_record(seq, place.tsid) for seq in reading.seqs_about(place.tsid, row)[1:])
    drawn = next((record.at_ms for record in records if record is not None and _draws(record.event, ends)), None)
    return Told("contradicts", drawn, [memory_ref(other.kind, place.other)])


def _draws(event: events.AnyEvent, ends: set[events.Ref]) -> bool:
    return (
        isinstance(event, events.Related)
        and event.edge_type == EdgeType.CONTRADICTS
        and {event.source, event.target} == ends
    )


_TOLD: dict[str, Callable[[Reading, Place, MemoryRow], Told]] = {
    "uncertain": _uncertain,
    "ungrounded": _ungrounded,
    "orphans": _orphan,
    "flags": _flag,
    "contradictions": _contradiction,
}

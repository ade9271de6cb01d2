"""What a memory is filed under: its particulars as they are now, and the words of its facts."""

from __future__ import annotations

from daemon.reads.holding import is_within
from daemon.reads.reading import Reading
from daemon.wire import results as r
from daemon.wire.times import format_ms
from journal import events
from journal.errors import DamagedRecord
from journal.events import FactHead
from journal.particulars import Particulars
from journal.tsid import format_tsid
from projections.rows import MemoryRow

_Words = tuple[str, str, str]


def particulars_of(reading: Reading, row: MemoryRow, event: events.MemoryCreated) -> Particulars:
    """Those in force; none without leave to read content. Raises DamagedRecord, PartUnreadable."""
    if not reading.content:
        return Particulars()
    if row.particulars_seq == row.seq:
        return reading.particulars(event.parts)
    later = reading.record(row.particulars_seq).event
    return reading.particulars(getattr(later, "parts", ()))


def facts_of(
    reading: Reading, tsid: int, row: MemoryRow, event: events.MemoryCreated, particulars: Particulars
) -> list[r.Fact]:
    """The facts of a memory, those it was made with and those accepted later, in order of id: all, or those that hold
    at the moment that the question is about; none without leave to read content. Raises DamagedRecord, DamagedRow,
    PartUnreadable."""
    if not reading.content:
        return []
    found = _told(reading, event.facts, particulars)
    for seq in reading.facts_added(tsid):
        record = reading.record(seq)
        added = record.event
        if not isinstance(added, events.FactAdded) or record.tenant != row.tenant:
            raise DamagedRecord(seq, "event")
        found += _told(reading, (added.fact,), reading.particulars(added.parts))
    return sorted(found, key=lambda fact: fact.id)


def _told(reading: Reading, heads: tuple[FactHead, ...], particulars: Particulars) -> list[r.Fact]:
    known = zip(heads, particulars.facts, strict=False)
    return [_fact(head, words) for head, words in known if is_within(reading.as_of_ms, head.valid_from, head.valid_to)]


def _fact(head: FactHead, words: _Words) -> r.Fact:
    subject, predicate, value = words
    return r.Fact(
        id=f"fact:{format_tsid(head.id)}", subject=subject, predicate=predicate, value=value,
        confidence=head.confidence,
        valid_from=None if head.valid_from is None else format_ms(head.valid_from),
        valid_to=None if head.valid_to is None else format_ms(head.valid_to),
        source_proposal=f"proposal:{format_tsid(head.proposal)}" if head.proposal else None,
    )  # fmt: skip

"""history: how a memory became what it is. Ids, enumerations, numbers and times only: it stays after a purge.

A record that can't be read costs its own entry, which says so, and is a finding; the others are told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from daemon.prepare import parse_memory
from daemon.reads.memories import actor_of, producer_of
from daemon.reads.proposals import seqs_about
from daemon.reads.reading import Reading
from daemon.refusal import Reason, Refused
from daemon.wire import exchange_results as r
from daemon.wire.times import format_ms
from journal.codes import EdgeType
from journal.events import EVENT_WORDS, Ref
from journal.frames import EVENT_VERSION
from journal.record import Record
from journal.tsid import memory_ref
from projections import edges
from projections.changes import Step, steps
from projections.rows import MemoryRow

MAX_REVISIONS = 1000
"""In each direction, nearest first: what a line can carry beside the rest."""
DAMAGED = "damaged"
_REVISIONS = (int(EdgeType.SUPERSEDES), int(EdgeType.UPDATES))

_Revision = tuple[int, MemoryRow]
_Following = Callable[[Reading, int], list[int]]


def history(reading: Reading, params: Any) -> r.HistoryResult:
    """Raises Refused (not_found)."""
    kind, tsid = parse_memory("id", params.id)
    row = reading.memory(tsid, kind)
    if row is None:
        raise Refused(Reason.NOT_FOUND, "no such memory", parameter="id")
    own = reading.seqs_about(tsid, row)
    about = set(own)
    told = [(seq, reading.noted_record(seq, tsid if seq in about else None)) for seq in seqs_about(reading, tsid, own)]
    versions, truncated = _versions(reading, tsid, row)
    confidence, strength = steps((record for _, record in told), tsid)
    return r.HistoryResult(
        revisions=[_revision(reading, *each) for each in versions],
        events=[_event(seq, record, (kind, tsid)) for seq, record in told],
        confidence=[_change(step) for step in confidence],
        strength=[_change(step) for step in strength],
        truncated=truncated,
    )


def _event(seq: int, record: Record | None, own: Ref) -> r.HistoryEvent:
    if record is None:
        return r.HistoryEvent(seq=seq, at=None, type=DAMAGED, version=EVENT_VERSION, actor=None)
    return r.HistoryEvent(
        seq=seq, at=format_ms(record.at_ms), type=EVENT_WORDS[type(record.event)], version=EVENT_VERSION,
        actor=actor_of(record), about=memory_ref(*getattr(record.event, "memory", own)),
    )  # fmt: skip


def _change(step: Step) -> r.NumberChange:
    record = step.record
    return r.NumberChange(
        seq=record.seq, at=format_ms(record.at_ms), old=step.old, new=step.new, reason=EVENT_WORDS[type(record.event)]
    )


def _versions(reading: Reading, tsid: int, row: MemoryRow) -> tuple[list[_Revision], bool]:
    """`(the versions before this one, it, and those behind it, oldest first; whether there are more)`. Each once,
    whatever the edges say."""
    seen = {tsid}
    before = list(islice(_walk(reading, tsid, seen, _predecessors), MAX_REVISIONS + 1))
    behind = list(islice(_walk(reading, tsid, seen, _successors), MAX_REVISIONS + 1))
    truncated = max(len(before), len(behind)) > MAX_REVISIONS
    return [*reversed(before[:MAX_REVISIONS]), (tsid, row), *behind[:MAX_REVISIONS]], truncated


def _walk(reading: Reading, tsid: int, seen: set[int], following: _Following) -> Iterator[_Revision]:
    """Nearest first. `seen` grows."""
    waiting = deque([tsid])
    while waiting:
        for found in following(reading, waiting.popleft()):
            row = None if found in seen else reading.memory(found)
            if row is None:
                continue
            seen.add(found)
            waiting.append(found)
            yield found, row


def _predecessors(reading: Reading, tsid: int) -> list[int]:
    """More than one when it took the place of others by proposals."""
    return [edge[2] for edge in _revises(reading, tsid)]


def _successors(reading: Reading, tsid: int) -> list[int]:
    """A predecessor is superseded once."""
    return [made for edge_type in _REVISIONS for _, _, made in reading.incoming(tsid, edge_type)]


def _revises(reading: Reading, tsid: int) -> list[edges.Edge]:
    return [edge for edge in edges.outgoing(reading.state, tsid) if edge[0] in _REVISIONS]


def _revision(reading: Reading, tsid: int, row: MemoryRow) -> r.Revision:
    record = reading.noted_record(row.seq)
    edge = next(iter(_revises(reading, tsid)), None)
    return r.Revision(
        id=memory_ref(row.kind, tsid),
        predecessor=None if edge is None else memory_ref(edge[1], edge[2]),
        disposition=None if edge is None else EdgeType(edge[0]).wire,
        at=format_ms(row.at_ms),
        status=row.status.wire,
        actor=None if record is None else actor_of(record),
        producer=producer_of(reading, row),
    )

"""The section `events` of a provenance chain: the record that made a memory and what has happened to it since, newest
first. Each entry says what its own record says, and no entry takes a session or a proposal from another."""

from __future__ import annotations

from itertools import islice

from daemon import limits
from daemon.reads.chain_tracing import Tracing, actor_kind
from daemon.wire import chain_results as c
from daemon.wire.times import format_ms
from journal import events
from journal.codes import Happening, Mark
from journal.record import Envelope, Record
from projections import happenings, tables
from projections.rows import DamagedRow

_WITH_SESSION = (events.MemoryCreated, events.Marked, events.Superseded, events.Moved, events.Reaffirmed)
_WITH_PROPOSAL = (Happening.RESOLVE, Happening.ARCHIVE)
"""What came of a proposal names it; of `supersede` its edge does."""


_TO_MANY = frozenset({
    Happening.QUARANTINE, Happening.DEMOTE, Happening.REDERIVE, Happening.LIFT, Happening.PRUNE, Happening.PURGE,
    Happening.HOLD, Happening.RELEASE,
})  # fmt: skip
"""What happens to many memories in one record, and names no session and no proposal: the record is not unpacked."""


_LEFT_BY = {
    Mark.SUPERSEDED: {Happening.SUPERSEDE},
    Mark.ARCHIVED: {Happening.ARCHIVE, Happening.REDERIVE},
    Mark.PRUNED: {Happening.PRUNE},
    Mark.FORGOTTEN: {Happening.FORGET},
    Mark.QUARANTINED: {Happening.QUARANTINE},
    Mark.PURGED: {Happening.PURGE},
    Mark.HELD: {Happening.HOLD},
    Mark.RESOLVED: {Happening.RESOLVE},
}
"""What must have happened to a memory that bears a mark. One that is pinned or protected can have begun so, and what
passes settle is no happening."""


def events_told(tracing: Tracing) -> c.ChainEvents:
    """Raises DamagedRecord, DamagedRow."""
    most = limits.CHAIN_EVENTS
    with tracing.reading.snapshot.cursor(tables.HAPPENINGS) as cursor:
        found = list(islice(happenings.newest(cursor, tracing.tsid), most + 1))
    truncated = len(found) >= most  # the record that made it is one more
    if not truncated:
        _check_whole(tracing, {happening for _, happening in found})
        found.append((tracing.row.seq, _beginning(tracing)))
    told = (_told(tracing, seq, happening) for seq, happening in found[:most])
    return c.ChainEvents(items=[event for event in told if event is not None], truncated=truncated)


def _check_whole(tracing: Tracing, happened: set[Happening]) -> None:
    """Raises DamagedRow when a mark of the memory says of something that it happened, and the index doesn't."""
    for mark, either in _LEFT_BY.items():
        if tracing.row.has(mark) and happened.isdisjoint(either):
            raise DamagedRow(tables.HAPPENINGS)


def _beginning(tracing: Tracing) -> Happening:
    imported = tracing.genesis(tracing.row)[1].imported is not None
    return Happening.IMPORT if imported else Happening.CREATE


def _told(tracing: Tracing, seq: int, happening: Happening) -> c.ChainEvent | None:
    if happening in _TO_MANY:
        return _entry(tracing, tracing.envelope(seq), happening)
    record = tracing.record(seq)
    if record is None:
        return None
    event = record.event
    session = event.session if isinstance(event, _WITH_SESSION) else 0
    proposal = event.proposal if isinstance(event, events.Marked) and happening in _WITH_PROPOSAL else 0
    return _entry(tracing, record, happening, session, proposal)


def _entry(
    tracing: Tracing, record: Record | Envelope | None, happening: Happening, session: int = 0, proposal: int = 0
) -> c.ChainEvent | None:
    if record is None:
        return None
    return c.ChainEvent(
        id=f"record:{record.seq}", event_kind=happening.wire, actor_kind=actor_kind(record),
        created_at=format_ms(record.at_ms), session=tracing.session_ref(session),
        proposal=tracing.proposal_ref(proposal),
    )  # fmt: skip

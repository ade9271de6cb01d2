"""What cohorts do to the rows of their memories: the mark quarantined, importance, and what lifting gives back.

Part of the projection `memories`. Which cohort holds what is another projection (`cohorts.py`): an event says by itself
whose mark goes, because a memory that two cohorts hold keeps it.
"""

from __future__ import annotations

from collections.abc import Callable

from journal import events
from journal.codes import CohortAction, Mark
from journal.record import Record
from projections.memories import known, settle, store_row, touch
from projections.rows import NO_TIME
from projections.state import State

_QUARANTINED, _SUPERSEDED, _ARCHIVED = 1 << Mark.QUARANTINED, 1 << Mark.SUPERSEDED, 1 << Mark.ARCHIVED
_CONSOLIDATED = 1 << Mark.CONSOLIDATED


def made(state: State, record: Record, event: events.CohortMade) -> None:
    quarantined = _QUARANTINED if event.action == CohortAction.QUARANTINE else 0
    for change in event.changes:
        row = known(state, change.id)
        store_row(state, change.id, row._replace(marks=row.marks | quarantined, importance=change.new))
        touch(state, change.id, record.seq)


def lifted(state: State, record: Record, event: events.CohortLifted) -> None:
    for change in event.changes:
        row = known(state, change.id)
        if change.old != change.new:
            store_row(state, change.id, row._replace(importance=change.new))
        touch(state, change.id, record.seq)
    for _, tsid in event.unmarked:
        _clear(state, tsid, _QUARANTINED)
    for _, tsid in event.unarchived:
        _clear(state, tsid, _ARCHIVED)
    for (_, tsid), valid_to in event.reopened:
        row = known(state, tsid)
        valid_to = NO_TIME if valid_to is None else valid_to
        marks = row.marks & ~_SUPERSEDED
        store_row(state, tsid, row._replace(marks=marks, superseded_by=0, valid_to=valid_to))
    for _, tsid, promoted in event.settled:
        settle(state, tsid, known(state, tsid), _CONSOLIDATED if promoted else 0)
        touch(state, tsid, record.seq)


def _clear(state: State, tsid: int, mark: int) -> None:
    row = known(state, tsid)
    store_row(state, tsid, row._replace(marks=row.marks & ~mark))


FOLDS: dict[type, Callable[..., None]] = {
    events.CohortMade: made,
    events.CohortLifted: lifted,
}

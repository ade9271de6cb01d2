"""What a pass of sleep does to the turns it settles, and what else sleep does to a memory's row.

Part of the projection `memories`: rows and header rows are changed together, so that they agree.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from journal import events
from journal.codes import Mark
from journal.record import Record
from projections.memories import known, settle, store_row, touch, waits
from projections.partitions import rows_died, turn_settled
from projections.rows import HEADER_BYTES, NO_ROW, ROWS_PER_PAGE, SETTLED
from projections.state import State

_CONSOLIDATED, _PINNED, _PRUNED = 1 << Mark.CONSOLIDATED, 1 << Mark.PINNED, 1 << Mark.PRUNED
_SURPRISE = struct.Struct("<f")
_SURPRISE_AT = 36


def pass_committed(state: State, record: Record, event: events.PassCommitted) -> None:
    for score in event.scores:
        row = known(state, score.id)
        marks = row.marks | _PINNED if score.pinned else row.marks
        store_row(state, score.id, row._replace(importance=score.importance, marks=marks))
        if score.surprise is not None and row.offset != NO_ROW:
            page = state.row_page(row.partition, row.offset // ROWS_PER_PAGE)
            _SURPRISE.pack_into(page, row.offset % ROWS_PER_PAGE * HEADER_BYTES + _SURPRISE_AT, score.surprise)
        touch(state, score.id, record.seq)
    for tsid in event.promoted:
        settle(state, tsid, known(state, tsid), _CONSOLIDATED)
        touch(state, tsid, record.seq)
    for tsid in event.noise:
        settle(state, tsid, known(state, tsid))
        touch(state, tsid, record.seq)


def turns_reopened(state: State, record: Record, event: events.TurnsReopened) -> None:
    for tsid in event.turns:
        row = known(state, tsid)
        store_row(state, tsid, row._replace(marks=row.marks & ~_CONSOLIDATED, traits=row.traits & ~SETTLED))
        if row.traits & SETTLED and not row.dead:
            turn_settled(state, row.partition, -1)
        touch(state, tsid, record.seq)


def pruned(state: State, record: Record, event: events.Pruned) -> None:
    for _, tsid in event.memories:
        row = known(state, tsid)
        if not row.dead:
            rows_died(state, row.partition, 1, waits(row))
        store_row(state, tsid, row._replace(marks=row.marks | _PRUNED, dead_at=record.at_ms))
        touch(state, tsid, record.seq)


def resolvable_changed(state: State, record: Record, event: events.ResolvableChanged) -> None:
    touch(state, event.memory[1], record.seq)


FOLDS: dict[type, Callable[..., None]] = {
    events.PassCommitted: pass_committed,
    events.TurnsReopened: turns_reopened,
    events.Pruned: pruned,
    events.ResolvableChanged: resolvable_changed,
}

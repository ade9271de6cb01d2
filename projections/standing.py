"""How a memory stands: the changes of its row by verify, reinforce, weaken, reaffirm, mark, revise and relate.

Part of the projection `memories`: rows and header rows are changed through `memories.store_row`, so that they agree.
"""

from __future__ import annotations

from collections.abc import Callable

from journal import events
from journal.codes import Mark
from journal.record import Record
from projections.memories import flag, known, store_row, touch
from projections.state import State


def verified(state: State, record: Record, event: events.Verified) -> None:
    _, tsid = event.memory
    row = known(state, tsid)
    changed = row._replace(
        confidence=event.new_confidence, strength=event.new_strength, verified_at=record.at_ms,
        verifications=event.verifications, flags=0,
    )  # fmt: skip
    store_row(state, tsid, changed)
    touch(state, tsid, record.seq)
    for boosted in event.boosted:
        store_row(state, boosted.id, known(state, boosted.id)._replace(strength=boosted.new))
        touch(state, boosted.id, record.seq)
    flag(state, event.cleared, -1, record.seq)
    for _, child in event.boost_cleared:
        flag(state, (child,), -1, record.seq)


def reinforced(state: State, record: Record, event: events.Reinforced) -> None:
    _, tsid = event.memory
    row = known(state, tsid)
    store_row(state, tsid, row._replace(confidence=event.new_confidence, reinforcements=event.reinforcements))
    touch(state, tsid, record.seq)


def weakened(state: State, record: Record, event: events.Weakened) -> None:
    _, tsid = event.memory
    store_row(state, tsid, known(state, tsid)._replace(strength=event.new_strength))
    touch(state, tsid, record.seq)
    flag(state, event.flagged, 1, record.seq)


def reaffirmed(state: State, record: Record, event: events.Reaffirmed) -> None:
    _, tsid = event.memory
    store_row(state, tsid, known(state, tsid)._replace(verified_at=record.at_ms))
    touch(state, tsid, record.seq)


def marked(state: State, record: Record, event: events.Marked) -> None:
    _, tsid = event.memory
    row = known(state, tsid)
    bit = 1 << Mark(event.mark)
    row = row._replace(marks=row.marks | bit if event.on else row.marks & ~bit)
    if event.valid_to is not None:
        row = row._replace(valid_to=event.valid_to)
    store_row(state, tsid, row)
    touch(state, tsid, record.seq)


def superseded(state: State, record: Record, event: events.Superseded) -> None:
    _, tsid = event.predecessor
    row = known(state, tsid)
    marks = row.marks | 1 << Mark.SUPERSEDED
    store_row(state, tsid, row._replace(marks=marks, superseded_by=event.successor[1], valid_to=event.valid_to))
    touch(state, tsid, record.seq)
    if event.proposal or event.cohort:  # the record that made the successor says nothing of it
        touch(state, event.successor[1], record.seq)
    state.counters.tsid = max(state.counters.tsid, event.edge)


def related(state: State, record: Record, event: events.Related) -> None:
    touch(state, event.source[1], record.seq)
    touch(state, event.target[1], record.seq)
    state.counters.tsid = max(state.counters.tsid, event.edge)


def moved(state: State, record: Record, event: events.Moved) -> None:
    _, tsid = event.memory
    store_row(state, tsid, known(state, tsid)._replace(particulars_seq=record.seq))
    touch(state, tsid, record.seq)


def fact_added(state: State, record: Record, event: events.FactAdded) -> None:
    touch(state, event.memory[1], record.seq)
    state.counters.tsid = max(state.counters.tsid, event.fact.id)


FOLDS: dict[type, Callable[..., None]] = {
    events.Verified: verified,
    events.Reinforced: reinforced,
    events.Weakened: weakened,
    events.Reaffirmed: reaffirmed,
    events.Marked: marked,
    events.Superseded: superseded,
    events.Related: related,
    events.Moved: moved,
    events.FactAdded: fact_added,
}

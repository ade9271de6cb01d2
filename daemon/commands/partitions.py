"""How a day partition goes from one state to the next (contract §4.10), and the rollover of a day without a write.

    ACTIVE → SEALED        the day is over, or a vacuum is forced
    ACTIVE → TOMBSTONED    100 rows or more, and the ratio of dead ones at the threshold: it accepts no more
    SEALED ↔ REFLECTABLE   every living turn is settled by a pass; one waits again
    SEALED, REFLECTABLE → TOMBSTONED   the ratio is at the threshold
    SEALED, REFLECTABLE, TOMBSTONED → COMPACTED   a vacuum went through it
    COMPACTED → TOMBSTONED   a row died since

Whatever a command does to a partition, the changes that follow from it are records of the same command: the admission
asks `following` once its events are folded, so that no command can forget to. What no command of this daemon did (the
purges that a restore carried out, another threshold in the configuration) is seen to by the rollover. Semantic and
procedural memories have one partition each, which is always ACTIVE.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from daemon.commands.building import Building
from daemon.decision import Draft
from journal import events
from journal.codes import PartitionState, Tier
from projections import partitions
from projections.partitions import PartitionRow
from projections.state import State

ROWS_TO_CLOSE = 100
"""An accepting partition with fewer rows goes on accepting, however many of them died."""
ROLL_OVER = "roll_over"
"""What the records of a rollover without a write say was asked for."""


def next_state(row: PartitionRow, threshold: float) -> tuple[PartitionState, float | None] | None:
    """`(the next state, the threshold if that decided)`, None when it stays. Also while a vacuum goes through it: one
    that was abandoned may never go on."""
    if row.tier != Tier.EPISODIC:
        return None
    state = PartitionState(row.state)
    is_due = row.dead > 0 and row.ratio >= threshold
    if state is PartitionState.ACTIVE:
        return (PartitionState.TOMBSTONED, threshold) if is_due and row.count >= ROWS_TO_CLOSE else None
    if state is PartitionState.COMPACTED:
        return (PartitionState.TOMBSTONED, None) if row.dead > row.kept else None
    if state is PartitionState.TOMBSTONED:
        return None
    if is_due:
        return PartitionState.TOMBSTONED, threshold
    if state is PartitionState.SEALED:
        return (PartitionState.REFLECTABLE, None) if not row.unsettled else None
    return (PartitionState.SEALED, None) if row.unsettled else None


def change(number: int, row: PartitionRow, new: PartitionState, threshold: float | None = None) -> Draft:
    """The draft of a change of state."""
    return Draft(
        events.PartitionChanged(
            number=number, old=row.state, new=int(new), rows=row.count, dead=row.dead, threshold=threshold
        )
    )


def following(number: int, row: PartitionRow, threshold: float) -> Iterator[events.PartitionChanged]:
    """The changes that are due now, in order. Whoever takes one folds it into `row` before the next."""
    while True:
        found = next_state(row, threshold)
        if found is None:
            return
        draft = change(number, row, *found)
        assert isinstance(draft.event, events.PartitionChanged)
        yield draft.event


def roll_over(building: Building, params: Any) -> dict[str, Any]:
    """Seal the tenant's day partition when its day is over, and let the others go on where that is due. No verb: the
    daemon asks it of itself."""
    view = building.view
    found = building.open_partition(int(Tier.EPISODIC))
    ended = 0 if found is None or found[1] is None or found[1] >= view.local_day(view.now_ms) else found[0]
    if ended:
        seal(building, ended, partitions.load(view.state, ended))
    for number in (*view.base.partitions.get(building.tenant, ()), *view.pending.partitions.get(building.tenant, ())):
        row = partitions.load(view.state, number)
        due = None if number == ended else next_state(row, view.vacuum_threshold)
        if due is None:
            continue
        building.add(change(number, row, *due))
        if row.accepts:
            building.learn().open_partitions[building.tenant, row.tier] = (0, row.day)
    return {"sealed": bool(ended)}


def is_due(state: State, number: int, threshold: float) -> bool:
    """Whether the rollover has something to do for a partition, whatever day it is. Raises DamagedRow."""
    try:
        return next_state(partitions.load(state, number), threshold) is not None
    except LookupError:  # opened behind what `state` stands at: its own command sees to it
        return False


def seal(building: Building, number: int, row: PartitionRow) -> None:
    """It accepts no more: the next write opens another one."""
    building.add(change(number, row, PartitionState.SEALED))
    building.learn().open_partitions[building.tenant, row.tier] = (0, row.day)

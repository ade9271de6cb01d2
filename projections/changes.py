"""Which numbers of a memory an event changes: confidence and strength, before and after.

One table over the whole union of events; a test holds it complete. Most events change neither. The value before stands
in the event where its form has room for it; where it has not, it is the value after the event before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from journal import events
from journal.record import Record


class Change(NamedTuple):
    """`old` None: the event does not say it, or there was none."""

    old: float | None
    new: float


class Changes(NamedTuple):
    confidence: Change | None = None
    strength: Change | None = None


NOTHING = Changes()


class Step(NamedTuple):
    """One change of a number, by the record it stands in."""

    record: Record
    old: float | None
    new: float


def _created(event: events.MemoryCreated, tsid: int) -> Changes:
    return Changes(Change(None, event.confidence), Change(None, event.strength)) if event.id == tsid else NOTHING


def _forgotten(event: events.Forgotten, tsid: int) -> Changes:
    return Changes(strength=Change(None, event.strength)) if event.memory[1] == tsid else NOTHING


def _recovered(event: events.Recovered, tsid: int) -> Changes:
    if event.memory[1] != tsid:
        return NOTHING
    return Changes(strength=Change(event.old_strength, event.new_strength))


def _verified(event: events.Verified, tsid: int) -> Changes:
    if event.memory[1] == tsid:
        confidence = Change(event.old_confidence, event.new_confidence)
        return Changes(confidence, Change(event.old_strength, event.new_strength))
    for boosted in event.boosted:
        if boosted.id == tsid:
            return Changes(strength=Change(boosted.old, boosted.new))
    return NOTHING


def _reinforced(event: events.Reinforced, tsid: int) -> Changes:
    if event.memory[1] != tsid:
        return NOTHING
    return Changes(confidence=Change(event.old_confidence, event.new_confidence))


def _weakened(event: events.Weakened, tsid: int) -> Changes:
    if event.memory[1] != tsid:
        return NOTHING
    return Changes(strength=Change(event.old_strength, event.new_strength))


CHANGING: dict[type, Callable[..., Changes]] = {
    events.MemoryCreated: _created,
    events.Forgotten: _forgotten,
    events.Recovered: _recovered,
    events.Verified: _verified,
    events.Reinforced: _reinforced,
    events.Weakened: _weakened,
}

UNCHANGING: frozenset[type] = frozenset(
    {
        events.Opened, events.Restored, events.TenantBegan, events.TenantChanged, events.ProducerNamed,
        events.EntityNamed, events.SessionOpened, events.SessionReopened, events.SessionClosed, events.SessionTouched,
        events.Purged, events.Reaffirmed, events.Marked, events.Superseded, events.Related, events.Moved, events.Held,
        events.FactAdded, events.ResolvableChanged, events.EmbedFailed, events.PartitionOpened,
        events.PartitionChanged, events.Vacuumed, events.PassCommitted, events.PassFailed, events.Unparked,
        events.TurnsReopened, events.ProposalMade, events.ProposalDecided, events.CohortMade, events.CohortLifted,
        events.SoulSet, events.MeanMoved, events.CycleStarted, events.CycleTaken, events.RelayEnded,
        events.CycleCheckpointed, events.CycleEnded, events.CycleReverted, events.BulkChanged, events.Recalled,
        events.Pruned, events.Rescored, events.Unlinked, events.Interfered, events.EntityMerged, events.HyperedgePut,
        events.Linked, events.Keyed, events.OperatorCrossed, events.Upgraded,
    }
)  # fmt: skip
"""Events that leave both numbers of every memory as they were: what sleep and cohorts move is importance."""


def changes_of(event: object, tsid: int) -> Changes:
    """What an event makes of the two numbers of memory `tsid`."""
    changing = CHANGING.get(type(event))
    return NOTHING if changing is None else changing(event, tsid)


def steps(records: Iterable[Record | None], tsid: int) -> tuple[list[Step], list[Step]]:
    """`(the changes of confidence, those of strength)` of memory `tsid` by its records, in order. None stands for a
    record that can't be read: what a number was behind it only the next event that says so can tell.
    """
    found: tuple[list[Step], list[Step]] = ([], [])
    latest: list[float | None] = [None, None]
    for record in records:
        if record is None:
            latest = [None, None]
            continue
        for number, change in enumerate(changes_of(record.event, tsid)):
            if change is not None:
                before = latest[number] if change.old is None else change.old
                found[number].append(Step(record, before, change.new))
                latest[number] = change.new
    return found

"""The fold: the one function that turns records into state. Live and rebuild share it.

`apply(state, record)` reads the state and the record, nothing else: no sealed content, no clock, no
configuration. Each projection has one file, or two, with a table of the events it folds, or one function that every
record goes through. They read and write their own databases only, so any of them can be folded alone: `fold_of`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from types import ModuleType

from journal.record import Record
from projections import (
    blocks,
    cohort_marks,
    cohorts,
    edges,
    flags,
    happenings,
    holding,
    idempotency,
    memories,
    names,
    partitions,
    passes,
    proposals,
    provenance,
    purges,
    revisions,
    sessions,
    settling,
    standing,
    tables,
    texts,
    usage,
    vacuumed,
)
from projections.state import State

Fold = Callable[[State, Record], None]

ROOMS: dict[str, tuple[ModuleType, ...]] = {
    "memories": (partitions, memories, standing, settling, cohort_marks, holding, vacuumed),
    "edges": (edges,),
    "idempotency": (idempotency,),
    "sessions": (sessions, passes),
    "provenance": (provenance,),
    "names": (names,),
    "texts": (texts,),
    "flags": (flags,),
    "proposals": (proposals,),
    "chain": (happenings, revisions, purges),
    "cohorts": (cohorts,),
}
"""By projection, in the order in which they fold an event: `FOLDS` of each says which."""

EVERY_RECORD: dict[str, Fold] = {"blocks": blocks.fold, "usage": usage.fold}


def fold_of(projections: Collection[str]) -> Fold:
    """`apply` for these projections only."""
    table: dict[type, list[Callable[..., None]]] = {}
    for name in projections:
        for room in ROOMS.get(name, ()):
            for event_type, folder in room.FOLDS.items():
                table.setdefault(event_type, []).append(folder)
    by_event = {event_type: tuple(folders) for event_type, folders in table.items()}
    always = tuple(fold for name, fold in EVERY_RECORD.items() if name in projections)

    def fold(state: State, record: Record) -> None:
        event = record.event
        for folder in by_event.get(type(event), ()):
            folder(state, record, event)
        for each in always:
            each(state, record)

    return fold


apply = fold_of(tables.PROJECTIONS)
"""Fold one record into `state`. Raises DamagedRow when a value it needs is damaged."""

"""The fold: the one function that turns records into state. Live and rebuild share it.

`apply(state, record)` reads the state and the record, nothing else: no sealed content, no clock, no
configuration. Each projection has one file with a table of the events it folds.
"""

from __future__ import annotations

from collections.abc import Callable

from journal.record import Record
from projections import blocks, edges, idempotency, memories, names, partitions, sessions, texts
from projections.state import State

Folder = Callable[[State, Record, "object"], None]

_ROOMS = (names, partitions, sessions, memories, edges, idempotency, texts)


def _table() -> dict[type, tuple[Callable[..., None], ...]]:
    table: dict[type, list[Callable[..., None]]] = {}
    for room in _ROOMS:
        for event_type, folder in room.FOLDS.items():
            table.setdefault(event_type, []).append(folder)
    return {event_type: tuple(folders) for event_type, folders in table.items()}


_FOLDS = _table()


def apply(state: State, record: Record) -> None:
    """Fold one record into `state`. Raises DamagedRow when a value it needs is damaged."""
    event = record.event
    for folder in _FOLDS.get(type(event), ()):
        folder(state, record, event)
    blocks.fold(state, record)

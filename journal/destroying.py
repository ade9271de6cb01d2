"""Which keys a record destroys: a PURGE those of all it names, a new prior mean that of the one before it.

Each such record is listed in `meta` in its own transaction, so that an opening finds them without reading the
whole journal, and finishes what a crash kept from being done.
"""

from __future__ import annotations

from collections.abc import Iterable

from journal.events import MeanMoved, Purged, SealedPart


def destroyed_parts(event: object) -> tuple[SealedPart, ...]:
    """The parts whose keys are gone for good once the record of `event` is committed."""
    if isinstance(event, Purged):
        return event.parts
    if isinstance(event, MeanMoved):
        return event.destroyed
    return ()


def destroyed_slots(events: Iterable[object]) -> list[int]:
    """The vault slots of all these parts."""
    return [part.slot for event in events for part in destroyed_parts(event) if part.slot]


def is_destroying(event: object) -> bool:
    """Whether the record of `event` is listed: a PURGE always is."""
    return isinstance(event, Purged) or bool(destroyed_parts(event))

"""Which keys a record destroys: a PURGE those of all it names, a new prior mean that of the one before it.

Each such record is listed in `meta` in its own transaction, so that an opening finds them without reading the
whole journal, and finishes what a crash kept from being done.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from journal.events import MeanMoved, Purged, PurgeTarget, SealedPart


def destroyed_parts(event: object) -> tuple[SealedPart, ...]:
    """The parts whose keys are gone for good once the record of `event` is committed."""
    if isinstance(event, Purged):
        return event.parts
    if isinstance(event, MeanMoved):
        return event.destroyed
    return ()


def listed_by(targets: Sequence[PurgeTarget], parts: Sequence[SealedPart]) -> dict[int, list[SealedPart]]:
    """The parts of a PURGE by the id of the memory that took them along: its targets list `keys_shredded` of them each,
    one target after the other. What is behind these (of a purge that was applied again, or of a session) went with the
    first. Empty when it names no memory. `parts`: also those of the records that go on with it."""
    found: dict[int, list[SealedPart]] = {}
    at = 0
    for target in targets:
        found[target.id] = list(parts[at : at + target.keys_shredded])
        at += target.keys_shredded
    if targets:
        found[targets[0].id] += parts[at:]
    return found


def destroyed_slots(events: Iterable[object]) -> list[int]:
    """The vault slots of all these parts."""
    return [part.slot for event in events for part in destroyed_parts(event) if part.slot]


def is_destroying(event: object) -> bool:
    """Whether the record of `event` is listed: a PURGE always is."""
    return isinstance(event, Purged) or bool(destroyed_parts(event))

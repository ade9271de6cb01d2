"""hold: what is held can't be purged, and sleep spares it; forget is allowed (contract ERASURE §3).

It acts at once on what the selection finds, also on what is forgotten or quarantined. A note is sealed with each memory
apart, so that it goes with that memory and stays with the others.
"""

from __future__ import annotations

from typing import Any

from daemon.commands.building import Building
from daemon.commands.targets import words
from daemon.decision import Draft
from daemon.prepare import UNSET
from daemon.selections import Resolved, changed
from journal import events
from journal.codes import Mark
from journal.events import Ref
from journal.tsid import memory_ref

MEMORIES_A_RECORD = 4096


def hold(building: Building, params: Any, resolved: Resolved | None) -> dict[str, Any]:
    """Put the mark on what was found, or take it off. What has gone meanwhile is passed over. Raises Refused."""
    if resolved is None:  # the key was known when it was asked for, and isn't: a restore lies between
        raise changed()
    count, to_change = 0, list[Ref]()
    for tsid in resolved.selected:
        row = building.view.memory(building.tenant, tsid)
        if row is None or row.has(Mark.PURGED):
            continue
        count += 1
        if row.has(Mark.HELD) is not params.on:
            to_change.append((row.kind, tsid))
    at_once = MEMORIES_A_RECORD if params.note is UNSET else 1
    for start in range(0, len(to_change), at_once):
        event = events.Held(memories=tuple(to_change[start : start + at_once]), on=params.on)
        building.add(Draft(event, words(params.note)))
    return {"held": params.on, "count": count, "changed": [memory_ref(*ref) for ref in to_change]}

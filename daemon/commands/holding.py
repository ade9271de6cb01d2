"""hold: what is held can't be purged, and sleep spares it; forget is allowed (contract ERASURE §3).

It acts at once on what the selection finds, also on what is forgotten or quarantined. A note is sealed with each memory
apart, so that it goes with that memory and stays with the others. Another note about what is held already is a record
of its own: `holds` tells the newest, `history` all of them.
"""

from __future__ import annotations

from typing import Any

from daemon.commands.building import Building
from daemon.commands.targets import find, words
from daemon.decision import Draft
from daemon.prepare import UNSET
from daemon.selections import Resolved, changed
from journal import events
from journal.codes import Mark, Part
from journal.errors import PartUnreadable
from journal.events import Ref
from journal.tsid import memory_ref
from projections.holding import held_by

MEMORIES_A_RECORD = 4096


def hold(building: Building, params: Any, resolved: Resolved | None) -> dict[str, Any]:
    """Put the mark on what was found, or take it off. What has gone meanwhile is passed over. Raises Refused."""
    if resolved is None:  # the key was known when it was asked for, and isn't: a restore lies between
        raise changed()
    count, to_change, to_note = 0, list[Ref](), list[Ref]()
    for tsid in resolved.selected:
        row = building.view.memory(building.tenant, tsid)
        if row is None or row.has(Mark.PURGED):
            continue
        count += 1
        if row.has(Mark.HELD) is not params.on:
            to_change.append((row.kind, tsid))
        elif params.on and params.note is not UNSET and not _has_note(building, tsid, params.note.encode()):
            to_note.append((row.kind, tsid))
    at_once = MEMORIES_A_RECORD if params.note is UNSET else 1
    to_record = [*to_change, *to_note]
    for start in range(0, len(to_record), at_once):
        event = events.Held(memories=tuple(to_record[start : start + at_once]), on=params.on)
        building.add(Draft(event, words(params.note)))
    return {
        "held": params.on, "count": count, "changed": [memory_ref(*ref) for ref in to_change],
        "noted": [memory_ref(*ref) for ref in to_note], "not_found": _not_found(building, params),
    }  # fmt: skip


def _not_found(building: Building, params: Any) -> list[str]:
    """The ids of a selection that lead to nothing that can be held."""
    if params.sel.ids is UNSET:
        return []
    rows = ((ref, find(building, ref, "sel.ids")) for ref in dict.fromkeys(params.sel.ids))
    return [ref for ref, target in rows if target is None or target.row.has(Mark.PURGED)]


def _has_note(building: Building, tsid: int, note: bytes) -> bool:
    """Whether that is what its hold says already. One that can't be read says nothing."""
    seq = held_by(building.view.state, building.tenant, tsid)
    record = building.view.record(seq) if seq else None
    parts: tuple[events.SealedPart, ...] = () if record is None else getattr(record.event, "parts", ())
    part = next((each for each in parts if each.part == Part.WORDS), None)
    try:
        return part is not None and building.view.unseal(part) == note
    except PartUnreadable:
        return False

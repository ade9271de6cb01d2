"""forget and recover: the tombstone and its way back (contract §4.6, ERASURE §1)."""

from __future__ import annotations

from typing import Any

from daemon.commands.building import Building
from daemon.commands.creation import externals_of
from daemon.commands.lineage import resolve
from daemon.decision import Draft
from daemon.prepare import UNSET, Sources, invalid, parse_memory, parse_sources
from daemon.refusal import Reason, Refused
from daemon.wire.times import format_ms
from journal import events
from journal.codes import EdgeType, ExternalUse, Mark, Part
from journal.particulars import Particulars, encode
from journal.tsid import memory_ref, parse_memory_ref
from projections import edges, tables
from projections.rows import MemoryRow
from projections.state import KEY64, KEY64_64

RECOVERED_STRENGTH = 0.2
_PARTICULARS, _WORDS = int(Part.PARTICULARS), int(Part.WORDS)
_EVIDENCE = int(ExternalUse.EVIDENCE)


def _words(note: Any) -> tuple[tuple[int, bytes], ...]:
    return () if note is UNSET else ((_WORDS, note.encode()),)


def _find(building: Building, ref: str) -> tuple[int, int, MemoryRow | None]:
    kind, tsid = parse_memory("id", ref)
    row = building.view.memory(building.tenant, tsid) if building.tenant else None
    if row is not None and row.kind != kind:
        row = None
    return kind, tsid, row


def _children(building: Building, tsid: int) -> list[tuple[int, int]]:
    found = edges.incoming(building.view.state, tsid, int(EdgeType.DERIVED_FROM))
    return [(kind, child) for _, kind, child in found]


def forget(building: Building, params: Any) -> dict[str, Any]:
    """Tombstone a memory. An unknown one is found=false; a second time changes nothing."""
    building.refuse_in_maintenance()
    kind, tsid, row = _find(building, params.id)
    if row is None:
        return {"found": False, "tombstoned_at": None, "flagged": []}
    if row.dead:
        return {"found": True, "tombstoned_at": format_ms(row.dead_at), "flagged": []}
    if row.has(Mark.PROTECTED):
        raise Refused(Reason.CONFLICT, "a protected memory can't be forgotten", ids=[params.id])
    flagged = tuple(_children(building, tsid))
    building.add(Draft(events.Forgotten(memory=(kind, tsid), strength=0.0, flagged=flagged), _words(params.note)))
    return {
        "found": True,
        "tombstoned_at": format_ms(building.view.now_ms),
        "flagged": [memory_ref(*ref) for ref in flagged],
    }


def recover(building: Building, params: Any) -> dict[str, Any]:
    """Lift the tombstone: forgotten comes back at strength .2, pruned as it was."""
    building.refuse_in_maintenance()
    if params.amount is not UNSET:
        raise invalid("amount", "recover takes no amount: strength comes back at .2, or as it was")
    kind, tsid, row = _find(building, params.id)
    if row is None:
        raise Refused(Reason.NOT_FOUND, "no such memory", parameter="id")
    if row.has(Mark.PURGED):
        raise Refused(Reason.CONFLICT, "a purged memory can't come back", ids=[params.id], current="purged")
    mark = Mark.FORGOTTEN if row.has(Mark.FORGOTTEN) else Mark.PRUNED
    if not row.has(mark):
        raise Refused(Reason.CONFLICT, "the memory is neither forgotten nor pruned", ids=[params.id])
    strength = RECOVERED_STRENGTH if mark is Mark.FORGOTTEN else row.strength
    cleared = _flagged_by(building, tsid) if mark is Mark.FORGOTTEN else ()
    sources = parse_sources("evidence", params.evidence)
    event = events.Recovered(
        memory=(kind, tsid), mark=int(mark), old_strength=row.strength, new_strength=strength, cleared=cleared,
        evidence=resolve(building, "evidence", sources, None), externals=externals_of(_EVIDENCE, sources),
    )  # fmt: skip
    building.add(Draft(event, (*_external_ids(sources), *_words(params.note))))
    return {
        "id": params.id,
        "strength": {"old": row.strength, "new": strength},
        "confidence": {"old": row.confidence, "new": row.confidence},
        "flags_set": [],
        "flags_cleared": [memory_ref(*ref) for ref in cleared],
    }


def _external_ids(sources: Sources) -> tuple[tuple[int, bytes], ...]:
    """What a caller names outside the store is content: it is sealed."""
    if not sources.externals:
        return ()
    return ((_PARTICULARS, encode(Particulars(externals=tuple(external[2] for external in sources.externals)))),)


def _flagged_by(building: Building, tsid: int) -> tuple[tuple[int, int], ...]:
    """The children that the forgetting which is now undone had flagged."""
    view = building.view
    seqs = [KEY64_64.unpack(key)[1] for key, _ in view.state.prefix(tables.TOUCHES, KEY64.pack(tsid))]
    for seq in reversed(seqs):
        record = view.record(seq)
        if record is not None and isinstance(record.event, events.Forgotten) and record.event.memory[1] == tsid:
            return record.event.flagged
    return ()


def about(params: Any) -> tuple[int, ...]:
    """The memory a keyed answer speaks of."""
    try:
        return (parse_memory_ref(params.id)[1],)
    except ValueError:
        return ()

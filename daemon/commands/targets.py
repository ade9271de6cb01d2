"""The memory that a command is about, and what is made from it or stands under it.

Shared by all commands on one memory, so that unknown and foreign, purged and forgotten, are told alike everywhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from daemon.commands.building import Building
from daemon.commands.creation import externals_of
from daemon.commands.lineage import resolve
from daemon.commands.quarantine import is_quarantined
from daemon.prepare import UNSET, Sources, parse_memory, parse_sources
from daemon.refusal import Reason, Refused
from journal import events
from journal.codes import EdgeType, ExternalUse, Mark, Part
from journal.particulars import Particulars, encode
from journal.tsid import memory_ref
from projections import edges, flags
from projections.rows import MemoryRow

_PARTICULARS, _WORDS = int(Part.PARTICULARS), int(Part.WORDS)
_EVIDENCE = int(ExternalUse.EVIDENCE)
_DERIVED_FROM = int(EdgeType.DERIVED_FROM)


class Target(NamedTuple):
    """A memory of the caller's tenant."""

    kind: int
    tsid: int
    row: MemoryRow

    @property
    def ref(self) -> events.Ref:
        return self.kind, self.tsid


class Support(NamedTuple):
    """What is brought with a command: evidence within the store and outside, and a note; its parts, to be sealed."""

    evidence: tuple[events.Ref, ...]
    externals: tuple[events.External, ...]
    plain: tuple[tuple[int, bytes], ...]


def find(building: Building, ref: str, parameter: str = "id") -> Target | None:
    """The memory, None when there is none of that kind and id in the tenant."""
    kind, tsid = parse_memory(parameter, ref)
    row = building.view.memory(building.tenant, tsid) if building.tenant else None
    return None if row is None or row.kind != kind else Target(kind, tsid, row)


def require(building: Building, ref: str, parameter: str = "id", quarantined: bool = False) -> Target:
    """The memory. Raises Refused as not_found, as conflict when it is purged, and as quarantined when a cohort holds it
    back, unless `quarantined` lets it pass."""
    target = find(building, ref, parameter)
    if target is None:
        raise Refused(Reason.NOT_FOUND, "no such memory", parameter=parameter)
    if target.row.has(Mark.PURGED):
        raise Refused(Reason.CONFLICT, "the memory is purged", parameter=parameter, ids=[ref], current="purged")
    if target.row.has(Mark.QUARANTINED) and not quarantined:
        raise is_quarantined(building, parameter, target.kind, target.tsid)
    return target


def require_alive(building: Building, ref: str, parameter: str = "id") -> Target:
    """The memory, which is no tombstone: only `recover` brings one back. Raises Refused."""
    target = require(building, ref, parameter)
    if target.row.dead:
        current = target.row.status.wire
        message = f"the memory is {current}; recover it first"
        raise Refused(Reason.CONFLICT, message, parameter=parameter, ids=[ref], current=current)
    return target


def newest_version(building: Building, target: Target) -> str:
    """The head of the chain of versions that it belongs to. A line that `revise` made is passed in one step."""
    row, tsid, seen = target.row, target.tsid, set[int]()
    while row.superseded_by and tsid not in seen:
        seen.add(tsid)
        newest = edges.newest_version(building.view.state, tsid)
        following = row.superseded_by if newest == tsid else newest
        found = building.view.memory(building.tenant, following)
        if found is None:
            break
        row, tsid = found, following
    return memory_ref(row.kind, tsid)


def support_of(building: Building, params: Any, target: Target) -> Support:
    """What a request brings for a memory. Raises Refused."""
    sources = parse_sources("evidence", params.evidence)
    evidence = resolve(building, "evidence", sources, None)
    if target.ref in evidence:
        message = "a memory does not support itself"
        raise Refused(Reason.PROVENANCE, message, parameter="evidence", ids=[memory_ref(*target.ref)])
    return Support(evidence, externals_of(_EVIDENCE, sources), (*external_ids(sources), *words(params.note)))


def words(note: Any) -> tuple[tuple[int, bytes], ...]:
    """A note as the part that it is sealed in."""
    return () if note is UNSET else ((_WORDS, note.encode()),)


def external_ids(sources: Sources) -> tuple[tuple[int, bytes], ...]:
    """What a caller names outside the store is content: it is sealed."""
    if not sources.externals:
        return ()
    return ((_PARTICULARS, encode(Particulars(externals=tuple(external[2] for external in sources.externals)))),)


def children(building: Building, tsid: int) -> list[events.Ref]:
    """The memories that were made from this one directly."""
    return [(kind, child) for _, kind, child in edges.incoming(building.view.state, tsid, _DERIVED_FROM)]


def unflagged_children(building: Building, tsid: int) -> tuple[events.Ref, ...]:
    """Those of them that this memory has not flagged yet."""
    state = building.view.state
    return tuple([ref for ref in children(building, tsid) if not flags.is_flagged_by(state, ref[1], tsid)])


def flagged_children(building: Building, tsid: int) -> tuple[events.Ref, ...]:
    """Those of them that have an open flag from this memory."""
    state = building.view.state
    return tuple([ref for ref in children(building, tsid) if flags.is_flagged_by(state, ref[1], tsid)])


def grounds(building: Building, target: Target) -> list[Target]:
    """The memories it stands on: its sources, or those of the version it took the place of when it has none itself."""
    state = building.view.state
    sources = edges.grounding(state, target.tsid)
    rows = [(kind, source, state.memory(source)) for _, kind, source in sources]
    return [Target(kind, source, row) for kind, source, row in rows if row is not None]


def refs(found: tuple[events.Ref, ...]) -> list[str]:
    """As they stand on the wire."""
    return [memory_ref(*ref) for ref in found]

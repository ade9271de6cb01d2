"""trace: where a memory comes from, or what came out of it. Breadth first, each node once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from daemon.prepare import parse_memory
from daemon.reads.reading import Reading, is_purged
from daemon.refusal import Reason, Refused
from daemon.wire import results as r
from daemon.wire.times import format_ms
from journal.codes import EdgeType, ExternalKind, Kind, Mark, Origin
from journal.errors import DamagedRecord, PartUnreadable
from journal.tsid import memory_ref
from projections import edges
from projections.kinds import effective_confidence
from projections.rows import NO_TIME, MemoryRow

_LINEAGE = frozenset({int(EdgeType.DERIVED_FROM), int(EdgeType.SUPERSEDES), int(EdgeType.UPDATES)})
_KINDS = tuple(Kind)
_ORIGINS = tuple(Origin)


MAX_NODES = 20_000
MAX_EDGES = 30_000
"""What a line of 8 MiB can carry; more is `truncated`."""


def trace(reading: Reading, params: Any) -> r.TraceResult:
    """Walk derived_from and revision edges. `truncated`: there was more below `depth`."""
    kind, root = parse_memory("id", params.id)
    row = reading.memory(root, kind)
    if row is None:
        raise Refused(Reason.NOT_FOUND, "no such memory", parameter="id")
    upwards = params.direction == "sources"
    nodes = [_node(reading, root, row, 0)]
    found: list[r.TraceEdge] = []
    seen = {root}
    outside: set[str] = set()
    level = [(root, row)]
    truncated = False
    for depth in range(1, params.depth + 2):
        following: list[tuple[int, MemoryRow]] = []
        for tsid, here in level:
            for edge_type, _, other in _neighbours(reading, tsid, upwards):
                other_row = reading.memory(other)
                if other_row is None:
                    continue
                if depth > params.depth or len(nodes) >= MAX_NODES or len(found) >= MAX_EDGES:
                    truncated = True
                    break
                found.append(_edge(tsid, here, other, other_row, edge_type, upwards))
                if other not in seen:
                    seen.add(other)
                    following.append((other, other_row))
                    nodes.append(_node(reading, other, other_row, depth))
            if upwards and depth <= params.depth:
                _externals(reading, tsid, here, depth, nodes, found, outside)
        if not following:
            break
        level = following
    return r.TraceResult(root=memory_ref(kind, root), nodes=nodes, edges=found, truncated=truncated)


def _neighbours(reading: Reading, tsid: int, upwards: bool) -> Iterator[edges.Edge]:
    found = edges.outgoing(reading.state, tsid) if upwards else reading.incoming(tsid)
    return (edge for edge in found if edge[0] in _LINEAGE)


def _edge(tsid: int, here: MemoryRow, other: int, other_row: MemoryRow, edge_type: int, upwards: bool) -> r.TraceEdge:
    near, far = memory_ref(here.kind, tsid), memory_ref(other_row.kind, other)
    made, source = (near, far) if upwards else (far, near)
    return r.TraceEdge(from_=made, to=source, type=EdgeType(edge_type).wire)


def _node(reading: Reading, tsid: int, row: MemoryRow, depth: int) -> r.TraceNode:
    kind = _KINDS[row.kind]
    at_ms = row.at_ms
    since = at_ms if row.verified_at == NO_TIME else row.verified_at
    return r.TraceNode(
        ref=memory_ref(kind, tsid), kind=kind.wire, status=row.status.wire,
        origin=_ORIGINS[row.origin].wire, at=format_ms(at_ms), depth=depth,
        confidence=effective_confidence(
            kind, row.confidence, row.has(Mark.PROTECTED), since, reading.now_ms
        ),
    )  # fmt: skip


def _externals(
    reading: Reading,
    tsid: int,
    row: MemoryRow,
    depth: int,
    nodes: list[r.TraceNode],
    found: list[r.TraceEdge],
    known: set[str],
) -> None:
    """External sources and annotations are nodes of their own kind; without content they have no id."""
    if not reading.content or is_purged(row):
        return
    try:
        _, event = reading.genesis(row)
        if not event.externals:
            return
        ids = reading.particulars(event.parts).externals
    except (PartUnreadable, DamagedRecord) as error:
        if isinstance(error, DamagedRecord) or error.state == "damaged":
            reading.note_damage(row.seq, "what it was derived from outside")
        return
    for external, external_id in zip(event.externals, ids, strict=False):
        if external.use != 0:
            continue
        kind = ExternalKind(external.kind).wire
        ref = f"{kind}:{external_id}"
        state = "live" if external.resolvable else "unavailable"
        if ref not in known:
            known.add(ref)
            node = r.TraceNode(ref=ref, kind=kind, status=state, origin=None, at=None, depth=depth, confidence=None)
            nodes.append(node)
        found.append(r.TraceEdge(from_=memory_ref(row.kind, tsid), to=ref, type=EdgeType.DERIVED_FROM.wire))

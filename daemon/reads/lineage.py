"""trace: where a memory comes from, or what came out of it. Breadth first, each node once."""

from __future__ import annotations

from typing import Any

from daemon.prepare import parse_memory
from daemon.reads.reading import Look, Reading, is_purged
from daemon.refusal import Reason, Refused
from daemon.wire import results as r
from daemon.wire.times import format_ms
from journal import events
from journal.codes import EdgeType, ExternalKind, ExternalUse, Kind, Mark, Origin
from journal.errors import DamagedRecord, PartUnreadable
from journal.tsid import memory_ref
from projections import edges
from projections.kinds import effective_confidence
from projections.provenance import is_resolvable
from projections.rows import NO_TIME, MemoryRow

_DERIVED = EdgeType.DERIVED_FROM
_LINEAGE = {int(edge): edge.wire for edge in (_DERIVED, EdgeType.SUPERSEDES, EdgeType.UPDATES)}
_KINDS = tuple((kind, kind.wire) for kind in Kind)
_ORIGINS = tuple(origin.wire for origin in Origin)

MAX_NODES = 20_000
MAX_EDGES = 30_000
"""What a line of 8 MiB can carry; more is `truncated`."""
WIDE = 32
"""From so many neighbours on their rows are read in one go."""


def trace(reading: Reading, params: Any) -> r.TraceResult:
    """Walk derived_from and revision edges. `truncated`: there was more below `depth`. Raises Refused."""
    kind, root = parse_memory("id", params.id)
    row = reading.memory(root, kind)
    if row is None:
        raise Refused(Reason.NOT_FOUND, "no such memory", parameter="id")
    walk = _Walk(reading, params.direction == "sources", params.depth)
    walk.run(root, row)
    return r.TraceResult(root=walk.refs[root], nodes=walk.nodes, edges=walk.edges, truncated=walk.truncated)


class _Walk:
    """One walk, breadth first: each memory is a node once, each edge is told once."""

    def __init__(self, reading: Reading, upwards: bool, depth: int) -> None:
        self._reading = reading
        self._upwards = upwards
        self._depth = depth
        self._statuses: dict[int, str] = {}  # by marks
        self._rows: dict[int, MemoryRow] = {}
        self.refs: dict[int, str] = {}  # of what was reached
        self._outside: set[str] = set()
        self.nodes: list[r.TraceNode] = []
        self.edges: list[r.TraceEdge] = []
        self.truncated = False

    def run(self, root: int, row: MemoryRow) -> None:
        self._reach(root, row, 0)
        level = [root]
        with self._reading.looking() as look:
            for depth in range(1, self._depth + 2):
                level = [found for tsid in level for found in self._step(look, tsid, depth)]
                if not level:
                    return

    def _step(self, look: Look, tsid: int, depth: int) -> list[int]:
        """Follow the edges of a memory; those that were reached for the first time."""
        if depth > self._depth:
            self._look_beyond(look, tsid)
            return []
        fresh: list[int] = []
        near, refs, upwards = self.refs[tsid], self.refs, self._upwards
        neighbours = self._neighbours(look, tsid)
        wide = len(neighbours) >= WIDE
        rows = self._reading.memories([other for _, _, other in neighbours]) if wide else {}
        for edge_type, _, other in neighbours:
            far = refs.get(other)
            if len(self.edges) >= MAX_EDGES or (far is None and len(self.nodes) >= MAX_NODES):
                self.truncated = True
                break
            if far is None:
                row = rows.get(other) if wide else self._reading.memory(other)
                if row is None:
                    continue
                far = self._reach(other, row, depth)
                fresh.append(other)
            made, source = (near, far) if upwards else (far, near)
            self.edges.append(r.TraceEdge(from_=made, to=source, type=_LINEAGE[edge_type]))
        if upwards:
            for ref, node in self._externals(tsid, depth):
                if ref not in self._outside:
                    self._outside.add(ref)
                    self.nodes.append(node)
                self.edges.append(r.TraceEdge(from_=near, to=ref, type=_DERIVED.wire))
        return fresh

    def _look_beyond(self, look: Look, tsid: int) -> None:
        """Whether the depth cut something off here."""
        if self.truncated:
            return
        beyond = any(self._reading.memory(other) is not None for _, _, other in self._neighbours(look, tsid))
        self.truncated = beyond or (self._upwards and bool(self._externals(tsid, self._depth)))

    def _neighbours(self, look: Look, tsid: int) -> list[edges.Edge]:
        if self._upwards:
            return [edge for edge in edges.outgoing(self._reading.state, tsid) if edge[0] in _LINEAGE]
        found = [edge for edge in look(tsid) if edge[0] in _LINEAGE]
        self._reading.spend(len(found))
        return found

    def _reach(self, tsid: int, row: MemoryRow, depth: int) -> str:
        kind, word = _KINDS[row.kind]
        ref = self.refs[tsid] = memory_ref(kind, tsid)
        if self._upwards:
            self._rows[tsid] = row
        status = self._statuses.get(row.marks)
        if status is None:
            status = self._statuses[row.marks] = row.status.wire
        at_ms = row.at_ms
        since = at_ms if row.verified_at == NO_TIME else row.verified_at
        confidence = effective_confidence(kind, row.confidence, row.has(Mark.PROTECTED), since, self._reading.now_ms)
        self.nodes.append(
            r.TraceNode(
                ref=ref, kind=word, status=status, origin=_ORIGINS[row.origin], at=format_ms(at_ms), depth=depth,
                confidence=confidence,
            )
        )  # fmt: skip
        return ref

    def _externals(self, tsid: int, depth: int) -> list[tuple[str, r.TraceNode]]:
        """External sources and annotations are nodes of their own kind; without content they have no id."""
        reading, row = self._reading, self._rows[tsid]
        if not reading.content or is_purged(row):
            return []
        try:
            _, event = reading.genesis(row)
            if not event.externals:
                return []
            ids = reading.particulars(event.parts).externals
        except (PartUnreadable, DamagedRecord) as error:
            if isinstance(error, DamagedRecord) or error.state == "damaged":
                reading.note_damage(row.seq, "what it was derived from outside")
            return []
        return [
            _outside(external, external_id, is_resolvable(reading.state, tsid, index, external.resolvable), depth)
            for index, (external, external_id) in enumerate(zip(event.externals, ids, strict=False))
            if external.use == ExternalUse.DERIVED_FROM
        ]


def _outside(external: events.External, external_id: str, resolvable: bool, depth: int) -> tuple[str, r.TraceNode]:
    kind = ExternalKind(external.kind).wire
    ref = f"{kind}:{external_id}"
    status = "live" if resolvable else "unavailable"
    return ref, r.TraceNode(ref=ref, kind=kind, status=status, origin=None, at=None, depth=depth, confidence=None)

"""trace: where a memory comes from, or what came out of it. Breadth first, each node once."""

from __future__ import annotations

from typing import Any

from daemon.prepare import parse_memory
from daemon.reads.outside import DERIVED_FROM, Outside, ids_of, named_at_first
from daemon.reads.reading import Look, Reading
from daemon.refusal import Reason, Refused
from daemon.wire import results as r
from daemon.wire.times import format_ms
from journal.codes import EdgeType, Kind, Origin
from journal.errors import DamagedRecord
from journal.tsid import memory_ref
from projections import edges
from projections.kinds import confidence_now
from projections.rows import FROM_OUTSIDE, Glance, status_of

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
    row = reading.glance(root)
    if row is None or row.kind != kind:
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
        self._times: dict[int, str] = {}  # by milliseconds: what is made together has the same
        self._partly_outside: dict[int, Glance] = {}  # what was derived from something outside the store too
        self.refs: dict[int, str] = {}  # of what was reached
        self._outside: set[str] = set()
        self.nodes: list[r.TraceNode] = []
        self.edges: list[r.TraceEdge] = []
        self.truncated = False

    def run(self, root: int, row: Glance) -> None:
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
        neighbours = self._neighbours(look, tsid)
        if not neighbours and not self._partly_outside:
            return fresh
        near, refs, upwards, told = self.refs[tsid], self.refs, self._upwards, self.edges
        wide = len(neighbours) >= WIDE
        rows = self._reading.glances([other for _, _, other in neighbours]) if wide else {}
        for edge_type, _, other in neighbours:
            far = refs.get(other)
            if len(told) >= MAX_EDGES or (far is None and len(self.nodes) >= MAX_NODES):
                self.truncated = True
                break
            if far is None:
                row = rows.get(other) if wide else self._reading.glance(other)
                if row is None:
                    continue
                far = self._reach(other, row, depth)
                fresh.append(other)
            made, source = (near, far) if upwards else (far, near)
            told.append(r.TraceEdge(from_=made, to=source, type=_LINEAGE[edge_type]))
        for ref, node in self._externals(tsid, depth):
            if ref not in self._outside:
                self._outside.add(ref)
                self.nodes.append(node)
            told.append(r.TraceEdge(from_=near, to=ref, type=_DERIVED.wire))
        return fresh

    def _look_beyond(self, look: Look, tsid: int) -> None:
        """Whether the depth cut something off here."""
        if self.truncated:
            return
        beyond = any(self._reading.glance(other) is not None for _, _, other in self._neighbours(look, tsid))
        self.truncated = beyond or bool(self._externals(tsid, self._depth))

    def _neighbours(self, look: Look, tsid: int) -> list[edges.Edge]:
        if self._upwards:
            return [edge for edge in edges.outgoing(self._reading.state, tsid) if edge[0] in _LINEAGE]
        found = [edge for edge in look(tsid) if edge[0] in _LINEAGE]
        self._reading.spend(len(found))
        return found

    def _reach(self, tsid: int, row: Glance, depth: int) -> str:
        _, _, at_ms, _, _, marks, kind_code, origin, traits = row
        kind, word = _KINDS[kind_code]
        ref = self.refs[tsid] = memory_ref(kind, tsid)
        if traits & FROM_OUTSIDE and self._upwards:
            self._partly_outside[tsid] = row
        status = self._statuses.get(marks)
        if status is None:
            status = self._statuses[marks] = status_of(marks).wire
        at = self._times.get(at_ms)
        if at is None:
            at = self._times[at_ms] = format_ms(at_ms)
        confidence = confidence_now(row, self._reading.now_ms)
        self.nodes.append(
            r.TraceNode(
                ref=ref, kind=word, status=status, origin=_ORIGINS[origin], at=at, depth=depth, confidence=confidence,
            )
        )  # fmt: skip
        return ref

    def _externals(self, tsid: int, depth: int) -> list[tuple[str, r.TraceNode]]:
        """What it was derived from outside, each a node of its own kind; who isn't told the ids sees each kind once."""
        reading, row = self._reading, self._partly_outside.get(tsid)
        if row is None:
            return []
        try:
            _, event = reading.genesis(row)
        except DamagedRecord:
            reading.note_damage(row.seq, "what it was derived from outside")
            return []
        ids = ids_of(reading, row, row.seq, event.parts)
        return [(each.ref, _node(each, depth)) for each in named_at_first(reading, tsid, event, ids, DERIVED_FROM)]


def _node(outside: Outside, depth: int) -> r.TraceNode:
    return r.TraceNode(
        ref=outside.ref, kind=outside.kind.wire, status=outside.state, origin=None, at=None, depth=depth,
        confidence=None,
    )  # fmt: skip

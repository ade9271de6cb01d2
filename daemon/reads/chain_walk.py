"""Which versions and edges the section `supersession` of a provenance chain tells.

Two breadth-first walks over `revisions` begin at the traced memory: one goes from successor to predecessor only, the
other from predecessor to successor only. A memory's depth in a walk is the least number of edges to it.

1. *Versions.* Both walks go on depth by depth, together, with one budget of 24 memories beside the traced one. What is
   reached at a depth is taken in order of id, a predecessor before a successor of the same id. A memory is taken once:
   one that both walks reach stands on the side where its depth is smaller, and with equal depths among the
   predecessors; both walks go on from it. The traced memory is never taken. The first memory that the budget keeps out
   ends both walks.
2. *Edges.* Told is each edge along which a walk comes from the traced memory or one that it reached to a version that
   stands on that walk's side: a version that several edges lead to stands in as many rows, all with its depth. Rows are
   in order of (depth, id of the version, id of the edge), the first 50 over both sides are told. In a cycle both walks
   can come along one edge: the row that comes first is told.

`truncated`: rule 1 or rule 2 kept something out. Termination: a walk comes to no memory twice. Cost: an index is looked
at for one version more than the budget has left, and for those reached before; never a record.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

import lmdb

from projections.revisions import Revision, Towards, revisions_of

_SIDES = (Towards.PREDECESSORS, Towards.SUCCESSORS)
_NOWHERE = (None, 0)
FEW = 64
"""So many edges of one memory are looked up in one go; beyond that only those that are wanted."""


class Version(NamedTuple):
    """A version by the edge that leads to it."""

    side: Towards
    depth: int
    tsid: int
    edge: Revision


class Walked(NamedTuple):
    """`versions` in order of (depth, id, edge), over both sides."""

    versions: list[Version]
    truncated: bool


def walk(cursor: lmdb.Cursor, root: int, ours: Callable[[int], bool], versions: int, edges: int) -> Walked:
    """The versions of `root`, at most so many memories beside it and so many rows, by a cursor of `revisions`; `ours`
    says of a memory whether it is the tenant's: what isn't, is not there. Raises DamagedRow."""
    walking = _Walking(cursor, root, ours, versions)
    walking.take()
    found: dict[int, Version] = {}
    for row in sorted(walking.rows(edges + 1), key=lambda row: (row.depth, row.tsid, row.edge.edge)):
        found.setdefault(row.edge.seq, row)  # each edge has a record of its own
    rows = list(found.values())
    return Walked(rows[:edges], walking.truncated or len(rows) > edges)


class _Walking:
    def __init__(self, cursor: lmdb.Cursor, root: int, ours: Callable[[int], bool], budget: int) -> None:
        self._cursor = cursor
        self._root = root
        self._ours = ours
        self._budget = budget
        self._reached: dict[Towards, set[int]] = {side: {root} for side in _SIDES}
        self._taken: dict[int, tuple[Towards, int]] = {}
        self._few: dict[tuple[int, Towards], list[Revision] | None] = {}
        self.truncated = False

    def _all(self, near: int, side: Towards) -> list[Revision] | None:
        """All edges of a memory in a direction; None when they are more than few. Looked up once."""
        key = (near, side)
        if key not in self._few:
            found = list(islice(revisions_of(self._cursor, near, side), FEW + 1))
            self._few[key] = found if len(found) <= FEW else None
        return self._few[key]

    def take(self) -> None:
        """Rule 1."""
        level = [(self._root, side) for side in _SIDES]
        depth = 0
        while level:
            depth += 1
            candidates = {(other, side) for near, side in level for other in self._beyond(near, side)}
            level = sorted(candidates)
            for tsid, side in level:
                if tsid not in self._taken and len(self._taken) == self._budget:
                    self.truncated = True
                    return
                self._taken.setdefault(tsid, (side, depth))
                self._reached[side].add(tsid)

    def _beyond(self, near: int, side: Towards) -> Iterator[int]:
        """What `near` leads to and this walk hasn't reached, in order of id, up to one more than may be taken."""
        room = self._budget - len(self._taken)
        for other in self._others(near, side):
            if other in self._reached[side] or not self._ours(other):
                continue
            yield other
            room -= other not in self._taken
            if room < 0:
                return

    def _others(self, near: int, side: Towards) -> Iterator[int]:
        """What `near` leads to, in order of id, each once."""
        edges = self._all(near, side)
        if edges is not None:
            yield from dict.fromkeys(edge.other for edge in edges)
            return
        edge = next(revisions_of(self._cursor, near, side), None)
        while edge is not None:
            yield edge.other
            edge = next(revisions_of(self._cursor, near, side, edge.other + 1), None)

    def rows(self, most: int) -> Iterator[Version]:
        """Rule 2, in no order; of one pair of memories the first `most`."""
        for side in _SIDES:
            there = sorted(tsid for tsid, (stands, _) in self._taken.items() if stands is side)
            for near in self._reached[side]:
                for edge in self._between(near, side, there, most):
                    yield Version(side, self._taken[edge.other][1], edge.other, edge)

    def _between(self, near: int, side: Towards, there: list[int], most: int) -> Iterator[Revision]:
        """The edges from `near` to those of `there`, passing over what lies between them."""
        edges = self._all(near, side)
        if edges is not None:
            yield from (edge for edge in edges if self._taken.get(edge.other, _NOWHERE)[0] is side)
            return
        wanted = 0
        while wanted < len(there):
            far = there[wanted]
            found = list(islice(_run(revisions_of(self._cursor, near, side, far)), most))
            if not found:
                return
            if found[0].other == far:
                yield from found
                wanted += 1
            else:
                wanted = bisect_right(there, found[0].other - 1)


def _run(edges: Iterator[Revision]) -> Iterator[Revision]:
    """The edges at the beginning that lead to the same memory."""
    far = None
    for edge in edges:
        if far is not None and edge.other != far:
            return
        far = edge.other
        yield edge

"""Which edges may be proposed between which memories.

By kind, and for some subtypes by subtype; a pair may have what both ends allow. What closes a memory makes a successor
of it, and as with `revise` that is of the memory's own kind. What has happened is not revised by a proposal.
`derived_from` and `evidence` are never proposed: the one is written once, the other brought by whoever has it.
"""

from __future__ import annotations

from journal.codes import EdgeType, Kind, subtype_code
from projections.rows import MemoryRow

CLOSING = frozenset({EdgeType.SUPERSEDES, EdgeType.UPDATES})
_ALL = CLOSING | {EdgeType.EXTENDS, EdgeType.CONTRADICTS}

BY_KIND: dict[Kind, frozenset[EdgeType]] = {
    Kind.RAW: _ALL,
    Kind.EPISODE: _ALL,
    Kind.NOTE: _ALL,
    Kind.BELIEF: _ALL,
    Kind.VALUE: _ALL,
    Kind.GOAL: _ALL,
    Kind.RELATIONSHIP: _ALL,
    Kind.DRIVE: _ALL,
    Kind.PROCEDURE: _ALL,
}
BY_SUBTYPE: dict[tuple[Kind, int], frozenset[EdgeType]] = {
    (Kind.EPISODE, subtype_code(Kind.EPISODE, "event")): _ALL - CLOSING,
    (Kind.BELIEF, subtype_code(Kind.BELIEF, "preference")): _ALL - {EdgeType.EXTENDS},
}
"""Subtypes that allow less than their kind."""
assert BY_KIND.keys() == set(Kind), "a kind without a row"


def proposable(one: MemoryRow, other: MemoryRow) -> frozenset[EdgeType]:
    """The edges that may be proposed between two memories, whichever way they run."""
    both = _of(one) & _of(other)
    return both if one.kind == other.kind else both - CLOSING


def _of(row: MemoryRow) -> frozenset[EdgeType]:
    kind = Kind(row.kind)
    return BY_SUBTYPE.get((kind, row.subtype), BY_KIND[kind])

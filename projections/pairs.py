"""Pairs of memories about which nothing is left to be proposed: what sleep asks before it stages an edge.

A pair is settled when any proposal names both, whatever became of it and whichever way it runs, or when an edge runs
between them. Somebody who looks at the two may still propose; only the stager of sleep never does so again.
"""

from __future__ import annotations

from journal.codes import EdgeType, ProposalStatus
from projections import edges, proposals
from projections.state import State


def settled(state: State, one: int, other: int) -> bool:
    """Whether two memories (TSIDs) were proposed to be related already, or are. Pure. Raises DamagedRow."""
    return _related(state, one, other) or _proposed(state, one, other)


def _related(state: State, one: int, other: int) -> bool:
    return any(
        edges.stands(state, source, int(edge_type), target)
        for source, target in ((one, other), (other, one))
        for edge_type in EdgeType
    )


def _proposed(state: State, one: int, other: int) -> bool:
    return any(proposals.naming_both(state, one, other, status) for status in ProposalStatus)

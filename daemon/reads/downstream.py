"""What was made from some memories, and from that, and so on: a breadth-first walk over `derived_from`, upwards.

Each memory once, whatever the diamonds (and, were there any, circles); in order of (how far, id); cut by that order, so
that the same question gives the same answer. A derivative that is purged is passed through: nothing is left to be done
about it, but what was made from it is there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from daemon.reads.reading import Reading
from daemon.selections import Tsids
from journal.codes import EdgeType, Mark
from projections.lineage_scan import rows_of

_DERIVED_FROM = int(EdgeType.DERIVED_FROM)
_PURGED = 1 << Mark.PURGED
_LOOKS_A_STEP = 4096


class Downstream(NamedTuple):
    """Derivatives as (kind, TSID). `cut`: there are more."""

    refs: list[tuple[int, int]]
    cut: bool


def downstream_of(reading: Reading, selected: Tsids, most: int) -> Downstream:
    """What derives from the selected memories and is none of them, at most that many. Raises Refused, DamagedRow."""
    seen: set[int] = set(selected.tolist())
    level = selected.tolist()
    found: list[tuple[int, int]] = []
    while level:
        level, unpurged = _ours(reading, _made_from(reading, level, seen))
        for kind, tsid in unpurged:
            if len(found) == most:
                return Downstream(found, True)
            found.append((kind, tsid))
    return Downstream(found, False)


def _made_from(reading: Reading, level: list[int], seen: set[int]) -> list[int]:
    """What was made from these directly and was not seen yet, in id order."""
    made: list[int] = []
    with reading.looking() as look:
        for place, tsid in enumerate(level):
            if place % _LOOKS_A_STEP == 0:
                reading.asking.step("downstream", place, len(level))
            for edge_type, _, child in look(tsid):
                if edge_type == _DERIVED_FROM and child not in seen:
                    seen.add(child)
                    made.append(child)
    return sorted(made)


def _ours(reading: Reading, tsids: list[int]) -> tuple[list[int], list[tuple[int, int]]]:
    """Those of our tenants, from which the walk goes on, and as (kind, TSID) those of them that are not purged."""
    asked = np.array(tsids, np.uint64)
    rows = rows_of(reading.snapshot, asked, lambda done, of: reading.asking.check())
    ours = np.isin(rows["tenant"], np.array(sorted(reading.tenants), np.uint32))
    kept = ours & (rows["marks"] & _PURGED == 0)
    return asked[ours].tolist(), list(zip(rows["kind"][kept].tolist(), asked[kept].tolist(), strict=True))

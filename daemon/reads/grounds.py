"""What a memory stands on (contract §4.6), for one memory and for all of a tenant: both by the same rule.

A memory stands on the memories that it was derived from; one that has none of its own stands where those stood that it
took the place of. What was forgotten or purged holds nothing up; what is outside the store never does.

| | has sources | is what |
|---|---|---|
| ROOT | none | of a kind that derives from nothing, or seeded: it needs none |
| GROUNDED | at least one that holds | |
| UNGROUNDED | all of them are gone | |
| ORPHAN | none | of a kind that must be made from something |

`grounded` says that it is a root or grounded.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from daemon.reads.reading import Reading
from journal.codes import EdgeType, Kind, Mark, Origin
from projections import edges
from projections.kinds import stands_alone
from projections.lineage_scan import EdgeColumns, Mask, Tsids
from projections.rows import MemoryRow


class Grounds(IntEnum):
    """How a memory stands. `ORPHAN` and `ROOT` have no sources."""

    ROOT = 0
    GROUNDED = 1
    UNGROUNDED = 2
    ORPHAN = 3


_DERIVED = int(EdgeType.DERIVED_FROM)
_STANDS_ALONE = np.array([[stands_alone(kind, origin) for origin in Origin] for kind in Kind], np.bool_)
assert tuple(Kind) == tuple(range(len(Kind))) and tuple(Origin) == tuple(range(len(Origin)))


def grounds_of(reading: Reading, tsid: int) -> Grounds:
    """How a memory of ours stands. Raises DamagedRow."""
    sources = edges.grounding(reading.state, tsid)
    reading.spend(1 + len(sources))
    if not sources:
        owner = reading.memory(edges.owners(reading.state, tsid)[0])
        alone = owner is None or stands_alone(Kind(owner.kind), Origin(owner.origin))
        return Grounds.ROOT if alone else Grounds.ORPHAN
    holding = (reading.memory(source) for _, _, source in sources)
    return Grounds.GROUNDED if any(row is not None and holds(row) for row in holding) else Grounds.UNGROUNDED


def is_grounded(reading: Reading, tsid: int) -> bool:
    """Whether it stands on anything, or needs nothing to stand on. Raises DamagedRow."""
    return grounds_of(reading, tsid) in (Grounds.ROOT, Grounds.GROUNDED)


def holds(row: MemoryRow) -> bool:
    """Whether what was made from it stands on it: what is only pruned still does."""
    return not (row.has(Mark.FORGOTTEN) or row.has(Mark.PURGED))


def grounds_of_all(
    tsids: Tsids,
    kinds: npt.NDArray[np.uint8],
    origins: npt.NDArray[np.uint8],
    gone: Mask,
    found: EdgeColumns,
    owners: Iterable[tuple[int, int]],
) -> npt.NDArray[np.uint8]:
    """Of each of these memories, which are in id order and all that there are up to the last one, its `Grounds`. `gone`
    are those forgotten or purged; `owners` pairs versions with each of those whose sources they stand on."""
    derived = found.type == _DERIVED
    made, lost = found.owner[derived], np.isin(found.target[derived], tsids[gone])
    sources = np.bincount(made, minlength=len(tsids))
    living = np.bincount(made[~lost], minlength=len(tsids))
    bare = np.where(_STANDS_ALONE[kinds, origins], int(Grounds.ROOT), int(Grounds.ORPHAN))
    held = np.where(living == 0, int(Grounds.UNGROUNDED), int(Grounds.GROUNDED))
    grounds = np.where(sources == 0, bare, held).astype(np.uint8)
    pairs = [(version, owner) for version, owner in owners if version != owner]
    if not pairs or not len(tsids):
        return grounds
    versions, held_by = (np.array(column, np.uint64) for column in zip(*pairs, strict=True))
    at, owner_at = (np.minimum(np.searchsorted(tsids, each), len(tsids) - 1) for each in (versions, held_by))
    ours = (tsids[at] == versions) & (tsids[owner_at] == held_by)
    held_as = grounds[owner_at[ours]]  # an owner's own are its sources', or there are none
    grounds[at[ours]] = max(Grounds)
    np.minimum.at(grounds, at[ours], held_as)  # of several each has sources, and one that holds is enough
    return grounds

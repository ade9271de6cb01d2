"""One slice of a vacuum, decided (ERASURE §4): which rows it goes through, and which ciphertexts leave with them.

What takes long (which parts of purged memories still lie in the journal) was found in a read and stands in the `Slice`,
or in the `Rest`; here it is only seen that it still holds. Between two slices other writes have their turn, so a
partition may have changed: then the slice is `again`, and whoever asked looks anew.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from daemon.commands import partitions as states
from daemon.commands.building import Building
from daemon.decision import Draft
from daemon.refusal import Reason, Refused
from journal import events
from journal.codes import PartitionState, Tier
from journal.events import Ref
from projections import partitions
from projections.partitions import PartitionRow
from projections.rows import FLAG_PURGED
from projections.vacuumed import leaving

TAIL_ROWS = 252
"""So many rows that were written meanwhile are taken with the last slice, so that a vacuum ends while others write."""


class Ciphertexts(NamedTuple):
    """What of destroyed keys still lies in the journal: sealed keys (owner seq, part), their bytes as they are stored,
    and of which partition (number, bytes) these were counted."""

    keys: tuple[tuple[int, int], ...] = ()
    size_bytes: int = 0
    counted: tuple[tuple[int, int], ...] = ()


class Slice(NamedTuple):
    """Rows of a partition to go through. `purged` are the memories among them whose ciphertexts were looked for."""

    partition: int
    first: int
    until: int
    purged: frozenset[int]
    found: Ciphertexts
    forced: bool


class Rest(NamedTuple):
    """Ciphertexts that leave without a row: those of `late`, memories that were purged after a vacuum had taken their
    row, or of no memory that a PURGE names."""

    partition: int
    late: tuple[Ref, ...]
    found: Ciphertexts
    forced: bool


class Done(NamedTuple):
    """What a vacuum that came to its end answers, to be kept under its idempotency key."""

    answer: dict[str, Any]


AGAIN: dict[str, Any] = {"again": True, "last": False}


def decide(building: Building, asked: Slice | Rest | Done) -> dict[str, Any]:
    """Add the drafts of a slice. Raises Refused (not_found), DamagedRow."""
    if isinstance(asked, Done):
        return asked.answer
    row = partitions.load(building.view.state, asked.partition)
    if row.tenant != building.tenant:
        raise Refused(Reason.NOT_FOUND, "no such partition", parameter="partition")
    if isinstance(asked, Rest):
        return _collect(building, asked, row)
    return _go_through(building, asked, row)


def _collect(building: Building, asked: Rest, row: PartitionRow) -> dict[str, Any]:
    building.add(Draft(events.Vacuumed(
        partition=asked.partition, before_count=0, after_count=0, tombstones_removed=0,
        removed_bytes=asked.found.size_bytes, forced=asked.forced, removed=asked.found.keys,
        first=row.reached, until=row.reached, to=row.packed, last=False,
        late=asked.late, counted=asked.found.counted, threshold=building.view.vacuum_threshold,
    )))  # fmt: skip
    return {"again": False, "last": False, "removed": 0, "ciphertexts": len(asked.found.keys)}


def _go_through(building: Building, asked: Slice, row: PartitionRow) -> dict[str, Any]:
    view = building.view
    begun = row.reached > 0
    if (begun and asked.first != row.reached) or asked.until > row.rows:
        return AGAIN
    until = row.rows if row.rows - asked.until <= TAIL_ROWS else asked.until
    columns = view.header_rows(asked.partition, asked.first, until)
    purged = columns["tsid"][columns["flags"] & FLAG_PURGED != 0].tolist()
    if not asked.purged.issuperset(purged):
        return AGAIN
    gone = int(leaving(columns).sum())
    if row.tier == Tier.EPISODIC and row.accepts:
        if not asked.forced:
            return AGAIN
        states.seal(building, asked.partition, row)
    last = until == row.rows
    building.add(Draft(events.Vacuumed(
        partition=asked.partition, before_count=len(columns), after_count=len(columns) - gone, tombstones_removed=gone,
        removed_bytes=asked.found.size_bytes, forced=asked.forced, removed=asked.found.keys,
        first=asked.first, until=until, to=row.packed if begun else asked.first, last=last,
        counted=asked.found.counted, threshold=view.vacuum_threshold,
    )))  # fmt: skip
    if last and row.tier == Tier.EPISODIC and row.state != PartitionState.COMPACTED:
        building.add(_compacted(asked.partition, row, gone))
    return {"again": False, "last": last, "removed": gone, "ciphertexts": len(asked.found.keys)}


def _compacted(number: int, row: PartitionRow, gone: int) -> Draft:
    """The change behind the last slice. One that accepted until now is sealed before it."""
    old = PartitionState.SEALED if row.accepts else row.state
    rows_left = row.packed + (row.rows - row.reached) - gone
    return Draft(events.PartitionChanged(
        number=number, old=int(old), new=int(PartitionState.COMPACTED), rows=rows_left, dead=row.dead - gone,
    ))  # fmt: skip

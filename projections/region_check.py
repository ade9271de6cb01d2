"""Does the provenance region say what the edges say, and do its indexes lead to all of it?

The edges `derived_from` are the truth, a row is an index of them; offsets are hints and are not compared. Both ways:
each row stands in `region_targets`, and one of a pass in `region_sessions`, under the pass and fact that it names;
there are no other entries than those of rows; what a tombstone goes back to is there for tombstones only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from journal.codes import EdgeType, Kind, Tier
from projections import edges, passes, provenance, region, tables
from projections.kinds import KINDS
from projections.provenance import Place
from projections.region import LIVE, PARTIAL, ROW_BYTES, TOMBSTONE, RegionRow
from projections.rows import DamagedRow, MemoryRow
from projections.state import State

Ref = tuple[int, int]  # (kind code, TSID)
_DERIVED = int(EdgeType.DERIVED_FROM)


def disagreeing(state: State, step: Callable[[], None], newest: int | None = None) -> Iterator[Ref]:
    """The targets of rows that differ from what the other projections say; `newest`: of the last so many rows of each
    tenant only. `step` is called for each row; what it raises ends it. Raises DamagedRow, also for an index that has
    more or fewer entries than there are rows.
    """
    rows = of_passes = tombstones = 0
    is_whole = True
    for key, _ in state.entries(tables.REGIONS, b""):
        tenant = int.from_bytes(key, "big")
        total = provenance.count(state, tenant)
        first = 0 if newest is None else max(0, total - newest)
        is_whole = is_whole and not first
        for number, row in _rows(state, tenant, first):
            step()
            rows += 1
            of_passes += bool(row.pass_number)
            tombstones += row.flags == TOMBSTONE
            if not _agrees(state, row, (tenant, number)):
                yield row.prefix_kind, row.target_tsid
    if is_whole:
        _check_counts(state, rows, of_passes, tombstones)


def _rows(state: State, tenant: int, first: int) -> Iterator[tuple[int, RegionRow]]:
    """`(number, row)` of a tenant's rows from `first` on. Raises DamagedRow, also when one is missing."""
    number = first
    if not first:
        for page in provenance.all_rows(state, tenant):
            for at in range(0, len(page), ROW_BYTES):
                yield number, region.unpack(page[at : at + ROW_BYTES])
                number += 1
        return
    for number in range(first, provenance.count(state, tenant)):
        yield number, provenance.load(state, (tenant, number))


def _check_counts(state: State, rows: int, of_passes: int, tombstones: int) -> None:
    """Each row has been found in its indexes: with as many entries as rows there are no others. Raises DamagedRow."""
    for database, wanted in (
        (tables.REGION_TARGETS, rows), (tables.REGION_SESSIONS, of_passes), (tables.REGION_DEAD, tombstones),
    ):  # fmt: skip
        if sum(1 for _ in state.entries(database, b"")) != wanted:
            raise DamagedRow(database)


def _agrees(state: State, row: RegionRow, place: Place) -> bool:
    target = state.memory(row.target_tsid)
    if target is None or target.tenant != place[0] or target.kind != row.prefix_kind:
        return False
    if row.flags != _state_of(state, row, target) or row.target_kind != KINDS[Kind(target.kind)].tier:
        return False
    if not provenance.is_indexed(state, row, place, target.session):
        return False
    sources = [source for kind, _, source in edges.outgoing(state, row.target_tsid) if kind == _DERIVED]
    if row.source_kind != Tier.EPISODIC:
        source = state.memory(row.source_tsid)
        return row.source_tsid in sources and source is not None and source.partition == row.source_partition
    found = [state.memory(source) for source in sources]
    return _covers(state, row, [source for source in found if source is not None])


def _state_of(state: State, row: RegionRow, target: MemoryRow) -> int:
    """What the row's state should be."""
    if target.dead:
        return TOMBSTONE
    is_open = row.pass_number and passes.sleep_of(state, target.session).open_pass == row.pass_number
    return PARTIAL if is_open else LIVE


def _covers(state: State, row: RegionRow, turns: list[MemoryRow]) -> bool:
    """Whether the row's turns are exactly as many as these, from the first of them to the last."""
    if len(turns) != row.turn_count or len({turn.session for turn in turns}) != 1:
        return False
    turns.sort(key=lambda turn: turn.turn)
    first, last = turns[0], turns[-1]
    session = state.session(first.session)
    told = (row.first_seq, row.last_seq, row.partition_seq, row.session_id)
    return session is not None and told == (first.turn, last.turn, first.partition, session.id)

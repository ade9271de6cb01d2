"""Does the provenance region say what the edges say? The edges `derived_from` are the truth, a row is an index of them.

Offsets are hints and are not compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from journal.codes import EdgeType, Kind, Tier
from projections import edges, provenance, region, tables
from projections.kinds import KINDS
from projections.region import ROW_BYTES, TOMBSTONE, RegionRow
from projections.rows import MemoryRow
from projections.state import State

Ref = tuple[int, int]  # (kind code, TSID)
_DERIVED = int(EdgeType.DERIVED_FROM)


def disagreeing(state: State, step: Callable[[], None]) -> Iterator[Ref]:
    """The targets of rows that differ from what the other projections say. `step` is called for each row; what it
    raises ends it. Raises DamagedRow.
    """
    for key, _ in state.prefix(tables.REGIONS, b""):
        for page in provenance.all_rows(state, int.from_bytes(key, "big")):
            for at in range(0, len(page), ROW_BYTES):
                step()
                row = region.unpack(page[at : at + ROW_BYTES])
                if not _agrees(state, row, int.from_bytes(key, "big")):
                    yield row.prefix_kind, row.target_tsid


def _agrees(state: State, row: RegionRow, tenant: int) -> bool:
    target = state.memory(row.target_tsid)
    if target is None or target.tenant != tenant or target.kind != row.prefix_kind:
        return False
    if target.dead != (row.flags == TOMBSTONE) or row.target_kind != KINDS[Kind(target.kind)].tier:
        return False
    sources = [source for kind, _, source in edges.outgoing(state, row.target_tsid) if kind == _DERIVED]
    if row.source_kind != Tier.EPISODIC:
        source = state.memory(row.source_tsid)
        return row.source_tsid in sources and source is not None and source.partition == row.source_partition
    found = [state.memory(source) for source in sources]
    return _covers(state, row, [source for source in found if source is not None])


def _covers(state: State, row: RegionRow, turns: list[MemoryRow]) -> bool:
    """Whether the row's turns are exactly as many as these, from the first of them to the last."""
    if len(turns) != row.turn_count or len({turn.session for turn in turns}) != 1:
        return False
    turns.sort(key=lambda turn: turn.turn)
    first, last = turns[0], turns[-1]
    session = state.session(first.session)
    told = (row.first_seq, row.last_seq, row.partition_seq, row.session_id)
    return session is not None and told == (first.turn, last.turn, first.partition, session.id)

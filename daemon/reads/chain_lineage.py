"""The section `supersession` of a provenance chain: the versions before and after a memory, a row for each edge.

A row is what the version's own row and record say, and what the record that closed the predecessor says of the edge.
Which rows there are, and in which order, is said in `chain_walk.py`. Topic and project are unsealed for this; they are
null for a purged version, and for a caller who may not read content. What JSON writes of them can be six times as long
as they are (control characters): the first row that the chain has no room for ends the section, which says so.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import msgspec

from daemon import limits
from daemon.reads.chain_tracing import Tracing, actor_kind, proposal_ref
from daemon.reads.chain_walk import Version, walk
from daemon.reads.filing import particulars_of
from daemon.reads.reading import is_purged
from daemon.wire import chain_results as c
from daemon.wire.times import format_ms
from journal.codes import EdgeType, Kind, ProposalKind, subtype_name
from journal.errors import DamagedRecord, PartUnreadable
from journal.events import MemoryCreated, Superseded
from journal.particulars import Particulars
from journal.tsid import format_tsid, memory_ref
from projections import tables
from projections.revisions import KEY, Towards
from projections.rows import NO_TIME, MemoryRow

OTHERS_BYTES = 32 * 1024
"""More than all that a chain tells beside its versions: 50 events, 25 proposals, 25 facts of fixed forms."""
ROWS_BYTES = limits.CHAIN_BYTES - OTHERS_BYTES
_ENCODE = msgspec.json.Encoder().encode
_EDGE_SOURCES = (ProposalKind.EDGE, ProposalKind.RETENTION)


class _Identity(NamedTuple):
    """What a version says of itself; `filed` are its particulars."""

    row: MemoryRow
    filed: Particulars
    valid_from: int | None
    session: str | None


def supersession(tracing: Tracing) -> c.ChainSupersession:
    """Raises DamagedRecord, DamagedRow, PartUnreadable (damaged)."""
    event = None
    with suppress(DamagedRecord):  # a record that says how it began is no part of this section: `origin` tells of it
        event = tracing.genesis(tracing.row)[1]
    _check_whole(tracing, tracing.tsid, tracing.row, event)
    with tracing.reading.snapshot.cursor(tables.REVISIONS) as cursor:
        walked = walk(
            cursor, tracing.tsid, lambda tsid: tracing.memory(tsid) is not None,
            limits.CHAIN_VERSIONS - 1, limits.CHAIN_EDGES,
        )  # fmt: skip
    known: dict[int, _Identity] = {}
    told: dict[Towards, list[c.ChainVersion]] = {side: [] for side in Towards}
    room_bytes = ROWS_BYTES
    for version in walked.versions:
        row = _row(tracing, version, known)
        if row is None:
            continue
        room_bytes -= len(_ENCODE(row)) + 1
        if room_bytes < 0:
            break
        told[version.side].append(row)
    return c.ChainSupersession(
        predecessors=told[Towards.PREDECESSORS], successors=told[Towards.SUCCESSORS],
        truncated=walked.truncated or room_bytes < 0,
    )  # fmt: skip


def _row(tracing: Tracing, version: Version, known: dict[int, _Identity]) -> c.ChainVersion | None:
    """None when the record of its edge is another tenant's."""
    edge = version.edge
    record = tracing.record(edge.seq)
    if record is None:
        return None
    closing = record.event
    if not isinstance(closing, Superseded) or closing.edge != edge.edge:
        raise DamagedRecord(edge.seq, "event")
    if version.tsid not in known:
        known[version.tsid] = _identity(tracing, version.tsid)
    identity = known[version.tsid]
    row, filed = identity.row, identity.filed
    kind = Kind(row.kind)
    return c.ChainVersion(
        id=memory_ref(kind, version.tsid),
        kind=kind.wire,
        subtype=subtype_name(kind, row.subtype),
        topic=filed.topic,
        project=filed.project,
        status=row.status.wire,
        valid_from=None if identity.valid_from is None else format_ms(identity.valid_from),
        valid_to=None if row.valid_to == NO_TIME else format_ms(row.valid_to),
        created_at=format_ms(row.at_ms),
        edge=f"edge:{format_tsid(edge.edge)}",
        edge_type=EdgeType(edge.edge_type).wire,
        created_by=actor_kind(record),
        edge_created_at=format_ms(record.at_ms),
        depth=version.depth,
        source_proposal=_source(tracing, closing.proposal),
        created_by_session=identity.session,
    )


def _identity(tracing: Tracing, tsid: int) -> _Identity:
    row = tracing.memory(tsid)
    assert row is not None, "the walk takes only what is the tenant's"
    event = tracing.genesis(row)[1]
    _check_whole(tracing, tsid, row, event)
    session = tracing.session_ref(event.session)
    return _Identity(row, _filed(tracing, row, event), event.valid_from, session)


def _check_whole(tracing: Tracing, tsid: int, row: MemoryRow, event: MemoryCreated | None) -> None:
    """Raises DamagedRow when a version names one before or behind it, and the index has no edge to that."""
    if row.superseded_by:
        tracing.require(tables.REVISIONS, KEY.pack(tsid, Towards.SUCCESSORS, row.superseded_by, 0)[:-8])
    if event is not None and event.predecessor is not None:
        tracing.require(tables.REVISIONS, KEY.pack(tsid, Towards.PREDECESSORS, event.predecessor[1], 0)[:-8])


def _filed(tracing: Tracing, row: MemoryRow, event: MemoryCreated) -> Particulars:
    if is_purged(row):
        return Particulars()
    try:
        return particulars_of(tracing.reading, row, event)
    except PartUnreadable as error:
        if error.state == "purged":
            return Particulars()
        raise


def _source(tracing: Tracing, proposal: int) -> c.SourceProposal | None:
    """The proposal that an edge came of, as its record names it."""
    row = tracing.proposal(proposal) if proposal else None
    if row is None or row.kind not in _EDGE_SOURCES:
        return None
    return c.SourceProposal(kind=ProposalKind(row.kind).wire, id=proposal_ref(proposal))

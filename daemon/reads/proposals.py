"""proposals: what waits for a decision, or was decided, newest first.

Kinds share a page: while others have some left, none takes their places, so that what sleep stages by the hundred
doesn't hide a fact that somebody proposed. Within each kind the order is newest first over all pages. A cursor says of
each kind below which id to go on, and how many there were; what is proposed meanwhile is on no page.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from heapq import merge
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from daemon.prepare import UNSET
from daemon.reads.cursors import Cursors
from daemon.reads.listing import PAGE_BYTES
from daemon.reads.reading import Reading
from daemon.wire import proposal_results as r
from daemon.wire.times import format_ms
from journal import events
from journal.codes import EdgeType, Part, ProposalAction, ProposalKind, ProposalStatus
from journal.errors import DamagedRecord, PartUnreadable
from journal.particulars import decode_particulars
from journal.tsid import MAX_TSID, format_tsid, memory_ref
from projections import proposals, tables
from projections.proposals import ProposalRow
from projections.rows import DamagedRow

_KINDS = tuple(ProposalKind)
_ENCODE = msgspec.json.Encoder().encode
COUNTED_AT_ONCE = 1024

Ids = dict[ProposalKind, list[int]]


class Place(NamedTuple):
    """Below which id each kind goes on, by its code (0: it has no more), and how many there are on all pages."""

    before: tuple[int, ...]
    total: int


def proposal_list(reading: Reading, params: Any) -> r.ProposalsResult:
    """A page of them; without a status those that wait. Raises Refused, DamagedRow."""
    status = ProposalStatus.PROPOSED if params.status is UNSET else ProposalStatus[params.status.upper()]
    kinds = _KINDS if params.proposal_kind is UNSET else (ProposalKind[params.proposal_kind.upper()],)
    cursors = reading.cursors(repr(("proposals", reading.tenant_names, params.status, params.proposal_kind)))
    if params.cursor is UNSET:
        before = tuple(MAX_TSID if kind in kinds else 0 for kind in _KINDS)
        place = Place(before, sum(1 for kind in kinds for _ in ids_newest_first(reading, status, kind)))
    else:
        place = _decoded(params.cursor, cursors)
    found = {
        kind: list(islice(ids_newest_first(reading, status, kind, place.before[kind]), params.limit + 1))
        for kind in _KINDS
    }
    page = _page(reading, shared(found, params.limit))
    following = _following(found, {proposal for proposal, _ in page})
    more = any(following)
    return r.ProposalsResult(
        proposals=[row for _, row in page],
        next_cursor=_encoded(Place(following, place.total), cursors) if more else None,
        total=place.total,
    )


def ids_newest_first(
    reading: Reading, status: ProposalStatus, kind: ProposalKind, before: int = MAX_TSID
) -> Iterator[int]:
    """The proposals of the question's tenants with an id below `before`, newest first. Raises DamagedRow."""
    with ExitStack() as open_cursors:
        found = [
            proposals.newest_of(
                open_cursors.enter_context(reading.snapshot.cursor(tables.PROPOSALS_BY)), tenant, status, kind, before
            )
            for tenant in sorted(reading.tenants)
        ]
        for number, proposal in enumerate(merge(*found, reverse=True)):
            if number % COUNTED_AT_ONCE == 0:
                reading.spend()
            yield proposal


def row_of(reading: Reading, proposal: int) -> ProposalRow:
    """The row of one that an index of our tenants names. Raises DamagedRow."""
    reading.spend()
    row = proposals.get(reading.state, proposal)
    if row is None or row.tenant not in reading.tenants:
        raise DamagedRow(tables.PROPOSALS_BY)
    return row


def seqs_about(reading: Reading, tsid: int, seqs: list[int]) -> list[int]:
    """The records about a memory of ours, with those that propose something of it or decide that, ascending."""
    return sorted({*seqs, *proposals.seqs_naming(reading.state, tsid)})


def shared(found: Ids, limit: int) -> list[int]:
    """Up to `limit` of them, newest first: as many of each kind as there are, else in turns."""
    turns = sorted((list(reversed(ids)) for ids in found.values() if ids), key=lambda ids: ids[-1], reverse=True)
    chosen: list[int] = []
    while turns and len(chosen) < limit:
        for ids in turns[: limit - len(chosen)]:
            chosen.append(ids.pop())
        turns = [ids for ids in turns if ids]
    return sorted(chosen, reverse=True)


def _following(found: Ids, given: set[int]) -> tuple[int, ...]:
    """Below which id each kind goes on behind a page that gave these."""
    left = [[proposal for proposal in found[kind] if proposal not in given] for kind in _KINDS]
    return tuple(ids[0] + 1 if ids else 0 for ids in left)


def _page(reading: Reading, chosen: list[int]) -> list[tuple[int, r.ProposalRow]]:
    """Those of them that a line can carry, with their ids."""
    page: list[tuple[int, r.ProposalRow]] = []
    size_bytes = 0
    for proposal in chosen:
        row = _shown(reading, proposal, row_of(reading, proposal))
        size_bytes += len(_ENCODE(row)) + 1
        if page and size_bytes > PAGE_BYTES:
            break
        page.append((proposal, row))
    return page


def _shown(reading: Reading, proposal: int, row: ProposalRow) -> r.ProposalRow:
    event = _made(reading, row)
    told = _Told(None, None, "damaged") if event is None else _told(reading, row, event)
    return r.ProposalRow(
        proposal=f"proposal:{format_tsid(proposal)}",
        proposal_kind=ProposalKind(row.kind).wire,
        status=ProposalStatus(row.status).wire,
        memory=memory_ref(*row.memory),
        other=None if row.other is None else memory_ref(*row.other),
        edge=EdgeType(row.edge_type).wire if row.edge_type else None,
        action=ProposalAction(row.action).wire if row.action else None,
        fact=told.fact,
        note=told.note,
        unread=told.unread,
        cycle=f"cycle:{format_tsid(row.cycle)}" if row.cycle else None,
        at=format_ms(row.made_at),
        decided_at=format_ms(row.decided_at) if row.decided_seq else None,
        produced=r.produced_refs(row.edges, row.facts, row.seqs),
    )


def _made(reading: Reading, row: ProposalRow) -> events.ProposalMade | None:
    """The event that made it; None, and a finding, when it can't be read."""
    try:
        record = reading.record(row.made_seq)
    except DamagedRecord:
        reading.note_damage(row.made_seq, "what it says")
        return None
    if not isinstance(record.event, events.ProposalMade) or record.tenant != row.tenant:
        reading.note_damage(row.made_seq, "what it says")
        return None
    return record.event


class _Told(NamedTuple):
    """The words of one; `unread`: why some of them are missing, None when none are."""

    fact: r.ProposedFact | None
    note: str | None
    unread: str | None


def _told(reading: Reading, row: ProposalRow, event: events.ProposalMade) -> _Told:
    particulars, fact_unread = _opened(reading, row, event, Part.PARTICULARS)
    words, note_unread = _opened(reading, row, event, Part.WORDS)
    note = None if words is None else words.decode()
    return _Told(_fact(event, particulars), note, fact_unread or note_unread)


def _fact(event: events.ProposalMade, plain: bytes | None) -> r.ProposedFact | None:
    if plain is None or event.fact is None:
        return None
    head = event.fact
    subject, predicate, value = decode_particulars(plain).facts[0]
    return r.ProposedFact(
        subject=subject, predicate=predicate, value=value,
        confidence=head.confidence, valid_from=_time(head.valid_from), valid_to=_time(head.valid_to),
    )  # fmt: skip


def _opened(
    reading: Reading, row: ProposalRow, event: events.ProposalMade, code: Part
) -> tuple[bytes | None, str | None]:
    """The plaintext of a part of it, else None and why: withheld from callers without content, purged or damaged; both
    are None when there is no such part."""
    part = next((each for each in event.parts if each.part == code), None)
    if part is None:
        return None, None
    if not reading.content:
        return None, "withheld"
    try:
        return reading.unseal(part), None
    except PartUnreadable as error:
        if error.state == "purged":
            return None, "purged"
        reading.note_damage(row.made_seq, "a sealed part")
        return None, "damaged"


def _time(at_ms: int | None) -> str | None:
    return None if at_ms is None else format_ms(at_ms)


def _encoded(place: Place, cursors: Cursors) -> str:
    edge, fact, resolution, retention = place.before
    return cursors.encode(edge, fact, place.total, resolution, retention)


def _decoded(text: str, cursors: Cursors) -> Place:
    """Raises Refused."""
    found = cursors.decode(text, 0)
    return Place((found.last, found.head, found.given, found.more), found.total)

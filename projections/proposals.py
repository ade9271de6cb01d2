"""Proposals: what waits for a decision, and what came of what was decided.

`proposals` id u64 → `ProposalRow`. `proposals_by` (tenant u32, status u8, kind u8, id u64) lists a tenant's,
`proposals_of` (memory TSID u64, status u8, id u64) those that name a memory, at either end. Values are CRCs.
Invariant: one entry in `proposals_by` for each row, under its status, and one or two in `proposals_of`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from itertools import zip_longest

import lmdb
import msgspec

from journal import events
from journal.codes import ProposalStatus
from journal.record import Record
from projections import rows, tables
from projections.newest import newest_first
from projections.state import KEY64, State

BY_KEY = struct.Struct(">IBBQ")
OF_KEY = struct.Struct(">QBQ")
_PROPOSED = int(ProposalStatus.PROPOSED)


class ProposalRow(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """`fact` 0: none. `edges` and `facts` are ids, `seqs` records: what it produced. Times are UTC ms."""

    tenant: int
    kind: int
    status: int
    memory: events.Ref
    other: events.Ref | None
    edge_type: int
    action: int
    made_seq: int
    made_at: int
    cycle: int = 0
    decided_seq: int = 0
    decided_at: int = 0
    edges: tuple[int, ...] = ()
    facts: tuple[int, ...] = ()
    seqs: tuple[int, ...] = ()


_ENCODE = msgspec.msgpack.Encoder().encode
_DECODE = msgspec.msgpack.Decoder(ProposalRow).decode


def made(state: State, record: Record, event: events.ProposalMade) -> None:
    row = ProposalRow(
        record.tenant, event.kind, _PROPOSED, event.memory, event.other, event.edge_type, event.action,
        record.seq, record.at_ms, event.cycle,
    )  # fmt: skip
    _put(state, event.id, row)
    state.counters.tsid = max(state.counters.tsid, event.id)


def decided(state: State, record: Record, event: events.ProposalDecided) -> None:
    row = get(state, event.id)
    if row is None:
        raise rows.DamagedRow(tables.PROPOSALS)
    for key in _index_keys(event.id, row):
        state.delete(*key)
    status = int(ProposalStatus.APPLIED if event.accepted else ProposalStatus.REJECTED)
    _put(state, event.id, msgspec.structs.replace(
        row, status=status, decided_seq=record.seq, decided_at=record.at_ms,
        edges=event.edges, facts=event.facts, seqs=event.seqs,
    ))  # fmt: skip


def _put(state: State, proposal: int, row: ProposalRow) -> None:
    key = KEY64.pack(proposal)
    state.put(tables.PROPOSALS, key, rows.seal_row(key, _ENCODE(row)))
    for database, index_key in _index_keys(proposal, row):
        state.put(database, index_key, rows.seal_row(index_key, b""))


def _index_keys(proposal: int, row: ProposalRow) -> Iterator[tuple[str, bytes]]:
    yield tables.PROPOSALS_BY, BY_KEY.pack(row.tenant, row.status, row.kind, proposal)
    named = {row.memory[1]} if row.other is None else {row.memory[1], row.other[1]}
    for tsid in named:
        yield tables.PROPOSALS_OF, OF_KEY.pack(tsid, row.status, proposal)


def get(state: State, proposal: int) -> ProposalRow | None:
    """The row of a proposal of any tenant, None when there is none. Raises DamagedRow."""
    key = KEY64.pack(proposal)
    value = state.get(tables.PROPOSALS, key)
    return None if value is None else unpack(key, value)


def unpack(key: bytes, value: bytes) -> ProposalRow:
    """The row of a proposal in `value`. Raises DamagedRow."""
    return _DECODE(rows.open_row(tables.PROPOSALS, key, value))


def naming(state: State, tsid: int, status: ProposalStatus) -> list[int]:
    """The proposals of that status which name a memory, oldest first. Raises DamagedRow."""
    return list(_naming(state, tsid, status))


def _naming(state: State, tsid: int, status: ProposalStatus) -> Iterator[int]:
    for key, _ in state.entries(tables.PROPOSALS_OF, KEY64.pack(tsid) + bytes((status,))):
        yield OF_KEY.unpack(key)[2]


def naming_both(state: State, one: int, other: int, status: ProposalStatus) -> bool:
    """Whether a proposal of that status names both memories. It costs what the one costs that fewer name: the other
    may be a hub. Raises DamagedRow."""
    of_one: list[int] = []
    of_other: list[int] = []
    for first, second in zip_longest(_naming(state, one, status), _naming(state, other, status)):
        if first is None:
            break
        if second is None:
            return _any_names(state, one, status, of_other)
        of_one.append(first)
        of_other.append(second)
    return _any_names(state, other, status, of_one)


def _any_names(state: State, tsid: int, status: ProposalStatus, among: list[int]) -> bool:
    keys = (OF_KEY.pack(tsid, status, proposal) for proposal in among)
    return any(state.get(tables.PROPOSALS_OF, key) is not None for key in keys)


def naming_in_any_status(state: State, tsid: int) -> list[int]:
    """The proposals which name a memory. Raises DamagedRow."""
    return [OF_KEY.unpack(key)[2] for key, _ in state.entries(tables.PROPOSALS_OF, KEY64.pack(tsid))]


def newest_naming(cursor: lmdb.Cursor, tsid: int, status: ProposalStatus) -> Iterator[int]:
    """The proposals of that status which name a memory, newest first, by a cursor of `proposals_of`.
    Raises DamagedRow."""
    for key, _ in newest_first(cursor, tables.PROPOSALS_OF, KEY64.pack(tsid) + bytes((status,))):
        yield OF_KEY.unpack(key)[2]


def newest_of(cursor: lmdb.Cursor, tenant: int, status: int, kind: int, before: int) -> Iterator[int]:
    """The proposals of a tenant, of one status and kind, with an id below `before`, newest first, by a cursor of
    `proposals_by`. Raises DamagedRow."""
    prefix = BY_KEY.pack(tenant, status, kind, 0)[: -KEY64.size]
    for key, _ in newest_first(cursor, tables.PROPOSALS_BY, prefix, KEY64.pack(before)):
        yield BY_KEY.unpack(key)[3]


def seqs_naming(state: State, tsid: int) -> list[int]:
    """The records that propose something about a memory, at either end, and those that decide it. Raises DamagedRow."""
    found = []
    for status in ProposalStatus:
        for proposal in naming(state, tsid, status):
            row = get(state, proposal)
            if row is not None:
                found += [row.made_seq, row.decided_seq]
    return sorted(seq for seq in found if seq)


FOLDS: dict[type, Callable[..., None]] = {
    events.ProposalMade: made,
    events.ProposalDecided: decided,
}

"""Cohorts: an action on many memories, that can be lifted.

`cohorts` id u64 → `CohortRow`. `cohorts_by` (tenant u32, id u64) lists a tenant's. `cohort_members` (id u64, TSID u64)
→ kind u8, importance before and after f64, CRC-32C. `in_cohorts` (TSID u64, id u64) → action u8, CRC-32C.
Invariant: `in_cohorts` has the members of the cohorts that are not lifted, and no others.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from journal import events
from journal.codes import CohortAction
from journal.record import Record
from projections import rows, tables
from projections.state import KEY32, KEY32_64, KEY64, KEY64_64, State

_MEMBER = struct.Struct("<Bdd")


class CohortRow(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """`lifted_seq` 0: it holds. Times are UTC ms."""

    tenant: int
    action: int
    count: int
    downstream: int
    made_seq: int
    made_at: int
    lifted_seq: int = 0
    lifted_at: int = 0


class Member(NamedTuple):
    """A memory of a cohort, with its importance before and after the action."""

    kind: int
    tsid: int
    old: float
    new: float


_ENCODE = msgspec.msgpack.Encoder().encode
_DECODE = msgspec.msgpack.Decoder(CohortRow).decode


def made(state: State, record: Record, event: events.CohortMade) -> None:
    row = get(state, event.id)
    if row is None:
        row = CohortRow(record.tenant, event.action, 0, 0, record.seq, record.at_ms)
        key = KEY32_64.pack(record.tenant, event.id)
        state.put(tables.COHORTS_BY, key, rows.seal_row(key, b""))
    _put(state, event.id, msgspec.structs.replace(
        row, count=row.count + len(event.changes), downstream=row.downstream + event.downstream
    ))  # fmt: skip
    action = bytes((event.action,))
    for change in event.changes:
        key = KEY64_64.pack(event.id, change.id)
        state.put(tables.COHORT_MEMBERS, key, rows.seal_row(key, _MEMBER.pack(change.kind, change.old, change.new)))
        key = KEY64_64.pack(change.id, event.id)
        state.put(tables.IN_COHORTS, key, rows.seal_row(key, action))
    state.counters.tsid = max(state.counters.tsid, event.id)


def lifted(state: State, record: Record, event: events.CohortLifted) -> None:
    row = get(state, event.id)
    if row is None:
        raise rows.DamagedRow(tables.COHORTS)
    _put(state, event.id, msgspec.structs.replace(row, lifted_seq=record.seq, lifted_at=record.at_ms))
    for change in event.changes:
        state.delete(tables.IN_COHORTS, KEY64_64.pack(change.id, event.id))


def _put(state: State, cohort: int, row: CohortRow) -> None:
    key = KEY64.pack(cohort)
    state.put(tables.COHORTS, key, rows.seal_row(key, _ENCODE(row)))


def get(state: State, cohort: int) -> CohortRow | None:
    """The row of a cohort of any tenant, None when there is none. Raises DamagedRow."""
    key = KEY64.pack(cohort)
    value = state.get(tables.COHORTS, key)
    return None if value is None else unpack(key, value)


def unpack(key: bytes, value: bytes) -> CohortRow:
    """The row of a cohort in `value`. Raises DamagedRow."""
    return _DECODE(rows.open_row(tables.COHORTS, key, value))


def members(state: State, cohort: int) -> Iterator[Member]:
    """The memories of a cohort, by id. Raises DamagedRow."""
    for key, payload in state.entries(tables.COHORT_MEMBERS, KEY64.pack(cohort)):
        kind, old, new = _MEMBER.unpack(payload)
        yield Member(kind, KEY64_64.unpack(key)[1], old, new)


def member(state: State, cohort: int, tsid: int) -> Member | None:
    """One memory of a cohort, None when it is none. Raises DamagedRow."""
    key = KEY64_64.pack(cohort, tsid)
    value = state.get(tables.COHORT_MEMBERS, key)
    if value is None:
        return None
    kind, old, new = _MEMBER.unpack(rows.open_row(tables.COHORT_MEMBERS, key, value))
    return Member(kind, tsid, old, new)


def of_tenant(state: State, tenant: int) -> Iterator[tuple[int, CohortRow]]:
    """A tenant's cohorts, oldest first. Raises DamagedRow."""
    for key, _ in state.entries(tables.COHORTS_BY, KEY32.pack(tenant)):
        cohort = KEY32_64.unpack(key)[1]
        row = get(state, cohort)
        if row is None:
            raise rows.DamagedRow(tables.COHORTS)
        yield cohort, row


def holding(state: State, tsid: int) -> list[tuple[int, CohortAction]]:
    """The cohorts that hold a memory and are not lifted. Raises DamagedRow."""
    return [
        (KEY64_64.unpack(key)[1], CohortAction(payload[0]))
        for key, payload in state.entries(tables.IN_COHORTS, KEY64.pack(tsid))
    ]


FOLDS: dict[type, Callable[..., None]] = {
    events.CohortMade: made,
    events.CohortLifted: lifted,
}

"""The provenance region: for each note that a pass made, and each semantic source of a procedure, one row.

Each tenant has a region of its own, whose rows are numbered from 0 in the order in which they were made. `region` has
them in pages (`region.py`), `regions` how many there are; `region_targets` leads from a memory to its rows,
`region_sessions` from a session to its rows in the order (pass, fact). `region_passes` is the highest pass of a
session's rows with the number of facts in it.

A row of a pass is partial until the commit that ends the pass, then live. It is a tombstone while its target is
forgotten, pruned or purged: `region_dead` remembers which of these hold, and the state to go back to; a pass that ends
meanwhile changes that state. `resolvables` is what became known later of external references.

Invariant: folded from records alone; every number in a row stands in the event that made its target.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from journal import events
from journal.codes import Kind, Mark, Tier
from journal.record import Record
from projections import region, rows, tables
from projections.kinds import KINDS
from projections.region import LIVE, PARTIAL, ROW_BYTES, ROWS_PER_PAGE, TOMBSTONE, RegionRow
from projections.state import KEY32, KEY32_32, KEY64, State

_TARGET_KEY = struct.Struct(">QI")
_SESSION_KEY = struct.Struct(">IHBI")
_SESSION_PASS = struct.Struct(">IH")
_RESOLVABLE_KEY = struct.Struct(">QQI")
_U32 = struct.Struct("<I")
_PASS = struct.Struct("<HH")
_DEAD = struct.Struct("<BB")
_FORGOTTEN, _PRUNED, _PURGED = 1, 2, 4
_BIT = {int(Mark.FORGOTTEN): _FORGOTTEN, int(Mark.PRUNED): _PRUNED}

Place = tuple[int, int]  # (tenant, row number)


class Highest(NamedTuple):
    """The highest pass that a session's rows have, 0 for none, and how many facts it has."""

    number: int
    facts: int


# --- the pages -----------------------------------------------------------------------------------


def _page(state: State, tenant: int, page: int) -> bytearray:
    """The rows of a page, to be changed in place; it is packed when the batch is done. Raises DamagedRow."""
    key = KEY32_32.pack(tenant, page)
    content: bytearray | None = state.deferred(tables.REGION, key)
    if content is None:
        value = state.get(tables.REGION, key)
        content = bytearray() if value is None else bytearray(rows.open_row(tables.REGION, key, value))
        state.defer(tables.REGION, key, content, _pack_page)
    return content


def _pack_page(key: bytes, content: bytearray) -> bytes:
    return rows.seal_row(key, bytes(content))


def count(state: State, tenant: int) -> int:
    """How many rows a tenant's region has. Raises DamagedRow."""
    key = KEY32.pack(tenant)
    value = state.get(tables.REGIONS, key)
    return 0 if value is None else int(_U32.unpack(rows.open_row(tables.REGIONS, key, value))[0])


def _append(state: State, tenant: int, row: RegionRow) -> int:
    """Its number."""
    number = count(state, tenant)
    page = _page(state, tenant, number // ROWS_PER_PAGE)
    if len(page) != number % ROWS_PER_PAGE * ROW_BYTES:
        raise rows.DamagedRow(tables.REGION)
    page += region.pack(row)
    key = KEY32.pack(tenant)
    state.put(tables.REGIONS, key, rows.seal_row(key, _U32.pack(number + 1)))
    return number


def _change(state: State, place: Place, **fields: int) -> None:
    tenant, number = place
    page = _page(state, tenant, number // ROWS_PER_PAGE)
    at = number % ROWS_PER_PAGE * ROW_BYTES
    row = region.unpack(bytes(page[at : at + ROW_BYTES]))
    page[at : at + ROW_BYTES] = region.pack(row._replace(**fields))


def _flags(state: State, place: Place) -> int:
    tenant, number = place
    page = _page(state, tenant, number // ROWS_PER_PAGE)
    at = number % ROWS_PER_PAGE * ROW_BYTES
    return region.unpack(bytes(page[at : at + ROW_BYTES])).flags


# --- the fold ------------------------------------------------------------------------------------


def created(state: State, record: Record, event: events.MemoryCreated) -> None:
    if not event.rows:
        return
    number, fact, facts = event.made_by_pass or (0, 0, 1)
    for source in event.rows:
        row = RegionRow(
            PARTIAL if event.made_by_pass else LIVE,
            int(KINDS[Kind(source.source_kind)].tier if source.source else Tier.EPISODIC),
            int(KINDS[Kind(event.kind)].tier), event.kind, number, source.turns, source.session, event.id,
            record.at_ms, source.partition, source.first_turn, source.last_turn, source.first_offset,
            source.last_offset, fact, facts, 0, source.source, source.source_partition,
        )  # fmt: skip
        at = _append(state, record.tenant, row)
        _index(state, tables.REGION_TARGETS, _TARGET_KEY.pack(event.id, at), record.tenant)
        if event.made_by_pass:
            _index(state, tables.REGION_SESSIONS, _SESSION_KEY.pack(event.session, number, fact, at), record.tenant)
            _count_fact(state, event.session, number)


def _index(state: State, database: str, key: bytes, tenant: int) -> None:
    state.put(database, key, rows.seal_row(key, _U32.pack(tenant)))


def _count_fact(state: State, session: int, number: int) -> None:
    """A pass is never before one that has rows: it is the open one, or the next (`commit_pass`)."""
    before = highest(state, session)
    facts = before.facts + 1 if number == before.number else 1
    key = KEY32.pack(session)
    state.put(tables.REGION_PASSES, key, rows.seal_row(key, _PASS.pack(number, facts)))


def pass_committed(state: State, record: Record, event: events.PassCommitted) -> None:
    """The last commit of a pass: what was partial is live, or will be when its target comes back; each row says how
    many facts the pass has."""
    if not event.last:
        return
    places = list(_places(state, _SESSION_PASS.pack(event.session, event.number)))
    for place in places:
        dead = _dead(state, place)
        if dead is None:
            _change(state, place, flags=LIVE, batch_count=len(places))
            continue
        _change(state, place, batch_count=len(places))
        _put_dead(state, place, LIVE, dead[1])


def forgotten(state: State, record: Record, event: events.Forgotten) -> None:
    _bury(state, event.memory[1], _FORGOTTEN)


def pruned(state: State, record: Record, event: events.Pruned) -> None:
    for _, tsid in event.memories:
        _bury(state, tsid, _PRUNED)


def purged(state: State, record: Record, event: events.Purged) -> None:
    for target in event.targets:
        _bury(state, target.id, _PURGED)


def recovered(state: State, record: Record, event: events.Recovered) -> None:
    for place in list(places_of(state, event.memory[1])):
        dead = _dead(state, place)
        if dead is None:
            continue
        before, marks = dead[0], dead[1] & ~_BIT.get(event.mark, 0)
        if marks:
            _put_dead(state, place, before, marks)
            continue
        state.delete(tables.REGION_DEAD, KEY32_32.pack(*place))
        _change(state, place, flags=before)


def _bury(state: State, tsid: int, mark: int) -> None:
    for place in list(places_of(state, tsid)):
        dead = _dead(state, place)
        if dead is not None:
            _put_dead(state, place, dead[0], dead[1] | mark)
            continue
        _put_dead(state, place, _flags(state, place), mark)
        _change(state, place, flags=TOMBSTONE)


def _dead(state: State, place: Place) -> tuple[int, int] | None:
    """`(the state to go back to, why it is a tombstone)`, None for one that isn't."""
    key = KEY32_32.pack(*place)
    value = state.get(tables.REGION_DEAD, key)
    if value is None:
        return None
    before, marks = _DEAD.unpack(rows.open_row(tables.REGION_DEAD, key, value))
    return before, marks


def _put_dead(state: State, place: Place, before: int, marks: int) -> None:
    key = KEY32_32.pack(*place)
    state.put(tables.REGION_DEAD, key, rows.seal_row(key, _DEAD.pack(before, marks)))


def resolvable_changed(state: State, record: Record, event: events.ResolvableChanged) -> None:
    key = _RESOLVABLE_KEY.pack(event.memory[1], event.owner_seq, event.index)
    state.put(tables.RESOLVABLES, key, rows.seal_row(key, bytes((event.resolvable,))))


# --- reading -------------------------------------------------------------------------------------


def highest(state: State, session: int) -> Highest:
    """The highest pass of a session's rows. Raises DamagedRow."""
    key = KEY32.pack(session)
    value = state.get(tables.REGION_PASSES, key)
    if value is None:
        return Highest(0, 0)
    return Highest(*_PASS.unpack(rows.open_row(tables.REGION_PASSES, key, value)))


def facts_of(state: State, session: int, number: int) -> int:
    """How many rows a session has of a pass. Raises DamagedRow."""
    return sum(1 for _ in _places(state, _SESSION_PASS.pack(session, number)))


def places_of(state: State, tsid: int) -> Iterator[Place]:
    """Where the rows of a memory are, in the order they were made. Raises DamagedRow."""
    for key, payload in state.entries(tables.REGION_TARGETS, KEY64.pack(tsid)):
        yield _U32.unpack(payload)[0], _TARGET_KEY.unpack(key)[1]


def rows_of_session(state: State, session: int) -> Iterator[RegionRow]:
    """The rows of a session, by pass, then fact. Raises DamagedRow, also for one that another pass, fact or session
    made than the index says."""
    for key, payload in state.entries(tables.REGION_SESSIONS, KEY32.pack(session)):
        _, number, fact, at = _SESSION_KEY.unpack(key)
        row = load(state, (_U32.unpack(payload)[0], at))
        target = state.memory(row.target_tsid)
        if (row.pass_number, row.fact_index) != (number, fact) or target is None or target.session != session:
            raise rows.DamagedRow(tables.REGION)
        yield row


def is_indexed(state: State, row: RegionRow, place: Place, session: int) -> bool:
    """Whether both indexes lead to the row at a place; `session` is that of its target. Raises DamagedRow."""
    tenant, at = place
    wanted = [(tables.REGION_TARGETS, _TARGET_KEY.pack(row.target_tsid, at))]
    if row.pass_number:
        key = _SESSION_KEY.pack(session, row.pass_number, row.fact_index, at)
        wanted.append((tables.REGION_SESSIONS, key))
    for database, key in wanted:
        value = state.get(database, key)
        if value is None or _U32.unpack(rows.open_row(database, key, value))[0] != tenant:
            return False
    return True


def _places(state: State, prefix: bytes) -> Iterator[Place]:
    for key, payload in state.entries(tables.REGION_SESSIONS, prefix):
        yield _U32.unpack(payload)[0], _SESSION_KEY.unpack(key)[3]


def load(state: State, place: Place) -> RegionRow:
    """The row at a place. Raises DamagedRow, also when it isn't there."""
    tenant, number = place
    key = KEY32_32.pack(tenant, number // ROWS_PER_PAGE)
    value = state.get(tables.REGION, key)
    if value is None:
        raise rows.DamagedRow(tables.REGION)
    at = number % ROWS_PER_PAGE * ROW_BYTES
    return region.unpack(rows.open_row(tables.REGION, key, value)[at : at + ROW_BYTES])


def rows_of(state: State, tsid: int) -> list[RegionRow]:
    """The rows of a memory, in the order they were made. Raises DamagedRow, also for one that is another memory's, or
    of another pass or fact than the session's index says."""
    found = [(load(state, place), place) for place in places_of(state, tsid)]
    target = state.memory(tsid) if found else None
    session = 0 if target is None else target.session
    if any(row.target_tsid != tsid or not is_indexed(state, row, place, session) for row, place in found):
        raise rows.DamagedRow(tables.REGION)
    return [row for row, _ in found]


def all_rows(state: State, tenant: int) -> Iterator[bytes]:
    """The pages of a tenant's region, each whole rows; every row is checked. Raises DamagedRow."""
    total = count(state, tenant)
    found = 0
    for _, content in state.entries(tables.REGION, KEY32.pack(tenant)):
        for at in range(0, len(content), ROW_BYTES):
            region.unpack(content[at : at + ROW_BYTES])
        found += len(content) // ROW_BYTES
        yield content
    if found != total:
        raise rows.DamagedRow(tables.REGION)


def is_resolvable(state: State, tsid: int, index: int, said: bool, owner_seq: int = 0) -> bool:
    """Whether an external reference of a memory can be followed now; `said` when it was written. `owner_seq` 0: it
    stands in the record that created the memory. Raises DamagedRow."""
    key = _RESOLVABLE_KEY.pack(tsid, owner_seq, index)
    value = state.get(tables.RESOLVABLES, key)
    return said if value is None else bool(rows.open_row(tables.RESOLVABLES, key, value)[0])


FOLDS: dict[type, Callable[..., None]] = {
    events.MemoryCreated: created,
    events.PassCommitted: pass_committed,
    events.Forgotten: forgotten,
    events.Pruned: pruned,
    events.Purged: purged,
    events.Recovered: recovered,
    events.ResolvableChanged: resolvable_changed,
}

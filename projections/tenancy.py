"""Whose an entry of a database is: one row for each database of `tables.py`, so that a new one can't be forgotten.

Method: an entry belongs to the tenant that its `owner` leads to (a number at a place of its key, or a value that says
so itself), and everything else that it names, its `ends`, belongs to the same tenant. What hides tenants from each
other (`bound.py`), what finds entries that join two of them (`crossing`), and what there is of one (`entries_of`, for
`holdings.py`) go by this one table. Nothing here reads sealed content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum, auto
from typing import NamedTuple

from projections import cohorts, edges, names, partitions, proposals, region, revisions, rows, tables
from projections.state import KEY32, KEY32_64, KEY64, KEY64_64, State

KNOWN_AT_ONCE = 65_536
"""Owners that are remembered while a walk goes on: what it holds is bounded, whatever the store's size."""


class By(IntEnum):
    """What a number is that leads to a tenant."""

    TENANT = auto()
    MEMORY = auto()
    SESSION = auto()
    PARTITION = auto()
    PROPOSAL = auto()
    COHORT = auto()
    PRODUCER = auto()
    RECORD = auto()
    SAID = auto()
    """The value says it itself."""
    STORE = auto()
    """Nobody's: the whole store's."""


End = tuple[By, int]
Ends = Callable[[bytes, bytes], Iterable[End]]


class Owner(NamedTuple):
    """How the owner of an entry is found: a number at byte `at` of its key. `why` is said of what is the store's."""

    by: By
    at: int = 0
    why: str = ""
    ends: Ends | None = None


_WIDE = frozenset({By.MEMORY, By.PROPOSAL, By.COHORT, By.RECORD})


def _u32(data: bytes, at: int = 0) -> int:
    return int.from_bytes(data[at : at + 4], "big")


def _u64(data: bytes, at: int = 0) -> int:
    return int.from_bytes(data[at : at + 8], "big")


def _memory_row(key: bytes, value: bytes) -> Iterator[End]:
    row = rows.unpack_memory(key, value)
    yield By.PARTITION, row.partition
    if row.session:
        yield By.SESSION, row.session
    if row.producer:
        yield By.PRODUCER, row.producer
    if row.superseded_by:
        yield By.MEMORY, row.superseded_by


def _edges_out(key: bytes, value: bytes) -> Iterator[End]:
    for _, _, other in edges.ENTRY.iter_unpack(rows.open_row(tables.EDGES_OUT, key, value)):
        yield By.MEMORY, other


def _edges_in(key: bytes, value: bytes) -> Iterator[End]:
    yield By.MEMORY, edges.IN_KEY.unpack(key)[2]


def _line(key: bytes, value: bytes) -> Iterator[End]:
    line = edges.line_in(key, value)
    for other in (line.first, line.newest, *line.owners):
        if other:
            yield By.MEMORY, other


def _idempotency(key: bytes, value: bytes) -> Iterator[End]:
    yield By.RECORD, _u64(rows.open_row(tables.IDEMPOTENCY, key, value))


def _session_id(key: bytes, value: bytes) -> Iterator[End]:
    yield By.SESSION, int(KEY32.unpack(rows.open_row(tables.SESSION_IDS, key, value))[0])


def _turn(key: bytes, value: bytes) -> Iterator[End]:
    yield By.MEMORY, int(KEY64.unpack(rows.open_row(tables.TURNS, key, value))[0])


def _session_memory(key: bytes, value: bytes) -> Iterator[End]:
    yield By.MEMORY, int(KEY32_64.unpack(key)[1])


def _region_page(key: bytes, value: bytes) -> Iterator[End]:
    content = rows.open_row(tables.REGION, key, value)
    for at in range(0, len(content), region.ROW_BYTES):
        row = region.unpack(content[at : at + region.ROW_BYTES])
        yield By.MEMORY, row.target_tsid
        if row.source_tsid:
            yield By.MEMORY, row.source_tsid


def _target(key: bytes, value: bytes) -> Iterator[End]:
    yield By.MEMORY, _u64(key)


def _region_session(key: bytes, value: bytes) -> Iterator[End]:
    yield By.SESSION, _u32(key)


def _text_owner(key: bytes, value: bytes) -> Iterator[End]:
    yield By.RECORD, _u64(key)


def _flag(key: bytes, value: bytes) -> Iterator[End]:
    yield By.MEMORY, int(KEY64_64.unpack(key)[1])


def _proposal(key: bytes, value: bytes) -> Iterator[End]:
    row = proposals.unpack(key, value)
    yield By.MEMORY, row.memory[1]
    if row.other is not None:
        yield By.MEMORY, row.other[1]
    yield By.RECORD, row.made_seq


def _proposal_by(key: bytes, value: bytes) -> Iterator[End]:
    yield By.PROPOSAL, proposals.BY_KEY.unpack(key)[3]


def _proposal_of(key: bytes, value: bytes) -> Iterator[End]:
    yield By.PROPOSAL, proposals.OF_KEY.unpack(key)[2]


def _happening(key: bytes, value: bytes) -> Iterator[End]:
    yield By.RECORD, int(KEY64_64.unpack(key)[1])


def _revision(key: bytes, value: bytes) -> Iterator[End]:
    yield By.MEMORY, revisions.KEY.unpack(key)[2]


def _cohort_by(key: bytes, value: bytes) -> Iterator[End]:
    yield By.COHORT, int(KEY32_64.unpack(key)[1])


def _second_cohort(key: bytes, value: bytes) -> Iterator[End]:
    yield By.COHORT, int(KEY64_64.unpack(key)[1])


def _second_memory(key: bytes, value: bytes) -> Iterator[End]:
    yield By.MEMORY, int(KEY64_64.unpack(key)[1])


def _second_record(key: bytes, value: bytes) -> Iterator[End]:
    yield By.RECORD, int(KEY32_64.unpack(key)[1])


def _tenants_memory(key: bytes, value: bytes) -> Iterator[End]:
    yield By.MEMORY, int(KEY32_64.unpack(key)[1])


_BY_MEMORY = Owner(By.MEMORY)
_BY_SESSION = Owner(By.SESSION)
_BY_TENANT = Owner(By.TENANT)

OWNERS: dict[str, Owner] = {
    tables.PARTITIONS: Owner(By.SAID),
    tables.MEMORIES: Owner(By.SAID, ends=_memory_row),
    tables.ROWS: Owner(By.PARTITION),
    tables.REMOVED_ROWS: Owner(By.PARTITION, ends=_session_memory),
    tables.LATE: Owner(By.PARTITION, ends=_session_memory),
    tables.TOUCHES: Owner(By.MEMORY, ends=_happening),
    tables.EDGES_OUT: Owner(By.MEMORY, ends=_edges_out),
    tables.EDGES_IN: Owner(By.MEMORY, ends=_edges_in),
    tables.LINES: Owner(By.MEMORY, ends=_line),
    tables.EXTERNALS: Owner(By.MEMORY, ends=_happening),
    tables.IDEMPOTENCY: Owner(By.TENANT, ends=_idempotency),
    tables.SESSIONS: Owner(By.SAID),
    tables.SESSION_IDS: Owner(By.SAID, ends=_session_id),
    tables.TURNS: Owner(By.SESSION, ends=_turn),
    tables.SESSION_MEMORIES: Owner(By.SESSION, ends=_session_memory),
    tables.SETTLED: _BY_SESSION,
    tables.PASSES: _BY_SESSION,
    tables.SLEEPS: _BY_SESSION,
    tables.REGIONS: _BY_TENANT,
    tables.REGION: Owner(By.TENANT, ends=_region_page),
    tables.REGION_TARGETS: Owner(By.SAID, ends=_target),
    tables.REGION_SESSIONS: Owner(By.SAID, ends=_region_session),
    tables.REGION_PASSES: _BY_SESSION,
    tables.REGION_DEAD: _BY_TENANT,
    tables.RESOLVABLES: _BY_MEMORY,
    tables.TENANTS: _BY_TENANT,
    tables.PRODUCERS: Owner(By.SAID),
    tables.ENTITIES: Owner(By.SAID),
    tables.TEXTS: Owner(By.MEMORY, at=8, ends=_text_owner),
    tables.FLAGS: Owner(By.MEMORY, ends=_flag),
    tables.PROPOSALS: Owner(By.SAID, ends=_proposal),
    tables.PROPOSALS_BY: Owner(By.TENANT, ends=_proposal_by),
    tables.PROPOSALS_OF: Owner(By.MEMORY, ends=_proposal_of),
    tables.HAPPENINGS: Owner(By.MEMORY, ends=_happening),
    tables.REVISIONS: Owner(By.MEMORY, ends=_revision),
    tables.FACTS_ADDED: _BY_MEMORY,
    tables.COHORTS: Owner(By.SAID),
    tables.COHORTS_BY: Owner(By.TENANT, ends=_cohort_by),
    tables.COHORT_MEMBERS: Owner(By.COHORT, ends=_second_memory),
    tables.IN_COHORTS: Owner(By.MEMORY, ends=_second_cohort),
    tables.QUOTES: Owner(By.MEMORY, ends=_second_memory),
    tables.NAMING: Owner(By.MEMORY, at=4),
    tables.KEYED_MEMORIES: Owner(By.MEMORY, ends=_happening),
    tables.KEYED_SESSIONS: Owner(By.SESSION, ends=_second_record),
    tables.HELD: Owner(By.TENANT, ends=_tenants_memory),
    tables.PURGES: Owner(By.TENANT, ends=_second_record),
    tables.USAGE: _BY_TENANT,
    tables.BLOCKS: Owner(
        By.STORE,
        why="which 256 records hold any of an actor, a producer, a time or a slot: coarse places, and no answer by "
        "itself; every record found through it is asked whose it is",
    ),
}
"""A test holds it complete over `tables.DATABASES`."""


def _said_partition(state: State, key: bytes, value: bytes) -> int:
    return partitions.unpack(key, value).tenant


def _said_session_id(state: State, key: bytes, value: bytes) -> int | None:
    row = state.session(int(KEY32.unpack(rows.open_row(tables.SESSION_IDS, key, value))[0]))
    return None if row is None else row.tenant


def _said_region(database: str) -> Callable[[State, bytes, bytes], int]:
    return lambda state, key, value: int.from_bytes(rows.open_row(database, key, value)[:4], "little")


SAID: dict[str, Callable[[State, bytes, bytes], int | None]] = {
    tables.PARTITIONS: _said_partition,
    tables.MEMORIES: lambda state, key, value: rows.unpack_memory(key, value).tenant,
    tables.SESSIONS: lambda state, key, value: rows.unpack_session(key, value).tenant,
    tables.SESSION_IDS: _said_session_id,
    tables.REGION_TARGETS: _said_region(tables.REGION_TARGETS),
    tables.REGION_SESSIONS: _said_region(tables.REGION_SESSIONS),
    tables.PRODUCERS: lambda state, key, value: names.unpack_producer(key, value).tenant,
    tables.ENTITIES: lambda state, key, value: names.unpack_entity(key, value).tenant,
    tables.PROPOSALS: lambda state, key, value: proposals.unpack(key, value).tenant,
    tables.COHORTS: lambda state, key, value: cohorts.unpack(key, value).tenant,
}
"""What the values of `By.SAID` say. Each raises DamagedRow."""


def end_in_key(database: str, key: bytes) -> End | None:
    """What a key, or the beginning of one, says about the owner; None when that is too short, or says nothing."""
    owner = OWNERS[database]
    if owner.by in (By.SAID, By.STORE):
        return None
    width = 8 if owner.by in _WIDE else 4
    if len(key) < owner.at + width:
        return None
    return owner.by, _u64(key, owner.at) if width == 8 else _u32(key, owner.at)


RecordTenant = Callable[[int], "int | None"]


class Tenants:
    """Which tenant a number leads to, over one state. Remembers a bounded many."""

    def __init__(self, state: State, of_record: RecordTenant | None = None) -> None:
        self._state = state
        self._of_record = of_record
        self._known: dict[End, int | None] = {}

    def learn(self, end: End, tenant: int | None) -> None:
        if len(self._known) >= KNOWN_AT_ONCE:
            self._known.clear()
        self._known[end] = tenant

    def of(self, end: End) -> int | None:
        """The tenant; None when there is nothing of that number. Raises DamagedRow, DamagedRecord."""
        if end[0] is By.TENANT:
            return end[1]
        if end not in self._known:
            self.learn(end, self._look(end))
        return self._known[end]

    def of_entry(self, database: str, key: bytes, value: bytes) -> int | None:
        """The owner of an entry: None when it leads to nobody. Not for what is the store's. Raises DamagedRow."""
        end = end_in_key(database, key)
        return SAID[database](self._state, key, value) if end is None else self.of(end)

    def _look(self, end: End) -> int | None:
        by, number = end
        if by is By.MEMORY:
            memory = self._state.memory(number)
            return None if memory is None else memory.tenant
        if by is By.SESSION:
            session = self._state.session(number)
            return None if session is None else session.tenant
        if by is By.RECORD:
            return self._of_record(number) if self._of_record is not None else None
        database = _DATABASE[by]
        key = KEY64.pack(number) if by in _WIDE else KEY32.pack(number)
        deferred = self._state.deferred(database, key)
        if deferred is not None:
            return int(deferred.tenant)
        value = self._state.get(database, key)
        return None if value is None else SAID[database](self._state, key, value)


_DATABASE = {
    By.PARTITION: tables.PARTITIONS,
    By.PROPOSAL: tables.PROPOSALS,
    By.COHORT: tables.COHORTS,
    By.PRODUCER: tables.PRODUCERS,
}


class Crossing(NamedTuple):
    """An entry that names something of another tenant than its own (`tenant`), or has no owner (None)."""

    database: str
    key: bytes
    tenant: int | None


def crossing(state: State, step: Callable[[], None], of_record: RecordTenant | None = None) -> Iterator[Crossing]:
    """Every entry of the projections that joins two tenants or is nobody's. Records are asked about only when
    `of_record` is given. `step` is called for each entry; what it raises ends it. Raises DamagedRow, DamagedRecord.
    """
    known = Tenants(state, of_record)
    for database, owner in OWNERS.items():
        if owner.by is By.STORE:
            continue
        for key, value in state.prefix(database, b""):
            step()
            rows.open_row(database, key, value)
            tenant = known.of_entry(database, key, value)
            if tenant is None and database == tables.KEYED_MEMORIES:
                continue  # what was asked for under a key need not have been there: such an entry leads nowhere
            if tenant is None or not _agree(known, owner, tenant, key, value, of_record is not None):
                yield Crossing(database, key, tenant)


def _agree(known: Tenants, owner: Owner, tenant: int, key: bytes, value: bytes, with_records: bool) -> bool:
    if owner.ends is None:
        return True
    ends = owner.ends(key, value)
    return all(known.of(end) == tenant for end in ends if with_records or end[0] is not By.RECORD)


def entries_of(state: State, tenant: int, step: Callable[[], None]) -> Iterator[tuple[str, bytes, bytes]]:
    """All that the projections hold of one tenant: `(database, key, value)`, of each database in order of its keys.
    Raises DamagedRow, LookupError for a database that nobody said whose its entries are."""
    known = Tenants(state)
    for database in tables.DATABASES:
        owner = OWNERS[database]
        if owner.by is By.STORE:
            continue
        prefix = KEY32.pack(tenant) if owner.by is By.TENANT else b""
        for key, value in state.prefix(database, prefix):
            step()
            rows.open_row(database, key, value)
            if known.of_entry(database, key, value) == tenant:
                yield database, key, value

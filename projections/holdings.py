"""What one tenant has, counted so that an export of it can be held against it: nothing of the tenant's is left out.

Method: the projections are asked through `tenancy.entries_of`, which goes through every database and fails for one that
has no owner, so a new one can't be forgotten. What has a number or an id of its own (`THINGS`) began in one record of
the tenant's; whoever has these records counts the same things from them, and compares. Counts and digests only: nothing
here reads sealed content.

The digest of things is BLAKE2b-128 over their keys in `THINGS`' databases, in order (big-endian u32 or u64).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from hashlib import blake2b
from struct import Struct
from typing import NamedTuple

from journal import events
from projections import names, tables
from projections.state import KEY32, KEY64, State
from projections.tenancy import entries_of

DIGEST_BYTES = 16


class Began(NamedTuple):
    """The event that something begins with, the field with its number or id, and how that is a key."""

    event: type
    field: str
    key: Struct


THINGS: dict[str, Began] = {
    tables.TENANTS: Began(events.TenantBegan, "number", KEY32),
    tables.PRODUCERS: Began(events.ProducerNamed, "number", KEY32),
    tables.ENTITIES: Began(events.EntityNamed, "number", KEY32),
    tables.SESSIONS: Began(events.SessionOpened, "number", KEY32),
    tables.PARTITIONS: Began(events.PartitionOpened, "number", KEY32),
    tables.MEMORIES: Began(events.MemoryCreated, "id", KEY64),
    tables.PROPOSALS: Began(events.ProposalMade, "id", KEY64),
    tables.COHORTS: Began(events.CohortMade, "id", KEY64),
}
"""By database. All else that is held is about one of these, and is folded from records about it."""
_BY_EVENT = {began.event: database for database, began in THINGS.items()}


class Things(NamedTuple):
    """How many there are, and the digest of their keys, hex."""

    total: int
    digest: str


class Held(NamedTuple):
    """How many entries of each database are the tenant's, and which things: both without what there is none of."""

    entries: dict[str, int]
    things: dict[str, Things]


def number_of(state: State, tenant: str) -> int:
    """The number of the tenant of that name; 0 when there is none. Raises DamagedRow."""
    for key, value in state.prefix(tables.TENANTS, b""):
        if names.unpack_tenant(key, value).name == tenant:
            return int(KEY32.unpack(key)[0])
    return 0


def held_by(state: State, tenant: int, step: Callable[[], None]) -> Held:
    """`step` is called for each entry; what it raises ends it. Raises DamagedRow, LookupError for a database that has
    no owner."""
    counts: Counter[str] = Counter()
    digests = {database: blake2b(digest_size=DIGEST_BYTES) for database in THINGS}
    for database, key, _ in entries_of(state, tenant, step):
        counts[database] += 1
        if database in THINGS:
            digests[database].update(key)
    things = {name: Things(counts[name], digests[name].hexdigest()) for name in THINGS if counts[name]}
    return Held(dict(sorted(counts.items())), things)


class Begun:
    """The same things, as records tell that they began."""

    def __init__(self) -> None:
        self.records = 0
        self._found: dict[str, set[int]] = {}

    def learn(self, event: object) -> None:
        """Of one more record."""
        self.records += 1
        database = _BY_EVENT.get(type(event))
        if database is not None:
            self._found.setdefault(database, set()).add(getattr(event, THINGS[database].field))

    def things(self) -> dict[str, Things]:
        return {name: _things(THINGS[name].key, self._found[name]) for name in THINGS if name in self._found}


def _things(key: Struct, numbers: set[int]) -> Things:
    digest = blake2b(digest_size=DIGEST_BYTES)
    for number in sorted(numbers):
        digest.update(key.pack(number))
    return Things(len(numbers), digest.hexdigest())

"""A state as its tenants may see it: whatever is asked of it, nothing of another tenant's comes out.

Two layers. What a key belongs to is looked up (`tenancy.OWNERS`), so that a number or an id of another tenant leads to
nothing, as one that never was. What a value says of its own tenant is compared once more when it is decoded. Of the
edges, and of the indexes that join two things (`CHECKED_ENDS`), one is passed over when the other end is not a tenant's
of ours; each such end is counted once.

Nothing can be written through it. What was asked for is kept as it was first seen, checksum and tenant looked at, so it
lasts as long as one question or one command. Not shared between threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from projections import edges, rows, tables
from projections.state import KEY64, State
from projections.tenancy import OWNERS, SAID, By, Tenants, end_in_key

CHECKED_ENDS = frozenset(
    {
        tables.EDGES_IN, tables.FLAGS, tables.IN_COHORTS, tables.PROPOSALS_OF, tables.REVISIONS, tables.TURNS,
        tables.SESSION_MEMORIES,
    }
)  # fmt: skip
ASKED_AGAIN = frozenset({tables.EDGES_OUT, tables.LINES})
"""Databases by memory of which one question asks for the same entry several times."""
ROWS_KEPT = 4_096
_MEMORY_AT = {database: owner.at for database, owner in OWNERS.items() if owner.by is By.MEMORY}
"""Where in a key the memory stands that an entry belongs to."""
assert all(_MEMORY_AT[database] == 0 for database in ASKED_AGAIN)


def _nobody(count: int) -> None:
    return None


class BoundState(State):
    """`inner`, of which only the entries of `tenants` are seen. `pass_over` is told how many led out of them."""

    def __init__(self, inner: State, tenants: frozenset[int], pass_over: Callable[[int], None] = _nobody) -> None:
        self._inner = inner
        self._ours = tenants
        self._pass_over = pass_over
        self._owners = Tenants(inner)
        self._values: dict[bytes, bytes | None] = {}
        self._glances: dict[int, rows.Glance | None] = {}
        self._rows: dict[int, rows.MemoryRow] = {}
        self._kept: dict[tuple[str, bytes], bytes | None] = {}
        self._passed: set[tuple[By, int]] = set()

    def __getattr__(self, name: str) -> Any:
        """Head, counters: they tell of no tenant."""
        if name in ("head", "counters"):
            return getattr(self._inner, name)
        raise AttributeError(name)

    def get(self, database: str, key: bytes) -> bytes | None:
        """The value, when it is ours. Raises DamagedRow."""
        if database == tables.MEMORIES:
            return self._value(key)
        if database in ASKED_AGAIN:
            return self._again(database, key)
        value = self._inner.get(database, key)
        return value if value is not None and self._is_ours(database, key, value) else None

    def _again(self, database: str, key: bytes) -> bytes | None:
        place = database, key
        if place in self._kept:
            return self._kept[place]
        value = self._inner.get(database, key)
        if value is not None and self.glance(int.from_bytes(key, "big")) is None:
            value = None
        if value is not None and database == tables.EDGES_OUT:
            value = self._kept_edges(key, value)
        if len(self._kept) >= ROWS_KEPT:
            self._kept.clear()
        self._kept[place] = value
        return value

    def deferred(self, database: str, key: bytes) -> Any | None:
        """A row that is not packed yet, when it is ours."""
        row = self._inner.deferred(database, key)
        if row is None:
            return None
        end = end_in_key(database, key)
        tenant = row.tenant if end is None else self._owners.of(end)
        return row if tenant in self._ours else None

    def prefix(self, database: str, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Those of the entries that are ours. Raises DamagedRow."""
        owner = end_in_key(database, prefix)
        if owner is not None and not self._is_end_ours(*owner):
            return
        checks = database in CHECKED_ENDS
        for key, value in self._inner.prefix(database, prefix):
            ours = owner is not None or self._is_ours(database, key, value)
            if ours and (not checks or self._stays(database, key, value)):
                yield key, value
            else:
                rows.open_row(database, key, value)  # a damaged key must not read as somebody else's

    def memory(self, tsid: int) -> rows.MemoryRow | None:
        row = self._rows.get(tsid)
        if row is not None:
            return row
        key = KEY64.pack(tsid)
        value = self._value(key)
        if value is None:
            return None
        row = rows.unpack_memory(key, value)
        if row.tenant not in self._ours:
            return None
        if len(self._rows) >= ROWS_KEPT:
            self._rows.clear()
        self._rows[tsid] = row
        return row

    def glance(self, tsid: int) -> rows.Glance | None:
        """What a walk needs of a memory, when it is ours. Raises DamagedRow."""
        if tsid not in self._glances:
            self._value(KEY64.pack(tsid))
        return self._glances[tsid]

    def _value(self, key: bytes) -> bytes | None:
        """The stored row of a memory, when it is ours, kept beside what a walk needs of it. Raises DamagedRow."""
        if key in self._values:
            return self._values[key]
        value = self._inner.get(tables.MEMORIES, key)
        row = None if value is None else rows.unpack_glance(key, value)
        if row is None or row.tenant not in self._ours:
            value = row = None
        if len(self._values) >= ROWS_KEPT:
            self._values.clear()
            self._glances.clear()
        self._values[key] = value
        self._glances[int.from_bytes(key, "big")] = row
        return value

    def session(self, number: int) -> rows.SessionRow | None:
        row = self._inner.session(number)
        return row if row is not None and row.tenant in self._ours else None

    def _kept_edges(self, key: bytes, value: bytes) -> bytes:
        """The edges that leave a memory, without those that leave the tenants."""
        payload = rows.open_row(tables.EDGES_OUT, key, value)
        kept = b""
        for edge_type, kind, other in edges.ENTRY.iter_unpack(payload):
            if self.glance(other) is None:
                self._note_foreign(By.MEMORY, other)
            else:
                kept += edges.ENTRY.pack(edge_type, kind, other)
        return value if len(kept) == len(payload) else rows.seal_row(key, kept)

    def _is_ours(self, database: str, key: bytes, value: bytes) -> bool:
        at = _MEMORY_AT.get(database)
        if at is not None:
            return self.glance(int.from_bytes(key[at : at + 8], "big")) is not None
        if OWNERS[database].by is By.STORE:
            return True
        end = end_in_key(database, key)
        if end is None:
            return SAID[database](self._inner, key, value) in self._ours
        return self._owners.of(end) in self._ours

    def _is_end_ours(self, by: By, number: int) -> bool:
        if by is By.MEMORY:
            return self.glance(number) is not None
        return self._owners.of((by, number)) in self._ours

    def _stays(self, database: str, key: bytes, value: bytes) -> bool:
        """Whether the other end is ours too."""
        ends = OWNERS[database].ends
        assert ends is not None
        stays = True
        for by, number in ends(key, value):
            if not self._is_end_ours(by, number):
                self._note_foreign(by, number)
                stays = False
        return stays

    def _note_foreign(self, by: By, number: int) -> None:
        if (by, number) not in self._passed:
            self._passed.add((by, number))
            self._pass_over(1)

    # --- nothing is written through it ---

    def _refuse(self, *_: Any) -> Any:
        raise TypeError("a bound state is for reading")

    defer = put = delete = put_memory = put_session = row_page = finish = _refuse  # type: ignore[assignment]

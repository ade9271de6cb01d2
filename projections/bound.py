"""A state as its tenants may see it: whatever is asked of it, nothing of another tenant's comes out.

Two layers. What a key belongs to is looked up (`tenancy.OWNERS`), so that a number or an id of another tenant leads to
nothing, as one that never was. What a value says of its own tenant is compared once more when it is decoded. Of the
edges, and of the indexes that join two things (`CHECKED_ENDS`), one is passed over when the other end is not a tenant's
of ours; each such end is counted once.

Nothing can be written through it. Rows are kept as they were first seen, so it lasts as long as one question or one
command. Not shared between threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from projections import edges, rows, tables
from projections.state import State
from projections.tenancy import OWNERS, SAID, By, Tenants, end_in_key

CHECKED_ENDS = frozenset(
    {
        tables.EDGES_IN, tables.FLAGS, tables.IN_COHORTS, tables.PROPOSALS_OF, tables.REVISIONS, tables.TURNS,
        tables.SESSION_MEMORIES,
    }
)  # fmt: skip
ROWS_KEPT = 4_096


def _nobody(count: int) -> None:
    return None


class BoundState(State):
    """`inner`, of which only the entries of `tenants` are seen. `pass_over` is told how many led out of them."""

    def __init__(self, inner: State, tenants: frozenset[int], pass_over: Callable[[int], None] = _nobody) -> None:
        self._inner = inner
        self._ours = tenants
        self._pass_over = pass_over
        self._owners = Tenants(inner)
        self._rows: dict[int, rows.MemoryRow | None] = {}
        self._passed: set[tuple[By, int]] = set()

    def __getattr__(self, name: str) -> Any:
        """Head, counters: they tell of no tenant."""
        if name in ("head", "counters"):
            return getattr(self._inner, name)
        raise AttributeError(name)

    def get(self, database: str, key: bytes) -> bytes | None:
        """The value, when it is ours. Raises DamagedRow."""
        value = self._inner.get(database, key)
        if value is None or not self._is_ours(database, key, value):
            return None
        return self._kept_edges(key, value) if database == tables.EDGES_OUT else value

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
        if owner is not None and self._owners.of(owner) not in self._ours:
            return
        checks = database in CHECKED_ENDS
        for key, value in self._inner.prefix(database, prefix):
            ours = owner is not None or self._is_ours(database, key, value)
            if ours and (not checks or self._stays(database, key, value)):
                yield key, value
            else:
                rows.open_row(database, key, value)  # a damaged key must not read as somebody else's

    def memory(self, tsid: int) -> rows.MemoryRow | None:
        if tsid not in self._rows:
            if len(self._rows) >= ROWS_KEPT:
                self._rows.clear()
            row = self._rows[tsid] = self._inner.memory(tsid)
            self._owners.learn((By.MEMORY, tsid), None if row is None else row.tenant)
        found = self._rows[tsid]
        return found if found is not None and found.tenant in self._ours else None

    def session(self, number: int) -> rows.SessionRow | None:
        row = self._inner.session(number)
        return row if row is not None and row.tenant in self._ours else None

    def _kept_edges(self, key: bytes, value: bytes) -> bytes:
        """The edges that leave a memory, without those that leave the tenants."""
        found = list(edges.ENTRY.iter_unpack(rows.open_row(tables.EDGES_OUT, key, value)))
        kept = [edge for edge in found if self.memory(edge[2]) is not None]
        if len(kept) == len(found):
            return value
        for edge in found:
            self._leads_out(By.MEMORY, edge[2])
        return rows.seal_row(key, b"".join(edges.ENTRY.pack(*edge) for edge in kept))

    def _is_ours(self, database: str, key: bytes, value: bytes) -> bool:
        if OWNERS[database].by is By.STORE:
            return True
        end = end_in_key(database, key)
        if end is None:
            return SAID[database](self._inner, key, value) in self._ours
        if end[0] is By.MEMORY:
            return self.memory(end[1]) is not None
        return self._owners.of(end) in self._ours

    def _stays(self, database: str, key: bytes, value: bytes) -> bool:
        """Whether the other end is ours too."""
        ends = OWNERS[database].ends
        assert ends is not None
        return not any([self._leads_out(by, number) for by, number in ends(key, value)])

    def _leads_out(self, by: By, number: int) -> bool:
        ours = self.memory(number) is not None if by is By.MEMORY else self._owners.of((by, number)) in self._ours
        if not ours and (by, number) not in self._passed:
            self._passed.add((by, number))
            self._pass_over(1)
        return not ours

    # --- nothing is written through it ---

    def _refuse(self, *_: Any) -> Any:
        raise TypeError("a bound state is for reading")

    defer = put = delete = put_memory = put_session = row_page = finish = _refuse  # type: ignore[assignment]

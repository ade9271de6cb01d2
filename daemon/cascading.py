"""What goes when memories are purged: the named ones, their copies, and what a cascade takes (contract ERASURE §2).

A breadth-first walk over three indexes: who has a turn's words, what was made from a memory, which versions it has.
Each memory once, whatever the diamonds and circles; what is purged already is passed through, since what was made from
it is there. Copies go with their source whatever the cascade, also those of what the cascade takes.
A version without sources of its own stands on those of the one it took the place of, so it derives from them too.
What can't be read costs itself only: whoever plans a purge has it left out, and walks again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from daemon import limits
from daemon.prepare import invalid
from journal import events
from journal.codes import Cascade, EdgeType, ExternalKind, ExternalUse, Mark
from journal.errors import DamagedRecord
from journal.record import Record
from projections import edges, texts
from projections.rows import FROM_OUTSIDE, MemoryRow
from projections.state import State

_DERIVED = int(EdgeType.DERIVED_FROM)
REVISIONS = (int(EdgeType.SUPERSEDES), int(EdgeType.UPDATES))

RecordOf = Callable[[int], "Record | None"]
Step = Callable[[], None]
"""Called for each memory that is looked at; what it raises ends the walk."""


class Going:
    """The memories that go. `rows` are those that are there and not purged yet: named ones first, in the order given,
    then as they were reached. `copies` says which went along with which source. `unreadable` stay, because a record of
    theirs can't be read: with what is wrong. `is_bounded`: by what one action takes."""

    def __init__(
        self, state: State, record: RecordOf, cascade: Cascade, step: Step, *, is_bounded: bool = True
    ) -> None:  # fmt: skip
        self._state, self._record, self._cascade, self._step = state, record, cascade, step
        self._is_bounded = is_bounded
        self._named: tuple[int, ...] = ()
        self._spared: set[int] = set()
        self._reached: set[int] = set()
        self.rows: dict[int, MemoryRow] = {}
        self.copies: dict[int, list[int]] = {}
        self.unreadable: dict[int, DamagedRecord] = {}

    def walk(self, named: Iterable[int]) -> None:
        """Raises DamagedRow, and Refused when more go than one action takes."""
        self._named = tuple(dict.fromkeys(named))
        waiting = deque(tsid for tsid in self._named if self._reach(tsid))
        while waiting:
            tsid = waiting.popleft()
            for other in self._taken_with(tsid):
                if other not in self._reached and self._reach(other):
                    waiting.append(other)

    def leave_out(self, unreadable: dict[int, DamagedRecord]) -> None:
        """Walk again as if these were not there. Raises as `walk`."""
        self.unreadable.update(unreadable)
        self._walk_again()

    def spare(self, tsids: Iterable[int]) -> None:
        """Walk again: these stay, though they are reached, and what only they reach. Raises as `walk`."""
        self._spared.update(tsids)
        self._walk_again()

    def _walk_again(self) -> None:
        self._reached, self.rows, self.copies = set(), {}, {}
        self.walk(self._named)

    def _stays(self, tsid: int) -> bool:
        return tsid in self.unreadable or tsid in self._spared

    def goes(self, tsid: int) -> bool:
        """Whether nothing will be left of it: it goes, or went before."""
        if tsid in self.rows:
            return True
        row = self._state.memory(tsid)
        return row is None or row.has(Mark.PURGED)

    def _reach(self, tsid: int) -> bool:
        self._step()
        row = None if self._stays(tsid) else self._state.memory(tsid)
        if row is None:
            return False
        self._reached.add(tsid)
        if not row.has(Mark.PURGED):
            self.rows[tsid] = row
        if self._is_bounded and len(self.rows) > limits.MEMORIES_PER_ACTION:
            message = "more memories would go, with copies and cascade, than one action takes: purge less at a time"
            raise invalid("cascade", message, limit=limits.MEMORIES_PER_ACTION)
        return True

    def _taken_with(self, tsid: int) -> Iterator[int]:
        for copy in texts.quoting(self._state, tsid):
            row = None if self._stays(copy) else self._state.memory(copy)
            if row is not None and not row.has(Mark.PURGED):
                self.copies.setdefault(tsid, []).append(copy)
            yield copy
        if self._cascade is Cascade.DERIVED:
            yield from self._derivatives(tsid)
        elif self._cascade is Cascade.UNGROUNDED:
            yield from (each for each in self._derivatives(tsid) if not self._has_a_source_left(each))
        elif self._cascade is Cascade.VERSIONS:
            yield from versions(self._state, tsid)

    def _derivatives(self, tsid: int) -> Iterator[int]:
        for _, _, child in edges.incoming(self._state, tsid, _DERIVED):
            yield child
            yield from self._heirs(child)

    def _heirs(self, tsid: int) -> Iterator[int]:
        """The versions after it that stand on its sources."""
        owners = set(edges.owners(self._state, tsid))
        seen = {tsid}
        line = [tsid]
        while line:
            for edge_type, _, later in list(edges.incoming(self._state, line.pop())):
                stands_there = not owners.isdisjoint(edges.owners(self._state, later))
                if edge_type in REVISIONS and later not in seen and stands_there:
                    seen.add(later)
                    line.append(later)
                    yield later

    def _has_a_source_left(self, tsid: int) -> bool:
        if any(not self.goes(source) for _, _, source in edges.grounding(self._state, tsid)):
            return True
        owners = (self._state.memory(owner) for owner in edges.owners(self._state, tsid))
        return any(row is not None and row.traits & FROM_OUTSIDE and self._stands_outside(tsid, row) for row in owners)

    def _stands_outside(self, tsid: int, row: MemoryRow) -> bool:
        try:
            event = genesis(self._record, row)
        except DamagedRecord as error:  # nobody can know, so it stays, and that is told
            if tsid not in self.rows:
                self.unreadable[tsid] = error
            return True
        return any(
            each.use == ExternalUse.DERIVED_FROM and each.kind != ExternalKind.CONTEXT for each in event.externals
        )


def genesis(record: RecordOf, row: MemoryRow) -> events.MemoryCreated:
    """What created a memory. Raises DamagedRecord."""
    found = record(row.seq)
    if found is None or not isinstance(found.event, events.MemoryCreated):
        raise DamagedRecord(row.seq, "event")
    return found.event


def versions(state: State, tsid: int) -> Iterator[int]:
    """The revisions right before and after a memory. Raises DamagedRow."""
    for edge_type, _, other in edges.outgoing(state, tsid):
        if edge_type in REVISIONS:
            yield other
    for edge_type, _, other in edges.incoming(state, tsid):
        if edge_type in REVISIONS:
            yield other

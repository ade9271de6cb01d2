"""review: the inbox of a tenant, what somebody should look at. Found by scans of columns and edges, so complete.

In the order of `FINDERS`, then by id. A cursor names the last item it gave, the newest memory there was when the
review began, and how many items there were then; what is written meanwhile is on no page, what was dealt with
meanwhile no longer is. Dead memories are no one's business here, nor are quarantined ones: nothing of theirs is to be
done before `recover` or `lift`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from daemon import limits
from daemon.prepare import UNSET
from daemon.reads.cursors import Cursors
from daemon.reads.grounds import Grounds, grounds_of_all
from daemon.reads.proposals import ids_newest_first, row_of
from daemon.reads.reading import Reading
from daemon.reads.review_items import Place, shown
from daemon.reads.selecting import removed_segments, segments
from daemon.wire import review_results as r
from journal.codes import EdgeType, ProposalKind, ProposalStatus, Status
from journal.tsid import MAX_TSID
from projections import flags
from projections.columns import statuses
from projections.edges import owners_of_versions
from projections.lineage_scan import EdgeColumns, Mask, edges_of, effective_confidences, may_be_below, rows_of
from projections.rows import FLAG_PURGED, FLAG_TOMBSTONE

PAGE_BYTES = limits.LINE_BYTES - 65_536
_CONTRADICTS = int(EdgeType.CONTRADICTS)
_SUPERSEDED, _FORGOTTEN, _QUARANTINED = 0x01, 0x08, 0x10  # of a header row's marks
_ENCODE = msgspec.json.Encoder().encode


class Scan:
    """All memories of a question's tenants up to `newest`, in id order, as columns."""

    def __init__(self, reading: Reading, threshold: float, newest: int | None) -> None:
        self.reading = reading
        self.threshold = threshold
        self._upto = newest
        names = ["tsid", "kind", "origin", "flags", "marks", "confidence"]
        found = [segment.rows for segment in (*segments(reading), *removed_segments(reading))]
        columns = {name: np.concatenate([rows[name] for rows in found]) if found else np.zeros(0) for name in names}
        order = np.argsort(columns["tsid"], kind="stable")
        tsids = columns["tsid"].astype(np.uint64)[order]
        upto = len(tsids) if newest is None else int(np.searchsorted(tsids, np.uint64(newest), "right"))
        order = order[:upto]
        self.tsids: npt.NDArray[np.uint64] = tsids[:upto]
        self.kinds, self._origins = (columns[name].astype(np.uint8)[order] for name in ("kind", "origin"))
        self.confidences = columns["confidence"].astype(np.float32)[order]
        self._flags, self._marks = (columns[name].astype(np.uint8)[order] for name in ("flags", "marks"))

    @property
    def newest(self) -> int:
        """The newest memory, or proposal that waits: ids rise, so what is written later lies behind both."""
        return max(int(self.tsids[-1]) if len(self.tsids) else 0, self.proposals[-1] if self.proposals else 0)

    @cached_property
    def proposals(self) -> list[int]:
        """Those that wait, in id order."""
        before = MAX_TSID if self._upto is None else self._upto + 1
        found = (ids_newest_first(self.reading, ProposalStatus.PROPOSED, kind, before) for kind in ProposalKind)
        return sorted(proposal for ids in found for proposal in ids)

    @cached_property
    def alive(self) -> Mask:
        """Neither dead nor quarantined."""
        found: Mask = (self._flags & FLAG_TOMBSTONE == 0) & (self._marks & _QUARANTINED == 0)
        return found

    @cached_property
    def standing(self) -> Mask:
        """Alive, and nothing has taken its place."""
        found: Mask = self.alive & (self._marks & _SUPERSEDED == 0)
        return found

    @cached_property
    def active(self) -> Mask:
        columns = np.zeros(len(self.tsids), np.dtype([("marks", "u1"), ("flags", "u1")]))
        columns["marks"], columns["flags"] = self._marks, self._flags
        found: Mask = statuses(columns) == int(Status.ACTIVE)
        return found

    @cached_property
    def edges(self) -> EdgeColumns:
        return edges_of(self.reading.snapshot, self.tsids, self.step)

    @cached_property
    def grounds(self) -> npt.NDArray[np.uint8]:
        """Of each memory its `Grounds`."""
        gone = (self._marks & _FORGOTTEN != 0) | (self._flags & FLAG_PURGED != 0)
        owners = owners_of_versions(self.reading.state)
        return grounds_of_all(self.tsids, self.kinds, self._origins, gone, self.edges, owners)

    def places(self, tsids: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.int64], Mask]:
        """Where memories stand in the columns, and which of them do at all."""
        at = np.searchsorted(self.tsids, tsids).clip(0, max(0, len(self.tsids) - 1))
        known: Mask = self.tsids[at] == tsids if len(self.tsids) else np.zeros(len(tsids), np.bool_)
        return at, known

    def step(self, done: int, of: int) -> None:
        self.reading.asking.step("review", done, of)


def _alone(tsids: npt.NDArray[np.uint64]) -> list[tuple[int, int]]:
    return [(tsid, 0) for tsid in tsids.tolist()]


def uncertain(scan: Scan) -> list[tuple[int, int]]:
    """Active ones that are believed less than `threshold`, as of now."""
    tsids = scan.tsids[scan.active & may_be_below(scan.confidences, scan.kinds, scan.threshold)]
    found = effective_confidences(rows_of(scan.reading.snapshot, tsids, scan.step), scan.reading.now_ms)
    return _alone(tsids[found < scan.threshold])


def ungrounded(scan: Scan) -> list[tuple[int, int]]:
    """Those that stand on memories all of which are forgotten or purged. Of a line of versions the newest only: nothing
    is to be done about one that another took the place of."""
    return _alone(scan.tsids[scan.standing & (scan.grounds == Grounds.UNGROUNDED)])


def orphans(scan: Scan) -> list[tuple[int, int]]:
    """Those whose kind must be made from something, and that stand on nothing; what was seeded need not."""
    return _alone(scan.tsids[scan.standing & (scan.grounds == Grounds.ORPHAN)])


def flagged(scan: Scan) -> list[tuple[int, int]]:
    """Open flags: `(memory, the source that set it)`."""
    found = np.array(list(flags.all_open(scan.reading.state)), np.uint64).reshape(-1, 2)
    places, known = scan.places(found[:, 0])
    shown_ones = known & scan.alive[places] if len(scan.tsids) else known
    return [(child, source) for child, source in found[shown_ones].tolist()]


def contradictions(scan: Scan) -> list[tuple[int, int]]:
    """Pairs that contradict each other and both stand, each once, as they were drawn."""
    drawn = scan.edges.type == _CONTRADICTS
    owners, targets = scan.edges.owner[drawn], scan.edges.target[drawn]
    places, known = scan.places(targets)
    if not len(owners):
        return []
    both = known & scan.standing[owners] & scan.standing[places]
    pairs = sorted(zip(scan.tsids[owners[both]].tolist(), targets[both].tolist(), strict=True))
    return list({frozenset(pair): pair for pair in reversed(pairs)}.values())[::-1]


def proposed(scan: Scan) -> list[tuple[int, int]]:
    """Proposals that wait, about memories that are alive: `(proposal, the memory)`."""
    rows = [(proposal, row_of(scan.reading, proposal)) for proposal in scan.proposals]
    named = [(row.memory[1], row.memory[1] if row.other is None else row.other[1]) for _, row in rows]
    places, known = scan.places(np.array(named, np.uint64).reshape(-1))
    alive = (known & scan.alive[places] if len(scan.tsids) else known).reshape(-1, 2)
    both = (alive[:, 0] & alive[:, 1]).tolist()
    return [(proposal, row.memory[1]) for (proposal, row), shown_one in zip(rows, both, strict=True) if shown_one]


def none_yet(scan: Scan) -> list[tuple[int, int]]:
    """What this version doesn't make."""
    return []


FINDERS: dict[str, Callable[[Scan], list[tuple[int, int]]]] = {
    "uncertain": uncertain,
    "ungrounded": ungrounded,
    "orphans": orphans,
    "flags": flagged,
    "contradictions": contradictions,
    "proposals": proposed,
    "parked": none_yet,
}
"""By word: `(memory, another one that it is about or 0)` of each item, in that order; of `proposals` each is
`(proposal, the memory that it is about)`."""
WORDS = tuple(FINDERS)


class Cursor(NamedTuple):
    """Behind which item to go on, and how many there were on all pages."""

    after: Place
    newest: int
    total: int


def review(reading: Reading, params: Any) -> r.ReviewResult:
    """What somebody should look at, page by page. Raises Refused."""
    wanted = WORDS if params.what is UNSET else tuple(word for word in WORDS if word in params.what)
    cursors = reading.cursors(repr(("review", reading.tenant_names, wanted, params.threshold)))
    cursor = None if params.cursor is UNSET else _decoded(params.cursor, cursors)
    scan = Scan(reading, params.threshold, None if cursor is None else cursor.newest)
    if cursor is None:
        found = list(_places(scan, wanted))
        total = len(found)
    else:
        found = [place for place in _places(scan, wanted, cursor.after[0]) if place > cursor.after]
        total = cursor.total
    items = _page(reading, found, params.limit)
    after = found[len(items) - 1] if len(items) < len(found) else None
    newest = scan.newest if cursor is None else cursor.newest
    following = None if after is None else _encoded(Cursor(after, newest, total), cursors)
    return r.ReviewResult(items=items, next_cursor=following, total=total)


def _places(scan: Scan, wanted: tuple[str, ...], first: int = 0) -> Iterator[Place]:
    for word in wanted:
        what = WORDS.index(word)
        if what >= first:
            yield from (Place(what, tsid, other) for tsid, other in FINDERS[word](scan))


def _page(reading: Reading, found: list[Place], limit: int) -> list[r.ReviewItem]:
    """Up to `limit` items, and to what a line can carry."""
    items: list[r.ReviewItem] = []
    size_bytes = 0
    for place in found[:limit]:
        item = shown(reading, WORDS[place.what], place)
        size_bytes += len(_ENCODE(item)) + 1
        if items and size_bytes > PAGE_BYTES:
            break
        items.append(item)
    return items


def _encoded(cursor: Cursor, cursors: Cursors) -> str:
    what, tsid, other = cursor.after
    return cursors.encode(tsid, cursor.newest, cursor.total, what, other)


def _decoded(text: str, cursors: Cursors) -> Cursor:
    """Raises Refused."""
    place = cursors.decode(text, 0)
    return Cursor(Place(place.given, place.last, place.more), place.head, place.total)

"""The working set's columns: of every memory its 64-byte header row and the Bloom of its tags, in memory only.

A partition's rows lie in segments of 504 (8 pages of `rows`). Nothing that was published is ever changed: a batch
makes new segments for the pages that it changed, and a new `View` that shares all the others. So a reader that took a
view scans it without a lock, while the writer publishes, and sees every batch wholly or not at all.

What a commit changed waits until a question needs it, or much has come together: the writer hands over its pages and
goes on. A view says at which record it stands, and is given only to a question whose snapshot stands at the same one:
what waits is brought in up to there. The newest two are kept, but for a purge, which leaves only the one without what
it took; and a commit that is not published yet is waited for.
Who gets none reads the pages of its snapshot: slower, never another answer.

Filled in the background (`warming.py`): rows from one snapshot, with what the writer published meanwhile laid over
it; then the Blooms, unsealed segment by segment. Until then a Bloom is `ANY`, which rules nothing out.

What a purge does to each column stands in `EVICTIONS`; a column without a row there fails at import.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from projections import rows, tables
from projections.columns import HEADER, Columns
from projections.rows import FLAG_PURGED, HEADER_BYTES, ROWS_PER_PAGE
from projections.state import KEY32, KEY32_32, State
from projections.tag_blooms import ANY, NONE, Blooms

SEGMENT_PAGES = 8
"""The fewer, the less a batch has to copy, and the more steps a scan takes."""
SEGMENT_ROWS = SEGMENT_PAGES * ROWS_PER_PAGE
PAGE_BYTES = ROWS_PER_PAGE * HEADER_BYTES
MERGE_BATCHES = 64
MERGE_PAGES = 256
"""So many commits, or pages of them, wait at most: one alone costs the writer next to nothing, many together little."""
WAIT_S = 0.05
"""How long a question waits for a view that a commit has announced, before it reads its snapshot."""
_BUCKET = 256

Mask = npt.NDArray[np.bool_]


class Segment(NamedTuple):
    """Up to 504 rows of a partition, in their order there. `known`: the Bloom says what the tags are."""

    rows: Columns
    blooms: Blooms
    known: Mask


Segments = tuple[Segment, ...]
Pages = dict[tuple[int, int], "bytes | None"]  # (partition, page) → rows without CRC, None: the page has gone

EVICTIONS: dict[str, tuple[str, Callable[[Segment, int], bool]]] = {
    "rows": (
        "stays and says purged: its fields are those that a purge retains",
        lambda segment, at: bool(segment.rows["flags"][at] & FLAG_PURGED),
    ),
    "blooms": (
        "zeroed",
        lambda segment, at: int(segment.blooms[at]) == NONE,
    ),
    "known": (
        "set, so that nothing is unsealed for it again",
        lambda segment, at: bool(segment.known[at]),
    ),
}
"""By column: what is left of a purged memory in it, in words and as a check of a segment's row."""
assert set(EVICTIONS) == set(Segment._fields)


class View:
    """The columns as of one record. Never changed."""

    def __init__(self, seq: int, buckets: dict[int, dict[int, Segments]], total: int, unknown: int) -> None:
        self.seq = seq
        self.total = total
        self.unknown = unknown
        self._buckets = buckets

    def segments(self, partition: int) -> Segments:
        """The segments of a partition, in row order."""
        return self._buckets.get(partition // _BUCKET, {}).get(partition, ())

    def partitions(self) -> Iterator[int]:
        for bucket in self._buckets.values():
            yield from bucket

    def changed(self, seq: int, made: Mapping[int, Changed]) -> View:
        """This view with other segments for some partitions."""
        buckets = dict(self._buckets)
        total, unknown = self.total, self.unknown
        for partition, change in made.items():
            number = partition // _BUCKET
            if buckets.get(number) is self._buckets.get(number):
                buckets[number] = dict(buckets.get(number, {}))
            buckets[number][partition] = change.segments
            total += change.rows
            unknown += change.unknown
        return View(seq, buckets, total, unknown)


class Changed:
    """The segments of a partition in the making: how many rows more than before, and how many Blooms more that are
    not known."""

    def __init__(self, segments: Segments) -> None:
        self._segments: list[Segment | None] = list(segments)
        self.rows = 0
        self.unknown = 0

    @classmethod
    def of_new(cls, segments: Segments) -> Changed:
        made = cls(())
        for segment in segments:
            made.put(len(made._segments), segment)
        return made

    @property
    def segments(self) -> Segments:
        """In row order. Only the last ones of a partition can go."""
        return tuple([each for each in self._segments if each is not None])

    def at(self, place: int) -> Segment | None:
        return self._segments[place] if place < len(self._segments) else None

    def put(self, place: int, segment: Segment | None) -> None:
        """Put a segment in its place, None: there is none any more."""
        for each, sign in ((self.at(place), -1), (segment, 1)):
            if each is not None:
                self.rows += sign * len(each.rows)
                self.unknown += sign * (len(each.known) - int(np.count_nonzero(each.known)))
        self._segments[place : place + 1] = [segment]


_EMPTY = View(0, {}, 0, 0)


class _Batch(NamedTuple):
    """What one commit changed: pages by their key as stored (None: gone), Blooms by TSID."""

    seq: int
    pages: Mapping[bytes, bytes | None]
    blooms: dict[int, int]


class HeaderColumns:
    """All columns. `publish` is for the writer's thread, `load` and `learn` for the one that warms, `at` for all."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._views: tuple[View, ...] = ()  # the newest first; none until they are loaded
        self._published_seq = 0
        self._collecting = False
        self._waiting: list[_Batch] = []  # published, and not in a view yet
        self._waiting_pages = 0

    @property
    def newest(self) -> View | None:
        """The newest view that was made, None until they are loaded: up to `MERGE_BATCHES` commits behind."""
        views = self._views
        return views[0] if views else None

    def at(self, seq: int) -> View | None:
        """The view that stands at record `seq`, None when there is none."""
        if not self._views:
            return None
        with self._changed:
            self._changed.wait_for(lambda: self._reaches(seq), WAIT_S)
            if self._views and self._views[0].seq < seq:
                self._merge(seq)
            return next((view for view in self._views if view.seq == seq), None)

    def _reaches(self, seq: int) -> bool:
        """Whether there is nothing to be waited for."""
        return not self._views or seq <= max(self._published_seq, self._views[0].seq)

    def settle(self) -> None:
        """Bring all that was published into a view: behind this, nothing that was purged is left in the columns."""
        with self._changed:
            if self._views:
                self._merge(self._published_seq)

    def evict(self) -> None:
        """As `settle`, and what is kept of before goes too: behind this, no view has what was purged, and neither has
        what waits for the first one. Questions that stand at an earlier record read their snapshots."""
        with self._changed:
            if self._views:
                self._merge(self._published_seq)
                self._views = self._views[:1]
            elif self._waiting:
                gone = [tsid for tsid, bloom in self._waiting[-1].blooms.items() if bloom == NONE]
                for batch in self._waiting[:-1]:
                    for tsid in batch.blooms.keys() & gone:
                        del batch.blooms[tsid]

    def warmed(self) -> float:
        """How far they are, 0..1: rows and Blooms count the same."""
        view = self.newest
        if view is None:
            return 0.0
        return 1.0 if not view.unknown else 1.0 - view.unknown / (2 * view.total)

    # --- the writer ------------------------------------------------------------------------------

    def publish(self, seq: int, changed: Mapping[bytes, bytes | None], blooms: Mapping[int, int]) -> None:
        """A batch was committed up to record `seq`: the pages that it changed, and the Blooms, by TSID, of the
        memories whose tags it wrote. Made into a view by whoever needs it, or here when much has come together."""
        with self._changed:
            self._published_seq = seq
            if self._collecting:
                self._waiting.append(_Batch(seq, changed, dict(blooms)))
                self._waiting_pages += len(changed)
                much = len(self._waiting) >= MERGE_BATCHES or self._waiting_pages >= MERGE_PAGES
                if much and self._views:
                    self._merge(seq)
            self._changed.notify_all()

    def _merge(self, seq: int) -> None:
        """Make a view of what waits up to record `seq`. The lock is held."""
        count = bisect_right(self._waiting, seq, key=attrgetter("seq"))
        if not count:
            return
        pages: Pages = {}
        blooms: dict[int, int] = {}
        for batch in self._waiting[:count]:
            blooms.update(batch.blooms)
            for key, page in batch.pages.items():
                pages[KEY32_32.unpack(key)] = None if page is None else page[:-4]
        newest, last_seq = self._views[0], self._waiting[count - 1].seq
        self._views = (newest.changed(last_seq, _made(newest, pages, blooms)), newest)
        del self._waiting[:count]
        self._waiting_pages = sum(len(batch.pages) for batch in self._waiting)

    # --- warming ---------------------------------------------------------------------------------

    def begin(self) -> None:
        """From here on, what is published is kept for `load`. Called before the snapshot to be loaded is opened."""
        self.forget()
        with self._changed:
            self._collecting = True

    def load(self, seq: int, partitions: Mapping[int, Segments]) -> None:
        """Take over the rows of a snapshot that stands at record `seq`, by partition, if `begin` was called before."""
        loaded = _EMPTY.changed(seq, {number: Changed.of_new(found) for number, found in partitions.items()})
        with self._changed:
            if not self._collecting:
                return  # they were forgotten since `begin`, and with them what came meanwhile
            self._waiting = [batch for batch in self._waiting if batch.seq > seq]
            self._waiting_pages = sum(len(batch.pages) for batch in self._waiting)
            self._views = (loaded,)
            self._changed.notify_all()

    def forget(self) -> None:
        """There are none again: every question reads its snapshot."""
        with self._changed:
            self._views, self._waiting, self._waiting_pages, self._collecting = (), [], 0, False
            self._changed.notify_all()

    def learn(self, partition: int, place: int, read: Columns, blooms: Blooms) -> None:
        """The Blooms of the rows `read` of a segment. One that was published or evicted meanwhile stays."""
        with self._changed:
            newest = self.newest
            segments = () if newest is None else newest.segments(partition)
            if newest is None or place >= len(segments):
                return
            now = segments[place]
            count = min(len(now.rows), len(read))
            fresh = ~now.known[:count] & (now.rows["tsid"][:count] == read["tsid"][:count])
            learned, known = now.blooms.copy(), now.known.copy()
            learned[:count][fresh] = blooms[:count][fresh]
            known[:count][fresh] = True
            made = Changed(segments)
            made.put(place, Segment(now.rows, learned, known))
            self._views = (newest.changed(newest.seq, {partition: made}), *self._views[1:])


def read_segments(state: State, partition: int) -> Segments:
    """The segments of a partition as a snapshot has them; no Bloom is known. Raises DamagedRow."""
    return cut(state.prefix(tables.ROWS, KEY32.pack(partition)))


def cut(pages: Iterable[tuple[bytes, bytes]]) -> Segments:
    """The segments that the pages of one partition make, `(key, value)` as stored. Raises DamagedRow."""
    found: list[Segment] = []
    waiting: list[bytes] = []
    for key, value in pages:
        waiting.append(rows.open_row(tables.ROWS, key, value))
        if len(waiting) == SEGMENT_PAGES:
            found.append(_segment(b"".join(waiting), None, {}))
            waiting.clear()
    if waiting:
        found.append(_segment(b"".join(waiting), None, {}))
    return tuple(found)


def _made(view: View, pages: Pages, blooms: Mapping[int, int]) -> dict[int, Changed]:
    """The segments of the partitions that a batch changes: by its pages, or by tags that it wrote anew."""
    made: dict[int, Changed] = {}
    changes: dict[tuple[int, int], Pages] = {}
    for (partition, number), page in pages.items():
        changes.setdefault((partition, number // SEGMENT_PAGES), {})[partition, number] = page
    left = dict(blooms)
    for partition, place in sorted(changes):
        change = made.setdefault(partition, Changed(view.segments(partition)))
        old = change.at(place)
        content = _assembled(old, partition, place, changes[partition, place])
        change.put(place, _segment(content, old, left) if content else None)
    places: dict[int, list[int]] = {}
    for partition, place in sorted(changes):
        places.setdefault(partition, []).append(place)
    for partition, changed in places.items():
        _carry(view.segments(partition), made[partition], changed)
    if left:
        _retag(view, made, left)
    return made


def _assembled(old: Segment | None, partition: int, place: int, pages: Pages) -> bytes:
    """The bytes of a segment with some of its pages replaced."""
    before = memoryview(b"") if old is None else old.rows.view(np.uint8).data
    first = place * SEGMENT_PAGES
    return b"".join(
        pages.get((partition, first + number), before[number * PAGE_BYTES : (number + 1) * PAGE_BYTES]) or b""
        for number in range(SEGMENT_PAGES)
    )


def _segment(content: bytes, old: Segment | None, left: dict[int, int]) -> Segment:
    """A segment of these rows. The Bloom of a memory that stands where it stood is what it was; that of a new one is
    taken out of `left`, if it is there; that of a purged one is empty."""
    found = np.frombuffer(content, HEADER)
    tsids = found["tsid"]
    blooms, known = np.full(len(found), ANY, np.uint64), np.zeros(len(found), np.bool_)
    begun = 0
    if old is not None:
        shared = min(len(found), len(old.rows))
        same = tsids[:shared] == old.rows["tsid"][:shared]
        np.copyto(blooms[:shared], old.blooms[:shared], where=same)
        np.copyto(known[:shared], old.known[:shared], where=same)
        begun = shared  # a memory that stands where another stood finds its Bloom in `_retag`
    if left:
        for place, tsid in enumerate(tsids[begun:].tolist(), begun):
            bloom = None if known[place] else left.pop(tsid, None)
            if bloom is not None:
                blooms[place], known[place] = bloom, True
    purged = found["flags"] & FLAG_PURGED != 0
    purged |= tsids == 0  # blank: a vacuum is under way
    if purged.any():
        blooms[purged], known[purged] = NONE, True
    return Segment(found, blooms, known)


def _carry(before: Segments, change: Changed, places: Sequence[int]) -> None:
    """Rows that a vacuum has moved keep the Blooms that they had in their old place. Where a row was, another is now,
    or a blank one: so they came from segments that are at `places` too, and no others are looked at."""
    changed = [place for place in places if place < len(before)]
    lacking = [
        (place, segment)
        for place in changed
        if (segment := change.at(place)) is not None and not segment.known.all()
    ]  # fmt: skip
    if not any((segment.rows["tsid"][: len(at.rows)] != at.rows["tsid"][: len(segment.rows)]).any()
               for segment, at in ((segment, before[place]) for place, segment in lacking)):  # fmt: skip
        return
    sources = [before[place] for place in changed]
    tsids = np.concatenate([each.rows["tsid"] for each in sources])
    order = np.argsort(tsids, kind="stable")
    tsids = tsids[order]
    blooms = np.concatenate([each.blooms for each in sources])[order]
    known = np.concatenate([each.known for each in sources])[order]
    for place, segment in lacking:
        missing = np.flatnonzero(~segment.known)
        wanted = segment.rows["tsid"][missing]
        at = np.minimum(np.searchsorted(tsids, wanted), len(tsids) - 1)
        there = (tsids[at] == wanted) & known[at]
        carried, seen = segment.blooms.copy(), segment.known.copy()
        carried[missing[there]] = blooms[at[there]]
        seen[missing[there]] = True
        change.put(place, Segment(segment.rows, carried, seen))


def _retag(view: View, made: dict[int, Changed], left: dict[int, int]) -> None:
    """Put the Blooms that are `left` where their memories stand already; a purged one has none."""
    wanted = np.array(list(left), np.uint64)
    for partition in {*view.partitions(), *made}:
        change = made.get(partition) or Changed(view.segments(partition))
        for place, segment in enumerate(change.segments):
            written = np.flatnonzero(np.isin(segment.rows["tsid"], wanted) & (segment.rows["flags"] & FLAG_PURGED == 0))
            if not len(written):
                continue
            blooms, known = segment.blooms.copy(), segment.known.copy()
            blooms[written] = [left[tsid] for tsid in segment.rows["tsid"][written].tolist()]
            known[written] = True
            change.put(place, Segment(segment.rows, blooms, known))
            made[partition] = change

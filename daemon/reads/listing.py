"""list: memories by a selection, page by page. What a selection asks of content is found by unsealing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from daemon import limits
from daemon.prepare import UNSET
from daemon.reads.known import KnownReading
from daemon.reads.memories import at_moments, compact, full, seen
from daemon.reads.reading import Reading
from daemon.reads.selecting import Selecting
from daemon.reads.selecting_then import SelectingThen
from daemon.selections import canonical
from daemon.wire import results as r
from journal.codes import Status

PAGE_BYTES = limits.LINE_BYTES - 65_536
"""A page of memories ends before the line that carries it would be too long; one alone always fits."""
_ACTIVE = (Status.ACTIVE.wire,)
_HELD = (Status.ACTIVE.wire, Status.SUPERSEDED.wire)
"""What is meant without a status: now, and at a moment in the world."""
_ENCODE = msgspec.json.Encoder().encode


def list_memories(reading: Reading, params: Any) -> r.ListResult:
    """Memories by selection, in id order. Without a status the active ones. With `as_known_at` they are selected, and
    shown, as they were then. With `as_of` only those that hold at that moment: when, not whether something took their
    place since, decides, so without a status the superseded ones too.

    A cursor names the last id it gave and the newest there was when the list began, so that what is written
    meanwhile is on no page; and how many there were then: `total`, which the first page counts for all.
    """
    sel = params.sel
    reading = at_moments(reading, params)
    selecting = _selecting(reading, sel)
    asked = b"" if sel is UNSET else canonical(sel)
    moments = (reading.as_of_ms, reading.known_at_ms)
    cursors = reading.cursors(repr(("list", reading.tenant_names, asked, params.full, moments)))
    candidates = selecting.candidates()
    place = cursors.decode(params.cursor, int(candidates[-1]) if len(candidates) else 0)
    candidates = candidates[: np.searchsorted(candidates, np.uint64(place.head), "right")]
    if params.cursor is UNSET:
        chosen = list(selecting.matching(candidates))
        total, found = len(chosen), iter(chosen)
    else:
        total = place.total
        found = selecting.matching(candidates[np.searchsorted(candidates, np.uint64(place.last), "right") :])
    page, more = _page(reading, params, found)
    cursor = cursors.encode(page[-1][0], place.head, total) if more else None
    return r.ListResult(memories=[shown for _, shown in page], next_cursor=cursor, total=total)


def _selecting(reading: Reading, sel: Any) -> Selecting:
    statuses = _HELD if reading.as_of_ms is not None else _ACTIVE
    if isinstance(reading, KnownReading):
        return SelectingThen(reading, sel, statuses)
    return Selecting(reading, sel, statuses)


def _page(reading: Reading, params: Any, chosen: Iterator[int]) -> tuple[list[tuple[int, Any]], bool]:
    """`(a page of (id, memory), whether more follows)`: up to `limit`, and to what a line can carry."""
    page: list[tuple[int, Any]] = []
    size_bytes = 0
    for tsid in chosen:
        if len(page) == params.limit:
            return page, True
        shown = seen(reading, tsid, full if params.full else compact)
        if shown is None:
            continue
        size_bytes += len(_ENCODE(shown)) + 1
        if size_bytes > PAGE_BYTES and page:
            return page, True
        page.append((tsid, shown))
    return page, False

"""list: memories by a selection, page by page. What a selection asks of content is found by unsealing."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from daemon import limits
from daemon.prepare import UNSET, parse_memory, parse_session, parse_time
from daemon.reads.cursors import decode_cursor, encode_cursor
from daemon.reads.memories import compact, full, particulars_of
from daemon.reads.reading import Reading, is_purged
from daemon.refusal import Reason, Refused
from daemon.wire import params as p
from daemon.wire import results as r
from journal.codes import Kind, Origin, Status
from journal.errors import DamagedRecord, PartUnreadable
from projections.columns import Columns, read_columns, statuses
from projections.rows import MemoryRow

PAGE_BYTES = limits.LINE_BYTES - 65_536
"""A page of memories ends before the line that carries it would be too long; one alone always fits."""
_ENCODE = msgspec.json.Encoder().encode


def list_memories(reading: Reading, params: Any) -> r.ListResult:
    """Memories by selection, in id order. Without a status the active ones.

    A cursor names the last id it gave and the newest there was when the list began, so that what is written
    meanwhile is on no page. `total` counts all of them: by the columns alone, when content isn't asked for.
    """
    sel = params.sel
    key = repr((reading.tenant_names, sel, params.full))
    columns = _selected(reading, sel)
    after, newest = decode_cursor(params.cursor, key, int(columns["tsid"][-1]) if len(columns) else 0)
    columns = columns[columns["tsid"] <= newest]
    if _asks_rows(sel):
        chosen = [tsid for tsid, row in _rows(reading, columns) if _matches(reading, sel, row)]
    else:
        chosen = columns["tsid"].tolist()
    page, more = _page(reading, params, chosen[bisect_right(chosen, after) :])
    cursor = encode_cursor(page[-1][0], newest, key) if more else None
    return r.ListResult(memories=[shown for _, shown in page], next_cursor=cursor, total=len(chosen))


def _page(reading: Reading, params: Any, chosen: list[int]) -> tuple[list[tuple[int, Any]], bool]:
    """`(a page of (id, memory), whether more follows)`: up to `limit`, and to what a line can carry."""
    page: list[tuple[int, Any]] = []
    size_bytes = 0
    for tsid in chosen:
        row = reading.memory(tsid)
        if row is None:
            continue
        if len(page) == params.limit:
            return page, True
        shown = full(reading, tsid, row) if params.full else compact(reading, tsid, row)
        size_bytes += len(_ENCODE(shown)) + 1
        if size_bytes > PAGE_BYTES and page:
            return page, True
        page.append((tsid, shown))
    return page, False


def _selected(reading: Reading, sel: Any) -> Columns:
    """The header rows of our tenants that fit as far as these rows can tell, in id order."""
    given = p.Selection() if sel is UNSET else sel
    partitions = [n for tenant in sorted(reading.tenants) for n in reading.names.partitions.get(tenant, ())]
    columns = read_columns(reading.state, partitions)
    keep = np.isin(statuses(columns), _codes(given.status, Status.from_wire, {int(Status.ACTIVE)}))
    if given.kinds is not UNSET:
        keep &= np.isin(columns["kind"], _codes(given.kinds, Kind.from_wire, set()))
    if given.origins is not UNSET:
        keep &= np.isin(columns["origin"], _codes(given.origins, Origin.from_wire, set()))
    if given.session is not UNSET:
        number = reading.session_number(parse_session("sel.session", given.session))
        if number is None:
            raise Refused(Reason.NOT_FOUND, "no such session", parameter="sel.session")
        keep &= columns["session"] == number
    if given.ids is not UNSET:
        refs = [parse_memory("sel.ids", ref) for ref in given.ids]
        keep &= _are(columns, refs)
    if given.producer is not UNSET:
        numbers = np.unique(columns["producer"])
        keep &= np.isin(columns["producer"], [n for n in numbers if _is_producer(reading, given.producer, int(n))])
    return columns[keep]


def _are(columns: Columns, refs: list[tuple[int, int]]) -> npt.NDArray[np.bool_]:
    """Which rows are one of these memories, by kind and id."""
    found = np.zeros(len(columns), np.bool_)
    for kind in {kind for kind, _ in refs}:
        tsids = np.array([tsid for each, tsid in refs if each == kind], np.uint64)
        found |= (columns["kind"] == kind) & np.isin(columns["tsid"], tsids)
    return found


def _codes(words: Any, code_of: Callable[[str], int], otherwise: set[int]) -> list[int]:
    return sorted(otherwise if words is UNSET else {int(code_of(word)) for word in words})


_SEALED_FIELDS = ("subject", "entity", "text", "tags", "project")


def _asks_rows(sel: Any) -> bool:
    """Whether more than the header rows has to be looked at, one memory after the other."""
    if sel is UNSET:
        return False
    return any(getattr(sel, name) is not UNSET for name in (*_SEALED_FIELDS, "since", "until"))


def _rows(reading: Reading, columns: Columns) -> Iterator[tuple[int, MemoryRow]]:
    for tsid in columns["tsid"].tolist():
        row = reading.memory(tsid)
        if row is not None:
            yield tsid, row


def _matches(reading: Reading, sel: Any, row: MemoryRow) -> bool:
    if sel.since is not UNSET and row.at_ms < parse_time("sel.since", sel.since)[0]:
        return False
    if sel.until is not UNSET and row.at_ms >= parse_time("sel.until", sel.until)[0]:
        return False
    return _matches_content(reading, sel, row)


def _matches_content(reading: Reading, sel: Any, row: MemoryRow) -> bool:
    """The conditions that only unsealing can answer."""
    given = [name for name in _SEALED_FIELDS if getattr(sel, name) is not UNSET]
    if not given:
        return True
    if is_purged(row):
        return False
    if not reading.content:
        raise Refused(Reason.DENIED, "selecting by content needs the grant `content`", parameter="sel")
    try:
        _, event = reading.genesis(row)
        particulars = particulars_of(reading, row, event)
        text = reading.text(event) if "text" in given else ""
    except (PartUnreadable, DamagedRecord) as error:
        if isinstance(error, DamagedRecord) or error.state == "damaged":
            reading.note_damage(row.seq, "what a selection asks for")
            return True  # it can't be told; it comes back as damaged, not left out in silence
        return False
    return (
        (sel.subject is UNSET or particulars.subject == sel.subject)
        and (sel.project is UNSET or particulars.project == sel.project)
        and (sel.entity is UNSET or any(name == sel.entity for name, _ in particulars.entities))
        and (sel.tags is UNSET or set(sel.tags) <= set(particulars.tags))
        and (sel.text is UNSET or sel.text.casefold() in text.casefold())
    )


def _is_producer(reading: Reading, match: Any, number: int) -> bool:
    producer = reading.producer(number)
    for name in ("agent", "model", "version", "extractor"):
        wanted = getattr(match, name)
        if wanted is not UNSET and wanted != (getattr(producer, name) if producer else None):
            return False
    return True

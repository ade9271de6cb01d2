"""list: memories by a selection, page by page. What a selection asks of content is found by unsealing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from daemon import limits
from daemon.prepare import UNSET, parse_memory, parse_session, parse_time
from daemon.reads.cursors import decode_cursor, encode_cursor
from daemon.reads.memories import compact, full, particulars_of
from daemon.reads.reading import Reading, is_purged
from daemon.refusal import Reason, Refused
from daemon.wire import results as r
from journal.codes import Kind, Origin, Status
from journal.errors import DamagedRecord, PartUnreadable
from journal.tsid import tsid_ms
from projections import sessions, tables
from projections.rows import MemoryRow

PAGE_BYTES = limits.LINE_BYTES - 65_536
"""A page of memories ends before the line that carries it would be too long; one alone always fits."""
_ENCODE = msgspec.json.Encoder().encode


def list_memories(reading: Reading, params: Any) -> r.ListResult:
    """Memories by selection, in id order. Without a status the active ones."""
    sel = params.sel
    key = repr((reading.tenant_names, sel, params.full))
    after, head_seq = decode_cursor(params.cursor, key, reading.state.head.seq)
    wanted = _Wanted(sel, head_seq)
    page: list[Any] = []
    total = size_bytes = 0
    last = after
    more = False
    for tsid, row in _candidates(reading, sel):
        if not wanted.row(tsid, row) or not _matches_content(reading, sel, row):
            continue
        total += 1
        if tsid <= after:
            continue
        if more or len(page) == params.limit:
            more = True
            continue
        shown = full(reading, tsid, row) if params.full else compact(reading, tsid, row)
        size_bytes += len(_ENCODE(shown)) + 1
        if size_bytes > PAGE_BYTES and page:
            more = True
            continue
        page.append(shown)
        last = tsid
    cursor = encode_cursor(last, head_seq, key) if more else None
    return r.ListResult(memories=page, next_cursor=cursor, total=total)


class _Wanted:
    """The conditions that a memory row alone can answer."""

    def __init__(self, sel: Any, head_seq: int) -> None:
        self._head_seq = head_seq
        given = sel if sel is not UNSET else None
        self._ids: set[int] | None = None
        self._kinds: set[int] | None = None
        self._origins: set[int] | None = None
        self._statuses = {int(Status.ACTIVE)}
        self._since = self._until = None
        if given is None:
            return
        if given.ids is not UNSET:
            self._ids = {parse_memory("sel.ids", ref)[1] for ref in given.ids}
        if given.kinds is not UNSET:
            self._kinds = {int(Kind.from_wire(kind)) for kind in given.kinds}
        if given.origins is not UNSET:
            self._origins = {int(Origin.from_wire(origin)) for origin in given.origins}
        if given.status is not UNSET:
            self._statuses = {int(Status.from_wire(status)) for status in given.status}
        self._since = None if given.since is UNSET else parse_time("sel.since", given.since)[0]
        self._until = None if given.until is UNSET else parse_time("sel.until", given.until)[0]

    def row(self, tsid: int, row: MemoryRow) -> bool:
        at_ms = tsid_ms(tsid)
        return (
            row.seq <= self._head_seq
            and (self._ids is None or tsid in self._ids)
            and (self._kinds is None or row.kind in self._kinds)
            and (self._origins is None or row.origin in self._origins)
            and int(row.status) in self._statuses
            and (self._since is None or at_ms >= self._since)
            and (self._until is None or at_ms < self._until)
        )


def _candidates(reading: Reading, sel: Any) -> Iterator[tuple[int, MemoryRow]]:
    """The tenant's memories in id order, narrowed to a session where one is named."""
    if not reading.tenants:
        return
    if sel is not UNSET and sel.session is not UNSET:
        number = reading.session_number(parse_session("sel.session", sel.session))
        if number is None:
            raise Refused(Reason.NOT_FOUND, "no such session", parameter="sel.session")
        ids = sorted(sessions.turn_ids(reading.state, number) + sessions.other_ids(reading.state, number))
    elif sel is not UNSET and sel.ids is not UNSET:
        ids = sorted({parse_memory("sel.ids", ref)[1] for ref in sel.ids})
    else:
        ids = [int.from_bytes(key, "big") for key, _ in reading.state.prefix(tables.MEMORIES, b"")]
    for tsid in ids:
        row = reading.memory(tsid)
        if row is not None:
            yield tsid, row


_SEALED_FIELDS = ("subject", "entity", "text", "tags", "project")


def _matches_content(reading: Reading, sel: Any, row: MemoryRow) -> bool:
    """The conditions that only unsealing, or the producer, can answer."""
    if sel is UNSET:
        return True
    if sel.producer is not UNSET and not _matches_producer(reading, sel.producer, row):
        return False
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
    except (PartUnreadable, DamagedRecord):
        return False
    return (
        (sel.subject is UNSET or particulars.subject == sel.subject)
        and (sel.project is UNSET or particulars.project == sel.project)
        and (sel.entity is UNSET or any(name == sel.entity for name, _ in particulars.entities))
        and (sel.tags is UNSET or set(sel.tags) <= set(particulars.tags))
        and (sel.text is UNSET or sel.text.casefold() in text.casefold())
    )


def _matches_producer(reading: Reading, match: Any, row: MemoryRow) -> bool:
    producer = reading.producer(row.producer)
    for name in ("agent", "model", "version", "extractor"):
        wanted = getattr(match, name)
        if wanted is not UNSET and wanted != (getattr(producer, name) if producer else None):
            return False
    return True

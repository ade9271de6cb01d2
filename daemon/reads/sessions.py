"""sessions and session: which there are, and one with its turns."""

from __future__ import annotations

from typing import Any

from daemon.prepare import UNSET, parse_session
from daemon.reads.memories import compact
from daemon.reads.reading import Reading
from daemon.reads.sleeping import eligibility, passes_told
from daemon.refusal import Reason, Refused
from daemon.wire import results as r
from daemon.wire.times import format_ms
from journal import events
from journal.codes import Part
from journal.errors import DamagedRecord, PartUnreadable
from journal.tsid import format_tsid
from projections import sessions, tables
from projections.livesessions import LEASE_MS
from projections.rows import SessionRow


def session_list(reading: Reading, params: Any) -> r.SessionsResult:
    """The tenant's sessions, oldest first."""
    cursors = reading.cursors(repr(("sessions", reading.tenant_names, params.agent, params.open)))
    after, head_seq, *_ = cursors.decode(params.cursor, reading.state.head.seq)
    page: list[r.SessionListed] = []
    total = 0
    last = after
    more = False
    for key, _ in reading.state.entries(tables.SESSIONS, b""):
        number = int.from_bytes(key, "big")
        row = reading.session(number) if reading.tenants else None
        if row is None or row.owner_seq > head_seq or not _wanted(reading, row, params):
            continue
        total += 1
        if number <= after:
            continue
        if len(page) == params.limit:
            more = True
            continue
        page.append(listed(reading, row))
        last = number
    return r.SessionsResult(
        sessions=page,
        next_cursor=cursors.encode(last, head_seq) if more else None,
        total=total,
    )


def _wanted(reading: Reading, row: SessionRow, params: Any) -> bool:
    if params.open is not UNSET and params.open != (state_of(row, reading.now_ms) == "open"):
        return False
    if params.agent is UNSET:
        return True
    event = _opened(reading, row)
    return event is None or event.agent == params.agent


def state_of(row: SessionRow, now_ms: int) -> str:
    """open, stale or closed."""
    if row.closed:
        return "closed"
    return "stale" if now_ms - row.last_at >= LEASE_MS else "open"


def _opened(reading: Reading, row: SessionRow) -> events.SessionOpened | None:
    """The event that opened a session, None when its record is damaged."""
    try:
        event = reading.record(row.owner_seq).event
    except DamagedRecord:
        event = None
    if isinstance(event, events.SessionOpened):
        return event
    reading.note_damage(row.owner_seq, "journal record")
    return None


def _changed(reading: Reading, row: SessionRow) -> object | None:
    """The event that changed the session's defaults last, None when its record is damaged."""
    try:
        return reading.record(row.defaults_seq).event
    except DamagedRecord:
        reading.note_damage(row.defaults_seq, "journal record")
        return None


def listed(reading: Reading, row: SessionRow) -> r.SessionListed:
    """One session as lists show it."""
    return r.SessionListed(**_fields(reading, row))


def _fields(reading: Reading, row: SessionRow) -> dict[str, Any]:
    event = _opened(reading, row)
    state = state_of(row, reading.now_ms)
    key = project = subject = None
    in_force: object = event
    if row.defaults_seq != row.owner_seq:
        in_force = _changed(reading, row)
    if event is None or in_force is None:
        state = "damaged"
    elif reading.content:
        try:
            name = next((p for p in event.parts if p.part == Part.NAME), None)
            key = None if name is None else reading.unseal(name).decode()
            particulars = reading.particulars(getattr(in_force, "parts", ()))
            project, subject = particulars.project, particulars.subject
        except PartUnreadable as error:
            state = error.state
            if state == "damaged":
                reading.note_damage(row.owner_seq, "sealed part")
    producer = reading.producer(getattr(in_force, "producer", 0))
    return {
        "session": f"session:{format_tsid(row.id)}",
        "agent": "" if event is None else event.agent,
        "key": key,
        "state": state,
        "activation": row.activation,
        "turns": row.turns,
        "opened_at": format_ms(row.opened_at),
        "last_at": format_ms(row.last_at),
        "closed_at": format_ms(row.closed_at) if row.closed else None,
        "project": project,
        "subject": subject,
        "producer": None
        if producer is None
        else r.Producer(
            agent=producer.agent, model=producer.model, version=producer.version, extractor=producer.extractor
        ),
    }


def session(reading: Reading, params: Any) -> r.SessionResult:
    """One session; its turns in order when `include` says so."""
    number = reading.session_number(parse_session("session", params.session))
    row = None if number is None else reading.session(number)
    if number is None or row is None:
        raise Refused(Reason.NOT_FOUND, "no such session", parameter="session")
    result = r.SessionResult(**_fields(reading, row), sleep=eligibility(reading, number, row))
    include = () if params.include is UNSET else params.include
    if "passes" in include:
        result.passes = passes_told(reading, number)
    if "turns" in include or "derived" in include:
        _page(reading, params, number, include, result)
    return result


def _page(reading: Reading, params: Any, number: int, include: Any, result: r.SessionResult) -> None:
    """Turns in order, then what else carries the session, one list for the pages. A cursor fixes the head."""
    cursors = reading.cursors(repr(("session", reading.tenant_names, number, sorted(include))))
    after, head_seq, *_ = cursors.decode(params.cursor, reading.state.head.seq)
    turns = sessions.turn_ids(reading.state, number) if "turns" in include else []
    others = sessions.other_ids(reading.state, number) if "derived" in include else []
    found = [(tsid, reading.memory(tsid)) for tsid in turns + others]
    known = [(tsid, row) for tsid, row in found if row is not None and row.seq <= head_seq]
    page = known[after : after + params.limit]
    told = [(row.turn, compact(reading, tsid, row)) for tsid, row in page]
    if "turns" in include:
        result.memories = [shown for turn, shown in told if turn]
    if "derived" in include:
        result.derived = [shown for turn, shown in told if not turn]
    end = after + len(page)
    result.total = len(known)
    result.next_cursor = cursors.encode(end, head_seq) if end < len(known) else None

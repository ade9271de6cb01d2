"""session_open and session_close (contract §4.8)."""

from __future__ import annotations

from typing import Any

from daemon.commands.building import Building
from daemon.prepare import UNSET, NaturalKey, invalid, parse_session, parse_time
from daemon.refusal import Reason, Refused
from daemon.wire.times import format_ms
from journal.codes import SessionCause
from journal.tsid import format_tsid
from projections.rows import SessionRow
from projections.workingset import NO_DEFAULTS, SessionDefaults

FUTURE_MS = 60_000
"""How far a caller's clock may be ahead of ours."""


def _at(building: Building, params: Any, not_before_ms: int | None = None) -> int:
    """When the caller says it was, else now. Raises Refused: it isn't over yet, or was before the session began."""
    now_ms = building.view.now_ms
    if params.at is UNSET:
        return now_ms if not_before_ms is None else max(now_ms, not_before_ms)
    at_ms = parse_time("at", params.at)[0]
    if at_ms > now_ms + FUTURE_MS:
        raise invalid("at", "the time lies in the future")
    if not_before_ms is not None and at_ms < not_before_ms:
        raise invalid("at", "the time lies before the session was opened")
    return at_ms


def session_open(building: Building, params: Any, key: NaturalKey) -> dict[str, Any]:
    """Find, reopen or open the session with this natural key. Idempotent on it."""
    building.refuse_in_maintenance()
    at_ms = _at(building, params)
    number = building.find_session(key) if building.tenant else 0
    if not number:
        building.begin_tenant()
        _, row = building.open_session(key, at_ms, _defaults(building, params))
        return _opened(row, created=True, reopened=False)
    row = building.session(number)
    defaults = _changed_defaults(building, number, params)
    if row.closed or building.is_stale(row):
        row = building.revive(number, SessionCause.OPEN, at_ms, defaults)
        return _opened(row, created=False, reopened=True)
    if defaults is not None or building.view.now_ms > row.last_at:
        building.touch_session(number, at_ms, defaults)
    return _opened(row, created=False, reopened=False)


def _changed_defaults(building: Building, number: int, params: Any) -> SessionDefaults | None:
    """The session's defaults with those given laid over them, None when that changes nothing."""
    given = _defaults(building, params)
    if given is None:
        return None
    known = building.defaults_of(number) or NO_DEFAULTS
    changed = SessionDefaults(
        known.producer if params.producer is UNSET else given.producer,
        known.names_model if params.producer is UNSET else given.names_model,
        known.project if params.project is UNSET else given.project,
        known.subject if params.subject is UNSET else given.subject,
    )
    return None if changed == known else changed


def _defaults(building: Building, params: Any) -> SessionDefaults | None:
    """What the session gives to its writes, None when the caller named nothing."""
    if params.producer is UNSET and params.project is UNSET and params.subject is UNSET:
        return None
    producer, names_model = 0, False
    if params.producer is not UNSET:
        stamp = params.producer
        producer = building.producer(stamp.agent, stamp.model, stamp.version, stamp.extractor)
        names_model = stamp.model is not None
    project = None if params.project is UNSET else params.project
    subject = None if params.subject is UNSET else params.subject
    return SessionDefaults(producer, names_model, project, subject)


def _opened(row: SessionRow, *, created: bool, reopened: bool) -> dict[str, Any]:
    return {
        "session": f"session:{format_tsid(row.id)}",
        "activation": row.activation,
        "created": created,
        "reopened": reopened,
        "opened_at": format_ms(row.opened_at),
    }


def session_close(building: Building, params: Any) -> dict[str, Any]:
    """Close a session. The first time stands."""
    building.refuse_in_maintenance()
    tsid = parse_session("session", params.session)
    number = building.view.session_number(building.tenant, tsid) if building.tenant else None
    if number is None:
        raise Refused(Reason.NOT_FOUND, "no such session", parameter="session")
    row = building.session(number)
    if row.closed:
        return {"closed_at": format_ms(row.closed_at), "already_closed": True}
    at_ms = _at(building, params, row.opened_at)
    building.close_session(number, at_ms)
    return {"closed_at": format_ms(at_ms), "already_closed": False}

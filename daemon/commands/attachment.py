"""Which session a write belongs to, and what it takes from it (contract §4.8).

Found by id or natural key, opened when the key is new, revived once when stale; without a name, the one live
session of the caller and agent. The session's defaults fill what the write leaves out.

What is done to a memory (revise, mark, reaffirm) names its session by id only. It is looked up first, so that an
unknown one fails also what would change nothing; it is joined only by what does change something.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec.structs import replace

from daemon.commands.building import Building
from daemon.commands.preparation import Prepared
from daemon.prepare import UNSET, invalid, parse_session
from daemon.refusal import Reason, Refused
from journal.codes import Kind, Note, SessionCause
from journal.particulars import Particulars
from projections.kinds import DEFAULT_SUBTYPE, TURN_SUBTYPE
from projections.workingset import SessionDefaults


class Attached(NamedTuple):
    """The session of a write: its number, 0 when it has none."""

    session: int
    notes: tuple[Note, ...]
    defaults: SessionDefaults | None


def attach(building: Building, prepared: Prepared) -> Attached:
    """Find, open or revive the session of a write. Raises Refused."""
    number, notes = _session_of(building, prepared)
    return Attached(number, notes, building.defaults_of(number) if number else None)


def _session_of(building: Building, prepared: Prepared) -> tuple[int, tuple[Note, ...]]:
    if prepared.session:
        return join(building, _numbered(building, prepared.session))
    if prepared.session_key is None:
        return join_only(building, prepared.params.producer)
    number = building.find_session(prepared.session_key)
    if not number:
        number, _ = building.open_session(prepared.session_key, building.view.now_ms)
        return number, ()
    return join(building, number)


def find_session(building: Building, session: Any) -> int:
    """The number of the session that a command names, 0 when it names none. Raises Refused."""
    return 0 if session is UNSET else _numbered(building, parse_session("session", session))


def _numbered(building: Building, tsid: int) -> int:
    number = building.view.session_number(building.tenant, tsid)
    if number is None:
        raise Refused(Reason.NOT_FOUND, "no such session", parameter="session")
    return number


def join_only(building: Building, producer: Any) -> tuple[int, tuple[Note, ...]]:
    """The one live session of the caller and the producer's agent, 0 when there is none, or more than one."""
    if producer is UNSET or producer.agent is None:
        return 0, ()
    live = building.live_sessions(producer.agent)
    return (live[0], (Note.SESSION_ATTACHED,)) if len(live) == 1 else (0, ())


def join(building: Building, number: int) -> tuple[int, tuple[Note, ...]]:
    """The session of a write that named this one, 0 when somebody closed it. A stale one is revived."""
    if not number:
        return 0, ()
    row = building.session(number)
    if row.closed:
        return 0, (Note.SESSION_CLOSED,)
    if building.is_stale(row):
        building.revive(number, SessionCause.WRITE, building.view.now_ms)
        return number, (Note.SESSION_REVIVED,)
    return number, ()


def noted(notes: tuple[Note, ...]) -> dict[str, Any]:
    """What a result says of the session; nothing when there is nothing to say."""
    return {"notes": [note.wire for note in notes]} if notes else {}


def file_turn(building: Building, prepared: Prepared, session: int) -> tuple[int, int]:
    """`(subtype, turn or 0)`: only a raw turn in a session is numbered. Raises Refused."""
    subtype = prepared.subtype
    if prepared.kind is not Kind.RAW:
        return (DEFAULT_SUBTYPE[prepared.kind] if subtype is None else subtype), 0
    if subtype is None:
        subtype = TURN_SUBTYPE if session else DEFAULT_SUBTYPE[Kind.RAW]
    if subtype != TURN_SUBTYPE:
        return subtype, 0
    if session:
        return subtype, building.next_turn(session)
    if prepared.session or prepared.session_key:
        return DEFAULT_SUBTYPE[Kind.RAW], 0
    raise invalid("subtype", "a turn has a session")


def names_model(params: Any, defaults: SessionDefaults | None) -> bool:
    """Whether the write, by itself or through its session, names a model as its producer."""
    producer = params.producer
    if producer is UNSET:
        return defaults is not None and defaults.names_model
    return producer.model is not None


def producer_of(building: Building, params: Any, defaults: SessionDefaults | None) -> int:
    """The number of the write's producer stamp, 0 when it has none."""
    producer = params.producer
    if producer is not UNSET:
        return building.producer(producer.agent, producer.model, producer.version, producer.extractor)
    return 0 if defaults is None else defaults.producer


def particulars_of(prepared: Prepared, defaults: SessionDefaults | None) -> Particulars:
    """The particulars of the write, with its session's project and subject where it gives none."""
    own = prepared.particulars
    if defaults is None:
        return own
    project = defaults.project if own.project is None else own.project
    subject = defaults.subject if own.subject is None else own.subject
    if project == own.project and subject == own.subject:
        return own
    return replace(own, project=project, subject=subject)

"""Sessions and their turns.

`sessions` number → session row (byte table in `projections/rows.py`); `session_ids` TSID → number;
`turns` (session, turn) → TSID; `session_memories` (session, TSID) → CRC for memories that are no turns.
`last_at` is when the newest record about the session was written: a lease follows the clock of the writing,
never a time that a caller names. Invariant: the turns of a session are 1 … `turns`, without gaps.
"""

from __future__ import annotations

from collections.abc import Callable

from crc32c import crc32c
from msgspec.structs import replace

from journal import events
from journal.record import Record
from projections import rows, tables
from projections.rows import NO_TIME, SessionRow
from projections.state import KEY32, KEY32_32, KEY32_64, KEY64, State


def opened(state: State, record: Record, event: events.SessionOpened) -> None:
    state.put_session(
        event.number,
        SessionRow(
            event.id, event.opened_at, record.at_ms, NO_TIME, record.seq, record.seq, record.tenant, 0, 1, event.uid
        ),
    )
    key = KEY64.pack(event.id)
    state.put(tables.SESSION_IDS, key, rows.seal_row(key, KEY32.pack(event.number)))
    state.counters.session = max(state.counters.session, event.number)
    state.counters.tsid = max(state.counters.tsid, event.id)


def reopened(state: State, record: Record, event: events.SessionReopened) -> None:
    row = _known(state, event.number)
    last_at = max(row.last_at, record.at_ms)
    row = replace(row, activation=event.activation, closed_at=NO_TIME, last_at=last_at)
    state.put_session(event.number, _with_defaults(row, record, event.defaults_before))


def closed(state: State, record: Record, event: events.SessionClosed) -> None:
    state.put_session(event.number, replace(_known(state, event.number), closed_at=event.at))


def touched(state: State, record: Record, event: events.SessionTouched) -> None:
    row = _known(state, event.number)
    row = replace(row, last_at=max(row.last_at, record.at_ms))
    state.put_session(event.number, _with_defaults(row, record, event.defaults_before))


def _with_defaults(row: SessionRow, record: Record, defaults_before: int) -> SessionRow:
    return replace(row, defaults_seq=record.seq) if defaults_before else row


def memory_created(state: State, record: Record, event: events.MemoryCreated) -> None:
    number = event.session
    if not number:
        return
    row = _known(state, number)
    # What sleep makes of a session is no activity in it.
    last_at = row.last_at if event.made_by_pass else max(row.last_at, record.at_ms)
    if event.turn:
        state.put_session(number, replace(row, turns=event.turn, last_at=last_at))
        key = KEY32_32.pack(number, event.turn)
        state.put(tables.TURNS, key, rows.seal_row(key, KEY64.pack(event.id)))
        return
    state.put_session(number, replace(row, last_at=last_at))
    key = KEY32_64.pack(number, event.id)
    state.put(tables.SESSION_MEMORIES, key, crc32c(key).to_bytes(4, "little"))


def done(
    state: State, record: Record, event: events.Marked | events.Superseded | events.Moved | events.Reaffirmed
) -> None:
    """Something was done to a memory, in a session."""
    if event.session:
        row = _known(state, event.session)
        state.put_session(event.session, replace(row, last_at=max(row.last_at, record.at_ms)))


def _known(state: State, number: int) -> SessionRow:
    row = state.session(number)
    if row is None:
        raise LookupError(f"the journal speaks of session {number} before it was opened")
    return row


def number_of(state: State, tsid: int) -> int | None:
    """The number of the session with this id, or None. Raises DamagedRow."""
    key = KEY64.pack(tsid)
    value = state.get(tables.SESSION_IDS, key)
    return None if value is None else int(KEY32.unpack(rows.open_row(tables.SESSION_IDS, key, value))[0])


def turn_ids(state: State, number: int) -> list[int]:
    """The TSIDs of a session's turns, in order. Raises DamagedRow."""
    return [int(KEY64.unpack(payload)[0]) for _, payload in state.entries(tables.TURNS, KEY32.pack(number))]


def other_ids(state: State, number: int) -> list[int]:
    """The TSIDs of a session's memories that are no turns, in id order. Raises DamagedRow."""
    return [int(KEY32_64.unpack(key)[1]) for key, _ in state.entries(tables.SESSION_MEMORIES, KEY32.pack(number))]


FOLDS: dict[type, Callable[..., None]] = {
    events.SessionOpened: opened,
    events.SessionReopened: reopened,
    events.SessionClosed: closed,
    events.SessionTouched: touched,
    events.MemoryCreated: memory_created,
    events.Marked: done,
    events.Superseded: done,
    events.Moved: done,
    events.Reaffirmed: done,
}

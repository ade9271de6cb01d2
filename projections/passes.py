"""What sleep has done with a session: its settled turns, its passes, and whether it may be taken again.

Part of the projection `sessions`. `settled` (session, turn) → seq of the commit that settled it, promoted u8; a turn
without such a row is unsettled. `passes` (session, pass) → `PassRow`. `sleeps` session → `SleepRow`.
Invariant: `SleepRow.promoted` and `noise` count the rows of `settled`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from journal import events
from journal.record import Record
from projections import rows, tables
from projections.state import KEY32, KEY32_32, KEY64, State

_PASS_KEY = struct.Struct(">IH")
_SETTLED = struct.Struct("<QB")


class PassRow(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One pass, with what all its commits did. `at_ms`: of the newest; `open`: more are to come."""

    first_seq: int
    last_seq: int
    at_ms: int
    promoted: int
    noise: int
    commits: int
    open: bool


class SleepRow(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """`open_pass` 0: none; `open_seq`: its first commit. `attempts`: failures since the last commit."""

    promoted: int = 0
    noise: int = 0
    open_pass: int = 0
    open_seq: int = 0
    attempts: int = 0
    parked: bool = False


class Settled(NamedTuple):
    """How a turn was settled: by which record, and as what."""

    seq: int
    promoted: bool


_ENCODE = msgspec.msgpack.Encoder().encode
_PASS = msgspec.msgpack.Decoder(PassRow).decode
_SLEEP = msgspec.msgpack.Decoder(SleepRow).decode
_NEVER = SleepRow()


def committed(state: State, record: Record, event: events.PassCommitted) -> None:
    number = event.session
    turns = _turn_numbers(state, number)
    for promoted, settled in ((True, event.promoted), (False, event.noise)):
        for tsid in settled:
            key = KEY32_32.pack(number, turns[tsid])
            state.put(tables.SETTLED, key, rows.seal_row(key, _SETTLED.pack(record.seq, promoted)))
    sleep = sleep_of(state, number)
    begins = sleep.open_pass != event.number
    _put_pass(state, record, event, begins)
    still_open = 0 if event.last else event.number
    _put_sleep(state, number, SleepRow(
        sleep.promoted + len(event.promoted), sleep.noise + len(event.noise), still_open,
        0 if event.last else record.seq if begins else sleep.open_seq,
    ))  # fmt: skip


def _turn_numbers(state: State, number: int) -> dict[int, int]:
    """The turns of a session by their TSID."""
    return {
        int(KEY64.unpack(payload)[0]): int(KEY32_32.unpack(key)[1])
        for key, payload in state.entries(tables.TURNS, KEY32.pack(number))
    }


def _put_pass(state: State, record: Record, event: events.PassCommitted, begins: bool) -> None:
    """A pass that promoted nothing leaves its number to the next one: the two are told as one."""
    key = _PASS_KEY.pack(event.session, event.number)
    value = state.get(tables.PASSES, key)
    before = None if value is None else _unpack_pass(key, value)
    seq, promoted, noise = record.seq, len(event.promoted), len(event.noise)
    if before is None:
        row = PassRow(seq, seq, record.at_ms, promoted, noise, 1, not event.last)
    else:
        row = PassRow(
            before.first_seq, seq, record.at_ms, before.promoted + promoted, before.noise + noise,
            before.commits + 1, not event.last,
        )  # fmt: skip
    state.put(tables.PASSES, key, rows.seal_row(key, _ENCODE(row)))


def _put_sleep(state: State, number: int, row: SleepRow) -> None:
    key = KEY32.pack(number)
    state.put(tables.SLEEPS, key, rows.seal_row(key, _ENCODE(row)))


def failed(state: State, record: Record, event: events.PassFailed) -> None:
    sleep = sleep_of(state, event.session)
    _put_sleep(state, event.session, msgspec.structs.replace(sleep, attempts=event.attempt, parked=event.parked))


def unparked(state: State, record: Record, event: events.Unparked) -> None:
    sleep = sleep_of(state, event.session)
    _put_sleep(state, event.session, msgspec.structs.replace(sleep, attempts=0, parked=False))


def reopened(state: State, record: Record, event: events.TurnsReopened) -> None:
    number = event.session
    turns = _turn_numbers(state, number)
    sleep = sleep_of(state, number)
    promoted, noise = sleep.promoted, sleep.noise
    for tsid in event.turns:
        key = KEY32_32.pack(number, turns[tsid])
        value = state.get(tables.SETTLED, key)
        if value is None:
            continue
        was_promoted = _unpack_settled(key, value).promoted
        promoted, noise = promoted - was_promoted, noise - (not was_promoted)
        state.delete(tables.SETTLED, key)
    _put_sleep(state, number, msgspec.structs.replace(sleep, promoted=promoted, noise=noise))


def cohort_lifted(state: State, record: Record, event: events.CohortLifted) -> None:
    """Turns that were opened again are settled as they were."""
    for number in dict.fromkeys(session for session, _, _ in event.settled):
        turns = _turn_numbers(state, number)
        sleep = sleep_of(state, number)
        settled = [(tsid, promoted) for session, tsid, promoted in event.settled if session == number]
        for tsid, promoted in settled:
            key = KEY32_32.pack(number, turns[tsid])
            state.put(tables.SETTLED, key, rows.seal_row(key, _SETTLED.pack(record.seq, promoted)))
        promoted_count = sum(promoted for _, promoted in settled)
        _put_sleep(state, number, msgspec.structs.replace(
            sleep, promoted=sleep.promoted + promoted_count, noise=sleep.noise + len(settled) - promoted_count
        ))  # fmt: skip


# --- reading -------------------------------------------------------------------------------------


def _unpack_settled(key: bytes, value: bytes) -> Settled:
    return _settled(rows.open_row(tables.SETTLED, key, value))


def _settled(payload: bytes) -> Settled:
    seq, promoted = _SETTLED.unpack(payload)
    return Settled(seq, bool(promoted))


def _unpack_pass(key: bytes, value: bytes) -> PassRow:
    return _PASS(rows.open_row(tables.PASSES, key, value))


def sleep_of(state: State, number: int) -> SleepRow:
    """What sleep has done with a session so far. Raises DamagedRow."""
    key = KEY32.pack(number)
    value = state.get(tables.SLEEPS, key)
    return _NEVER if value is None else _SLEEP(rows.open_row(tables.SLEEPS, key, value))


def settled_turn(state: State, number: int, turn: int) -> Settled | None:
    """How a turn of a session was settled, None when it is not. Raises DamagedRow."""
    key = KEY32_32.pack(number, turn)
    value = state.get(tables.SETTLED, key)
    return None if value is None else _unpack_settled(key, value)


def settled_turns(state: State, number: int) -> dict[int, Settled]:
    """All settled turns of a session, by number. Raises DamagedRow."""
    return {
        int(KEY32_32.unpack(key)[1]): _settled(payload)
        for key, payload in state.entries(tables.SETTLED, KEY32.pack(number))
    }


def unsettled_turns(state: State, number: int) -> list[tuple[int, int]]:
    """`(turn, TSID)` of the turns that wait for a pass, in order. Raises DamagedRow."""
    settled = settled_turns(state, number)
    found = ((turn, tsid) for tsid, turn in _turn_numbers(state, number).items())
    return sorted((turn, tsid) for turn, tsid in found if turn not in settled)


def waiting_turns(state: State, number: int) -> Iterator[tuple[int, int]]:
    """Those of them that are alive: no pass will ever take a dead one, so it is none that the session has gained.
    Raises DamagedRow."""
    for turn, tsid in unsettled_turns(state, number):
        row = state.memory(tsid)
        if row is not None and not row.dead:
            yield turn, tsid


def has_waiting(state: State, number: int) -> bool:
    """Whether a session has a living turn that no pass has settled. Raises DamagedRow."""
    return next(waiting_turns(state, number), None) is not None


def passes_of(state: State, number: int) -> list[tuple[int, PassRow]]:
    """The passes of a session by number. Raises DamagedRow."""
    return [
        (int(_PASS_KEY.unpack(key)[1]), _PASS(payload))
        for key, payload in state.entries(tables.PASSES, KEY32.pack(number))
    ]


FOLDS: dict[type, Callable[..., None]] = {
    events.PassCommitted: committed,
    events.PassFailed: failed,
    events.Unparked: unparked,
    events.TurnsReopened: reopened,
    events.CohortLifted: cohort_lifted,
}

"""Which turns a pass may settle: those of its session that are alive, free, and wait for one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from daemon.commands.building import Building
from daemon.decision import Draft
from daemon.refusal import Reason, Refused
from journal import events
from journal.codes import Kind, Mark, ReopenCause
from journal.errors import DamagedRecord
from journal.tsid import memory_ref
from projections import passes
from projections.rows import MemoryRow


class Turn(NamedTuple):
    """A turn of the session with the event that made it. `occurred_at`, UTC ms: when it was written, if not said."""

    tsid: int
    row: MemoryRow
    event: events.MemoryCreated

    @property
    def occurred_at(self) -> int:
        return self.row.at_ms if self.event.occurred_at is None else self.event.occurred_at


def session_of(building: Building, tsid: int) -> int:
    """The number of the tenant's session. Raises Refused (not_found)."""
    number = building.view.session_number(building.tenant, tsid) if building.tenant and tsid else None
    if number is None:
        raise Refused(Reason.NOT_FOUND, "no such session", parameter="session")
    return number


def turns_of(building: Building, session: int, tsids: Iterable[int]) -> dict[int, Turn]:
    """The turns by TSID. Raises Refused for one that is none of the session's, or must not be consolidated."""
    return {tsid: _turn(building, session, tsid) for tsid in tsids}


def _turn(building: Building, session: int, tsid: int) -> Turn:
    view = building.view
    row = view.memory(building.tenant, tsid)
    ref = memory_ref(Kind.RAW, tsid)
    if row is None or row.kind != Kind.RAW or row.session != session or not row.turn:
        raise Refused(Reason.PROVENANCE, f"{ref} is no turn of the session", parameter="turns", ids=[ref])
    if row.has(Mark.PURGED):
        raise Refused(Reason.PROVENANCE, f"{ref} is purged", parameter="turns", ids=[ref])
    for mark in (Mark.FORGOTTEN, Mark.PRUNED, Mark.HELD, Mark.QUARANTINED):
        if row.has(mark):
            raise Refused(Reason.CONFLICT, f"{ref} is {mark.wire}", parameter="turns", ids=[ref], current=mark.wire)
    record = view.record(row.seq)
    if record is None or not isinstance(record.event, events.MemoryCreated):
        raise DamagedRecord(row.seq, "event")
    return Turn(tsid, row, record.event)


def settle(building: Building, session: int, turns: dict[int, Turn], sleep: passes.SleepRow, cycle: int) -> None:
    """See that the turns wait for a pass; noise of a pass before this one is reopened. Raises Refused (conflict)."""
    state = building.view.state
    reopened: list[int] = []
    # An open pass began because turns waited: by now it may have settled them.
    may_reopen = bool(sleep.open_pass) or passes.has_waiting(state, session)
    for tsid, turn in sorted(turns.items(), key=lambda item: item[1].row.turn):
        settled = passes.settled_turn(state, session, turn.row.turn)
        if settled is None:
            continue
        of_this_pass = sleep.open_pass and settled.seq >= sleep.open_seq
        if settled.promoted or of_this_pass or not may_reopen:
            ref = memory_ref(Kind.RAW, tsid)
            raise Refused(Reason.CONFLICT, f"{ref} is settled", parameter="turns", ids=[ref], current="settled")
        reopened.append(tsid)
    if reopened:
        cause = int(ReopenCause.NEW_TURNS)
        building.add(Draft(events.TurnsReopened(session=session, turns=tuple(reopened), cycle=cycle, cause=cause)))

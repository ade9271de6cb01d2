"""Re-deriving: what passes made is made anew from the same turns (contract §5, Cohorts).

A cohort opens the turns again. The pass that settles them puts its notes in the place of the cohort's: one made from
the same turns supersedes the old note, and where none is, the old note is archived as soon as none of its turns waits
any more. Lifting gives back what a cohort has done to turns and old notes, where nobody has done anything about it
since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from daemon.commands.building import Building
from daemon.decision import Draft
from journal import events
from journal.codes import CohortAction, EdgeType, Kind, Mark
from journal.record import Record
from projections import cohorts, edges, passes, tables
from projections.known_at import folded
from projections.rows import NO_TIME, MemoryRow
from projections.state import KEY64, KEY64_64, State

_DERIVED_FROM, _SUPERSEDES = int(EdgeType.DERIVED_FROM), int(EdgeType.SUPERSEDES)
_NOTE = int(Kind.NOTE)
_UNTAKEN = sum(1 << mark for mark in (Mark.FORGOTTEN, Mark.PRUNED, Mark.PURGED, Mark.HELD, Mark.QUARANTINED))
"""Turns that no pass takes."""
_REPLACED = 1 << Mark.SUPERSEDED | 1 << Mark.ARCHIVED
_GONE = 1 << Mark.FORGOTTEN | 1 << Mark.PRUNED | 1 << Mark.PURGED

E = TypeVar("E")
RecordOf = Callable[[int], Record | None]
Read = dict[int, Record | None]
"""The records that were read already, by number."""
Settlement = tuple[int, int, bool]
"""(session number, TSID of the turn, promoted), as in CohortLifted."""


class Plan(NamedTuple):
    """Which memories can be made anew, which can't, and the settled turns to be opened again: session → TSIDs."""

    again: list[int]
    not_again: list[int]
    turns: dict[int, tuple[int, ...]]


def plan(state: State, record: RecordOf, members: Iterable[tuple[int, MemoryRow]]) -> Plan:
    """What re-deriving these memories would do. Raises DamagedRow."""
    again: list[int] = []
    not_again: list[int] = []
    opened: dict[int, dict[int, int]] = {}
    for tsid, row in members:
        turns = _turns_of(state, record, tsid, row)
        (again if turns else not_again).append(tsid)
        for turn, turn_row in turns:
            if passes.settled_turn(state, turn_row.session, turn_row.turn) is not None:
                opened.setdefault(turn_row.session, {})[turn_row.turn] = turn
    in_order = {number: tuple(turn for _, turn in sorted(found.items())) for number, found in sorted(opened.items())}
    return Plan(again, not_again, in_order)


def _turns_of(state: State, record: RecordOf, tsid: int, row: MemoryRow) -> list[tuple[int, MemoryRow]]:
    """The turns from which a note that is in force can be made anew: none when no pass has made it."""
    if row.kind != _NOTE or row.marks & (_REPLACED | _GONE):
        return []
    genesis = record(row.seq)
    if genesis is None or not isinstance(genesis.event, events.MemoryCreated) or genesis.event.made_by_pass is None:
        return []
    found = [(turn, state.memory(turn)) for _, turn in genesis.event.sources]
    return [(turn, of) for turn, of in found if of is not None and not of.marks & _UNTAKEN]


# --- the next pass -------------------------------------------------------------------------------


def replace(building: Building, settled: Iterable[int], made: list[tuple[int, frozenset[int]]]) -> None:
    """Add what a commit of a pass, which settles these turns, does to the notes that it takes the place of. `made`: its
    own notes, each with its turns."""
    state = building.view.state
    now_settled = frozenset(settled)
    taken: dict[frozenset[int], int] = {}
    for old, cohort in sorted(_held_notes(state, now_settled).items()):
        turns = frozenset(tsid for of, _, tsid in edges.outgoing(state, old) if of == _DERIVED_FROM)
        same = [tsid for tsid, of in made if of == turns]
        if same:
            place = taken.get(turns, 0)
            taken[turns] = place + 1
            _supersede(building, old, same[min(place, len(same) - 1)], cohort)
        elif not any(_waits(state, turn) for turn in turns - now_settled):
            building.add(Draft(events.Marked(
                memory=(_NOTE, old), mark=int(Mark.ARCHIVED), on=True, cohort=cohort
            )))  # fmt: skip


def _held_notes(state: State, turns: Iterable[int]) -> dict[int, int]:
    """The notes from these turns that a cohort has made anew and nothing has replaced yet, with that cohort."""
    found: dict[int, int] = {}
    for turn in turns:
        for _, kind, note in edges.incoming(state, turn, _DERIVED_FROM):
            row = state.memory(note) if kind == _NOTE and note not in found else None
            if row is None or row.marks & _REPLACED or row.has(Mark.PURGED):
                continue
            held = [cohort for cohort, action in cohorts.holding(state, note) if action is CohortAction.REDERIVE]
            if held:
                found[note] = held[0]
    return found


def _waits(state: State, turn: int) -> bool:
    row = state.memory(turn)
    return row is not None and not row.marks & _GONE and passes.settled_turn(state, row.session, row.turn) is None


def _supersede(building: Building, old: int, new: int, cohort: int) -> None:
    view = building.view
    building.add(Draft(events.Superseded(
        predecessor=(_NOTE, old), successor=(_NOTE, new), edge_type=_SUPERSEDES, edge=view.new_tsid(),
        valid_to=view.now_ms, cohort=cohort,
    )))  # fmt: skip


# --- lifting -------------------------------------------------------------------------------------


class Undone(NamedTuple):
    """What lifting gives back: see CohortLifted."""

    reopened: tuple[tuple[events.Ref, int | None], ...]
    unarchived: tuple[events.Ref, ...]
    settled: tuple[Settlement, ...]


def undo(building: Building, cohort: int, members: list[int]) -> Undone:
    """What lifting this cohort gives back. What another cohort holds too stays as it is until that one is lifted."""
    state = building.view.state
    reopened: list[tuple[events.Ref, int | None]] = []
    unarchived: list[events.Ref] = []
    settled: dict[int, Settlement] = {}
    read: Read = {}
    for tsid in members:
        row = state.memory(tsid)
        if row is None or is_held(state, tsid, cohort, CohortAction.REDERIVE):
            continue
        records = _records_about(building, read, tsid, row)
        if row.has(Mark.SUPERSEDED) and _newest(records, events.Superseded, _closes(tsid)).cohort:
            reopened.append(((row.kind, tsid), _valid_to_before(records, row, tsid)))
        if row.has(Mark.ARCHIVED) and _newest(records, events.Marked, _archives(tsid)).cohort:
            unarchived.append((row.kind, tsid))
        for of, _, turn in edges.outgoing(state, tsid):
            if of == _DERIVED_FROM and turn not in settled:
                found = _settlement(building, read, cohort, turn)
                if found is not None:
                    settled[turn] = found
    return Undone(tuple(reopened), tuple(unarchived), tuple(settled.values()))


def is_held(state: State, tsid: int, besides: int, action: CohortAction) -> bool:
    """Whether another cohort that is not lifted does the same to a memory. Raises DamagedRow."""
    return any(of is action and cohort != besides for cohort, of in cohorts.holding(state, tsid))


def _settlement(building: Building, read: Read, cohort: int, turn: int) -> Settlement | None:
    """How a turn was settled before it was opened again; None when it is settled, or is to stay open."""
    state = building.view.state
    row = state.memory(turn)
    if row is None or not row.turn or passes.settled_turn(state, row.session, row.turn) is not None:
        return None
    for _, _, note in edges.incoming(state, turn, _DERIVED_FROM):
        if is_held(state, note, cohort, CohortAction.REDERIVE):
            return None
    for record in reversed(_records_about(building, read, turn, row)):
        event = record.event
        if isinstance(event, events.PassCommitted):
            if turn in event.promoted or turn in event.noise:
                return row.session, turn, turn in event.promoted
        elif isinstance(event, events.CohortLifted):
            for number, tsid, promoted in event.settled:
                if tsid == turn:
                    return number, turn, promoted
    return None


def _records_about(building: Building, read: Read, tsid: int, row: MemoryRow) -> list[Record]:
    """All records about a memory, in order. A pass is about all its turns: it stands in `read` once it was read."""
    view = building.view
    seqs = [row.seq, *(KEY64_64.unpack(key)[1] for key, _ in view.state.entries(tables.TOUCHES, KEY64.pack(tsid)))]
    for seq in seqs:
        if seq not in read:
            read[seq] = view.record(seq)
    return [record for seq in seqs if (record := read[seq]) is not None]


def _closes(tsid: int) -> Callable[[events.Superseded], bool]:
    return lambda event: event.predecessor[1] == tsid


def _archives(tsid: int) -> Callable[[events.Marked], bool]:
    return lambda event: event.memory[1] == tsid and event.mark == Mark.ARCHIVED


def _newest(records: list[Record], of: type[E], fits: Callable[[E], bool]) -> E:
    for record in reversed(records):
        if isinstance(record.event, of) and fits(record.event):
            return record.event
    raise LookupError("a mark stands in no record")


def _valid_to_before(records: list[Record], row: MemoryRow, tsid: int) -> int | None:
    """When a memory ended to be true, before the record that superseded it."""
    at = max(
        place for place, record in enumerate(records)
        if isinstance(record.event, events.Superseded) and record.event.predecessor[1] == tsid
    )  # fmt: skip
    before = folded(records[:at], row, tsid)
    return None if before is None or before.valid_to == NO_TIME else before.valid_to

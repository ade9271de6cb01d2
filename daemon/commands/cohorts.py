"""cohort and lift: an action on all memories that a selection finds, and its undoing (contract §5, Cohorts).

One command, whatever the number: its records say for each memory what was changed. A mark or a halving that several
cohorts lay on a memory stands until the last of them is lifted. What something else has said of a memory's importance
since it was halved is newer than the halving, and stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from daemon import limits
from daemon.commands import rederiving
from daemon.commands.building import Building
from daemon.decision import Draft
from daemon.prepare import invalid
from daemon.refusal import Reason, Refused
from daemon.selections import Resolved, changed, derives_since, digest_of_all, require_unchanged
from journal import events
from journal.codes import CohortAction, Mark
from journal.errors import DamagedRecord
from journal.events import Change, Ref
from journal.record import Record
from journal.tsid import format_tsid, memory_ref, parse_ref
from projections import cohorts, tables
from projections.rows import DamagedRow, MemoryRow
from projections.state import State

CHANGES_A_RECORD = 256
DEMOTED_SHARE = 0.5


class Member(NamedTuple):
    tsid: int
    row: MemoryRow

    @property
    def ref(self) -> Ref:
        return self.row.kind, self.tsid


def parse_cohort(parameter: str, text: str) -> int:
    try:
        return parse_ref("cohort", text)
    except ValueError as error:
        raise invalid(parameter, f"not a reference to a cohort: {error}") from None


def cohort_ref(cohort: int) -> str:
    return f"cohort:{format_tsid(cohort)}"


def done_with(
    state: State, record: Callable[[int], Record | None], tenant: int, used: bytes, after_seq: int
) -> int:  # fmt: skip
    """The cohort made behind record `after_seq` with the token of that fingerprint, 0 when there is none. Raises
    DamagedRow, DamagedRecord: it is not known then whether the token was used."""
    for cohort, row in cohorts.of_tenant(state, tenant):
        if row.made_seq > after_seq and _made(record, row.made_seq).token == used:
            return cohort
    return 0


def _made(record: Callable[[int], Record | None], seq: int) -> events.CohortMade:
    """Record `seq` of a cohort. Raises DamagedRecord."""
    found = record(seq)
    if found is None or not isinstance(found.event, events.CohortMade):
        raise DamagedRecord(seq, "missing" if found is None else "event")
    return found.event


def make(building: Building, params: Any, resolved: Resolved | None) -> dict[str, Any]:
    """Act on what was found. A token that was used answers with its cohort, `conflict` once that is lifted.

    Raises Refused: `conflict` also when the selection finds something else now.
    """
    building.refuse_in_maintenance()
    if resolved is None:  # the key was known when it was asked for, and isn't: a restore lies between
        raise changed()
    state, record = building.view.state, building.view.record
    action = CohortAction[params.action.upper()]
    again = resolved.again or done_with(state, record, building.tenant, resolved.used, resolved.seq)
    if again:
        return _answer_again(building, again)
    require_unchanged(building.view, building.tenant, resolved)
    if params.downstream and derives_since(building.view, building.tenant, resolved):
        raise changed()
    selected, derived = _members(building, resolved.selected), _members(building, resolved.downstream)
    if action is CohortAction.REDERIVE:
        return _rederive(building, resolved, selected, derived)
    cohort = building.view.new_tsid()
    held = _held(building, action, [member.tsid for member in (*selected, *derived)])
    changes = [_change(action, member, member.tsid in held) for member in (*selected, *derived)]
    _draft(building, cohort, action, resolved, changes, len(derived), len(held))
    return {"cohort": cohort_ref(cohort), "done": len(changes), "held_by_others": len(held)}


def _answer_again(building: Building, cohort: int) -> dict[str, Any]:
    """What was answered at first, as the cohort's records have it. Raises Refused, DamagedRecord."""
    row = cohorts.get(building.view.state, cohort)
    assert row is not None
    if row.lifted_seq:
        raise Refused(
            Reason.CONFLICT, "the token was used, and its cohort is lifted: look again for a new one",
            parameter="token", ids=[cohort_ref(cohort)], current="lifted",
        )  # fmt: skip
    made = first = _made(building.view.record, row.made_seq)
    left, seq = list(made.not_rederivable), row.made_seq
    while not made.last:
        seq += 1
        made = _made(building.view.record, seq)
        left += made.not_rederivable
    again = {"cohort": cohort_ref(cohort), "done": row.count, "held_by_others": first.held_by_others}
    return {**again, **(_left_told(left) if row.action == CohortAction.REDERIVE else {}), "duplicate": True}


def _left_told(left: Sequence[Ref]) -> dict[str, Any]:
    told = [memory_ref(*ref) for ref in left[: limits.DOWNSTREAM_TOLD]]
    return {"not_rederivable": told, "not_rederivable_cut": len(left) > len(told)}


def _members(building: Building, tsids: Sequence[int]) -> list[Member]:
    """Raises Refused (conflict) when one has gone."""
    found: list[Member] = []
    for tsid in tsids:
        row = building.view.memory(building.tenant, tsid)
        if row is None or row.has(Mark.PURGED):
            raise changed()
        found.append(Member(tsid, row))
    return found


def _held(building: Building, action: CohortAction, tsids: Sequence[int], besides: int = 0) -> frozenset[int]:
    """Those that another cohort than `besides` holds the same way. Where the tenant has no such cohort, which is most
    often so, none is looked up. Raises DamagedRow."""
    state = building.view.state
    standing = cohorts.of_tenant(state, building.tenant)
    if not any(row.action == action and not row.lifted_seq and cohort != besides for cohort, row in standing):
        return frozenset()
    return frozenset([tsid for tsid in tsids if rederiving.is_held(state, tsid, besides, action)])


def _change(action: CohortAction, member: Member, is_held: bool) -> Change:
    """Halved once: not where another cohort has done so already, and never below what importance may be."""
    old = new = member.row.importance
    if action is CohortAction.DEMOTE and not is_held:
        new = min(old, max(limits.IMPORTANCE_MIN, old * DEMOTED_SHARE))
    return Change(member.row.kind, member.tsid, old, new)


def _rederive(building: Building, resolved: Resolved, selected: list[Member], derived: list[Member]) -> dict[str, Any]:
    view = building.view
    planned = rederiving.plan(view.state, view.record, (*selected, *derived))
    again = set(planned.again)
    if digest_of_all(again) != resolved.token.touched:
        raise changed()
    cohort = view.new_tsid()
    kept = [member for member in (*selected, *derived) if member.tsid in again]
    changes = [_change(CohortAction.REDERIVE, member, False) for member in kept]
    left = [member.ref for member in (*selected, *derived) if member.tsid not in again]
    held = len(_held(building, CohortAction.REDERIVE, [member.tsid for member in kept]))
    derived_count = sum(member.tsid in again for member in derived)
    _draft(building, cohort, CohortAction.REDERIVE, resolved, changes, derived_count, held, left)
    for session, turns in planned.turns.items():
        building.add(Draft(events.TurnsReopened(session=session, turns=turns, cohort=cohort)))
    return {"cohort": cohort_ref(cohort), "done": len(changes), "held_by_others": held, **_left_told(left)}


def _draft(
    building: Building, cohort: int, action: CohortAction, resolved: Resolved, changes: list[Change], derived: int,
    held: int, left: Sequence[Ref] = (),
) -> None:  # fmt: skip
    """The records of a cohort: what of the selection may be told stands in the first, with the token that was used."""
    fields = resolved.fields
    assert fields is not None
    pieces = list(_pieces(len(changes), len(left)))
    first_derived = len(changes) - derived
    for part, (start, end) in enumerate(pieces):
        told = {
            "producers": tuple(sorted(fields.producers or ())), "origins": tuple(sorted(fields.origins or ())),
            "kinds": tuple(sorted(fields.kinds or ())), "since": fields.since, "until": fields.until,
            "statuses": tuple(sorted(fields.statuses)), "session": fields.session or 0, "sealed": fields.is_sealed,
            "token": resolved.used, "held_by_others": held,
        }  # fmt: skip
        piece = tuple(changes[start:end])
        building.add(Draft(events.CohortMade(
            id=cohort, action=int(action), changes=piece, part=part, last=part == len(pieces) - 1,
            downstream=len(piece) - max(0, min(len(piece), first_derived - start)),
            not_rederivable=tuple(left[start:end]), **(told if part == 0 else {}),  # type: ignore[arg-type]
        )))  # fmt: skip


def _pieces(*counts: int) -> Iterator[tuple[int, int]]:
    """From where to where each record goes; one at least."""
    for start in range(0, max(1, *counts), CHANGES_A_RECORD):
        yield start, start + CHANGES_A_RECORD


# --- lift ----------------------------------------------------------------------------------------


def lift(building: Building, params: Any) -> dict[str, Any]:
    """Undo what a cohort did. Twice changes nothing. Raises Refused: `not_found`."""
    building.refuse_in_maintenance()
    state = building.view.state
    cohort = parse_cohort("cohort", params.cohort)
    row = cohorts.get(state, cohort) if building.tenant else None
    if row is None or row.tenant != building.tenant:
        raise Refused(Reason.NOT_FOUND, "no such cohort", parameter="cohort")
    if row.lifted_seq:
        return {"cohort": cohort_ref(cohort), "already": True, "done": 0}
    members = list(cohorts.members(state, cohort))
    if len(members) != row.count:
        raise DamagedRow(tables.COHORT_MEMBERS)  # one that is missing here would never be given back
    action = CohortAction(row.action)
    changes, unmarked, undone, held_count = _undone(building, cohort, row, action, members)
    parts: dict[str, Sequence[Any]] = {
        "changes": changes, "unmarked": unmarked, "reopened": undone.reopened, "unarchived": undone.unarchived,
        "settled": undone.settled,
    }  # fmt: skip
    pieces = list(_pieces(*(len(each) for each in parts.values())))
    for part, (start, end) in enumerate(pieces):
        piece: dict[str, Any] = {name: tuple(each[start:end]) for name, each in parts.items()}
        building.add(Draft(events.CohortLifted(id=cohort, part=part, last=part == len(pieces) - 1, **piece)))
    return {"cohort": cohort_ref(cohort), "already": False, "done": len(members), "held_by_others": held_count}


def _undone(
    building: Building, cohort: int, row: cohorts.CohortRow, action: CohortAction, members: list[cohorts.Member]
) -> tuple[list[Change], list[Ref], rederiving.Undone, int]:
    """What lifting gives back, and how many memories another cohort holds the same way: they stay as they are."""
    state = building.view.state
    held_ones = _held(building, action, [member.tsid for member in members], cohort)
    changes: list[Change] = []
    unmarked: list[Ref] = []
    others = _demoting_before(building, cohort, row) if action is CohortAction.DEMOTE else []
    for member in members:
        now = state.memory(member.tsid)
        importance = member.new if now is None else now.importance
        held = member.tsid in held_ones
        back = importance
        if action is CohortAction.DEMOTE and not held:
            back = _given_back(state, member, importance, row.made_seq, others)
        changes.append(Change(member.kind, member.tsid, importance, back))
        if action is CohortAction.QUARANTINE and not held:
            unmarked.append((member.kind, member.tsid))
    undone = rederiving.Undone((), (), ())
    if action is CohortAction.REDERIVE:
        undone = rederiving.undo(building, cohort, [member.tsid for member in members])
    return changes, unmarked, undone, len(held_ones)


def _demoting_before(building: Building, cohort: int, row: cohorts.CohortRow) -> list[tuple[int, cohorts.CohortRow]]:
    """The demoting cohorts that were made before this one, newest first, lifted or not."""
    return [
        (other, of)
        for other, of in reversed(list(cohorts.of_tenant(building.view.state, building.tenant)))
        if of.action == CohortAction.DEMOTE and of.made_seq < row.made_seq
    ]


def _given_back(
    state: State, member: cohorts.Member, importance: float, made_seq: int, others: list[tuple[int, cohorts.CohortRow]]
) -> float:
    """Its importance when the last halving is lifted: what it was before, unless something else has changed it."""
    halved: cohorts.Member | None = member if member.old != member.new else None
    for other, of in others if halved is None else ():  # one of those that stood then had halved it, or found it so too
        if of.lifted_seq and of.lifted_seq < made_seq:
            continue
        earlier = cohorts.member(state, other, member.tsid)
        if earlier is None:
            continue
        made_seq = of.made_seq
        if earlier.old != earlier.new:
            halved = earlier
            break
    if halved is None or importance != halved.new:
        return importance
    return halved.old

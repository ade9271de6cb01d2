"""decide: a proposal is accepted, with what comes of it in the same commit, or rejected. Once (contract §5).

Missing, foreign and decided are one answer. What is accepted is done as the verb would do it that does it directly:
`revise` for what closes a memory, `relate` for what doesn't, `mark` for the rest; and it is refused where that verb
would be. A proposal that is refused waits on. What stands already is not done twice: the proposal is applied then, and
produced nothing. Nobody's session is named, since a decision has none.

Guards of what closes a memory, in this order: both may be revised by a proposal; the very edge isn't there yet; the
successor is live; the predecessor is open.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec.structs import replace

from daemon import limits
from daemon.commands.building import Building
from daemon.commands.proposable import CLOSING, proposable
from daemon.commands.proposing import fact_words, proposed
from daemon.commands.quarantine import is_quarantined
from daemon.commands.targets import Target, newest_version
from daemon.decision import Draft
from daemon.prepare import parse_proposal
from daemon.refusal import Reason, Refused
from daemon.wire.proposal_results import produced_refs
from journal import events
from journal.codes import EdgeType, Mark, Part, ProposalAction, ProposalKind, ProposalStatus, Status
from journal.errors import DamagedRecord
from journal.particulars import Particulars, encode
from journal.tsid import memory_ref
from projections import edges
from projections.proposals import ProposalRow
from projections.revisions import facts_of
from projections.rows import NO_TIME

_PARTICULARS = int(Part.PARTICULARS)
ENDED = "ended"
"""What is told of a memory whose truth ended before now."""


class Waiting(NamedTuple):
    """A proposal that waits for a decision, with its id."""

    id: int
    row: ProposalRow


class Produced(NamedTuple):
    """Edges and facts by id, records that marked a memory by number."""

    edges: tuple[int, ...] = ()
    facts: tuple[int, ...] = ()
    seqs: tuple[int, ...] = ()


NOTHING = Produced()


def decide(building: Building, params: Any) -> dict[str, Any]:
    """Accept or reject it. Raises Refused."""
    building.refuse_in_maintenance()
    waiting = _waiting(building, parse_proposal("proposal", params.proposal))
    produced = NOTHING
    if params.accept:
        produced = _ACCEPT[ProposalKind(waiting.row.kind)](building, waiting)
    building.add(Draft(events.ProposalDecided(id=waiting.id, accepted=params.accept, **produced._asdict())))
    decided = ProposalStatus.APPLIED if params.accept else ProposalStatus.REJECTED
    return {"decided": decided.wire, "produced": produced_refs(*produced)}


def named_in(building: Building, params: Any) -> tuple[int, ...]:
    """The memories that a decision is about."""
    row = building.view.proposal(building.tenant, parse_proposal("proposal", params.proposal))
    if row is None:
        return ()
    return (row.memory[1],) if row.other is None else (row.memory[1], row.other[1])


def _waiting(building: Building, proposal: int) -> Waiting:
    """Raises Refused: the same, whether there is no such proposal, it is another tenant's, or it was decided."""
    row = building.view.proposal(building.tenant, proposal) if building.tenant else None
    if row is None or row.status != ProposalStatus.PROPOSED:
        raise Refused(Reason.NOT_FOUND, "no such proposal that waits", parameter="proposal")
    return Waiting(proposal, row)


# --- edges ----------------------------------------------------------------------------------------


def _edge(building: Building, waiting: Waiting) -> Produced:
    row = waiting.row
    newer, older = _target(building, row.memory), _other(building, row)
    edge_type = EdgeType(row.edge_type)
    if edge_type in CLOSING:
        return _supersede(building, waiting.id, edge_type, newer, older)
    for source, target in [(newer, older), (older, newer)][: 2 if edge_type is EdgeType.CONTRADICTS else 1]:
        if edges.stands(building.view.state, source.tsid, int(edge_type), target.tsid):
            return NOTHING
    _refuse_purged(newer, older)
    edge = building.view.new_tsid()
    event = events.Related(
        source=newer.ref, target=older.ref, edge_type=int(edge_type), edge=edge, proposal=waiting.id
    )  # fmt: skip
    building.add(Draft(event))
    return Produced(edges=(edge,))


def _supersede(
    building: Building, proposal: int, edge_type: EdgeType, successor: Target, predecessor: Target
) -> Produced:
    view = building.view
    if edge_type not in proposable(successor.row, predecessor.row):
        message = "what has happened, or is of another kind, is not revised by a proposal"
        raise _conflict(message, successor, predecessor)
    taken = predecessor.row.superseded_by  # 0 also where an edge of a re-derivation that was lifted stands
    if taken and edges.stands(view.state, successor.tsid, int(edge_type), predecessor.tsid):
        return NOTHING
    _require_live(successor, view.now_ms)
    _require_open(building, predecessor)
    edge, ends = view.new_tsid(), predecessor.row.valid_to
    event = events.Superseded(
        predecessor=predecessor.ref, successor=successor.ref, edge_type=int(edge_type), edge=edge,
        valid_to=view.now_ms if ends == NO_TIME else min(ends, view.now_ms), proposal=proposal,
    )  # fmt: skip
    building.add(Draft(event))
    return Produced(edges=(edge,))


def _require_live(successor: Target, now_ms: int) -> None:
    row = successor.row
    current = row.status.wire
    if row.status is Status.ACTIVE and row.valid_to != NO_TIME and row.valid_to <= now_ms:
        current = ENDED
    if current != Status.ACTIVE.wire:
        raise _conflict(f"what is to take its place is {current}", successor, current=current)


def _require_open(building: Building, predecessor: Target) -> None:
    row = predecessor.row
    if row.superseded_by:
        head = newest_version(building, predecessor)
        raise _conflict("the memory was superseded", predecessor, current=head)
    if row.dead:
        current = row.status.wire
        raise _conflict(f"the memory is {current}", predecessor, current=current)


# --- facts, marks ---------------------------------------------------------------------------------


def _fact(building: Building, waiting: Waiting) -> Produced:
    """Its words are sealed again, under the memory's own record. What a purge keeps out since then is a `conflict`."""
    memory = _target(building, waiting.row.memory)
    if memory.row.dead:
        current = memory.row.status.wire
        raise _conflict(f"the memory is {current}", memory, current=current)
    count = sum(1 for _ in facts_of(building.view.state, memory.tsid))
    if count >= limits.FACTS_ACCEPTED:
        raise _conflict("the memory has as many facts as it may", memory, limit=limits.FACTS_ACCEPTED, current=count)
    head = proposed(building, waiting.row).fact
    if head is None:
        raise DamagedRecord(waiting.row.made_seq, "event")
    begins = building.view.now_ms if head.valid_from is None else head.valid_from
    head = replace(head, id=building.view.new_tsid(), proposal=waiting.id, valid_from=begins)
    words = fact_words(building, waiting.row)
    building.refuse_blocked("proposal", words[2].encode())
    plain = encode(Particulars(facts=(words,)))
    building.add(Draft(events.FactAdded(memory=memory.ref, fact=head), ((_PARTICULARS, plain),)))
    return Produced(facts=(head.id,))


def _resolution(building: Building, waiting: Waiting) -> Produced:
    return _mark(building, waiting, Mark.RESOLVED)


def _retention(building: Building, waiting: Waiting) -> Produced:
    row = waiting.row
    if row.action == ProposalAction.ARCHIVE:
        return _mark(building, waiting, Mark.ARCHIVED)
    successor, predecessor = _other(building, row), _target(building, row.memory)
    return _supersede(building, waiting.id, EdgeType.SUPERSEDES, successor, predecessor)


def _mark(building: Building, waiting: Waiting, mark: Mark) -> Produced:
    memory = _target(building, waiting.row.memory)
    _refuse_purged(memory)
    if memory.row.has(mark):
        return NOTHING
    seq = building.next_seq
    building.add(Draft(events.Marked(memory=memory.ref, mark=int(mark), on=True, proposal=waiting.id)))
    return Produced(seqs=(seq,))


_ACCEPT: dict[ProposalKind, Callable[[Building, Waiting], Produced]] = {
    ProposalKind.EDGE: _edge,
    ProposalKind.FACT: _fact,
    ProposalKind.RESOLUTION: _resolution,
    ProposalKind.RETENTION: _retention,
}
assert _ACCEPT.keys() == set(ProposalKind), "a kind of proposal that nobody accepts"


# --- what it is about -----------------------------------------------------------------------------


def _target(building: Building, ref: events.Ref) -> Target:
    """A memory that a proposal names: it was there when that was made, and no memory goes. Raises Refused for one that
    a cohort holds back."""
    kind, tsid = ref
    row = building.view.memory(building.tenant, tsid)
    if row is None or row.kind != kind:
        raise LookupError(f"a proposal names memory {tsid}, which isn't there")
    if row.has(Mark.QUARANTINED) and not row.has(Mark.PURGED):
        raise is_quarantined(building, "proposal", kind, tsid, memory_ref(kind, tsid))
    return Target(kind, tsid, row)


def _other(building: Building, row: ProposalRow) -> Target:
    if row.other is None:
        raise DamagedRecord(row.made_seq, "event")
    return _target(building, row.other)


def _refuse_purged(*targets: Target) -> None:
    for target in targets:
        if target.row.has(Mark.PURGED):
            raise _conflict("the memory is purged", target, current=Mark.PURGED.wire)


def _conflict(message: str, *targets: Target, **data: Any) -> Refused:
    """The proposal waits on."""
    refs = [memory_ref(*target.ref) for target in targets]
    return Refused(Reason.CONFLICT, message, parameter="proposal", ids=refs, **data)

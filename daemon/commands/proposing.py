"""propose: something is staged for somebody to decide (contract §5).

One open proposal says a thing: who proposes the same again is told the one that waits, with what was said first. A pair
that is related, or was decided before, may be proposed again by whoever looks at it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from daemon import limits
from daemon.commands.building import Building
from daemon.commands.preparation import FactTerms, fact_terms
from daemon.commands.proposable import proposable
from daemon.commands.targets import Target, require, words
from daemon.decision import Draft
from daemon.prepare import UNSET, invalid, parse_memory
from daemon.refusal import Reason, Refused
from journal import events
from journal.codes import EdgeType, Part, ProposalAction, ProposalKind, ProposalStatus
from journal.errors import DamagedRecord, PartUnreadable
from journal.particulars import Particulars, decode_particulars, encode
from journal.tsid import format_tsid, memory_ref
from projections import proposals
from projections.proposals import ProposalRow

_PARTICULARS = int(Part.PARTICULARS)
_EXACTLY = ("other", "edge", "fact", "action")
"""The parameters that belong to some kinds only."""


class Takes(NamedTuple):
    """Which of those a kind must have, and which it may; the actions that it knows."""

    needs: tuple[str, ...]
    may: tuple[str, ...] = ()
    actions: tuple[ProposalAction, ...] = ()


TAKES: dict[ProposalKind, Takes] = {
    ProposalKind.EDGE: Takes(("other", "edge")),
    ProposalKind.FACT: Takes(("fact",)),
    ProposalKind.RESOLUTION: Takes((), ("action",), (ProposalAction.RESOLVE,)),
    ProposalKind.RETENTION: Takes(("action",), ("other",), (ProposalAction.ARCHIVE, ProposalAction.SUPERSEDE)),
}
assert TAKES.keys() == set(ProposalKind), "a kind of proposal without a row"


class PreparedProposal(NamedTuple):
    """A `propose` that needs nothing more but the store. `edge` None, `action` NONE, `fact` None: there is none."""

    params: Any
    kind: ProposalKind
    edge: EdgeType | None
    action: ProposalAction
    terms: FactTerms | None
    fact: tuple[str, str, str] | None


def prepare(params: Any) -> PreparedProposal:
    """Everything that needs no store. Raises Refused."""
    kind = ProposalKind[params.proposal_kind.upper()]
    takes = TAKES[kind]
    for name in _EXACTLY:
        given = getattr(params, name) is not UNSET
        if given and name not in takes.needs + takes.may:
            raise invalid(name, f"a proposal of kind {kind.wire} has none")
        if not given and name in takes.needs:
            raise invalid(name, f"a proposal of kind {kind.wire} needs it")
    action = _action(params, takes)
    if (params.other is not UNSET) != (kind is ProposalKind.EDGE or action is ProposalAction.SUPERSEDE):
        raise invalid("other", "what takes its place is named for `supersede`, and for nothing else that leaves")
    if params.other is not UNSET and parse_memory("other", params.other) == parse_memory("memory", params.memory):
        raise invalid("other", "a proposal is about two memories, and this is one")
    edge = None if params.edge is UNSET else EdgeType[params.edge.upper()]
    if params.fact is UNSET:
        return PreparedProposal(params, kind, edge, action, None, None)
    fact = params.fact
    return PreparedProposal(params, kind, edge, action, _terms(fact), (fact.subject, fact.predicate, fact.value))


def _action(params: Any, takes: Takes) -> ProposalAction:
    if params.action is UNSET:
        return takes.actions[0] if takes.actions else ProposalAction.NONE
    action = ProposalAction[params.action.upper()]
    if action not in takes.actions:
        allowed = [each.wire for each in takes.actions]
        raise invalid("action", f"not what a proposal of kind {params.proposal_kind} does", allowed=allowed)
    return action


def _terms(fact: Any) -> FactTerms:
    """A fact without a beginning begins when it is accepted, so one that has an end says when it began."""
    terms = fact_terms("fact.", fact)
    if terms.valid_to is not None and terms.valid_from is None:
        raise invalid("fact.valid_from", "a proposed fact that ends says when it began")
    return terms


def propose(building: Building, prepared: PreparedProposal) -> dict[str, Any]:
    """Stage it, unless one that says the same waits already. Raises Refused."""
    building.refuse_in_maintenance()
    params = prepared.params
    if prepared.fact is not None:
        building.refuse_blocked("fact.value", prepared.fact[2].encode())
    memory = require(building, params.memory, "memory")
    other = None if params.other is UNSET else require(building, params.other, "other")
    if other is not None:
        _check_pair(prepared, memory, other)
    waiting = _waiting(building, prepared, memory, other)
    if waiting is not None:
        return {"proposal": proposal_ref(waiting), "existed": True}
    _refuse_many(building, *(target for target in (memory, other) if target is not None))
    made = building.view.new_tsid()
    event = events.ProposalMade(
        id=made, kind=int(prepared.kind), memory=memory.ref, other=None if other is None else other.ref,
        edge_type=int(prepared.edge or 0), action=int(prepared.action),
        fact=None if prepared.terms is None else events.FactHead(0, *prepared.terms),
    )  # fmt: skip
    facts = () if prepared.fact is None else ((_PARTICULARS, encode(Particulars(facts=(prepared.fact,)))),)
    building.add(Draft(event, (*facts, *words(params.note))))
    return {"proposal": proposal_ref(made), "existed": False}


def _refuse_many(building: Building, *targets: Target) -> None:
    """Raises Refused (conflict) when as many wait about one of them as may."""
    for target in targets:
        count = len(proposals.naming(building.view.state, target.tsid, ProposalStatus.PROPOSED))
        if count >= limits.OPEN_PROPOSALS:
            raise Refused(
                Reason.CONFLICT, "too many proposals about the memory wait: decide some", ids=[memory_ref(*target.ref)],
                limit=limits.OPEN_PROPOSALS, current=count,
            )  # fmt: skip


def proposal_ref(proposal: int) -> str:
    return f"proposal:{format_tsid(proposal)}"


def _check_pair(prepared: PreparedProposal, memory: Target, other: Target) -> None:
    """Raises Refused for an edge that these two can't have."""
    edge, parameter = (prepared.edge, "edge") if prepared.edge is not None else (EdgeType.SUPERSEDES, "action")
    allowed = proposable(memory.row, other.row)
    if edge in allowed:
        return
    told = sorted(each.wire for each in allowed) if parameter == "edge" else [ProposalAction.ARCHIVE.wire]
    raise invalid(parameter, "what has happened, or is of another kind, is not revised by a proposal", allowed=told)


def _waiting(
    building: Building, prepared: PreparedProposal, memory: Target, other: Target | None
) -> int | None:  # fmt: skip
    """The open proposal that says the same; a contradiction says the same in both directions."""
    ends = _ends(prepared.edge or 0, memory.ref, None if other is None else other.ref)
    said = (int(prepared.kind), int(prepared.edge or 0), int(prepared.action), ends)
    for proposal in proposals.naming(building.view.state, memory.tsid, ProposalStatus.PROPOSED):
        row = building.view.proposal(building.tenant, proposal)
        if row is None or said != (row.kind, row.edge_type, row.action, _ends(row.edge_type, row.memory, row.other)):
            continue
        if prepared.fact is None or _says(building, row, prepared.fact):
            return proposal
    return None


def _ends(edge_type: int, memory: events.Ref, other: events.Ref | None) -> tuple[events.Ref | None, ...]:
    if edge_type == EdgeType.CONTRADICTS and other is not None:
        return tuple(sorted((memory, other)))
    return memory, other


def _says(building: Building, row: ProposalRow, fact: tuple[str, str, str]) -> bool:
    """Whether the fact that waits has these words. Not when they can't be read: nobody can say then that it does. Words
    of another length aren't unsealed."""
    try:
        part = _fact_part(building, row)
        if part.length != len(encode(Particulars(facts=(fact,)))):
            return False
        return decode_particulars(building.view.unseal(part)).facts[0] == fact
    except (DamagedRecord, PartUnreadable):
        return False


def proposed(building: Building, row: ProposalRow) -> events.ProposalMade:
    """The event that made a proposal. Raises DamagedRecord."""
    record = building.view.record(row.made_seq)
    if record is None or not isinstance(record.event, events.ProposalMade):
        raise DamagedRecord(row.made_seq, "missing" if record is None else "event")
    return record.event


def fact_words(building: Building, row: ProposalRow) -> tuple[str, str, str]:
    """Subject, predicate and value of the fact that is proposed. Raises DamagedRecord, PartUnreadable."""
    return decode_particulars(building.view.unseal(_fact_part(building, row))).facts[0]


def _fact_part(building: Building, row: ProposalRow) -> events.SealedPart:
    parts = proposed(building, row).parts
    part = next((each for each in parts if each.part == _PARTICULARS), None)
    if part is None:
        raise DamagedRecord(row.made_seq, "event")
    return part

"""What no verb writes and an older or imported journal may hold: records put into a stopped store, for each tenant.

- an applied resolution of which nothing came (`half`)
- a record that names a session which is none of the tenant's (`lost`)
- two memories each of which took the place of the other (`cycle`)
- one that took the place of two, both of which had taken that of one and the same (`diamond`)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from journal import events
from journal.codes import EdgeType, ProposalAction, ProposalKind
from journal.tsid import format_tsid, parse_memory_ref
from tests.journal.appending import Legacy

IDS = 1000
"""So many ids are set apart for each tenant."""
EDGES = (
    ("cycle.one", "cycle.two"), ("cycle.two", "cycle.one"), ("diamond.left", "diamond.old"),
    ("diamond.right", "diamond.old"), ("diamond.new", "diamond.left"), ("diamond.new", "diamond.right"),
)  # fmt: skip
"""Successor and predecessor."""


def fragment(
    ids: Mapping[str, str], tenant: int, foreign_session: int, now_ms: int
) -> tuple[list[Legacy], dict[str, str]]:
    """The records of one tenant, and the references of what they make, by label. `foreign_session` is the number of a
    session of the other."""
    newest = max(parse_memory_ref(ids[successor])[1] for successor, _ in EDGES)
    fresh = iter(range(newest + 1 + tenant * IDS, newest + 1 + (tenant + 1) * IDS))
    made: dict[str, str] = {}
    found = [*_half(ids, fresh, made), events.Reaffirmed(memory=parse_memory_ref(ids["lost"]), session=foreign_session)]
    for successor, predecessor in EDGES:
        found.append(
            events.Superseded(
                predecessor=parse_memory_ref(ids[predecessor]), successor=parse_memory_ref(ids[successor]),
                edge_type=int(EdgeType.UPDATES), edge=next(fresh), valid_to=now_ms,
            )
        )  # fmt: skip
    return [Legacy(event, tenant=tenant) for event in found], made


def _half(ids: Mapping[str, str], fresh: Iterator[int], made: dict[str, str]) -> list[events.AnyEvent]:
    proposal = next(fresh)
    made["proposal.half"] = f"proposal:{format_tsid(proposal)}"
    resolution = events.ProposalMade(
        id=proposal, kind=int(ProposalKind.RESOLUTION), memory=parse_memory_ref(ids["half"]),
        action=int(ProposalAction.RESOLVE),
    )  # fmt: skip
    return [resolution, events.ProposalDecided(id=proposal, accepted=True)]

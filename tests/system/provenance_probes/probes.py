"""What each probe must find: the exact labels of every section, in the order in which they are told.

A probe asks for one chain. A section that isn't named is empty and whole. The rows are in the words of `../probing.py`:

- origin: `WAY in SESSION run AGENT`
- predecessors, successors: `MEMORY at DEPTH EDGE_TYPE by EDGE in SESSION of PROPOSAL`
- events: `RECORD says KIND in SESSION of PROPOSAL`; a record is labelled by its own type, memory and turn among those
- proposals: `PROPOSAL KIND EDGE_TYPE-or-ACTION with MEMORY made PRODUCTS`
- facts: `FACT of PROPOSAL`; facts of a memory are numbered in order of their ids

P23, P25 and P26 ask for more than one chain: they are tests of their own.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.system.provenance_probes.scenario import (
    BUSY_EVENTS,
    BUSY_FACTS,
    BUSY_PROPOSALS,
    FIVE,
    long_edge,
    long_session,
)

CREATED = "client in - run -"


class Probe(NamedTuple):
    """`differs`: where our model isn't the one that the probe was written for, what it asks instead."""

    name: str
    traced: str
    origin: str
    predecessors: tuple[str, ...] = ()
    successors: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    proposals: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    truncated: tuple[str, ...] = ()
    differs: str = ""


def origin(session: str | None) -> str:
    return CREATED if session is None else f"client in session.{session} run {session}"


def session_of(name: str | None) -> str:
    return "-" if name is None else f"session.{name}"


def version(label: str, depth: int, edge_type: str, edge: str, session: str | None = None, source: str = "-") -> str:
    return f"{label} at {depth} {edge_type} by edge({edge}) in {session_of(session)} of {source}"


def event(record: str, kind: str, session: str | None = None, proposal: str = "-") -> str:
    return f"{record} says {kind} in {session_of(session)} of {proposal}"


def created(label: str, session: str | None = None) -> str:
    return event(f"memory_created({label})#1", "create", session)


def superseded(label: str, session: str | None = None) -> str:
    return event(f"superseded({label})#1", "supersede", session)


def five(version_number: int, depth: int, successor: int) -> str:
    """A row for one of the five versions; `successor` is the newer end of the edge that leads to it."""
    label, newer, older = (f"five.v{number}" for number in (version_number, successor, successor - 1))
    return version(label, depth, FIVE[successor - 1][1], f"{newer}>{older}", FIVE[version_number - 1][0])


def long(version_number: int, depth: int, successor: int) -> str:
    label, newer, older = (f"long.v{number}" for number in (version_number, successor, successor - 1))
    return version(label, depth, long_edge(successor), f"{newer}>{older}", long_session(version_number))


VERSIONS = (
    Probe("P1", "single", origin("claude"), events=(created("single", "claude"),)),
    Probe("P2", "plain", CREATED, events=(created("plain"),)),
    Probe(
        "P3", "five.v3", origin("codex"), predecessors=(five(2, 1, 3), five(1, 2, 2)),
        successors=(five(4, 1, 4), five(5, 2, 5)), events=(superseded("five.v3"), created("five.v3", "codex")),
    ),
    Probe(
        "P4", "long.v1", origin("claude"), successors=tuple(long(n, n - 1, n) for n in range(2, 26)),
        events=(superseded("long.v1", long_session(2)), created("long.v1", "claude")), truncated=("supersession",),
    ),
    Probe(
        "P5", "long.v14", CREATED, predecessors=tuple(long(n, 14 - n, n + 1) for n in range(13, 1, -1)),
        successors=tuple(long(n, n - 14, n) for n in range(15, 27)),
        events=(superseded("long.v14", long_session(15)), created("long.v14")), truncated=("supersession",),
        differs="nearest by (depth, id): the order of creation is that of ids here",
    ),
    Probe(
        "P6", "moved", origin("claude"),
        events=(event("moved(moved)#1", "revise", "codex"), created("moved", "claude")),
    ),
    Probe("P7", "archived", CREATED, events=(event("marked(archived)#1", "archive", "claude"), created("archived"))),
    Probe(
        "P8", "preference", origin("claude"),
        events=(event("reaffirmed(preference)#1", "reaffirm"), created("preference", "claude")),
    ),
)  # fmt: skip

ACCEPTED = (
    Probe(
        "P9", "edged.new", origin("codex"), events=(created("edged.new", "codex"),),
        predecessors=(version("edged.old", 1, "supersedes", "edged.new>edged.old", None, "edge proposal.edged"),),
        proposals=("proposal.edged edge supersedes with edged.old made edge(edged.new>edged.old)",),
    ),
    Probe(
        "P10", "edged.old", CREATED, events=(superseded("edged.old"), created("edged.old")),
        successors=(version("edged.new", 1, "supersedes", "edged.new>edged.old", "codex", "edge proposal.edged"),),
        proposals=("proposal.edged edge supersedes with edged.new made edge(edged.new>edged.old)",),
    ),
    Probe(
        "P11", "extended.new", origin("codex"), events=(created("extended.new", "codex"),),
        proposals=("proposal.extended edge extends with extended.old made edge(extended.new>extended.old)",),
    ),
    Probe(
        "P12", "revised.new", CREATED, events=(created("revised.new"),),
        predecessors=(version("revised.old", 1, "supersedes", "revised.new>revised.old"),),
        proposals=("proposal.late edge supersedes with revised.old made -",),
    ),
    Probe(
        "P12 an edge and a retention proposal of one pair", "twice.new", origin("codex"),
        events=(created("twice.new", "codex"),),
        predecessors=(version("twice.old", 1, "supersedes", "twice.new>twice.old", None, "edge proposal.first"),),
        proposals=(
            "proposal.second retention supersede with twice.old made -",
            "proposal.first edge supersedes with twice.old made edge(twice.new>twice.old)",
        ),
        differs="the edge names the proposal that made it; it is the second one that found it there",
    ),
    Probe(
        "P13", "factual", CREATED, events=(created("factual"),),
        proposals=("proposal.fact fact - with - made fact(factual)#3",),
        facts=("fact(factual)#3 of proposal.fact", "fact(factual)#2 of -", "fact(factual)#1 of -"),
    ),
    Probe(
        "P14", "told", origin("claude"), events=(created("told", "claude"),),
        facts=("fact(told)#2 of -", "fact(told)#1 of -"),
    ),
    Probe(
        "P15", "kept", CREATED,
        events=(event("marked(kept)#1", "resolve", None, "proposal.kept"), created("kept")),
        proposals=("proposal.kept resolution resolve with - made marked(kept)#1",),
        differs="what is resolved is a mark of the memory itself; there is no commitment row beside it",
    ),
    Probe(
        "P16", "half", CREATED, events=(created("half"),),
        proposals=("proposal.half resolution resolve with - made -",),
        differs="a decision and what comes of it are one commit, so only another journal holds it: put in by hand",
    ),
    Probe(
        "P17", "retired", CREATED,
        events=(event("marked(retired)#1", "archive", None, "proposal.retired"), created("retired")),
        proposals=("proposal.retired retention archive with - made marked(retired)#1",),
    ),
    Probe(
        "P18", "outdated.new", origin("codex"), events=(created("outdated.new", "codex"),),
        predecessors=(
            version("outdated.old", 1, "supersedes", "outdated.new>outdated.old", None, "retention proposal.outdated"),
        ),
        proposals=("proposal.outdated retention supersede with outdated.old made edge(outdated.new>outdated.old)",),
    ),
    Probe("P19", "undecided", CREATED, events=(created("undecided"),)),
)  # fmt: skip

STRANGE = (
    Probe(
        "P20", "imported", "- in - run -",
        events=(event("marked(imported)#1", "archive"), event("memory_created(imported)#1", "import")),
        differs="an import is one record, with what it says of its past inside: no historical events are written",
    ),
    Probe(
        "P21", "busy", origin("claude"),
        events=tuple(
            event(f"reaffirmed(busy)#{n}", "reaffirm", "claude" if n % 2 else None)
            for n in range(BUSY_EVENTS, BUSY_EVENTS - 50, -1)
        ),
        proposals=tuple(
            f"proposal.busy.{n} fact - with - made fact(busy)#{BUSY_FACTS + n}"
            for n in range(BUSY_PROPOSALS, BUSY_PROPOSALS - 25, -1)
        ),
        facts=tuple(
            f"fact(busy)#{BUSY_FACTS + n} of proposal.busy.{n}"
            for n in range(BUSY_PROPOSALS, BUSY_PROPOSALS - 25, -1)
        ),
        truncated=("events", "proposals", "facts"),
    ),
    Probe(
        "P22 cycle", "cycle.one", CREATED, events=(superseded("cycle.one"), created("cycle.one")),
        predecessors=(version("cycle.two", 1, "updates", "cycle.one>cycle.two"),),
        differs="no verb writes a cycle: put in by hand. Reached both ways, the other is a predecessor, once",
    ),
    Probe(
        "P22 diamond", "diamond.new", CREATED, events=(created("diamond.new"),),
        predecessors=(
            version("diamond.left", 1, "updates", "diamond.new>diamond.left"),
            version("diamond.right", 1, "updates", "diamond.new>diamond.right"),
            version("diamond.old", 2, "updates", "diamond.left>diamond.old"),
            version("diamond.old", 2, "updates", "diamond.right>diamond.old"),
        ),
        differs="a memory is superseded once here too, so its two successors are put in by hand",
    ),
    Probe(
        "P24", "lost", CREATED, events=(event("reaffirmed(lost)#1", "reaffirm"), created("lost")),
        differs="sessions don't go, so the record names one of the other tenant, by its number. What resolves to "
        "nothing of the tenant's is null: it is not told as recorded",
    ),
    Probe(
        "P27", "promised", origin("claude"),
        events=(
            event("marked(promised)#2", "unresolve"), event("marked(promised)#1", "resolve", "codex"),
            created("promised", "claude"),
        ),
        differs="a commitment is the memory, so nothing is created a second time: it was resolved and taken up again",
    ),
    Probe(
        "P28", "carried.old", CREATED, events=(superseded("carried.old"), created("carried.old")),
        successors=(version("carried.new", 1, "updates", "carried.new>carried.old", "codex", "edge proposal.carried"),),
        proposals=("proposal.carried edge updates with carried.new made edge(carried.new>carried.old)",),
        differs="there is no commitment row to carry: accepting an edge resolves nothing, beside or after it",
    ),
    Probe(
        "P28 successor", "carried.new", origin("codex"), events=(created("carried.new", "codex"),),
        predecessors=(version("carried.old", 1, "updates", "carried.new>carried.old", None, "edge proposal.carried"),),
        proposals=("proposal.carried edge updates with carried.old made edge(carried.new>carried.old)",),
    ),
)  # fmt: skip

PROBES = (*VERSIONS, *ACCEPTED, *STRANGE)

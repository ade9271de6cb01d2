"""The provenance chain of one memory: the one core read behind `get` with `include: ["provenance"]` (contract §5).

Five sections: how the memory began, its versions both ways, what happened to it, the applied proposals that name it,
its facts. Ids, enumerations, booleans, times and identity fields only; nothing is inferred, and what was not recorded
is null. One level per call: of a version, only its own row is told.

Invariant: a section is what the store says, or it is unavailable and empty; one that can't be read leaves the others.
Cost: at most 176 records, whatever the journal holds: those of 25 versions (how each began, and where it was filed
anew), 50 edges, 50 happenings, 25 facts, and the opening of its session. Most chains read far fewer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from daemon.reads.chain_beginning import origin
from daemon.reads.chain_happenings import events_told
from daemon.reads.chain_lineage import supersession
from daemon.reads.chain_produced import facts_told, proposals_told
from daemon.reads.chain_tracing import Tracing
from daemon.reads.reading import Reading, Unavailable
from daemon.wire import chain_results as c
from journal.errors import DamagedRecord, PartUnreadable
from journal.tsid import memory_ref
from projections.rows import DamagedRow, MemoryRow

CHAIN_LOOKS = 64
"""What a question for chains counts as before it looks at anything: more than is answered on the loop's thread."""
OK = "ok"
UNAVAILABLE = "unavailable"

_Section = TypeVar("_Section")


def chain_of(reading: Reading, tsid: int, row: MemoryRow) -> c.Chain:
    """The chain of a memory of ours. What of it is damaged is kept in `reading.met`."""
    tracing = Tracing(reading, tsid, row)
    sections: dict[str, str] = {}

    def read(name: str, section: Callable[[Tracing], _Section], nothing: _Section) -> _Section:
        try:
            found = section(tracing)
        except (DamagedRow, DamagedRecord, PartUnreadable) as error:
            sections[name] = UNAVAILABLE
            reading.met.unavailable.append(Unavailable(name, memory_ref(row.kind, tsid), error))
            return nothing
        sections[name] = OK
        return found

    chain = c.Chain(
        origin=read("origin", origin, c.ChainOrigin()),
        supersession=read(
            "supersession", supersession, c.ChainSupersession(predecessors=[], successors=[], truncated=False)
        ),
        events=read("events", events_told, c.ChainEvents(items=[], truncated=False)),
        proposals=read("proposals", proposals_told, c.ChainProposals(items=[], truncated=False)),
        facts=read("facts", facts_told, c.ChainFacts(items=[], truncated=False)),
        sections=c.ChainSections(**sections),
    )
    reading.met.foreign += tracing.foreign
    return chain

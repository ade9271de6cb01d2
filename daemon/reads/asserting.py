"""May a memory be told to a person as it is, and with which words before it (contract §4.3).

What sleep made may be asserted as the weakest origin of what it stands on: its sources, and through sources that sleep
made as well, theirs; what stands on something quarantined has to be doubted. It keeps its own hedge, which says where
it comes from.
"""

from __future__ import annotations

from typing import NamedTuple

from daemon.reads.reading import Reading
from journal.codes import Mark, Origin
from projections import edges
from projections.kinds import ORIGINS, Assertable, may_assert, weakest

MOST_SOURCES = 4096
"""What stands on more than this is hedged, like what stands on nothing."""


class Assertion(NamedTuple):
    """`assertable`: without doubt being added."""

    assertable: bool
    hedge: str | None


def assertion(reading: Reading, tsid: int, origin: Origin) -> Assertion:
    """What may be done with a memory of ours of that origin. Raises DamagedRow."""
    rule = ORIGINS[origin]
    if rule.assertable is not Assertable.AS_SOURCES:
        return Assertion(may_assert(origin), rule.hedge)
    return Assertion(may_assert(_weakest_source(reading, tsid)), rule.hedge)


def _weakest_source(reading: Reading, tsid: int) -> Origin:
    found: set[Origin] = set()
    seen = {tsid}
    waiting = [tsid]
    while waiting:
        sources = edges.grounding(reading.state, waiting.pop())
        if not sources:
            return weakest(())
        for _, _, source in sources:
            if source in seen:
                continue
            seen.add(source)
            row = reading.memory(source)
            if row is None or row.has(Mark.QUARANTINED) or len(seen) > MOST_SOURCES:
                return weakest(())
            if ORIGINS[Origin(row.origin)].assertable is Assertable.AS_SOURCES:
                waiting.append(source)
            else:
                found.add(Origin(row.origin))
    return weakest(found)

"""What became known later of a source outside the store: it can, or can't, be followed now (contract §4.5).

No verb says it: who imports or relays finds out, and says it through `Service.set_resolvable`. What was said when the
memory was written stays in its record; this is a record of its own.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from daemon import limits
from daemon.commands.building import Building
from daemon.commands.targets import require
from daemon.decision import Draft
from daemon.prepare import invalid
from daemon.wire.params import Closed
from daemon.wire.vocabulary import Reference
from journal import events
from journal.errors import DamagedRecord
from projections import provenance

SET_RESOLVABLE = "set_resolvable"
"""What the records say was asked for."""


class ResolvableParams(Closed, frozen=True, kw_only=True):
    """`index`: which of the externals of the record that created the memory, in their order there."""

    id: Reference
    index: Annotated[int, Meta(ge=0, lt=limits.REFERENCES)]
    resolvable: bool


def set_resolvable(building: Building, params: Any) -> dict[str, Any]:
    """Say so; the same again is no change. Raises Refused: `not_found`, `conflict` for a purged memory,
    `invalid_input` for one that has no such external source."""
    building.refuse_in_maintenance()
    target = require(building, params.id)
    record = building.view.record(target.row.seq)
    if record is None or not isinstance(record.event, events.MemoryCreated):
        raise DamagedRecord(target.row.seq, "event")
    externals = record.event.externals
    if not 0 <= params.index < len(externals):
        raise invalid("index", f"the memory has {len(externals)} sources outside", limit=len(externals))
    said = externals[params.index].resolvable
    changes = provenance.is_resolvable(building.view.state, target.tsid, params.index, said) != params.resolvable
    if changes:
        event = events.ResolvableChanged(memory=target.ref, index=params.index, resolvable=params.resolvable)
        building.add(Draft(event))
    return {"id": params.id, "changed": changes}

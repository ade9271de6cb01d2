"""relate: a memory extends another, or contradicts it. Neither grounds the other (contract §4.5)."""

from __future__ import annotations

from typing import Any

from daemon.commands.building import Building
from daemon.commands.targets import Target, require
from daemon.decision import Draft
from daemon.prepare import invalid
from journal import events
from journal.codes import EdgeType
from journal.tsid import format_tsid
from projections import edges, tables
from projections.rows import DamagedRow
from projections.state import KEY64, KEY64_64


def relate(building: Building, params: Any) -> dict[str, Any]:
    """Draw an edge. One that is there already is answered, not drawn twice. Raises Refused."""
    building.refuse_in_maintenance()
    source, target = require(building, params.from_, "from"), require(building, params.to, "to")
    if source.tsid == target.tsid:
        raise invalid("to", "a memory has no relation to itself")
    edge_type = EdgeType[params.type.upper()]
    edge = _existing(building, edge_type, source, target)
    if edge is None:
        edge = building.view.new_tsid()
        building.add(Draft(events.Related(source=source.ref, target=target.ref, edge_type=int(edge_type), edge=edge)))
    return {"edge": f"edge:{format_tsid(edge)}"}


def _existing(building: Building, edge_type: EdgeType, source: Target, target: Target) -> int | None:
    """The edge that says the same; `contradicts` says the same in both directions."""
    pairs = [(source, target)]
    if edge_type is EdgeType.CONTRADICTS:
        pairs.append((target, source))
    for one, other in pairs:
        if (int(edge_type), *other.ref) in edges.outgoing(building.view.state, one.tsid):
            return _drawn_by(building, edge_type, one, other)
    return None


def _drawn_by(building: Building, edge_type: EdgeType, source: Target, target: Target) -> int:
    """The id of an edge that there is: the record that drew it touched both ends. Raises DamagedRow."""
    view = building.view
    for key, _ in view.state.entries(tables.TOUCHES, KEY64.pack(source.tsid)):
        record = view.record(KEY64_64.unpack(key)[1])
        event = None if record is None else record.event
        if not isinstance(event, events.Related) or event.edge_type != edge_type:
            continue
        if (event.source, event.target) == (source.ref, target.ref):
            return event.edge
    raise DamagedRow(tables.TOUCHES)  # the edge stands, so a record drew it: the index has lost that

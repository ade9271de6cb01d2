"""forget and recover: the tombstone and its way back (contract §4.6, ERASURE §1)."""

from __future__ import annotations

from typing import Any

from daemon.commands.building import Building
from daemon.commands.targets import (
    children,
    find,
    flagged_children,
    refs,
    require,
    support_of,
    unflagged_children,
    words,
)
from daemon.decision import Draft
from daemon.prepare import UNSET, invalid
from daemon.refusal import Reason, Refused
from daemon.wire.times import format_ms
from journal import events
from journal.codes import Mark

RECOVERED_STRENGTH = 0.2


def forget(building: Building, params: Any) -> dict[str, Any]:
    """Tombstone a memory, also one that sleep has pruned: the marks are independent. An unknown one is found=false; a
    second time changes nothing, and one that is purged is told as such: it is no tombstone. `flagged` are all that now
    have a flag of it, also from when it came to be dormant.
    """
    building.refuse_in_maintenance()
    target = find(building, params.id)
    if target is None:
        return {"found": False, "tombstoned_at": None, "flagged": []}
    row = target.row
    if row.has(Mark.PURGED):
        return {"found": True, "tombstoned_at": None, "flagged": [], "state": Mark.PURGED.wire}
    if row.has(Mark.FORGOTTEN):
        return {"found": True, "tombstoned_at": format_ms(row.dead_at), "flagged": []}
    if row.has(Mark.PROTECTED):
        message = "a protected memory can't be forgotten"
        raise Refused(Reason.CONFLICT, message, parameter="id", ids=[params.id], current="protected")
    flagged = unflagged_children(building, target.tsid)
    building.add(Draft(events.Forgotten(memory=target.ref, strength=0.0, flagged=flagged), words(params.note)))
    return {
        "found": True,
        "tombstoned_at": format_ms(building.view.now_ms),
        "flagged": refs(tuple(children(building, target.tsid))),
    }


def recover(building: Building, params: Any) -> dict[str, Any]:
    """Lift one tombstone: forgotten comes back at strength .2, pruned as it was. Of one that is both, forgotten goes
    first, and it is pruned still."""
    building.refuse_in_maintenance()
    if params.amount is not UNSET:
        raise invalid("amount", "recover takes no amount: strength comes back at .2, or as it was")
    target = require(building, params.id, quarantined=True)
    row = target.row
    mark = Mark.FORGOTTEN if row.has(Mark.FORGOTTEN) else Mark.PRUNED
    if not row.has(mark):
        raise Refused(Reason.CONFLICT, "the memory is neither forgotten nor pruned", ids=[params.id])
    strength = RECOVERED_STRENGTH if mark is Mark.FORGOTTEN else row.strength
    cleared = flagged_children(building, target.tsid) if mark is Mark.FORGOTTEN else ()
    support = support_of(building, params, target)
    event = events.Recovered(
        memory=target.ref, mark=int(mark), old_strength=row.strength, new_strength=strength, cleared=cleared,
        evidence=support.evidence, externals=support.externals,
    )  # fmt: skip
    building.add(Draft(event, support.plain))
    return {
        "id": params.id,
        "strength": {"old": row.strength, "new": strength},
        "confidence": {"old": row.confidence, "new": row.confidence},
        "flags_set": [],
        "flags_cleared": refs(cleared),
    }

"""lifecycle: a tenant's state and enforcement, an operator's recorded decision (contract §4.7)."""

from __future__ import annotations

from typing import Any

from daemon.commands.building import Building
from daemon.prepare import UNSET
from daemon.refusal import Reason, Refused
from journal.codes import TenantState


def lifecycle(building: Building, params: Any) -> dict[str, Any]:
    """Change what is given; without either it only answers. INITIALIZING is never come back to."""
    row = building.tenant_row()
    wanted = None if params.state is UNSET else TenantState[params.state.upper()]
    enforce = None if params.enforce is UNSET else params.enforce
    current = TenantState.INITIALIZING if row is None else TenantState(row.state)
    if wanted is TenantState.INITIALIZING and current is not TenantState.INITIALIZING:
        raise Refused(
            Reason.LIFECYCLE, "a tenant can't go back to INITIALIZING", parameter="state",
            current=current.wire,
        )  # fmt: skip
    changes_state = wanted is not None and wanted is not current
    changes_enforce = enforce is not None and enforce != (row is None or row.enforce)
    if changes_state or changes_enforce:
        building.begin_tenant()
        building.change_tenant(wanted if changes_state else None, enforce if changes_enforce else None)
    after = building.tenant_row()
    return {
        "state": (TenantState.INITIALIZING if after is None else TenantState(after.state)).wire,
        "enforce": True if after is None else after.enforce,
    }

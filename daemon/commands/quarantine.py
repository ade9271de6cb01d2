"""What is said of a memory that cohorts hold back: with their references, which `lift` takes."""

from __future__ import annotations

from typing import Final

from daemon.commands.building import Building
from daemon.refusal import Reason, Refused
from journal.codes import CohortAction
from journal.tsid import format_tsid, memory_ref
from projections import cohorts

COHORTS_TOLD: Final = 3


def is_quarantined(building: Building, parameter: str, kind: int, tsid: int, what: str = "the memory") -> Refused:
    """The refusal; `ids` is the memory, the cohorts stand in the message. Raises DamagedRow."""
    holding = cohorts.holding(building.view.state, tsid)
    held = [f"cohort:{format_tsid(cohort)}" for cohort, action in holding if action is CohortAction.QUARANTINE]
    more = f" and {len(held) - COHORTS_TOLD} more" if len(held) > COHORTS_TOLD else ""
    message = f"{what} is quarantined by {', '.join(held[:COHORTS_TOLD])}{more}: to be lifted first"
    return Refused(
        Reason.QUARANTINED, message, parameter=parameter, ids=[memory_ref(kind, tsid)], current="quarantined"
    )

"""A proposal about what a cohort holds back waits until that is lifted; it can be rejected meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from daemon.refusal import Reason
from tests.daemon.cohorted import BAD, OF_BAD, Cohorted, refused
from tests.daemon.proposed import FACT

PROPOSED: dict[str, dict[str, Any]] = {
    "fact": {"proposal_kind": "fact", "memory": "held", "fact": FACT},
    "resolution": {"proposal_kind": "resolution", "memory": "held"},
    "archive": {"proposal_kind": "retention", "memory": "held", "action": "archive"},
    "leaves": {"proposal_kind": "retention", "memory": "held", "other": "free", "action": "supersede"},
    "takes the place": {"proposal_kind": "retention", "memory": "free", "other": "held", "action": "supersede"},
    "extends": {"proposal_kind": "edge", "memory": "held", "other": "free", "edge": "extends"},
    "is contradicted": {"proposal_kind": "edge", "memory": "free", "other": "held", "edge": "contradicts"},
    "predecessor": {"proposal_kind": "edge", "memory": "free", "other": "held", "edge": "updates"},
}


@pytest.mark.parametrize("name", PROPOSED)
def test_nothing_is_accepted_about_what_is_quarantined(held: Cohorted, name: str) -> None:
    memories = {"held": held.note(BAD), "free": held.note(None)}
    proposed = {key: memories.get(value, value) if isinstance(value, str) else value
                for key, value in PROPOSED[name].items()}  # fmt: skip
    waiting = held.write("propose", proposed)["proposal"]
    cohort = held.act(OF_BAD)
    before, head = [held.memory(ref) for ref in memories.values()], held.store.log.head()
    refusal = refused(Reason.QUARANTINED, held.write, "decide", {"proposal": waiting, "accept": True})
    assert (refusal.data["parameter"], refusal.data["ids"]) == ("proposal", [memories["held"]])
    assert held.store.log.head() == head and [held.memory(ref) for ref in memories.values()] == before
    held.lift(cohort)
    decided = held.write("decide", {"proposal": waiting, "accept": True})
    assert decided["decided"] == "applied" and len(decided["produced"]) == 1


def test_what_is_about_quarantined_memories_can_be_rejected(held: Cohorted) -> None:
    note = held.note(BAD)
    proposal = held.write("propose", {"proposal_kind": "resolution", "memory": note})["proposal"]
    held.act(OF_BAD)
    assert held.write("decide", {"proposal": proposal, "accept": False})["decided"] == "rejected"

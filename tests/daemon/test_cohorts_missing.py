"""Lifting a cohort of which the projections have lost a member: damage, not a smaller cohort."""

from __future__ import annotations

import pytest

from daemon.refusal import Reason
from projections import tables
from tests.daemon.cohorted import BAD, OF_BAD, Cohorted, refused


@pytest.mark.parametrize("action", ["quarantine", "demote"])
def test_a_member_that_is_missing_is_damage_and_given_back_once_it_is_healed(held: Cohorted, action: str) -> None:
    refs = [held.note(BAD) for _ in range(3)]
    cohort = held.act(OF_BAD, action)
    with held.projections.env.write() as txn:
        handle = held.projections.env.db(tables.COHORT_MEMBERS)
        key = next(iter(txn.cursor(db=handle)))[0]
        txn.delete(bytes(key), db=handle)
    refused(Reason.DAMAGED, held.write, "lift", {"cohort": cohort})
    assert tables.COHORT_MEMBERS in held.projections.damaged
    held.read("rebuild", {"what": "cohorts"})
    assert held.write("lift", {"cohort": cohort})["done"] == 3
    assert {each["status"] for each in held.read("get", {"ids": refs})["memories"]} == {"active"}

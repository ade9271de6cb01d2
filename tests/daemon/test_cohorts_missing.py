"""Lifting a cohort of which the projections have lost a member: damage, not a smaller cohort."""

from __future__ import annotations

import pytest

from daemon.refusal import Reason
from journal.record import HEAD_BYTES, seq_key
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


def test_a_cohort_whose_record_is_damaged_may_have_had_the_token(held: Cohorted) -> None:
    """Nothing is done then with a token of before; who looks again gets one of behind it."""
    held.note(BAD)
    token = held.look(OF_BAD)["token"]
    held.act(OF_BAD)
    seq = held.store.log.head().seq
    flip(held, seq)
    refused(Reason.DAMAGED, held.look, OF_BAD, token=token)
    assert held.store.log.head().seq == seq
    assert "duplicate" not in held.look(OF_BAD, token=held.look(OF_BAD)["token"])
    flip(held, seq)  # as it was
    assert held.look(OF_BAD, token=token)["done"] == 1


def flip(held: Cohorted, seq: int) -> None:
    """A bit of the body of record `seq`."""
    env = held.store.env
    with env.write() as txn:
        value = bytearray(txn.get(seq_key(seq), db=env.db("records")) or b"")
        value[HEAD_BYTES + 3] ^= 1
        txn.put(seq_key(seq), bytes(value), db=env.db("records"))

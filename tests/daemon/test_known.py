"""A memory as it was known then, by no more of its records than tell."""

from __future__ import annotations

from daemon.wire.times import format_ms
from journal.record import HEAD_BYTES, seq_key
from tests.daemon.told import Told


def damage_record(told: Told, seq: int) -> None:
    env = told.store.env
    with env.write() as txn:
        value = bytearray(txn.get(seq_key(seq), db=env.db("records")) or b"")
        value[HEAD_BYTES + 3] ^= 1
        txn.put(seq_key(seq), bytes(value), db=env.db("records"))


def test_one_of_which_all_was_known_then_is_as_it_is_now(told: Told) -> None:
    """Its row tells: a record between, that can't be read, takes nothing away."""
    ref = told.note(told.raw())
    told.do("reinforce", ref)
    between = told.store.log.head().seq
    told.do("mark", ref, mark="archived")
    then = format_ms(told.now_ms)
    told.now_ms += 1000
    damage_record(told, between)
    asked = {"sel": {"status": ["archived"]}, "as_known_at": then}
    (known,) = told.read("list", asked)["memories"]
    assert (known["id"], known["status"], known["text"]) == (ref, "archived", told.memory(ref)["text"])
    assert told.store.findings == []
    damage_record(told, between)  # as it was


def test_one_of_which_not_all_was_known_then_is_folded_from_what_was(told: Told) -> None:
    ref = told.note(told.raw(), confidence=0.5)
    told.do("verify", ref)
    then, before = format_ms(told.now_ms), told.memory(ref)
    told.now_ms += 1000
    told.do("verify", ref)
    (known,) = told.read("get", {"ids": [ref], "as_known_at": then})["memories"]
    assert known["confidence"]["stored"] == before["confidence"]["stored"] < told.memory(ref)["confidence"]["stored"]

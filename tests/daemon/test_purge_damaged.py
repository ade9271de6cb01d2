"""purge where something is damaged: what can be read goes, what can't is told, and nothing is done by halves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon.refusal import Reason
from journal.codes import Part
from journal.record import HEAD_BYTES, seq_key
from journal.tsid import parse_memory_ref
from journal.vault import SLOT_BYTES, SLOTS_OFFSET
from tests.daemon.cohorted import refused
from tests.daemon.purged import Purging


@pytest.fixture
def purging(tmp_path: Path) -> Iterator[Purging]:
    opened = Purging(tmp_path / "state")
    try:
        yield opened
    finally:
        opened.close(True)


def one(result: dict[str, Any]) -> dict[str, Any]:
    (found,) = result["results"]
    return dict(found)


# --- keys -------------------------------------------------------------------------------------------


def test_a_fingerprint_is_told_of_the_memory_whose_text_it_keeps_out(purging: Purging) -> None:
    """One text that can't be read is not kept out, whatever else goes with it."""
    refs = [purging.capture("sound"), purging.capture("damaged")]
    damage_slot(purging, refs[1])
    done = purging.purge(*refs, block_reingest=True)
    assert [each["fingerprint_retained"] for each in done["results"]] == [True, False]
    assert ["test guesses" in each["disclosure"] for each in done["results"]] == [True, False]
    (receipt,) = purging.read("purges", {"receipt": done["receipt"]})["purges"]
    assert receipt["results"] == done["results"]


def test_a_text_whose_key_is_damaged_is_purged_and_shared_no_more(purging: Purging) -> None:
    """What it was found by is not known, since it can't be read: it is let go of by the slot of its key."""
    ref, kept = purging.capture("damaged text"), purging.capture("kept")
    names = purging.service.names
    assert len(names.texts) == 2
    slot = damage_slot(purging, ref)
    told = one(purging.purge(ref))
    assert told["text_destroyed"] and told["text_bytes"] == len("damaged text")
    assert slot not in [part.slot for _, part in names.texts.items()] and len(names.texts) == 1
    assert purging.store.vault.state(slot).name == "SHREDDED"
    again = purging.capture("damaged text")
    assert purging.memory(again)["text"] == "damaged text" and purging.memory(kept)["text"] == "kept"
    purging.reopen(True)
    assert purging.memory(again)["text"] == "damaged text" and purging.rebuilt_alike()


def damage_slot(purging: Purging, ref: str) -> int:
    """Spoil the key of a memory's text on the disk; its slot."""
    genesis = next(r.event for r in purging.records("MemoryCreated") if r.event.id == parse_memory_ref(ref)[1])
    slot = int(next(part.slot for part in genesis.parts if part.part == Part.TEXT))
    with (purging.root / "vault").open("r+b") as file:
        file.seek(SLOTS_OFFSET + slot * SLOT_BYTES + 20)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes((byte ^ 0xFF,)))
    assert purging.store.vault.state(slot).name == "DAMAGED"
    return slot


# --- records ----------------------------------------------------------------------------------------


def damage_record(purging: Purging, seq: int) -> None:
    """Spoil a record in the journal."""
    env = purging.store.env
    with env.write() as txn:
        value = bytearray(txn.get(seq_key(seq), db=env.db("records")) or b"")
        value[HEAD_BYTES + 3] ^= 1
        txn.put(seq_key(seq), bytes(value), db=env.db("records"))


def genesis(purging: Purging, ref: str) -> int:
    tsid = parse_memory_ref(ref)[1]
    return int(next(r.seq for r in purging.records("MemoryCreated") if r.event.id == tsid))


def test_a_damaged_record_costs_its_memory_only(purging: Purging) -> None:
    refs = [purging.capture(f"canary {number}") for number in range(5)]
    damage_record(purging, genesis(purging, refs[2]))
    told = purging.purge(*refs, dry_run=True)
    done = purging.purge(*refs)
    for result in (told, done):
        assert [each["damaged"] for each in result["results"]] == [False, False, True, False, False]
        assert (result["count"], result["totals"]["memories"]) == (4, 4)
    left = done["results"][2]
    assert (left["found"], left["purged_at"], left["keys_shredded"], left["memory"]) == (True, None, 0, refs[2])
    assert purging.read("purges", {"receipt": done["receipt"]})["purges"][0]["memories"] == [*refs[:2], *refs[3:]]
    assert any(finding.code == "read_damaged" for finding in purging.store.findings)


def test_where_nothing_else_is_left_the_call_is_refused_as_damaged(purging: Purging) -> None:
    ref = purging.capture("canary")
    damage_record(purging, genesis(purging, ref))
    head = purging.store.log.head().seq
    assert refused(Reason.DAMAGED, purging.purge, ref)
    assert purging.store.log.head().seq == head and not purging.store.vault.shredded_slots(100)


def test_a_text_stays_with_a_co_tenant_that_is_left_because_it_is_damaged(purging: Purging) -> None:
    """What goes with what depends on all that go: the plan is made anew without it."""
    first, second = purging.capture("twin"), purging.capture("twin", topic="its own")
    damage_record(purging, genesis(purging, second))
    done = purging.purge(first, second)
    assert [each["damaged"] for each in done["results"]] == [False, True]
    assert done["results"][0]["text_retained_shared"] == 4 and not done["results"][0]["text_destroyed"]
    assert purging.store.vault.state(1).name == "KEYED"


def test_a_session_whose_record_is_damaged_keeps_one_memory_and_the_others_go(purging: Purging) -> None:
    turns = purging.turns(3, "canary key")
    opened = next(record.seq for record in purging.records("SessionOpened"))
    damage_record(purging, opened)
    done = purging.purge(*turns)
    assert [each["damaged"] for each in done["results"]].count(True) == 1 and done["count"] == 2


def test_a_note_on_it_that_is_damaged_leaves_it_whole(purging: Purging) -> None:
    """Half a purge would be told as a whole one."""
    ref, other = purging.capture("canary"), purging.capture("other")
    purging.do("verify", ref, note="canary note")
    damage_record(purging, next(record.seq for record in purging.records("Verified")))
    done = purging.purge(ref, other)
    assert [each["damaged"] for each in done["results"]] == [True, False]
    assert purging.memory(ref)["text"] == "canary" and purging.status(other) == "purged"

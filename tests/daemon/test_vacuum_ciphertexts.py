"""Ciphertexts of destroyed keys leave with a vacuum, never one that lives; nothing misses them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from journal import events
from journal.log import sealed_key
from journal.verify import verify_in_child
from projections.partitions import SEALING_BYTES
from tests.daemon.test_vacuum import told
from tests.daemon.vacuumed import Filled

DAY = "2026-09-21"


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Filled]:
    opened = Filled(tmp_path / "state")
    yield opened
    opened.close(True)


def ciphertexts(filled: Filled) -> set[bytes]:
    """The keys of all that lie in the journal."""
    with filled.store.env.read() as txn, txn.cursor(db=filled.store.env.db("sealed")) as cursor:
        return {bytes(key) for key, _ in cursor}


def test_the_ciphertexts_of_the_purged_leave_and_all_else_stays(filled: Filled) -> None:
    turns = [filled.turn(f"turn number {n}", tags=["a tag"]) for n in range(40)]
    filled.write("verify", {"id": turns[0], "note": "some words about it"})
    about = filled.store.log.head().seq
    filled.forget(*turns[5:10])
    filled.purge(*turns[:5])
    before = ciphertexts(filled)
    gone = {sealed_key(filled.memory_row(ref).seq, part) for ref in turns[:5] for part in (1, 2)} & before
    gone |= {key for key in before if key.startswith(about.to_bytes(8, "big"))}
    assert len(gone) == 11
    answers = told(filled, turns)
    bytes_before = filled.listed()[DAY]["bytes"]
    result = filled.vacuum(force=True)[DAY]
    assert result["ciphertexts_removed"] == 11 and result["tombstones_removed"] == 10
    assert before - ciphertexts(filled) == gone
    (slice_,) = (record.event for record in filled.written(events.Vacuumed))
    assert isinstance(slice_, events.Vacuumed)
    assert {sealed_key(*each) for each in slice_.removed} == gone
    assert bytes_before - filled.listed()[DAY]["bytes"] == slice_.bytes_reclaimed
    assert slice_.bytes_reclaimed == 10 * 64 + slice_.own_bytes
    assert told(filled, turns) == answers
    assert filled.read("audit", {"rebuild": True})["findings"] == []
    filled.check_rows()
    assert filled.rebuilt_alike()


def test_a_shared_text_stays_until_its_last_owner_is_purged(filled: Filled) -> None:
    first = filled.turn("the same words")
    others = filled.turns(8)
    filled.day_over()
    second = filled.turn("the same words", key="two")
    (owner,) = (
        part for record in filled.written(events.MemoryCreated)
        if isinstance(record.event, events.MemoryCreated) and record.seq == filled.memory_row(second).seq
        for part in record.event.parts if part.part == 1
    )  # fmt: skip
    assert owner.owner_seq == filled.memory_row(first).seq
    filled.purge(first)
    assert filled.vacuum(force=True)[DAY]["ciphertexts_removed"] == 0
    assert filled.memory(second)["text"] == "the same words"
    filled.purge(second)
    before = ciphertexts(filled)
    result = filled.vacuum(force=True)
    assert result["2026-09-22"]["ciphertexts_removed"] == len(before - ciphertexts(filled)) == 2, (
        "its session's name too"
    )
    assert sealed_key(owner.owner_seq, 1) not in ciphertexts(filled)
    assert [filled.memory(ref)["text"] for ref in others] == [f"one {n}" for n in range(1, 9)]
    assert filled.read("audit", {})["findings"] == []


def test_what_is_purged_after_its_row_was_taken_is_collected_later(filled: Filled) -> None:
    turns = filled.turns(20)
    filled.forget(*turns[:5])
    filled.vacuum(force=True)
    filled.purge(turns[0], turns[1])
    before = ciphertexts(filled)
    assert filled.listed()[DAY]["dead"] == 0, "their rows have left already"
    assert filled.vacuum()[DAY]["ciphertexts_removed"] == 0
    result = filled.vacuum(force=True)[DAY]
    assert (result["ciphertexts_removed"], result["tombstones_removed"], result["compacted"]) == (2, 0, True)
    assert len(before - ciphertexts(filled)) == 2
    assert filled.vacuum(force=True)[DAY]["compacted"] is False, "there is nothing left to do"
    assert filled.memory(turns[0])["status"] == "purged"
    filled.check_rows()
    assert filled.rebuilt_alike()


def test_one_purge_over_two_partitions_leaves_with_each_its_own(filled: Filled) -> None:
    first = filled.turns(10)
    filled.day_over()
    second = filled.turns(10, key="two")
    filled.purge(*first[:3], *second[:4])
    assert filled.vacuum(partition=DAY)[DAY]["ciphertexts_removed"] == 3
    assert filled.vacuum(force=True)["2026-09-22"]["ciphertexts_removed"] == 4


def test_an_empty_text_and_purged_ones_are_told_apart(filled: Filled) -> None:
    """A turn whose parts are few is not taken for one that was purged."""
    short = filled.turn(".")
    turns = filled.turns(8)
    filled.purge(*turns[:4])
    assert filled.vacuum(force=True)[DAY]["tombstones_removed"] == 4
    assert filled.memory(short)["text"] == "." and filled.memory(short)["status"] == "active"


def test_bytes_are_those_that_were_there(filled: Filled) -> None:
    turns = filled.turns(10)
    filled.purge(*turns[:5])
    texts = sum(len(f"one {n}") + SEALING_BYTES for n in range(1, 6))
    assert filled.vacuum(force=True)[DAY]["bytes_reclaimed"] == texts + 5 * 64


def test_a_missing_ciphertext_that_no_record_names_is_still_a_finding(filled: Filled) -> None:
    turns = filled.turns(10)
    filled.purge(*turns[:5])
    filled.vacuum(force=True)
    lost = sealed_key(filled.memory_row(turns[7]).seq, 1)
    with filled.store.env.write() as txn:
        assert txn.delete(lost, db=filled.store.env.db("sealed"))
    found = filled.read("audit", {})["findings"]
    assert [(each["code"], each["seq"]) for each in found] == [("sealed_missing", filled.memory_row(turns[7]).seq)]


def test_a_purged_one_below_the_threshold_keeps_its_ciphertext_and_can_not_be_read(filled: Filled) -> None:
    turns = filled.turns(10)
    filled.day_over()
    filled.purge(turns[0])
    before = ciphertexts(filled)
    assert filled.vacuum()[DAY]["compacted"] is False
    assert ciphertexts(filled) == before and filled.memory(turns[0])["status"] == "purged"


def test_the_store_is_sound_when_it_is_opened_again(filled: Filled) -> None:
    turns = filled.turns(30)
    filled.purge(*turns[::2])
    filled.vacuum(force=True)
    filled.reopen(False)
    assert filled.store.findings == []
    filled.close(True)
    assert verify_in_child(filled.root).findings == ()
    filled._open()
    assert filled.rebuilt_alike()


def test_a_purged_memory_in_the_tail_of_a_large_partition_does_not_keep_it_from_being_compacted(filled: Filled) -> None:
    """The last slice takes a short tail along: what was purged there is looked up with it."""
    for size in (600, 1100):
        made = filled.notes(size)
        filled.purge(made[10], made[-10])
        (result,) = filled.write("vacuum", {"force": True, "tier": "semantic"})["results"]
        assert (result["compacted"], result["tombstones_removed"]) == (True, 2)

"""Ciphertexts of destroyed keys leave with a vacuum, never one that lives; nothing misses them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from daemon import erasing
from daemon.asking import Asking
from daemon.call import Call
from daemon.wire.verbs import VERBS
from journal import events
from journal.log import sealed_key
from journal.verify import verify_in_child
from projections.partitions import SEALING_BYTES
from tests.daemon.test_vacuum import told
from tests.daemon.vacuumed import Filled, ciphertexts, shredded_left
from tests.model.opened import OPERATOR

DAY = "2026-09-21"


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Filled]:
    opened = Filled(tmp_path / "state")
    yield opened
    opened.close(True)


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
    assert slice_.counted == ((filled.listed()[DAY]["number"], slice_.removed_bytes),)
    assert bytes_before - filled.listed()[DAY]["bytes"] == result["bytes_reclaimed"] == 10 * 64 + slice_.removed_bytes
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


@pytest.mark.parametrize("first_day", [DAY, "2026-09-22"])
def test_a_shared_text_leaves_whichever_day_is_vacuumed_first(filled: Filled, first_day: str) -> None:
    """It goes with the memory whose purge destroyed it; its bytes leave the day where it was written."""
    first = filled.turn("the same words")
    others = filled.turns(8)
    filled.day_over()
    second = filled.turn("the same words", key="two")
    filled.turns(8, key="two")
    filled.day_over()
    text = sealed_key(filled.memory_row(first).seq, 1)
    filled.purge(first)
    filled.purge(second)
    assert text in ciphertexts(filled)
    before = {name: row["bytes"] for name, row in filled.listed().items()}
    days = [DAY, "2026-09-22"]
    for day in sorted(days, reverse=first_day != DAY):
        assert filled.vacuum(partition=day, force=True)[day]["compacted"] is True
    assert text not in ciphertexts(filled) and shredded_left(filled) == set()
    less = {name: before[name] - row["bytes"] for name, row in filled.listed().items()}
    assert less == {DAY: 64 + len("the same words") + SEALING_BYTES, "2026-09-22": 64}
    assert [filled.memory(ref)["text"] for ref in others] == [f"one {n}" for n in range(1, 9)]
    assert filled.rebuilt_alike()


@pytest.mark.parametrize("behind", [0, 1050])
@pytest.mark.parametrize("made_first", [True, False])
def test_words_about_a_living_memory_leave_with_the_purged_one_that_they_name(
    filled: Filled, made_first: bool, behind: int
) -> None:
    """Whether the living one lies in the same slice or in another."""
    (living,) = filled.notes(1) if made_first else ("",)
    between = filled.notes(behind)
    (gone,) = filled.notes(1)
    filled.notes(behind)
    if not made_first:
        (living,) = filled.notes(1)
    filled.write("propose", {"proposal_kind": "edge", "memory": living, "other": gone, "edge": "contradicts",
                             "note": "secret words"})  # fmt: skip
    (made,) = filled.written(events.ProposalMade)
    words = {key for key in ciphertexts(filled) if key[:8] == made.seq.to_bytes(8, "big")}
    assert len(words) == 1
    filled.purge(gone, *between[:1])
    assert words <= shredded_left(filled)
    assert filled.vacuum(tier="semantic", force=True)["semantic"]["compacted"] is True
    assert shredded_left(filled) == set()
    assert filled.memory(living)["status"] == "active"
    assert filled.rebuilt_alike()


def test_words_about_a_living_memory_of_another_day_leave_too(filled: Filled) -> None:
    turn = filled.turn("a raw one")
    filled.turns(8)
    (note,) = filled.notes(1)
    filled.write("propose", {"proposal_kind": "edge", "memory": note, "other": turn, "edge": "extends",
                             "note": "secret words"})  # fmt: skip
    before = filled.listed()["semantic"]["bytes"]
    filled.purge(turn)
    assert len(shredded_left(filled)) == 2
    filled.vacuum(partition=DAY, force=True)
    assert shredded_left(filled) == set()
    less = len("secret words")  # sealed in a struct: a little more than the words alone
    assert less < before - filled.listed()["semantic"]["bytes"] < less + SEALING_BYTES + 16


def test_what_a_purge_lists_in_records_that_go_on_with_it_leaves_with_its_memory(
    filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasing, "PARTS_A_RECORD", 2)
    turns = [filled.turn(f"a turn {number}", tags=["a"]) for number in range(12)]
    filled.day_over()
    filled.purge(*turns[:5])
    assert [len(each.event.targets) for each in filled.written(events.Purged)] == [5, 0, 0, 0, 0]  # type: ignore[union-attr]
    assert len(shredded_left(filled)) == 10
    assert filled.vacuum(partition=DAY)[DAY]["ciphertexts_removed"] == 10
    assert shredded_left(filled) == set()


def test_what_was_purged_without_a_memory_leaves_by_force_only(filled: Filled) -> None:
    """A session in which nothing was said: no row leads to its key."""
    filled.turns(4)
    session = filled.write("session_open", {"agent": "a", "key": "solo", "project": "p"})["session"]
    asked = {"sel": {"session": session}}
    filled.write("purge", {**asked, "token": filled.write("purge", asked)["token"]})
    assert [record.event.targets for record in filled.written(events.Purged)] == [()]  # type: ignore[union-attr]
    left = shredded_left(filled)
    head = filled.store.log.head()
    for narrower in ({}, {"partition": DAY, "force": True}, {"dry_run": True, "force": True}):
        assert filled.vacuum(**narrower)[DAY]["ciphertexts_removed"] == 0
    assert left and shredded_left(filled) == left and filled.store.log.head() == head
    result = filled.vacuum(force=True)[DAY]
    assert result["ciphertexts_removed"] == len(left) and result["bytes_reclaimed"] > 28 * len(left)
    assert (result["compacted"], result["reason"]) == (False, "nothing_dead") and filled.states() == {DAY: "active"}
    assert shredded_left(filled) == set()
    assert filled.vacuum(force=True)[DAY]["ciphertexts_removed"] == 0
    assert filled.read("audit", {"rebuild": True})["findings"] == []
    filled.check_rows()
    assert filled.rebuilt_alike()


def test_one_that_is_purged_while_its_partition_is_gone_through_is_collected_with_it(filled: Filled) -> None:
    """Its row has left with an earlier slice, or stays dead behind it; of its ciphertext nothing is left."""
    notes = filled.notes(3000)
    filled.forget(*notes[:6], notes[-1])
    gone = iter((notes[0], notes[1], notes[2]))

    class Purges(Asking):
        def check(self) -> None:
            ref = next(gone, None)
            if ref is not None and len(filled.written(events.Vacuumed)):
                filled.purge(ref)

    typed = msgspec.convert({"force": True, "partition": "semantic"}, VERBS["vacuum"].params)
    filled.service.submit(Call("vacuum", typed, OPERATOR, lambda outcome: None, asking=Purges()))
    _, outcome = filled._answers.get(timeout=60)
    assert outcome.results[0].compacted is True  # type: ignore[union-attr]
    assert filled.memory(notes[2])["status"] == "purged"
    assert shredded_left(filled) == set() and filled.partition(1).late == 0
    filled.check_rows()
    assert filled.rebuilt_alike()


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

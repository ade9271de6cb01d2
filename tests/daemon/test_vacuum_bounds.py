"""What leaves with one command of a vacuum has a bound, and what is damaged costs itself only, and is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon import vacuum_looking
from journal import events
from journal.record import HEAD_BYTES, seq_key
from projections import tables
from projections.state import KEY32_32
from tests.daemon.test_vacuum_faults import flip
from tests.daemon.vacuumed import Filled, ciphertexts, shredded_left

DAY = "2026-09-21"
MOST = 7


@pytest.fixture
def filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Filled]:
    monkeypatch.setattr(vacuum_looking, "PARTS_AT_ONCE", MOST)
    opened = Filled(tmp_path / "state")
    yield opened
    opened.close(True)


def removed(filled: Filled) -> list[int]:
    """How many ciphertexts left with each command."""
    found = (record.event for record in filled.written(events.Vacuumed))
    return [len(each.removed) for each in found if isinstance(each, events.Vacuumed)]


def damage_record(filled: Filled, seq: int) -> None:
    with filled.store.env.write() as txn:
        db = filled.store.env.db("records")
        value = bytearray(txn.get(seq_key(seq), db=db) or b"")
        value[HEAD_BYTES + 40] ^= 1
        txn.put(seq_key(seq), bytes(value), db=db)


def alone(filled: Filled, key: str) -> int:
    """The record that purges a session without memories."""
    session = filled.write("session_open", {"agent": "a", "key": key, "project": "p"})["session"]
    asked = {"sel": {"session": session}}
    filled.write("purge", {**asked, "token": filled.write("purge", asked)["token"]})
    return filled.written(events.Purged)[-1].seq


def test_what_leaves_with_a_slice_leaves_a_few_at_a_time(filled: Filled) -> None:
    turns = [filled.turn(f"turn number {number}", tags=["a tag"]) for number in range(40)]
    filled.purge(*turns[:20])
    before = len(shredded_left(filled))
    assert filled.vacuum(partition=DAY, force=True)[DAY]["ciphertexts_removed"] == before == 40
    assert max(removed(filled)) == MOST and sum(removed(filled)) == before
    assert shredded_left(filled) == set()
    assert filled.read("audit", {"rebuild": True})["findings"] == []
    filled.check_rows()
    assert filled.rebuilt_alike()


def test_so_does_what_was_purged_late(filled: Filled) -> None:
    turns = [filled.turn(f"turn number {number}", tags=["a tag"]) for number in range(40)]
    filled.forget(*turns[:20])
    filled.vacuum(partition=DAY, force=True)
    filled.purge(*turns[:20])
    number = filled.listed()[DAY]["number"]
    assert filled.partition(number).late == 20
    assert filled.vacuum(partition=DAY, force=True)[DAY]["ciphertexts_removed"] == 40
    assert max(removed(filled)) == MOST and filled.partition(number).late == 0
    assert shredded_left(filled) == set()
    filled.check_rows()
    assert filled.rebuilt_alike()


def test_so_does_what_no_row_leads_to_whether_one_record_lists_it_or_many_do(filled: Filled) -> None:
    """A page of rows is damaged, so that all is found by the records that destroyed it."""
    turns = [filled.turn(f"turn number {number}", tags=["a tag"]) for number in range(40)]
    filled.purge(*turns[:20])
    for ref in turns[20:30]:
        filled.purge(ref)
    before = len(shredded_left(filled))
    flip(filled, tables.ROWS, KEY32_32.pack(filled.listed()[DAY]["number"], 0))
    result = filled.vacuum(force=True)[DAY]
    assert (result["compacted"], result["reason"]) == (False, "damaged")
    assert result["ciphertexts_removed"] == before == 60
    assert max(removed(filled)) == MOST and len(removed(filled)) == -(-before // MOST)
    assert shredded_left(filled) == set(), "nobody can open it: no damage is a reason to keep it"


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_record_that_can_not_be_read_costs_what_it_lists_and_is_told(filled: Filled, at: int) -> None:
    filled.turns(4)
    seqs = [alone(filled, f"solo {number}") for number in range(3)]
    each = len(shredded_left(filled)) // 3
    damage_record(filled, seqs[at])
    left = ciphertexts(filled)
    result = filled.vacuum(force=True)[DAY]
    assert result["reason"] == "rest_damaged"
    assert result["ciphertexts_removed"] == len(left - ciphertexts(filled)) == 2 * each
    assert [finding.seq for finding in filled.store.findings] == [seqs[at]], "and status tells of it"


def test_a_compacted_partition_tells_of_it_too(filled: Filled) -> None:
    turns = filled.turns(4)
    damage_record(filled, alone(filled, "solo"))
    filled.forget(turns[0])
    result = filled.vacuum(force=True)[DAY]
    assert (result["compacted"], result["reason"]) == (True, "rest_damaged")

"""Partitions as a state machine: which states they go through, when, and that each step is a record of its cause."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.call import Call
from daemon.refusal import Reason, Refused
from daemon.wire import params as p
from journal import events
from journal.codes import PartitionState
from projections import tables
from projections.state import KEY32
from tests.daemon.slept import fact
from tests.daemon.test_vacuum_faults import EndsAfter, flip, vacuum_with
from tests.daemon.vacuumed import Filled
from tests.model.opened import OPERATOR

ACTIVE, SEALED, REFLECTABLE, TOMBSTONED, COMPACTED = (int(state) for state in PartitionState)
DAY = "2026-09-21"


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Filled]:
    opened = Filled(tmp_path / "state")
    yield opened
    opened.close(True)


def test_a_row_of_the_list_says_all(filled: Filled) -> None:
    first = filled.now_ms + 1
    turns = filled.turns(4)
    filled.forget(turns[0])
    (row,) = filled.read("partitions", {})["results"]
    texts = sum(len(f"one {number}") for number in range(1, 5))
    assert row.pop("bytes") == 4 * 64 + texts + 4 * 28
    assert row.pop("since").endswith(f"{first % 1000:03}Z")
    assert row == {
        "partition": DAY, "number": 1, "tier": "episodic", "day": DAY, "state": "active", "rows": 4, "dead": 1,
        "ratio": 0.25,
    }  # fmt: skip


def test_the_list_is_paged_and_filtered_by_tier(filled: Filled) -> None:
    for _ in range(3):
        filled.turns(1)
        filled.now_ms += 86_400_000
    filled.notes(1)
    first = filled.read("partitions", {"limit": 2})
    assert [row["number"] for row in first["results"]] == [1, 2] and first["total"] == 4
    second = filled.read("partitions", {"limit": 2, "cursor": first["next_cursor"]})
    assert [row["number"] for row in second["results"]] == [3, 4] and second["next_cursor"] is None
    assert list(filled.listed(tier="semantic")) == ["semantic"]
    assert len(filled.listed(tier="episodic")) == 3
    assert filled.listed(tier="procedural") == {}
    with pytest.raises(Refused):
        filled.read("partitions", {"limit": 2, "tier": "episodic", "cursor": first["next_cursor"]})


def test_the_day_that_is_over_is_sealed_by_the_next_write(filled: Filled) -> None:
    filled.turns(2)
    filled.now_ms += 86_400_000
    filled.turns(1)
    assert filled.states() == {DAY: "sealed", "2026-09-22": "active"}
    record = filled.written(events.PartitionChanged)[0]
    opened = filled.written(events.PartitionOpened)[-1]
    assert record.cause == opened.cause and record.cause.verb == "remember"


def test_a_silent_tenant_is_sealed_by_the_tick_once(filled: Filled) -> None:
    filled.turns(2)
    filled.service.roll_over()
    assert filled.states() == {DAY: "active"}
    filled.day_over()
    assert filled.states() == {DAY: "sealed"}
    head = filled.store.log.head()
    filled.service.roll_over()
    assert filled.store.log.head() == head
    filled.turns(1)
    assert filled.states() == {DAY: "sealed", "2026-09-22": "active"}


def test_sealed_becomes_reflectable_when_the_last_living_turn_is_settled(filled: Filled) -> None:
    turns = filled.turns(4)
    filled.forget(turns[3])
    filled.day_over()
    assert filled.states()[DAY] == "tombstoned", "a quarter of it is dead"
    others = filled.turns(6)
    filled.day_over()
    filled.commit([fact(*turns[:3], *others[:2])], last=False)
    filled.commit([], noise=others[2:5])
    assert filled.states()["2026-09-22"] == "sealed", "one turn waits"
    filled.forget(others[5])
    assert filled.states()["2026-09-22"] == "reflectable", "whoever is dead doesn't wait"
    assert filled.changes()[-1] == (2, SEALED, REFLECTABLE)
    assert filled.written(events.PartitionChanged)[-1].cause.verb == "forget"


def test_a_day_without_turns_is_reflectable_at_once(filled: Filled) -> None:
    filled.write("remember", {"kind": "raw", "text": "a capture", "origin": "told"})
    filled.day_over()
    assert filled.changes() == [(1, ACTIVE, SEALED), (1, SEALED, REFLECTABLE)]


def test_turns_that_wait_again_make_it_sealed_again(filled: Filled) -> None:
    turns = filled.turns(6)
    filled.commit([fact(*turns)])
    filled.day_over()
    assert filled.states()[DAY] == "reflectable"
    cohort = filled.write("cohort", {"action": "rederive", "sel": {"kinds": ["note"]}})
    made = filled.write("cohort", {"action": "rederive", "sel": {"kinds": ["note"]}, "token": cohort["token"]})
    assert filled.states()[DAY] == "sealed"
    filled.write("lift", {"cohort": made["cohort"]})
    assert filled.states()[DAY] == "reflectable"
    assert filled.changes()[-2:] == [(1, REFLECTABLE, SEALED), (1, SEALED, REFLECTABLE)]


def test_a_recovered_turn_that_no_pass_settled_waits_again(filled: Filled) -> None:
    turns = filled.turns(10)
    filled.forget(turns[9])
    filled.commit([fact(*turns[:9])])
    filled.day_over()
    assert filled.states()[DAY] == "reflectable"
    filled.write("recover", {"id": turns[9]})
    assert filled.states()[DAY] == "sealed"
    filled.commit([], noise=[turns[9]])
    assert filled.states()[DAY] == "reflectable"


@pytest.mark.parametrize(("rows", "dead", "state"), [(100, 19, "active"), (100, 20, "tombstoned"), (99, 50, "active")])
def test_an_accepting_day_closes_at_a_hundred_rows_and_the_threshold(
    filled: Filled, rows: int, dead: int, state: str
) -> None:
    turns = filled.turns(rows)
    filled.forget(*turns[:dead])
    assert filled.states() == {DAY: state}


def test_a_closed_day_accepts_no_more(filled: Filled) -> None:
    filled.forget(*filled.turns(100)[:20])
    record = filled.written(events.PartitionChanged)[-1]
    event = record.event
    assert isinstance(event, events.PartitionChanged)
    assert (event.old, event.new, event.rows, event.dead, event.threshold) == (ACTIVE, TOMBSTONED, 100, 20, 0.2)
    assert record.cause.verb == "forget"
    filled.turns(1)
    assert filled.states() == {DAY: "tombstoned", f"{DAY}.1": "active"}
    filled.forget(*filled.turns(100, key="two")[:40])
    filled.reopen(True)
    filled.turns(1)
    assert filled.states() == {DAY: "tombstoned", f"{DAY}.1": "tombstoned", f"{DAY}.2": "active"}
    assert filled.rebuilt_alike()


def test_in_one_batch_the_next_write_goes_to_the_new_part(filled: Filled) -> None:
    """A partition that a write closes is closed for what is decided behind it in the same commit."""
    turns = filled.turns(100)
    filled.forget(*turns[:19])
    calls = [
        Call("forget", p.ForgetParams(id=turns[19]), OPERATOR, lambda outcome: None),
        Call("remember", p.RememberParams(kind="raw", text="behind", origin="told"), OPERATOR, lambda outcome: None),
    ]

    def submit() -> None:
        for call in calls:
            filled.service.submit(call)

    filled.service.writer.between(submit)
    for _ in calls:
        filled._answers.get(timeout=30)
    assert filled.listed()[f"{DAY}.1"]["rows"] == 1


@pytest.mark.parametrize(("dead", "state"), [(1, "sealed"), (2, "tombstoned")])
def test_a_sealed_day_is_tombstoned_at_the_threshold_however_small(filled: Filled, dead: int, state: str) -> None:
    turns = filled.turns(10)
    filled.day_over()
    filled.forget(*turns[:dead])
    assert filled.states()[DAY] == state


def test_the_threshold_is_configured_and_stands_in_the_record(tmp_path: Path) -> None:
    filled = Filled(tmp_path / "state", threshold=0.5)
    try:
        turns = filled.turns(10)
        filled.day_over()
        filled.forget(*turns[:4])
        assert filled.states()[DAY] == "sealed"
        filled.forget(turns[4])
        assert filled.states()[DAY] == "tombstoned"
        event = filled.written(events.PartitionChanged)[-1].event
        assert isinstance(event, events.PartitionChanged) and event.threshold == 0.5
        filled.close(True)
        filled.threshold = 0.01
        filled._open()
        assert filled.rebuilt_alike(), "what was decided is not decided again"
    finally:
        filled.close(True)


def test_a_compacted_day_is_tombstoned_by_the_next_death(filled: Filled) -> None:
    turns = filled.turns(20)
    filled.day_over()
    filled.forget(*turns[:4])
    filled.vacuum()
    assert filled.states()[DAY] == "compacted"
    filled.commit([fact(*turns[4:])])
    assert filled.states()[DAY] == "compacted", "settling changes nothing about it"
    filled.forget(turns[4])
    assert filled.changes()[-2:] == [(1, TOMBSTONED, COMPACTED), (1, COMPACTED, TOMBSTONED)]


def test_one_that_a_vacuum_left_and_that_lives_again_hides_no_death(filled: Filled) -> None:
    """What is held is dead and stays. When one of these is recovered, the next to die is one more than were left."""
    turns = filled.turns(20)
    filled.day_over()
    filled.forget(*turns[:4])
    filled.write("hold", {"sel": {"ids": turns[:4], "status": ["forgotten"]}})
    filled.vacuum(force=True)
    assert filled.states()[DAY] == "compacted" and filled.listed()[DAY]["dead"] == 4
    filled.write("recover", {"id": turns[0]})
    assert filled.states()[DAY] == "compacted"
    filled.forget(turns[10])
    assert filled.changes()[-1] == (1, COMPACTED, TOMBSTONED)
    assert filled.rebuilt_alike()


def test_a_vacuum_that_was_abandoned_keeps_no_day_from_being_reflectable(filled: Filled) -> None:
    """Nor from being sealed again when a turn waits."""
    turns = filled.turns(6)
    filled.write("remember_many", {"items": [
        {"kind": "raw", "origin": "told", "text": f"a capture {number}"} for number in range(500)
    ]})  # fmt: skip
    captures = filled.write("remember_many", {"items": [
        {"kind": "raw", "origin": "told", "text": f"another {number}"} for number in range(600)
    ]})["results"]  # fmt: skip
    filled.day_over()
    filled.forget(*(each["id"] for each in captures[:3]), turns[5])
    with pytest.raises(Refused):
        vacuum_with(filled, EndsAfter(1), force=True)
    assert 0 < filled.partition(1).reached < 1106 and filled.states()[DAY] == "sealed"
    filled.commit([fact(*turns[:5])])
    assert filled.states()[DAY] == "reflectable"
    filled.write("recover", {"id": turns[5]})
    assert filled.states()[DAY] == "sealed"
    filled.vacuum(force=True)
    assert filled.changes()[-1] == (1, SEALED, COMPACTED)
    filled.check_rows()
    assert filled.rebuilt_alike()


def test_a_damaged_partition_keeps_no_other_tenant_from_being_sealed(filled: Filled) -> None:
    """Whichever of them comes first; the damage is noted, and told when all others are done."""
    for tenant in ("one", "two", "three"):
        filled.write("remember", {"kind": "raw", "origin": "told", "text": "a", "tenant": tenant})
    (number,) = filled.service.names.partitions[filled.service.names.tenant_numbers["two"]]
    flip(filled, tables.PARTITIONS, KEY32.pack(number), 5)
    filled.now_ms += 86_400_000
    with pytest.raises(Refused) as refused:
        filled.service.roll_over()
    assert refused.value.reason is Reason.DAMAGED and tables.PARTITIONS in filled.projections.damaged
    for tenant in ("one", "three"):
        assert [row["state"] for row in filled.read("partitions", {"tenant": tenant})["results"]] == ["reflectable"]
    filled.read("rebuild", {"what": "all"})
    filled.service.roll_over()
    assert [row["state"] for row in filled.read("partitions", {"tenant": "two"})["results"]] == ["reflectable"]


def test_partitions_without_days_stay_active(filled: Filled) -> None:
    filled.forget(*filled.notes(120)[:60])
    filled.day_over(3)
    assert filled.states() == {"semantic": "active"} and filled.changes() == []
    filled.notes(1)
    assert filled.listed()["semantic"]["rows"] == 121


def test_a_late_turn_goes_to_the_partition_of_the_time_it_is_written(filled: Filled) -> None:
    filled.turn("on time")
    filled.day_over()
    late = filled.turn("late", occurred_at="2026-09-21T20:00:00Z")
    assert filled.memory(late)["partition"] == "2026-09-22"
    assert filled.listed()[DAY]["rows"] == 1


def test_every_state_is_counted_in_the_status(filled: Filled) -> None:
    turns = filled.turns(20)
    filled.day_over()
    filled.forget(*turns[:4])
    filled.turns(1)
    assert sorted(filled.states().values()) == ["active", "tombstoned"]
    filled.check_rows()
    assert filled.rebuilt_alike()

"""vacuum: when it only counts, what it moves, and that every answer is what it was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon.refusal import Reason, Refused
from daemon.wire.times import format_ms
from journal import events
from tests.daemon.slept import fact
from tests.daemon.vacuumed import Filled

DAY = "2026-09-21"


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Filled]:
    opened = Filled(tmp_path / "state")
    yield opened
    opened.close(True)


def told(filled: Filled, refs: list[str]) -> dict[str, Any]:
    """All that can be asked of memories, but the state of their partitions."""
    found: dict[str, Any] = {}
    for first in range(0, len(refs), 20):
        found[f"get {first}"] = filled.read("get", {"ids": refs[first : first + 20]})
    for ref in refs:
        found[ref] = [filled.read(verb, {"id": ref}) for verb in ("trace", "explain", "history")]
    statuses = ["active", "forgotten", "purged", "pruned", "superseded", "archived", "quarantined"]
    found["list"] = filled.read("list", {"sel": {"status": statuses}, "limit": 1000})["memories"]
    found["tags"] = filled.read("list", {"sel": {"status": statuses, "tags": ["even"]}, "limit": 1000})["memories"]
    found["review"] = filled.read("review", {})["items"]
    return found


def warm(filled: Filled) -> None:
    """All Blooms known."""
    filling, columns = filled.service._filling, filled.service.columns
    filling.end()
    filling._ending.clear()
    filling._fill()
    assert columns.warmed() == 1.0


@pytest.mark.parametrize(("dead", "force", "compacts"), [(19, False, False), (20, False, True), (1, True, True)])
def test_below_the_threshold_it_counts_and_moves_nothing(
    filled: Filled, dead: int, force: bool, compacts: bool
) -> None:
    notes = filled.notes(100)
    filled.forget(*notes[:dead])
    head = filled.store.log.head()
    before = filled.digests()
    result = filled.vacuum(force=force)["semantic"]
    assert result["compacted"] is compacts and result["before_count"] == 100
    assert result["after_count"] == (100 - dead if compacts else 100)
    assert result["tombstones_removed"] == (dead if compacts else 0)
    assert result["bytes_reclaimed"] == (dead * 64 + 4 * (2 - -(-(100 - dead) // 63)) if compacts else 0)
    if not compacts:
        assert result["file_bytes_reclaimed"] == result["reusable_bytes"] == result["ciphertexts_removed"] == 0
        assert filled.store.log.head() == head and filled.digests() == before
    assert {"partition": "semantic", "tier": "semantic"}.items() <= result.items()
    assert filled.rebuilt_alike()


def test_a_dry_run_counts_only(filled: Filled) -> None:
    filled.forget(*filled.notes(10)[:5])
    head = filled.store.log.head()
    result = filled.vacuum(dry_run=True, force=True)["semantic"]
    assert (result["before_count"], result["after_count"], result["compacted"]) == (10, 10, False)
    assert filled.store.log.head() == head


def test_where_nothing_is_dead_force_changes_nothing(filled: Filled) -> None:
    filled.turns(3)
    head = filled.store.log.head()
    assert filled.vacuum(force=True)[DAY]["compacted"] is False
    assert filled.store.log.head() == head and filled.states() == {DAY: "active"}


def test_an_accepting_day_is_sealed_only_when_forced(filled: Filled) -> None:
    turns = filled.turns(10)
    filled.forget(*turns[:5])
    assert filled.vacuum()[DAY]["compacted"] is False and filled.states() == {DAY: "active"}
    assert filled.vacuum(partition=DAY, force=True)[DAY]["after_count"] == 5
    assert filled.states() == {DAY: "compacted"}
    assert [(old, new) for _, old, new in filled.changes()] == [(0, 1), (1, 4)]
    filled.turns(1)
    assert filled.states() == {DAY: "compacted", f"{DAY}.1": "active"}
    filled.check_rows()


def test_whatever_is_not_compacted_says_why(filled: Filled) -> None:
    filled.forget(*filled.notes(100)[:19])
    assert filled.vacuum()["semantic"]["reason"] == "below_threshold"
    assert filled.vacuum(force=True, dry_run=True)["semantic"]["reason"] == "dry_run"
    assert filled.vacuum(force=True)["semantic"]["reason"] is None
    assert filled.vacuum(force=True)["semantic"]["reason"] == "nothing_dead"
    filled.forget(*filled.turns(10)[:5])
    assert filled.vacuum()[DAY]["reason"] == "accepts"
    assert filled.vacuum(force=True)[DAY]["reason"] is None


@pytest.mark.parametrize("compacts", [True, False])
@pytest.mark.parametrize("more", [{}, {"dry_run": True}, {"partition": "none"}])
def test_an_operator_in_another_tenant_leaves_a_record_whatever_it_finds(
    filled: Filled, more: dict[str, Any], compacts: bool
) -> None:
    """Also of a census, and of one that only learns that there is no such partition."""
    made = [filled.write("remember", {"kind": "raw", "origin": "told", "text": f"a {number}", "tenant": "other"})["id"]
            for number in range(4)]  # fmt: skip
    if compacts:
        filled.write("forget", {"id": made[0], "tenant": "other"})
    before = len(filled.written(events.OperatorCrossed))
    try:
        filled.write("vacuum", {"tenant": "other", "force": True, **more})
    except Refused as refused:
        assert refused.reason is Reason.NOT_FOUND and more
    crossed = filled.written(events.OperatorCrossed)[before:]
    number = filled.service.names.tenant_numbers["other"]
    assert [(record.tenant, record.event) for record in crossed] == [(number, events.OperatorCrossed("vacuum"))]


@pytest.mark.parametrize("params", [{"partition": "2026-09-22"}, {"partition": "semantic", "tier": "episodic"}])
def test_an_unknown_partition_is_not_found(filled: Filled, params: dict[str, Any]) -> None:
    filled.notes(1)
    filled.turns(1)
    with pytest.raises(Refused) as refused:
        filled.vacuum(**params)
    assert refused.value.reason is Reason.NOT_FOUND


def test_it_keeps_to_what_was_asked_for(filled: Filled) -> None:
    filled.forget(*filled.notes(10)[:5])
    turns = filled.turns(10)
    filled.day_over()
    filled.forget(*turns[:5])
    assert list(filled.vacuum(tier="episodic")) == [DAY]
    assert filled.listed()["semantic"]["dead"] == 5 and filled.listed()[DAY]["dead"] == 0
    assert list(filled.vacuum(partition="semantic")) == ["semantic"]
    assert filled.listed()["semantic"]["dead"] == 0


def test_every_answer_is_what_it_was(filled: Filled) -> None:
    """Ids resolve in every partition, dead ones too, also after a restart, and live ones have their own texts."""
    turns = [filled.turn(f"turn {n}", tags=["even"] if n % 2 == 0 else ["odd"]) for n in range(150)]
    notes = filled.commit([fact(*turns[:5], text="one"), fact(*turns[5:9], text="two")], noise=turns[9:])["notes"]
    filled.day_over()
    later = filled.turns(80, key="two")
    filled.forget(*turns[::3], *later[::4], notes[0])
    filled.write("mark", {"id": turns[1], "mark": "archived"})
    refs = [*turns[:12], turns[-1], *later[:5], *notes]
    before = told(filled, refs)
    sealed = filled.read("session_provenance", {"session": filled.ref()})
    results = filled.vacuum(force=True)
    assert all(row["compacted"] for row in results.values()) and len(results) == 3
    assert told(filled, refs) == before
    assert filled.read("session_provenance", {"session": filled.ref()}) == sealed
    filled.check_rows()
    filled.reopen(False)
    assert told(filled, refs) == before
    assert filled.rebuilt_alike()
    assert told(filled, refs) == before
    assert filled.read("audit", {"rebuild": True})["findings"] == []


def test_the_past_is_what_it_was(filled: Filled) -> None:
    turns = filled.turns(20)
    filled.now_ms += 1000
    asked = {"as_known_at": format_ms(filled.now_ms)}
    filled.now_ms += 1000
    filled.forget(*turns[:10])
    listed, got = filled.read("list", asked), filled.read("get", {"ids": turns, **asked})
    assert len(listed["memories"]) == 20
    filled.vacuum(force=True)
    assert filled.read("list", asked)["memories"] == listed["memories"]
    assert filled.read("get", {"ids": turns, **asked}) == got


def test_recovering_writes_the_row_anew(filled: Filled) -> None:
    turns = filled.turns(130)
    filled.write("verify", {"id": turns[3]})
    filled.forget(*turns[:40])
    filled.vacuum(force=True)
    assert filled.listed()[DAY]["rows"] == 90
    filled.write("recover", {"id": turns[3]})
    row = filled.memory_row(turns[3])
    assert row.offset == 90 and row.verifications == 1
    assert filled.listed()[DAY]["rows"] == 91 and filled.listed()[DAY]["dead"] == 0
    assert filled.memory(turns[3])["status"] == "active"
    assert len(filled.read("list", {"limit": 1000})["memories"]) == 91
    filled.check_rows()
    filled.forget(turns[3])
    filled.vacuum(force=True)
    assert filled.listed()[DAY]["rows"] == 90
    filled.check_rows()
    assert filled.rebuilt_alike()


def test_what_is_held_or_quarantined_is_not_touched(filled: Filled) -> None:
    notes = filled.notes(20)
    filled.forget(*notes[:6])
    cohort = filled.write("cohort", {"action": "quarantine", "sel": {"ids": notes[:2], "status": ["forgotten"]}})
    filled.write(
        "cohort",
        {"action": "quarantine", "sel": {"ids": notes[:2], "status": ["forgotten"]}, "token": cohort["token"]},
    )
    offset = filled.memory_row(notes[0]).offset
    assert filled.vacuum(force=True)["semantic"]["tombstones_removed"] == 4
    assert filled.memory_row(notes[0]).offset == offset
    assert filled.listed()["semantic"]["dead"] == 2
    assert {each["id"] for each in filled.read("list", {"sel": {"status": ["quarantined"]}})["memories"]} == {
        *notes[:2]
    }
    filled.check_rows()


def test_a_retry_under_its_key_is_answered_alike(filled: Filled) -> None:
    filled.forget(*filled.notes(10)[:5])
    first = filled.write("vacuum", {"idempotency_key": "once"})
    filled.forget(*filled.notes(10)[:5])
    head = filled.store.log.head()
    assert filled.write("vacuum", {"idempotency_key": "once"})["results"] == first["results"]
    assert filled.store.log.head() == head, "it was done once"
    assert filled.listed()["semantic"]["dead"] == 5


def test_a_large_partition_takes_several_records_of_which_each_leaves_all_readable(filled: Filled) -> None:
    notes = filled.notes(3600)
    filled.forget(*notes[1::4])
    result = filled.vacuum()["semantic"]
    slices = [record.event for record in filled.written(events.Vacuumed)]
    assert len(slices) >= 3
    assert [each.last for each in slices if isinstance(each, events.Vacuumed)] == [False] * (len(slices) - 1) + [True]
    assert result["tombstones_removed"] == 900 and result["after_count"] == 2700
    filled.check_rows()
    assert filled.rebuilt_alike()


def test_the_tags_of_what_moved_are_not_unsealed_again(filled: Filled) -> None:
    notes = filled.notes(1200, tags=["kept"])
    filled.read("list", {"limit": 1})
    warm(filled)
    filled.forget(*notes[:400])
    filled.service._filling.end()  # what is unknown from here on stays so
    filled.vacuum()
    filled.service.columns.settle()
    view = filled.service.columns.newest
    assert view is not None and view.unknown == 0 and view.total == 800
    assert len(filled.read("list", {"sel": {"tags": ["kept"]}, "limit": 1000})["memories"]) == 800


def test_the_tenant_in_maintenance_is_vacuumed_and_only_its_own_partitions(filled: Filled) -> None:
    filled.forget(*filled.notes(10)[:5])
    filled.write("lifecycle", {"state": "maintenance"})
    assert filled.vacuum()["semantic"]["compacted"] is True
    assert filled.write("vacuum", {"tenant": "other", "force": True}) == {"results": []}
    assert filled.read("partitions", {"tenant": "other"})["results"] == []


def test_slots_and_places_in_time_are_never_given_again(filled: Filled) -> None:
    """What joins memories by number joins the same ones afterwards: no new memory gets the number of a dead one."""
    turns = filled.turns(20)
    notes = filled.commit([fact(*turns[10:12])])["notes"]
    slots = {ref: filled.memory_row(ref).slot for ref in [*turns, *notes]}
    filled.forget(*turns[:10])
    filled.vacuum(force=True)
    assert {ref: filled.memory_row(ref).slot for ref in slots} == slots
    new = filled.turn("new")
    assert filled.memory_row(new).slot == max(slots.values()) + 1
    filled.reopen(True)
    assert filled.memory_row(filled.turn("newer")).slot == max(slots.values()) + 2
    assert filled.row(notes[0])["partition"] == DAY, "its row says where its turns are"
    assert [each["ref"] for each in filled.explain(notes[0])["sources"]] == turns[10:12]


def test_a_pass_settles_turns_of_a_compacted_day(filled: Filled) -> None:
    turns = filled.turns(20)
    filled.day_over()
    filled.forget(*turns[:4])
    filled.vacuum()
    made = filled.commit([fact(*turns[4:10])], noise=turns[10:])
    assert made["settled"] == 16
    row = filled.row(made["notes"][0])
    assert (row["partition"], row["first_seq"], row["last_seq"]) == (DAY, 5, 10)
    filled.check_rows()
    assert filled.rebuilt_alike()


def test_partitions_compacted_are_those_that_were(filled: Filled) -> None:
    """Counted is not compacted: each record of a vacuum is of rows that left."""
    filled.forget(*filled.notes(10)[:1])
    turns = filled.turns(10)
    filled.day_over()
    filled.forget(*turns[:3])
    results = filled.vacuum()
    assert {name: row["compacted"] for name, row in results.items()} == {"semantic": False, DAY: True}
    slices = [each.event for each in filled.written(events.Vacuumed)]
    assert [(each.partition, each.tombstones_removed) for each in slices if isinstance(each, events.Vacuumed)] == [
        (filled.listed()[DAY]["number"], 3)
    ]

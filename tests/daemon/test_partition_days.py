"""Days of partitions: local dates of the configured zone, also where clocks are put forward and back."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from daemon.tending import Tending
from journal import events
from tests.daemon.vacuumed import Filled


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


@pytest.mark.parametrize(
    ("zone", "told", "day"),
    [
        # Berlin goes from +01:00 to +02:00 on 2027-03-28, and back on 2027-10-31: days of 23 and of 25 hours.
        ("Europe/Berlin", "2027-03-27T22:59:00Z", "2027-03-27"),
        ("Europe/Berlin", "2027-03-27T23:01:00Z", "2027-03-28"),
        ("Europe/Berlin", "2027-03-28T21:59:00Z", "2027-03-28"),
        ("Europe/Berlin", "2027-03-28T22:01:00Z", "2027-03-29"),
        ("Europe/Berlin", "2027-10-30T21:59:00Z", "2027-10-30"),
        ("Europe/Berlin", "2027-10-30T22:01:00Z", "2027-10-31"),
        ("Europe/Berlin", "2027-10-31T22:59:00Z", "2027-10-31"),
        ("Europe/Berlin", "2027-10-31T23:01:00Z", "2027-11-01"),
        # A zone whose clocks are put forward at midnight: that day begins at one.
        ("America/Santiago", "2027-09-05T03:59:00Z", "2027-09-04"),
        ("America/Santiago", "2027-09-05T04:01:00Z", "2027-09-05"),
        ("Asia/Kathmandu", "2027-01-01T18:14:00Z", "2027-01-01"),
        ("Asia/Kathmandu", "2027-01-01T18:16:00Z", "2027-01-02"),
        ("Pacific/Kiritimati", "2027-01-01T10:01:00Z", "2027-01-02"),
    ],
)
def test_a_turn_is_filed_under_the_local_day_it_is_written(tmp_path: Path, zone: str, told: str, day: str) -> None:
    filled = Filled(tmp_path / "state", zone)
    try:
        filled.now_ms = at(told)
        filled.turns(1)
        assert filled.states() == {day: "active"}
        (opened,) = (record.event for record in filled.written(events.PartitionOpened))
        assert isinstance(opened, events.PartitionOpened) and opened.zone == zone
    finally:
        filled.close(True)


@pytest.mark.parametrize(("begin", "hours"), [("2027-03-27T23:00:00Z", 23), ("2027-10-30T22:00:00Z", 25)])
def test_a_day_of_summer_time_rolls_over_when_it_ends(tmp_path: Path, begin: str, hours: int) -> None:
    """By the tick, to the minute."""
    filled = Filled(tmp_path / "state", "Europe/Berlin")
    try:
        filled.now_ms = at(begin)
        filled.turns(1)
        (day,) = filled.states()
        filled.now_ms = at(begin) + hours * 3_600_000 - 1
        filled.service.roll_over()
        assert filled.states() == {day: "active"}
        filled.now_ms += 1
        filled.service.roll_over()
        assert filled.states() == {day: "sealed"}
    finally:
        filled.close(True)


def test_the_hour_that_comes_twice_is_of_one_day(tmp_path: Path) -> None:
    filled = Filled(tmp_path / "state", "Europe/Berlin")
    try:
        for moment in ("2027-10-31T00:30:00Z", "2027-10-31T01:30:00Z"):  # half past two, twice
            filled.now_ms = at(moment)
            filled.turns(1)
        assert {name: row["rows"] for name, row in filled.listed().items()} == {"2027-10-31": 2}
    finally:
        filled.close(True)


def test_a_zone_that_is_changed_never_takes_a_day_back(tmp_path: Path) -> None:
    """Tokyo has the second of January already, Los Angeles the first still: what is open goes on."""
    filled = Filled(tmp_path / "state", "Asia/Tokyo")
    try:
        filled.now_ms = at("2027-01-01T16:00:00Z")
        filled.turns(1)
        filled.close(True)
        filled.zone = "America/Los_Angeles"
        filled._open()
        filled.turns(1)
        filled.service.roll_over()
        assert {name: row["rows"] for name, row in filled.listed().items()} == {"2027-01-02": 2}
        filled.now_ms = at("2027-01-03T09:00:00Z")
        filled.turns(1)
        assert filled.states() == {"2027-01-02": "sealed", "2027-01-03": "active"}
        assert filled.rebuilt_alike()
    finally:
        filled.close(True)


def test_a_zone_that_is_changed_may_end_the_day_at_once(tmp_path: Path) -> None:
    filled = Filled(tmp_path / "state", "America/Los_Angeles")
    try:
        filled.now_ms = at("2027-01-01T16:00:00Z")
        filled.turns(1)
        filled.close(True)
        filled.zone = "Asia/Tokyo"
        filled._open()
        filled.service.roll_over()
        assert filled.states() == {"2027-01-01": "sealed"}
    finally:
        filled.close(True)


def test_a_clock_that_goes_back_behind_a_sealed_day_opens_a_part_of_it(tmp_path: Path) -> None:
    """No name is given twice, and days don't go back."""
    filled = Filled(tmp_path / "state")
    try:
        filled.turns(1)
        filled.day_over()
        filled.now_ms -= 3 * 86_400_000
        filled.turns(1)
        assert filled.states() == {"2026-09-21": "sealed", "2026-09-21.1": "active"}
        assert filled.rebuilt_alike()
    finally:
        filled.close(True)


def test_the_daemon_seals_the_day_of_a_silent_tenant_by_itself(tmp_path: Path) -> None:
    """Each tenant's, once, at the first look behind the end of the day; again when the next one is over."""
    filled = Filled(tmp_path / "state")
    try:
        tending = Tending(filled.service, 0, lambda: 0.0)
        filled.turns(1)
        filled.write("remember", {"kind": "raw", "text": "of another", "origin": "told", "tenant": "other"})
        tending.look()
        assert filled.written(events.PartitionChanged) == []
        for day in (1, 2):
            filled.now_ms += 86_400_000
            tending.look()
            tending.look()
            changes = [record for record in filled.written(events.PartitionChanged) if record.cause.verb == "roll_over"]
            sealed = [each.event for each in changes if isinstance(each.event, events.PartitionChanged)]
            assert [each.new for each in sealed].count(1) == day + 1
            assert {record.tenant for record in changes} == {1, 2}
            filled.turns(1)
    finally:
        filled.close(True)


@pytest.mark.parametrize("days", [0, 1])
def test_a_batch_opens_the_semantic_partition_and_the_day_at_once(tmp_path: Path, days: int) -> None:
    """The first of a tenant, and the first of its kind on a day that needs a new partition too."""
    filled = Filled(tmp_path / "state")
    try:
        filled.write("lifecycle", {"enforce": False})
        if days:
            filled.turns(1)
            filled.day_over()
        items = [
            {"kind": "note", "origin": "stated", "text": "n", "subtype": "observation"},
            {"kind": "raw", "origin": "stated", "text": "r"},
        ]
        made = filled.write("remember_many", {"items": [*items, *items]})["results"]
        assert [each["id"].partition(":")[0] for each in made] == ["note", "raw"] * 2
        counts = [row["rows"] for row in filled.listed().values()]
        assert sorted(counts) == sorted([1] * days + [2, 2])
        assert filled.rebuilt_alike()
    finally:
        filled.close(True)

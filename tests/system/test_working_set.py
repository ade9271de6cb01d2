"""The working set of a real daemon: warmed behind it after a start, in nobody's way, gone with the process."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from journal.errors import NoctuaryFault
from projections.store import ProjectionStore
from projections.warming import STEP_NAMES, warm
from projections.workingset import WorkingSet
from tests.model.opened import OpenedService
from tests.system.process import POLL_S, DaemonProcess

MEMORIES = 4000
WARM_WITHIN_S = 60.0


def _fill(daemon: DaemonProcess) -> list[str]:
    made: list[str] = []
    with daemon.client() as client:
        for first in range(0, MEMORIES, 1000):
            items = [
                {"kind": "raw", "role": "user", "text": f"text {number}", "tags": [f"tag-{number % 500}"]}
                for number in range(first, first + 1000)
            ]
            made += [each["id"] for each in client.call("remember_many", {"items": items}, dict)["results"]]
    return made


def _warmed(daemon: DaemonProcess) -> float:
    found: float = daemon.call("status")["warmed"]
    return found


def _wait_until_warm(daemon: DaemonProcess) -> list[float]:
    """What `status` told on the way."""
    deadline = time.monotonic() + WARM_WITHIN_S
    told = [_warmed(daemon)]
    while told[-1] < 1:
        assert time.monotonic() < deadline, f"warmed {told[-1]} after {WARM_WITHIN_S} s"
        time.sleep(POLL_S)  # between two looks
        told.append(_warmed(daemon))
    return told


def _with_tag(daemon: DaemonProcess, tag: str) -> list[str]:
    return [memory["id"] for memory in daemon.call("list", sel={"tags": [tag]})["memories"]]


def test_after_a_start_it_is_warmed_and_answers_are_complete_all_the_while(daemon: DaemonProcess) -> None:
    made = _fill(daemon)
    expected = made[7::500]
    daemon.restart()
    first = _with_tag(daemon, "tag-7")  # whatever is warm by now
    told = _wait_until_warm(daemon)
    assert told == sorted(told) and 0 <= told[0] <= 1
    assert first == expected == _with_tag(daemon, "tag-7")


def test_what_is_written_while_it_warms_is_neither_lost_nor_doubled(daemon: DaemonProcess) -> None:
    made = _fill(daemon)
    daemon.restart()
    with daemon.client() as client:
        for number in range(200):
            late = {"kind": "raw", "role": "user", "text": f"late {number}", "tags": ["tag-7", "late"]}
            made.append(client.call("remember", late, dict)["id"])
            if number % 20 == 0:
                client.call("forget", {"id": made[number]}, dict)
    _wait_until_warm(daemon)
    assert _with_tag(daemon, "late") == made[MEMORIES:][:100]
    active = daemon.call("list", limit=1)["total"]
    assert active == MEMORIES + 200 - 10
    daemon.restart()
    _wait_until_warm(daemon)
    assert daemon.call("list", limit=1)["total"] == active
    assert daemon.audit()["findings"] == []


def test_a_stop_does_not_wait_for_it_and_is_clean(daemon: DaemonProcess) -> None:
    _fill(daemon)
    for _ in range(3):
        daemon.restart()
        assert daemon.stop() == 0
        daemon.start()
    assert daemon.call("status")["recovery"]["clean"] is True


def test_killed_while_it_warms_everything_is_there_after_the_next_start(daemon: DaemonProcess) -> None:
    made = _fill(daemon)
    for _ in range(3):
        daemon.kill()
        daemon.start()
    assert _with_tag(daemon, "tag-7") == made[7::500]
    assert daemon.audit()["findings"] == []


def test_warming_the_names_ends_where_it_is_told_to(tmp_path: Path) -> None:
    """As many sessions as make three steps: the second look raises, and nothing behind it is unsealed."""
    opened = OpenedService(tmp_path / "state", lambda: 1_790_000_000_000)
    for number in range(3 * STEP_NAMES):
        opened.write("session_open", {"agent": "a", "key": f"key {number}"})
    looked = [0]

    class Told(NoctuaryFault):
        pass

    def step() -> None:
        looked[0] += 1
        if looked[0] == 2:
            raise Told

    known = WorkingSet()
    try:
        with pytest.raises(Told):
            warm(known, opened.store, opened.projections, 1_790_000_000_000, step)
        assert len(known.sessions) == STEP_NAMES
        warm(whole := WorkingSet(), opened.store, opened.projections, 1_790_000_000_000)
        assert len(whole.sessions) == 3 * STEP_NAMES
    finally:
        opened.close(True)


def test_damaged_header_rows_cost_no_answer_and_are_noted(tmp_path: Path) -> None:
    """The columns stay away; questions read their snapshot, and one that meets the damage says so."""
    opened = OpenedService(tmp_path / "state", lambda: 1_790_000_000_000)
    opened.write("remember", {"kind": "raw", "role": "user", "text": "one"})
    opened.service.stop()
    projections: ProjectionStore = opened.projections
    with projections.env.write() as txn, txn.cursor(db=projections.env.db("rows")) as cursor:
        assert cursor.first()
        key, value = bytes(cursor.key()), bytearray(cursor.value())
        value[5] ^= 1
        cursor.put(key, bytes(value))
    service: Any = opened.service
    filling = type(service._filling)(service.columns, opened.store, projections)
    service.columns.forget()
    filling.start()
    deadline = time.monotonic() + WARM_WITHIN_S
    while not projections.damaged:
        assert time.monotonic() < deadline
        time.sleep(POLL_S)
    filling.end()
    assert projections.damaged == {"rows"} and service.columns.newest is None
    assert service.columns.warmed() == 0.0
    opened.projections.close(False)
    opened.store.close(False)

"""What looks after the projections: it goes on whatever fails, and a copy is never one of what was discarded."""

from __future__ import annotations

import errno
import subprocess
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from daemon import service, tending
from daemon.asking import Asking
from daemon.children import follow
from daemon.refusal import Reason, Refused
from daemon.tending import FIRST_PAUSE_S, LONGEST_PAUSE_S, Tending, leave_copy
from daemon.wire.exchange_params import RebuildParams
from journal.errors import StoreIO
from journal.layout import new_path
from projections import filling, tables
from projections.copy import copied_seq, take_name_of_copy
from projections.filling import Filling
from projections.header_columns import HeaderColumns
from tests.daemon.test_rebuilding import TURN, damage, params, until
from tests.model.opened import OPERATOR, OpenedService

NOW_MS = 1_790_000_000_000
WITHIN_S = 60.0


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[OpenedService]:
    made = OpenedService(tmp_path / "state", lambda: NOW_MS)
    for number in range(5):
        made.write("remember", {**TURN, "text": f"{number}", "session": {"agent": "a", "key": "k"}})
    yield made
    made.close(True)


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


# --- pauses ----------------------------------------------------------------------------------------------------------


def pauses(opened: OpenedService, clock: Clock, tries: list[float], count: int) -> list[float]:
    """How long is waited between one try and the next, looked at each second."""
    tended = Tending(opened.service, 0, clock)
    opened.projections.note_damage(tables.EDGES_OUT)
    while len(tries) < count + 1:
        tended.look()
        clock.now_s += 1.0
    return [later - earlier for earlier, later in pairwise(tries)]


@pytest.mark.parametrize("error", [Refused(Reason.UNAVAILABLE, "not now"), OSError(errno.EIO, "not now")])
def test_each_try_to_heal_waits_twice_as_long_up_to_the_longest(
    opened: OpenedService, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    clock, tries = Clock(), []

    def fails(_service: object, _params: RebuildParams, _asking: Asking) -> None:
        tries.append(clock.now_s)
        raise error

    monkeypatch.setitem(service._WORKS, "rebuild", fails)
    expected = [min(FIRST_PAUSE_S * 2**number, LONGEST_PAUSE_S) for number in range(12)]
    assert expected[-2:] == [LONGEST_PAUSE_S] * 2
    assert pauses(opened, clock, tries, 12) == expected


def test_what_was_sound_for_long_is_healed_with_the_first_pause_again(
    opened: OpenedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, tries = Clock(), []

    def heals(_service: object, _params: RebuildParams, _asking: Asking) -> None:
        tries.append(clock.now_s)
        raise Refused(Reason.UNAVAILABLE, "not now")

    monkeypatch.setitem(service._WORKS, "rebuild", heals)
    tended = Tending(opened.service, 0, clock)
    opened.projections.note_damage(tables.EDGES_OUT)
    for _ in range(5):
        tended.look()
        clock.now_s += FIRST_PAUSE_S
    opened.projections.damaged.clear()
    clock.now_s += 3 * LONGEST_PAUSE_S
    opened.projections.note_damage(tables.EDGES_OUT)
    tries.clear()
    for _ in range(2):
        tended.look()
        clock.now_s += FIRST_PAUSE_S
    assert len(tries) == 2


# --- it goes on ------------------------------------------------------------------------------------------------------


def test_one_error_does_not_end_the_tending(opened: OpenedService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tending, "FAILED_PAUSE_S", 0.001)
    failures = [OSError(errno.EIO, "1"), ValueError("2"), StoreIO("3")]

    def seq(copy: Path) -> int:
        if failures:
            raise failures.pop()
        return copied_seq(copy)

    monkeypatch.setattr(tending, "copied_seq", seq)
    tended = Tending(opened.service, 3)
    tended.start()
    try:
        until(lambda: copied_seq(opened.store.dir.projections_copy_dir) > 0)
        damage(opened, tables.MEMORIES)
        opened.projections.note_damage(tables.MEMORIES)
        until(lambda: not opened.projections.damaged)
    finally:
        opened.service.end_long_reads()
        tended.stop()
    assert failures == []


def test_a_stop_does_not_wait_for_the_pause_behind_a_failure(
    opened: OpenedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = threading.Event()

    def fails(_copy: Path) -> int:
        failed.set()
        raise OSError(errno.EIO, "not now")

    monkeypatch.setattr(tending, "FAILED_PAUSE_S", WITHIN_S)
    monkeypatch.setattr(tending, "copied_seq", fails)
    tended = Tending(opened.service, 3)
    tended.start()
    assert failed.wait(WITHIN_S / 2)
    stopping = threading.Thread(target=tended.stop)
    stopping.start()
    stopping.join(WITHIN_S / 2)
    assert not stopping.is_alive()


def test_one_error_does_not_end_the_filling(opened: OpenedService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filling, "FAILED_PAUSE_S", 0.001)
    failures: list[Exception] = [OSError(errno.EIO, "1"), MemoryError()]
    told: list[Exception] = []

    class Failing(HeaderColumns):
        def load(self, seq: int, partitions: Any) -> None:
            if failures:
                raise failures.pop()
            super().load(seq, partitions)

    columns = Failing()
    filled = Filling(columns, opened.store, opened.projections, told.append)
    filled.start()
    try:
        until(lambda: columns.warmed() == 1.0)
    finally:
        filled.end()
    assert [type(error) for error in told] == [MemoryError, OSError]


@pytest.mark.parametrize("step", ["Popen", "take_name_of_copy", "remove_new"])
def test_a_copy_that_fails_says_so_and_raises_nothing(
    opened: OpenedService, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def fails(*_arguments: object, **_more: object) -> None:
        raise (StoreIO("no") if step == "take_name_of_copy" else OSError(errno.ENOMEM, "no"))

    with monkeypatch.context() as patched:
        patched.setattr(*((subprocess, step) if step == "Popen" else (tending, step)), fails)
        reason = leave_copy(opened.service, lambda: None)
    assert reason == (None if step == "remove_new" else "io")
    assert (copied_seq(opened.store.dir.projections_copy_dir) > 0) == (reason is None)
    assert opened.projections.damaged == set()
    assert leave_copy(opened.service, lambda: None) is None
    assert not new_path(opened.store.dir.projections_copy_dir).exists()


# --- a copy and a rebuild at once ------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_copy_of_what_was_replaced_meanwhile_is_neither_named_nor_blamed(
    opened: OpenedService, monkeypatch: pytest.MonkeyPatch, is_damaged: bool
) -> None:
    def followed(*words: Any) -> Any:
        ended = follow(*words)
        opened.read("rebuild", {})
        return ended

    if is_damaged:
        damage(opened, tables.MEMORIES)
    monkeypatch.setattr(tending, "follow", followed)
    assert leave_copy(opened.service, lambda: None) == "replaced"
    assert not opened.store.dir.projections_copy_dir.exists()
    assert opened.projections.damaged == set()


def test_a_rebuild_that_comes_as_the_copy_is_named_takes_it_away(
    opened: OpenedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_swap = threading.Event()
    asking = Asking(tell=lambda phase, _done, _of: at_swap.set() if phase == "swap" else None)
    rebuilding = threading.Thread(target=lambda: opened.service.read("rebuild", params(), OPERATOR, asking=asking))

    def named(copy: Path) -> None:
        rebuilding.start()
        assert at_swap.wait(WITHIN_S)
        rebuilding.join(1.0)  # as long as it takes by far, if it doesn't wait for the name
        take_name_of_copy(copy)

    monkeypatch.setattr(tending, "take_name_of_copy", named)
    leave_copy(opened.service, lambda: None)
    rebuilding.join(WITHIN_S)
    assert not rebuilding.is_alive()
    assert not opened.store.dir.projections_copy_dir.exists()

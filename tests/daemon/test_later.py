"""What the loop does bit by bit: in order, a bounded time in a turn, and one piece that fails costs only itself."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from time import perf_counter

import pytest

from daemon.later import TURN_S, Later
from daemon.switching import ASLEEP_S, AWAKE_S, switching_loop


class Turns:
    """Turns of a loop that are taken by hand."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []

    def take(self) -> None:
        due, self.due = self.due, []
        for each in due:
            each()


def _spend_a_turn() -> None:
    until_s = perf_counter() + TURN_S
    while perf_counter() < until_s:
        pass


def test_pieces_are_done_in_order() -> None:
    turns, done = Turns(), list[int]()
    later = Later(lambda what: turns.due.append(what))
    for number in range(3):
        later.add(lambda number=number: done.append(number))  # type: ignore[misc]
    assert (done, len(turns.due)) == ([], 1)
    turns.take()
    assert done == [0, 1, 2]


def test_what_a_turn_has_no_time_for_waits_for_the_next() -> None:
    turns, done = Turns(), list[str]()
    later = Later(lambda what: turns.due.append(what))
    later.add(_spend_a_turn)
    later.add(lambda: done.append("behind"))
    turns.take()
    assert done == [] and len(turns.due) == 1
    turns.take()
    assert done == ["behind"] and turns.due == []


def test_what_a_piece_adds_goes_behind_what_waits() -> None:
    turns, done = Turns(), list[str]()
    later = Later(lambda what: turns.due.append(what))
    later.add(lambda: later.add(lambda: done.append("added")))
    later.add(lambda: done.append("waited"))
    while turns.due:
        turns.take()
    assert done == ["waited", "added"]


def test_a_piece_that_fails_costs_only_itself() -> None:
    turns, done = Turns(), list[str]()
    later = Later(lambda what: turns.due.append(what))

    def fail() -> None:
        raise ValueError

    later.add(fail)
    later.add(lambda: done.append("behind"))
    with pytest.raises(ValueError):
        turns.take()
    turns.take()
    assert done == ["behind"]


def test_a_loop_that_sleeps_gets_the_interpreter_sooner_than_one_that_works_gives_it_up() -> None:
    before_s = sys.getswitchinterval()
    found: dict[str, float] = {}
    asleep = threading.Event()

    async def look() -> None:
        loop = asyncio.get_running_loop()
        woken = asyncio.Event()

        def from_outside() -> None:
            assert asleep.wait(10)
            until_s = perf_counter() + 10
            while sys.getswitchinterval() != pytest.approx(ASLEEP_S) and perf_counter() < until_s:
                pass  # the loop is on its way to sleep
            found["asleep"] = sys.getswitchinterval()
            loop.call_soon_threadsafe(woken.set)

        outside = threading.Thread(target=from_outside)
        outside.start()
        found["awake"] = sys.getswitchinterval()
        asleep.set()
        await woken.wait()
        outside.join()

    try:
        with asyncio.Runner(loop_factory=switching_loop) as runner:
            runner.run(look())
    finally:
        sys.setswitchinterval(before_s)
    assert found == {"awake": pytest.approx(AWAKE_S), "asleep": pytest.approx(ASLEEP_S)}

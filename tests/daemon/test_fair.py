"""Threads shared fairly: whose turn it is, and how it ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial

import pytest

from daemon.fair import FairPool

WITHIN_S = 20.0


class Held:
    """A pool of one thread, which is kept busy until `go`. `order`: what was done since."""

    def __init__(self) -> None:
        self.pool = FairPool(1, "held")
        self.order: list[str] = []
        self._gate = threading.Event()
        self._is_busy = threading.Event()
        self.pool.submit("holder", 0, self._hold)
        assert self._is_busy.wait(WITHIN_S)

    def _hold(self) -> None:
        self._is_busy.set()
        assert self._gate.wait(WITHIN_S)

    def ask(self, caller: str, connection: int, name: str) -> None:
        self.pool.submit(caller, connection, partial(self.order.append, name))

    def go(self) -> None:
        self._gate.set()

    def finish(self) -> list[str]:
        """Let it do all that waits."""
        done = threading.Event()
        self.pool.submit("finisher", 0, done.set)
        self.go()
        assert done.wait(WITHIN_S)
        while len(self.pool._turns):
            last = threading.Event()
            self.pool.submit("finisher", 0, last.set)
            assert last.wait(WITHIN_S)
        self.pool.shutdown()
        return self.order


@pytest.fixture
def held() -> Iterator[Held]:
    found = Held()
    yield found
    found.go()
    found.pool.shutdown()


def test_one_question_waits_for_one_of_each_other_caller(held: Held) -> None:
    for connection in range(40):
        for caller in ("a", "b"):
            for number in range(3):
                held.ask(caller, connection, f"{caller}{connection}.{number}")
    held.ask("victim", 0, "victim")
    assert held.finish().index("victim") == 2


def test_one_question_waits_for_one_of_each_other_connection_of_its_caller(held: Held) -> None:
    for connection in range(5):
        for number in range(10):
            held.ask("a", connection, f"{connection}.{number}")
    held.ask("a", 77, "late")
    assert held.finish().index("late") == 5


def test_the_work_of_one_connection_begins_in_its_order(held: Held) -> None:
    for number in range(20):
        held.ask("a", 1, f"{number}")
        held.ask("b", 1, "b")
    assert [name for name in held.finish() if name != "b"] == [f"{number}" for number in range(20)]


def test_each_thread_is_used_even_when_much_comes_at_once() -> None:
    """Work that comes while a thread wakes up must not wait behind it when another may be begun."""
    pool = FairPool(2, "two")
    pool.submit("a", 0, lambda: None)
    while pool._idle < 1:
        pass
    both = threading.Barrier(3)
    with pool._changed:  # the idle one can't wake up in between
        for number in range(2):
            pool.submit("a", number, partial(both.wait, WITHIN_S))
    both.wait(WITHIN_S)
    pool.shutdown()
    assert len(pool._threads) == 2


def test_the_end_forgets_what_waits_and_waits_for_what_runs(held: Held) -> None:
    held.ask("a", 1, "never")
    ending = threading.Thread(target=held.pool.shutdown)
    ending.start()
    while not held.pool._ended:
        pass
    assert ending.is_alive(), "it waits for what runs"
    with pytest.raises(RuntimeError):
        held.ask("a", 1, "late")
    held.go()
    ending.join(WITHIN_S)
    assert not ending.is_alive() and held.order == []


def test_work_that_fails_costs_nobody_the_thread(held: Held) -> None:
    held.pool.submit("a", 1, partial(int, "no number"))
    held.ask("b", 1, "after")
    assert held.finish() == ["after"]

"""Threads that are shared fairly: work waits per caller, and callers take turns.

Method: a thread that is free takes what is next by `turns.py`. The work of one connection begins in the order it came.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from functools import partial

from daemon.failures import log_failure
from daemon.turns import Turns

_complain = partial(log_failure, "work_failed")


class FairPool:
    """Up to `threads` of them, begun when there is work. `submit` may be called from any thread."""

    def __init__(self, threads: int, name: str) -> None:
        self._may_have = threads
        self._name = name
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._turns: Turns[Callable[[], object]] = Turns()
        self._changed = threading.Condition()
        self._ended = False

    def submit(self, caller: Hashable, connection: Hashable, work: Callable[[], object]) -> None:
        """Have it done when it is their turn. Raises RuntimeError after `shutdown`."""
        with self._changed:
            if self._ended:
                raise RuntimeError("no work is taken after the end")
            self._turns.add(caller, connection, work)
            if len(self._turns) > self._idle and len(self._threads) < self._may_have:
                self._begin_thread()
            self._changed.notify()

    def shutdown(self) -> None:
        """Forget what waits, and wait for what runs."""
        with self._changed:
            self._ended = True
            self._turns = Turns()
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _begin_thread(self) -> None:
        name = f"{self._name}_{len(self._threads)}"
        thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run(self) -> None:
        while (work := self._next()) is not None:
            try:
                work()
            except Exception as error:  # it costs its caller the answer, not the others their thread
                _complain(error)
            del work  # what it holds isn't kept until the next comes

    def _next(self) -> Callable[[], object] | None:
        """What is to be done next, when there is something; None at the end."""
        with self._changed:
            while not self._turns:
                if self._ended:
                    return None
                self._idle += 1
                self._changed.wait()
                self._idle -= 1
            return self._turns.take()

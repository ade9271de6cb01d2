"""Threads that are shared fairly: work waits per caller, and callers take turns.

Method: the callers who have work waiting stand in a ring, and of each caller the connections that have. A thread that
is free takes the oldest work of the first connection of the first caller, and puts both at the end. So whoever asks
one question waits for at most one of each other caller, however many of theirs wait and over however many
connections; and likewise within a caller. The work of one connection begins in the order it came.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable
from functools import partial

from daemon.failures import log_failure

_complain = partial(log_failure, "work_failed")


class FairPool:
    """Up to `threads` of them, begun when there is work. `submit` may be called from any thread."""

    def __init__(self, threads: int, name: str) -> None:
        self._may_have = threads
        self._name = name
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._waiting = 0
        self._ring: dict[Hashable, dict[Hashable, deque[Callable[[], object]]]] = {}
        """By caller and connection, in the order in which they are served; who has nothing waiting is not in it."""
        self._changed = threading.Condition()
        self._ended = False

    def submit(self, caller: Hashable, connection: Hashable, work: Callable[[], object]) -> None:
        """Have it done when it is their turn. Raises RuntimeError after `shutdown`."""
        with self._changed:
            if self._ended:
                raise RuntimeError("no work is taken after the end")
            self._ring.setdefault(caller, {}).setdefault(connection, deque()).append(work)
            self._waiting += 1
            if self._waiting > self._idle and len(self._threads) < self._may_have:
                self._begin_thread()
            self._changed.notify()

    def shutdown(self) -> None:
        """Forget what waits, and wait for what runs."""
        with self._changed:
            self._ended = True
            self._ring.clear()
            self._waiting = 0
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
            while not self._ring:
                if self._ended:
                    return None
                self._idle += 1
                self._changed.wait()
                self._idle -= 1
            self._waiting -= 1
            return _taken(self._ring)


def _taken(ring: dict[Hashable, dict[Hashable, deque[Callable[[], object]]]]) -> Callable[[], object]:
    """The next work. Whose it is stands behind the others then."""
    caller = next(iter(ring))
    connections = ring.pop(caller)
    connection = next(iter(connections))
    waiting = connections.pop(connection)
    work = waiting.popleft()
    if waiting:
        connections[connection] = waiting
    if connections:
        ring[caller] = connections
    return work

"""What waits for the writer: the queue between those who ask for writes and the one thread that does them.

Callers take turns (`turns.py`): one who sends a single write waits for one of each other caller and connection, not for
the thousands that somebody has sent before. The writes of one connection are taken in the order they came.

Invariant: whoever put something here is told what became of it. A job is answered, also when it never had its turn;
work between batches is done, or told that there will be none. Puts come from any thread, takes from the writer's only.
"""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, NamedTuple

from daemon.caller import Caller
from daemon.commands.table import PreparedWrite
from daemon.refusal import Reason, Refused
from daemon.rights import Rights
from daemon.turns import Turns

BATCH_WRITES = 512
BATCH_BYTES = 8 << 20
WAITED_FOR_WRITES = 256
GAP_S = 0.0005
"""Longer than it takes to prepare a write, shorter than a commit."""


class Job(NamedTuple):
    """A prepared write and where its answer goes. `asked_s`: the monotonic clock when it was asked for. `connection`:
    which one of the caller's it came over."""

    write: PreparedWrite
    caller: Caller
    correlation: str | None
    call: Any
    size_bytes: int
    asked_s: float = 0.0
    connection: Hashable = 0
    rights: Rights | None = None
    """Whose it is, where `call` is no call that says so."""


class Between:
    """Something to be done by the writer's thread between two batches, while nothing is half done."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self.done: Future[Any] = Future()

    def run(self) -> None:
        """What it raises goes to whoever waits for it."""
        try:
            self.done.set_result(self._work())
        except BaseException as error:
            self.done.set_exception(error)

    def turn_away(self) -> None:
        self.done.set_exception(stopping())


class Waiting:
    """The queue. Puts come from any thread; all else is the writer's."""

    def __init__(self) -> None:
        self._inbox: queue.SimpleQueue[Job | Between | None] = queue.SimpleQueue()
        self._jobs: Turns[Job] = Turns()
        self._between: deque[Between] = deque()
        self._ends = False
        self._last_batch = 1

    def __len__(self) -> int:
        """About how many wait."""
        return self._inbox.qsize() + len(self._jobs)

    def put(self, what: Job | Between | None) -> None:
        """None is the end: nothing is taken behind it."""
        self._inbox.put(what)

    def take(self) -> Job | Between | None:
        """The next one, waited for; None when the writer is to end."""
        self._receive_all()
        while not (self._ends or self._between or self._jobs):
            self._sort(self._inbox.get())
            self._receive_all()
        if self._ends:
            return None
        return self._between.popleft() if self._between else self._jobs.take()

    def gather(self, first: Job) -> tuple[list[Job], bool]:
        """What waits, up to the bounds of a batch, and whether the writer is to end behind it.

        A commit costs the same for one write as for many. So while writes come closely one behind the other,
        twice as many as last time are waited for; a gap in their coming ends the waiting. One client that waits
        for each answer is never made to wait for others.
        """
        jobs = [first]
        size_bytes = first.size_bytes
        hoped_for = min(self._last_batch * 2, WAITED_FOR_WRITES) if self._last_batch > 1 else 1
        while len(jobs) < BATCH_WRITES and size_bytes < BATCH_BYTES:
            if not self._jobs and not self._receive(GAP_S if len(jobs) < hoped_for else 0.0):
                break
            job = self._jobs.take()
            jobs.append(job)
            size_bytes += job.size_bytes
        self._last_batch = len(jobs)
        return jobs, self._ends

    def _receive(self, wait_s: float) -> bool:
        """Whether there is another job, waited for if need be; no more of them come in front of other work."""
        if self._ends or self._between:
            return False
        try:
            self._sort(self._inbox.get(timeout=wait_s) if wait_s else self._inbox.get_nowait())
        except queue.Empty:
            return False
        return bool(self._jobs)

    def _receive_all(self) -> None:
        with suppress(queue.Empty):
            while True:
                self._sort(self._inbox.get_nowait())

    def _sort(self, what: Job | Between | None) -> None:
        if what is None:
            self._ends = True
        elif isinstance(what, Between):
            self._between.append(what)
        else:
            self._jobs.add(what.caller.uid, what.connection, what)

    def drain(self, first: Job | Between | None = None) -> list[Job]:
        """The jobs that wait; what waits for its turn between batches is told that there is none."""
        self._receive_all()
        jobs = list(self._jobs.clear())
        if isinstance(first, Between):
            self._between.appendleft(first)
        elif first is not None:
            jobs.insert(0, first)
        while self._between:
            self._between.popleft().turn_away()
        return jobs


def stopping() -> Refused:
    """What a write is told that comes too late."""
    return Refused(Reason.UNAVAILABLE, "the daemon stops; this was not written", retry_after_ms=1000)

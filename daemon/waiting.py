"""What waits for the writer: the queue between those who ask for writes and the one thread that does them.

Invariant: whoever put something here is told what became of it. A job is answered, also when it never had its turn;
work between batches is done, or told that there will be none. Puts come from any thread, takes from the writer's only.
"""

from __future__ import annotations

import queue
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, NamedTuple

from daemon.caller import Caller
from daemon.commands.table import PreparedWrite
from daemon.refusal import Reason, Refused

BATCH_WRITES = 512
BATCH_BYTES = 8 << 20
WAITED_FOR_WRITES = 256
GAP_S = 0.0005
"""Longer than it takes to prepare a write, shorter than a commit."""


class Job(NamedTuple):
    """A prepared write and where its answer goes. `asked_s`: the monotonic clock when it was asked for."""

    write: PreparedWrite
    caller: Caller
    correlation: str | None
    call: Any
    size_bytes: int
    asked_s: float = 0.0


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
    """The queue. None in it is the end."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Job | Between | None] = queue.SimpleQueue()
        self._next: Between | None = None  # met while a batch was gathered: its turn is behind that batch
        self._last_batch = 1

    def __len__(self) -> int:
        """About how many wait."""
        return self._queue.qsize()

    def put(self, what: Job | Between | None) -> None:
        self._queue.put(what)

    def take(self) -> Job | Between | None:
        """The next one, waited for; None when the writer is to end."""
        first, self._next = self._next or self._queue.get(), None
        return first

    def gather(self, first: Job) -> tuple[list[Job], bool]:
        """What waits, up to the bounds of a batch, and whether the writer is to end behind it.

        A commit costs the same for one write as for many. So while writes come closely one behind the other,
        twice as many as last time are waited for; a gap in their coming ends the waiting. One client that waits
        for each answer is never made to wait for others.
        """
        jobs = [first]
        size_bytes = first.size_bytes
        ends = False
        hoped_for = min(self._last_batch * 2, WAITED_FOR_WRITES) if self._last_batch > 1 else 1
        while len(jobs) < BATCH_WRITES and size_bytes < BATCH_BYTES:
            try:
                job = self._queue.get(timeout=GAP_S) if len(jobs) < hoped_for else self._queue.get_nowait()
            except queue.Empty:
                break
            if job is None:
                ends = True
                break
            if isinstance(job, Between):
                self._next = job
                break
            jobs.append(job)
            size_bytes += job.size_bytes
        self._last_batch = len(jobs)
        return jobs, ends

    def drain(self, first: Job | Between | None = None) -> list[Job]:
        """The jobs that wait; what waits for its turn between batches is told that there is none."""
        jobs: list[Job] = []
        waiting: list[Job | Between | None] = [first, self._next]
        self._next = None
        with suppress(queue.Empty):
            while True:
                waiting.append(self._queue.get_nowait())
        for each in waiting:
            if isinstance(each, Between):
                each.turn_away()
            elif each is not None:
                jobs.append(each)
        return jobs


def stopping() -> Refused:
    """What a write is told that comes too late."""
    return Refused(Reason.UNAVAILABLE, "the daemon stops; this was not written", retry_after_ms=1000)

"""What a running daemon counts about itself: plain numbers, added up where the work is done, read at a scrape.

Nothing here knows Prometheus (`metrics.py` does). Invariant: a figure that was once seen never goes down, and one
that is read is of one moment. Cost: one lock for each question and for each batch of writes, never for each write.
Labels are closed sets: verbs, reasons, causes.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import Any

from daemon.refusal import Reason, Refused
from daemon.waiting import Job

UNKNOWN_VERB = "unknown"
"""Of a line that was refused before it was known what it asks."""

SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
WRITES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0)


class Histogram:
    """How often a value fell at or below each of `bounds`, and above the last. `total` is the sum of the values."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def observe_all(self, values: Sequence[float]) -> None:
        bounds = self.bounds
        for place, many in Counter([bisect_left(bounds, value) for value in values]).items():
            self.counts[place] += many
        self.total += sum(values)

    def copy(self) -> Histogram:
        made = Histogram(self.bounds)
        made.counts, made.total = list(self.counts), self.total
        return made


class Work:
    """One verb that takes the whole store: how often it was done, how long the last took, when it ended."""

    def __init__(self) -> None:
        self.done = 0
        self.last_s = 0.0
        self.ended_s = 0.0


class Counts:
    """One daemon's counts. Safe on any thread. What is assigned rather than added up is a plain attribute."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.started_s = time.monotonic()
        self.requests: Counter[str] = Counter()
        self.refusals: Counter[tuple[str, str]] = Counter()
        self.reads: dict[str, Histogram] = {}
        self.writes = Histogram(SECONDS)
        self.batches = Histogram(WRITES)
        self.commits = Histogram(SECONDS)
        self.folds = Histogram(SECONDS)
        self.records = 0
        self.stale_readers = 0
        self.dropped: Counter[str] = Counter()
        self.works: dict[str, Work] = {}
        self.connections = 0
        self.subscriptions = 0
        self.folded_at_start = 0
        self.foreign_references = 0

    def refuse(self, verb: str, reason: Reason) -> None:
        """A request that was refused before it came to the service. `verb`: one that exists, or UNKNOWN_VERB."""
        with self.lock:
            self.requests[verb] += 1
            self.refusals[verb, reason.wire] += 1

    def read(self, verb: str, took_s: float, reason: Reason | None = None) -> None:
        """A question was answered, or refused with `reason`."""
        with self.lock:
            self.requests[verb] += 1
            histogram = self.reads.get(verb)
            if histogram is None:
                histogram = self.reads[verb] = Histogram(SECONDS)
            histogram.observe(took_s)
            if reason is not None:
                self.refusals[verb, reason.wire] += 1

    def write(self, jobs: Sequence[Job], outcomes: Sequence[Any]) -> None:
        """What a batch of writes was answered, in the order of `jobs`. That an operator asked something is no request
        of its own."""
        now_s = time.monotonic()
        verbs = Counter([job.write.verb for job in jobs if not job.write.crossed])
        took_s = [now_s - job.asked_s for job in jobs]
        refused = [
            (job.write.verb, outcome.reason.wire)
            for job, outcome in zip(jobs, outcomes, strict=True)
            if outcome.__class__ is Refused and not job.write.crossed
        ]
        with self.lock:
            self.requests.update(verbs)
            self.writes.observe_all(took_s)
            self.refusals.update(refused)

    def commit(self, writes: int, records: int, commit_s: float, fold_s: float) -> None:
        """A batch was committed: its journal transaction took `commit_s`, that of the projections `fold_s`."""
        with self.lock:
            self.batches.observe(writes)
            self.records += records
            self.commits.observe(commit_s)
            self.folds.observe(fold_s)

    def work(self, verb: str, took_s: float) -> None:
        """A backup, a rebuild or the like was done."""
        with self.lock:
            work = self.works.setdefault(verb, Work())
            work.done += 1
            work.last_s = took_s
            work.ended_s = time.monotonic()

    def drop(self, why: str) -> None:
        """A client was dropped. `why` is one of a closed set."""
        with self.lock:
            self.dropped[why] += 1

    def pass_over(self, count: int) -> None:
        """What a chain was to lead to is another tenant's: it was not told."""
        with self.lock:
            self.foreign_references += count

    def free_readers(self, count: int) -> None:
        """Reader slots of dead processes were freed."""
        with self.lock:
            self.stale_readers += count

"""Whether the daemon still works, shown to the service manager's watchdog.

A loop that runs proves nothing of the writer. So the writer is asked for a beat, which it gives between two batches,
and WATCHDOG=1 is only sent when it has given one since the last: an idle writer gives it at once, one that hangs in
a commit never does. Called on the loop, so that a loop which stands still sends nothing either.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from daemon.notifying import Notifier

PART_OF_INTERVAL = 2
"""Told at half the interval, as the manager's documentation asks."""
LOOKS_A_PART = 4
"""How often within that half it is looked whether the beat has come."""


class Beating(Protocol):
    """What is watched. `beats` counts; `ask_beat` returns at once."""

    beats: int

    def ask_beat(self) -> None: ...


class Watchdog:
    """Sends WATCHDOG=1 once there is a writer to watch. `tick` is to be called every `tick_s`."""

    def __init__(self, notifier: Notifier, clock: Callable[[], float] = time.monotonic) -> None:
        self._notifier = notifier
        self._writer: Beating | None = None
        self._clock = clock
        self._every_s = None if notifier.watchdog_s is None else notifier.watchdog_s / PART_OF_INTERVAL
        self._sent_s: float | None = None
        self._beats_then = -1

    def watch(self, writer: Beating) -> None:
        self._writer = writer

    @property
    def tick_s(self) -> float | None:
        """None: there is no watchdog."""
        return None if self._every_s is None else self._every_s / LOOKS_A_PART

    def tick(self) -> None:
        """Tell that all is well, when it is time and when it is so."""
        if self._every_s is None or self._writer is None or self._writer.beats == self._beats_then:
            return
        now_s = self._clock()
        if self._sent_s is not None and now_s - self._sent_s < self._every_s - (self.tick_s or 0.0) / 2:
            return
        self._notifier.alive()
        self._sent_s, self._beats_then = now_s, self._writer.beats
        self._writer.ask_beat()

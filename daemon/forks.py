"""Where this journal forked from others: its records of restores, looked for once.

They are only written while a store is opened, so what was found once stays all there is. Nobody looks before somebody
asks, and a look that ended early (it was cancelled, or met damage) is gone on with where it was.
"""

from __future__ import annotations

import threading

from daemon.asking import Asking
from journal.events import Restored
from journal.forks import LOOKED_AT_ONCE, first_own_seq, restores_between
from journal.log import Log


class Forks:
    """Of one open journal. Safe on any thread; who asks meanwhile waits for the one that looks."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._found: list[Restored] = []
        self._looking = threading.Lock()
        self._last = log.head().seq
        """Of when it was opened."""
        self._next = first_own_seq(log)
        """Where to look on."""

    def all(self, asking: Asking) -> list[Restored]:
        """In the order of the journal. Raises Refused when the question is to end, DamagedRecord."""
        with self._looking:
            while self._next <= self._last:
                upto = min(self._last, self._next + LOOKED_AT_ONCE - 1)
                self._found += restores_between(self._log, self._next, upto)
                self._next = upto + 1
                asking.step("places", upto, self._last)
        return self._found

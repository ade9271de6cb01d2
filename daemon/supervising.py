"""What the service manager is told from the start to the end of a run, and the reload it may ask for.

One tick a second, or more often when the watchdog wants it: the sentence that is true now, more time while the daemon
isn't serving yet or no longer, WATCHDOG=1 while it serves. Once the fold has told how far it is, more time is asked for
only when it got on since the last tick, so that one which hangs between two chunks is ended by the manager. What has no
count is waited for as long as it takes: the checks before it, its first chunk, the names behind it, and a stop.
"""

from __future__ import annotations

import asyncio

from daemon import sentences
from daemon.notifying import Notifier
from daemon.reads.operator import Operator
from daemon.reloading import Reloading
from daemon.sentences import Sentence
from daemon.service import Service
from daemon.watchdog import Watchdog
from journal.space import free_bytes

TICK_S = 1.0
_NOWHERE = (-1, -1)


class Supervision:
    """For the loop's thread. It goes from checking to folding to serving to stopping; any of them may be left out."""

    def __init__(self, notifier: Notifier, reloading: Reloading, stop: asyncio.Event) -> None:
        self._notifier = notifier
        self._reloading = reloading
        self._stop = stop
        self._operator: Operator | None = None
        self._service: Service | None = None
        self._watchdog = Watchdog(notifier)
        self._stopping = False
        self._folded_then = _NOWHERE

    def folding(self, operator: Operator) -> None:
        """The journal is open, the projections are not."""
        self._operator = operator
        self.tick()

    def serving(self, service: Service) -> None:
        """Everything is answered now."""
        self._service = service
        self._watchdog.watch(service.writer)
        self._notifier.ready()
        self.tick()

    def closing(self) -> None:
        """What may take long without a tick comes next."""
        self._notifier.status(*sentences.CLOSING)
        self._notifier.extend()

    def close(self) -> None:
        self._notifier.close()

    def reload(self) -> None:
        """SIGHUP. Before the daemon serves nobody is told: the READY=1 behind it would be untrue."""
        tells = self._service is not None and not self._stopping
        if tells:
            self._notifier.reloading()
        try:
            self._reloading.reload()
        finally:
            if tells:
                self._notifier.ready()
                self.tick()

    async def run(self) -> None:
        """Tick until cancelled."""
        tick_s = min(TICK_S, self._watchdog.tick_s or TICK_S)
        while True:
            self.tick()
            if self._stopping:
                await asyncio.sleep(tick_s)
                continue
            try:
                await asyncio.wait_for(self._stop.wait(), tick_s)
            except TimeoutError:
                continue

    def tick(self) -> None:
        """Tell what is to be told now."""
        if self._stop.is_set() and not self._stopping:
            self._stopping = True
            self._notifier.stopping()
        self._notifier.status(*self._sentence())
        if self._stopping or self._service is None:
            if self._gets_on():
                self._notifier.extend()
        else:
            self._watchdog.tick()

    def _gets_on(self) -> bool:
        """Whether more time is to be asked for. Checking, opening, the fold until it tells of its first chunk, warming
        and stopping have no count to tell by."""
        folded = (0, 0) if self._operator is None else self._operator.folded
        stands = folded == self._folded_then and 0 < folded[0] < folded[1]
        self._folded_then = folded
        return self._stopping or not stands

    def _sentence(self) -> Sentence:
        if self._stopping:
            return sentences.STOPPING
        operator, service = self._operator, self._service
        if operator is None:
            return sentences.CHECKING
        if service is None:
            return sentences.folding(*operator.folded)
        store = service.store
        codes = [finding.code for finding in operator.findings()]
        free = free_bytes(store.dir.root) - service.space.missing_bytes
        return sentences.serving(store.log.head().seq, operator.health(), codes, free, self._reloading.failure)

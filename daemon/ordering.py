"""The writes of one connection on their way, in the order they were sent.

Most go to the writer at once. One that has to look first (`Verb.looks`) waits until all before it are answered, so that
it sees what they wrote, and those behind it wait until it is answered itself. Everything runs on the loop's thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from daemon.caller import Caller
from daemon.hosting import WaitingWrite
from daemon.wire.request import Request


class Writes:
    """Numbered from 1. `settled`: up to which all are answered."""

    def __init__(self, send: Callable[[WaitingWrite], None]) -> None:
        self._send = send
        self._waiting: deque[WaitingWrite] = deque()
        self._looking = 0
        self._going = False
        self._settled_ahead: set[int] = set()
        self.sent = 0
        self.settled = 0

    def put(self, request: Request, caller: Caller, size_bytes: int) -> None:
        self.sent += 1
        write = WaitingWrite(self.sent, request, caller, size_bytes)
        if request.verb.looks or self._looking or self._waiting:
            self._waiting.append(write)
            self._go_on()
        else:
            self._send(write)

    def settle(self, number: int) -> None:
        """Write `number` is answered."""
        self._settled_ahead.add(number)
        while self.settled + 1 in self._settled_ahead:
            self.settled += 1
            self._settled_ahead.remove(self.settled)
        if number == self._looking:
            self._looking = 0
        self._go_on()

    def drop(self) -> list[WaitingWrite]:
        """What was not sent on, and never will be."""
        left = list(self._waiting)
        self._waiting.clear()
        return left

    def _go_on(self) -> None:
        if self._going:  # what was sent was answered at once: whoever sent it goes on
            return
        self._going = True
        try:
            while self._waiting and not self._looking and self._may_go(self._waiting[0]):
                self._send(self._waiting.popleft())
        finally:
            self._going = False

    def _may_go(self, write: WaitingWrite) -> bool:
        if not write.request.verb.looks:
            return True
        if self.settled < write.number - 1:
            return False
        self._looking = write.number
        return True

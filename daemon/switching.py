"""Who has the interpreter when: the loop's thread, which answers, goes before the writer's, which works in batches.

Python lets a thread that wants the interpreter wait for one interval before it takes it from another one, and has one
interval for all. So it is set where the loop goes to sleep and where it wakes: a loop that wakes takes the interpreter
soon, and whoever wants it from the loop waits longer than a turn of the loop takes. Both get their share when both
have much to do.
"""

from __future__ import annotations

import asyncio
import selectors
import sys

ASLEEP_S = 0.0001
"""About how long a loop that wakes waits for the interpreter, not Python's 5 ms."""
AWAKE_S = 0.001
"""How long another thread waits for a loop that works, about a turn of it; also the loop, when it lost it."""


class SwitchingSelector(selectors.DefaultSelector):
    """Waits for the loop, and sets the interval before and behind it."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        sys.setswitchinterval(ASLEEP_S)
        try:
            return super().select(timeout)
        finally:
            sys.setswitchinterval(AWAKE_S)


def switching_loop() -> asyncio.AbstractEventLoop:
    """A loop that waits by such a selector."""
    return asyncio.SelectorEventLoop(SwitchingSelector())

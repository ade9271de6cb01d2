"""What the loop's thread does bit by bit, so that no turn of the loop takes long: answers of a batch, lines that wait.

Method: the pieces stand in one row and are done in order until a turn's time is used up; the others stay for the next
turn, before which the loop takes whatever came meanwhile. So a question that comes waits for about one turn, however
much there is to be done for others. A piece is short by itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import perf_counter

TURN_S = 0.001


class Later:
    """`call_soon` has something called on the loop's next turn. For the loop's thread."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_due = False

    def add(self, piece: Callable[[], None]) -> None:
        """Have it done behind what waits already."""
        self._waiting.append(piece)
        self._ask()

    def _ask(self) -> None:
        if self._waiting and not self._is_due:
            self._is_due = True
            self._call_soon(self._run)

    def _run(self) -> None:
        until_s = perf_counter() + TURN_S
        try:
            while self._waiting:
                self._waiting.popleft()()
                if perf_counter() >= until_s:
                    return
        finally:
            self._is_due = False
            self._ask()

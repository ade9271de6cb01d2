"""One question while it is answered: whether it is to end before it is done, and who hears how far it is.

A question ends early when its caller cancels it, when its connection is gone, or when the daemon stops. Whoever works
on something long calls `step` between batches: at most a few progress notes a second leave, however often that is.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from daemon.refusal import Reason, Refused

Tell = Callable[[str, int, int], None]
"""Called with (phase, done, of), on the thread of the work."""
TELL_EVERY_S = 0.25
RETRY_MS = 1000


def _never() -> bool:
    return False


class Asking:
    """Made where a request is read; `cancel` may be called from any thread, `step` on the one that works."""

    def __init__(self, stopping: Callable[[], bool] = _never, tell: Tell | None = None) -> None:
        self._stopping = stopping
        self._tell = tell
        self._cancelled = False
        self._told_at = 0.0
        self._phase = ""

    def cancel(self) -> None:
        """It is no longer wanted: it ends at its next step."""
        self._cancelled = True

    def should_stop(self) -> bool:
        return self._cancelled or self._stopping()

    def check(self) -> None:
        """Raises Refused when it is to end."""
        if self._cancelled:
            raise Refused(Reason.UNAVAILABLE, "cancelled", cancelled=True)
        if self._stopping():
            raise Refused(Reason.UNAVAILABLE, "the daemon stops", retry_after_ms=RETRY_MS)

    def step(self, phase: str, done: int, of: int) -> None:
        """`done` of `of` of a phase are done. Raises Refused when it is to end."""
        self.check()
        if self._tell is None:
            return
        now = monotonic()
        if phase == self._phase and done < of and now - self._told_at < TELL_EVERY_S:
            return
        self._phase, self._told_at = phase, now
        self._tell(phase, done, of)


NOBODY = Asking()
"""For questions that nothing ends and nobody follows."""

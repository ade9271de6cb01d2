"""Which sessions a write without one may belong to: those of its tenant, uid and agent that weren't closed.

One level holds what a command or a batch adds, ends and sets aside; levels lie over each other, the newest
first. A session that went stale is set aside by whoever meets it, with the time of its last activity: should
the clock go back, it is looked at again. Invariant: asking passes over each stale session once, not each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

LEASE_MS = 24 * 3_600_000
"""How long after its last activity a session that nobody closed is live."""
MAX_ASIDE = 4096
"""How many stale sessions of a key are remembered at least; twice as many at most, those set aside last."""

LiveKey = tuple[int, int, str]  # (tenant, uid, agent)


class LiveSessions:
    """Sessions by key, in the order they were opened or came back."""

    def __init__(self) -> None:
        self.added: dict[LiveKey, dict[int, None]] = {}
        self.gone: dict[LiveKey, set[int]] = {}
        self.aside: dict[LiveKey, dict[int, int]] = {}  # number → last activity, UTC ms
        self.newest_aside: dict[LiveKey, int] = {}

    def add(self, key: LiveKey, number: int) -> None:
        """Opened, come back, or live again because the clock went back."""
        self.added.setdefault(key, {})[number] = None
        self.gone.get(key, set()).discard(number)
        self.aside.get(key, {}).pop(number, None)

    def close(self, key: LiveKey, number: int) -> None:
        self.added.get(key, {}).pop(number, None)
        self.aside.get(key, {}).pop(number, None)
        self.gone.setdefault(key, set()).add(number)

    def set_aside(self, key: LiveKey, number: int, last_at: int) -> None:
        """It was found stale."""
        self.close(key, number)
        aside = self.aside.setdefault(key, {})
        aside[number] = last_at
        if len(aside) >= 2 * MAX_ASIDE:  # half at once: one by one would be a walk over the holes each time
            self.aside[key] = dict(list(aside.items())[MAX_ASIDE:])
        self.newest_aside[key] = max(last_at, self.newest_aside.get(key, last_at))

    def absorb(self, later: LiveSessions) -> None:
        """Take over what a newer level says."""
        for key, numbers in later.gone.items():
            for number in numbers:
                self.close(key, number)
        for key, aside in later.aside.items():
            for number, last_at in aside.items():
                self.set_aside(key, number, last_at)
        for key, added in later.added.items():
            for number in added:
                self.add(key, number)

    def settle(self) -> None:
        """This is the lowest level: there is nothing below it that what has gone would have to hide."""
        self.gone.clear()


def candidates(levels: Iterable[LiveSessions], key: LiveKey, now_ms: int) -> Iterator[int]:
    """The sessions of a key that may be live at `now_ms`, newest first; `levels` newest first."""
    passed: set[int] = set()
    for depth, level in enumerate(levels):
        # A copy only where the asking itself changes what it walks: on the newest level, which is small.
        added = level.added.get(key, {})
        for number in chain(_again(level, key, now_ms), reversed(added if depth else dict(added))):
            if number not in passed:
                passed.add(number)
                yield number
        passed |= level.gone.get(key, set())


def _again(level: LiveSessions, key: LiveKey, now_ms: int) -> list[int]:
    """Those set aside whose lease holds at `now_ms`: none, unless the clock went back."""
    newest = level.newest_aside.get(key)
    if newest is None or now_ms - newest >= LEASE_MS:
        return []
    return [number for number, last_at in level.aside.get(key, {}).items() if now_ms - last_at < LEASE_MS]

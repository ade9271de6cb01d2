"""Time, as the daemon sees it: handed in, never read inside a rule."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

VACUUM_THRESHOLD = 0.2
_EPOCH_ORDINAL = datetime(1970, 1, 1).toordinal()


def system_clock_ms() -> int:
    """The wall clock, UTC milliseconds."""
    return time.time_ns() // 1_000_000


class Moment:
    """A clock, and what partitions follow: a zone with its days, and the ratio of dead rows at which one is to be
    compacted."""

    def __init__(
        self, clock_ms: Callable[[], int] = system_clock_ms, zone_name: str = "UTC",
        vacuum_threshold: float = VACUUM_THRESHOLD,
    ) -> None:  # fmt: skip
        self.now_ms = clock_ms
        self.zone_name = zone_name
        self.vacuum_threshold = vacuum_threshold
        self._zone = ZoneInfo(zone_name)
        self._day = (0, 0, 0)  # (from ms, until ms, day)

    def local_day(self, at_ms: int) -> int:
        """The local date at `at_ms`, as days since 1970-01-01."""
        first, last, day = self._day
        if first <= at_ms < last:
            return day
        moment = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(self._zone)
        day = moment.toordinal() - _EPOCH_ORDINAL
        # Good for the rest of this minute: no zone changes its offset within one.
        first = at_ms - at_ms % 60_000
        self._day = (first, first + 60_000, day)
        return day

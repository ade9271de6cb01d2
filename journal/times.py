"""Times as text: RFC 3339, UTC, 3 digits and `Z`."""

from __future__ import annotations

from datetime import date
from functools import lru_cache

_FIRST_DAY = date(1970, 1, 1).toordinal()
FIRST_MS = -62_135_596_800_000
LAST_MS = 253_402_300_799_999
"""The years 1 to 9999: all that RFC 3339 can say."""
DAY_MS = 86_400_000


def format_ms(at_ms: int) -> str:
    """UTC milliseconds as `YYYY-MM-DDThh:mm:ss.mmmZ`. Raises ValueError beyond the years 1 to 9999."""
    seconds, milliseconds = divmod(at_ms, 1000)
    return f"{_format_second(seconds)}.{milliseconds:03d}Z"


@lru_cache(maxsize=4096)  # what is told together was often written together
def _format_second(at_s: int) -> str:
    day, seconds = divmod(at_s, DAY_MS // 1000)
    minutes, second = divmod(seconds, 60)
    return f"{format_day(day)}T{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}"


@lru_cache(maxsize=1024)
def format_day(day: int) -> str:
    """Days since 1970-01-01 as `YYYY-MM-DD`."""
    return date.fromordinal(_FIRST_DAY + day).isoformat()

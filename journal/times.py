"""Times as text: RFC 3339, UTC, 3 digits and `Z`."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_DAY = date(1970, 1, 1).toordinal()
FIRST_MS = -62_135_596_800_000
LAST_MS = 253_402_300_799_999
"""The years 1 to 9999: all that RFC 3339 can say."""
DAY_MS = 86_400_000


def format_ms(at_ms: int) -> str:
    """UTC milliseconds as `YYYY-MM-DDThh:mm:ss.mmmZ`."""
    moment = _EPOCH + timedelta(milliseconds=at_ms)
    return f"{moment.year:04d}-{moment:%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def format_day(day: int) -> str:
    """Days since 1970-01-01 as `YYYY-MM-DD`."""
    return date.fromordinal(_FIRST_DAY + day).isoformat()

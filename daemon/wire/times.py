"""Times on the wire: RFC 3339, UTC, 3 digits and `Z`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def format_ms(at_ms: int) -> str:
    """UTC milliseconds as `YYYY-MM-DDThh:mm:ss.mmmZ`."""
    moment = _EPOCH + timedelta(milliseconds=at_ms)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"

"""Times on the wire: RFC 3339, UTC, 3 digits and `Z`, as in frames."""

from __future__ import annotations

from journal.times import FIRST_MS, LAST_MS, format_ms

__all__ = ["FIRST_MS", "LAST_MS", "format_ms"]

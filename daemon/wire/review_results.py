"""What `review` answers."""

from __future__ import annotations

from daemon.wire.results import Result


class ReviewItem(Result, kw_only=True):
    """`others`: who set the flag, what it contradicts, the sources that are gone, whom a proposal names."""

    what: str
    id: str
    why: str
    since: str | None
    others: list[str]
    confidence: float | None


class ReviewResult(Result, kw_only=True):
    items: list[ReviewItem]
    next_cursor: str | None
    total: int

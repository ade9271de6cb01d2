"""Room for a batch: which writes a disk that is almost full still takes.

Invariant: what is let through surely fits. Ordinary writes leave the reserve alone; it goes when a write that it is
kept for (one that destroys or closes) needs it, and the first that asked has more right to it than the next.
"""

from __future__ import annotations

from daemon.refusal import Reason, Refused
from daemon.waiting import Job
from journal.environment import Environment
from journal.space import MARGIN_BYTES, Space, SpaceGuard

ALLOWED_WHEN_FULL = frozenset({"forget", "purge", "hold", "session_close"})
"""What the reserve is kept for: writes that destroy or close, and need next to nothing."""

PAGES_BYTES = 64 << 10
"""A memory changes about fifteen projection tables, each at a place of its own: a page of 4 KiB is copied there."""
SMALL_PAGES_BYTES = 32 << 10
"""What a full disk allows changes eight at most; a whole batch of it fits into the reserve."""

FITTING_STEP = 16

Refusals = list[tuple[Job, Refused]]


def fitting(space: SpaceGuard, projections: Environment, jobs: list[Job]) -> tuple[list[Job], Refusals]:
    """`(the jobs there is room for, the refusals of the others)`. The reserve goes when needed. Raises StoreIO."""
    found = space.watch()
    refused: Refusals = []
    if found.enough:
        found = space.room_for(_needed_bytes(jobs, projections))
        if found.enough:
            return jobs, refused
    else:
        refused = [(job, _disk_full(found)) for job in jobs if job.write.verb not in ALLOWED_WHEN_FULL]
        jobs = [job for job in jobs if job.write.verb in ALLOWED_WHEN_FULL]
        found = space.make_room(_needed_bytes(jobs, projections))
    if not found.enough:
        jobs, left = _first_that_fit(jobs, found.free_bytes, projections)
        refused += left
    return jobs, refused


def _first_that_fit(jobs: list[Job], free_bytes: int, projections: Environment) -> tuple[list[Job], Refusals]:
    for place in range(len(jobs), 0, -FITTING_STEP):
        if _needed_bytes(jobs[:place], projections) + MARGIN_BYTES <= free_bytes:
            break
    else:
        place = 0
    space = Space(free_bytes, _needed_bytes(jobs[: place + 1], projections) + MARGIN_BYTES)
    return jobs[:place], [(job, _disk_full(space)) for job in jobs[place:]]


def _needed_bytes(jobs: list[Job], projections: Environment) -> int:
    """What a batch may take at most: its content, and copies of the pages of the projections it changes."""
    pages_bytes = sum(
        SMALL_PAGES_BYTES if job.write.verb in ALLOWED_WHEN_FULL else PAGES_BYTES * max(1, len(job.write.items))
        for job in jobs
    )
    return sum(job.size_bytes for job in jobs) + min(pages_bytes, projections.used_bytes())


def _disk_full(space: Space) -> Refused:
    return Refused(
        Reason.READ_ONLY,
        "the disk is too full to write",
        free_bytes=space.free_bytes,
        needed_bytes=space.needed_bytes,
        retry_after_ms=1000,
    )

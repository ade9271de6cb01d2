"""Values of projections that were not folded just now, checked beside the daemon when they are too many at open.

In a child: a page that is none kills who reads it. Its death is a finding, not the end of the service.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import structlog

from daemon.children import DEADLY
from daemon.exits import Exit
from daemon.wire.results import RecoveryOut
from projections.scrub import INLINE_ENTRIES, entries
from projections.store import ProjectionStore
from projections.tables import DATABASES, PROJECTIONS

log = structlog.get_logger("daemon")


async def scrub_in_child(projections: ProjectionStore, recovery: RecoveryOut) -> None:
    """Have every value of projections that were not folded just now checked, when that was too many at open."""
    env = projections.env
    if len(recovery.rebuilt) == len(PROJECTIONS) or entries(env) <= INLINE_ENTRIES:
        return
    command = (sys.executable, "-m", "projections.scrub", str(env.path.resolve()))
    child = await asyncio.create_subprocess_exec(
        *command, cwd=Path(__file__).resolve().parents[1], stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        told, _ = await child.communicate()
    except asyncio.CancelledError:
        child.kill()
        await child.wait()
        raise
    if child.returncode == Exit.OK:
        log.info("scrubbed", code=0)
        return
    database = told.decode("ascii", "replace").strip()
    log.error("scrub", database=database, exit_code=child.returncode)
    if child.returncode != Exit.DAMAGED and -(child.returncode or 0) not in DEADLY:
        return
    with projections.place:
        if projections.env is env:  # else a rebuild has put others in their place meanwhile
            projections.note_damage(database if database in DATABASES else "projections")

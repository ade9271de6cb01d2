"""From an exception that is nobody's answer to what the caller is told.

Damage at rest is told as such, with the record; anything else is a mistake of ours: logged under an id that
the caller is given, without its text, because a text could hold content.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

import structlog

from daemon.refusal import Reason, Refused
from journal.errors import DamagedRecord, DamagedStore, PartUnreadable
from journal.store import Store
from journal.verify import Finding
from projections.rows import DamagedRow
from projections.store import ProjectionStore

RETRY_MS = 1000
"""A fold of a small store takes less; a large one costs whoever met the damage some tries."""

log = structlog.get_logger("failures")


def note_damage(store: Store, projections: ProjectionStore, error: BaseException) -> None:
    """Keep what was found damaged: `status` tells it."""
    if isinstance(error, DamagedRow):
        projections.note_damage(error.database)
    elif isinstance(error, DamagedRecord) or (isinstance(error, PartUnreadable) and error.state == "damaged"):
        store.note(Finding("read_damaged", error.seq, str(error), "Run `noctuary audit`."))


def refusal_of(verb: str, error: Exception) -> Refused:
    """What the caller of `verb` is told when `error` kept it from being answered."""
    if isinstance(error, DamagedRow):
        log.error("projection_damaged", database=error.database, verb=verb)
        return Refused(
            Reason.DAMAGED, "a projection is damaged here; it is being folded anew, ask again",
            projection=error.database, retry_after_ms=RETRY_MS,
        )  # fmt: skip
    if isinstance(error, DamagedStore | PartUnreadable):
        log.error("journal_damaged", seq=error.seq, verb=verb)
        return Refused(Reason.DAMAGED, "the journal is damaged here; run `noctuary audit`", seq=error.seq)
    return _internal(verb, error)


def _internal(verb: str, error: BaseException) -> Refused:
    error_id = os.urandom(8).hex()
    log_failure("internal", error, error_id=error_id, verb=verb)
    return Refused(Reason.INTERNAL, f"internal error {error_id}", error_id=error_id)


def log_failure(event: str, error: BaseException, **fields: Any) -> None:
    """The class of an error and where it came from, without its text or any value."""
    log.error(event, error_class=type(error).__name__, frames=_frames(error.__traceback__), **fields)


def log_unavailable(section: str, memory: str, error: Exception) -> None:
    """A part of an answer could not be told, the rest was."""
    log.warning("section_unavailable", section=section, memory=memory, error_class=type(error).__name__)


def _frames(trace: TracebackType | None) -> list[str]:
    frames = []
    while trace is not None:
        frames.append(f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}")
        trace = trace.tb_next
    return frames


def log_what_nobody_catches(loop: asyncio.AbstractEventLoop) -> None:
    """Python would print a traceback, whose texts may hold content: all four ways end in the log instead."""
    sys.excepthook = lambda kind, error, trace: log_failure("uncaught", error)
    sys.unraisablehook = lambda told: _log_told(told.exc_value)
    threading.excepthook = lambda told: _log_told(told.exc_value)
    loop.set_exception_handler(lambda _loop, context: _log_told(context.get("exception")))


def _log_told(error: BaseException | None) -> None:
    if error is not None:
        log_failure("uncaught", error)

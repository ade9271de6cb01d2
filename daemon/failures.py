"""From an exception that is nobody's answer to what the caller is told.

Damage at rest is told as such, with the record; anything else is a mistake of ours: logged under an id that
the caller is given, without its text, because a text could hold content.
"""

from __future__ import annotations

import os
from pathlib import Path

import structlog

from daemon.refusal import Reason, Refused
from journal.errors import DamagedStore, PartUnreadable
from projections.rows import DamagedRow

log = structlog.get_logger("failures")


def refusal_of(verb: str, error: Exception) -> Refused:
    """What the caller of `verb` is told when `error` kept it from being answered."""
    if isinstance(error, DamagedRow):
        log.error("projection_damaged", database=error.database, verb=verb)
        return Refused(
            Reason.DAMAGED, "a projection is damaged here; it is folded anew when the daemon starts again",
            projection=error.database,
        )  # fmt: skip
    if isinstance(error, DamagedStore | PartUnreadable):
        log.error("journal_damaged", seq=error.seq, verb=verb)
        return Refused(Reason.DAMAGED, "the journal is damaged here; run `noctuary audit`", seq=error.seq)
    return _internal(verb, error)


def _internal(verb: str, error: Exception) -> Refused:
    error_id = os.urandom(8).hex()
    frames = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}")
        trace = trace.tb_next
    log.error("internal", error_id=error_id, verb=verb, error_class=type(error).__name__, frames=frames)
    return Refused(Reason.INTERNAL, f"internal error {error_id}", error_id=error_id)

"""Which memories a selection meant at a moment that is past.

Only what never changes (session, ids, producer, kind, origin) is asked of the columns: all else may have been otherwise
then, so that each memory that they let pass is looked at as it was (`daemon/reads/known.py`). It costs a row and a look
into the index of what touched it, and where something did, each of those records: a selection by what never changes is
cheap, one without it goes through all of a tenant. What was purged since is meant by what it was then, as far as that
can be told: its content is gone, so no selection by content finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from daemon.reads.holding import holds
from daemon.reads.known import KnownReading
from daemon.reads.reading import is_purged
from daemon.reads.selecting import Selecting, Tsids
from journal.errors import DamagedRecord
from projections.columns import Mask
from projections.header_columns import Segment
from projections.rows import MemoryRow
from projections.sealed_scan import CHUNK_MEMORIES


class SelectingThen(Selecting):
    """One selection of one question about the past."""

    def __init__(self, known: KnownReading, sel: Any, statuses: Sequence[str]) -> None:
        super().__init__(known, sel, statuses)
        self._known = known

    @property
    def by_headers(self) -> bool:
        """Never: the header rows say what is now."""
        return False

    def _may_be_dead(self) -> bool:
        """It may have lived then."""
        return True

    def matching(self, tsids: Tsids) -> Iterator[int]:
        """Those of the candidates that were there then, and fit. Raises Refused, NotBrief, DamagedRow."""
        shown = self._shown
        for first in range(0, len(tsids), CHUNK_MEMORIES):
            self._known.asking.step("select", first, len(tsids))
            for tsid in tsids[first : first + CHUNK_MEMORIES].tolist():
                now = self._known.memory_now(tsid)
                if now is not None and self._fitted(tsid, now, shown):
                    yield tsid

    def _header_conditions(self) -> list[Callable[[Segment], Mask]]:
        return [*self._lasting_conditions(), lambda segment: np.ones(len(segment.rows), np.bool_)]

    def _fitted(self, tsid: int, now: MemoryRow, shown: frozenset[int]) -> bool:
        """Whether it fitted then. What can't be told fits: it comes back as damaged, not left out in silence."""
        try:
            then = self._known.state_then(tsid, now)
            if then is None or then.status not in shown or not self._was_in_time(then) or not holds(self._known, then):
                return False
        except DamagedRecord:
            return True
        return not self._sealed or (not is_purged(now) and self._opens_and_fits(then))

    def _was_in_time(self, row: MemoryRow) -> bool:
        since, until = self._since, self._until
        return (since is None or since <= row.at_ms) and (until is None or row.at_ms < until)

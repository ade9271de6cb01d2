"""Two selections side by side, in numbers only: how two producers' memories have stood the test (contract §5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from daemon.prepare import UNSET
from daemon.reads.reading import Reading
from daemon.reads.selecting import Selecting
from daemon.selections import ALIVE_OR_NOT, Tsids
from daemon.wire import cohort_results as c
from journal import events
from journal.codes import Kind, Mark, Origin, ProposalStatus
from journal.errors import DamagedRecord
from projections import proposals, provenance, tables
from projections.lineage_scan import rows_of
from projections.rows import DamagedRow

_LOOKS_A_STEP = 1024


def compared(reading: Reading, sels: Sequence[Any]) -> c.CohortResult:
    """One side for each selection, in order. Raises Refused."""
    return c.CohortResult(compared=[_side(reading, sel) for sel in sels if sel is not UNSET])


def _side(reading: Reading, sel: Any) -> c.Compared:
    selecting = Selecting(reading, sel, ALIVE_OR_NOT)
    tsids = np.fromiter(selecting.matching(selecting.candidates()), np.uint64)
    rows = rows_of(reading.snapshot, tsids, lambda done, of: reading.asking.step("compare", done, of))
    marks = rows["marks"]
    rejected, decided = _decided(reading, tsids)
    unresolvable, references = _references(reading, tsids, rows)
    return c.Compared(
        count=len(tsids),
        by_origin={Origin(code).wire: number for code, number in _counts(rows["origin"])},
        by_kind={Kind(code).wire: number for code, number in _counts(rows["kind"])},
        superseded_rate=_share(marks, Mark.SUPERSEDED), rejected_rate=_rate(rejected, decided),
        unresolvable_rate=_rate(unresolvable, references), forgotten_rate=_share(marks, Mark.FORGOTTEN),
        mean_confidence=float(rows["confidence"].mean()) if len(rows) else None,
        mean_importance=float(rows["importance"].mean()) if len(rows) else None,
    )  # fmt: skip


def _counts(codes: npt.NDArray[np.uint8]) -> list[tuple[int, int]]:
    found, counts = np.unique(codes, return_counts=True)
    return list(zip(found.tolist(), counts.tolist(), strict=True))


def _share(marks: npt.NDArray[np.uint16], mark: Mark) -> float | None:
    return _rate(int(np.count_nonzero(marks & (1 << mark))), len(marks))


def _rate(some: int, of: int) -> float | None:
    return some / of if of else None


def _decided(reading: Reading, tsids: Tsids) -> tuple[int, int]:
    """`(rejected, decided)`: of the proposals that name one of these memories, each once. One that a purge ended, or
    a restore that purged again, since nobody can decide any more, was rejected by nobody."""
    rejected: set[int] = set()
    applied: set[int] = set()
    for place, tsid in enumerate(tsids.tolist()):
        if place % _LOOKS_A_STEP == 0:
            reading.asking.step("proposals", place, len(tsids))
        rejected.update(proposals.naming(reading.state, tsid, ProposalStatus.REJECTED))
        applied.update(proposals.naming(reading.state, tsid, ProposalStatus.APPLIED))
    said = sum(_was_said(reading, proposal) for proposal in rejected)
    return said, said + len(applied)


def _was_said(reading: Reading, proposal: int) -> bool:
    """Whether somebody rejected it. A record that can't be read was somebody's. Raises DamagedRow."""
    row = proposals.get(reading.state, proposal)
    if row is None:
        raise DamagedRow(tables.PROPOSALS)
    record = reading.noted_record(row.decided_seq)
    return record is None or record.cause.verb == "decide"


def _references(reading: Reading, tsids: Tsids, rows: npt.NDArray[np.void]) -> tuple[int, int]:
    """`(unresolvable, all)` of the references that these memories were made with: memories that are purged, and
    external ones that can't be followed. A record that can't be read counts for nothing."""
    unresolvable = references = 0
    for place, (tsid, seq) in enumerate(zip(tsids.tolist(), rows["seq"].tolist(), strict=True)):
        if place % _LOOKS_A_STEP == 0:
            reading.asking.step("references", place, len(tsids))
        try:
            event = reading.record(seq).event
        except DamagedRecord:
            reading.note_damage(seq, "what a comparison asks for")
            continue
        if not isinstance(event, events.MemoryCreated):
            continue
        for _, other in (*event.sources, *event.evidence):
            row = reading.memory(other)
            unresolvable += row is None or row.has(Mark.PURGED)
        for index, external in enumerate(event.externals):
            unresolvable += not provenance.is_resolvable(reading.state, tsid, index, external.resolvable)
        references += len(event.sources) + len(event.evidence) + len(event.externals)
    return unresolvable, references

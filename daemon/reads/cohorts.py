"""What a cohort would touch, and which cohorts there are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np

from daemon import limits
from daemon.commands.rederiving import plan
from daemon.reads.reading import Reading
from daemon.reads.resolving import Found
from daemon.selections import Token, Tsids, digest_of
from daemon.wire import cohort_results as c
from daemon.wire.results import Producer
from daemon.wire.times import format_ms
from journal import events
from journal.codes import CohortAction, Kind, Origin, Status
from journal.errors import DamagedRecord
from journal.tsid import format_tsid, memory_ref
from projections import cohorts
from projections.lineage_scan import rows_of
from projections.state import State

TOLD = limits.DOWNSTREAM_TOLD
PRODUCERS_TOLD = 100
MEMBERS_TOLD = 20


class Planned:
    """What an action would touch of what was found, and the token that stands for that."""

    def __init__(self, reading: Reading, found: Found, action: CohortAction) -> None:
        self._reading, self._found = reading, found
        self.touched = found.touched
        self.not_rederivable: Tsids | None = None
        if action is CohortAction.REDERIVE:
            state = reading.state
            members = ((tsid, row) for tsid in found.touched.tolist() if (row := reading.memory(tsid)) is not None)
            planned = plan(state, reading.record, members)
            self.touched = np.array(planned.again, np.uint64)
            self.not_rederivable = np.array(planned.not_again, np.uint64)

    @property
    def token(self) -> Token:
        """Of this reading's record."""
        return Token(
            self._reading.store.epoch, self._reading.snapshot.watermark_seq(), len(self._found.selected),
            len(self.touched), digest_of(self._found.selected), digest_of(self.touched),
        )  # fmt: skip

    def told(self, token: str | None) -> c.CohortResult:
        """The answer of a dry run. Without anything to be touched there is no token."""
        found = self._found
        result = c.CohortResult(
            count=len(found.selected), ids=self._refs(found.selected), ids_cut=len(found.selected) > TOLD,
            downstream=[memory_ref(*ref) for ref in found.downstream.refs[:TOLD]],
            downstream_cut=found.downstream.cut or len(found.downstream.refs) > TOLD,
            not_rederivable=[], not_rederivable_cut=False, token=token,
        )  # fmt: skip
        if self.not_rederivable is not None:
            result.not_rederivable = self._refs(self.not_rederivable)
            result.not_rederivable_cut = len(self.not_rederivable) > TOLD
        return result

    def _refs(self, tsids: Tsids) -> list[str]:
        first = tsids[:TOLD]
        kinds = rows_of(self._reading.snapshot, first, lambda done, of: None)["kind"].tolist()
        return [memory_ref(kind, tsid) for kind, tsid in zip(kinds, first.tolist(), strict=True)]


def cohort_list(reading: Reading, params: Any) -> c.CohortsResult:
    """The cohorts of our tenants, newest first. A cursor names the last one given and the newest there was."""
    cursors = reading.cursors(repr(("cohorts", reading.tenant_names)))
    found = sorted(_all(reading.state, reading.tenants), reverse=True)
    place = cursors.decode(params.cursor, found[0][0] if found else 0)
    found = [(cohort, row) for cohort, row in found if cohort <= place.head]
    left = [each for each in found if not place.last or each[0] < place.last]
    page = left[: params.limit]
    cursor = cursors.encode(page[-1][0], place.head) if len(left) > len(page) else None
    return c.CohortsResult(
        cohorts=[_row(reading, cohort, row) for cohort, row in page], next_cursor=cursor, total=len(found)
    )


def _all(state: State, tenants: Sequence[int] | frozenset[int]) -> list[tuple[int, cohorts.CohortRow]]:
    return [each for tenant in tenants for each in cohorts.of_tenant(state, tenant)]


def _row(reading: Reading, cohort: int, row: cohorts.CohortRow) -> c.CohortRow:
    event = reading.record(row.made_seq).event
    if not isinstance(event, events.CohortMade):
        raise DamagedRecord(row.made_seq, "event")
    return c.CohortRow(
        cohort=f"cohort:{format_tsid(cohort)}", action=CohortAction(row.action).wire, count=row.count,
        downstream=row.downstream, at=format_ms(row.made_at),
        lifted_at=format_ms(row.lifted_at) if row.lifted_seq else None,
        producers=[_producer(reading, number) for number in event.producers[:PRODUCERS_TOLD]],
        origins=[Origin(code).wire for code in event.origins], kinds=[Kind(code).wire for code in event.kinds],
        since=_time(event.since), until=_time(event.until),
        statuses=[Status(code).wire for code in event.statuses], session=_session(reading, event.session),
        sealed=event.sealed,
        ids=[memory_ref(of.kind, of.tsid) for of in islice(cohorts.members(reading.state, cohort), MEMBERS_TOLD)],
    )  # fmt: skip


def _producer(reading: Reading, number: int) -> Producer:
    stamp = reading.producer(number)
    if stamp is None:
        return Producer(agent=None, model=None, version=None, extractor=None)
    return Producer(agent=stamp.agent, model=stamp.model, version=stamp.version, extractor=stamp.extractor)


def _session(reading: Reading, number: int) -> str | None:
    row = reading.session(number) if number else None
    return None if row is None else f"session:{format_tsid(row.id)}"


def _time(at_ms: int | None) -> str | None:
    return None if at_ms is None else format_ms(at_ms)

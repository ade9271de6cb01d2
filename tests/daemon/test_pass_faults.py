"""The six faults that a pass of another program once had, each put back: the test that guards against it fails then.

A guard that passes with the fault in place is none; so each is run twice, with the product as it is and with the fault.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from daemon.commands import passes
from journal import events
from journal.codes import Kind
from tests.daemon import test_passes as guards
from tests.daemon.slept import Slept

_row, _draft, _in_order, _commit = passes._row, passes._draft, passes._in_order, passes.commit_pass


def _offsets_over_all_partitions(building: Any, session: int, sources: Any) -> events.RegionRow:
    row = _row(building, session, sources)
    first, last = sources[0].row, sources[-1].row
    return msgspec.structs.replace(row, first_offset=first.slot, last_offset=last.slot)


def _offsets_from_where_the_pass_began(building: Any, session: int, sources: Any) -> events.RegionRow:
    return msgspec.structs.replace(_row(building, session, sources), first_offset=0, last_offset=len(sources) - 1)


def _identical_turns_are_one(tsids: Any, turns: Any) -> tuple[int, ...]:
    by_text = {turns[tsid].event.parts[0].owner_seq: tsid for tsid in _in_order(tsids, turns)}
    return tuple(by_text.values())


def _no_affect(given: Any, otherwise: Any) -> Any:
    return otherwise if otherwise is None else 0.0


def _no_session(building: Any, event: events.MemoryCreated, fact: Any, session: int) -> None:
    msgspec.structs.force_setattr(event, "session", 0)
    _draft(building, event, fact, session)


def _settles_in_a_second_step(building: Any, prepared: Any) -> dict[str, Any]:
    """Which a crash never came to."""
    result = _commit(building, prepared)
    building.drafts[:] = [each for each in building.drafts if not isinstance(each.event, events.PassCommitted)]
    return result


def _the_partition_of_now(building: Any, session: int, sources: Any) -> events.RegionRow:
    return msgspec.structs.replace(_row(building, session, sources), partition=building.partition(Kind.RAW))


Guard = Callable[[Slept, Path], Any]
FAULTS: dict[str, tuple[str, Any, Guard]] = {
    "absolute offsets": ("_row", _offsets_over_all_partitions,
                         lambda slept, _: guards.test_offsets_are_those_of_the_turns_in_their_partition(slept)),
    "relative offsets": ("_row", _offsets_from_where_the_pass_began,
                         lambda slept, _: guards.test_offsets_are_those_of_the_turns_in_their_partition(slept)),
    "identical turns collide": ("_in_order", _identical_turns_are_one,
                                lambda slept, _: guards.test_identical_turns_are_each_settled(slept)),
    "affect is dropped": ("_or", _no_affect, lambda slept, _: guards.test_a_fact_keeps_the_affect_it_was_given(slept)),
    "no session": ("_draft", _no_session, lambda slept, _: guards.test_a_note_belongs_to_its_session(slept)),
    "marked in a second step": ("commit_pass", _settles_in_a_second_step,
                                lambda slept, path: guards.test_after_a_crash_each_fact_is_there_once(
                                    slept, path, "nothing")),
    "partition of the pass": ("_row", _the_partition_of_now,
                              lambda slept, _: guards.test_the_partition_of_a_row_is_that_of_its_first_turn(slept)),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_that_is_put_back_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    where, fault, guard = FAULTS[name]
    for run, is_faulty in (("sound", False), ("faulty", True)):
        (tmp_path / run).mkdir()
        slept = Slept(tmp_path / run / "state")
        try:
            if not is_faulty:
                guard(slept, tmp_path / run)
                continue
            monkeypatch.setattr(passes, where, fault)
            with pytest.raises((AssertionError, pytest.fail.Exception)):
                guard(slept, tmp_path / run)
        finally:
            slept.close(True)

"""audit holds the provenance region against the edges: each kind of difference is found, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon.reads.audit import region_findings
from journal import events
from journal.codes import Kind, Origin
from journal.tsid import memory_ref, parse_memory_ref
from tests.daemon.slept import DAY_MS, Slept, fact


@pytest.fixture
def slept(tmp_path: Path) -> Iterator[Slept]:
    opened = Slept(tmp_path / "state")
    try:
        yield opened
    finally:
        opened.close(True)


def differing(slept: Slept) -> list[str]:
    return [each["what"] for each in slept.read("audit", {"rebuild": True})["findings"]]


def test_sound_rows_of_every_state_are_no_finding(slept: Slept) -> None:
    turns = slept.turns(4)
    slept.now_ms += DAY_MS
    turns += slept.turns(2)
    made = slept.commit([fact(turns[1], turns[4]), fact(turns[0], text="two")], noise=[turns[2]])["notes"]
    slept.write("remember", {"kind": "procedure", "origin": "derived", "text": "p", "derived_from": made})
    slept.commit([fact(turns[5], text="three")], last=False)
    slept.write("forget", {"id": made[0]})
    assert differing(slept) == []
    slept.purge(made[1])
    assert differing(slept) == []


ROW: dict[str, Any] = {"turns": 1, "partition": 1, "first_turn": 1, "last_turn": 1}


@pytest.mark.parametrize(
    "wrong",
    [{"turns": 2}, {"first_turn": 2}, {"last_turn": 2}, {"partition": 2}, {"session": 1}, {}],
    ids=["turns", "first", "last", "partition", "session", "nothing"],
)
def test_a_row_that_says_otherwise_than_its_edges_is_found(slept: Slept, wrong: dict[str, Any]) -> None:
    """The journal itself says so: folding it again gives the same row."""
    turn = slept.turn("t")
    session = parse_memory_ref(slept.ref().replace("session", "raw"))[1]
    slept.write("remember", {"kind": "note", "origin": "told", "text": "opens the partition", "derived_from": [turn]})
    tsid = slept.projections.counters.tsid + 1
    slept.append(
        events.MemoryCreated(
            id=tsid, slot=9, kind=int(Kind.NOTE), subtype=1, origin=int(Origin.CONSOLIDATED), partition=2,
            session=slept.number(), sources=(parse_memory_ref(turn),), made_by_pass=(1, 0, 1),
            rows=(events.RegionRow(**{**ROW, "session": session, **wrong}),),
        )
    )  # fmt: skip
    assert differing(slept) == ([memory_ref(Kind.NOTE, tsid)] if wrong else [])
    assert [each.code for each in region_findings(slept.projections)] == (["provenance_differs"] if wrong else [])

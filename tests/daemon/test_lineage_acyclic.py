"""Nothing can come to be made from itself: sources must exist before, and a version is newer than the one before it.

So every edge of lineage leads to an older memory, and no walk comes back. Held against whatever a caller may try:
any kinds, batches that cite their own items, revisions of revisions, relations in both directions, guessed ids.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daemon.refusal import Reason, Refused
from journal.codes import EdgeType
from journal.tsid import format_tsid, parse_memory_ref
from projections import edges
from projections.state import State
from tests.daemon.told import Told

LINEAGE = {int(EdgeType.DERIVED_FROM), int(EdgeType.SUPERSEDES), int(EdgeType.UPDATES)}
PICK = st.integers(0, 99)
STEPS = st.one_of(
    st.tuples(st.just("remember"), st.lists(PICK, max_size=3), st.just(0)),
    st.tuples(st.just("batch"), st.lists(st.integers(0, 4), max_size=4), PICK),
    st.tuples(st.just("revise"), st.lists(PICK, max_size=1), PICK),
    st.tuples(st.just("relate"), st.lists(PICK, min_size=1, max_size=1), PICK),
    st.tuples(st.just("guess"), st.lists(PICK, max_size=1), st.integers(0, 3)),
)


class Tries:
    """What a caller tries, with enforcement off: the table of kinds must not be what forbids a cycle."""

    def __init__(self, root: Path) -> None:
        self.told = Told(root)
        self.known = [self.told.raw()]
        self.told.write("lifecycle", {"enforce": False})

    def pick(self, number: int) -> str:
        return self.known[number % len(self.known)]

    def note(self, sources: list[str]) -> dict[str, Any]:
        return {"kind": "note", "origin": "derived", "text": "n", "derived_from": sources}

    def remember(self, picks: list[int], _: int) -> None:
        self.known.append(self.told.write("remember", self.note([self.pick(each) for each in picks]))["id"])

    def batch(self, places: list[int], pick: int) -> None:
        """Items that cite each other by place: only what stands before may be cited."""
        items = [self.note([f"@{place}", self.pick(pick)]) for place in places] or [self.note([])]
        try:
            results = self.told.write("remember_many", {"items": items})["results"]
        except Refused as refused:
            assert refused.reason is Reason.INVALID_INPUT
            assert any(place >= at for at, place in enumerate(places))
            return
        assert all(place < at for at, place in enumerate(places))
        self.known += [row["id"] for row in results]

    def revise(self, picks: list[int], pick: int) -> None:
        params: dict[str, Any] = {"id": self.pick(pick), "text": "better", "origin": "derived"}
        if picks:
            params["fields"] = {"evidence": [self.pick(picks[0])]}
        try:
            self.known.append(self.told.write("revise", params)["id"])
        except Refused as refused:
            assert refused.reason is Reason.CONFLICT and refused.data["current"] in self.known

    def relate(self, picks: list[int], pick: int) -> None:
        one, other = self.pick(picks[0]), self.pick(pick)
        if one != other:
            self.told.write("relate", {"from": one, "to": other, "type": ("extends", "contradicts")[pick % 2]})

    def guess(self, picks: list[int], ahead: int) -> None:
        """The id that the next memory will have, cited by itself."""
        newest = max(parse_memory_ref(ref)[1] for ref in self.known)
        try:
            self.told.write("remember", self.note([f"note:{format_tsid(newest + 1 + ahead)}"]))
        except Refused as refused:
            assert refused.reason is Reason.PROVENANCE
            return
        raise AssertionError("a memory cited what was not there yet")

    def check(self) -> None:
        projections = self.told.projections
        with projections.snapshot() as snapshot:
            state = State(snapshot, projections.counters, snapshot.head)
            for ref in self.known:
                _, tsid = parse_memory_ref(ref)
                assert all(other < tsid for kind, _, other in edges.outgoing(state, tsid) if kind in LINEAGE)
        for ref in self.known[-5:]:
            for direction in ("sources", "dependents"):
                found = self.told.read("trace", {"id": ref, "direction": direction, "depth": 1000})
                met = [node["ref"] for node in found["nodes"]]
                assert len(met) == len(set(met)) and not found["truncated"]
                back = "to" if direction == "sources" else "from"
                assert all(edge[back] != ref for edge in found["edges"]), "the walk comes back"


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.lists(STEPS, min_size=5, max_size=25))
def test_no_sequence_of_writes_makes_a_cycle(steps: list[tuple[str, list[int], int]]) -> None:
    root = Path(tempfile.mkdtemp(prefix="noctuary-cycles-"))
    tries = Tries(root / "state")
    try:
        for name, picks, pick in steps:
            getattr(tries, name)(picks, pick)
        tries.check()
    finally:
        tries.told.close(True)
        shutil.rmtree(root)

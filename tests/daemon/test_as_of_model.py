"""`list` and `get` of other moments against a small model: each memory is its windows and its versions, in order.

Clocks go forward and back. A version is known at T when it, or a later one of the same memory, was written at T or
before; it holds at T when its half-open window has T in it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.wire.times import format_ms
from tests.daemon.told import START_MS, Told

EVERY = ["active", "superseded", "archived", "forgotten"]
AROUND = st.integers(-3, 12)
"""Milliseconds from the first write: windows, and moments that are asked about, lie within them."""
OPS = st.one_of(
    st.tuples(st.just("remember"), st.one_of(st.none(), AROUND), st.one_of(st.none(), AROUND)),
    st.tuples(st.sampled_from(["revise", "archive", "unarchive", "forget", "recover"]), st.integers(0, 9)),
    st.tuples(st.just("move"), st.integers(0, 9), st.sampled_from(["kitchen", "garden", None])),
    st.tuples(st.just("clock"), st.sampled_from([1, 1, 2, 3, -1, -2])),
)


class Version(NamedTuple):
    at_ms: int
    valid_to: int | None = None
    superseded: bool = False
    archived: bool = False
    forgotten: bool = False
    project: str | None = None

    @property
    def status(self) -> str:
        told = (("forgotten", self.forgotten), ("archived", self.archived), ("superseded", self.superseded))
        return next((word for word, is_so in told if is_so), "active")


class Held(NamedTuple):
    id: str
    valid_from: int | None
    versions: list[Version]

    def known_at(self, at_ms: int | None) -> Version | None:
        if at_ms is None:
            return self.versions[-1]
        known = [place for place, version in enumerate(self.versions) if version.at_ms <= at_ms]
        return self.versions[known[-1]] if known else None


class Twin:
    """The service, and what it should know."""

    def __init__(self, told: Told) -> None:
        self.told = told
        self.held: list[Held] = []

    def remember(self, start: int | None, end: int | None) -> None:
        if start is not None and end is not None and end < start:
            start, end = end, start
        valid_from, valid_to = (None if each is None else START_MS + each for each in (start, end))
        given = {"valid_from": valid_from, "valid_to": valid_to}
        ref = self.told.raw(**{name: format_ms(each) for name, each in given.items() if each is not None})
        self.held.append(Held(ref, valid_from, [Version(self.told.now_ms, valid_to)]))

    def act(self, verb: str, pick: int, *more: Any) -> None:
        if self.held:
            getattr(self, verb)(self.held[pick % len(self.held)], *more)

    def _goes_on(self, held: Held, **changed: Any) -> None:
        held.versions.append(held.versions[-1]._replace(at_ms=self.told.now_ms, **changed))

    def revise(self, held: Held) -> None:
        """Only what began and has no end: what else becomes of an end is another matter."""
        now = held.versions[-1]
        if now.superseded or now.forgotten or now.valid_to is not None:
            return
        if held.valid_from is not None and held.valid_from > self.told.now_ms:
            return
        ref = self.told.do("revise", held.id, text="another", origin="told")["id"]
        self.held.append(Held(ref, self.told.now_ms, [Version(self.told.now_ms, project=now.project)]))
        self._goes_on(held, superseded=True, valid_to=self.told.now_ms)

    def archive(self, held: Held, on: bool = True) -> None:
        self.told.do("mark", held.id, mark="archived", on=on)
        if held.versions[-1].archived != on:
            self._goes_on(held, archived=on)

    def unarchive(self, held: Held) -> None:
        self.archive(held, False)

    def forget(self, held: Held) -> None:
        if not held.versions[-1].forgotten:
            self.told.do("forget", held.id)
            self._goes_on(held, forgotten=True)

    def recover(self, held: Held) -> None:
        if held.versions[-1].forgotten:
            self.told.do("recover", held.id)
            self._goes_on(held, forgotten=False)

    def move(self, held: Held, project: str | None) -> None:
        if held.versions[-1].forgotten or held.versions[-1].project == project:
            return
        self.told.do("revise", held.id, disposition="move", fields={"project": project})
        self._goes_on(held, project=project)

    def expected(self, as_of: int | None, known_at: int | None, fits: Callable[[Version], bool]) -> list[str]:
        found = []
        for held in self.held:
            version = held.known_at(known_at)
            if version is None or not fits(version):
                continue
            ends = version.valid_to
            if as_of is None or (
                (held.valid_from is None or held.valid_from <= as_of) and (ends is None or as_of < ends)
            ):
                found.append(held.id)
        return sorted(found)


@settings(max_examples=25, deadline=None)
@given(ops=st.lists(OPS, min_size=4, max_size=14), moments=st.lists(AROUND, min_size=3, max_size=3, unique=True))
def test_every_moment_in_the_world_and_in_the_journal_is_that_of_the_model(
    ops: list[tuple[Any, ...]], moments: list[int]
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        told = Told(Path(directory) / "state")
        try:
            twin = Twin(told)
            for name, *args in [("remember", None, None), *ops]:
                if name == "clock":
                    told.now_ms += args[0]
                elif name == "remember":
                    twin.remember(*args)
                else:
                    twin.act(name, *args)
            told.now_ms = max(told.now_ms, START_MS + 20)
            asked = [None, *[START_MS + each for each in moments]]
            for as_of in asked:
                for known_at in asked:
                    _compare(told, twin, as_of, known_at)
        finally:
            told.close(True)


def _compare(told: Told, twin: Twin, as_of: int | None, known_at: int | None) -> None:
    given = {"as_of": as_of, "as_known_at": known_at}
    times = {name: format_ms(each) for name, each in given.items() if each is not None}
    usual = ["active"] if as_of is None else ["active", "superseded"]
    sels: list[tuple[dict[str, Any], Callable[[Version], bool]]] = [
        ({}, lambda version: version.status in usual),
        ({"status": EVERY}, lambda version: True),
        ({"status": ["superseded", "forgotten"]}, lambda version: version.status in ("superseded", "forgotten")),
        ({"project": "kitchen"}, lambda version: version.status in usual and version.project == "kitchen"),
    ]
    for sel, fits in sels:
        answer = told.read("list", {"limit": 1000, **({"sel": sel} if sel else {}), **times})
        assert [row["id"] for row in answer["memories"]] == twin.expected(as_of, known_at, fits), (sel, times)
        assert answer["total"] == len(answer["memories"])
    refs = [held.id for held in twin.held]
    found = told.read("get", {"ids": refs, **times})
    there = twin.expected(as_of, known_at, lambda version: True)
    assert sorted(row["id"] for row in found["memories"]) == there
    assert found["not_found"] == [ref for ref in refs if ref not in there]
    for row in found["memories"]:
        (held,) = (each for each in twin.held if each.id == row["id"])
        version = held.known_at(known_at)
        assert version is not None and (row["status"], row["project"]) == (version.status, version.project)

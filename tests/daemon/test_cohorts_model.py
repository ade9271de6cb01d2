"""Cohorts in any order, with passes, revisions and tombstones between: what stands is what a small model says."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from daemon.refusal import Reason, Refused
from projections import passes
from tests.daemon.cohorted import Cohorted
from tests.daemon.slept import fact

TURNS = 6
PICKS = st.lists(st.integers(0, 99), min_size=1, max_size=4)
ACTIONS = st.sampled_from(["quarantine", "demote", "rederive", "rederive"])


class Thing:
    """A turn, or a note with its turns."""

    def __init__(self, ref: str, turns: frozenset[str] = frozenset(), by_pass: bool = False) -> None:
        self.ref, self.turns, self.by_pass = ref, turns, by_pass
        self.importance = 1.0
        self.halved: tuple[float, float] | None = None
        self.forgotten = False
        self.superseded = ""  # by whom: "", "user" or "cohort"
        self.archived = ""


class Made:
    def __init__(self, action: str, members: list[Thing]) -> None:
        self.action, self.members, self.lifted = action, members, False


class Cohorts(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="noctuary-cohorts-"))
        self.held = Cohorted(self.root / "state")
        self.turns = {ref: Thing(ref) for ref in self.held.turns(TURNS)}
        self.settled: dict[str, bool] = {}
        self.before: dict[str, bool] = {}
        self.notes: dict[str, Thing] = {}
        self.made: dict[str, Made] = {}
        self.settle(list(self.turns)[: TURNS - 1], [])

    def teardown(self) -> None:
        try:
            assert self.held.rebuilt_alike()
            self.check()
        finally:
            self.held.close(True)
            shutil.rmtree(self.root)

    # --- the model ---

    @property
    def things(self) -> list[Thing]:
        return [*self.turns.values(), *self.notes.values()]

    def holders(self, thing: Thing, action: str, besides: str = "") -> list[str]:
        return [
            ref for ref, made in self.made.items()
            if not made.lifted and made.action == action and thing in made.members and ref != besides
        ]  # fmt: skip

    def is_quarantined(self, thing: Thing) -> bool:
        return bool(self.holders(thing, "quarantine"))

    def may_be_taken(self, ref: str) -> bool:
        return not self.turns[ref].forgotten and not self.is_quarantined(self.turns[ref])

    def again(self, thing: Thing) -> list[str]:
        """The turns from which it can be made anew."""
        gone = thing.forgotten or thing.superseded or thing.archived or not thing.by_pass
        return [] if gone else [turn for turn in thing.turns if self.may_be_taken(turn)]

    def picked(self, picks: list[int], among: list[Any]) -> list[Any]:
        return list(dict.fromkeys(among[pick % len(among)] for pick in picks)) if among else []

    # --- rules ---

    @rule(action=ACTIONS, picks=PICKS)
    def act(self, action: str, picks: list[int]) -> None:
        by_pass = [note for note in self.notes.values() if note.by_pass]
        chosen = self.picked(picks, by_pass if action == "rederive" and picks[0] % 4 else self.things)
        sel = {"ids": [thing.ref for thing in chosen]}
        seen = self.held.look(sel, action)
        assert set(seen["ids"]) == set(sel["ids"])
        members = [thing for thing in chosen if self.again(thing)] if action == "rederive" else chosen
        if action == "rederive":
            assert set(seen["not_rederivable"]) == {thing.ref for thing in chosen if thing not in members}
        assert (seen["token"] is not None) is bool(members)
        if not members:
            return
        cohort = self.held.look(sel, action, token=seen["token"])["cohort"]
        if action == "demote":
            for thing in members:
                if not self.holders(thing, "demote"):
                    thing.halved = (thing.importance, max(0.05, thing.importance / 2))
                    thing.importance = thing.halved[1]
        if action == "rederive":
            for turn in {turn for thing in members for turn in self.again(thing)}:
                self.settled.pop(turn, None)
        self.made[cohort] = Made(action, members)

    @precondition(lambda self: self.made)
    @rule(pick=st.integers(0, 99))
    def lift(self, pick: int) -> None:
        cohort = list(self.made)[pick % len(self.made)]
        made = self.made[cohort]
        assert self.held.lift(cohort)["already"] is made.lifted
        if made.lifted:
            return
        made.lifted = True
        for thing in made.members:
            last = made.action == "demote" and not self.holders(thing, "demote")
            if last and thing.halved is not None and thing.importance == thing.halved[1]:
                thing.importance = thing.halved[0]
            if made.action == "rederive" and not self.holders(thing, "rederive"):
                thing.superseded = "" if thing.superseded == "cohort" else thing.superseded
                thing.archived = "" if thing.archived == "cohort" else thing.archived
                for turn in thing.turns:
                    wanted = any(turn in other.turns and self.holders(other, "rederive") for other in self.things)
                    if turn not in self.settled and not wanted:
                        self.settled[turn] = self.before[turn]

    def waiting(self) -> list[str]:
        return [turn for turn in self.turns if turn not in self.settled and self.may_be_taken(turn)]

    @precondition(lambda self: self.waiting())
    @rule(picks=PICKS, scored=st.sampled_from([None, 0.05, 0.5, 2.0]), noise=st.booleans())
    def a_pass(self, picks: list[int], scored: float | None, noise: bool) -> None:
        waiting = self.waiting()
        taken = self.picked(picks, waiting)
        left = [turn for turn in waiting if turn not in taken] if noise else []
        if taken:
            self.settle(taken, left, scored)

    def settle(self, taken: list[str], left: list[str], scored: float | None = None) -> None:
        more: dict[str, Any] = {} if scored is None else {"scores": [{"turn": taken[0], "importance": scored}]}
        sets = [taken] if self.notes else [taken[:2], taken[1:3], taken[3:]]
        refs = self.held.commit([fact(*turns) for turns in sets], noise=left, **more)["notes"]
        for turn in (*taken, *left):
            self.settled[turn] = self.before[turn] = turn in taken
        if scored is not None:
            self.turns[taken[0]].importance = scored
        for old in list(self.notes.values()):
            replaced = old.superseded or old.archived
            if replaced or not self.holders(old, "rederive") or not old.turns & {*taken, *left}:
                continue
            if any(old.turns == frozenset(turns) for turns in sets):
                old.superseded = "cohort"
            elif all(turn in self.settled or self.turns[turn].forgotten for turn in old.turns):
                old.archived = "cohort"
        for ref, turns in zip(refs, sets, strict=True):
            self.notes[ref] = Thing(ref, frozenset(turns), True)
            self.notes[ref].importance = sum(self.turns[turn].importance for turn in turns) / len(turns)

    @rule(pick=st.integers(0, 99), on=st.booleans())
    def forget_or_recover(self, pick: int, on: bool) -> None:
        thing = self.things[pick % len(self.things)]
        if on:
            self.held.write("forget", {"id": thing.ref})
        elif thing.forgotten:
            self.held.write("recover", {"id": thing.ref})
        thing.forgotten = on

    @rule(pick=st.integers(0, 99))
    def revise(self, pick: int) -> None:
        thing = list(self.notes.values())[pick % len(self.notes)]
        try:
            ref = self.held.write("revise", {"id": thing.ref, "text": "x", "origin": "told"})["id"]
        except Refused as refused:
            quarantined = self.is_quarantined(thing)
            assert refused.reason is (Reason.QUARANTINED if quarantined else Reason.CONFLICT)
            assert quarantined or thing.forgotten or thing.superseded
            return
        assert not (self.is_quarantined(thing) or thing.forgotten or thing.superseded)
        thing.superseded = "user"
        self.notes[ref] = Thing(ref)
        self.notes[ref].importance = thing.importance

    # --- what stands ---

    @invariant()
    def check(self) -> None:
        state = self.held.state()
        numbers = {ref: turn for turn, ref in enumerate(self.turns, 1)}
        found = {turn: each.promoted for turn, each in passes.settled_turns(state, self.held.number()).items()}
        assert found == {numbers[ref]: promoted for ref, promoted in self.settled.items()}
        for first in range(0, len(self.things), 20):
            some = self.things[first : first + 20]
            told = self.held.read("get", {"ids": [thing.ref for thing in some]})["memories"]
            for thing, memory in zip(some, told, strict=True):
                assert memory["id"] == thing.ref
                said = {"forgotten": thing.forgotten, "superseded": bool(thing.superseded)}
                said |= {"archived": bool(thing.archived), "quarantined": self.is_quarantined(thing)}
                assert {mark: mark in memory["marks"] for mark in said} == said, (thing.ref, memory["marks"])
                assert memory["importance"] == thing.importance, thing.ref


Cohorts.TestCase.settings = settings(
    max_examples=60, stateful_step_count=20, deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)  # fmt: skip
TestCohorts = Cohorts.TestCase

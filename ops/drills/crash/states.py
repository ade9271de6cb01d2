"""Which states are looked at: moments of the recording, and what a crash leaves of each.

| category | what it is | boot id |
|---|---|---|
| prefix | everything that was written by then: the process died, the kernel lives | the same |
| strict | nothing that no sync had covered | another |
| dropped | of each file and directory, for itself, none, all, the first few or any of the unsynced changes | another |
| names | all that was written, and any of the names made, taken and removed that no sync had covered | another |
| torn | as dropped, and the last unsynced write of one file in part, by sectors of 512 bytes | another |

A state is drawn from (moment, category, seed) alone, so that one that fails can be made again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, unique
from pathlib import Path
from typing import Any, NamedTuple

from ops.drills.crash.disk import Disk, Fates
from ops.drills.crash.fates import Mixed, Named, Strict, Torn
from ops.drills.crash.recording import Era, Recording
from ops.drills.crash.replay import Answer, Event, Replay


@unique
class Category(Enum):
    PREFIX = "prefix"
    STRICT = "strict"
    DROPPED = "dropped"
    NAMES = "names"
    TORN = "torn"


SHARES = {
    Category.PREFIX: 0.25, Category.STRICT: 0.2, Category.DROPPED: 0.2, Category.NAMES: 0.2, Category.TORN: 0.15,
}  # fmt: skip
SEVERAL = 3
"""So many unsynced names have many subsets; with fewer, `dropped` comes across them all."""
DRAWN = (Category.DROPPED, Category.NAMES, Category.TORN)

Missed = Callable[[str, str], bool]


def nothing_missed(name: str, path: str) -> bool:
    return False


class State(NamedTuple):
    """One state to look at. `moment` counts the events of the whole recording."""

    moment: int
    category: Category
    seed: int

    def __str__(self) -> str:
        return f"{self.category.value} at moment {self.moment}, seed {self.seed}"


class Moment(NamedTuple):
    """The disk just after an event. `answered` is how many answers have left by now, of the whole recording."""

    number: int
    era: int
    program: str
    boot: Path
    event: Event
    answered: int
    disk: Disk

    def put(self, state: State, target: Path) -> None:
        """Make the state in `target`."""
        source = random.Random(f"{state.moment}/{state.category.value}/{state.seed}")
        self.disk.put_under(target, self._fates(state, source))

    def _fates(self, state: State, source: random.Random) -> Fates:
        match state.category:
            case Category.PREFIX:
                return Fates()
            case Category.STRICT:
                return Strict()
            case Category.DROPPED:
                return Mixed(source)
            case Category.NAMES:
                return Named(source)
            case Category.TORN:
                return Torn(source, source.choice(written(self.disk)))


def written(disk: Disk) -> list[str]:
    """The files with unsynced writes."""
    return sorted(path for path in disk.unsynced() if not path.endswith("/"))


@dataclass
class Survey:
    """What one walk through the recording has found: where what can be looked at."""

    answers: list[Answer] = field(default_factory=list)
    answered_at: list[int] = field(default_factory=list)  # the moment of each answer
    moments: int = 0
    answering: list[int] = field(default_factory=list)
    unsynced: list[int] = field(default_factory=list)
    tearable: list[int] = field(default_factory=list)
    named: list[int] = field(default_factory=list)
    like: dict[int, str] = field(default_factory=dict)  # of each moment, what kind of event it was

    def note(self, moment: Moment) -> None:
        self.moments = moment.number + 1
        self.like[moment.number] = f"{moment.program} {moment.event.name} {moment.event.path}"
        self.answers += moment.event.answers
        self.answered_at += [moment.number] * len(moment.event.answers)
        if moment.event.answers:
            self.answering.append(moment.number)
        if moment.disk.unsynced():
            self.unsynced.append(moment.number)
        if moment.disk.unsynced_names() >= SEVERAL:
            self.named.append(moment.number)
        if written(moment.disk):
            self.tearable.append(moment.number)


def walk(recording: Recording, missed: Missed = nothing_missed) -> Iterator[Moment]:
    """Every moment of the recording, in order. The disk of one is gone when the next is asked for."""
    number = origin = answered = 0
    for at, era in enumerate(recording.eras):
        disk = era.disk()
        for program in era.programs:
            replay = Replay(disk, str(recording.root), origin, missed, recording.given)
            for event in replay.play(program.calls):
                answered += len(event.answers)
                yield Moment(number, at, program.name, program.boot, event, answered, disk)
                number += 1
            origin += program.lines


def survey(recording: Recording, missed: Missed = nothing_missed) -> Survey:
    found = Survey()
    for moment in walk(recording, missed):
        found.note(moment)
    return found


def plan(found: Survey, states: int, seed: int) -> list[State]:
    """About `states` states, by moment. Half of the strict ones are just after an answer has left."""
    draw = _Draw(found, random.Random(seed))
    strict = round(states * SHARES[Category.STRICT])
    every = list(range(found.moments))
    drawn = {
        Category.PREFIX: draw.moments(every, round(states * SHARES[Category.PREFIX])),
        Category.STRICT: draw.moments(found.answering, strict // 2) + draw.moments(every, strict - strict // 2),
        Category.DROPPED: draw.moments(found.unsynced, round(states * SHARES[Category.DROPPED])),
        Category.NAMES: draw.by_kind(found.named, round(states * SHARES[Category.NAMES])),
        Category.TORN: draw.moments(found.tearable, round(states * SHARES[Category.TORN])),
    }
    planned = {draw.state(moment, category) for category, moments in drawn.items() for moment in moments}
    return sorted(planned, key=lambda state: (state.moment, state.category.value, state.seed))


class _Draw:
    """Draws moments: half of them evenly, half so that each kind of event has its turn, be it ever so rare."""

    def __init__(self, found: Survey, source: random.Random) -> None:
        self._found = found
        self._source = source

    def state(self, moment: int, category: Category) -> State:
        return State(moment, category, self._source.getrandbits(32) if category in DRAWN else 0)

    def moments(self, among: list[int], count: int) -> list[int]:
        evenly = self._rounds(among, count // 2)
        return evenly + self.by_kind(among, count - len(evenly))

    def by_kind(self, among: list[int], count: int) -> list[int]:
        kinds: dict[str, list[int]] = {}
        for moment in among:
            kinds.setdefault(self._found.like[moment], []).append(moment)
        return [self._source.choice(kinds[kind]) for kind in self._rounds(sorted(kinds), count)]

    def _rounds(self, among: list[Any], count: int) -> list[Any]:
        """`count` of them: each once before any twice."""
        drawn: list[Any] = []
        while among and len(drawn) < count:
            drawn += self._source.sample(among, min(len(among), count - len(drawn)))
        return drawn


def end_of(era: Era, recording: Recording, missed: Missed = nothing_missed) -> Disk:
    """The disk at the end of an era."""
    disk = era.disk()
    origin = 0
    for program in era.programs:
        for _ in Replay(disk, str(recording.root), origin, missed, recording.given).play(program.calls):
            pass
        origin += program.lines
    return disk

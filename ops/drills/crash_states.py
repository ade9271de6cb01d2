"""Drill: crash states. What a kill or a power cut may leave of a store, opened and looked at.

    python ops/drills/crash_states.py [--states N] [--seed S] [--keep DIR] [--size N] [--sabotage NAME]

A real daemon, and a purge, are traced while they write. The trace is played on a model of the disk, and of
many moments the states are made that a crash could leave: all that was written, nothing that wasn't synced,
any part of it, writes torn at sectors. Each is opened as the daemon opens it, under the boot id that fits.
All counts but `states` and `acked` are to be 0. Needs strace. `--sabotage` falsifies the trace, to see
that the drill finds what is to be found.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from ops.drills.crash.booted import new_boot
from ops.drills.crash.disk import Fates
from ops.drills.crash.judge import FAULTS, Asked, Brief, Case, Verdict
from ops.drills.crash.judging import Court
from ops.drills.crash.recording import STATE, Recording, strace_problem
from ops.drills.crash.states import (
    Category,
    Missed,
    State,
    Survey,
    end_of,
    nothing_missed,
    plan,
    survey,
    walk,
)

COLUMNS = ("states", "acked", *FAULTS)
JUDGES = 2


def _of(path: str, *names: str) -> Missed:
    return lambda name, at: at.endswith(path) and name in names


SABOTAGE: dict[str, Missed] = {
    "journal-sync": _of("journal/data.mdb", "fsync", "fdatasync"),
    "journal-meta": _of("journal/data.mdb", "O_DSYNC"),
    "vault-sync": _of("vault", "fsync", "fdatasync"),
}
"""Syncs that are overlooked."""
EARLY = "early-answers"
"""Sabotage: answers count some events before they left."""
EARLY_EVENTS = 20


@dataclass
class Tally:
    """Counts by category, and the first states that failed."""

    rows: dict[Category, dict[str, int]] = field(default_factory=lambda: defaultdict(lambda: dict.fromkeys(COLUMNS, 0)))
    failed: list[tuple[State, Verdict]] = field(default_factory=list)

    def add(self, state: State, verdict: Verdict) -> None:
        row = self.rows[state.category]
        row["states"] += 1
        row["acked"] += verdict.acked
        for name in FAULTS:
            row[name] += getattr(verdict, name)
        if any(getattr(verdict, name) for name in FAULTS):
            self.failed.append((state, verdict))

    def total(self) -> dict[str, int]:
        return {name: sum(row[name] for row in self.rows.values()) for name in COLUMNS}

    @property
    def clean(self) -> bool:
        return not self.failed

    def table(self) -> str:
        lines = [f"{'category':10}" + "".join(f"{name:>10}" for name in COLUMNS)]
        rows = [(category.value, self.rows[category]) for category in Category if category in self.rows]
        for name, row in (*rows, ("all", self.total())):
            lines.append(f"{name:10}" + "".join(f"{row[column]:10d}" for column in COLUMNS))
        return "\n".join(lines)


class Explorer:
    """One recording, looked at. `work` is an empty directory with a short path."""

    def __init__(self, work: Path, *, size: int, seed: int, given: frozenset[str]) -> None:
        self._work = work
        self._early_events = 0
        self._missed: Missed = nothing_missed
        self.recording = Recording(work, size, seed, given)

    def sabotage(self, name: str) -> None:
        """From now on look at a falsified trace."""
        self._early_events = EARLY_EVENTS if name == EARLY else 0
        self._missed = SABOTAGE.get(name, nothing_missed)

    def record(self) -> Survey:
        """Trace the scenario, and survey it."""
        self.recording.record()
        for number, era in enumerate(self.recording.eras):
            end_of(era, self.recording).put_under(self._reference(number), Fates())
        return survey(self.recording)

    def explore(self, found: Survey, states: list[State], keep: Path | None) -> Tally:
        """Make and judge the states; those that fail are kept in `keep`."""
        tally = Tally()
        directory = self._work / "states"
        directory.mkdir(mode=0o700, exist_ok=True)
        court = Court(self._brief(found), directory, JUDGES, tally.add)
        try:
            self._submit(found, states, court)
        finally:
            court.close()
        if keep is not None:
            self._keep(tally, keep)
        return tally

    def _submit(self, found: Survey, states: list[State], court: Court) -> None:
        other = new_boot(self._work / "boot-other")
        waiting = iter(states)
        state = next(waiting, None)
        for moment in walk(self.recording, self._missed):
            while state is not None and state.moment == moment.number:
                place = court.place()
                place.mkdir(mode=0o700)
                moment.put(state, place / "made")
                boot = moment.boot if state.category is Category.PREFIX else other
                answered = self._answered(found, moment.number, moment.answered)
                court.submit(state, Case(str(place / "made" / STATE), str(boot), moment.era, answered), place)
                state = next(waiting, None)

    def _answered(self, found: Survey, moment: int, answered: int) -> int:
        if not self._early_events:
            return answered
        return sum(at <= moment + self._early_events for at in found.answered_at)

    def _brief(self, found: Survey) -> Brief:
        """What was asked and answered, and the journals at the ends of the eras."""
        answers = {answer.request: (number, answer.result) for number, answer in enumerate(found.answers)}
        asked = [Asked(*each, *answers.get(each.id, (None, None))) for each in self.recording.requests]
        references = [str(self._reference(number) / STATE) for number in range(len(self.recording.eras))]
        return Brief(asked, references)

    def _reference(self, era: int) -> Path:
        return self._work / f"reference-{era}"

    def _keep(self, tally: Tally, keep: Path) -> None:
        """Make the failed states again, as they were before they were opened."""
        keep.mkdir(parents=True, exist_ok=True)
        failed = {state: verdict for state, verdict in tally.failed}
        for moment in walk(self.recording, self._missed):
            for state in [each for each in failed if each.moment == moment.number]:
                target = keep / f"{state.category.value}-{state.moment}-{state.seed}"
                moment.put(state, target)
                what = [str(state), f"after {moment.program}: {moment.event.name} {moment.event.path}"]
                (target / "VERDICT").write_text("\n".join([*what, *failed[state].what]) + "\n", "utf-8")


def short_place() -> str | None:
    """Where files are made fastest; states and the traced store must share one file system."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def main() -> int:
    parser = argparse.ArgumentParser(description="crash states")
    parser.add_argument("--states", type=int, default=900)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--size", type=int, default=3, help="rounds of the load")
    parser.add_argument("--keep", type=Path, help="a directory for the states that fail")
    parser.add_argument("--sabotage", choices=(*SABOTAGE, EARLY))
    given = parser.parse_args()
    problem = strace_problem()
    if problem is not None:
        parser.error(problem)
    with tempfile.TemporaryDirectory(prefix="cs-", dir=short_place()) as name:
        explorer = Explorer(Path(name), size=given.size, seed=given.seed, given=frozenset())
        found = explorer.record()
        if given.sabotage is not None:
            explorer.sabotage(given.sabotage)
        print(f"{found.moments} moments, {len(found.answers)} answers", flush=True)
        states = plan(found, given.states, given.seed)
        began = time.monotonic()
        tally = explorer.explore(found, states, given.keep)
        took_s = time.monotonic() - began
    print(tally.table())
    for state, verdict in tally.failed[:20]:
        print(f"{state}: {'; '.join(verdict.what[:3])}")
    print(f"{len(states) / took_s:.1f} states/s; {'clean' if tally.clean else 'NOT CLEAN'}")
    return 0 if tally.clean else 1


if __name__ == "__main__":
    sys.exit(main())

"""Commits a known row of passes until it is killed: `python -m tests.system.consolidating STATE [beside]`.

Two sessions, two passes each, three commits a pass, two facts a commit that share a turn; the second pass takes the
noise of the first again. It says `begin N` before a commit and `acked N NOTE NOTE` behind it. Every commit has its key,
so whoever starts it again asks for all of them again. With `beside` a second thread writes turns meanwhile.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple

from tests.daemon.slept import Slept, fact

COMMITS_A_PASS = 3
TURNS_A_COMMIT = 4
TURNS = 2 * COMMITS_A_PASS * TURNS_A_COMMIT


class Step(NamedTuple):
    """One commit of a pass. `facts` and `noise` are turns by their number in the session, from 1."""

    key: str
    number: int
    place: int

    @property
    def name(self) -> str:
        return f"{self.key}/{self.number}/{self.place}"

    @property
    def last(self) -> bool:
        return self.place == COMMITS_A_PASS - 1

    @property
    def facts(self) -> list[tuple[int, ...]]:
        first = self._first(self.number)
        again = () if self.number == 1 else (self._first(1) + 3,)
        return [(*again, first, first + 1), (first + 1, first + 2)]

    @property
    def noise(self) -> tuple[int, ...]:
        return (self._first(self.number) + 3,)

    def _first(self, number: int) -> int:
        return 1 + TURNS_A_COMMIT * ((number - 1) * COMMITS_A_PASS + self.place)

    def text(self, index: int) -> str:
        return f"{self.name} fact {index}"


STEPS = [
    Step(key, number, place) for number in (1, 2) for place in range(COMMITS_A_PASS) for key in ("one", "two")
]  # fmt: skip


def prepare(slept: Slept) -> None:
    """The turns of both sessions, which came in turn."""
    for number in range(1, TURNS + 1):
        for key in ("one", "two"):
            slept.turn(f"{key} {number}", key)


def turns_of(slept: Slept, key: str) -> dict[int, str]:
    told = slept.session(key, include=["turns"], limit=1000)["memories"]
    return {turn["turn"]: turn["id"] for turn in told}


def take(slept: Slept, step: Step, **more: Any) -> dict[str, Any]:
    """Commit a step. Raises Refused."""
    refs = turns_of(slept, step.key)
    facts = [fact(*(refs[turn] for turn in turns), text=step.text(at)) for at, turns in enumerate(step.facts)]
    return slept.commit(facts, step.key, noise=[refs[turn] for turn in step.noise], last=step.last, **more)


def _say(line: str) -> None:
    """In one piece, whichever thread says it."""
    os.write(sys.stdout.fileno(), f"{line}\n".encode())


def _beside(slept: Slept) -> None:
    for number in range(1, 100_000):
        slept.turn(f"aside {number}", "aside")
        _say(f"beside {number}")


def main(state: Path, beside: bool) -> None:
    slept = Slept(state)
    if beside:
        threading.Thread(target=_beside, args=(slept,), daemon=True).start()
    for number, step in enumerate(STEPS):
        _say(f"begin {number}")
        done = take(slept, step, idempotency_key=step.name)
        _say(f"acked {number} {' '.join(done['notes'])}")
    _say("done")
    if not beside:
        slept.close(True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), "beside" in sys.argv[2:])

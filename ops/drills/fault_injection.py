"""Drill: each system call that writes fails once, and nothing that was acked is lost.

    python ops/drills/fault_injection.py [--only CALL] [--scene NAME] [--max N] [--verbose]

First a run without faults notes which calls happen on which file of the store, and how often. Then, for
each of them, the Nth call returns EIO or ENOSPC, writes nothing, or is not made because the process is
killed; once each, all calls from the first on return EIO (`ops/drills/faults/`). After each run a daemon
without faults opens what was left, and the judge counts. A run whose fault didn't strike counts as
`missed`, never as passed. All other columns are to be 0.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from ops.drills.faults import tracing
from ops.drills.faults.judging import COLUMNS, Verdict
from ops.drills.faults.scenes import SCENES, Scene, Templates, record_calls, run_with_fault
from ops.drills.faults.tracing import Fault, Injection

NOT_REACHED = "missed"


@dataclass
class Row:
    """One line of the table: all N of one fault of one call on one file in one scene."""

    runs: int = 0
    injected: int = 0
    missed: int = 0
    verdict: Verdict = field(default_factory=Verdict)

    @property
    def clean(self) -> bool:
        return self.verdict.clean


def faults_of(call: str) -> tuple[Fault, ...]:
    """What can happen to a call. Reading fails with EIO only; only calls with a length can be short."""
    if call in tracing.READING:
        return (Fault.EIO,)
    short = (Fault.SHORT,) if call in tracing.LOADING else ()
    return (Fault.EIO, Fault.ENOSPC, Fault.LASTING, *short, Fault.KILL)


def injections(counted: Counter[tuple[str, str]], only: str | None, most: int) -> Iterator[Injection]:
    """Every fault of every call that a run without faults made, up to `most` of each; a lasting one from the
    first call on."""
    for (file, call), many in sorted(counted.items()):
        if only not in (None, call):
            continue
        for fault in faults_of(call):
            last = 1 if fault is Fault.LASTING else min(many, most)
            for number in range(1, last + 1):
                yield Injection(call, file, number, fault)


Key = tuple[str, str, str]


def _key(injection: Injection) -> Key:
    return injection.file or ".", injection.call, injection.fault.value


class Drill:
    """All runs; a row for each scene, file, call and fault."""

    def __init__(self, directory: Path, verbose: bool = False) -> None:
        self._directory = directory
        self._verbose = verbose
        (directory / "t").mkdir()
        self._templates = Templates(directory / "t")
        self._runs = 0

    def rows(self, scene: Scene, only: str | None, most: int) -> Iterator[tuple[Key, Row]]:
        """The rows of one scene, each when it is done."""
        with self._place() as name:
            counted = record_calls(scene, self._templates, Path(name))
        for key, group in itertools.groupby(injections(counted, only, most), _key):
            row = Row()
            for injection in group:
                self._run(scene, injection, row)
            yield key, row

    def _run(self, scene: Scene, injection: Injection, row: Row) -> None:
        with self._place() as name:
            result = run_with_fault(scene, injection, self._templates, Path(name))
        row.runs += 1
        row.injected += result.hits
        row.missed += not result.hits
        row.verdict += result.verdict
        if self._verbose and not result.verdict.clean:
            print(f"! {scene.name} {injection}\n  {result.verdict}\n  {result.notes}", file=sys.stderr, flush=True)

    def _place(self) -> tempfile.TemporaryDirectory[str]:
        return tempfile.TemporaryDirectory(dir=self._directory)


def print_head() -> None:
    columns = ("runs", "injected", NOT_REACHED, *COLUMNS)
    print(f"{'scene':8}{'file':24}{'call':11}{'fault':8}" + " ".join(f"{name:>8}" for name in columns), flush=True)


def print_row(scene: str, key: Key, row: Row) -> None:
    counts = (row.runs, row.injected, row.missed, *(getattr(row.verdict, name) for name in COLUMNS))
    file, call, fault = key
    print(f"{scene:8}{file:24}{call:11}{fault:8}" + " ".join(f"{count:8d}" for count in counts), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="faults at the Nth system call")
    parser.add_argument("--only", help="this system call only")
    parser.add_argument("--scene", choices=[scene.name for scene in SCENES], action="append")
    parser.add_argument("--max", type=int, default=1000, help="at most this many N of each call")
    parser.add_argument("--verbose", action="store_true", help="say what was seen whenever it isn't clean")
    given = parser.parse_args()
    if (why := tracing.why_not()) is not None:
        print(f"fault_injection: {why}", file=sys.stderr)
        return 1
    total = Row()
    print_head()
    with tempfile.TemporaryDirectory(prefix="noctuary-") as name:
        drill = Drill(Path(name), given.verbose)
        for scene in SCENES:
            if given.scene and scene.name not in given.scene:
                continue
            for key, row in drill.rows(scene, given.only, given.max):
                print_row(scene.name, key, row)
                total.runs += row.runs
                total.injected += row.injected
                total.missed += row.missed
                total.verdict += row.verdict
    print_row("all", ("", "", ""), total)
    passed = total.clean and total.injected > 0
    print(f"{'clean' if passed else 'NOT CLEAN'}; {total.missed} of {total.runs} runs missed and say nothing")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())

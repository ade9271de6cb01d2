"""Drill: a backup or a restore that is killed, or finds the disk full, at the Nth system call of a kind.

    python ops/drills/backup_kills.py [--most N] [--purges N] [--only backup|restore|full]

The store is one that a service wrote and purged in (`tests/journal/lived.py`), so that its journal folds; a restore is
the command `noctuary restore` with its purge list, which does the purges again as the daemon purges. A run without
faults notes which calls that write, sync or name something concern the directory that is filled; then `strace` kills
the process at each of them, one run for each (`--most`: of a kind so many, spread evenly, with the first and the last).
`full`: these calls of a restore say ENOSPC instead. After a killed backup the directory must hold the earlier backup or
the new one, whole: it is restored. After a restore that ended there is no FORMAT, and nothing opens; then it is run
again. Then, and where FORMAT is there, the store must be whole (`look`): what was purged is in no file and opens under
no key, free pages too, what lives says what it said, and a fold of the journal is what was live. All counts but `runs`
and `stores` are to be 0; first a restore without the list must be seen to reveal. Needs strace.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from daemon import repurging
from daemon.cli import entry
from daemon.main import VERSION
from journal.errors import CannotCreate, NoctuaryFault
from journal.manifest import MANIFEST, read_manifest
from journal.purges import Directive
from journal.restoring import Wanted, restore
from ops.drills.crash.recording import strace_problem
from ops.drills.faults.tracing import WRITING
from tests.journal.backing import backed_up, nothing
from tests.journal.lived import Lived, lived, look
from tests.journal.test_store import opened

NAMING = ("rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir", "mkdir", "mkdirat")
CALLS = tuple(dict.fromkeys((*WRITING, *NAMING)))
REMOVING = ("unlink", "unlinkat", "rmdir")
FULL_EXITS = (73, 74)
"""73: the state directory itself can't be made."""


@dataclass
class Row:
    """What was found for one program and one kind of call."""

    what: str
    calls: str
    runs: int = 0
    stores: int = 0  # runs after which the new store, or the new backup, was there
    missed: int = 0  # the call didn't come
    told_wrong: int = 0  # a full disk that ended it otherwise than as one
    half_opened: int = 0  # what opened, and had no FORMAT
    not_again: int = 0  # what can't be run again
    findings: int = 0
    unreadable: int = 0
    revealed: int = 0
    not_purged: int = 0
    let_in: int = 0
    unlike: int = 0

    @property
    def clean(self) -> bool:
        return not any(count for name, count in self.counts().items() if name not in ("runs", "stores"))

    def take(self, counts: dict[str, int]) -> None:
        for name, count in counts.items():
            setattr(self, name, getattr(self, name) + count)

    def counts(self) -> dict[str, int]:
        return {name: count for name, count in asdict(self).items() if name not in ("what", "calls")}


class Struck:
    """One program, `what`, on one store, run again and again."""

    def __init__(self, what: str, story: Lived) -> None:
        self._what, self._story = what, story
        self._work, self._copy, self._root = (story.directory / name for name in ("work", "copy", "restored"))
        self._said = story.directory / "said"
        self._old = read_manifest(story.backup)

    def places(self) -> dict[str, list[int]]:
        """Call → which of its kind, from 1, concern the directory that is filled, in a run without faults."""
        notes = self._story.directory / "notes"
        ended = self._traced(["-y", "-e", f"trace={','.join(CALLS)}", "-o", str(notes)])
        assert ended == 0, self._said.read_text()
        target = str(self._work if self._what == "backup" else self._root)
        found: dict[str, list[int]] = {}
        happened = dict.fromkeys(CALLS, 0)
        for line in notes.read_text("utf-8", "replace").splitlines():
            call = line.partition("(")[0]
            if call in happened:
                happened[call] += 1
                if target in line:
                    found.setdefault(call, []).append(happened[call])
        return found

    def run(self, calls: str, number: int) -> Row:
        """What is found after one run. Said if it isn't clean."""
        row = Row(self._what, calls, runs=1)
        strike = "error=ENOSPC" if self._what == "full" else "signal=KILL"
        inject = f"inject={calls}:{strike}:when={number}"
        ended = self._traced(["-e", f"trace={calls}", "-e", inject, "-o", os.devnull])
        if self._what == "full":
            row.told_wrong += ended not in (0, *FULL_EXITS)
        else:
            row.missed += ended != -signal.SIGKILL
        judge = self._judge_backup if self._what == "backup" else self._judge_restore
        judge(row, ended)
        if not row.clean:
            print(f"! {row}, call {number}: exit {ended}: {self._said.read_text()[-500:]}", file=sys.stderr, flush=True)
        return row

    def _traced(self, options: Sequence[str]) -> int:
        """How the program ends under strace, which is there before it begins. A fork: so nothing is to be imported."""
        self._prepare()
        goes, let_go = os.pipe()
        child = os.fork()
        if not child:
            self._begin(goes)
        tracer = subprocess.Popen(["strace", *options, "-p", str(child)], stderr=subprocess.PIPE, text=True)
        with tracer:
            assert tracer.stderr is not None
            assert "attached" in (told := tracer.stderr.readline()), told
            os.write(let_go, b".")
            _, status = os.waitpid(child, 0)
        os.close(goes)
        os.close(let_go)
        return os.waitstatus_to_exitcode(status)

    def _begin(self, goes: int) -> NoReturn:
        """In the child."""
        ended = 70
        try:
            said = os.open(self._said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            for stream in (1, 2):
                os.dup2(said, stream)
            os.read(goes, 1)
            ended = self._program()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(ended)

    def _program(self) -> int:
        if self._what == "backup":
            backed_up(opened(self._copy), self._work)
            return 0
        state = ["--state", str(self._root), "--purges", str(self._story.purges)]
        return entry.main(["restore", str(self._story.backup), *state])

    def _prepare(self) -> None:
        for place in (self._work, self._copy, self._root):
            shutil.rmtree(place, ignore_errors=True)
        if self._what == "backup":
            shutil.copytree(self._story.root, self._copy)
            shutil.copytree(self._story.backup, self._work)

    def _judge_backup(self, row: Row, _ended: int) -> None:
        """The earlier backup or the new one; and a next one is made, of nothing but what its manifest names."""
        row.stores += read_manifest(self._work) != self._old
        restored(self._root, self._work, self._story.directives)
        row.take(look(self._root, self._story)._asdict())
        store = opened(self._copy)
        try:
            backed_up(store, self._work)
            row.not_again += {path.name for path in self._work.iterdir()} != read_manifest(self._work).names() | {
                MANIFEST
            }
        except NoctuaryFault:
            row.not_again += 1
        finally:
            store.close(clean=True)

    def _judge_restore(self, row: Row, ended: int) -> None:
        root = self._root
        whole = (root / "FORMAT").exists()
        row.stores += whole
        row.told_wrong += ended == 0 and not whole
        if not whole and root.exists() and not (root / "FORMAT.new").exists():
            try:
                opened(root).close(clean=False)
                row.half_opened += 1
            except NoctuaryFault:
                pass
        try:
            restored(root, self._story.backup, self._story.directives)
            row.not_again += whole
        except CannotCreate:
            row.not_again += not whole
        row.take(look(root, self._story)._asdict())


def restored(root: Path, backup: Path, directives: Sequence[Directive]) -> None:
    restore(root, Wanted(backup, None, directives, VERSION, now_ms(), repurging.again), nothing)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def spread(places: list[int], most: int) -> list[int]:
    """At most so many of them, evenly, with the first and the last."""
    if len(places) <= most:
        return places
    apart = (len(places) - 1) / max(1, most - 1)
    return [places[at] for at in sorted({round(number * apart) for number in range(most)})]


def prove_it_can_fail(story: Lived) -> None:
    """What a restore without the purge list yields is seen."""
    root = story.directory / "without"
    restored(root, story.backup, ())
    found = look(root, story)
    assert found.revealed and found.not_purged == len(story.gone) and found.let_in, found


def main() -> int:
    parser = argparse.ArgumentParser(description="a backup or a restore that is struck at the Nth system call")
    parser.add_argument("--most", type=int, default=sys.maxsize, help="how many calls of a kind at most, spread evenly")
    parser.add_argument(
        "--purges", type=int, default=70, help="so many commands purge one memory each, beside the rest"
    )
    parser.add_argument("--only", choices=("backup", "restore", "full"), help="this one only")
    given = parser.parse_args()
    problem = strace_problem()
    if problem:
        print(f"strace is needed: {problem}", file=sys.stderr)
        return 2
    clean = True
    for what in ("backup", "restore", "full"):
        if given.only not in (None, what):
            continue
        with tempfile.TemporaryDirectory(prefix="noctuary-") as name:
            story = lived(Path(name), now_ms(), given.purges, said_since=what != "backup")
            prove_it_can_fail(story)
            clean = drill(Struck(what, story), what, given.most) and clean
    return 0 if clean else 1


def drill(struck: Struck, what: str, most: int) -> bool:
    """Print a row for each kind of call; whether all are clean."""
    clean = True
    for calls, places in struck.places().items():
        if what == "full" and calls in REMOVING:  # they need no room
            continue
        row = Row(what, calls)
        for number in spread(places, most):
            row.take(struck.run(calls, number).counts())
        print(f"of {len(places)}: {asdict(row)}", flush=True)
        clean = clean and row.clean
    return clean


if __name__ == "__main__":
    sys.exit(main())

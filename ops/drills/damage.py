"""Drill: every file of a store is damaged in every way, and the store is opened by a daemon's own code.

    python ops/drills/damage.py [--seed N] [--rounds N] [--files NAME …] [--harms NAME …] [--show]

Good is only: the opening is refused (65; 73 for a link or a directory) with a message and nothing was touched;
or it opens and every memory reads as it was written, or is called damaged itself, and then the audit has a
finding too; what is disposable costs at most a refused question, until the next opening makes it anew. Bad is:
a wrong answer, a memory that is gone in silence, a death by a signal, an empty store, any other exit code.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from ops.drills.damage_harms import BY_CHANCE, HARMS
from ops.golden.story import Story

ROOT = Path(__file__).resolve().parents[2]
PRECIOUS = ("FORMAT", "journal/data.mdb", "vault", "head", "purges")
DISPOSABLE = ("lock", "journal/lock.mdb", "projections/data.mdb", "projections/lock.mdb", "projections/OPEN", "reserve")
CONTENT = frozenset({"journal/data.mdb", "vault"})
TOUCHED = frozenset({"lock", "journal/lock.mdb", "projections/lock.mdb"})
"""LMDB's tables of readers and the lock: an opening that is refused may write to them."""
MISPLACED = frozenset({"make_a_link", "make_a_directory"})
"""What lies there is no file of ours at all: 73 says so as well as 65."""
BASES = ("clean", "killed", "bare")


@dataclass
class Case:
    base: str
    file: str
    harm: str
    seed: int
    done: str = ""
    code: int = 0  # of a daemon; negative: the signal that ended it
    message: str = ""
    damaged: int = 0  # memories that are called damaged
    faults: list[str] = field(default_factory=list)
    put_off: list[str] = field(default_factory=list)  # refused reads: what was folded is to be folded anew

    @property
    def outcome(self) -> str:
        if self.faults:
            return "BAD"
        if self.code:
            return "refused"
        if self.put_off:
            return "repaired"
        return "damaged" if self.damaged else "whole"

    def __str__(self) -> str:
        told = f"{self.base} {self.file} {self.harm} seed {self.seed}: {self.done} -> {self.code} {self.message}"
        more = [f"and {len(self.faults) - 4} more"] if len(self.faults) > 4 else []
        return "\n    ".join([told, *self.faults[:4], *more])


class Opener:
    """The process that opens state directories, one fork each."""

    def __init__(self, wanted: dict[str, Any]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "ops/drills/damage_opening.py"], cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self._say(json.dumps(wanted))

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def open(self, root: Path) -> dict[str, Any]:
        """What it told; `{"exit": -signal}` when it died."""
        told = root.with_suffix(".told")
        told.unlink(missing_ok=True)
        self._say(str(root))
        assert self._process.stdout is not None
        code = int(self._process.stdout.readline())
        if code < 0:
            return {"exit": code, "message": signal.Signals(-code).name}
        result: dict[str, Any] = json.loads(told.read_text())
        return result

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


def files_of(root: Path) -> dict[str, bytes | str]:
    """Every name under a state directory, with what it holds."""
    found: dict[str, bytes | str] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = f"link to {path.readlink()}"
        else:
            found[name] = path.read_bytes() if path.is_file() else "directory"
    return found


class Damage:
    """Sound stores to damage copies of, and what each of them answers."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._work = directory / "work" / "state"
        story = self._tell("told")
        self._tell("other")
        ids = {"default": [each for each in story.ids if each != story.theirs], "other": [story.theirs]}
        self.opener = Opener({"ids": ids, "now_ms": story.now_ms})
        try:
            self._make_bases()
        except BaseException:
            self.opener.close()
            raise

    def close(self) -> None:
        self.opener.close()

    def _tell(self, name: str) -> Story:
        story = Story(self.directory / name / "state")
        try:
            story.tell()
        finally:
            story.close()
        return story

    def _make_bases(self) -> None:
        """clean: after an orderly stop; killed: OPEN is there, no reserve yet; bare: without projections."""
        made = self.directory / "told" / "state"
        self.opener.open(made)
        truth = self.opener.open(self._copy(made))
        assert truth["exit"] == 0 and not truth["audit"]["findings"], truth
        self.truth = truth
        for base in BASES:
            shutil.copytree(made, self.directory / base / "state", symlinks=True)
        killed = self.directory / "killed" / "state"
        subprocess.run([sys.executable, "-c", _LEAVE, str(killed)], cwd=ROOT, check=True)
        shutil.rmtree(self.directory / "bare" / "state" / "projections")
        for path in ("other", "clean", "killed"):
            (self.directory / path / "state" / "reserve").write_bytes(b"\1" * 4096)
        for base in BASES:
            assert self.judge(sound := Case(base, "", "none", 0), self.copy_of(base), {}) == "whole", str(sound)

    def _copy(self, source: Path) -> Path:
        shutil.rmtree(self._work.parent, ignore_errors=True)
        self._work.parent.mkdir()
        shutil.copytree(source, self._work, symlinks=True)
        return self._work

    def copy_of(self, base: str) -> Path:
        """A copy to be damaged; the one before is gone."""
        return self._copy(self.directory / base / "state")

    def run(self, case: Case) -> Case | None:
        """The case with its outcome; None when there is nothing to damage in that way."""
        source = self.directory / case.base / "state"
        if not (source / case.file).exists():
            return None
        root = self.copy_of(case.base)
        chance = random.Random(f"{case.file} {case.harm} {case.seed}")
        done = HARMS[case.harm](root / case.file, chance, self.directory / "other" / "state" / case.file)
        if done is None:
            return None
        case.done = done
        self.judge(case, root, files_of(root))
        return case

    def judge(self, case: Case, root: Path, before: dict[str, bytes | str]) -> str:
        told = self.opener.open(root)
        case.code, case.message = told["exit"], told.get("message", "")
        if case.code == 0:
            self._judge_answers(case, told)
            if case.put_off and not case.faults:
                self._judge_answers(again := Case(case.base, "", case.harm, case.seed), self.opener.open(root))
                case.faults += [f"opened again: {each}" for each in [*again.faults, *again.put_off]]
        elif case.code != 65 and not (case.code == 73 and case.harm in MISPLACED):
            case.faults.append(f"exit {case.code}: {told.get('error')} {told.get('frames', '')[-800:]}")
        else:
            self._judge_refusal(case, root, before)
        return case.outcome

    def _judge_refusal(self, case: Case, root: Path, before: dict[str, bytes | str]) -> None:
        after = files_of(root)
        for name in sorted((before.keys() | after.keys()) - TOUCHED):
            if before.get(name) != after.get(name):
                case.faults.append(f"refused, and {name} was touched")
        # Projections that were folded from another journal are a witness: which of the two is wanted is asked.
        if case.file in DISPOSABLE and case.harm not in MISPLACED and case.harm != "take_the_other":
            case.faults.append("refused for a file that is disposable")
        if len(case.message) < 30:
            case.faults.append(f"the message says too little: {case.message!r}")

    def _judge_answers(self, case: Case, told: dict[str, Any]) -> None:
        for ref, expected in self.truth["memories"].items():
            self._judge_memory(case, ref, told["memories"][ref], expected)
        for name in ("lists", "sessions", "traces"):
            for key, expected in self.truth[name].items():
                self._judge_list(case, f"{name} of {key}", told[name][key], expected)
        findings = told["audit"].get("findings")
        if "error" in told["audit"]:
            self._note_error(case, "audit", told["audit"])
        elif case.put_off:
            pass  # its findings are about what is folded anew at the next opening
        elif findings and case.file not in CONTENT:
            case.faults.append(f"audit finds {findings[:2]} though the journal is sound")
        elif case.file in CONTENT and case.damaged and not findings:
            case.faults.append("damaged memories, and audit finds nothing")
        elif not findings and told["audit"]["digests"] != self.truth["audit"]["digests"]:
            case.faults.append("the projections' digests are others")
        if "error" in told["new"]:
            case.faults.append(f"no write is taken: {told['new']['error']}")
        if case.damaged and case.file in DISPOSABLE:
            case.faults.append(f"{case.damaged} memories damaged by a file that is disposable")

    def _note_error(self, case: Case, name: str, told: dict[str, Any]) -> None:
        """A read of damaged projections may be refused until they are folded anew; nothing else may be."""
        said = f"{name}: {told['error']}: {told['what']} {told['frames'][-400:]}"
        excused = told["error"] == "Refused" and case.file.startswith("projections/")
        (case.put_off if excused else case.faults).append(said)

    def _judge_memory(self, case: Case, ref: str, told: dict[str, Any], expected: dict[str, Any]) -> None:
        if told == expected:
            return
        if "error" in told:
            self._note_error(case, f"get {ref}", told)
        elif told["memories"] and told["memories"][0].get("damaged"):
            case.damaged += 1
        else:
            case.faults.append(f"get {ref} is wrong: {_difference(told, expected)}")

    def _judge_list(self, case: Case, name: str, told: dict[str, Any], expected: dict[str, Any]) -> None:
        """Equal but for those that are called damaged: they stand in their place."""
        if "error" in told:
            self._note_error(case, name, told)
            return
        key = next(iter(expected))
        rows = zip(told[key], expected[key], strict=False) if isinstance(expected[key], list) else ()
        if len(told[key]) != len(expected[key]):
            case.faults.append(f"{name}: {len(told[key])} instead of {len(expected[key])}")
        for one, two in rows:
            if one != two and not _is_called_damaged(one, two):
                case.faults.append(f"{name}: {_difference(one, two)}")
                return


def _is_called_damaged(told: Any, expected: Any) -> bool:
    """A memory or a session that says itself that it can't be read."""
    if not isinstance(told, dict):
        return False
    if told.get("damaged"):
        return bool(told["id"] == expected["id"])
    return told.get("state") == "damaged" and bool(told["session"] == expected["session"])


def _difference(told: Any, expected: Any) -> str:
    return f"{json.dumps(told)[:300]} instead of {json.dumps(expected)[:300]}"


_LEAVE = """
import os, sys, time
from pathlib import Path
from daemon.opening import open_all
store, projections, _ = open_all(Path(sys.argv[1]), "drill", time.time_ns() // 1_000_000)
os._exit(0)
"""


def cases(seed: int, rounds: int, files: list[str], harms: list[str]) -> list[Case]:
    """Every file with every harm; those that chance decides `rounds` times."""
    found: list[Case] = []
    for base in BASES:
        for file in files:
            for harm in harms:
                many = rounds if harm in BY_CHANCE else 1
                found += [Case(base, file, harm, seed + number) for number in range(many)]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="damage every file in every way")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=10, help="of each harm that chance decides")
    parser.add_argument("--files", nargs="*", default=[*PRECIOUS, *DISPOSABLE])
    parser.add_argument("--harms", nargs="*", default=list(HARMS))
    parser.add_argument("--show", action="store_true", help="print every case")
    given = parser.parse_args()
    counted: Counter[tuple[str, str]] = Counter()
    bad: list[Case] = []
    with tempfile.TemporaryDirectory(prefix="noctuary-") as name:
        damage = Damage(Path(name))
        try:
            for wanted in cases(given.seed, given.rounds, given.files, given.harms):
                case = damage.run(wanted)
                if case is None:
                    continue
                counted[case.file, case.outcome] += 1
                if case.faults:
                    bad.append(case)
                if given.show or case.faults:
                    print(case, flush=True)
        finally:
            damage.close()
    outcomes = ("refused", "damaged", "repaired", "whole", "BAD")
    print(f"{'file':24}" + "".join(f"{outcome:>9}" for outcome in outcomes))
    for file in given.files:
        print(f"{file:24}" + "".join(f"{counted[file, outcome]:9d}" for outcome in outcomes))
    print("clean" if not bad else f"{len(bad)} BAD")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

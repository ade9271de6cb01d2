"""Faults at single system calls of a real daemon, and a judge that can find what it looks for.

The whole drill is `ops/drills/fault_injection.py`; here are its judge, its counting, and the calls that decide
about an ack: those of the commit on the journal, the projections' write behind it, and the opening.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ops.drills.faults import tracing
from ops.drills.faults.judging import Evidence, Verdict, judge_answers, judge_writes, lawful_exits
from ops.drills.faults.scenes import SCENES, Templates, record_calls, run_with_fault
from ops.drills.faults.tracing import Fault, Injection, recorded
from ops.drills.faults.writing import Fate, Write
from tests.system.process import DaemonProcess

WHY_NOT = tracing.why_not()
needs_strace = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
BY_NAME = {scene.name: scene for scene in SCENES}


# --- the judge -------------------------------------------------------------------------------------


def sound() -> Evidence:
    """One acked, one refused, an atomic batch whose answer was lost and that is there, one that isn't."""
    writes = [
        Write("a", ("a",), Fate.ACKED, ("raw:1",)),
        Write("r", ("r",), Fate.REFUSED, reason="read_only"),
        Write("b", ("b1", "b2"), Fate.UNKNOWN),
        Write("c", ("c",), Fate.UNKNOWN),
    ]
    before = [("raw:0", "base"), ("raw:1", "a"), ("raw:2", "b1"), ("raw:3", "b2")]
    again = {"a": ("raw:1",), "b": ("raw:2", "raw:3"), "c": ("raw:4",)}
    return Evidence(["base"], writes, before, again, [*before, ("raw:4", "c")])


def without(seen: Evidence, text: str) -> None:
    seen.before = [pair for pair in seen.before if pair[1] != text]
    seen.after = [pair for pair in seen.after if pair[1] != text]


def renamed(seen: Evidence) -> None:
    seen.before = [(ref, "other" if ref == "raw:1" else text) for ref, text in seen.before]


def refused_for_no_reason(seen: Evidence) -> None:
    seen.writes[1].reason = "internal"


def torn(seen: Evidence) -> None:
    seen.before.remove(("raw:3", "b2"))


def test_the_judge_finds_nothing_where_nothing_is_wrong() -> None:
    assert judge_writes(sound()) == Verdict()


@pytest.mark.parametrize(
    ("column", "harm"),
    [
        ("lost", lambda seen: without(seen, "a")),
        ("lost", lambda seen: without(seen, "base")),
        ("lost", lambda seen: without(seen, "c")),
        ("lost", lambda seen: seen.after.remove(("raw:1", "a"))),
        ("lost", lambda seen: seen.before.clear()),
        ("changed", renamed),
        ("doubled", lambda seen: seen.before.append(("raw:9", "a"))),
        ("doubled", lambda seen: seen.after.append(("raw:9", "c"))),
        ("doubled", lambda seen: seen.again.update(a=("raw:9",))),
        ("doubled", lambda seen: seen.again.update(b=("raw:8", "raw:9"))),
        ("phantom", lambda seen: seen.before.append(("raw:9", "r"))),
        ("phantom", lambda seen: seen.before.append(("raw:9", "never sent"))),
        ("gaps", lambda seen: without(seen, "a")),
        ("torn", torn),
        ("refused", refused_for_no_reason),
    ],
)
def test_the_judge_finds(column: str, harm: Callable[[Evidence], object]) -> None:
    seen = sound()
    harm(seen)
    verdict = judge_writes(seen)
    assert getattr(verdict, column) > 0
    assert not verdict.clean


def test_the_judge_finds_who_got_no_answer_or_no_ack() -> None:
    """The batch `b` is there and `c` isn't; neither was answered."""
    behind, commit = (Injection("writev", f"{where}/data.mdb", 1, Fault.EIO) for where in ("projections", "journal"))
    seen = sound()
    assert judge_answers(behind, seen) == Verdict(silent=2, unacked=1)
    seen.writes[2].reason = seen.writes[3].reason = "unknown_outcome"
    assert judge_answers(behind, seen) == Verdict(unacked=1)
    assert judge_answers(commit, seen) == Verdict()
    assert judge_answers(Injection("writev", "vault", 1, Fault.KILL), sound()) == Verdict()


def test_damage_is_never_a_lawful_end_and_a_journal_that_fails_never_a_fine_one() -> None:
    every = [
        lawful_exits(Injection(call, file, 1, fault), creating)
        for call in ("fdatasync", "openat", "mkdir", "writev")
        for file in ("", "journal/data.mdb", "vault", "projections/data.mdb", "head.new")
        for fault in Fault
        for creating in (False, True)
    ]
    assert all(not {1, 65, 70, None} & codes for codes in every)
    assert lawful_exits(Injection("fdatasync", "journal/data.mdb", 1, Fault.EIO), False) == {74}
    assert lawful_exits(Injection("writev", "journal/data.mdb", 1, Fault.SHORT), False) == {74}
    assert lawful_exits(Injection("fdatasync", "journal/data.mdb", 1, Fault.KILL), False) == {-9}


# --- the counting ----------------------------------------------------------------------------------


def test_a_fault_counts_as_injected_only_when_strace_says_so() -> None:
    failing = Injection("fdatasync", "journal/data.mdb", 1, Fault.EIO)
    assert failing.hits("7 fdatasync(8) = -1 EIO (Input/output error) (INJECTED)\n") == 1
    assert failing.hits("7 fdatasync(8) = -1 EIO (Input/output error)\n") == 0
    killing = Injection("fdatasync", "journal/data.mdb", 1, Fault.KILL)
    assert killing.hits("7 fdatasync(8) = ?\n8 +++ killed by SIGKILL +++\n") == 1
    assert killing.hits("7 fdatasync(8 <unfinished ...>) = ?\n8 +++ killed by SIGKILL +++\n") == 1
    assert killing.hits("7 fdatasync(8) = 0\n8 +++ killed by SIGKILL +++\n") == 0
    assert killing.hits("7 fdatasync(8) = ?\n") == 0


def test_calls_are_counted_by_their_file() -> None:
    noted = (
        '7 rename("/s/state/head.new", "/s/state/head") = 0\n'
        "7 fsync(3</s/state>) = 0\n"
        "fdatasync(8</s/state/journal/data.mdb>) = 0\n"
        "7 fdatasync(8</s/state/journal/data.mdb>) = 0\n"
        '7 unlink("/s/d.sock") = 0\n'
    )
    assert recorded(noted, Path("/s/state")) == {
        ("head.new", "rename"): 1,
        ("", "fsync"): 1,
        ("journal/data.mdb", "fdatasync"): 2,
    }


# --- real daemons ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Templates]:
    yield Templates(tmp_path_factory.mktemp("t"))


@needs_strace
@pytest.mark.parametrize(
    ("scene", "call", "file", "number", "fault"),
    [
        ("commit", "fdatasync", "journal/data.mdb", 1, Fault.EIO),
        ("commit", "pwrite64", "journal/data.mdb", 2, Fault.ENOSPC),
        ("commit", "writev", "journal/data.mdb", 1, Fault.SHORT),
        ("commit", "fdatasync", "journal/data.mdb", 2, Fault.KILL),
        ("commit", "writev", "projections/data.mdb", 1, Fault.EIO),
        ("start", "openat", "journal/data.mdb", 1, Fault.EIO),
        ("create", "fdatasync", "journal.new/data.mdb", 1, Fault.EIO),
        ("stop", "write", "head.new", 1, Fault.ENOSPC),
    ],
)
def test_a_fault_at_one_call_loses_nothing(
    templates: Templates, short_dir: Path, scene: str, call: str, file: str, number: int, fault: Fault
) -> None:
    injection = Injection(call, file, number, fault)
    result = run_with_fault(BY_NAME[scene], injection, templates, short_dir)
    assert result.hits, f"the fault didn't strike: {result.notes}"
    assert result.verdict.clean, f"{result.verdict}: {result.notes}"


@needs_strace
def test_the_calls_that_a_commit_hangs_on_are_seen(templates: Templates, short_dir: Path) -> None:
    counted = record_calls(BY_NAME["commit"], templates, short_dir)
    assert counted["journal/data.mdb", "fdatasync"] >= 4
    assert counted["projections/data.mdb", "writev"] + counted["projections/data.mdb", "pwrite64"] >= 4
    assert counted["projections/data.mdb", "fdatasync"] == 0, "projections are not synced per batch"


@needs_strace
def test_the_drill_sees_a_daemon_that_forgets_what_it_acked(
    templates: Templates, short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the clean start the store is put back to what it was: all that was acked since is lost."""
    start = DaemonProcess.start
    opened: list[Path] = []

    def put_back_then_start(daemon: DaemonProcess) -> None:
        opened.append(daemon.state)
        if len(opened) == 2:
            shutil.rmtree(daemon.state)
            templates.copy("served", daemon)
        start(daemon)

    templates.copy("served", DaemonProcess(short_dir / "made"))
    monkeypatch.setattr(DaemonProcess, "start", put_back_then_start)
    injection = Injection("fdatasync", "journal/data.mdb", 3, Fault.EIO)
    result = run_with_fault(BY_NAME["commit"], injection, templates, short_dir)
    assert result.hits and result.verdict.lost > 0

"""kill -9 while passes are being committed: nothing is lost, nothing is there twice or by half, whoever it hits.

The process is killed at the moment it says that it begins a commit, and before each of the writes that one makes.
Then the store is opened again and held against the plan: what was acked, the one commit that may have been
under way, and nothing else; folded anew it is the same, and asking again gives the one set.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from daemon.refusal import Reason, Refused
from ops.drills.crash.recording import strace_problem
from projections import passes
from tests.daemon.slept import Slept
from tests.system.consolidating import COMMITS_A_PASS, STEPS, Step, prepare, take, turns_of
from tests.system.process import ROOT, DaemonProcess

WHY_NOT = strace_problem()
WRITES = ("pwrite64", "writev", "pwritev", "fdatasync", "msync")
FILES = ("journal/data.mdb", "projections/data.mdb", "vault")
COMMITTING = ("fdatasync", "journal/data.mdb")
FROM_COMMIT = 5


@dataclass
class Told:
    """What a killed process had said. `acked`: the notes of each commit by its number; `beside`: turns acked."""

    acked: dict[int, list[str]] = field(default_factory=dict)
    begun: int = -1
    beside: int = 0
    done: bool = False

    def line(self, line: str) -> None:
        word, *rest = line.split()
        if word == "begin":
            self.begun = int(rest[0])
        elif word == "acked":
            self.acked[int(rest[0])] = rest[1:]
        elif word == "beside":
            self.beside = int(rest[0])
        else:
            self.done = word == "done"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    slept = Slept(tmp_path / "state")
    prepare(slept)
    slept.close(True)
    return slept.root


@contextlib.contextmanager
def opened(state: Path) -> Iterator[Slept]:
    slept = Slept(state)
    try:
        yield slept
    finally:
        slept.close(True)


def run(state: Path, *words: str, through: tuple[str, ...] = (), kill_at: int | None = None) -> Told:
    """Let it commit until it has begun the commit `kill_at`, and kill it then; else to its end."""
    told = Told()
    command = [*through, sys.executable, "-m", "tests.system.consolidating", str(state), *words]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            for line in child.stdout:
                told.line(line)
                if kill_at is not None and told.begun >= kill_at:
                    break
        finally:
            if kill_at is not None:
                child.send_signal(signal.SIGKILL)
        for line in child.stdout:  # what it said before it died
            told.line(line)
    return told


# --- what has to be there ------------------------------------------------------------------------


def there(slept: Slept) -> dict[str, str]:
    """Every note of the store by its text: none twice."""
    notes: dict[str, str] = {}
    for key in ("one", "two"):
        for note in slept.session(key, include=["derived"], limit=1000)["derived"]:
            assert note["text"] not in notes, "a fact is there twice"
            notes[note["text"]] = note["id"]
    assert len(notes) == slept.read("list", {"sel": {"kinds": ["note"]}})["total"]
    return notes


def whole(slept: Slept, acked: dict[int, list[str]]) -> int:
    """Hold the store against the plan; how many commits are there: those acked, and at most one behind them."""
    notes = there(slept)
    count = next((at for at, step in enumerate(STEPS) if step.text(0) not in notes), len(STEPS))
    assert sorted(acked) == list(range(len(acked))) and len(acked) <= count <= len(acked) + 1
    wanted = {step.text(index) for step in STEPS[:count] for index in range(len(step.facts))}
    assert notes.keys() == wanted, "half of a commit is there"
    for number, refs in acked.items():
        assert [notes[STEPS[number].text(index)] for index in range(len(refs))] == refs and refs
    for key in ("one", "two"):
        of_session(slept, key, [step for step in STEPS[:count] if step.key == key], notes)
    return count


def of_session(slept: Slept, key: str, steps: list[Step], notes: dict[str, str]) -> None:
    """Rows, lineage, marks and settled turns of one session are those of the commits that are there."""
    turns = turns_of(slept, key)
    ended = {step.number for step in steps if step.last}
    wanted = [
        {
            "id": notes[step.text(index)],
            "state": "live" if step.number in ended else "partial",
            "pass": step.number,
            "fact_index": step.place * 2 + index,
            "batch_count": 2 * (COMMITS_A_PASS if step.number in ended else step.place + 1),
            "turn_count": len(cited),
            "first_seq": min(cited),
            "last_seq": max(cited),
        }
        for step in steps
        for index, cited in enumerate(step.facts)
    ]
    rows = slept.rows(key)
    assert [{name: row[name] for name in wanted[0]} for row in rows] == wanted if wanted else rows == []
    for step in steps:
        for index, cited in enumerate(step.facts):
            assert slept.memory(notes[step.text(index)])["derived_from"] == [turns[turn] for turn in sorted(cited)]
    promoted = {turn for step in steps for cited in step.facts for turn in cited}
    noise = {turn for step in steps for turn in step.noise} - promoted
    settled = passes.settled_turns(slept.state(), slept.number(key))
    assert {turn: how.promoted for turn, how in settled.items()} == {
        **dict.fromkeys(promoted, True), **dict.fromkeys(noise, False),
    }  # fmt: skip
    marked = {turn for turn, ref in turns.items() if "consolidated" in slept.memory(ref)["marks"]}
    assert marked == promoted
    sleep = slept.session(key)["sleep"]
    assert (sleep["promoted"], sleep["noise"]) == (len(promoted), len(noise))
    assert sleep["unsettled"] == len(turns) - len(promoted) - len(noise)
    told = slept.session(key, include=["passes"])["passes"]
    assert [(each["pass"], each["facts"], each["partial"]) for each in told] == [
        (number, 2 * sum(step.number == number for step in steps), number not in ended)
        for number in sorted({step.number for step in steps})
    ]


def asked_again(slept: Slept, count: int, acked: dict[int, list[str]]) -> None:
    """The commit that was under way, asked for again: under its key one set, and without one no second."""
    number = len(acked)
    if number == len(STEPS):
        return
    step = STEPS[number]
    if count > number:
        with pytest.raises(Refused) as told:
            take(slept, step)
        assert (told.value.reason, told.value.data["current"]) == (Reason.CONFLICT, "settled")
    first = take(slept, step, idempotency_key=step.name)
    assert first.get("duplicate", False) is (count > number)
    again = take(slept, step, idempotency_key=step.name)
    assert again == {**first, "duplicate": True}
    assert [there(slept)[step.text(index)] for index in range(2)] == first["notes"]
    assert whole(slept, acked | {number: first["notes"]}) == number + 1


def judged(state: Path, told: Told, acked: dict[int, list[str]]) -> int:
    """Open it, hold it against the plan, fold it anew, hold it again, ask again; how many commits there were."""
    for number, notes in told.acked.items():
        assert acked.setdefault(number, notes) == notes, "the same request was answered with other notes"
    with opened(state) as slept:
        count = whole(slept, acked)
        assert slept.rebuilt_alike()
        assert whole(slept, acked) == count
        asked_again(slept, count, acked)
        assert slept.rebuilt_alike()
    return count


# --- the tests -----------------------------------------------------------------------------------


@pytest.mark.timeout(300)
def test_a_process_killed_at_the_beginning_of_every_commit_leaves_each_fact_once(state: Path, short_dir: Path) -> None:
    """One store, killed twelve times; in the end a daemon serves it and its audit finds nothing."""
    acked: dict[int, list[str]] = {}
    for number in range(len(STEPS)):
        told = run(state, kill_at=number)
        assert not told.done and told.begun >= number
        judged(state, told, acked)
    assert run(state).done
    with opened(state) as slept:
        assert whole(slept, dict(enumerate([row["id"] for row in _of(slept, step)] for step in STEPS))) == len(STEPS)
    state.rename(short_dir / "state")
    daemon = DaemonProcess(short_dir)
    try:
        daemon.start()
        assert daemon.audit()["findings"] == []
        for row in daemon.call("sessions", limit=10)["sessions"]:
            rows = daemon.call("session_provenance", session=row["session"])["derived"]
            assert len(rows) == 2 * 2 * COMMITS_A_PASS and {each["state"] for each in rows} == {"live"}
    finally:
        daemon.close()


def _of(slept: Slept, step: Step) -> list[dict[str, str]]:
    places = (step.place * 2, step.place * 2 + 1)
    return [row for row in slept.rows(step.key) if row["pass"] == step.number and row["fact_index"] in places]


@pytest.mark.parametrize("kill_at", [2, 5, 9])
def test_a_kill_while_others_write_beside_leaves_passes_and_turns_whole(state: Path, kill_at: int) -> None:
    told = run(state, "beside", kill_at=kill_at)
    acked: dict[int, list[str]] = {}
    judged(state, told, acked)
    with opened(state) as slept:
        texts = [slept.memory(ref)["text"] for ref in turns_of(slept, "aside").values()] if told.beside else []
    assert texts == [f"aside {number}" for number in range(1, len(texts) + 1)]
    assert told.beside <= len(texts) <= told.beside + 1


def traced(notes: Path, *options: str) -> tuple[str, ...]:
    return ("strace", "-f", "-qq", "-y", "-o", str(notes), *options, "--")


def writes_of(notes: Path, state: Path) -> list[tuple[str, str]]:
    """(call, file) of what the thread that commits wrote, in order: it is not the first, and it syncs the journal."""
    by_thread: dict[str, list[tuple[str, str]]] = {}
    path = re.compile(re.escape(str(state)) + r"/([^\">]*)>")
    lines = notes.read_text("utf-8", "replace").splitlines()
    for line in lines:
        thread, _, call = line.partition(" ")
        on = path.search(call)
        if on is not None and on[1] in FILES:
            by_thread.setdefault(thread, []).append((call.strip().partition("(")[0], on[1]))
    main = lines[0].partition(" ")[0]
    (writer,) = (thread for thread, calls in by_thread.items() if thread != main and COMMITTING in calls)
    return by_thread[writer]


def points(calls: list[tuple[str, str]]) -> list[tuple[str, str, int]]:
    """(call, file, which of them from 1) of all that is written from one commit's sync to the second one behind it."""
    seen: Counter[tuple[str, str]] = Counter()
    found = []
    for each in calls:
        if FROM_COMMIT <= seen[COMMITTING] < FROM_COMMIT + 2:
            found.append((*each, seen[each] + 1))
        seen[each] += 1
    assert seen[COMMITTING] == len(STEPS), "one sync of the journal a commit"
    return found


@pytest.mark.timeout(300)
@pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
def test_a_process_killed_before_each_write_of_a_commit_leaves_all_of_it_or_nothing(
    state: Path, tmp_path: Path
) -> None:
    """Each call that the writing thread makes on journal, vault and projections from behind the sync of the commit that
    ends a pass to behind that of the commit that begins the next one and takes noise again."""
    plain, notes = tmp_path / "plain", tmp_path / "notes"
    shutil.copytree(state, plain)
    assert run(plain, through=traced(notes, "-e", f"trace={','.join(WRITES)}")).done
    found: Counter[str] = Counter()
    for call, file, number in points(writes_of(notes, plain)):
        tried = tmp_path / "tried"
        shutil.copytree(state, tried)
        kill = ("-P", str(tried / file), "-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={number}")
        told = run(tried, through=traced(notes, *kill))
        assert not told.done and "killed by SIGKILL" in notes.read_text("utf-8", "replace")
        stands = judged(tried, told, {}) > len(told.acked)
        # How many pages a commit writes in how many calls depends on who reads meanwhile: some kills hit a neighbour.
        found["meant" if told.begun in range(FROM_COMMIT - 1, FROM_COMMIT + 2) else "beside"] += 1
        found["behind the commit" if stands else "before it"] += 1
        shutil.rmtree(tried)
    assert found["meant"] > 2 * found["beside"] and min(found["behind the commit"], found["before it"]) > 2, found

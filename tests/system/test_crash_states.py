"""The crash-state explorer: its parser, its model of the disk, and a small run that finds nothing, unless sabotaged."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from journal.environment import Environment
from journal.log import DATABASES, Log
from journal.record import HEAD_BYTES
from ops.drills.crash.disk import Directory, Disk, Fates, File, Naming, Write, torn
from ops.drills.crash.fates import Left, Mixed, Strict, Torn
from ops.drills.crash.judge import Asked, Brief, Case, Judge
from ops.drills.crash.load import Request
from ops.drills.crash.recording import strace_problem
from ops.drills.crash.replay import Event, Replay
from ops.drills.crash.served import Served
from ops.drills.crash.sleeping import ENDS
from ops.drills.crash.states import Category, State, Survey, plan
from ops.drills.crash.trace import BadTrace, parse_trace
from ops.drills.crash_states import EARLY, EARLY_EVENTS, Explorer

ROOT = "/r"
BOOT_ID = "/proc/sys/kernel/random/boot_id"


def hexed(text: str) -> str:
    return '"' + "".join(f"\\x{byte:02x}" for byte in text.encode()) + '"'


def opened(name: str, flags: str, descriptor: int) -> str:
    return f"7 openat(AT_FDCWD, {hexed(f'{ROOT}/{name}')}, {flags}, 0600) = {descriptor}"


def played(lines: list[str], **options: object) -> tuple[Disk, list[Event]]:
    disk = Disk()
    events = list(Replay(disk, ROOT, **options).play(parse_trace(lines)))  # type: ignore[arg-type]
    return disk, events


def left(disk: Disk, target: Path, fates: Fates) -> dict[str, bytes]:
    disk.put_under(target, fates)
    return {str(path.relative_to(target)): path.read_bytes() for path in target.rglob("*") if path.is_file()}


# --- the parser ------------------------------------------------------------------------------------------


def test_halves_of_a_call_are_joined_and_know_when_they_began() -> None:
    first, second = parse_trace(
        ["7 fsync(3 <unfinished ...>", f"8 pwrite64(4, {hexed('x, =)')}, 5, 0) = 5", "7 <... fsync resumed>) = 0"]
    )
    assert (first.name, first.strings(), first.words()[-1], first.result) == ("pwrite64", [b"x, =)"], "0", 5)
    assert (second.name, second.words(), second.began, second.ended) == ("fsync", ["3"], 0, 2)


def test_an_answer_counts_from_when_it_began_to_leave() -> None:
    names = [
        call.name
        for call in parse_trace(
            [
                f"7 sendto(9, {hexed('a')}, 1, 0, NULL, 0 <unfinished ...>",
                "8 fsync(3) = 0",
                "7 <... sendto resumed>) = 1",
            ]
        )
    ]
    assert names == ["sendto", "fsync"]


def test_a_call_that_never_came_back_has_no_result() -> None:
    (call,) = parse_trace([f"7 write(3, {hexed('ab')}, 2 <unfinished ...>", "7 +++ killed by SIGKILL +++"])
    assert call.result is None and call.strings() == [b"ab"]


@pytest.mark.parametrize("line", ["fsync(3) = 0", "7 <... fsync resumed>) = 0", "7 fsync(3"])
def test_half_a_trace_is_refused(line: str) -> None:
    with pytest.raises(BadTrace):
        parse_trace([line])


# --- the calls on the model ------------------------------------------------------------------------------


def test_what_came_after_a_sync_began_is_not_covered_by_it(tmp_path: Path) -> None:
    lines = [
        opened("f", "O_RDWR|O_CREAT", 3), f"7 pwrite64(3, {hexed('aaaa')}, 4, 0) = 4", "7 fsync(3 <unfinished ...>",
        f"8 pwrite64(3, {hexed('b')}, 1, 1) = 1", "7 <... fsync resumed>) = 0",
        "7 clone(flags=CLONE_VM|CLONE_FILES|CLONE_THREAD) = 8", f"7 openat(AT_FDCWD, {hexed(ROOT)}, O_RDONLY) = 4",
        "7 fsync(4) = 0",
    ]  # fmt: skip
    disk, _ = played(lines)
    assert left(disk, tmp_path / "all", Fates()) == {"f": b"abaa"}
    assert left(disk, tmp_path / "none", Strict()) == {"f": b"aaaa"}


def test_a_write_through_a_synced_descriptor_is_durable_alone(tmp_path: Path) -> None:
    lines = [
        opened("f", "O_RDWR|O_CREAT", 3), opened("f", "O_WRONLY|O_DSYNC", 4),
        f"7 openat(AT_FDCWD, {hexed(ROOT)}, O_RDONLY) = 5", "7 fsync(5) = 0",
        f"7 pwrite64(3, {hexed('aaaa')}, 4, 0) = 4", f"7 pwrite64(4, {hexed('m')}, 1, 2) = 1",
    ]  # fmt: skip
    disk, _ = played(lines)
    assert left(disk, tmp_path / "none", Strict()) == {"f": b"\0\0m"}
    overlooked, _ = played(lines, missed=lambda name, path: name == "O_DSYNC")
    assert left(overlooked, tmp_path / "overlooked", Strict()) == {"f": b""}


def test_a_name_is_durable_when_its_directory_was_synced(tmp_path: Path) -> None:
    lines = [opened("f.new", "O_RDWR|O_CREAT", 3), f"7 write(3, {hexed('x')}, 1) = 1", "7 fsync(3) = 0"]
    renamed = [*lines, f"7 rename({hexed(ROOT + '/f.new')}, {hexed(ROOT + '/f')}) = 0"]
    synced = [*renamed, f"7 openat(AT_FDCWD, {hexed(ROOT)}, O_RDONLY|O_DIRECTORY) = 4", "7 fsync(4) = 0"]
    assert left(played(lines)[0], tmp_path / "made", Strict()) == {}
    assert left(played(renamed)[0], tmp_path / "renamed", Strict()) == {}
    assert left(played(renamed)[0], tmp_path / "kept", Fates()) == {"f": b"x"}
    assert left(played(synced)[0], tmp_path / "synced", Strict()) == {"f": b"x"}


def test_answers_are_read_from_connections_line_by_line() -> None:
    whole = '{"jsonrpc":"2.0","id":"k1","result":{"id":"raw:1"}}\n{"jsonrpc":"2.0","id":"k2","result":{}}\n'
    first, second = whole[:60], whole[60:]
    lines = ["7 accept4(5, NULL, NULL, SOCK_CLOEXEC) = 9"]
    lines += [f"7 sendto(9, {hexed(part)}, {len(part)}, 0, NULL, 0) = {len(part)}" for part in (first, second)]
    _, events = played(lines)
    assert [[answer.request for answer in event.answers] for event in events] == [["k1"], ["k2"]]


def test_a_call_without_a_model_is_no_silence() -> None:
    with pytest.raises(BadTrace, match="fallocate"):
        played([opened("f", "O_RDWR|O_CREAT", 3), "7 fallocate(3, 0, 0, 4096) = 0"])


# --- what a crash leaves ---------------------------------------------------------------------------------


def test_a_torn_write_ends_at_sectors() -> None:
    write = Write(1, 500, b"a" * 12 + b"b" * 512 + b"c")
    assert [(each.offset, each.data) for each in torn(write, lambda sector: sector != 1)] == [
        (500, b"a" * 12), (1024, b"c"),
    ]  # fmt: skip


def file_with(count: int) -> File:
    file = File()
    for number in range(count):
        file.write(number, number, b"x", durable=number % 5 == 0)
    return file


def test_what_is_durable_is_in_every_state() -> None:
    file = file_with(20)
    contents = {
        bytes(file.content(Mixed(random.Random(seed)).writes("f", file))).ljust(20, b"\0") for seed in range(60)
    }
    assert len(contents) > len(Left)
    assert all(content[number] == ord("x") for content in contents for number in range(0, 20, 5))


def test_only_the_last_unsynced_write_is_torn() -> None:
    file = File()
    file.write(1, 0, b"a" * 1024, durable=False)
    file.write(2, 1024, b"b" * 1024, durable=False)
    contents = {bytes(file.content(Torn(random.Random(seed), "f").writes("f", file))) for seed in range(40)}
    assert all(content[:1024] == b"a" * 1024 for content in contents)
    assert {content[1024:].count(b"b") for content in contents} == {0, 512, 1024}
    file.sync(3)
    assert bytes(file.content(Torn(random.Random(1), "f").writes("f", file))) == b"a" * 1024 + b"b" * 1024


def test_names_that_were_not_synced_may_come_and_go() -> None:
    directory, file = Directory(), File()
    directory.change(Naming(1, "old", file))
    directory.sync(2)
    directory.change(Naming(3, "new", file, "old"))
    assert set(directory.entries(lambda naming: True)) == {"new"}
    assert set(directory.entries(lambda naming: False)) == {"old"}


# --- the judge -------------------------------------------------------------------------------------------


def test_half_a_command_and_a_lost_answer_are_seen(tmp_path: Path) -> None:
    params = {"kind": "raw", "subtype": "capture", "origin": "stated", "text": "whole", "idempotency_key": "k"}
    served = Served(tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "half")
    (result,) = served.ask([Request("k", "remember", params)])
    with served.store.env.read() as txn:
        body = (served.store.log.raw(txn, 2) or b"")[HEAD_BYTES:]
    assert isinstance(result, dict) and result["address"]["seq"] > 2, "its first record is not all of it"
    served.close(clean=False)
    env = Environment.open(tmp_path / "half" / "journal", DATABASES, durable=True)
    log = Log(env, served.store.store_id)
    log.append([body], [], log.state)
    env.close()
    judge = Judge(Brief([Asked("k", "remember", params, 0, result)], [str(tmp_path / "whole")]))
    verdict = judge.judge(Case(str(tmp_path / "half"), BOOT_ID, 0, answered=1))
    assert (verdict.acked, verdict.half, verdict.refused) == (1, 1, 0)
    assert verdict.lost >= 1, verdict.what
    whole = judge.judge(Case(str(tmp_path / "whole"), BOOT_ID, 0, answered=1))
    assert (whole.acked, whole.what) == (1, [])


# --- the run -----------------------------------------------------------------------------------------------

problem = strace_problem()
traced = pytest.mark.skipif(problem is not None, reason=str(problem))


@pytest.fixture
def work(short_dir: Path) -> Iterator[Path]:
    place = short_dir / "x"
    place.mkdir(mode=0o700)
    yield place


@traced
def test_states_of_a_real_run_lose_nothing_and_a_falsified_run_is_seen_through(work: Path) -> None:
    """One recording, looked at twice: as it was, and with every answer taken for earlier than it was."""
    explorer = Explorer(work, size=1, seed=1, given=frozenset())
    found = explorer.record()
    assert len(found.answers) > 30
    slept = _answered(found, "-pass-")
    assert len(slept) == len(ENDS)
    amid = [State(at - before, Category.STRICT, 0) for at in slept for before in (0, 2, 5)]
    states = sorted({*plan(found, 24, 1), *amid}, key=lambda state: state.moment)
    tally = explorer.explore(found, states, None)
    total = tally.total()
    assert total["states"] >= 20 and total["acked"] > 300
    assert {state.category for state in states} == set(Category)
    assert tally.clean, [(str(state), verdict.what) for state, verdict in tally.failed]
    explorer.sabotage(EARLY)
    purges = _answered(found, "purge")
    assert len(purges) == 2
    early = [State(at - EARLY_EVENTS + 1, Category.STRICT, 0) for at in (*found.answering[3:7], *purges)]
    total = explorer.explore(found, sorted(early, key=lambda state: state.moment), None).total()
    assert total["lost"] > 0 and total["readable"] > 0
    early = [State(at - EARLY_EVENTS + 1, Category.STRICT, 0) for at in slept]
    tally = explorer.explore(found, early, None)
    assert [verdict.lost > 0 for _, verdict in tally.failed] == [True] * len(slept), "passes acked before they stood"


def _answered(found: Survey, part: str) -> list[int]:
    """The moments when answers left whose request has that in its id."""
    return [at for answer, at in zip(found.answers, found.answered_at, strict=True) if part in answer.request]

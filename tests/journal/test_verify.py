"""Verifying: a sound journal has no finding, each damage has its own, and the walk goes on behind it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from journal.errors import RESTORE_A_BACKUP, StoreIO
from journal.log import Log, MetaState, sealed_key
from journal.record import encode_body, encode_value, seq_key
from journal.verify import Progress, Verification, WalkStopped, verify_in_child, verify_log, verify_state, walk_log
from tests.journal.making import append_memories, memory, open_journal, purge, record

Damage = Callable[[lmdb.Transaction, Log], object]


def fill(log: Log) -> None:
    """Records 1 to 10, of which 9 purges 2 and takes its ciphertext with it."""
    append_memories(log, 8)
    log.append([encode_body(record(9, purge(memory(2))))], [], log.state, [9], [sealed_key(2, 1)])
    append_memories(log, 1)


def verified(state_dir: Path, damage: Damage | None = None) -> Verification:
    with open_journal(state_dir) as log:
        fill(log)
        if damage is not None:
            with log.env.write() as txn:
                damage(txn, log)
        return verify_log(log)


def test_a_sound_journal_has_no_finding(tmp_path: Path) -> None:
    found = verified(tmp_path)
    assert found.findings == ()
    assert found.records == 10
    with open_journal(tmp_path, readonly=True) as log:
        assert found.head == log.head()


def test_an_empty_journal_has_no_finding(tmp_path: Path) -> None:
    with open_journal(tmp_path) as log:
        assert verify_log(log) == Verification(log.head(), 0, ())


def flip(database: str, key: bytes, place: int = -1) -> Damage:
    def damage(txn: lmdb.Transaction, log: Log) -> None:
        db = log.env.db(database)
        value = bytearray(bytes(txn.get(key, b"", db=db)))
        value[place] ^= 1
        txn.put(key, bytes(value), db=db)

    return damage


def drop(database: str, key: bytes) -> Damage:
    return lambda txn, log: txn.delete(key, db=log.env.db(database))


def put(database: str, key: bytes, value: bytes) -> Damage:
    return lambda txn, log: txn.put(key, value, db=log.env.db(database))


def replace_by_a_sound_row(txn: lmdb.Transaction, log: Log) -> None:
    """Row 4 becomes one whose CRC holds, as from another time: only the chain tells."""
    value, _ = encode_value(b"?" * 32, encode_body(record(4, memory(4))))
    txn.put(seq_key(4), value, db=log.env.db("records"))


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (flip("records", seq_key(4)), [("record_damaged", 4)]),
        (flip("records", seq_key(4), 0), [("record_damaged", 4)]),
        (drop("records", seq_key(4)), [("record_missing", 4)]),
        (put("records", seq_key(3) + b"x", b"?"), [("record_key", None)]),
        (put("records", seq_key(1 << 50), b"?"), [("record_order", None)]),
        (replace_by_a_sound_row, [("chain_broken", 4), ("chain_broken", 5)]),
        (flip("sealed", sealed_key(4, 1)), [("sealed_damaged", 4)]),
        (drop("sealed", sealed_key(4, 1)), [("sealed_missing", 4)]),
        (put("sealed", sealed_key(4, 2), b"?"), [("sealed_unnamed", None)]),
        (drop("meta", b"purge" + seq_key(9)), [("purge_unlisted", 9)]),
        (flip("meta", b"purge" + seq_key(9)), [("meta_damaged", None)]),
    ],
)
def test_each_damage_is_found_where_it_is(
    tmp_path: Path, damage: Damage, expected: list[tuple[str, int | None]]
) -> None:
    found = verified(tmp_path, damage)
    assert [(finding.code, finding.seq) for finding in found.findings] == expected
    assert all(finding.what and finding.action for finding in found.findings)
    assert found.head is not None
    assert found.head.seq == 10


def test_two_damages_are_two_findings(tmp_path: Path) -> None:
    def both(txn: lmdb.Transaction, log: Log) -> None:
        flip("records", seq_key(3))(txn, log)
        flip("records", seq_key(7))(txn, log)

    found = verified(tmp_path, both)
    damaged = [finding.seq for finding in found.findings if finding.code == "record_damaged"]
    assert damaged == [3, 7]
    assert found.records == 8


def test_a_state_that_is_ahead_of_the_head_is_found(tmp_path: Path) -> None:
    with open_journal(tmp_path) as log:
        append_memories(log, 2)
        log.append([], [], MetaState(vault_next=3, owner_seq=2, opened_seq=7))
        assert [finding.code for finding in verify_log(log).findings] == ["state"]


def test_progress_is_told_after_each_chunk(tmp_path: Path) -> None:
    with open_journal(tmp_path) as log:
        fill(log)
        assert list(walk_log(log, size=4)) == [Progress(4, 10), Progress(8, 10), Progress(10, 10)]
        assert list(walk_log(log, from_seq=3, to_seq=6)) == [Progress(6, 6)]


def test_a_journal_that_grows_under_the_walk_is_sound(tmp_path: Path) -> None:
    """After each chunk come a purge that takes a ciphertext which was not walked yet, one that takes a walked one,
    and memories; all of it is behind the head that the walk ends at.
    """
    with open_journal(tmp_path) as log:
        fill(log)
        told: list[Progress] = []

        def grow(step: Progress) -> None:
            told.append(step)
            for target in (2 * len(told) + 1, 10 - len(told)):
                seq = log.head().seq + 1
                if log_has(log, target):
                    body = encode_body(record(seq, purge(memory(target))))
                    log.append([body], [], log.state, [seq], [sealed_key(target, 1)])
            append_memories(log, 3)

        found = walked(log, 3, grow)
        assert found.findings == ()
        assert (found.records, found.head.seq if found.head else None) == (10, 10)
        assert [step.seq for step in told] == [3, 6, 9, 10]
        assert log.head().seq > 20
        assert verify_log(log).findings == ()


def log_has(log: Log, owner: int) -> bool:
    with log.env.read() as txn:
        return log.sealed(txn, owner, 1) is not None


def walked(log: Log, size: int, between: Callable[[Progress], None]) -> Verification:
    """`verify_log` in chunks of `size` records."""
    walk = walk_log(log, size=size)
    while True:
        try:
            between(next(walk))
        except StopIteration as end:
            result: Verification = end.value
            return result


def test_a_ciphertext_that_is_lost_under_the_walk_is_found_all_the_same(tmp_path: Path) -> None:
    with open_journal(tmp_path) as log:
        fill(log)

        def lose(step: Progress) -> None:
            append_memories(log, 1)
            with log.env.write() as txn:
                txn.delete(sealed_key(8, 1), db=log.env.db("sealed"))

        found = walked(log, 3, lose)
        assert [(each.code, each.seq) for each in found.findings] == [("sealed_missing", 8)]


def test_a_walk_can_be_ended_after_each_chunk(tmp_path: Path) -> None:
    with open_journal(tmp_path) as log:
        fill(log)
        told: list[Progress] = []
        with pytest.raises(WalkStopped):
            verify_log(log, progress=told.append, should_stop=lambda: bool(told))
        assert len(told) == 1
        assert verify_log(log, should_stop=lambda: False).findings == ()


def test_a_range_is_verified_against_the_record_before_it(tmp_path: Path) -> None:
    with open_journal(tmp_path) as log:
        fill(log)
        with log.env.write() as txn:
            replace_by_a_sound_row(txn, log)
        assert [finding.seq for finding in verify_log(log, 5, 8).findings] == [5]
        assert verify_log(log, 6, 8).findings == ()


def test_the_child_finds_what_this_process_finds(tmp_path: Path) -> None:
    found = verified(tmp_path)
    assert verify_in_child(tmp_path) == found == verify_state(tmp_path)


def test_the_child_prints_json_and_exits_with_65_for_damage(tmp_path: Path) -> None:
    verified(tmp_path, flip("records", seq_key(4)))
    child = subprocess.run(
        [sys.executable, "-m", "journal.verify", str(tmp_path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        check=False,
    )
    assert child.returncode == os.EX_DATAERR
    assert json.loads(child.stdout)["findings"][0]["seq"] == 4


def test_a_truncated_journal_is_a_finding(tmp_path: Path) -> None:
    verified(tmp_path)
    os.truncate(tmp_path / "journal" / "data.mdb", 3 * 4096)
    assert [finding.code for finding in verify_in_child(tmp_path).findings] == ["journal_unreadable"]


def test_a_journal_that_is_not_there_is_a_finding(tmp_path: Path) -> None:
    assert [finding.code for finding in verify_in_child(tmp_path).findings] == ["journal_unreadable"]
    assert list(tmp_path.iterdir()) == []


def test_pages_in_disorder_are_a_finding_and_never_the_end_of_this_process(tmp_path: Path) -> None:
    """Overwriting each page's head in turn makes LMDB complain, read wrongly, or end the child."""
    with open_journal(tmp_path) as log:
        append_memories(log, 60)
    data = tmp_path / "journal" / "data.mdb"
    whole = data.read_bytes()
    codes: set[str] = set()
    for page in range(2, len(whole) // 4096):
        for first, last in ((8, 32), (16, 416)):
            damaged = bytearray(whole)
            damaged[page * 4096 + first : page * 4096 + last] = b"\xff" * (last - first)
            data.write_bytes(damaged)
            codes.update(finding.code for finding in verify_in_child(tmp_path).findings)
    assert "child_died" in codes
    assert "child_failed" not in codes


def test_a_journal_that_cannot_be_read_now_is_no_finding(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "data.mdb").symlink_to("/proc/self/mem")  # opens, and answers a read at 0 with EIO
    with pytest.raises(StoreIO):
        verify_in_child(tmp_path)


def children() -> list[int]:
    """The processes that this one started and that are not gone."""
    found = Path("/proc/self/task").glob("*/children")
    return [int(pid) for path in found for pid in path.read_text("ascii").split()]


@pytest.fixture
def unending(tmp_path: Path) -> Path:
    """A state directory whose walk never ends by itself: to open its journal is to wait for a writer."""
    (tmp_path / "journal").mkdir()
    os.mkfifo(tmp_path / "journal" / "data.mdb")
    return tmp_path


def test_a_walk_in_a_child_can_be_ended_and_leaves_no_child(unending: Path) -> None:
    before = children()
    asked: list[list[int]] = []

    def should_stop() -> bool:
        asked.append(children())
        return len(asked) > 2

    with pytest.raises(WalkStopped):
        verify_in_child(unending, should_stop)
    assert len(asked[-1]) == len(before) + 1
    assert children() == before


def test_a_child_that_somebody_killed_is_no_finding(unending: Path) -> None:
    before = set(children())

    def kill() -> bool:
        for pid in set(children()) - before:
            os.kill(pid, signal.SIGKILL)
        return False

    with pytest.raises(StoreIO, match="SIGKILL"):
        verify_in_child(unending, kill)


def test_only_its_parent_ends_a_child(unending: Path) -> None:
    """A service manager sends SIGTERM to all of a service at once; the walk that it cuts short is no damage."""
    before, signalled = set(children()), 0
    deadline = time.monotonic() + 20.0

    def should_stop() -> bool:
        nonlocal signalled
        for pid in set(children()) - before:
            if ignores(pid, signal.SIGTERM):
                os.kill(pid, signal.SIGTERM)
                os.kill(pid, signal.SIGINT)
                signalled += 1
        return signalled > 2 or time.monotonic() > deadline

    with pytest.raises(WalkStopped):
        verify_in_child(unending, should_stop)
    assert signalled > 2


def ignores(pid: int, number: signal.Signals) -> bool:
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    mask = next(line for line in status.splitlines() if line.startswith("SigIgn")).split()[1]
    return bool(int(mask, 16) >> number - 1 & 1)


def test_advice_names_what_can_be_done(tmp_path: Path) -> None:
    """A backup is restored by a command that there is, and into a directory that is not the damaged one."""
    found = verified(tmp_path, flip("records", seq_key(4)))
    assert {finding.action for finding in found.findings} == {RESTORE_A_BACKUP}
    assert "noctuary restore" in RESTORE_A_BACKUP and "another directory" in RESTORE_A_BACKUP

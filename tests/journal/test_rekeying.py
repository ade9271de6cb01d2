"""Changing the master key: the same keys, wrapped otherwise, and nothing of the old file left, whenever it is ended."""

from __future__ import annotations

import errno
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from journal.errors import DamagedStore, StoreAbsent, StoreIO, StoreLocked
from journal.events import SealedPart
from journal.layout import OLD_VAULT, write_all
from journal.masterkey import MasterKeyFault
from journal.rekeying import Change, Changed, change_master_key
from journal.vault import SLOT_BYTES, SLOTS_OFFSET, SlotState
from ops.drills.crash.recording import strace_problem
from tests.journal.backing import files_in, purge
from tests.journal.mastered import everything_in, key, made_with, opened_with
from tests.journal.test_store import read, remember

ROOT = Path(__file__).resolve().parents[2]
TURNS = [(None, "old"), ("old", "new"), ("old", None)]
CALLS = ("write", "pwrite64", "fsync", "link,linkat", "rename", "unlink", "ftruncate")
PROGRAM = """
import sys
from pathlib import Path
from journal.rekeying import Change, change_master_key
from tests.journal.mastered import key
old, new = (None if name == "-" else key(name) for name in sys.argv[2:4])
print("begins", flush=True)
change_master_key(Path(sys.argv[1]), Change(old, new))
"""


def changed(root: Path, old: str | None, new: str | None, give_up: bool = False) -> Changed:
    return change_master_key(root, Change(key(old) if old else None, key(new) if new else None, give_up))


def filled(root: Path, name: str | None) -> tuple[list[SealedPart], list[bytes]]:
    """A store with 30 texts and one that is purged; the parts that read, and all their keys."""
    made_with(root, name)
    store = opened_with(root, name)
    parts = [remember(store, b"text %d" % number) for number in range(30)]
    purge(store, remember(store, b"gone"))
    keys = [*(store.vault.key(part.slot) for part in parts), store.vault.hash_key]
    store.close(clean=True)
    return parts, keys


def assert_reads(root: Path, name: str | None, parts: list[SealedPart]) -> None:
    store = opened_with(root, name)
    try:
        assert store.findings == []
        assert [read(store, part) for part in parts] == [b"text %d" % number for number in range(30)]
        assert store.vault.shredded_slots(100) == [31]
    finally:
        store.close(clean=True)


@pytest.mark.parametrize(("old", "new"), TURNS)
def test_the_same_keys_under_another_and_the_old_file_is_zeros(
    tmp_path: Path, old: str | None, new: str | None
) -> None:
    root = tmp_path / "state"
    parts, keys = filled(root, old)
    before = (root / "vault").read_bytes()
    with (root / "vault").open("rb") as held:
        done = changed(root, old, new)
        held.seek(0)
        left = held.read()
    assert done.anew and done.keys >= len(parts) and done.given_up == ()
    assert len(left) == len(before) and not any(left)
    there = everything_in(root)
    assert all((each in there) is (new is None) for each in keys)
    assert all((each in before) is (old is None) for each in keys)
    assert (
        not any(before[at : at + 40] in there for at in range(SLOTS_OFFSET + 72, SLOTS_OFFSET + 64 * 31, 64)) or not new
    )
    assert {path.name for path in root.iterdir()} == {"FORMAT", "lock", "journal", "vault", "head", "purges"}
    assert (root / "vault").stat().st_mode & 0o777 == 0o600
    for wrong in {None, "old", "new", "other"} - {new}:
        with pytest.raises(MasterKeyFault):
            opened_with(root, wrong)
    assert_reads(root, new, parts)


def test_a_change_that_was_made_is_not_made_again(tmp_path: Path) -> None:
    root = tmp_path / "state"
    parts, _ = filled(root, "old")
    changed(root, "old", "new")
    before = files_in(root)
    assert changed(root, "old", "new") == Changed(opened_id(root), False, 0, ())
    assert files_in(root) == before
    assert_reads(root, "new", parts)


def opened_id(root: Path) -> bytes:
    return bytes.fromhex((root / "FORMAT").read_text().split()[2])


@pytest.mark.parametrize(("has", "old", "new"), [("old", "other", "new"), ("old", None, "new"), (None, "other", "new"),
                                                 ("old", "other", None)])  # fmt: skip
def test_only_the_key_that_opens_it_changes_it(
    tmp_path: Path, has: str | None, old: str | None, new: str | None
) -> None:
    root = tmp_path / "state"
    parts, _ = filled(root, has)
    (root / "vault.new").write_bytes(b"a leftover")  # even that stays
    (root / "vault.new").chmod(0o600)
    before = files_in(root)
    with pytest.raises(MasterKeyFault):
        changed(root, old, new)
    assert files_in(root) == before
    assert_reads(root, has, parts)


def test_a_store_that_is_open_or_absent_is_refused(tmp_path: Path) -> None:
    root = made_with(tmp_path / "state", "old")
    store = opened_with(root, "old")
    with pytest.raises(StoreLocked):
        changed(root, "old", "new")
    store.close(clean=True)
    (tmp_path / "empty").mkdir()
    for nowhere in (tmp_path / "empty", tmp_path / "absent"):
        with pytest.raises(StoreAbsent):
            changed(nowhere, "old", "new")
    assert not any((tmp_path / "empty").iterdir()) and not (tmp_path / "absent").exists()


def test_damaged_slots_end_it_unless_they_are_given_up(tmp_path: Path) -> None:
    root = tmp_path / "state"
    parts, keys = filled(root, None)
    data = bytearray((root / "vault").read_bytes())
    for slot in (3, 9):
        data[SLOTS_OFFSET + slot * SLOT_BYTES + 60] ^= 1  # behind the key, which is whole
    (root / "vault").write_bytes(data)
    before = files_in(root)
    with pytest.raises(DamagedStore, match="2 slots hold no sound key: 3, 9"):
        changed(root, None, "new")
    assert files_in(root) == before
    assert changed(root, None, "new", give_up=True).given_up == (3, 9)
    there = everything_in(root)
    assert not any(each in there for each in keys)
    store = opened_with(root, "new")
    assert [store.vault.state(slot) for slot in (2, 3, 9)] == [SlotState.KEYED, SlotState.DAMAGED, SlotState.DAMAGED]
    assert read(store, parts[0]) == b"text 0"
    store.close(clean=True)


def test_keys_of_many_blocks_are_carried_over(tmp_path: Path) -> None:
    root = made_with(tmp_path / "state", "old")
    store = opened_with(root, "old")
    store.vault.ensure(20_000)
    store.vault.shred([15_000])
    keys = store.sealer.keys(range(1, 20_000))
    store.close(clean=False)
    changed(root, "old", "new")
    after = opened_with(root, "new", readonly=True)
    assert after.sealer.keys(range(1, 20_000)) == keys
    assert keys[14_999] == b"" and all(keys[:14_999])
    after.close(clean=False)


# --- ended at any moment ------------------------------------------------------------------------------------


def run_injected(
    root: Path, old: str | None, new: str | None, calls: str, what: str
) -> subprocess.CompletedProcess[str]:
    inject = ["-e", f"trace={calls}", "-e", f"inject={calls}:{what}", "-o", os.devnull]
    program = [sys.executable, "-c", PROGRAM, str(root), old or "-", new or "-"]
    return subprocess.run(["strace", "-qq", *inject, *program], cwd=ROOT, capture_output=True, text=True, check=False)


def judged(root: Path, old: str | None, new: str | None, parts: list[SealedPart], held: int, size: int) -> str | None:
    """The store opens with exactly one of the two keys, and reads; which. Then nothing of the other file is left."""
    now = opens_with(root, old, new)
    assert_reads(root, now, parts)
    names = {path.name for path in root.iterdir()}
    assert names <= {"FORMAT", "lock", "journal", "vault", "head", "purges", "reserve"}, names
    if now == new:
        assert os.fstat(held).st_nlink == 0 and not any(os.pread(held, size, 0))
    else:
        assert os.fstat(held).st_nlink == 1
        assert changed(root, old, new).anew  # it can be done again
        assert_reads(root, new, parts)
    return now


def opens_with(root: Path, *names: str | None) -> str | None:
    fitting = []
    for name in names:
        try:
            opened_with(root, name, readonly=True).close(clean=False)
            fitting.append(name)
        except MasterKeyFault:
            continue
    assert len(fitting) == 1
    return fitting[0]


@pytest.mark.parametrize(
    ("old", "new", "what"), [*((*turn, "signal=KILL") for turn in TURNS), (*TURNS[1], "error=EIO")]
)
def test_ended_at_every_system_call_it_opens_with_the_old_or_the_new_key(
    tmp_path: Path, old: str | None, new: str | None, what: str
) -> None:
    problem = strace_problem()
    if problem:
        pytest.skip(problem)
    parts, _ = filled(tmp_path / "base", old)
    outcomes: list[str | None] = []
    for calls in CALLS:
        for number in range(1, 100):
            root = tmp_path / "state"
            shutil.rmtree(root, ignore_errors=True)
            shutil.copytree(tmp_path / "base", root)
            held = os.open(root / "vault", os.O_RDONLY)
            size = os.fstat(held).st_size
            try:
                done = run_injected(root, old, new, calls, f"{what}:when={number}")
                if "begins" not in done.stdout and done.returncode:
                    continue  # it had not begun
                outcomes.append(judged(root, old, new, parts, held, size))
            finally:
                os.close(held)
            if done.returncode == 0:
                break
        else:
            pytest.fail(f"{calls} has no end")
    assert len(outcomes) > 12 and set(outcomes) == {old, new}


CALL = re.compile(r"^(\w+)\((.*)\) += \d+", re.M)


def traced(program: str, root: Path, calls: str, *words: str) -> list[str]:
    """What a program did to files of the store, in order: `call name` each, of what follows `begins`."""
    log = root.parent / "trace"
    command = ["strace", "-qq", "-y", "-s", "20", "-e", f"trace={calls}", "-o", str(log), sys.executable, "-c", program]
    subprocess.run([*command, str(root), *words], cwd=ROOT, capture_output=True, check=True)
    found = []
    for name, arguments in CALL.findall(log.read_text().partition('"begins')[2]):
        paths = re.findall(rf"[<\"]{re.escape(str(root))}/?([\w.]*)[>\"]", arguments)
        if paths:
            found.append(" ".join([name, *(path or "." for path in paths)]))
    return found


def test_nothing_is_destroyed_before_the_new_name_is_on_the_disk(tmp_path: Path) -> None:
    problem = strace_problem()
    if problem:
        pytest.skip(problem)
    root = tmp_path / "state"
    filled(root, "old")
    done = traced(PROGRAM, root, "write,pwrite64,fsync,rename,link,linkat,unlink", "old", "new")
    assert [call for call in done if call != "write vault.new"] == [
        "fsync vault.new",
        "fsync .",
        "linkat vault vault.old.new" if "linkat vault vault.old.new" in done else "link vault vault.old.new",
        "rename vault.new vault",
        "fsync .",
        "pwrite64 vault",  # by the name that its descriptor was opened under
        "fsync vault",
        "unlink vault.old.new",
        "fsync .",
    ]


@pytest.mark.parametrize("calls", ["write", "fsync", "unlink"])
def test_an_opening_that_makes_up_for_it_may_be_ended_too(tmp_path: Path, calls: str) -> None:
    """Killed while it overwrites what a change left, at each call: the next opening does the rest."""
    problem = strace_problem()
    if problem:
        pytest.skip(problem)
    parts, _ = filled(tmp_path / "base", "old")
    shutil.copy2(tmp_path / "base" / "vault", tmp_path / "before")
    changed(tmp_path / "base", "old", "new")
    program = (
        "import sys; from pathlib import Path; from tests.journal.mastered import opened_with; "
        "print('begins', flush=True); opened_with(Path(sys.argv[1]), 'new').close(clean=True)"
    )
    for number in range(1, 12):
        root = tmp_path / "state"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(tmp_path / "base", root)
        shutil.copy2(tmp_path / "before", root / OLD_VAULT)
        held = os.open(root / OLD_VAULT, os.O_RDONLY)
        if number == 1:
            wiped = traced(program, root, "write,fsync,unlink")
            assert wiped[:4] == ["fsync .", "write vault.old.new", "fsync vault.old.new", "unlink vault.old.new"]
            shutil.copy2(tmp_path / "before", root / OLD_VAULT)
            os.close(held)
            held = os.open(root / OLD_VAULT, os.O_RDONLY)
        inject = ["-e", f"trace={calls}", "-e", f"inject={calls}:signal=KILL:when={number}", "-o", os.devnull]
        subprocess.run(["strace", "-qq", *inject, sys.executable, "-c", program, str(root)], cwd=ROOT, check=False)
        assert_reads(root, "new", parts)
        assert not (root / OLD_VAULT).exists() and not any(os.pread(held, 1 << 20, 0))
        os.close(held)


@pytest.mark.parametrize("at", ["before", "behind"])
def test_an_interrupted_change_is_finished_by_the_next_one_too(tmp_path: Path, at: str) -> None:
    """Both names of the old vault stand: what is the vault that counts is never overwritten."""
    root = tmp_path / "state"
    parts, _ = filled(root, "old")
    os.link(root / "vault", root / OLD_VAULT)
    (root / "vault.new").write_bytes(b"half")
    (root / "vault.new").chmod(0o600)
    if at == "behind":
        (root / "vault.new").unlink()
        shutil.copy2(root / "vault", tmp_path / "old")
        changed(root, "old", "new")
        shutil.copy2(tmp_path / "old", root / OLD_VAULT)
    held = os.open(root / OLD_VAULT, os.O_RDONLY)
    assert changed(root, "old", "new").anew is (at == "before")
    assert not (root / OLD_VAULT).exists() and not any(os.pread(held, 1 << 20, 0))
    os.close(held)
    assert_reads(root, "new", parts)


def test_a_copy_that_lost_a_key_does_not_take_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a disk or a memory does that fails: the old keys are about to be destroyed."""
    root = tmp_path / "state"
    parts, _ = filled(root, "old")

    def flipped(descriptor: int, data: bytes) -> None:
        bad = bytearray(data)
        if len(data) > SLOTS_OFFSET:  # a block of slots, not the header
            bad[5 * SLOT_BYTES + 12] ^= 1
        write_all(descriptor, bytes(bad))

    monkeypatch.setattr("journal.rekeying.write_all", flipped)
    before = files_in(root)
    with pytest.raises(DamagedStore, match="does not have the keys"):
        changed(root, "old", "new")
    assert files_in(root) == before
    assert_reads(root, "old", parts)


def test_a_full_disk_leaves_it_as_it_was(tmp_path: Path) -> None:
    root = tmp_path / "state"
    parts, _ = filled(root, "old")
    before = files_in(root)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (SLOTS_OFFSET + 64 * 100, limits[1]))
    try:
        with pytest.raises(StoreIO, match=os.strerror(errno.EFBIG)):
            changed(root, "old", "new")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert files_in(root) == before
    assert_reads(root, "old", parts)

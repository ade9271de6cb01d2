"""Drill: a backup or a restore that is killed at the Nth system call of a kind.

    python ops/drills/backup_kills.py [--step N] [--max N]

`strace` kills the process at call 1, 1 + step, … of a kind, until one is through. After a killed backup the directory
must hold the earlier backup or the new one, whole: it is restored, and every text of that time must read, and none that
was purged. After a killed restore an opening must refuse what is half there; then the restore is run again (it may only
refuse because the store is there) and its texts are read. All counts but `runs` are to be 0. Needs strace.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from journal.creating import create_store
from journal.errors import CannotCreate, NoctuaryFault
from journal.events import SealedPart
from journal.manifest import MANIFEST, read_manifest
from journal.purges import read_purges
from journal.vault import SlotUnreadable
from journal.verify import verify_in_child
from ops.drills.crash.recording import strace_problem
from tests.journal.backing import backed_up, purge, restored_as_listed
from tests.journal.test_store import opened, read, remember

ROOT = Path(__file__).resolve().parents[2]
CALLS = ("pwrite64", "write", "writev", "fsync", "fdatasync", "rename", "unlink", "unlinkat", "rmdir", "mkdir")
BACKUP = """
import sys
from pathlib import Path
from tests.journal.backing import backed_up
from tests.journal.test_store import opened
store = opened(Path(sys.argv[1]))
print("begins", flush=True)
backed_up(store, sys.argv[2])
"""
RESTORE = """
import sys
from pathlib import Path
from journal.purges import read_purges
from tests.journal.backing import restored_as_listed
print("begins", flush=True)
restored_as_listed(Path(sys.argv[1]), Path(sys.argv[2]), read_purges(Path(sys.argv[3])).directives)
"""


@dataclass
class Row:
    """What was found for one program and one kind of call."""

    what: str
    calls: str
    runs: int = 0
    unreadable: int = 0  # texts that should read
    revealed: int = 0  # texts that were purged, and read
    half_opened: int = 0  # a store that opened and was not whole
    not_again: int = 0  # what can't be run again
    findings: int = 0

    @property
    def clean(self) -> bool:
        return not (self.unreadable + self.revealed + self.half_opened + self.not_again + self.findings)


@dataclass
class Scene:
    """A store with a backup; purged since, and written to. `kept` is readable ever since the first backup."""

    directory: Path
    secret: SealedPart
    kept: SealedPart

    @property
    def purges(self) -> Path:
        return self.directory / "state" / "purges"


def prepare(directory: Path) -> Scene:
    create_store(directory / "state")
    store = opened(directory / "state")
    secret, kept = remember(store, b"secret"), remember(store, b"kept")
    backed_up(store, directory / "first")
    purge(store, secret)
    remember(store, b"later")
    store.close(clean=True)
    return Scene(directory, secret, kept)


def killed_at(program: str, calls: str, number: int, *arguments: str) -> bool | None:
    """Run it; whether it was killed there, None when it ended before."""
    inject = ["-e", f"trace={calls}", "-e", f"inject={calls}:signal=KILL:when={number}", "-o", "/dev/null"]
    command = ["strace", "-qq", *inject, sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    if done.returncode not in (-9, 137):
        raise RuntimeError(f"{calls} {number}: exit {done.returncode}: {done.stderr[-500:]}")
    return "begins" in done.stdout


def drill(what: str, calls: str, step: int, most: int) -> Row:
    row = Row(what, calls)
    with tempfile.TemporaryDirectory(prefix="noctuary-") as name:
        scene = prepare(Path(name))
        judge = judge_backup if what == "backup" else judge_restore
        number = 1
        while row.runs < most:
            outcome = run(scene, what, calls, number)
            if outcome is None:
                return row
            number += step
            if not outcome:  # it had not begun yet
                continue
            row.runs += 1
            judge(scene, row)
    return row


def run(scene: Scene, what: str, calls: str, number: int) -> bool | None:
    for place in ("work", "restored", "copy"):
        shutil.rmtree(scene.directory / place, ignore_errors=True)
    if what == "restore":
        first = str(scene.directory / "first")
        return killed_at(RESTORE, calls, number, str(scene.directory / "restored"), first, str(scene.purges))
    shutil.copytree(scene.directory / "state", scene.directory / "copy")
    shutil.copytree(scene.directory / "first", scene.directory / "work")
    return killed_at(BACKUP, calls, number, str(scene.directory / "copy"), str(scene.directory / "work"))


def judge_backup(scene: Scene, row: Row) -> None:
    """The earlier backup or the new one; and a next one is made, of nothing but what its manifest names."""
    work, root = scene.directory / "work", scene.directory / "restored"
    restored_as_listed(root, work, read_purges(scene.purges).directives)
    look(root, scene, row)
    store = opened(scene.directory / "copy")
    try:
        backed_up(store, work)
        row.not_again += {path.name for path in work.iterdir()} != read_manifest(work).names() | {MANIFEST}
    except NoctuaryFault:
        row.not_again += 1
    finally:
        store.close(clean=True)


def judge_restore(scene: Scene, row: Row) -> None:
    root = scene.directory / "restored"
    whole = (root / "FORMAT").exists()
    if not whole and root.exists() and not (root / "FORMAT.new").exists():
        try:
            opened(root).close(clean=False)
            row.half_opened += 1
        except NoctuaryFault:
            pass
    try:
        restored_as_listed(root, scene.directory / "first", read_purges(scene.purges).directives)
        row.not_again += whole
    except CannotCreate:
        row.not_again += not whole
    look(root, scene, row)


def look(root: Path, scene: Scene, row: Row) -> None:
    """A store is whole: sound, what was kept reads, what was purged doesn't."""
    row.findings += len(verify_in_child(root).findings)
    try:
        store = opened(root)
    except NoctuaryFault:
        row.half_opened += 1
        return
    try:
        row.findings += len(store.findings)
        row.unreadable += _text(store, scene.kept) != b"kept"
        row.revealed += _text(store, scene.secret) is not None
    finally:
        store.close(clean=True)


def _text(store: object, part: SealedPart) -> bytes | None:
    try:
        return read(store, part)  # type: ignore[arg-type]
    except SlotUnreadable:
        return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--step", type=int, default=1, help="every Nth call")
    parser.add_argument("--max", type=int, default=1000, help="runs of each kind at most")
    given = parser.parse_args()
    problem = strace_problem()
    if problem:
        print(f"strace is needed: {problem}", file=sys.stderr)
        return 2
    clean = True
    for what in ("backup", "restore"):
        for calls in CALLS:
            row = drill(what, calls, given.step, given.max)
            print(asdict(row), flush=True)
            clean = clean and row.clean
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())

"""Drill: a disk that really fills. Counts acks, losses, refusals, forgets while full, and unplanned ends.

    sudo python ops/drills/full_disk.py [--size-mb N] [--forgets N]

Each row is a small tmpfs of its own that pipelined clients fill with texts of one length until the daemon is
read-only. Then a session is closed, a foreign file takes the last byte, the daemon is killed, and must come up
read-only and forget memories. Without the reserve, too, it must refuse to start and leave
everything as it is; with a little room it must come up again. The file is deleted, and it must come back by
itself, reserve and all, before anybody writes; once more with the disk filled under it. `lost` and `exits`
are to be 0, `closed` and `back` 1.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import noctuary
from journal.space import RESERVE_BYTES
from tests.system.process import DaemonEnded, DaemonProcess
from tests.system.raw_client import eventually

COLUMNS = ("text_bytes", "acked", "lost", "refused", "forgets", "closed", "exits", "back", "findings")
WINDOW_BYTES = 4 << 20
BACK_WITHIN_S = 10.0
LITTLE_BYTES = 12 << 20
FOREIGN_BYTES = 40 << 20
"""What another program has on the disk, and deletes at the end."""
SESSION = {"agent": "drill", "key": "full"}


class CannotMount(Exception):
    """No small file system can be had here: not root, or refused."""


@dataclass
class Row:
    """What was found with texts of one length."""

    text_bytes: int
    acked: int = 0
    lost: int = 0  # acked, and not there, or with another text
    refused: int = 0  # answered read_only
    forgets: int = 0  # done while read_only
    closed: int = 0  # the session, while read_only
    exits: int = 0  # ends that nobody asked for, or not with 0
    back: int = 0
    findings: int = 0  # of audit, after all

    @property
    def clean(self) -> bool:
        wrong = self.lost + self.exits + self.findings
        return wrong == 0 and self.closed == 1 and self.back == 1 and self.acked > 0 and self.refused > 0


@contextmanager
def small_disk(size_mb: int) -> Iterator[Path]:
    """A tmpfs of its own. Raises CannotMount."""
    with tempfile.TemporaryDirectory(prefix="noctuary-") as name:
        command = ["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", name]
        done = subprocess.run(command, capture_output=True, text=True, check=False) if os.geteuid() == 0 else None
        if done is None or done.returncode:
            raise CannotMount("not root" if done is None else done.stderr.strip())
        try:
            yield Path(name)
        finally:
            subprocess.run(["umount", "-l", name], check=True)


def fill(path: Path, leave_bytes: int = 0) -> None:
    """Fill the file system of `path` until only `leave_bytes` are left."""
    status = os.statvfs(path.parent)
    wanted = status.f_bavail * status.f_frsize - leave_bytes
    with path.open("ab") as file, suppress(OSError):
        os.posix_fallocate(file.fileno(), file.tell(), wanted)


class Filled:
    """One daemon on one small disk."""

    def __init__(self, disk: Path, log: Path, text_bytes: int) -> None:
        self.disk = disk
        self.daemon = DaemonProcess(disk)
        self.daemon.log = log
        self.row = Row(text_bytes)
        self.acked: dict[str, str] = {}  # id -> text
        self._forgotten = 0

    def fill_with_writes(self) -> None:
        """Pipelined writes until one is refused and the daemon says it is read-only."""
        many = max(1, min(600, WINDOW_BYTES // self.row.text_bytes))
        with self.daemon.client() as client:
            full = False
            while not full:
                full = state_of(self.daemon) == "read_only"  # then what follows must be refused
                start = self.row.acked
                texts = [f"{start + place} ".ljust(self.row.text_bytes, "é") for place in range(many)]
                calls: list[Any] = [
                    ("remember", {"kind": "raw", "origin": "told", "text": text, "session": SESSION}) for text in texts
                ]
                for text, answer in zip(texts, client.call_many(calls), strict=True):
                    self._count(text, answer)
                if self.row.refused:
                    many = 1

    def _count(self, text: str, answer: Any) -> None:
        if isinstance(answer, noctuary.ReadOnly):
            self.row.refused += 1
        elif isinstance(answer, Exception):
            raise answer
        else:
            self.row.acked += 1
            self.acked[answer.id] = text

    def forget(self, many: int) -> None:
        """Forget `many` of those that are still there, one call each, as long as there are so many."""
        ids = list(self.acked)[self._forgotten : self._forgotten + many]
        self._forgotten += len(ids)
        with self.daemon.client() as client:
            for answer in client.call_many([("forget", {"id": each}) for each in ids]):
                if isinstance(answer, Exception):
                    raise answer
                self.row.forgets += int(answer.found)

    def close_session(self) -> None:
        session = self.daemon.call("sessions")["sessions"][0]["session"]
        self.daemon.call("session_close", session=session)
        self.row.closed += 1

    def count_lost(self) -> None:
        with self.daemon.client() as client:
            kept = list(self.acked)
            for start in range(0, len(kept), 5):
                ids = kept[start : start + 5]
                found = client.call("get", {"ids": ids}, dict)["memories"]
                texts = {each["id"]: each.get("text") for each in found}
                self.row.lost += sum(texts.get(each) != self.acked[each] for each in ids)

    def start_full(self) -> None:
        """Start on a full disk: it is to serve, read-only."""
        self.daemon.spawn()
        eventually(lambda: state_of(self.daemon) == "read_only")

    def refused_start(self) -> None:
        """Start where nothing can be written: it is to end with 74, say what is full, and leave all as it was."""
        before = self.daemon.files()
        self.daemon.spawn()
        code = self.daemon.wait()
        told = f"{self.daemon.state}: the disk is full" in self.daemon.logged()
        self.row.exits += int(code != 74 or not told or self.daemon.files() != before)

    def stop(self) -> None:
        self.row.exits += int(self.daemon.stop() != 0)


def drill(size_mb: int, text_bytes: int, forgets: int) -> Row:
    """One row. Raises CannotMount."""
    with small_disk(size_mb) as disk, tempfile.NamedTemporaryFile(suffix=".log") as log:
        run = Filled(disk, Path(log.name), text_bytes)
        try:
            _through(run, forgets)
        except (DaemonEnded, TimeoutError, noctuary.NoctuaryError) as error:
            print(error, run.daemon.logged()[-2000:], file=sys.stderr)
            run.row.exits += 1
        finally:
            run.daemon.close()
        return run.row


def _through(run: Filled, forgets: int) -> None:
    foreign = run.disk / "foreign"
    foreign.write_bytes(bytes(FOREIGN_BYTES))
    run.daemon.start()
    run.fill_with_writes()
    run.close_session()
    fill(foreign)
    run.daemon.kill()
    run.start_full()  # no byte is free, the reserve is there
    run.forget(forgets)
    run.stop()
    fill(foreign)
    run.refused_start()  # no byte is free, and the reserve was given up
    os.truncate(foreign, foreign.stat().st_size - LITTLE_BYTES)
    run.start_full()
    run.forget(forgets // 10)
    assert state_of(run.daemon) == "read_only"
    foreign.unlink()
    run.row.back = int(_comes_back(run))
    fill(foreign)  # under a daemon that runs: forgetting takes the reserve
    run.forget(1)
    foreign.unlink()
    run.row.back &= int(_comes_back(run))
    run.count_lost()
    run.row.findings = len(run.daemon.audit()["findings"])
    run.stop()


def state_of(daemon: DaemonProcess) -> str | None:
    """What `hello` says; None when nobody answers (yet)."""
    try:
        return str(daemon.call("hello")["state"])
    except (noctuary.Unreachable, noctuary.Unavailable):
        return None


def _comes_back(run: Filled) -> bool:
    """Whether it is writable again before anybody writes, and then takes a write."""
    try:
        eventually(lambda: state_of(run.daemon) == "ready", BACK_WITHIN_S)
        eventually(lambda: run.daemon.state.joinpath("reserve").stat().st_size == RESERVE_BYTES, BACK_WITHIN_S)
    except TimeoutError:
        return False
    return "id" in run.daemon.call("remember", kind="raw", origin="told", text="there is room again")


def main() -> int:
    parser = argparse.ArgumentParser(description="a disk that fills")
    parser.add_argument("--size-mb", type=int, default=120)
    parser.add_argument("--forgets", type=int, default=1000)
    parser.add_argument("--text-bytes", type=int, nargs="*", default=[40, 900, 5_000, 60_000, 900_000])
    given = parser.parse_args()
    print(" ".join(f"{name:>10}" for name in COLUMNS), flush=True)
    clean = True
    for text_bytes in given.text_bytes:
        row = drill(given.size_mb, text_bytes // 2, given.forgets)
        clean = clean and row.clean
        print(" ".join(f"{asdict(row)[name]:10d}" for name in COLUMNS), flush=True)
    print("clean" if clean else "NOT CLEAN")
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())

"""Drill: backups of a daemon that is written to. Is every write there that was answered before one was asked for?

    python ops/drills/backup_under_load.py [--memories N] [--backups N] [--writers N]

A daemon is filled; then writers, one call at a time each, go on until the end, while backups are asked for: into a new
directory, and again and again over the one before. The first and the last are restored, opened by a daemon of their
own, and asked for all that was answered before their call began: `lost` and `changed` are to be 0, `findings` (audit,
with a fold) too. The writers' calls are timed: while a backup was made, and in the second before each.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.system.process import ENTRY, ROOT, DaemonProcess

TEXT_BYTES = 300
FILL_MANY = 500
IDS_A_CALL = 20
QUIET_S = 1.0


@dataclass
class Row:
    """What was found; times in milliseconds."""

    memories: int
    backups: int = 0
    checked: int = 0
    lost: int = 0
    changed: int = 0
    findings: int = 0
    backup_ms: list[float] = field(default_factory=list)
    restore_ms: list[float] = field(default_factory=list)
    quiet_ms: list[float] = field(default_factory=list)
    during_ms: list[float] = field(default_factory=list)
    backup_bytes: int = 0

    @property
    def clean(self) -> bool:
        return self.lost + self.changed + self.findings == 0 and self.checked > 0


class Writers:
    """Threads that each write one memory after the other, and what was answered so far."""

    def __init__(self, daemon: DaemonProcess, many: int) -> None:
        self._daemon = daemon
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self.acked: dict[str, str] = {}  # id -> text
        self.calls: list[tuple[float, float]] = []  # (begun, ms)
        self.errors: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(many)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def so_far(self) -> dict[str, str]:
        with self._lock:
            return dict(self.acked)

    def _run(self, number: int) -> None:
        try:
            with self._daemon.client() as client:
                count = 0
                while not self._stop.is_set():
                    text = f"writer {number} memory {count} ".ljust(TEXT_BYTES, "x")
                    begun = time.monotonic()
                    made = client.remember(kind="raw", text=text, origin="told")
                    took_ms = (time.monotonic() - begun) * 1000
                    with self._lock:
                        self.acked[made.id] = text
                        self.calls.append((begun, took_ms))
                    count += 1
        except BaseException as error:
            self.errors.append(error)


def fill(daemon: DaemonProcess, memories: int) -> dict[str, str]:
    """That many memories; their texts by id."""
    texts = [f"filled {number} ".ljust(TEXT_BYTES, "y") for number in range(memories)]
    acked: dict[str, str] = {}
    with daemon.client() as client:
        for at in range(0, memories, FILL_MANY):
            batch = texts[at : at + FILL_MANY]
            items = [{"kind": "raw", "text": text, "origin": "told"} for text in batch]
            results = client.call("remember_many", {"items": items}, dict)["results"]
            acked.update(zip((result["id"] for result in results), batch, strict=True))
    return acked


def drill(memories: int, backups: int, writers: int) -> Row:
    """Raises when a daemon ends, or a writer is refused."""
    row = Row(memories)
    with tempfile.TemporaryDirectory(prefix="noctuary-") as name:
        directory = Path(name)
        daemon = DaemonProcess(directory)
        try:
            daemon.start()
            _drill(daemon, directory, row, backups, writers)
            assert daemon.stop() == 0
        finally:
            daemon.close()
    return row


def _drill(daemon: DaemonProcess, directory: Path, row: Row, backups: int, writers: int) -> None:
    filled = fill(daemon, row.memories)
    load = Writers(daemon, writers)
    load.start()
    spans: list[tuple[float, float]] = []
    quiet: list[tuple[float, float]] = []
    try:
        for number in range(backups):
            quiet_from = time.monotonic()
            time.sleep(QUIET_S)  # the span that is compared with: nothing is waited for
            expected = {**filled, **load.so_far()}
            begun = time.monotonic()
            quiet.append((quiet_from, begun))
            manifest = daemon.call("backup", dir=str(directory / "backup"))
            spans.append((begun, time.monotonic()))
            row.backups += 1
            row.backup_bytes = sum(manifest[part]["files"][0]["bytes"] for part in ("journal", "vault"))
            if number in (0, backups - 1):
                _judge(directory, f"r{number}", expected, row)
    finally:
        load.stop()
    if load.errors:
        raise load.errors[0]
    row.backup_ms = [(end - begun) * 1000 for begun, end in spans]
    for begun, took_ms in load.calls:
        ended = begun + took_ms / 1000
        if any(start <= ended and begun <= end for start, end in spans):
            row.during_ms.append(took_ms)
        elif any(start <= begun and ended <= end for start, end in quiet):
            row.quiet_ms.append(took_ms)


def _judge(directory: Path, name: str, expected: dict[str, str], row: Row) -> None:
    """Restore, open, and ask for everything that has to be there."""
    place = directory / name
    place.mkdir()
    daemon = DaemonProcess(place)
    begun = time.monotonic()
    command = [*ENTRY, "restore", str(directory / "backup"), "--state", str(daemon.state), "--without-purges"]
    subprocess.run(command, cwd=ROOT, env=daemon.environment, check=True, capture_output=True)
    row.restore_ms.append((time.monotonic() - begun) * 1000)
    try:
        daemon.start()
        ids = list(expected)
        with daemon.client() as client:
            for at in range(0, len(ids), IDS_A_CALL):
                asked = ids[at : at + IDS_A_CALL]
                found = {memory.id: memory.text for memory in client.get(ids=asked).memories}
                row.checked += len(asked)
                row.lost += sum(each not in found for each in asked)
                row.changed += sum(found.get(each, expected[each]) != expected[each] for each in asked)
        row.findings += len(daemon.audit()["findings"])
        assert daemon.stop() == 0
    finally:
        daemon.close()


def percentile(times_ms: list[float], share: float) -> float:
    ordered = sorted(times_ms)
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))], 2) if ordered else 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--memories", type=int, default=20_000)
    parser.add_argument("--backups", type=int, default=5)
    parser.add_argument("--writers", type=int, default=4)
    given = parser.parse_args()
    row = drill(given.memories, given.backups, given.writers)
    told = {name: value for name, value in asdict(row).items() if not isinstance(value, list)}
    print(told)
    for name in ("backup_ms", "restore_ms"):
        print(name, [round(each) for each in getattr(row, name)])
    for name in ("quiet_ms", "during_ms"):
        times_ms = getattr(row, name)
        shares = {f"p{int(share * 100)}": percentile(times_ms, share) for share in (0.5, 0.95, 0.99, 1.0)}
        print(name, len(times_ms), "writes", shares)
    return 0 if row.clean else 1


if __name__ == "__main__":
    sys.exit(main())

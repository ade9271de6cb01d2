"""Measure what a large store costs: start, warming, memory, audit, stop, and idle connections.

    python ops/bench/large.py                      1,000,000 records
    python ops/bench/large.py --records 100000     a short run

Rows S2, S3, C2, O1, O3 and O4 of the contract. The store is small turns of 500 sessions, written through the socket in
batches. Their targets are for 1,000,000 records: a smaller run shows figures only. An audit is measured twice: the
daemon's, and that of the command line on the stopped store, which also walks the journal in a child.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import msgspec

from ops.bench import payload
from ops.bench.load import ROOT, Asker, Daemon, LoadFailed, closed_loop, connect
from ops.bench.report import machine, note, table
from ops.bench.rows import Row

FULL_SIZE = 1_000_000
BATCH = 1000
SINGLE_WRITES = 1000
IDLE_CONNECTIONS = 1000
STARTS = 3
SELECTIONS = 5
PLANTED = {"model": "bench", "extractor": "planted"}
POLL_S = 0.005


class Large:
    """One run on one store."""

    def __init__(self, directory: Path, records: int) -> None:
        self.daemon = Daemon(directory)
        self.records = records
        self.values: dict[str, list[float]] = {}
        self._next = 0
        self._known = ""

    def add(self, name: str, value: float) -> None:
        self.values.setdefault(name, []).append(value)

    def fill(self) -> None:
        """Turns until the journal has that many records."""
        asker = Asker(self.daemon.socket)
        while asker.ask(payload.request(0, "head", {}))["seq"] < self.records:
            numbers = range(self._next, self._next + BATCH)
            items = [payload.small_turn(n) for n in numbers]
            self._known = asker.ask(payload.request(0, "remember_many", {"items": items}))["results"][0]["id"]
            self._next += BATCH
        asker.close()

    def single_writes(self, name: str) -> float:
        """p99 of small writes, one at a time, in ms."""
        first, self._next = self._next, self._next + SINGLE_WRITES
        requests = [payload.request(n, "remember", payload.small_turn(first + n)) for n in range(SINGLE_WRITES)]
        p99_ms = closed_loop(self.daemon.socket, requests, 1, 1).quantile_ms(0.99)
        self.add(name, p99_ms)
        return p99_ms

    def start(self) -> None:
        """S2: from the start of the process to the first answer to a question about a memory."""
        began = time.perf_counter()
        self.daemon.start()
        asker = Asker(self.daemon.socket)
        while not _answers(asker, self._known):
            time.sleep(POLL_S)
        self.add("S2 start", time.perf_counter() - began)
        asker.close()

    def warm(self) -> None:
        """The rest of S2: memories warmed a second, and writes meanwhile."""
        asker = Asker(self.daemon.socket)
        began = time.perf_counter()
        behind = threading.Thread(target=self.single_writes, args=("S2 write p99 warming",))
        behind.start()
        while asker.ask(payload.request(0, "status", {}))["warmed"] < 1.0:
            time.sleep(POLL_S)
        self.add("S2 warmed/s", self.records / (time.perf_counter() - began))
        behind.join()
        asker.close()

    def idle_connections(self) -> None:
        """O4: what many connections without a request cost."""
        before = self.daemon.rss_anon_kib()
        connections = [connect(self.daemon.socket) for _ in range(IDLE_CONNECTIONS)]
        asker = Asker(self.daemon.socket)
        asker.ask(payload.request(0, "head", {}))  # those before it are accepted
        self.add("O4", (self.daemon.rss_anon_kib() - before) / 1024)
        asker.close()
        for connection in connections:
            connection.close()

    def plant(self) -> None:
        """Among all the others some that one extractor made."""
        asker = Asker(self.daemon.socket)
        items = [{**payload.small_turn(self._next + n), "producer": PLANTED} for n in range(BATCH)]
        asker.ask(payload.request(0, "remember_many", {"items": items}))
        self._next += BATCH
        asker.close()

    def selections(self) -> None:
        """C2: what a cohort by producer would touch, and one by the texts, each of which has to be opened."""
        asker = Asker(self.daemon.socket)
        for name, sel, count in (("producer", {"producer": PLANTED}, BATCH), ("sealed", {"text": "nowhere at all"}, 0)):
            for _ in range(SELECTIONS):
                began = time.perf_counter()
                found = asker.ask(payload.request(0, "cohort", {"sel": sel, "action": "quarantine"}))
                took_s = time.perf_counter() - began
                if found["count"] != count:
                    raise LoadFailed("the selection is not exact")
                self.add(f"C2 {name}", took_s if name == "producer" else self._next / took_s)
        asker.close()

    def audit_live(self) -> None:
        asker = Asker(self.daemon.socket)
        began = time.perf_counter()
        result = asker.ask(payload.request(0, "audit", {}))
        self.add("O1 live", time.perf_counter() - began)
        asker.close()
        if result["findings"] or result["records"] < self.records:
            raise LoadFailed("the audit found something, or not all")

    def audit_offline(self) -> None:
        command = [sys.executable, "-m", "daemon.cli.entry", "--json", "audit", "--state", str(self.daemon.state)]
        began = time.perf_counter()
        done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
        self.add("O1 offline", time.perf_counter() - began)
        if msgspec.json.decode(done.stdout)["findings"]:
            raise LoadFailed("the offline audit found something")

    def stop_under_load(self) -> None:
        """O3: from SIGTERM to the end, while 8 × 64 writers go on."""
        with _writers(self):
            process = self.daemon.process
            assert process is not None
            began = time.perf_counter()
            process.send_signal(signal.SIGTERM)
            code = process.wait(60)
            self.add("O3", time.perf_counter() - began)
            self.daemon.process = None
        if code != 0:
            raise LoadFailed(f"it stopped with {code}")


def _answers(asker: Asker, ref: str) -> bool:
    try:
        asker.ask(payload.request(0, "get", {"ids": [ref]}))
    except LoadFailed as refused:
        if "unavailable" in str(refused):
            return False
        raise
    return True


@contextmanager
def _writers(large: Large) -> Iterator[None]:
    """Full writes, 8 × 64, until the daemon goes away."""
    requests = payload.full_requests("stop", 10_000_000, 40_000, ())

    def write() -> None:
        try:
            closed_loop(large.daemon.socket, requests, 8, 64)
        except (LoadFailed, OSError):
            return

    thread = threading.Thread(target=write)
    asker = Asker(large.daemon.socket)
    before = asker.ask(payload.request(0, "head", {}))["seq"]
    thread.start()
    while asker.ask(payload.request(0, "head", {}))["seq"] < before + 2000:
        time.sleep(POLL_S)
    asker.close()
    yield
    thread.join()


def measure(directory: Path, records: int) -> dict[str, list[float]]:
    large = Large(directory, records)
    large.daemon.start()
    try:
        note("fill")
        large.fill()
        for number in range(STARTS):
            note(f"start {number + 1} of {STARTS}")
            large.daemon.stop()
            large.start()
            large.warm()
            large.single_writes("S2 write p99 idle")
            large.add("S3", large.daemon.rss_anon_kib() / 1024)
            large.idle_connections()
        note("selections")
        large.plant()
        large.selections()
        note("audit")
        large.audit_live()
        note("stop under load")
        large.stop_under_load()
        note("audit of the stopped store")
        large.audit_offline()
    finally:
        large.daemon.stop()
    return large.values


def judge(values: dict[str, list[float]], full_size: bool) -> list[Row]:
    """The rows, against their targets when the store has the size they are for."""

    def row(name: str, what: str, unit: str, key: str, bound: float | None = None, most: bool = True) -> Row:
        made = Row(name, what, unit, values[key])
        if bound is not None and full_size:
            made.target = f"{'≤' if most else '≥'} {bound:,.{0 if bound >= 100 else 2}f}"
            made.met = made.median <= bound if most else made.median >= bound
        return made

    idle = Row("", "", "", values["S2 write p99 idle"]).median
    return [
        row("S2", "start to first answer", "s", "S2 start", 1.5),
        row("S2", "warmed", "memories/s", "S2 warmed/s", 20_000, most=False),
        row("S2", "write p99 while warming", "ms", "S2 write p99 warming", 3 * idle),
        row("S2", "write p99 when warm", "ms", "S2 write p99 idle"),
        row("S3", "RssAnon, vectors off", "MiB", "S3", 200),
        row("C2", "cohort selection by producer", "s", "C2 producer", 0.5),
        row("C2", "selection by sealed fields", "memories/s", "C2 sealed", 150_000, most=False),
        row("O1", "audit by the daemon", "s", "O1 live", 10),
        row("O1", "audit of the stopped store", "s", "O1 offline", 10),
        row("O3", "SIGTERM to exit under load", "s", "O3", 3),
        row("O4", f"{IDLE_CONNECTIONS} idle connections", "MiB", "O4", 50),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure start, memory, audit and stop of a large store.")
    parser.add_argument("--records", type=int, default=FULL_SIZE)
    parser.add_argument("--directory", type=Path, default=None, help="where the throw-away store goes")
    parser.add_argument("--json", type=Path, default=Path("bench-large.json"))
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="noctuary-large-", dir=options.directory))
    try:
        about = machine(directory)
        rows = judge(measure(directory, options.records), options.records >= FULL_SIZE)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    report = {"machine": about, "command": sys.argv, "records": options.records, "rows": rows}
    options.json.write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    for name, value in about.items():
        print(f"{name}: {value}")
    print(table(rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

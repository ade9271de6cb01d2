"""Measure a vacuum of a large partition, and what writes take meanwhile.

    python ops/bench/vacuum.py                    a partition of 100,000 rows, a fifth of them dead
    python ops/bench/vacuum.py --rows 20000       a short run

Row E3 of the contract. One client writes one memory after the other, first for itself, then while the vacuum goes on;
its writes go to another partition of the same tenant.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from ops.bench import payload
from ops.bench.load import Asker, Daemon, closed_loop
from ops.bench.report import machine, note, table
from ops.bench.rows import Row

BATCH = 1000
DEAD_EVERY = 5
IDLE_S = 5.0
POLL_S = 0.2
E3_S, E3_TIMES = 2.0, 3.0


class Writing(threading.Thread):
    """One client that writes until it is told to end; `took_ms` of every write."""

    def __init__(self, socket: Path, name: str) -> None:
        super().__init__(name=name)
        self.took_ms: list[float] = []
        self._socket = socket
        self._ending = threading.Event()

    def run(self) -> None:
        asker = Asker(self._socket)
        number = 0
        while not self._ending.is_set():
            number += 1
            line = payload.request(1, "remember", payload.full_turn(number, f"{self.name}-{number}"))
            began_s = time.perf_counter()
            asker.ask(line)
            self.took_ms.append((time.perf_counter() - began_s) * 1000)
        asker.close()

    def end(self) -> float:
        """The 99th percentile, ms."""
        self._ending.set()
        self.join()
        self.took_ms.sort()
        return self.took_ms[int(len(self.took_ms) * 0.99)]


def ask(asker: Asker, verb: str, params: dict[str, Any]) -> Any:
    return asker.ask(payload.request(1, verb, params))


def fill(socket: Path, asker: Asker, count: int) -> None:
    """Notes of one partition, of which each fifth is forgotten."""
    ask(asker, "lifecycle", {"enforce": False})  # what they are made from is no matter here
    for first in range(0, count, BATCH):
        items = [
            {"kind": "note", "origin": "seeded", "text": payload.text_of(number, 200)}
            for number in range(first, min(count, first + BATCH))
        ]
        made = [each["id"] for each in ask(asker, "remember_many", {"items": items})["results"]]
        dead = made[::DEAD_EVERY]
        closed_loop(socket, [payload.request(n, "forget", {"id": ref}) for n, ref in enumerate(dead)], 1, len(dead))


def measure(directory: Path, count: int) -> list[Row]:
    daemon = Daemon(directory)
    daemon.start()
    asker = Asker(daemon.socket)
    try:
        while ask(asker, "hello", {})["state"] != "ready":
            time.sleep(POLL_S)
        fill(daemon.socket, asker, count)
        while ask(asker, "status", {})["warmed"] < 1.0:
            time.sleep(POLL_S)
        note(f"{count} rows are there")
        idle = Writing(daemon.socket, "idle")
        idle.start()
        time.sleep(IDLE_S)
        idle_ms = idle.end()
        beside = Writing(daemon.socket, "beside")
        beside.start()
        began_s = time.perf_counter()
        (result,) = ask(asker, "vacuum", {"partition": "semantic"})["results"]
        took_s = time.perf_counter() - began_s
        beside_ms = beside.end()
        if not result["compacted"] or result["tombstones_removed"] != -(-count // DEAD_EVERY):
            raise AssertionError(str(result))
        note(f"{len(idle.took_ms)} writes alone, {len(beside.took_ms)} beside; {result}")
        bound_ms = E3_TIMES * idle_ms
        return [
            Row("E3", f"vacuum of {count:,} rows, 20 % dead", "s", [took_s], f"≤ {E3_S:g}", took_s <= E3_S),
            Row("E3", "write p99 alone", "ms", [idle_ms]),
            Row("E3", "write p99 beside", "ms", [beside_ms], f"≤ {bound_ms:.1f}", beside_ms <= bound_ms),
        ]
    finally:
        asker.close()
        daemon.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000)
    count = parser.parse_args().rows
    directory = Path(tempfile.mkdtemp(prefix="noctuary-bench-"))
    try:
        note(str(machine(directory)))
        print(table(measure(directory, count)))
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

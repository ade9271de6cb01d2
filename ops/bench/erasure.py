"""Measure what a purge costs: one memory, a session of 1,000 turns, and what is tied to many others, over a prefilled
store.

    python ops/bench/erasure.py                    over 100,000 full memories
    python ops/bench/erasure.py --prefill 10000    a short run

Rows E1 and E2 of the contract. A purge of one memory goes through the socket, one at a time; half of them are turns,
half notes, with all fields. The session is purged by a selection: the time is that of the call with the token, beside
it that of the dry run before it. What has a text that 2,200 memories share, and all versions of a line of 400, are
purged by ids.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from ops.bench import payload
from ops.bench.load import Asker, Daemon
from ops.bench.report import machine, note, table
from ops.bench.rows import Row

BATCH = 500
PURGES = 1000
SESSION_TURNS = 1000
ROUNDS = 5
SHARING, SHARERS_PURGED = 2200, 200
VERSIONS = 400
POLL_S = 0.01
E1_MS, E2_S = 8.0, 1.0


class Erasing:
    """One run on one store."""

    def __init__(self, directory: Path, prefill: int) -> None:
        self.daemon = Daemon(directory)
        self.prefill = prefill
        self._known: list[str] = []
        self._next = 0

    def run(self) -> list[Row]:
        self.daemon.start()
        asker = Asker(self.daemon.socket)
        while self._ask(asker, "hello", {})["state"] != "ready":
            time.sleep(POLL_S)
        try:
            self._fill(asker)
            note(f"{len(self._known)} memories are there")
            return [self._single(asker), *self._sessions(asker), self._shared(asker), self._versions(asker)]
        finally:
            asker.close()
            self.daemon.stop()

    def _ask(self, asker: Asker, verb: str, params: dict[str, Any]) -> Any:
        return asker.ask(payload.request(1, verb, params))

    def _fill(self, asker: Asker) -> None:
        while len(self._known) < self.prefill:
            numbers = range(self._next, self._next + BATCH)
            self._next += BATCH
            turns = [ref for ref in self._known if ref.startswith("raw:")]
            items = [payload.full(number, f"prefill-{number}", turns) for number in numbers]
            results = self._ask(asker, "remember_many", {"items": items})["results"]
            self._known += [result["id"] for result in results]

    def _single(self, asker: Asker) -> Row:
        step = max(1, len(self._known) // PURGES)
        took_ms = []
        for ref in self._known[::step][:PURGES]:
            began_s = time.perf_counter()
            self._ask(asker, "purge", {"ids": [ref]})
            took_ms.append((time.perf_counter() - began_s) * 1000)
        took_ms.sort()
        p50, p99 = took_ms[len(took_ms) // 2], took_ms[int(len(took_ms) * 0.99)]
        note(f"E1 p50 {p50:.2f} ms, p99 {p99:.2f} ms, highest {took_ms[-1]:.2f} ms of {len(took_ms)}")
        return Row("E1", "purge of one memory p99", "ms", [p99], f"≤ {E1_MS:g}", p99 <= E1_MS)

    def _sessions(self, asker: Asker) -> list[Row]:
        told, done = [], []
        for number in range(ROUNDS):
            session = {"agent": "bench", "key": f"erased-{number}"}
            items = [
                {**payload.full_turn(self._next + turn, f"e-{number}-{turn}"), "session": session}
                for turn in range(SESSION_TURNS)
            ]
            self._next += SESSION_TURNS
            results = self._ask(asker, "remember_many", {"items": items})["results"]
            sel = {"session": results[0]["session"]}
            began_s = time.perf_counter()
            looked = self._ask(asker, "purge", {"sel": sel})
            told.append(time.perf_counter() - began_s)
            began_s = time.perf_counter()
            purged = self._ask(asker, "purge", {"sel": sel, "token": looked["token"]})
            done.append(time.perf_counter() - began_s)
            if purged["count"] != SESSION_TURNS:
                raise AssertionError(f"{purged['count']} of {SESSION_TURNS} purged")
        worst = max(done)
        return [
            Row("E2", "purge of a session of 1,000 turns", "s", done, f"≤ {E2_S:g}", worst <= E2_S),
            Row("E2", "the dry run before it", "s", told),
        ]

    def _shared(self, asker: Asker) -> Row:
        said = {"kind": "raw", "origin": "stated", "text": "ok, as everybody says"}
        self._ask(asker, "remember", said)
        refs: list[str] = []
        while len(refs) < SHARING:
            items = [said] * min(BATCH, SHARING - len(refs))
            refs += [result["id"] for result in self._ask(asker, "remember_many", {"items": items})["results"]]
        took_s = self._timed(asker, {"ids": refs[:SHARERS_PURGED]}, SHARERS_PURGED)
        return Row("E2", f"{SHARERS_PURGED} memories with a text that {SHARING:,} share", "s", [took_s])

    def _versions(self, asker: Asker) -> Row:
        source = self._ask(asker, "remember", {"kind": "raw", "origin": "stated", "text": "a source"})["id"]
        made = {"kind": "note", "origin": "inferred", "text": "v", "derived_from": [source]}
        first = newest = self._ask(asker, "remember", made)["id"]
        for number in range(1, VERSIONS):
            newest = self._ask(asker, "revise", {"id": newest, "text": f"v {number}", "origin": "inferred"})["id"]
        took_s = self._timed(asker, {"ids": [first], "cascade": "versions"}, VERSIONS)
        return Row("E2", f"a line of {VERSIONS} versions", "s", [took_s])

    def _timed(self, asker: Asker, params: dict[str, Any], wanted: int) -> float:
        began_s = time.perf_counter()
        purged = self._ask(asker, "purge", params)
        took_s = time.perf_counter() - began_s
        if purged["count"] != wanted:
            raise AssertionError(f"{purged['count']} of {wanted} purged")
        return took_s


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--prefill", type=int, default=100_000)
    prefill = parser.parse_args().prefill
    directory = Path(tempfile.mkdtemp(prefix="noctuary-bench-"))
    try:
        note(str(machine(directory)))
        print(table(Erasing(directory, prefill).run()))
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

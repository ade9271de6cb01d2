"""The rows: what is measured, and what each is held against.

W rows and the peers are done round by round in turns, so that a noisy minute hits all of them; a row is the
median of its rounds, with the lowest and the highest beside it.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import statistics
import time
from collections.abc import Sequence
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import msgspec

from ops.bench import payload
from ops.bench.load import Asker, Daemon, LoadFailed, closed_loop
from ops.bench.peers import PEERS

PREFILL_BATCH = 500
TRACE_DEPTH = 20
DEPENDENTS = 10_000
SIDE_WRITES_PER_SECOND = 2000
CHAIN_VERSIONS = 27
CHAIN_EVENTS = 60
CHAIN_PROPOSALS = 30
"""Each of which makes a fact."""


class Row(msgspec.Struct):
    """One line of the result. Values are rounds; `target` and `met` are None where nothing is demanded."""

    name: str
    what: str
    unit: str
    rounds: list[float]
    target: str | None = None
    met: bool | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)


class Sizes(msgspec.Struct, frozen=True):
    """How much is done."""

    prefill: int
    rounds: int
    loaded_writes: int
    single_writes: int
    peer_writes: int
    batches: int
    reads: int


class Bench:
    """One run: a daemon, the ids it gave, and the rounds so far."""

    def __init__(self, directory: Path, sizes: Sizes) -> None:
        self.directory = directory
        self.sizes = sizes
        self.daemon = Daemon(directory)
        self.known: list[str] = []
        self.notes: list[str] = []
        self.values: dict[str, list[float]] = {}
        self.memories = 0
        self._next = 0

    def add(self, name: str, value: float) -> None:
        self.values.setdefault(name, []).append(value)

    def numbers(self, count: int) -> int:
        """The first of `count` numbers that no other payload of this run has."""
        first = self._next
        self._next += count
        return first

    def prefill(self) -> None:
        """Full memories, in batches; their ids are what notes are derived from."""
        asker = Asker(self.daemon.socket)
        while self.memories < self.sizes.prefill:
            first = self.numbers(PREFILL_BATCH)
            numbers = range(first, first + PREFILL_BATCH)
            items = [payload.full(n, f"prefill-{n}", self.known) for n in numbers]
            result = asker.ask(payload.request(0, "remember_many", {"items": items}))
            self.known += [ref for item in result["results"] if (ref := item["id"]).startswith("raw:")]
            self.notes += [ref for item in result["results"] if (ref := item["id"]).startswith("note:")]
            self.memories += PREFILL_BATCH
        asker.close()

    def _write(self, name: str, count: int, clients: int, in_flight: int) -> Any:
        first = self.numbers(count)
        requests = payload.full_requests(f"{name}-{first}", first, count, self.known)
        measured = closed_loop(self.daemon.socket, requests, clients, in_flight)
        self.memories += count
        return measured

    def write_round(self) -> None:
        """W1, each peer, W2, each peer again in effect by the next round, W3."""
        self.add("W1", self._write("w1", self.sizes.loaded_writes, 8, 64).per_second)
        for name, peer in PEERS.items():
            bodies = list(payload.full_bodies(self.numbers(0), self.sizes.peer_writes, self.known))
            measured = peer(self.directory, bodies)
            self.add(f"{name}/s", measured.per_second)
            self.add(f"{name} p50", measured.quantile_ms(0.5))
        self.add("W2", self._write("w2", self.sizes.loaded_writes // 2, 64, 1).per_second)
        single = self._write("w3", self.sizes.single_writes, 1, 1)
        self.add("W3 p50", single.quantile_ms(0.5))
        self.add("W3 p99", single.quantile_ms(0.99))

    def batch_round(self) -> None:
        """W4: batches of 1,000 small turns, one batch in flight."""
        size = 1000
        first = self.numbers(size * self.sizes.batches)
        requests = [
            payload.request(
                i, "remember_many", {"items": [payload.small_turn(first + i * size + n) for n in range(size)]}
            )
            for i in range(self.sizes.batches)
        ]
        self.add("W4", closed_loop(self.daemon.socket, requests, 1, 1).per_second * size)

    def lineage(self) -> str:
        """A note on one turn, and revisions of it: a chain of TRACE_DEPTH steps. Its newest version."""
        asker = Asker(self.daemon.socket)
        told = {"origin": "inferred", "text": f"version {time.time_ns()}"}
        first = {"kind": "note", "derived_from": [self.known[0]], **told}
        newest = str(asker.ask(payload.request(0, "remember", first))["id"])
        for number in range(TRACE_DEPTH - 1):
            following = {"id": newest, "origin": "inferred", "text": f"version {number} {time.time_ns()}"}
            newest = str(asker.ask(payload.request(0, "revise", following))["id"])
        found = asker.ask(payload.request(0, "trace", {"id": newest, "depth": TRACE_DEPTH}))
        asker.close()
        if len(found["nodes"]) != 1 + TRACE_DEPTH or found["truncated"]:
            raise LoadFailed("the trace is not the whole lineage")
        return newest

    def busy(self) -> str:
        """The middle of CHAIN_VERSIONS versions, with what CHAIN_EVENTS and CHAIN_PROPOSALS say happened to it."""
        asker = Asker(self.daemon.socket)

        def ask(verb: str, **fields: Any) -> Any:
            return asker.ask(payload.request(0, verb, fields))

        told = {"kind": "note", "subtype": "decision", "origin": "inferred", "derived_from": [self.known[0]]}
        filed = {"topic": "storage of the queue", "project": "noctuary-bench"}
        found = [str(ask("remember", **told, **filed, text="version 0")["id"])]
        while len(found) < CHAIN_VERSIONS:
            found.append(str(ask("revise", id=found[-1], origin="inferred", text=f"version {len(found)}")["id"]))
        busy = found[CHAIN_VERSIONS // 2]
        for _ in range(CHAIN_EVENTS):
            ask("reaffirm", id=busy)
        for number in range(CHAIN_PROPOSALS):
            fact = {"subject": "the queue", "predicate": "holds", "value": f"{number} messages"}
            proposal = ask("propose", proposal_kind="fact", memory=busy, fact=fact)["proposal"]
            ask("decide", proposal=proposal, accept=True)
        chain = ask("get", ids=[busy], include=["provenance"])["memories"][0]["provenance"]
        asker.close()
        both = chain["supersession"]
        counts = [len(chain[section]["items"]) for section in ("events", "proposals", "facts")]
        if [*counts, len(both["predecessors"]) + len(both["successors"])] != [50, 25, 25, 24]:
            raise LoadFailed("the chain is not that of a busy memory")
        return busy

    def chain_round(self, busy: str) -> None:
        """C1: `get` with provenance of a busy memory, one in flight."""
        fields = {"ids": [busy], "include": ["provenance"]}
        requests = [payload.request(i, "get", fields) for i in range(self.sizes.reads)]
        measured = closed_loop(self.daemon.socket, requests, 1, 1)
        self.add("C1 p50", measured.quantile_ms(0.5))
        self.add("C1 p99", measured.quantile_ms(0.99))

    def widen(self) -> str:
        """A turn from which DEPENDENTS notes are made."""
        asker = Asker(self.daemon.socket)
        turn = str(asker.ask(payload.request(0, "remember", payload.small_turn(self.numbers(1))))["id"])
        note = {"kind": "note", "origin": "inferred", "derived_from": [turn]}
        for first in range(0, DEPENDENTS, PREFILL_BATCH):
            items = [{**note, "text": f"dependent {first + n}"} for n in range(PREFILL_BATCH)]
            asker.ask(payload.request(0, "remember_many", {"items": items}))
        asker.close()
        self.memories += DEPENDENTS + 1
        return turn

    def lineage_round(self, turn: str) -> None:
        """P1: the trace of all dependents. P2: the review of orphans and ungrounded, with the turn forgotten."""
        asker = Asker(self.daemon.socket)

        def asked_ms(verb: str, fields: dict[str, Any]) -> tuple[float, Any]:
            began = time.perf_counter()
            found = asker.ask(payload.request(0, verb, fields))
            return (time.perf_counter() - began) * 1000, found

        took_ms, found = asked_ms("trace", {"id": turn, "direction": "dependents"})
        if len(found["nodes"]) != 1 + DEPENDENTS or found["truncated"]:
            raise LoadFailed("the trace is not complete")
        self.add("P1", took_ms)
        asked_ms("forget", {"id": turn})
        took_ms, found = asked_ms("review", {"what": ["orphans", "ungrounded"]})
        if found["total"] != DEPENDENTS:
            raise LoadFailed("the review is not complete")
        self.add("P2", took_ms)
        asked_ms("recover", {"id": turn})
        asker.close()

    def read_round(self, name: str, last: str, per_second: int | None, in_flight: int, clients: int) -> None:
        """`get`, `trace` and `explain` with one in flight, while writers run in a process of their own."""
        reads = self.sizes.reads
        with _Beside(self, per_second, clients, in_flight) as beside:
            gets = [payload.request(i, "get", {"ids": [ref]}) for i, ref in enumerate(_spread(self.known, reads))]
            traces = [payload.request(i, "trace", {"id": last, "depth": TRACE_DEPTH}) for i in range(reads)]
            explains = [payload.request(i, "explain", {"id": ref}) for i, ref in enumerate(_spread(self.notes, reads))]
            for verb, requests in (("get", gets), ("trace", traces), ("explain", explains)):
                measured = closed_loop(self.daemon.socket, requests, 1, 1)
                self.add(f"{name} {verb} p50", measured.quantile_ms(0.5))
                self.add(f"{name} {verb} p99", measured.quantile_ms(0.99))
        self.add(f"{name} beside", beside.per_second)

    def bytes_at_rest(self) -> float:
        """Allocated bytes of all files but the reserve, for each memory written."""
        total = sum(
            os.stat(path).st_blocks * 512
            for path in self.daemon.state.rglob("*")
            if path.is_file() and "reserve" not in path.name
        )
        return total / self.memories

    def fold_rate(self) -> float:
        """S1: fold the stopped store's whole journal into empty projections, in this process."""
        from journal.layout import read_boot_id
        from journal.store import open_store
        from projections.store import ProjectionStore

        fresh = self.directory / "folded"
        shutil.rmtree(fresh, ignore_errors=True)
        store = open_store(self.daemon.state, version="bench", now_ms=int(time.time() * 1000), readonly=True)
        projections = ProjectionStore.open(fresh, read_boot_id())
        began = time.perf_counter()
        folded = projections.catch_up(store.log)
        seconds = time.perf_counter() - began
        projections.close(clean=False)
        store.close(clean=False)
        return folded / seconds


def _spread(refs: Sequence[str], many: int) -> Sequence[str]:
    """Up to `many` of them, from all over the store."""
    return refs[:: max(1, len(refs) // many)][:many]


class _Beside:
    """Writers in a process of their own, from entry to exit."""

    def __init__(self, bench: Bench, per_second: int | None, clients: int, in_flight: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._stop = context.Event()
        self._started = context.Event()
        self._count = context.Value("q", 0)
        first = bench.numbers(10_000_000)
        arguments = (
            bench.daemon.socket, first, bench.known[:5000], per_second, clients, in_flight,
            self._started, self._stop, self._count,
        )  # fmt: skip
        self._process = context.Process(target=_write_until, args=arguments)
        self.per_second = 0.0

    def __enter__(self) -> _Beside:
        self._process.start()
        if not self._started.wait(30):
            raise LoadFailed("the writers beside didn't start")
        self._began = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        seconds = time.perf_counter() - self._began
        self.per_second = self._count.value / seconds
        self._stop.set()
        self._process.join(60)
        if self._process.exitcode != 0:
            raise LoadFailed("the writers beside failed")


def _write_until(
    path: Path, first: int, known: Sequence[str], per_second: int | None, clients: int, in_flight: int,
    started: Event, stop: Event, count: Any,
) -> None:  # fmt: skip
    """Full writes until told to stop: paced by portions when `per_second` is given, else as fast as it goes.

    Requests come in portions that are encoded in between, so the rate beside is a little below W1's.
    """
    portion = 20 if per_second else 2048
    due = time.perf_counter()
    while not stop.is_set():
        requests = payload.full_requests(f"beside-{first}", first, portion, known)
        first += portion
        started.set()
        closed_loop(path, requests, clients, in_flight)
        count.value += portion
        if per_second:
            due += portion / per_second
            time.sleep(max(0.0, due - time.perf_counter()))

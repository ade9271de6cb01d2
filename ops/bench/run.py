"""Measure the rows of the contract that exist so far, with the peers beside them, on throw-away stores.

    python ops/bench/run.py                     100,000 memories, 5 rounds
    python ops/bench/run.py --prefill 10000     a short run

The table goes to stdout, everything else (each round's value, the machine) into the JSON file.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import msgspec

from ops.bench.report import machine, note, table
from ops.bench.rows import SIDE_WRITES_PER_SECOND, Bench, Row, Sizes

Values = dict[str, list[float]]


def measure(directory: Path, sizes: Sizes) -> Values:
    bench = Bench(directory, sizes)
    note("start and prefill")
    bench.daemon.start()
    try:
        bench.prefill()
        for number in range(sizes.rounds):
            note(f"round {number + 1} of {sizes.rounds}")
            bench.write_round()
        bench.add("S4", bench.bytes_at_rest())
        note("batches, then reads")
        last = bench.lineage()
        for _ in range(sizes.rounds):
            bench.read_round("R1", last, SIDE_WRITES_PER_SECOND, in_flight=10, clients=2)
            bench.read_round("R2", last, None, in_flight=64, clients=8)
            bench.batch_round()
        busy = bench.busy()
        for _ in range(sizes.rounds):
            bench.chain_round(busy)
        wide = bench.widen()
        for _ in range(sizes.rounds):
            bench.lineage_round(wide)
        bench.add("RssAnon", bench.daemon.rss_anon_kib() / 1024)
    finally:
        bench.daemon.stop()
    note("fold")
    for _ in range(sizes.rounds):
        bench.add("S1", bench.fold_rate())
    return bench.values


def judge(values: Values) -> list[Row]:
    """The rows in the contract's order, each against its target."""
    made: list[Row] = []

    def row(name: str, what: str, unit: str, key: str, bound: float | None = None, most: bool = False,
            said: str = "") -> None:  # fmt: skip
        result = Row(name, what, unit, values[key])
        if bound is not None:
            result.target = f"{'≤' if most else '≥'} {bound:,.{0 if bound >= 100 else 2}f} {said}".strip()
            result.met = result.median <= bound if most else result.median >= bound
        made.append(result)

    def middle(key: str) -> float:
        return Row("", "", "", values[key]).median

    es, sqlite, one_put = middle("eventsourcing/s"), middle("sqlite/s"), middle("lmdb p50")
    for peer in ("eventsourcing", "sqlite", "lmdb"):
        row("peer", peer, "writes/s", f"{peer}/s")
    row("peer", "lmdb p50", "ms", "lmdb p50")
    row("W1", "full, 8 × 64", "writes/s", "W1", 6 * es, said="(6 × ES)")
    row("W1", "the same", "writes/s", "W1", 2.5 * sqlite, said="(2.5 × SQLite)")
    row("W2", "full, 64 × 1", "writes/s", "W2", 1.5 * sqlite, said="(1.5 × SQLite)")
    row("W3", "full, 1 × 1, p50", "ms", "W3 p50", 2.5 * one_put, True, "(2.5 × LMDB)")
    row("W3", "full, 1 × 1, p99", "ms", "W3 p99", 3.0, True)
    row("W4", "remember_many, 1000 small", "memories/s", "W4", 20_000)
    for name, median_ms, tail_ms in (("R1", 0.4, 1.2), ("R2", None, 10.0)):
        for verb in ("get", "trace", "explain"):
            said = "trace (20 deep)" if verb == "trace" else verb
            row(name, f"{said} p50", "ms", f"{name} {verb} p50", median_ms, True)
            row(name, f"{said} p99", "ms", f"{name} {verb} p99", tail_ms, True)
        row(name, "writes beside", "writes/s", f"{name} beside")
    row("S1", "fold, one process", "records/s", "S1", 50_000)
    row("S4", "bytes at rest per full memory", "bytes", "S4", 1500, True)
    row("P1", "trace to 10,000 dependents", "ms", "P1", 150, True)
    row("P2", "review orphans + ungrounded, whole store", "ms", "P2", 1000, True)
    row("C1", "chain of a busy memory, p50", "ms", "C1 p50")
    row("C1", "chain of a busy memory, p99", "ms", "C1 p99", 5, True)
    row("S3", "RssAnon at the end (no target at this size)", "MiB", "RssAnon")
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure writes, reads, fold and size, with peers beside.")
    parser.add_argument("--prefill", type=int, default=100_000, help="memories before the first round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--writes", type=int, default=40_000, help="writes of a W1 round; half in W2")
    parser.add_argument("--reads", type=int, default=2000, help="requests for each read row and round")
    parser.add_argument("--directory", type=Path, default=None, help="where the throw-away stores go")
    parser.add_argument("--json", type=Path, default=Path("bench.json"))
    options = parser.parse_args()
    sizes = Sizes(
        prefill=options.prefill, rounds=options.rounds, loaded_writes=options.writes,
        single_writes=max(500, options.writes // 20), peer_writes=max(500, options.writes // 10),
        batches=10, reads=options.reads,
    )  # fmt: skip
    directory = Path(tempfile.mkdtemp(prefix="noctuary-bench-", dir=options.directory))
    try:
        about = machine(directory)
        rows = judge(measure(directory, sizes))
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    report = {"machine": about, "command": sys.argv, "sizes": sizes, "rows": rows}
    options.json.write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    for name, value in about.items():
        print(f"{name}: {value}")
    print(table(rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""`metrics`: what the daemon counted and what it is now, in the text format of Prometheus.

Names begin with `noctuary_` and end in their unit; labels are closed sets (verb, reason, projection, code …), never a
tenant, an id or anything a caller wrote. Everything is collected when it is asked for, from plain numbers
(`counting.py`) and from the store; while the projections are folded, what needs them is left out. Only this module
knows `prometheus_client`, and it is imported at the first question.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client import ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from daemon.counting import Counts, Histogram
from daemon.failures import note_damage
from daemon.logs import Lines
from daemon.service import Service
from journal.environment import Environment
from journal.space import free_bytes
from journal.store import Store
from projections import tables, usage
from projections.rows import DamagedRow
from projections.store import ProjectionStore

MS = 1000.0
HEALTHS = ("ok", "degraded", "failed")


def text_of(store: Store, service: Service | None, counts: Counts, health: str, codes: list[str]) -> str:
    """All metrics as they are now. `service` is None while the projections are folded; `codes` are the findings'."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Now(families(store, service, counts, health, codes)))
    ProcessCollector(namespace="noctuary", registry=registry)
    return generate_latest(registry).decode()


class _Now(Collector):
    """Families that are there already."""

    def __init__(self, families: Iterator[Metric]) -> None:
        self._families = families

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        return self._families


def families(store: Store, service: Service | None, counts: Counts, health: str, codes: list[str]) -> Iterator[Metric]:
    """All but what the process itself has. As `text_of`."""
    yield from _counted(counts)
    yield from _journal(store)
    yield _labelled("health", "1 for what status says.", "health", {name: float(name == health) for name in HEALTHS})
    yield _labelled("findings", "What was found odd or damaged, by code.", "code", Counter(codes))
    if service is not None:
        yield from _served(store, service)


def _counted(counts: Counts) -> Iterator[Metric]:
    """Everything that was added up."""
    with counts.lock:
        requests, refusals = dict(counts.requests), dict(counts.refusals)
        reads = {verb: each.copy() for verb, each in counts.reads.items()}
        writes, batches = counts.writes.copy(), counts.batches.copy()
        commits, folds = counts.commits.copy(), counts.folds.copy()
        records, dropped, stale = counts.records, dict(counts.dropped), counts.stale_readers
        works = {verb: (work.done, work.last_s, work.ended_s) for verb, work in counts.works.items()}
    now_s = time.monotonic()
    yield _gauge("uptime_seconds", "Since the process began to serve its socket.", now_s - counts.started_s)
    yield _counters("requests", "Requests by verb, also those that were refused.", ("verb",), requests)
    yield _counters("refusals", "Requests that were refused.", ("verb", "reason"), refusals)
    family = HistogramMetricFamily("noctuary_read_seconds", "Questions, without what they waited.", labels=("verb",))
    for verb, histogram in sorted(reads.items()):
        family.add_metric((verb,), *_buckets(histogram))
    yield family
    yield _histogram("write_seconds", "Writes, from when they were taken to when their batch was done.", writes)
    yield _histogram("batch_writes", "Writes that shared a commit.", batches)
    yield _histogram("commit_seconds", "Commits of the journal, with their fsync.", commits)
    yield _histogram("fold_commit_seconds", "Commits of the projections, without fsync.", folds)
    yield _counter("records_written", "Records that this process has written to the journal for clients.", records)
    yield _counter("folded_records", "Records that the start of this process has folded.", counts.folded_at_start)
    yield _counter("stale_readers_freed", "Reader slots of dead processes that were freed.", stale)
    yield _counter(
        "foreign_references",
        "What provenance chains led to in another tenant, and did not tell.",
        counts.foreign_references,
    )
    yield _counters("clients_dropped", "Clients that held too much or took too long.", ("why",), dropped)
    yield _counter("log_lines_lost", "Log lines that could not be written.", Lines.lost_ever)
    yield _gauge("connections", "Clients that are connected.", counts.connections)
    yield _gauge("subscriptions", "Subscriptions that go on.", counts.subscriptions)
    yield _counters("works", "Long works that were done.", ("verb",), {verb: row[0] for verb, row in works.items()})
    took = {verb: row[1] for verb, row in works.items()}
    age = {verb: now_s - row[2] for verb, row in works.items()}
    yield _labelled("work_seconds", "How long the last one took.", "verb", took)
    yield _labelled("work_age_seconds", "How long ago the last one ended, in this process.", "verb", age)


def _journal(store: Store) -> Iterator[Metric]:
    """What there is from the opening on."""
    yield _gauge("head_seq", "The newest record.", store.log.head().seq)
    yield _gauge("epoch", "The epoch of the store.", store.epoch)
    yield _gauge(
        "disk_free_bytes", "Free where the store lies, for an unprivileged process.", free_bytes(store.dir.root)
    )
    yield _gauge(
        "keys_ready", "Keys that are on the disk ahead of use.", store.vault.slot_count() - store.vault.next_slot
    )


def _served(store: Store, service: Service) -> Iterator[Metric]:
    """What there is once the projections are folded."""
    space, writer, projections = service.space, service.writer, service.projections
    envs = {"journal": store.env, "projections": projections.env}
    yield _gauge(
        "lag_records", "Records that the projections are behind.", max(0, store.log.head().seq - projections.head.seq)
    )
    yield _gauge("warmed_ratio", "How much of the working set is there, 0 to 1.", service.columns.warmed())
    yield _gauge("queue_writes", "Writes that wait for the writer.", writer.waiting)
    yield _gauge("read_only", "1 while the disk is too full for ordinary writes.", float(space.read_only))
    yield _gauge("read_only_below_bytes", "Free bytes beyond the reserve below which it is so.", space.read_only_below)
    yield _gauge("reserve_held_bytes", "What the reserve holds on the disk.", space.held_bytes)
    yield _labelled(
        "map_bytes",
        "Address space of the environment.",
        "environment",
        {name: float(env.map_bytes) for name, env in envs.items()},
    )
    yield _labelled(
        "used_bytes",
        "Of its file, in use now or once.",
        "environment",
        {name: float(env.used_bytes()) for name, env in envs.items()},
    )
    oldest = {name: env.oldest_reader_ms() / MS for name, env in envs.items()}
    yield _labelled("oldest_reader_seconds", "Age of the oldest read transaction.", "environment", oldest)
    yield _labelled("projection_entries", "Entries by projection.", "projection", _entries(projections.env))
    try:
        yield from _tenants(projections)
    except DamagedRow as error:  # it costs these three only
        note_damage(store, projections, error)


def _tenants(projections: ProjectionStore) -> Iterator[Metric]:
    """What all tenants keep together. Raises DamagedRow."""
    count, records, content = 0, 0, 0
    with projections.snapshot() as snapshot:
        for key, value in snapshot.prefix(tables.USAGE, b""):
            found = usage.unpack(key, value)
            count, records, content = count + 1, records + found.records, content + found.content_bytes
    total = usage.Usage(records, content).total_bytes
    yield _gauge("tenants", "Tenants that have written.", count)
    yield _gauge("tenants_records", "Records of all tenants.", records)
    yield _gauge("tenants_usage_bytes", "What max_bytes counts, of all tenants.", total)


def _entries(env: Environment) -> dict[str, float]:
    with env.read() as txn:
        return {
            projection: float(sum(env.entries(txn, database) for database in databases))
            for projection, databases in tables.PROJECTIONS.items()
        }


def _gauge(name: str, words: str, value: float) -> Metric:
    return GaugeMetricFamily(f"noctuary_{name}", words, value=value)


def _counter(name: str, words: str, value: float) -> Metric:
    return CounterMetricFamily(f"noctuary_{name}", words, value=value)


def _counters(name: str, words: str, labels: tuple[str, ...], values: Mapping[Any, float]) -> Metric:
    family = CounterMetricFamily(f"noctuary_{name}", words, labels=labels)
    for key, value in sorted(values.items()):
        family.add_metric((key,) if isinstance(key, str) else key, value)
    return family


def _labelled(name: str, words: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(f"noctuary_{name}", words, labels=(label,))
    for key, value in sorted(values.items()):
        family.add_metric((key,), value)
    return family


def _histogram(name: str, words: str, histogram: Histogram) -> Metric:
    family = HistogramMetricFamily(f"noctuary_{name}", words)
    family.add_metric((), *_buckets(histogram))
    return family


def _buckets(histogram: Histogram) -> tuple[list[tuple[str, float]], float]:
    """Cumulative, as the format wants them, and the sum."""
    below, found = 0, []
    for bound, many in zip((*histogram.bounds, float("inf")), histogram.counts, strict=True):
        below += many
        found.append(("+Inf" if bound == float("inf") else f"{bound:g}", float(below)))
    return found, histogram.total

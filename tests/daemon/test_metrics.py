"""Metrics: every figure against what was really done, labels of closed sets only, and text that Prometheus reads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from daemon.caller import Caller
from daemon.counting import SECONDS, Counts, Histogram
from daemon.front import Front
from daemon.reads.operator import Operator
from daemon.reads.reading import NotBrief
from daemon.refusal import Reason, Refused
from daemon.wire.exchange_params import MetricsParams
from daemon.wire.results import RecoveryOut
from daemon.wire.verbs import VERBS
from journal.codes import CallerRole
from journal.verify import Finding
from projections.tables import PROJECTIONS
from tests.model.opened import OPERATOR, OpenedService

RECOVERY = RecoveryOut(clean=True, boot_changed=False, from_seq=1, to_seq=1, rebuilt=[], took_ms=0)
CANARY = "zqXcanary7Yk"
TURN = {"kind": "raw", "origin": "told", "text": CANARY}
LABELS = {
    "verb": {*VERBS, "unknown"},
    "reason": {reason.wire for reason in Reason},
    "projection": set(PROJECTIONS),
    "environment": {"journal", "projections"},
    "health": {"ok", "degraded", "failed"},
}


class Scraped:
    """A store whose metrics are asked for as the socket would."""

    def __init__(self, root: Path) -> None:
        self.opened = OpenedService(root, lambda: 1_767_225_600_000)
        self.operator = Operator(self.opened.store, "test", None, self.opened.service.counts)
        self.front = Front(self.operator, self.opened.service.counts)

    def serve(self) -> None:
        self.front.begin(self.opened.service, RECOVERY)

    def text(self) -> str:
        text: str = self.operator.read("metrics", MetricsParams(), OPERATOR).text
        return text

    def value(self, name: str, **labels: str) -> float:
        """Of one sample; 0 when there is none with these labels."""
        found = [
            sample.value
            for family in text_string_to_metric_families(self.text())
            for sample in family.samples
            if sample.name == f"noctuary_{name}" and sample.labels == labels
        ]
        return found[0] if found else 0.0

    def ask(self, verb: str, **params: Any) -> Any:
        return self.front.read(verb, msgspec.convert(params, VERBS[verb].params), OPERATOR)


@pytest.fixture
def folding(tmp_path: Path) -> Iterator[Scraped]:
    scraped = Scraped(tmp_path / "state")
    yield scraped
    scraped.opened.close(True)


@pytest.fixture
def scraped(folding: Scraped) -> Scraped:
    folding.serve()
    return folding


def test_it_is_prometheus_text_with_our_names_and_closed_labels(scraped: Scraped) -> None:
    scraped.opened.write("remember", {**TURN, "tenant": "somebody", "tags": [CANARY], "topic": CANARY})
    scraped.ask("list", tenant="somebody")
    families = list(text_string_to_metric_families(scraped.text()))
    assert len(families) > 30
    for family in families:
        assert family.name.startswith("noctuary_") and family.documentation
        for sample in family.samples:
            for label, value in sample.labels.items():
                assert label == "le" or value in LABELS[label], (sample.name, label, value)
    assert CANARY not in scraped.text() and "somebody" not in scraped.text()


def test_writes_are_counted_by_verb_and_by_what_became_of_them(scraped: Scraped) -> None:
    opened = scraped.opened
    written = [opened.write("remember", TURN)["id"] for _ in range(3)]
    opened.write("forget", {"id": written[0]})
    with pytest.raises(Refused):
        opened.write("recover", {"id": "raw:0000000000000"})
    assert scraped.value("requests_total", verb="remember") == 3
    assert scraped.value("requests_total", verb="forget") == 1
    assert scraped.value("refusals_total", verb="recover", reason="not_found") == 1
    assert scraped.value("write_seconds_count") == 5
    assert 0 < scraped.value("write_seconds_sum") < 60
    assert scraped.value("batch_writes_sum") == 5 - 1, "a batch in which all are refused commits nothing"
    assert scraped.value("commit_seconds_count") == scraped.value("fold_commit_seconds_count") == 4
    head = opened.store.log.head().seq
    assert scraped.value("head_seq") == head
    assert scraped.value("records_written_total") == head - opened.store.found_seq - 1, "all but OPENED"


def test_questions_are_counted_and_timed_by_verb(scraped: Scraped) -> None:
    scraped.ask("list")
    scraped.ask("list")
    with pytest.raises(Refused):
        scraped.ask("session", session="session:0000000000000")
    assert scraped.value("requests_total", verb="list") == scraped.value("read_seconds_count", verb="list") == 2
    assert scraped.value("refusals_total", verb="session", reason="not_found") == 1
    assert scraped.value("requests_total", verb="session") == 1


def test_while_the_projections_are_folded_there_are_metrics_and_refusals_are_counted(folding: Scraped) -> None:
    with pytest.raises(Refused):
        folding.ask("list")
    assert folding.value("refusals_total", verb="list", reason="unavailable") == 1
    assert folding.value("head_seq") == folding.opened.store.log.head().seq
    assert "noctuary_lag_records" not in folding.text()
    folding.serve()
    assert "noctuary_lag_records 0.0" in folding.text()


def test_what_tenants_keep_is_told_together(scraped: Scraped) -> None:
    scraped.opened.write("remember", TURN)
    scraped.opened.write("remember", {**TURN, "tenant": "other"})
    assert scraped.value("tenants") == 2
    rows = [scraped.operator.read("status", status(tenant), OPERATOR).usage for tenant in ("default", "other")]
    assert scraped.value("tenants_usage_bytes") == sum(row.bytes for row in rows) > 2 * len(CANARY)
    assert scraped.value("tenants_records") == sum(row.records for row in rows)


def status(tenant: str) -> Any:
    return msgspec.convert({"tenant": tenant}, VERBS["status"].params)


def test_sizes_and_the_state_of_the_disk_are_told(scraped: Scraped) -> None:
    scraped.opened.write("remember", TURN)
    store, service = scraped.opened.store, scraped.opened.service
    assert scraped.value("used_bytes", environment="journal") == store.env.used_bytes()
    assert scraped.value("map_bytes", environment="projections") == service.projections.env.map_bytes
    assert scraped.value("reserve_held_bytes") == store.dir.reserve_file.stat().st_size
    assert scraped.value("disk_free_bytes") > 0
    assert scraped.value("projection_entries", projection="memories") > 0
    assert scraped.value("read_only") == 0
    service.space.set_thresholds(1 << 60)
    service.space.measure()
    assert scraped.value("read_only") == 1
    assert scraped.value("read_only_below_bytes") == 1 << 60
    assert scraped.value("findings", code="disk_full") == 1
    with pytest.raises(Refused):
        scraped.opened.write("remember", TURN)
    assert scraped.value("refusals_total", verb="remember", reason="read_only") == 1


def test_findings_are_told_by_code(scraped: Scraped) -> None:
    assert scraped.value("health", health="ok") == 1
    for seq in (3, 4):
        scraped.opened.store.note(Finding("read_damaged", seq, "a part", "look"))
    assert scraped.value("findings", code="read_damaged") == 2
    assert scraped.value("health", health="degraded") == 1 and scraped.value("health", health="ok") == 0


def test_a_damaged_row_costs_its_own_figures_only(scraped: Scraped) -> None:
    scraped.opened.write("remember", TURN)
    env = scraped.opened.projections.env
    with env.write() as txn:
        txn.put((1).to_bytes(4, "big"), b"nonsense", db=env.db("usage"))
    text = scraped.text()
    assert "noctuary_head_seq" in text and "noctuary_tenants_usage_bytes" not in text
    assert scraped.opened.projections.damaged == {"usage"}
    assert scraped.operator.read("status", status("default"), OPERATOR).usage is None


def test_figures_only_rise_while_it_is_written(scraped: Scraped) -> None:
    seen: list[float] = []
    for _ in range(5):
        scraped.opened.write("remember", TURN)
        seen.append(scraped.value("records_written_total"))
    assert seen == sorted(seen) and seen[0] < seen[-1]


def test_auditors_may_ask_and_agents_may_not() -> None:
    assert VERBS["metrics"].roles == {CallerRole.OPERATOR, CallerRole.AUDITOR}


def test_an_auditor_is_told_the_same(scraped: Scraped) -> None:
    auditor = Caller(uid=os.getuid(), role=CallerRole.AUDITOR)
    scraped.opened.write("remember", {**TURN, "tenant": "elsewhere"})
    text = scraped.operator.read("metrics", MetricsParams(), auditor).text
    assert "noctuary_tenants 1.0" in text and "elsewhere" not in text


def test_a_value_at_a_bound_belongs_to_it() -> None:
    histogram = Histogram(SECONDS)
    histogram.observe(0.001)
    histogram.observe_all([0.0011, 1000.0])
    assert histogram.counts[SECONDS.index(0.001)] == 1
    assert histogram.counts[SECONDS.index(0.0025)] == 1
    assert histogram.counts[-1] == 1 and histogram.total == pytest.approx(1000.0021)


def test_a_long_work_is_told_with_its_age() -> None:
    counts = Counts()
    counts.work("backup", 2.5)
    counts.work("backup", 1.5)
    assert (counts.works["backup"].done, counts.works["backup"].last_s) == (2, 1.5)


def test_neither_the_client_nor_the_command_line_imports_prometheus() -> None:
    import subprocess
    import sys

    for imported in ("noctuary", "daemon.cli.entry", "daemon.main"):
        code = f"import sys, {imported}; sys.exit('prometheus_client' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0, imported


def test_a_question_that_comes_again_counts_once(scraped: Scraped) -> None:
    """What needs more looks than the loop has goes to another thread: it is one question."""
    ids = [scraped.opened.write("remember", TURN)["id"] for _ in range(3)]
    params = msgspec.convert({"ids": ids}, VERBS["get"].params)
    with pytest.raises(NotBrief):
        scraped.front.read("get", params, OPERATOR, 1)
    assert scraped.value("requests_total", verb="get") == 0
    scraped.front.read("get", params, OPERATOR)
    assert scraped.value("requests_total", verb="get") == scraped.value("read_seconds_count", verb="get") == 1

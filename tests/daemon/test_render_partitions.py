"""What people see of partitions and of a vacuum."""

from __future__ import annotations

from typing import Any

import pytest

from daemon.cli.render import render
from tests.daemon.screens import terminal


def row(**more: Any) -> dict[str, Any]:
    return {
        "partition": "2026-09-21.1", "tier": "episodic", "before_count": 100_000, "after_count": 80_000,
        "tombstones_removed": 20_000, "bytes_reclaimed": 12_345_678, "file_bytes_reclaimed": 0, "reusable_bytes": 0,
        "ciphertexts_removed": 17, "duration_ms": 1234, "compacted": True, "reason": None,
        **more,
    }  # fmt: skip


def test_partitions_are_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = {
        "partition": "2026-09-21.1", "number": 7, "tier": "episodic", "day": "2026-09-21", "state": "reflectable",
        "rows": 100_000, "dead": 12_345, "ratio": 0.12345, "bytes": 12_345_678, "since": "2026-09-21T10:00:00.000Z",
    }  # fmt: skip
    with terminal(80, monkeypatch):
        lines = render({"results": [listed], "next_cursor": "abc", "total": 9}, "partitions").split("\n")
    assert lines[0].split() == ["PARTITION", "STATE", "ROWS", "DEAD", "RATIO", "BYTES", "SINCE"]
    assert lines[1].startswith("2026-09-21.1  reflectable  100000  12345  12.3 %  11.8 MiB  ")
    assert any(line.startswith("1 of 9; times are ") for line in lines) and lines[-1] == "more: --cursor abc"
    assert all(len(line) <= 80 for line in lines)


def test_a_vacuum_says_what_was_done_and_what_only_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        row(file_bytes_reclaimed=3 << 20, reusable_bytes=2 << 20),
        row(partition="semantic", ciphertexts_removed=0, compacted=False, reason="below_threshold"),
        row(partition="procedural", compacted=False, reason="damaged"),
        *(row(compacted=False, reason=reason) for reason in ("dry_run", "nothing_dead", "accepts", "restless")),
    ]
    with terminal(80, monkeypatch):
        told = render({"results": rows}, "vacuum")
    assert "compacted in 1.2 s, 17" in told and "left: below the threshold" in told and "see `status`" in told
    assert "counted only" in told and "nothing is dead" in told and "too many changes" in told
    assert "the projections' file is 3.0 MiB shorter" in told and "2.0 MiB in the files are free" in told
    assert all(len(line) <= 80 for line in told.split("\n"))


def test_nothing_is_told_as_nothing() -> None:
    assert render({"results": [], "next_cursor": None, "total": 0}, "partitions") == "none"
    assert render({"results": []}, "vacuum") == "no partition is meant"

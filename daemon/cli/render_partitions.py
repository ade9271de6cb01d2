"""Partitions and what a vacuum did to them."""

from __future__ import annotations

from typing import Any

from daemon.cli.render_operator import repeated
from daemon.cli.render_text import counted, lasted, plain, short, sized, table, wrap, zone_line


def partitions(result: dict[str, Any]) -> list[str]:
    found = result.get("results") or []
    if not found and not result.get("next_cursor"):
        return ["none"]
    rows = [
        [
            plain(row["partition"]), plain(row["state"]), str(row["rows"]), str(row["dead"]), _share(row["ratio"]),
            sized(row["bytes"]), short(row["since"]),
        ]
        for row in found
    ]  # fmt: skip
    lines = table(("PARTITION", "STATE", "ROWS", "DEAD", "RATIO", "BYTES", "SINCE"), rows)
    lines += wrap(f"{len(found)} of {result.get('total', len(found))}; {zone_line([row['since'] for row in found])}")
    if result.get("next_cursor"):
        lines.append(f"more: --cursor {plain(result['next_cursor'])}")
    return lines


def vacuum(result: dict[str, Any]) -> list[str]:
    found = result.get("results") or []
    if not found:
        return ["no partition is meant", *repeated(result)]
    rows = [[plain(row["partition"]), *_numbers(row), _what(row)] for row in found]
    lines = table(("PARTITION", "ROWS", "LEFT", "RECLAIMED", "WHAT"), rows)
    file_bytes = sum(row["file_bytes_reclaimed"] for row in found)
    reusable = sum(row["reusable_bytes"] for row in found)
    if file_bytes:
        lines += wrap(f"the projections' file is {sized(file_bytes)} shorter")
    if reusable:
        lines += wrap(f"{sized(reusable)} in the files are free for what is written next")
    return [*lines, *repeated(result)]


def _numbers(row: dict[str, Any]) -> list[str]:
    return [str(row["before_count"]), str(row["after_count"]), sized(row["bytes_reclaimed"])]


_LEFT = {
    "dry_run": "counted only", "nothing_dead": "nothing is dead", "accepts": "left: the day still accepts",
    "below_threshold": "left: below the threshold", "damaged": "ended early, see `status`",
    "restless": "ended early: too many changes", "rest_damaged": "nothing is dead",
}  # fmt: skip


def _what(row: dict[str, Any]) -> str:
    texts = row["ciphertexts_removed"]
    done = f"compacted in {lasted(row['duration_ms'])}" if row["compacted"] else _LEFT.get(row["reason"], "left")
    if row["reason"] == "rest_damaged":
        done += ", some ciphertexts left: see `status`"
    return f"{done}, {counted(texts, 'ciphertext')} removed" if texts else done


def _share(ratio: float) -> str:
    return f"{100 * ratio:.1f} %"

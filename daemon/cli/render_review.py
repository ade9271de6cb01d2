"""The inbox as a table: what it is for, which memory, since when, why."""

from __future__ import annotations

from typing import Any

from daemon.cli.render_text import plain, short, table, wrap, zone_line


def review(result: dict[str, Any]) -> list[str]:
    items = result["items"]
    if not items and not result.get("next_cursor"):
        return ["nothing to review"]
    rows = [[short(item["since"]), plain(item["what"]), plain(item["id"]), _why(item)] for item in items]
    lines = table(("SINCE", "WHAT", "ID", "WHY"), rows, 3)
    lines += wrap(f"{len(items)} of {result['total']}; {zone_line(item['since'] for item in items)}")
    if result.get("next_cursor"):
        lines.append(f"more: --cursor {plain(result['next_cursor'])}")
    return lines


def _why(item: dict[str, Any]) -> str:
    sure = "" if item["confidence"] is None else f" {item['confidence']:.0%}"
    others = f": {plain(item['others'])}" if item["others"] else ""
    return plain(item["why"]).replace("_", " ") + sure + others

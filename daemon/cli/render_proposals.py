"""Proposals for people: what is staged as a table, and what became of one that was decided."""

from __future__ import annotations

from typing import Any, Final

from daemon.cli.render_operator import repeated
from daemon.cli.render_text import plain, short, table, wrap, zone_line

UNREAD: Final = {"withheld": "(not for you to read)", "damaged": "(can't be read)", "purged": "(gone)"}
WHAT_LINES: Final = 3
"""That it may take beside the other columns; what is longer stands under them."""


def propose(result: dict[str, Any]) -> list[str]:
    how = "waits already; what was said with it first stands" if result["existed"] else "waits for a decision"
    return [*wrap(f"{plain(result['proposal'])} {how}"), *repeated(result)]


def decide(result: dict[str, Any]) -> list[str]:
    produced = result["produced"]
    told = f": {plain(produced)}" if produced else "; it stood already" if result["decided"] == "applied" else ""
    return [*wrap(plain(result["decided"]) + told), *repeated(result)]


def proposals(result: dict[str, Any]) -> list[str]:
    found = result["proposals"]
    if not found and not result.get("next_cursor"):
        return ["none"]
    rows = [[short(row["at"]), plain(row["proposal"]), plain(row["proposal_kind"]), _what(row)] for row in found]
    lines = table(("AT", "PROPOSAL", "KIND", "WHAT"), rows, WHAT_LINES)
    lines += wrap(f"{len(found)} of {result['total']}; {zone_line(row['at'] for row in found)}")
    if result.get("next_cursor"):
        lines.append(f"more: --cursor {plain(result['next_cursor'])}")
    return lines


def _what(row: dict[str, Any]) -> str:
    note = f" ({plain(row['note'])})" if row["note"] else ""
    if not note and row.get("unread") and row["proposal_kind"] != "fact":
        note = f" {_unread(row)}"
    decided = f", {plain(row['status'])} {short(row['decided_at'])}" if row["decided_at"] else ""
    produced = f": {plain(row['produced'])}" if row["produced"] else ""
    return _would(row) + note + decided + produced


def _unread(row: dict[str, Any]) -> str:
    """Why the words of a fact aren't there; `(gone)` only when they were purged."""
    return UNREAD.get(str(row.get("unread")), "-")


def _would(row: dict[str, Any]) -> str:
    """What it does when it is accepted, the memory that it is about first where it can be."""
    memory, other = plain(row["memory"]), plain(row["other"])
    if row["edge"]:
        return f"{memory} {plain(row['edge'])} {other}"
    if row["proposal_kind"] == "fact":
        fact = row["fact"]
        words = " ".join(plain(fact[name]) for name in ("subject", "predicate", "value")) if fact else _unread(row)
        return f"{memory}: {words}"
    return f"{plain(row['action'])} {memory}" + (f" by {other}" if row["other"] else "")

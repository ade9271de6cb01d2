"""How a memory became what it is: its versions, what happened to it, and how its numbers changed."""

from __future__ import annotations

from typing import Any, Final

from daemon.cli.render_records import who
from daemon.cli.render_text import plain, precise, table, wrap, zone_line

OF_A_SOURCE: Final = ("forgotten", "recovered", "pruned", "weakened", "purged")
"""What is told of another memory because this one stands on it."""


def history(result: dict[str, Any]) -> list[str]:
    revisions, events = result["revisions"], result["events"]
    # Most records speak of the memory itself, the first one always: only the others say of what.
    own = events[0].get("about") if events else None
    lines = ["versions, oldest first:"]
    lines += table(("AT", "ID", "STATUS", "WHO", "HOW"), [_revision(row) for row in revisions])
    lines += wrap("there are more versions than an answer holds") if result.get("truncated") else []
    lines += ["", "what happened:"]
    lines += table(("SEQ", "AT", "WHO", "EVENT"), [_event(row, own) for row in events]) if events else ["nothing"]
    for name in ("confidence", "strength"):
        if changes := result[name]:
            lines += ["", f"{name}:", *table(("SEQ", "AT", "OLD", "NEW", "WHY"), [_change(row) for row in changes])]
    times = [row["at"] for part in ("revisions", "events", "confidence", "strength") for row in result[part]]
    return [*lines, "", *wrap(zone_line(times))]


def _revision(row: dict[str, Any]) -> list[str]:
    stamps = row.get("producer") or {}
    made = " ".join(plain(stamps[name]) for name in ("agent", "model", "version", "extractor") if stamps.get(name))
    how = (
        f"{plain(row['disposition'] or 'replaces')} {plain(row['predecessor'])}" if row.get("predecessor") else "first"
    )
    return [
        precise(row["at"]), plain(row["id"]), plain(row["status"]), who(row.get("actor")),
        how + (f", by {made}" if made else ""),
    ]  # fmt: skip


def _event(row: dict[str, Any], own: str | None) -> list[str]:
    return [str(row["seq"]), precise(row["at"]), who(row.get("actor")), _happened(row, own)]


def _happened(row: dict[str, Any], own: str | None) -> str:
    """The event, and what of it its record says, where that was asked for."""
    event, kind, about = row.get("event") or {}, plain(row["type"]), row.get("about")
    noted = any(part.get("part") == "words" for part in event.get("parts") or ())
    note = "; with a note" if noted else ""
    if not about or about == own:
        said = _said(kind, event, own)
        return kind + (f": {said}" if said else "") + note
    if any(each.get("id") == own for each in event.get("boosted") or ()):
        return f"{plain(about)}, made from it, {kind}{note}"
    return f"{'source ' if kind in OF_A_SOURCE else ''}{plain(about)} {kind}{note}"


def _said(kind: str, event: dict[str, Any], own: str | None) -> str:
    if kind == "marked" and event:
        return f"{plain(event['mark'])} {'on' if event['on'] else 'off'}"
    if kind == "related" and event:
        word = plain(event["edge_type"])
        if event["source"] != own and word != "contradicts":  # which says the same of both
            return f"{plain(event['source'])} {word} it"
        return f"{word} {plain(event['target'] if event['source'] == own else event['source'])}"
    if kind == "superseded" and event:
        return f"by {plain(event['successor'])} ({plain(event['edge_type'])})"
    return ""


def _change(row: dict[str, Any]) -> list[str]:
    return [str(row["seq"]), precise(row["at"]), _number(row["old"]), _number(row["new"]), plain(row["reason"])]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"

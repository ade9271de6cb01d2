"""How a memory became what it is: its versions, what happened to it, and how its numbers changed."""

from __future__ import annotations

from typing import Any

from daemon.cli.render_records import who
from daemon.cli.render_text import plain, precise, table, wrap, zone_line


def history(result: dict[str, Any]) -> list[str]:
    revisions, events = result["revisions"], result["events"]
    # Most records speak of the memory itself, the first one always: only the others say of what.
    own = events[0].get("about") if events else None
    lines = ["versions, oldest first:"]
    lines += table(("AT", "ID", "STATUS", "WHO", "HOW"), [_revision(row) for row in revisions])
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
    about = row.get("about")
    of = f" of {plain(about)}" if about and about != own else ""
    return [str(row["seq"]), precise(row["at"]), who(row.get("actor")), plain(row["type"]) + of]


def _change(row: dict[str, Any]) -> list[str]:
    return [str(row["seq"]), precise(row["at"]), _number(row["old"]), _number(row["new"]), plain(row["reason"])]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"

"""Tables: memories, sessions, the turns of a session."""

from __future__ import annotations

from typing import Any

from daemon.cli.render_text import plain, short, start, table, zone_line

WHO_COLUMNS = 16


def memories(result: dict[str, Any]) -> list[str]:
    rows = [[_when(row), plain(row["id"]), _who(row), _text(row)] for row in result.get("memories") or ()]
    lines = table(("AT", "ID", "WHO", "TEXT"), rows) if rows else ["none"]
    return lines + _foot(result, len(rows))


def sessions(result: dict[str, Any]) -> list[str]:
    rows = [
        [short(row["last_at"]), plain(row["session"]), plain(row["state"]), str(row["turns"]),
         f"{plain(row['agent'])} {plain(row['key'])}"]
        for row in result["sessions"]
    ]  # fmt: skip
    lines = table(("LAST", "SESSION", "STATE", "TURNS", "AGENT, KEY"), rows) if rows else ["none"]
    return lines + _foot(result, len(rows))


def session(result: dict[str, Any]) -> list[str]:
    """A session's head as a block, its turns as a table."""
    from daemon.cli.render_block import block, said

    turns = result.get("memories")
    told = {name: item for name, item in result.items() if name not in ("memories", "next_cursor", "total")}
    lines = block(said(told))
    return lines if turns is None else [*lines, "", *memories(result)]


def _when(row: dict[str, Any]) -> str:
    """When it occurred, else when it was written."""
    return short(row.get("occurred_at") or row.get("at"))


def _who(row: dict[str, Any]) -> str:
    """Who spoke; of what nobody spoke, what it is."""
    named = row.get("speaker") or row.get("role") or row.get("subtype") or row.get("kind")
    return start(plain(named), WHO_COLUMNS)


def _text(row: dict[str, Any]) -> str:
    if row.get("damaged"):
        return f"(damaged: {plain(row.get('what'))})"
    if not row.get("text"):
        return f"({plain(row.get('status'))})"
    aside = "" if row.get("status") in (None, "active") else f"({plain(row['status'])}) "
    return aside + plain(row["text"]) + (" …" if row.get("cut") else "")


def _foot(result: dict[str, Any], count: int) -> list[str]:
    lines = [f"{count} of {result.get('total', count)}; {zone_line()}"]
    if result.get("next_cursor"):
        lines.append(f"more: --cursor {result['next_cursor']}")
    return lines

"""Tables: memories, sessions, the turns of a session."""

from __future__ import annotations

from typing import Any, Final

from daemon.cli.render_text import clipped, named, plain, short, table, wrap, zone_line

WHO_COLUMNS: Final = 16
TEXT_LINES: Final = 3
"""That a text may take beside the other columns; longer ones stand under them."""


def memories(result: dict[str, Any]) -> list[str]:
    rows = [[_when(row), plain(row["id"]), _who(row), _text(row)] for row in result.get("memories") or ()]
    if not rows and not result.get("next_cursor"):
        return ["none"]
    lines = table(("AT", "ID", "WHO", "TEXT"), rows, TEXT_LINES)
    return lines + _foot(result, [row.get("occurred_at") or row.get("at") for row in result.get("memories") or ()])


def sessions(result: dict[str, Any]) -> list[str]:
    rows = [
        [short(row["last_at"]), plain(row["session"]), plain(row["state"]), str(row["turns"]),
         f"{plain(row['agent'])} {plain(row['key'])}"]
        for row in result["sessions"]
    ]  # fmt: skip
    if not rows and not result.get("next_cursor"):
        return ["none"]
    lines = table(("LAST", "SESSION", "STATE", "TURNS", "AGENT, KEY"), rows)
    return lines + _foot(result, [row["last_at"] for row in result["sessions"]])


def session(result: dict[str, Any]) -> list[str]:
    """A session's head, its turns as a table; what else was asked for as it is."""
    from daemon.cli.render_block import block, said

    shown = dict.fromkeys(["sleep", "memories", "next_cursor", "total"])
    rest = {name: item for name, item in said(result).items() if name not in shown and not isinstance(item, list)}
    sleep = result.get("sleep") or {}
    why = "eligible" if sleep.get("eligible") else f"not yet: {plain(sleep.get('why_not'))}"
    lines = named([*((name.replace("_", " "), plain(item)) for name, item in rest.items()), ("sleep", why)])
    lists = {name: result[name] for name in ("passes", "derived") if name in result}
    for name, rows in lists.items():
        lines += ["", *block({name: rows})]
    return lines if result.get("memories") is None else [*lines, "", *memories(result)]


def _when(row: dict[str, Any]) -> str:
    """When it occurred, else when it was written."""
    return short(row.get("occurred_at") or row.get("at"))


def _who(row: dict[str, Any]) -> str:
    """Who spoke; of what nobody spoke, what it is."""
    spoke = row.get("speaker") or row.get("role") or row.get("subtype") or row.get("kind")
    return clipped(plain(spoke), WHO_COLUMNS)


def _text(row: dict[str, Any]) -> str:
    if row.get("damaged"):
        return f"(damaged: {plain(row.get('what'))})"
    if not row.get("text"):
        return f"({plain(row.get('status'))})"
    aside = "" if row.get("status") in (None, "active") else f"({plain(row['status'])}) "
    return aside + plain(row["text"]) + (" …" if row.get("cut") else "")


def _foot(result: dict[str, Any], times: list[Any]) -> list[str]:
    lines = wrap(f"{len(times)} of {result.get('total', len(times))}; {zone_line(times)}")
    if result.get("next_cursor"):
        lines.append(f"more: --cursor {plain(result['next_cursor'])}")
    return lines

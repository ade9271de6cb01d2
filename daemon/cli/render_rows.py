"""Tables: memories, sessions, the turns of a session."""

from __future__ import annotations

from typing import Any, Final

from daemon.cli.render_text import clipped, named, plain, short, table, wrap, zone_line

WHO_COLUMNS: Final = 16
TEXT_LINES: Final = 3
"""That a text may take beside the other columns; longer ones stand under them."""


def memories(result: dict[str, Any]) -> list[str]:
    rows = result.get("memories") or []
    if not rows and not result.get("next_cursor"):
        return ["none"]
    return _table(rows) + _foot(result, _times(rows))


def _table(rows: list[dict[str, Any]], story: bool = False) -> list[str]:
    """Memories as a table. AT is when one was written; when it occurred stands beside it where it is another time. Of
    a `story` only when it occurred is told, which is when it was written unless that was said."""
    differ = [story or _differs(row) for row in rows] if any(map(_differs, rows)) else [False] * len(rows)
    alone = story and any(differ)
    spoke = [_spoke(row) is not None for row in rows]
    who = "WHO" if all(spoke) else "WHO, WHAT" if any(spoke) else "WHAT"
    heads = (*(() if alone else ("AT",)), *(("OCCURRED",) if any(differ) else ()), "ID", who, "TEXT")
    cells = []
    for row, other in zip(rows, differ, strict=True):
        times = [] if alone else [short(row.get("at"))]
        times += [short(row.get("occurred_at") or row.get("at")) if other else ""] if any(differ) else []
        cells.append([*times, plain(row["id"]), _who(row), _text(row)])
    return table(heads, cells, TEXT_LINES)


def _differs(row: dict[str, Any]) -> bool:
    """Whether it occurred in another minute than it was written in."""
    occurred = row.get("occurred_at")
    return occurred is not None and short(occurred) != short(row.get("at"))


def _times(rows: list[dict[str, Any]]) -> list[Any]:
    return [row.get("occurred_at") or row.get("at") for row in rows]


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
    """A session's head, and what was asked for as tables: its passes, its turns, its other memories. Turns and other
    memories are one list, which the pages share; how much of it this page has stands last."""
    from daemon.cli.render_block import said

    shown = dict.fromkeys(["sleep", "memories", "passes", "derived", "next_cursor", "total"])
    rest = {name: item for name, item in said(result).items() if name not in shown}
    sleep = result.get("sleep") or {}
    why = "eligible" if sleep.get("eligible") else f"not yet: {plain(sleep.get('why_not'))}"
    lines = named([*((name.replace("_", " "), plain(item)) for name, item in rest.items()), ("sleep", why)])
    if result.get("passes") is not None:
        lines += ["", *_passes(result["passes"])]
    turns, derived = result.get("memories"), result.get("derived")
    if turns is None and derived is None:
        return lines
    whole = result.get("total") == len(turns or ()) + len(derived or ())
    none = "none" if whole else "none on this page"
    if turns is not None:
        lines += ["", *(_table(turns, story=True) if turns else [f"turns: {none}"])]
    if derived is not None:
        lines += ["", *(["derived:", *_table(derived)] if derived else [f"derived: {none}"])]
    return [*lines, *_foot(result, _times([*(turns or ()), *(derived or ())]))]


def _passes(passes: list[dict[str, Any]]) -> list[str]:
    if not passes:
        return ["passes: none"]
    rows = [
        [str(row["pass"]), short(row["at"]), str(row["facts"]), str(row["turns"]),
         "not ended" if row["partial"] else "ended"]
        for row in passes
    ]  # fmt: skip
    return table(("PASS", "AT", "NOTES", "TURNS", "STATE"), rows)


def _spoke(row: dict[str, Any]) -> str | None:
    return row.get("speaker") or row.get("role")


def _who(row: dict[str, Any]) -> str:
    """Who spoke; of what nobody spoke, what it is."""
    return clipped(plain(_spoke(row) or row.get("subtype") or row.get("kind")), WHO_COLUMNS)


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

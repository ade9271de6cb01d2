"""The provenance chain of a memory for people: no words of it but the topics of its versions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from daemon.cli.render_text import STAMP, local, plain, short, table, wrap, zone_line


def chain(result: dict[str, Any]) -> list[str]:
    """The sections under each other; one that is empty is one line, or none."""
    sections = result["sections"]
    versions = result["supersession"]
    lines = wrap(f"began: {_origin(result['origin'], sections['origin'])}")
    parts = (
        ("earlier versions", "supersession", versions["predecessors"], versions["truncated"], _versions),
        ("later versions", "supersession", versions["successors"], versions["truncated"], _versions),
        ("what happened, newest first", "events", *_list(result["events"]), _events),
        ("applied proposals", "proposals", *_list(result["proposals"]), _proposals),
        ("facts", "facts", *_list(result["facts"]), _facts),
    )
    for title, section, rows, truncated, form in parts:
        if sections[section] != "ok":
            if title != "later versions":
                lines += [f"{section}: unavailable"]
        elif rows:
            lines += ["", *wrap(f"{title}{' (there are more)' if truncated else ''}:"), *form(rows)]
    return [*lines, "", *wrap(zone_line(_times(result)))]


def _list(section: dict[str, Any]) -> tuple[list[dict[str, Any]], bool]:
    return section["items"], section["truncated"]


def _origin(origin: dict[str, Any], state: str) -> str:
    if state != "ok":
        return "unavailable"
    if origin["created_at"] is None:
        return "elsewhere, it was imported"
    run = origin["run"]
    of = f" of {plain(run['agent'])}, opened {local(run['opened_at'])}" if run else ""
    session = f", in {plain(origin['session'])}{of}" if origin["session"] else ""
    return f"{local(origin['created_at'])} by {plain(origin['actor_kind'])}{session}"


def _versions(rows: list[dict[str, Any]]) -> list[str]:
    return table(("FAR", "CREATED", "STATUS", "ID", "HOW"), [_version(row) for row in rows])


def _version(row: dict[str, Any]) -> list[str]:
    source = row["source_proposal"]
    of = f" through {plain(source['id'])}" if source else ""
    session = f"; in {plain(row['created_by_session'])}" if row["created_by_session"] else ""
    topic = f"; {plain(row['topic'])}" if row["topic"] else ""
    how = f"{plain(row['edge_type'])} {short(row['edge_created_at'])} by {plain(row['created_by'])}{of}{session}{topic}"
    return [str(row["depth"]), short(row["created_at"]), plain(row["status"]), plain(row["id"]), how]


def _events(rows: list[dict[str, Any]]) -> list[str]:
    return table(("AT", "EVENT", "BY", "RECORD", "OF"), [_event(row) for row in rows])


def _event(row: dict[str, Any]) -> list[str]:
    of = ", ".join(plain(row[name]) for name in ("proposal", "session") if row[name])
    record = plain(row["id"]).removeprefix("record:")
    return [short(row["created_at"]), plain(row["event_kind"]), plain(row["actor_kind"]), record, of or "-"]


def _proposals(rows: list[dict[str, Any]]) -> list[str]:
    return table(("DECIDED", "PROPOSAL", "WHAT"), [_proposal(row) for row in rows])


def _proposal(row: dict[str, Any]) -> list[str]:
    what = row["action"] or row["edge_type"]
    words = plain(row["kind"]) + (f" {plain(what)}" if what else "")
    other = f" with {plain(row['other_memory'])}" if row["other_memory"] else ""
    made = f"; made {plain(row['produced'])}" if row["produced"] else "; made nothing"
    return [short(row["decided_at"]), plain(row["id"]), words + other + made]


def _facts(rows: list[dict[str, Any]]) -> list[str]:
    return table(("FACT", "FROM", "TO", "THROUGH"), [_fact(row) for row in rows])


def _fact(row: dict[str, Any]) -> list[str]:
    bounds = [short(row[name]) if row[name] else "-" for name in ("valid_from", "valid_to")]
    return [plain(row["id"]), *bounds, plain(row["source_proposal"])]


def _times(value: Any) -> Iterator[str]:
    """Every time in the chain: a year has two zones where summer time is kept."""
    if isinstance(value, dict):
        for item in value.values():
            yield from _times(item)
    elif isinstance(value, list):
        for item in value:
            yield from _times(item)
    elif isinstance(value, str) and STAMP.match(value):
        yield value

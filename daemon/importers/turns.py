"""The `turns` format (ops/docs/turns-format.md): one JSON object per line, turns and derived memories."""

from __future__ import annotations

import json
from typing import Any

from daemon.importers.plan import Item, Plan, UnknownShape, key_of

FIELDS = frozenset(
    [
        "session",
        "agent",
        "role",
        "text",
        "occurred_at",
        "ref",
        "speaker",
        "origin",
        "kind",
        "subtype",
        "derived_from",
        "evidence",
    ]
)
COPIED = ("role", "speaker", "text", "origin", "kind", "subtype", "occurred_at")


def read(text: str) -> Plan:
    """The items of a file, in its order. Raises UnknownShape naming line and field."""
    return Plan([_item(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()])


def _item(number: int, line: str) -> Item:
    where = f"line {number}"
    try:
        row = json.loads(line)
    except ValueError as error:
        raise UnknownShape(f"{where}: no JSON object: {error}") from error
    if not isinstance(row, dict):
        raise UnknownShape(f"{where}: not an object")
    for name in row.keys() - FIELDS:
        raise UnknownShape(f"{where}: unknown field {name!r}")
    _check(where, row)
    request: dict[str, Any] = {"kind": "raw"}
    request.update((name, row[name]) for name in COPIED if name in row)
    if "kind" not in row:
        request["subtype"] = "turn"
    if "session" in row:
        request["session"] = {"agent": row["agent"], "key": row["session"]}
    source = f"{row.get('agent', '')}\0{row.get('session', '')}"
    whole = json.dumps(row, sort_keys=True, ensure_ascii=True)
    reference = "ref:" + row["ref"] if "ref" in row else "row:" + whole
    request["idempotency_key"] = key_of("turns", source, reference)
    return Item(where, row.get("ref"), request, tuple(row.get("derived_from", ())), tuple(row.get("evidence", ())))


def _check(where: str, row: dict[str, Any]) -> None:
    needed = ("text", "origin") if "kind" in row else ("session", "agent", "role", "text")
    for name in needed:
        if name not in row:
            raise UnknownShape(f"{where}: field {name!r} is missing")
    if ("session" in row) != ("agent" in row):
        raise UnknownShape(f"{where}: session and agent go together")
    for name, value in row.items():
        if name in ("derived_from", "evidence"):
            if not isinstance(value, list) or not all(isinstance(ref, str) for ref in value):
                raise UnknownShape(f"{where}: {name!r} is not a list of refs")
        elif not isinstance(value, str):
            raise UnknownShape(f"{where}: {name!r} is not a string")

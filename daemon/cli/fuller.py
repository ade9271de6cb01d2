"""What people want to see and an answer lacks: of listed memories who spoke, and when it occurred; of a history what
its records say.

It is asked for with `get`, for the rows of a page, and with `records`. Without leave to read it, or when it can't be
had, the answer stays as it is.
"""

from __future__ import annotations

from typing import Any

import noctuary

IDS_PER_GET = 20
RECORDS = 1000
"""That are asked for of a history: what comes later is told by its type alone."""
WANTED = ("speaker", "role", "occurred_at")


def fill(client: noctuary.Client, result: dict[str, Any], params: dict[str, Any]) -> None:
    """Add what is wanted to the rows of `result`, in place."""
    rows = [row for row in result.get("memories") or () if "actor" not in row and not row.get("damaged")]
    scope = {name: params[name] for name in ("tenants",) if name in params}
    for start in range(0, len(rows), IDS_PER_GET):
        part = rows[start : start + IDS_PER_GET]
        try:
            answer = client.call("get", {"ids": [row["id"] for row in part], **scope}, dict)
        except noctuary.NoctuaryError:
            return
        found = {memory["id"]: memory for memory in answer["memories"]}
        for row in part:
            row.update((name, found.get(row["id"], {}).get(name)) for name in WANTED)


def fill_history(client: noctuary.Client, result: dict[str, Any], params: dict[str, Any]) -> None:
    """Add to each event of a history what its record says, in place."""
    asked = {
        "memory": params["id"],
        "limit": RECORDS,
        **{name: params[name] for name in ("tenants",) if name in params},
    }
    try:
        frames = client.call("records", asked, dict)["frames"]
    except noctuary.NoctuaryError:
        return
    said = {frame["seq"]: frame["event"] for frame in frames}
    for row in result.get("events") or ():
        row["event"] = said.get(row["seq"])

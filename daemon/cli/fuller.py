"""What people want to see of listed memories and the compact form lacks: who spoke, and when it occurred.

It is asked for with `get`, for the rows of a page. Without leave to read content, or when it can't be had, the page
stays as it is.
"""

from __future__ import annotations

from typing import Any

import noctuary

IDS_PER_GET = 20
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

"""Memories are written, two of them purged one after the other, with what they had destroyed: to be traced.

    python -m ops.drills.crash.purging STATE REQUESTS

Each write of the file REQUESTS is answered on standard output the way the daemon answers on a socket, as soon as it is
durable; a purge is answered with the parts whose keys it destroyed.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from journal.events import Purged
from ops.drills.crash.load import Request
from ops.drills.crash.served import Served

WRITES = 6
PURGED = (1, 3)
"""Which of the writes are purged."""


def purge_requests(name: str) -> list[Request]:
    """What is written and purged, in order. A purge names the write that it is about."""
    writes = []
    for number in range(WRITES):
        key = f"{name}-{number}"
        params = {"kind": "raw", "subtype": "capture", "origin": "stated", "text": f"secret {key}"}
        writes.append(Request(key, "remember", {**params, "tags": [f"tag {key}"], "idempotency_key": key}))
    purges = [Request(f"{name}-purge-{number}", "purge", {"of": writes[number].id}) for number in PURGED]
    return writes + purges


def answer(request: Request, result: Any) -> None:
    os.write(1, json.dumps({"id": request.id, "result": result}).encode() + b"\n")


def purge(served: Served, request: Request, memory: str) -> list[list[int]]:
    """Purge a memory; the parts whose keys its record destroyed as (owner seq, part, slot)."""
    (result,) = served.ask([Request(request.id, "purge", {"ids": [memory]})])
    assert isinstance(result, dict), result
    with served.store.env.read() as txn:
        record = served.store.log.get(txn, result["receipt"]["seq"])
    assert record is not None and isinstance(record.event, Purged)
    return [[part.owner_seq, part.part, part.slot] for part in record.event.parts]


def main(arguments: list[str]) -> int:
    state, requests_file = map(Path, arguments)
    requests = [Request(*each) for each in json.loads(requests_file.read_text("utf-8"))]
    os.umask(0o077)
    ids: dict[str, str] = {}
    served = Served(state)
    for request in requests:
        if request.method == "purge":
            answer(request, {"parts": purge(served, request, ids[request.params["of"]])})
            continue
        (result,) = served.ask([request])
        assert isinstance(result, dict), result
        ids[request.id] = result["id"]
        answer(request, result)
    served.close(clean=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

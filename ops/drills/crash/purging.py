"""Memories are written, two of them purged one after the other, with what they had destroyed: to be traced.

    python -m ops.drills.crash.purging STATE REQUESTS

There is no purge verb yet, so this goes through `journal.store.purge_parts`, as that verb will. Each write
of the file REQUESTS is answered on standard output the way the daemon answers on a socket, as soon as it is
durable; a purge is answered with the parts whose keys it destroyed.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from journal.codes import CallerRole, Via
from journal.events import MemoryCreated, Purged, PurgeTarget
from journal.record import Actor, Cause, Record, encode_body
from journal.store import Store, purge_parts
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


def purge(store: Store, seq: int) -> list[list[int]]:
    """Purge the memory of record `seq`; its parts as (owner seq, part, slot)."""
    with store.env.read() as txn:
        record = store.log.get(txn, seq)
    assert record is not None and isinstance(record.event, MemoryCreated)
    event = Purged(targets=(PurgeTarget(record.event.kind, record.event.id),), parts=record.event.parts)
    at = store.log.head().seq + 1
    actor = Actor(os.geteuid(), CallerRole.OPERATOR, Via.CLIENT)
    body = encode_body(Record(at, time.time_ns() // 1_000_000, record.tenant, actor, Cause(at, "purge"), event))
    purge_parts(store, [body], [], store.log.state)
    return [[part.owner_seq, part.part, part.slot] for part in event.parts]


def main(arguments: list[str]) -> int:
    state, requests_file = map(Path, arguments)
    requests = [Request(*each) for each in json.loads(requests_file.read_text("utf-8"))]
    os.umask(0o077)
    seqs: dict[str, int] = {}
    served = Served(state)
    for request in requests:
        if request.method == "purge":
            continue
        (result,) = served.ask([request])
        assert isinstance(result, dict), result
        seqs[request.id] = result["address"]["seq"]
        answer(request, result)
    served.close(clean=True)
    for request in requests:
        if request.method != "purge":
            continue
        # An opening of its own for each: the service does not see what goes past its writer.
        served = Served(state)
        answer(request, {"parts": purge(served.store, seqs[request.params["of"]])})
        served.close(clean=request.id == requests[-1].id)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

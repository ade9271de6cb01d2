"""Make the golden state directory of the current format: fixed commands, then an archive and what it holds.

    python -m ops.golden.make OUT_DIRECTORY NAME

writes `NAME.tar.xz` and `NAME.json`. Made once for each released format and never again: a store's id and
keys are random, and what counts is that bytes written then are read now. The keys in it guard nothing but
the sentences below.
"""

from __future__ import annotations

import io
import json
import lzma
import os
import queue
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from daemon.call import Call, Outcome
from daemon.caller import Caller
from daemon.moment import Moment
from daemon.refusal import Refused
from daemon.service import Service
from daemon.wire.verbs import VERBS
from journal.codes import CallerRole
from journal.store import Store, create_store, open_store
from projections.store import ProjectionStore

START_MS = 1_790_000_000_000
DAY_MS = 86_400_000
CALLER = Caller(uid=1000, role=CallerRole.OPERATOR, tenants_read=None, tenants_write=None)
LEFT_OUT = ("projections", "reserve", "lock")


class Making:
    """A service in a directory, with a clock that moves when it is told to."""

    def __init__(self, root: Path) -> None:
        self.now_ms = START_MS
        create_store(root)
        self.store = open_store(root, version="golden", now_ms=self.now_ms)
        self.projections = ProjectionStore.open(self.store.dir.projections_dir, self.store.boot_id)
        self.projections.catch_up(self.store.log)
        self._answers: queue.SimpleQueue[tuple[Call, Outcome]] = queue.SimpleQueue()
        self._service = Service(self.store, self.projections, Moment(lambda: self.now_ms), self._deliver)
        self._service.start()

    def _deliver(self, answers: list[tuple[Call, Outcome]]) -> None:
        for answer in answers:
            self._answers.put(answer)

    def do(self, verb: str, **params: Any) -> dict[str, Any]:
        self.now_ms += 1000
        typed = msgspec.convert(params, VERBS[verb].params)
        self._service.submit(Call(verb, typed, CALLER, lambda outcome: None))
        _, outcome = self._answers.get(timeout=30)
        if isinstance(outcome, Refused):
            raise outcome
        answer: dict[str, Any] = msgspec.to_builtins(outcome)
        return answer

    def read(self, verb: str, **params: Any) -> dict[str, Any]:
        answer: dict[str, Any] = msgspec.to_builtins(
            self._service.read(verb, msgspec.convert(params, VERBS[verb].params), CALLER)
        )
        return answer

    def close(self) -> None:
        self._service.stop()
        self.projections.close(True)
        self.store.close(True)


def run_commands(making: Making) -> list[str]:
    """Every writing verb, every part, every kind; the ids of the memories that were made."""
    do = making.do
    do("remember", kind="value", text="Say what is known, and how.", origin="seeded")
    session = do("session_open", agent="narrator", key="conversation-1", project="orchard", subject="Mira")["session"]
    user = do(
        "remember", kind="raw", role="user", text="The pump in the north field was repaired.", session=session,
        topic="pump", tags=["field", "repair"], speaker="Mira", occurred_at="2026-09-20T08:30:00+02:00",
        entities=[{"name": "Mira", "type": "person"}], metadata={"line": 7}, idempotency_key="turn-1",
    )["id"]  # fmt: skip
    do("remember", kind="raw", role="assistant", text="Noted.", session=session, importance=0.5, valence=0.25)
    producer = {"agent": "narrator", "model": "teller-1", "version": "3", "extractor": "r2"}
    batch: list[dict[str, Any]] = [
        {"kind": "episode", "text": "Mira repaired the pump.", "origin": "inferred", "derived_from": [user]},
        {"kind": "note", "text": "The pump works.", "origin": "inferred", "derived_from": [user], "subtype": "finding"},
        {"kind": "belief", "text": "Mira can repair pumps.", "origin": "derived", "derived_from": ["@0", "@1"]},
        {"kind": "goal", "text": "Ask Mira about the south pump.", "origin": "derived", "derived_from": ["@0", "@2"]},
        {"kind": "relationship", "text": "Mira keeps the orchard.", "origin": "told", "derived_from": ["@0"]},
        {"kind": "procedure", "text": "Close the valve first.", "origin": "told", "derived_from": ["@1"]},
        {"kind": "drive", "text": "Keep the water running.", "origin": "derived", "derived_from": ["@2"]},
    ]
    batch[1]["facts"] = [{"subject": "pump", "predicate": "state", "value": "repaired", "confidence": 0.75}]
    batch[1]["vector"] = {"model": "v-1", "values": [0.5, -0.25, 0.125]}
    batch[1]["producer"] = producer
    batch[2]["evidence"] = [{"kind": "url", "id": "https://example.org/pump", "resolvable": True}]
    made = do("remember_many", items=batch, idempotency_key="batch-1", correlation="golden")["results"]
    do("forget", id=made[1]["id"], note="The pump broke again.")
    do("forget", id=user)
    do("recover", id=user, note="Said after all.")
    do("session_close", session=session)
    making.now_ms += 2 * DAY_MS
    do("session_open", agent="narrator", key="conversation-1")
    do("remember", kind="raw", role="user", text="The pump in the north field was repaired.", session=session)
    do("remember", tenant="second", kind="raw", origin="recorded", text="Another tenant's line.")
    do("lifecycle", tenant="second", state="maintenance", enforce=False)
    return [listed["id"] for listed in making.read("list", limit=100)["memories"]]


def describe(making: Making, ids: list[str]) -> dict[str, Any]:
    """What a later reader has to find: head, events, texts, digests."""
    store: Store = making.store
    head = store.log.head()
    records = [record for chunk in store.log.chunks(1, head.seq) for record in chunk]
    memories = making.read("get", ids=ids)["memories"]
    return {
        "store": store.store_id.hex(),
        "records": head.seq,
        "chain": head.chain.hex(),
        "events": [[record.at_ms, type(record.event).__name__] for record in records],
        "memories": [{name: memory[name] for name in _TOLD} for memory in memories],
        "digests": making.projections.digests(),
    }


_TOLD = ("id", "kind", "subtype", "text", "status", "origin", "role", "turn", "strength", "derived_from", "tags",
         "topic", "facts", "metadata", "occurred_at", "occurred_offset", "grounded", "partition")  # fmt: skip


def pack(root: Path, archive: Path) -> None:
    """An archive with nothing of this machine in it: no names, no times, owner 0. The vault stays sparse."""
    with lzma.open(archive, "wb", preset=9) as out, tarfile.open(fileobj=out, mode="w") as tar:
        for path in sorted(root.rglob("*")):
            relative = path.relative_to(root)
            if relative.parts[0] in LEFT_OUT:
                continue
            info = tarfile.TarInfo(f"state/{relative}")
            info.mode = 0o700 if path.is_dir() else 0o600
            if path.is_dir():
                info.type = tarfile.DIRTYPE
                tar.addfile(info)
                continue
            content = path.read_bytes()
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def main(out: Path, name: str) -> int:
    os.umask(0o077)
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "state"
        making = Making(root)
        ids = run_commands(making)
        told = describe(making, ids)
        making.close()
        pack(root, out / f"{name}.tar.xz")
    (out / f"{name}.json").write_text(json.dumps(told, indent=1, ensure_ascii=False, default=str) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))

"""A service with sessions whose passes are committed by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from daemon.commands.passes import PassParams
from journal.codes import Mark
from journal.events import AnyEvent, MemoryCreated, Purged, PurgeTarget
from journal.record import Actor, Cause, Record, encode_body
from journal.store import open_store, purge_parts
from journal.tsid import parse_memory_ref, parse_tsid
from projections.sessions import number_of
from projections.state import State
from tests.model.opened import OpenedService

DAY_MS = 86_400_000
MINUTE_MS = 60_000
START_MS = 1_790_000_000_000
AGENT = "sleeper"


class Slept(OpenedService):
    """Its clock is set by hand."""

    def __init__(self, root: Path) -> None:
        self.now_ms = START_MS
        super().__init__(root, lambda: self.now_ms)

    def turn(self, text: str, key: str = "one", **more: Any) -> str:
        params = {"kind": "raw", "role": "user", "text": text, "session": {"agent": AGENT, "key": key}, **more}
        self.now_ms += 1
        return str(self.write("remember", params)["id"])

    def turns(self, count: int, key: str = "one") -> list[str]:
        return [self.turn(f"{key} {number}", key) for number in range(1, count + 1)]

    def session(self, key: str = "one", **more: Any) -> dict[str, Any]:
        return self.read("session", {"session": self.ref(key), **more})

    def ref(self, key: str = "one") -> str:
        """The reference of a session."""
        rows = self.read("sessions", {"limit": 1000})["sessions"]
        return str(next(row["session"] for row in rows if row["key"] == key))

    def commit(self, facts: list[dict[str, Any]], key: str = "one", **more: Any) -> dict[str, Any]:
        """One commit of a pass. Raises Refused."""
        params = msgspec.convert({"session": self.ref(key), "facts": facts, **more}, PassParams)
        return self.service.commit_pass(params, "default")

    def rows(self, key: str = "one", **more: Any) -> list[dict[str, Any]]:
        return list(self.read("session_provenance", {"session": self.ref(key), **more})["derived"])

    def row(self, memory: str) -> dict[str, Any]:
        return dict(self.explain(memory)["row"])

    def explain(self, memory: str) -> dict[str, Any]:
        return self.read("explain", {"id": memory})

    def memory(self, ref: str) -> dict[str, Any]:
        (found,) = self.read("get", {"ids": [ref]})["memories"]
        return dict(found)

    def number(self, key: str = "one") -> int:
        """The number of a session."""
        found = number_of(self.state(), parse_tsid(self.ref(key).partition(":")[2]))
        assert found is not None
        return found

    def state(self) -> State:
        """What is folded now."""
        return State(_Committed(self), self.projections.counters, self.projections.head)

    def append(self, event: AnyEvent) -> None:
        """Have the journal say what no verb says yet, of the first tenant."""
        self.close(True)
        store = open_store(self.root, version="by hand", now_ms=self.now_ms)
        try:
            seq = store.log.head().seq + 1
            record = Record(seq, self.now_ms, 1, Actor(0, 3, 5), Cause(seq, "by_hand"), event)
            parts = event.parts if isinstance(event, Purged) else ()
            if parts:
                purge_parts(store, [encode_body(record)], [], store.log.state)
            else:
                store.log.append([encode_body(record)], [], store.log.state)
        finally:
            store.close(clean=True)
        self._open()

    def purge(self, *refs: str) -> None:
        """As a purge does it: the record, and the keys of all their parts. A text that a living memory shares keeps its
        key (ERASURE §6)."""
        wanted = [parse_memory_ref(ref) for ref in refs]
        tsids = {tsid for _, tsid in wanted}
        created = [
            record.event
            for chunk in self.store.log.chunks()
            for record in chunk
            if isinstance(record.event, MemoryCreated)
        ]
        others = [event for event in created if event.id not in tsids and not self._is_purged(event.id)]
        kept = {part.slot for event in others for part in event.parts}
        parts = {
            part.slot: part for event in created if event.id in tsids for part in event.parts if part.slot not in kept
        }
        self.append(Purged(targets=tuple(PurgeTarget(*ref) for ref in wanted), parts=tuple(parts.values())))

    def _is_purged(self, tsid: int) -> bool:
        row = self.state().memory(tsid)
        return row is not None and row.has(Mark.PURGED)

    def rebuilt_alike(self) -> bool:
        """Whether folding from the journal gives what is there."""
        live = self.digests()
        self.rebuild()
        return self.digests() == live


class _Committed:
    """A snapshot per look."""

    def __init__(self, opened: OpenedService) -> None:
        self._projections = opened.projections

    def get(self, database: str, key: bytes) -> bytes | None:
        with self._projections.snapshot() as snapshot:
            found = snapshot.get(database, key)
            return None if found is None else bytes(found)

    def prefix(self, database: str, prefix: bytes) -> Any:
        with self._projections.snapshot() as snapshot:
            return iter(list(snapshot.prefix(database, prefix)))


def fact(*turns: str, text: str = "a fact", **more: Any) -> dict[str, Any]:
    return {"text": text, "turns": list(turns), **more}

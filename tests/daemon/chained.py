"""A service whose memories are asked for their chains, and a journal that can be told what no verb says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from journal import events
from journal.codes import EdgeType, Mark, Part, ProposalAction, ProposalKind
from journal.particulars import Particulars, encode
from journal.tsid import format_tsid, parse_memory_ref
from tests.daemon.told import Told
from tests.journal.appending import Legacy, append

MINUTE_MS = 60_000
DECISION = {"kind": "note", "subtype": "decision", "origin": "stated"}


class Chained(Told):
    """Its clock goes on a minute with each write."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._made = 0

    def write(self, verb: str, params: dict[str, Any]) -> dict[str, Any]:
        self.now_ms += MINUTE_MS
        return super().write(verb, params)

    def decision(self, text: str = "use lmdb", **more: Any) -> str:
        """A note that says so, made from a turn of the same words."""
        turn = self.raw(text)
        return str(self.write("remember", {**DECISION, "text": text, "derived_from": [turn], **more})["id"])

    def revised(self, ref: str, disposition: str = "supersedes", **more: Any) -> str:
        params = {"id": ref, "origin": "stated", "text": f"not {ref}", "disposition": disposition, **more}
        return str(self.write("revise", params)["id"])

    def versions(self, count: int) -> list[str]:
        """A chain of that many versions, oldest first."""
        found = [self.decision()]
        while len(found) < count:
            found.append(self.revised(found[-1], ("supersedes", "updates")[len(found) % 2]))
        return found

    def got(self, *refs: str, **more: Any) -> dict[str, Any]:
        return self.read("get", {"ids": list(refs), "include": ["provenance"], **more})

    def chain(self, ref: str) -> dict[str, Any]:
        (found,) = self.got(ref)["memories"]
        return dict(found["provenance"])

    def session(self, key: str = "one", agent: str = "claude") -> str:
        return str(self.write("session_open", {"agent": agent, "key": key})["session"])

    def by_hand(self, *legacy: Legacy | events.AnyEvent) -> list[int]:
        """What no verb says; the numbers of the records."""
        self.now_ms += MINUTE_MS
        self.close(True)
        try:
            return append(self.root, self.now_ms, *legacy)
        finally:
            self._open()

    def purge(self, ref: str) -> None:
        """As a purge does it: the record, and the keys of all parts of the memory."""
        kind, tsid = parse_memory_ref(ref)
        parts = [
            part
            for chunk in self.store.log.chunks()
            for record in chunk
            if isinstance(record.event, (events.MemoryCreated, events.Moved, events.FactAdded))
            and getattr(record.event, "id", getattr(record.event, "memory", (0, 0))[1]) == tsid
            for part in record.event.parts
        ]
        self.by_hand(events.Purged(targets=(events.PurgeTarget(kind, tsid),), parts=tuple(parts)))

    def new_id(self, after: str) -> int:
        """An id that nothing has, above that of a memory; each is higher than the one before."""
        self._made += 1
        return parse_memory_ref(after)[1] + self._made

    def edge(self, successor: str, predecessor: str, **more: Any) -> events.Superseded:
        """That one took the place of the other, whatever did so before."""
        return events.Superseded(
            predecessor=parse_memory_ref(predecessor), successor=parse_memory_ref(successor),
            edge_type=int(more.pop("edge_type", EdgeType.SUPERSEDES)), edge=self.new_id(successor),
            valid_to=self.now_ms, **more,
        )  # fmt: skip

    def applied(self, kind: ProposalKind, ref: str, other: str | None = None, **produced: Any) -> Applied:
        return Applied(self, kind, ref, other, produced)


class Applied:
    """The records of a proposal and of its acceptance; `id` is the proposal."""

    def __init__(
        self, told: Chained, kind: ProposalKind, ref: str, other: str | None, produced: dict[str, Any]
    ) -> None:
        self.id = told.new_id(ref)
        self.ref = f"proposal:{format_tsid(self.id)}"
        edge_type = produced.pop("edge_type", EdgeType.SUPERSEDES if kind is ProposalKind.EDGE else 0)
        self.made = events.ProposalMade(
            id=self.id, kind=int(kind), memory=parse_memory_ref(ref),
            other=None if other is None else parse_memory_ref(other), edge_type=int(edge_type),
            action=int(produced.pop("action", ProposalAction.NONE)),
        )  # fmt: skip
        self.decided = events.ProposalDecided(id=self.id, accepted=produced.pop("accepted", True), **produced)


def resolved(ref: str, proposal: int = 0, mark: Mark = Mark.RESOLVED) -> events.Marked:
    return events.Marked(memory=parse_memory_ref(ref), mark=int(mark), on=True, proposal=proposal)


def fact_added(told: Chained, ref: str, words: tuple[str, str, str], proposal: int = 0, **more: Any) -> Legacy:
    """A fact that was accepted for a memory."""
    head = events.FactHead(id=told.new_id(ref), proposal=proposal, **more)
    plain = encode(Particulars(facts=(words,)))
    return Legacy(events.FactAdded(memory=parse_memory_ref(ref), fact=head), ((int(Part.PARTICULARS), plain),))


def fact_ref(legacy: Legacy) -> str:
    assert isinstance(legacy.event, events.FactAdded)
    return f"fact:{format_tsid(legacy.event.fact.id)}"

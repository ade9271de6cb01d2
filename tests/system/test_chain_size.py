"""How long a chain, and an answer with five of them, can become: measured at the socket of a real daemon (T30)."""

from __future__ import annotations

import json
import time
from typing import Any

import msgspec
import pytest

from journal import events
from journal.codes import EdgeType, Mark, ProposalAction, ProposalKind
from journal.tsid import parse_memory_ref
from tests.journal.appending import Legacy, append
from tests.system.process import DaemonProcess
from tests.system.raw_client import RawClient

CHAIN_BYTES = 160 * 1024
CALL_BYTES = 800 * 1024
VERSIONS = 25
TRACED = 5


class Traced(msgspec.Struct):
    id: str
    provenance: msgspec.Raw


class Found(msgspec.Struct):
    memories: list[Traced]


class Answer(msgspec.Struct):
    result: Found


def written(daemon: DaemonProcess, letter: str) -> list[str]:
    """25 decisions, each with as long a topic and project of one character as there can be, in one session."""
    turn = {"kind": "raw", "text": "why", "role": "user", "session": {"agent": "a" * 64, "key": "k"}}
    note = {
        "kind": "note", "subtype": "observation", "origin": "inferred", "derived_from": ["@0"], "project": letter * 256,
        "topic": letter * 256, "session": {"agent": "a" * 64, "key": "k"}, "valid_from": "2026-01-01T00:00:00.000Z",
    }  # fmt: skip
    items = [turn, *({**note, "text": f"version {number}"} for number in range(VERSIONS))]
    found = daemon.call("remember_many", items=items)["results"]
    return [item["id"] for item in found[1:]]


def fullest(refs: list[str]) -> list[Legacy | events.AnyEvent]:
    """An edge between any two, and for each that is traced more of everything than a chain tells."""
    memories = [parse_memory_ref(ref) for ref in refs]
    fresh = iter(range(memories[-1][1] + 1, memories[-1][1] + 100_000))
    made: list[Legacy | events.AnyEvent] = []
    for at, successor in enumerate(memories):
        for predecessor in memories[:at]:
            proposal = applied(made, next(fresh), ProposalKind.EDGE, successor, predecessor)
            made.append(
                events.Superseded(
                    predecessor=predecessor, successor=successor, edge_type=int(EdgeType.SUPERSEDES),
                    edge=next(fresh), valid_to=1_790_000_000_000, proposal=proposal,
                )
            )  # fmt: skip
    for memory in memories[:TRACED]:
        for _ in range(60):
            proposal = applied(made, next(fresh), ProposalKind.RESOLUTION, memory, None)
            made.append(events.Marked(memory=memory, mark=int(Mark.RESOLVED), on=True, proposal=proposal, session=1))
        for _ in range(30):
            proposal = applied(made, next(fresh), ProposalKind.RETENTION, memory, memories[-1], next(fresh))
            head = events.FactHead(
                id=next(fresh), valid_from=1_700_000_000_000, valid_to=1_790_000_000_000, proposal=proposal
            )
            made.append(events.FactAdded(memory=memory, fact=head))
    return made


def applied(
    made: list[Legacy | events.AnyEvent], proposal: int, kind: ProposalKind, memory: events.Ref,
    other: events.Ref | None, produced: int = 0,
) -> int:  # fmt: skip
    edge_type = EdgeType.SUPERSEDES if kind is ProposalKind.EDGE else 0
    action = {ProposalKind.RESOLUTION: ProposalAction.RESOLVE, ProposalKind.RETENTION: ProposalAction.SUPERSEDE}
    made.append(
        events.ProposalMade(
            id=proposal, kind=int(kind), memory=memory, other=other, edge_type=int(edge_type),
            action=int(action.get(kind, ProposalAction.NONE)),
        )
    )  # fmt: skip
    edges, seqs = ((produced,), (999_999_999,)) if produced else ((), ())
    made.append(events.ProposalDecided(id=proposal, accepted=True, edges=edges, seqs=seqs))
    return proposal


@pytest.mark.parametrize(("letter", "rows"), [("a", 50), ('"', 50), ("\\", 50), ("\x01", None), ("語", 50)])
def test_no_chain_and_no_call_is_longer_than_is_promised(stopped: DaemonProcess, letter: str, rows: int | None) -> None:
    stopped.start()
    refs = written(stopped, letter)
    assert stopped.stop() == 0
    append(stopped.state, int(time.time() * 1000), *fullest(refs))
    stopped.start()
    line = asked(stopped, refs[:TRACED])
    found = msgspec.json.decode(line, type=Answer).result.memories
    sizes = [len(bytes(memory.provenance)) for memory in found]
    assert len(sizes) == TRACED and max(sizes) <= CHAIN_BYTES and sum(sizes) <= CALL_BYTES
    for memory in found:
        chain = json.loads(bytes(memory.provenance))
        assert set(chain["sections"].values()) == {"ok"}
        told = [*chain["supersession"]["predecessors"], *chain["supersession"]["successors"]]
        assert all(row["topic"] == row["project"] == letter * 256 for row in told)
        assert chain["supersession"]["truncated"]
        assert len(told) == rows if rows is not None else 24 < len(told) < 50
        for section, most in (("events", 50), ("proposals", 25), ("facts", 25)):
            assert len(chain[section]["items"]) == most and chain[section]["truncated"]
        assert all(event["session"] and event["proposal"] for event in chain["events"]["items"][:40])
    assert stopped.stop() == 0


def asked(daemon: DaemonProcess, refs: list[str]) -> bytes:
    """The line that answers; what stands in it beside the chains is short."""
    params: dict[str, Any] = {"ids": refs, "include": ["provenance"]}
    with RawClient(daemon.socket) as client:
        client.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "get", "params": params}).encode() + b"\n")
        return client.line()

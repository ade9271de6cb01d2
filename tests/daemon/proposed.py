"""Short ways to propose and decide, and what a test looks at."""

from __future__ import annotations

from typing import Any

from daemon.refusal import Reason
from tests.daemon.told import Told, reason_of

FACT = {"subject": "the fence", "predicate": "colour", "value": "green"}


def propose(told: Told, kind: str, memory: str, **more: Any) -> str:
    return str(told.write("propose", {"proposal_kind": kind, "memory": memory, **more})["proposal"])


def edge(told: Told, memory: str, other: str, word: str = "supersedes", **more: Any) -> str:
    return propose(told, "edge", memory, other=other, edge=word, **more)


def fact(told: Told, memory: str, value: str = "green", **more: Any) -> str:
    return propose(told, "fact", memory, fact={**FACT, "value": value}, **more)


def decide(told: Told, proposal: str, accept: bool = True, **more: Any) -> dict[str, Any]:
    return told.write("decide", {"proposal": proposal, "accept": accept, **more})


def listed(told: Told, **params: Any) -> list[dict[str, Any]]:
    return list(told.read("proposals", params)["proposals"])


def ids(told: Told, **params: Any) -> list[str]:
    return [row["proposal"] for row in listed(told, **params)]


def head(told: Told) -> int:
    """The number of the newest record."""
    return told.store.log.head().seq


def pair(told: Told, **more: Any) -> tuple[str, str]:
    """Two notes, the older one first."""
    turn = told.raw("a turn")
    return told.note(turn, text="the older", **more), told.note(turn, text="the newer", **more)


def events_of(told: Told, after: int) -> list[dict[str, Any]]:
    """The records behind one, as they are read."""
    frames = told.read("records", {"from_seq": after + 1})["frames"]
    return [{"type": frame["type"], "seq": frame["seq"], "cause": frame["cause"], **frame["event"]} for frame in frames]


def conflict(told: Told, proposal: str) -> dict[str, Any]:
    """What an acceptance is refused with. Nothing was written of it, and the proposal waits on."""
    seq = head(told)
    reason, data = reason_of(lambda: decide(told, proposal))
    assert (reason, data["parameter"]) == (Reason.CONFLICT, "proposal")
    assert head(told) == seq
    assert proposal in ids(told)
    return data

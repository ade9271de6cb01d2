"""The load of a fault drill: waves of pipelined writes with keys, and what became of each.

One connection, so that order is known. A wave is sent whole and its answers awaited before the next, so
that each wave makes a commit or more. Every wave has single writes and one atomic batch.
"""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from enum import StrEnum, unique
from pathlib import Path
from typing import Any

ANSWER_WITHIN_S = 20.0
SINGLES = 6
BATCH = 3
MARK = "quokka"  # stands in every text that is written: found in a log, it is a leak


@unique
class Fate(StrEnum):
    """What the caller knows of a write."""

    ACKED = "acked"
    REFUSED = "refused"
    UNKNOWN = "unknown"  # unknown_outcome, or no answer


@dataclass
class Write:
    """One write with its key; `texts` has several for an atomic batch."""

    key: str
    texts: tuple[str, ...]
    fate: Fate = Fate.UNKNOWN
    ids: tuple[str, ...] = ()
    reason: str = ""

    @property
    def call(self) -> tuple[str, dict[str, Any]]:
        memories = [{"kind": "raw", "subtype": "capture", "origin": "stated", "text": text} for text in self.texts]
        if len(memories) == 1:
            return "remember", {**memories[0], "idempotency_key": self.key}
        return "remember_many", {"items": memories, "idempotency_key": self.key}


def wave(name: str) -> list[Write]:
    """The writes of one wave, in the order in which they are sent."""
    singles = [Write(f"{name}.{at}", (f"{MARK} {name}.{at}",)) for at in range(SINGLES)]
    batch = Write(f"{name}.batch", tuple(f"{MARK} {name}.batch.{at}" for at in range(BATCH)))
    return [*singles[:3], batch, *singles[3:]]


def ids_of(result: dict[str, Any]) -> tuple[str, ...]:
    """The ids in the result of `remember` or `remember_many`."""
    return tuple(each["id"] for each in result.get("results", [result]))


@dataclass
class Sent:
    """What was sent on one connection, and whether an answer was waited for in vain."""

    writes: list[Write]
    hung: bool = False


def send(path: Path, name: str, waves: int) -> Sent:
    """Send waves until one is not acked whole."""
    sent = Sent([])
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
            stream.settimeout(ANSWER_WITHIN_S)
            stream.connect(str(path))
            with stream.makefile("rb") as answers:
                for number in range(waves):
                    writes = wave(f"{name}.{number}")
                    sent.writes += writes
                    stream.sendall(b"".join(_line(at, write) for at, write in enumerate(writes)))
                    _await(answers, writes)
                    if any(write.fate is not Fate.ACKED for write in writes):
                        break
    except TimeoutError:
        sent.hung = True
    except OSError:
        pass  # the daemon is gone: what has no answer is unknown
    return sent


def _line(at: int, write: Write) -> bytes:
    method, params = write.call
    return json.dumps({"jsonrpc": "2.0", "id": at, "method": method, "params": params}).encode() + b"\n"


def _await(answers: Any, writes: list[Write]) -> None:
    for _ in writes:
        line = answers.readline()
        if not line.endswith(b"\n"):
            return
        _take(json.loads(line), writes)


def _take(answer: dict[str, Any], writes: list[Write]) -> None:
    write = writes[answer["id"]]
    if "result" in answer:
        write.fate, write.ids = Fate.ACKED, ids_of(answer["result"])
        return
    write.reason = answer["error"]["data"]["reason"]
    write.fate = Fate.UNKNOWN if write.reason == "unknown_outcome" else Fate.REFUSED

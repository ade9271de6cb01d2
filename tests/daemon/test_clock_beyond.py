"""A clock that stands beyond what times or ids can say: nothing is written, nothing breaks, and it goes on when it is
set right."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon.refusal import Reason, Refused
from tests.daemon.slept import START_MS, Slept, fact

YEAR_10000_MS = 253_402_300_800_000
BEYOND = [YEAR_10000_MS - 1, YEAR_10000_MS, 1 << 62, -(1 << 62), -62_135_596_800_001, 1 << 43]


@pytest.fixture
def slept(tmp_path: Path) -> Iterator[Slept]:
    opened = Slept(tmp_path / "state")
    try:
        yield opened
    finally:
        opened.close(True)


def writes(slept: Slept, turn: str, waiting: str) -> dict[str, Any]:
    raw = {"kind": "raw", "origin": "told", "text": "x"}
    return {
        "remember": lambda: slept.write("remember", raw),
        "remember_many": lambda: slept.write("remember_many", {"items": [raw]}),
        "forget": lambda: slept.write("forget", {"id": turn}),
        "verify": lambda: slept.write("verify", {"id": turn}),
        "session_open": lambda: slept.write("session_open", {"agent": "a", "key": "k"}),
        "session_close": lambda: slept.write("session_close", {"session": slept.ref()}),
        "revise": lambda: slept.write("revise", {"id": turn, "text": "y", "origin": "told"}),
        "pass": lambda: slept.commit([fact(waiting)]),
    }  # fmt: skip


@pytest.mark.parametrize("now_ms", BEYOND)
def test_nothing_is_written_while_the_clock_says_no_time(slept: Slept, now_ms: int) -> None:
    turn, waiting = slept.turns(2)
    head = slept.store.log.head().seq
    slept.now_ms = now_ms
    for verb, write in writes(slept, turn, waiting).items():
        if now_ms == 1 << 43 and verb not in ("remember", "remember_many", "session_open", "revise", "pass"):
            continue  # only ids can't say it
        with pytest.raises(Refused) as refused:
            write()
        assert refused.value.reason is Reason.UNAVAILABLE, verb
    assert slept.store.log.head().seq == head
    for verb, params in (
        ("get", {"ids": [turn]}), ("list", {}), ("sessions", {}), ("review", {"threshold": 1}), ("records", {}),
        ("session", {"session": slept.ref(), "include": ["turns", "passes", "derived"]}), ("trace", {"id": turn}),
        ("explain", {"id": turn}), ("history", {"id": turn}), ("audit", {"rebuild": True}),
    ):  # fmt: skip
        slept.read(verb, params)
    slept.now_ms = START_MS + 60_000
    slept.commit([fact(turn)])
    assert slept.rebuilt_alike()

"""Importers: a file becomes requests; what cites nothing is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from daemon.importers import locomo, turns
from daemon.importers.plan import Runner, UnknownShape

SAMPLE = {
    "sample_id": "s",
    "conversation": {
        "session_1_date_time": "12:05 am on 8 May, 2023",
        "session_2_date_time": "1:00 pm on 9 May, 2023",
        "session_1": [{"speaker": "A", "dia_id": f"D1:{n}", "text": "same"} for n in (1, 2)],
    },
    "observation": {"session_1_observation": {"A": [
        ["one", "D1:1"], ["two", ["D1:2", "D9:9"]], ["none", "D9:8"], ["both", ["D1:1", "D1:2"]],
    ]}},
}  # fmt: skip


class Store:
    """Answers like a daemon that knows keys."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[str, dict[str, Any]]] = {}

    def send(self, batch: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [self.one(request) for request in batch]

    def one(self, request: dict[str, Any]) -> dict[str, Any]:
        key = request["idempotency_key"]
        duplicate = key in self.rows
        known = self.rows.setdefault(key, (f"id:{len(self.rows)}", request))
        assert known[1] == request
        return {"id": known[0], "duplicate": duplicate}


def test_locomo_cites_exactly_and_twice_adds_nothing() -> None:
    store, items = Store(), locomo.read(json.dumps([SAMPLE]))
    report = Runner(store.send).run(items)
    assert (report.recognised, report.written, len(report.dangling), len(report.skipped)) == (6, 5, 2, 1)
    sources = [request.get("derived_from") for _, request in store.rows.values()]
    assert sources == [None, None, ["id:0"], ["id:1"], ["id:0", "id:1"]]
    assert items[0].request["occurred_at"] == "2023-05-08T00:05:00.000Z"
    assert items[0].request["session"] == {"agent": "locomo", "key": "s/session_1"}
    again = Runner(store.send).run(items)
    assert (again.written, again.duplicates) == (0, 5)


def test_turns_resolve_refs_above_and_report_the_rest() -> None:
    turn = {"session": "s", "agent": "a", "role": "user", "text": "x", "ref": "t1"}
    note = {"kind": "note", "text": "n", "origin": "derived", "derived_from": ["t1", "gone"]}
    store = Store()
    report = Runner(store.send).run(turns.read(f"{json.dumps(turn)}\n\n{json.dumps(note)}\n"))
    assert report.dangling == [{"where": "line 3", "ref": "gone"}] and report.written == 2
    assert list(store.rows.values())[1][1]["derived_from"] == ["id:0"]


@pytest.mark.parametrize("text", ("x", "[1]", '{"role": "user"}', '{"text": "x", "odd": 1}'))
def test_turns_of_another_shape(text: str) -> None:
    with pytest.raises(UnknownShape):
        turns.read(text)


@pytest.mark.parametrize("text", ("x", "{}", "[1]", '[{"sample_id": "s"}]'))
def test_locomo_of_another_shape(text: str) -> None:
    with pytest.raises(UnknownShape):
        locomo.read(text)

"""Importers: a file becomes requests; what cites nothing is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from daemon.importers import locomo, turns
from daemon.importers.plan import Plan, Runner, UnknownShape

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
    store, plan = Store(), locomo.read(json.dumps([SAMPLE]))
    items = plan.items
    report = Runner(store.send).run(plan)
    assert (report.recognised, report.written, len(report.dangling), len(report.skipped)) == (6, 5, 2, 1)
    sources = [request.get("derived_from") for _, request in store.rows.values()]
    assert sources == [None, None, ["id:0"], ["id:1"], ["id:0", "id:1"]]
    assert items[0].request["occurred_at"] == "2023-05-08T00:05:00.000Z"
    assert items[0].request["session"] == {"agent": "locomo", "key": "s/session_1"}
    again = Runner(store.send).run(plan)
    assert (again.written, again.duplicates) == (0, 5)


def test_turns_resolve_refs_above_and_report_the_rest() -> None:
    first, second = turn("x", "t1"), note("n", "n1", "t1", "gone")
    store = Store()
    report = Runner(store.send).run(turns.read(f"{json.dumps(first)}\n\n{json.dumps(second)}\n"))
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


def test_locomo_says_which_fields_it_leaves_out() -> None:
    turn = {"speaker": "A", "dia_id": "D1:1", "text": "x", "blip_caption": "a cat", "img_url": ["u"]}
    sample = {**SAMPLE, "qa": [], "conversation": {**SAMPLE["conversation"], "session_1": [turn, turn]}}  # type: ignore[dict-item]
    assert locomo.read(json.dumps([sample])).skipped == (
        "blip_caption of a turn: 2, not imported",
        "img_url of a turn: 2, not imported",
        "qa of a sample: 1, not imported",
    )


class Refusing(Store):
    """Refuses what says `bad`, as a daemon refuses an edited line whose key is known."""

    def send(self, batch: list[dict[str, Any]]) -> list[dict[str, Any]]:
        error = {"message": "m", "data": {"reason": "conflict", "parameter": "idempotency_key", "index": 0}}
        return [{"error": error} if request["text"] == "bad" else self.one(request) for request in batch]


def lines(*rows: dict[str, Any]) -> Plan:
    return turns.read("\n".join(json.dumps(row) for row in rows))


def note(text: str, ref: str, *cited: str) -> dict[str, Any]:
    return {"kind": "note", "text": text, "origin": "derived", "ref": ref, "derived_from": list(cited)}


def turn(text: str, ref: str) -> dict[str, Any]:
    return {"session": "s", "agent": "a", "role": "user", "text": text, "ref": ref}


def test_what_cites_a_refused_line_is_refused_and_not_written() -> None:
    store = Refusing()
    plan = lines(turn("bad", "t1"), turn("good", "t2"), note("both", "n1", "t1", "t2"), note("on it", "n2", "n1"))
    report = Runner(store.send).run(plan)
    assert [request["text"] for _, request in store.rows.values()] == ["good"]
    assert [(row["where"], row["reason"]) for row in report.refused] == [
        ("line 1", "conflict"),
        ("line 3", "provenance"),
        ("line 4", "provenance"),
    ]
    assert report.refused[1]["ref"] == "t1" and report.dangling == []
    assert report.recognised == report.written + report.duplicates + len(report.refused)


def test_a_refused_line_names_what_the_refusal_names() -> None:
    report = Runner(Refusing().send).run(lines(turn("bad", "t1")))
    assert report.refused == [
        {"where": "line 1", "reason": "conflict", "message": "m", "parameter": "idempotency_key"},
    ]


def test_an_evidence_that_was_refused_refuses_the_line_too() -> None:
    store = Refusing()
    row = {**note("n", "n1", "t2"), "evidence": ["t1"]}
    report = Runner(store.send).run(lines(turn("bad", "t1"), turn("good", "t2"), row))
    assert [request["text"] for _, request in store.rows.values()] == ["good"] and len(report.refused) == 2

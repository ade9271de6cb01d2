"""trace: both ways, each memory once, whole or marked as cut."""

from __future__ import annotations

from typing import Any

import pytest

from daemon.reads import lineage
from daemon.refusal import Reason
from tests.daemon.told import Told, reason_of


def traced(told: Told, ref: str, **more: Any) -> dict[str, Any]:
    return dict(told.read("trace", {"id": ref, **more}))


def refs(result: dict[str, Any]) -> list[str]:
    return [node["ref"] for node in result["nodes"]]


def belief(told: Told, *sources: str) -> str:
    made = {"kind": "belief", "origin": "derived", "text": "so it is", "derived_from": list(sources)}
    return str(told.write("remember", made)["id"])


def chain(told: Told, length: int) -> tuple[str, list[str]]:
    """A turn, a note made from it, and revisions of that: `(turn, versions)`."""
    turn = told.raw()
    versions = [told.note(turn)]
    while len(versions) < length:
        how = ("supersedes", "updates")[len(versions) % 2]
        versions.append(
            told.do("revise", versions[-1], disposition=how, text=f"v{len(versions)}", origin="derived")["id"]
        )
    return turn, versions


def test_a_diamond_is_walked_once_and_has_all_its_edges(told: Told) -> None:
    turn = told.raw()
    left, right = told.note(turn), told.note(turn)
    top = belief(told, left, right)
    up = traced(told, top)
    assert refs(up) == [top, left, right, turn] and not up["truncated"]
    assert [node["depth"] for node in up["nodes"]] == [0, 1, 1, 2]
    pairs = [(top, left), (top, right), (left, turn), (right, turn)]
    assert [(edge["from"], edge["to"]) for edge in up["edges"]] == pairs
    down = traced(told, turn, direction="dependents")
    assert refs(down) == [turn, left, right, top]
    assert sorted((edge["from"], edge["to"]) for edge in down["edges"]) == sorted(pairs), "as stored, both ways"


def test_a_chain_of_revisions_is_walked_twenty_deep_and_on_when_asked(told: Told) -> None:
    turn, versions = chain(told, 30)
    whole = traced(told, versions[-1], depth=1000)
    assert refs(whole) == [*reversed(versions), turn] and not whole["truncated"]
    assert {edge["type"] for edge in whole["edges"]} == {"derived_from", "supersedes", "updates"}
    twenty = traced(told, versions[-1])
    assert refs(twenty) == refs(whole)[:21] and twenty["truncated"]
    down = traced(told, turn, direction="dependents", depth=1000)
    assert refs(down) == [turn, *versions]
    assert [node["status"] for node in down["nodes"][1:]] == ["superseded"] * 29 + ["active"]


@pytest.mark.parametrize("direction", ["sources", "dependents"])
def test_the_depth_that_just_reaches_the_end_cuts_nothing(told: Told, direction: str) -> None:
    turn, versions = chain(told, 4)
    root = versions[-1] if direction == "sources" else turn
    for depth in range(1, 6):
        result = traced(told, root, direction=direction, depth=depth)
        assert (len(result["nodes"]), result["truncated"]) == (min(depth, 4) + 1, depth < 4)


def test_what_lies_outside_and_is_cut_off_is_said(told: Told) -> None:
    turn = told.raw()
    note = told.note(turn, {"kind": "url", "id": "https://example.org/a"})  # type: ignore[arg-type]
    top = belief(told, note)
    whole = traced(told, top, depth=2)
    assert refs(whole) == [top, note, turn, "url:https://example.org/a"] and not whole["truncated"]
    outside = whole["nodes"][-1]
    assert (outside["kind"], outside["status"], outside["origin"], outside["confidence"]) == ("url", "live", None, None)
    cut = traced(told, top, depth=1)
    assert refs(cut) == [top, note] and cut["truncated"]
    raw = told.raw("on a document", derived_from=[{"kind": "document", "id": "d", "resolvable": False}])
    only = told.note(raw)
    assert traced(told, only, depth=1)["truncated"], "only something outside lies beyond"
    assert traced(told, only, depth=2)["nodes"][-1]["status"] == "unavailable"


def test_ten_thousand_dependents_are_all_there(told: Told) -> None:
    turn = told.raw()
    note = {"kind": "note", "origin": "inferred", "text": "n", "derived_from": [turn]}
    made = [
        row["id"]
        for _ in range(10)
        for row in told.write("remember_many", {"items": [note] * 1000})["results"]
    ]  # fmt: skip
    result = traced(told, turn, direction="dependents")
    assert refs(result) == [turn, *made] and len(result["edges"]) == 10_000 and not result["truncated"]
    assert len(told.memory(turn)["processed_into"]) == 10_000


def test_dependents_of_every_kind_are_found(told: Told) -> None:
    turn = told.raw()
    episode, note = (
        told.write("remember", {"kind": kind, "origin": "derived", "text": kind, "derived_from": [turn]})["id"]
        for kind in ("episode", "note")
    )
    held = belief(told, note)
    made = {"value": held, "goal": held, "drive": held, "relationship": episode, "procedure": note}
    others = [
        told.write("remember", {"kind": kind, "origin": "derived", "text": kind, "derived_from": [source]})["id"]
        for kind, source in made.items()
    ]
    assert set(refs(traced(told, turn, direction="dependents"))) == {turn, episode, note, held, *others}


def test_more_than_a_line_can_carry_is_marked(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    turn = told.raw()
    notes = [told.note(turn) for _ in range(5)]
    monkeypatch.setattr(lineage, "MAX_NODES", 4)
    cut = traced(told, turn, direction="dependents")
    assert refs(cut) == [turn, *notes[:3]] and len(cut["edges"]) == 3 and cut["truncated"]
    monkeypatch.setattr(lineage, "MAX_EDGES", 2)
    cut = traced(told, turn, direction="dependents")
    assert len(cut["edges"]) == 2 and cut["truncated"]


def test_other_edges_are_no_lineage(told: Told) -> None:
    one, other = told.raw("one"), told.raw("other", evidence=[told.raw("support")])
    told.write("relate", {"from": one, "to": other, "type": "extends"})
    told.write("relate", {"from": one, "to": other, "type": "contradicts"})
    for ref in (one, other):
        for direction in ("sources", "dependents"):
            assert traced(told, ref, direction=direction)["edges"] == []


def test_a_root_is_found_and_a_part_of_an_id_is_not(told: Told) -> None:
    turn = told.raw()
    assert refs(traced(told, turn)) == [turn]
    for other in (turn[:-1] + ("0" if turn[-1] != "0" else "1"), turn.replace("raw:", "note:")):
        assert reason_of(lambda other=other: traced(told, other))[0] is Reason.NOT_FOUND
    for part in (turn[:-1], turn[4:], "raw:", turn + "0"):
        assert reason_of(lambda part=part: traced(told, part))[0] is Reason.INVALID_INPUT


def test_the_tree_of_a_trace_shows_status_and_confidence_and_each_memory_once(told: Told) -> None:
    from daemon.cli import render

    turn = told.raw()
    left, right = told.note(turn), told.note(turn)
    top = belief(told, left, right)
    told.do("forget", left)
    assert render.render(traced(told, top), "trace").split("\n") == [
        f"{top} [80%] derived active",
        f"  -> derived_from {left} [80%] inferred forgotten",
        f"    -> derived_from {turn} [80%] stated active",
        f"  -> derived_from {right} [80%] inferred active",
        f"    -> derived_from {turn} (above)",
    ]

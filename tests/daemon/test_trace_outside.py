"""What a trace tells of sources outside the store, and which memories say that they have such."""

from __future__ import annotations

from typing import Any

import pytest

from journal.tsid import parse_memory_ref
from projections.rows import FROM_OUTSIDE
from tests.daemon.told import Told

URL = {"kind": "url", "id": "https://example.org/a"}
DOCUMENT = {"kind": "document", "id": "handbook"}


def outside(told: Told, ref: str) -> int:
    with told.projections.snapshot() as snapshot:
        value = snapshot.get("memories", parse_memory_ref(ref)[1].to_bytes(8, "big"))
    assert value is not None
    return int.from_bytes(value[126:128], "little") & FROM_OUTSIDE


@pytest.mark.parametrize(
    ("fields", "said", "told_refs"),
    [
        ({}, 0, []),
        ({"evidence": [URL]}, 0, []),
        ({"derived_from": [URL]}, 1, ["url:https://example.org/a"]),
        ({"derived_from": [URL, DOCUMENT]}, 1, ["url:https://example.org/a", "document:handbook"]),
        ({"derived_from": [DOCUMENT], "evidence": [URL]}, 1, ["document:handbook"]),
    ],
    ids=["nothing", "evidence only", "one", "two", "both"],
)
def test_only_what_it_was_derived_from_is_told(
    told: Told, fields: dict[str, Any], said: int, told_refs: list[str]
) -> None:
    ref = told.raw("read somewhere", **fields)
    assert outside(told, ref) == said
    found = told.read("trace", {"id": ref})
    assert [node["ref"] for node in found["nodes"]] == [ref, *told_refs]
    assert [(edge["from"], edge["to"]) for edge in found["edges"]] == [(ref, other) for other in told_refs]
    assert told.rebuilt_alike()


def test_it_is_told_through_the_memories_made_of_it(told: Told) -> None:
    turn = told.raw("read somewhere", derived_from=[URL])
    other = told.raw("seen elsewhere")
    note = told.note(turn, other)
    found = told.read("trace", {"id": note})
    assert [node["ref"] for node in found["nodes"]] == [note, turn, other, "url:https://example.org/a"]
    told.do("forget", turn)
    assert outside(told, turn) == 1, "kept by what changes the row"
    assert "url:https://example.org/a" in [node["ref"] for node in told.read("trace", {"id": note})["nodes"]]
    down = told.read("trace", {"id": turn, "direction": "dependents"})
    assert [node["ref"] for node in down["nodes"]] == [turn, note]

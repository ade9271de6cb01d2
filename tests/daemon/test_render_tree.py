"""A trace as a tree: one direction for the whole walk, and a depth that is always to be seen."""

from __future__ import annotations

from typing import Any

import pytest

from daemon.cli import render
from tests.daemon.screens import terminal


def node(ref: str, depth: int, status: str = "active") -> dict[str, Any]:
    return {"ref": ref, "origin": "derived", "status": status, "depth": depth, "confidence": None}


def told(root: str, nodes: dict[str, int], edges: list[tuple[str, str, str]]) -> list[str]:
    result = {
        "root": root, "nodes": [node(*each) for each in nodes.items()], "truncated": False,
        "edges": [{"from": made, "to": source, "type": word} for made, word, source in edges],
    }  # fmt: skip
    return render.render(result, "trace").split("\n")


EDGES = [
    ("goal:g", "derived_from", "episode:e"),
    ("goal:g", "derived_from", "belief:2"),
    ("belief:2", "supersedes", "belief:1"),
    ("belief:1", "derived_from", "episode:e"),
]
"""The episode is nearer to the goal than the belief that was made from it."""


def test_a_walk_to_the_sources_has_one_direction_also_where_an_edge_leads_to_a_node_nearer_the_root() -> None:
    assert told("goal:g", {"goal:g": 0, "episode:e": 1, "belief:2": 1, "belief:1": 2}, EDGES) == [
        "goal:g derived active",
        "  -> derived_from episode:e derived active",
        "  -> derived_from belief:2 derived active",
        "    -> supersedes belief:1 derived active",
        "      -> derived_from episode:e (above)",
    ]


def test_a_walk_to_the_dependents_has_the_other_direction() -> None:
    edges = [EDGES[3], EDGES[0], EDGES[2], EDGES[1]]
    assert told("episode:e", {"episode:e": 0, "belief:1": 1, "goal:g": 1, "belief:2": 2}, edges) == [
        "episode:e derived active",
        "  <- derived_from belief:1 derived active",
        "    <- supersedes belief:2 derived active",
        "      <- derived_from goal:g derived active",
        "  <- derived_from goal:g (above)",
    ]


def chain(length: int) -> list[str]:
    nodes = {f"note:{n}": n for n in range(length + 1)}
    return told("note:0", nodes, [(f"note:{n}", "derived_from", f"note:{n + 1}") for n in range(length)])


def test_a_line_that_is_set_in_no_further_says_how_deep_it_is() -> None:
    lines = chain(20)
    assert lines[11] == "  " * 11 + "-> derived_from note:11 derived active"
    assert [line.split()[0] for line in lines[12:]] == [f"[{depth}]" for depth in range(12, 21)]
    assert not any("[" in line for line in lines[:12])


@pytest.mark.parametrize("wide", [20, 30, 40])
def test_a_narrow_terminal_says_the_depth_sooner(wide: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(wide, monkeypatch):
        lines = chain(20)
    assert max(map(len, lines)) <= wide and any("[9]" in line for line in lines)

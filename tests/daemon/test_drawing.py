"""A trace as a picture: Mermaid, DOT, SVG. Every node and edge is in it, and no label can break out of its quotes."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import pytest

from daemon.cli import draw_svg, draw_text, entry, exits, tracing

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = (
    'quote " and \\ back', "</text><script>alert(1)</script>", "two\nlines\r\tand a tab", "]] --> x[(evil)]",
    "nul \x00 esc \x1b[31m del \x7f", "\u202eright to left", "\ufffe\uffff",
    "`code` #quot; %% ${x}", "&amp; <b> '", "日本語 🧠",
    'a"];\n n9 [label="b', "x" * 2048,
)  # fmt: skip


def node(ref: str, depth: int, status: str = "active", **more: Any) -> dict[str, Any]:
    found = {"ref": ref, "kind": ref.partition(":")[0], "status": status, "origin": "derived", "depth": depth}
    return {**found, "at": None, "confidence": 0.8, **more}


def edge(made: str, source: str, kind: str = "derived_from") -> dict[str, str]:
    return {"from": made, "to": source, "type": kind}


def result(nodes: list[dict[str, Any]], edges: list[dict[str, str]], truncated: bool = False) -> dict[str, Any]:
    return {"root": nodes[0]["ref"], "nodes": nodes, "edges": edges, "truncated": truncated}


DIAMOND = result(
    [node("belief:1", 0), node("note:2", 1), node("note:3", 1, "forgotten"), node("raw:4", 2)],
    [
        edge("belief:1", "note:2"),
        edge("belief:1", "note:3"),
        edge("note:2", "raw:4"),
        edge("note:3", "raw:4", "updates"),
    ],
)


def hostile(text: str, truncated: bool = False) -> dict[str, Any]:
    outside = node(f"document:{text}", 1, origin=None, confidence=None)
    return result([node("note:1", 0), outside], [edge("note:1", outside["ref"])], truncated)


def test_mermaid_names_every_node_and_edge() -> None:
    assert draw_text.mermaid(DIAMOND).split("\n") == [
        "flowchart TD",
        '  n0["belief:1<br/>80% derived active"]',
        '  n1["note:2<br/>80% derived active"]',
        '  n2["note:3<br/>80% derived forgotten"]',
        '  n3["raw:4<br/>80% derived active"]',
        "  n0 -->|derived_from| n1",
        "  n0 -->|derived_from| n2",
        "  n1 -->|derived_from| n3",
        "  n2 -->|updates| n3",
        "  style n0 stroke-width:3px",
        "  style n2 fill:#eee,color:#666,stroke-dasharray:4",
    ]


def test_dot_names_every_node_and_edge() -> None:
    assert draw_text.dot(DIAMOND).split("\n") == [
        "digraph trace {",
        "  node [shape=box];",
        r'  n0 [label="belief:1\n80% derived active", style=bold];',
        r'  n1 [label="note:2\n80% derived active"];',
        r'  n2 [label="note:3\n80% derived forgotten", color=gray, fontcolor=gray];',
        r'  n3 [label="raw:4\n80% derived active"];',
        '  n0 -> n1 [label="derived_from"];',
        '  n0 -> n2 [label="derived_from"];',
        '  n1 -> n3 [label="derived_from"];',
        '  n2 -> n3 [label="updates"];',
        "}",
    ]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_what_a_writer_named_stays_within_its_label(text: str) -> None:
    lines = draw_text.mermaid(hostile(text)).split("\n")
    assert len(lines) == 5 and re.fullmatch(r'  n1\["[^"\[\]`<>]*<br/>active"\]', lines[2])
    lines = draw_text.dot(hostile(text)).split("\n")
    assert len(lines) == 6 and re.fullmatch(r'  n1 \[label="(?:[^"\\]|\\.)*"\];', lines[3])
    root = ElementTree.fromstring(draw_svg.svg(hostile(text)))
    assert {element.tag for element in root.iter()} <= {
        SVG + name for name in ("svg", "title", "style", "defs", "marker", "path", "line", "g", "rect", "text")
    }
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", draw_svg.svg(hostile(text)))


def boxes(picture: str) -> dict[str, tuple[float, float]]:
    """Where the box of each node begins."""
    root = ElementTree.fromstring(picture)
    found = {}
    for group in root.iter(SVG + "g"):
        box, title = group.find(SVG + "rect"), group.find(SVG + "title")
        assert box is not None and title is not None
        found[str(title.text)] = (float(box.get("x", "")), float(box.get("y", "")))
        assert 0 <= found[str(title.text)][0] <= float(root.get("width", "")) - draw_svg.BOX_WIDTH
        assert 0 <= found[str(title.text)][1] <= float(root.get("height", "")) - draw_svg.BOX_HEIGHT
    return found


def overlapping(found: dict[str, tuple[float, float]]) -> bool:
    spots = sorted(found.values(), key=lambda spot: (spot[1], spot[0]))
    return any(
        one[1] == other[1] and other[0] - one[0] < draw_svg.BOX_WIDTH
        for one, other in pairwise(spots)
    )  # fmt: skip


def test_svg_lays_a_layer_for_each_depth_and_nothing_over_another() -> None:
    picture = draw_svg.svg(DIAMOND)
    found = boxes(picture)
    assert list(found) == ["belief:1", "note:2", "note:3", "raw:4"] and not overlapping(found)
    layers = [found[ref][1] for ref in ("belief:1", "note:2", "note:3", "raw:4")]
    assert layers[0] < layers[1] == layers[2] < layers[3]
    assert picture.count("<line") == 4 and picture.count('class="v"') == 1 and 'class="d"' in picture


def test_svg_keeps_what_hangs_together_beside_each_other() -> None:
    nodes = [node("belief:0", 0), node("note:1", 1), node("note:2", 1), node("raw:3", 2), node("raw:4", 2)]
    edges = [edge("belief:0", "note:1"), edge("belief:0", "note:2"), edge("note:2", "raw:3"), edge("note:1", "raw:4")]
    found = boxes(draw_svg.svg(result(nodes, edges)))
    assert found["raw:4"][0] < found["raw:3"][0], "under what they hang from, so that the lines don't cross"


@pytest.mark.parametrize(("wide", "deep"), [(1000, 1), (1, 1000), (25, 3)])
def test_svg_takes_wide_and_deep_traces(wide: int, deep: int) -> None:
    nodes, edges = [node("raw:0", 0)], []
    for depth in range(1, deep + 1):
        for place in range(wide):
            nodes.append(node(f"note:{depth}-{place}", depth))
            edges.append(edge(nodes[-1]["ref"], nodes[max(0, len(nodes) - 1 - wide)]["ref"]))
    found = boxes(draw_svg.svg(result(nodes, edges)))
    assert len(found) == len(nodes) and not overlapping(found)
    assert max(x for x, _ in found.values()) < draw_svg.PER_ROW * (draw_svg.BOX_WIDTH + draw_svg.GAP_X)


@pytest.mark.parametrize("draw", [draw_text.mermaid, draw_text.dot, draw_svg.svg])
def test_a_trace_that_was_cut_says_so_in_the_picture(draw: Any) -> None:
    assert "truncated" in draw(hostile("x", True)) and "truncated" not in draw(hostile("x"))
    alone = draw(result([node("raw:1", 0)], []))
    assert "raw:1" in alone


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["trace", "raw:1", "--format", "svgg"], "(did you mean svg?)"),
        (["trace", "raw:1", "--format"], "--format needs a value"),
        (["trace", "raw:1", "--format=dot", "--json"], "told in one way"),
        (["trace", "--format", "dot"], "trace needs ID"),
        (["meta"], "meta trace|reverse|uncertain|orphans|verify"),
        (["meta", "orphan"], "did you mean orphans?"),
        (["meta", "uncertain", "raw:1"], "is too much"),
        (["meta", "trace", "raw:1", "--direction", "dependents"], "has no option --direction"),
    ],
)  # fmt: skip
def test_wrong_words_are_named(words: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(words) == exits.USAGE
    assert named in capsys.readouterr().err.replace("\n", " ")


def test_every_format_there_is_can_be_drawn() -> None:
    from importlib import import_module

    for place in tracing.FORMATS.values():
        module, _, name = place.partition(".")
        assert "raw:4" in getattr(import_module(f"daemon.cli.{module}"), name)(DIAMOND)


def test_meta_names_verbs_with_their_parameters() -> None:
    assert entry.request("meta", ["uncertain", "--threshold", "0.7"]) == (
        "review", {"what": ["uncertain"], "threshold": 0.7},
    )  # fmt: skip
    assert entry.request("meta", ["orphans"]) == ("review", {"what": ["orphans", "ungrounded"]})
    assert entry.request("meta", ["verify", "note", "1", "--evidence", "raw:2"]) == (
        "verify", {"id": "note:1", "evidence": ["raw:2"]},
    )  # fmt: skip
    for spelling in (["raw", "1"], ["raw:1"]):
        assert entry.request("meta", ["trace", *spelling, "--depth", "3"]) == (
            "trace", {"id": "raw:1", "direction": "sources", "depth": 3},
        )  # fmt: skip


def test_what_no_longer_holds_is_set_off_and_what_lives_outside_is_not() -> None:
    outside = node("url:https://x", 1, origin=None, confidence=None)
    told = result([node("note:1", 0), {**outside, "status": "live"}], [edge("note:1", outside["ref"])])
    gone = result([node("note:1", 0), {**outside, "status": "unavailable"}], [edge("note:1", outside["ref"])])
    for drawn, mark in ((draw_svg.svg, 'class="d"'), (draw_text.dot, " color=gray,"), (draw_text.mermaid, "fill:#eee")):
        assert mark not in drawn(told) and drawn(gone).count(mark) == 1


def test_a_revision_says_on_its_line_which_it_is() -> None:
    drawn = draw_svg.svg(DIAMOND)
    assert drawn.count(">updates</text>") == 1 and ">derived_from</text>" not in drawn

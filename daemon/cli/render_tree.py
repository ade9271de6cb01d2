"""A trace as a tree. Each node stands in full once; where it is met again only its name does.

An edge goes from what was made to its source: `-> derived_from` stands before a source of the line above,
`<- derived_from` before what was made from it.
"""

from __future__ import annotations

from typing import Any, Final

from daemon.cli.render_text import plain, wrap

DEEPEST: Final = 11
"""How deep a line is set in at most."""


def trace(result: dict[str, Any]) -> list[str]:
    nodes = {node["ref"]: node for node in result["nodes"]}
    below: dict[str, list[tuple[str, str]]] = {}  # what stands under a node, and how
    for edge in result["edges"]:
        near, far, arrow = edge["from"], edge["to"], "->"
        if _depth(nodes, near) > _depth(nodes, far):  # dependents are traced against the edge
            near, far, arrow = far, near, "<-"
        below.setdefault(near, []).append((far, f"{arrow} {edge['type']} "))
    lines: list[str] = []
    seen: set[str] = set()
    stack = [(result["root"], "", 0)]
    while stack:  # no recursion: a trace is up to 1000 deep
        ref, kind, depth = stack.pop()
        told = f"{plain(ref)} (above)" if ref in seen else _node(ref, nodes.get(ref))
        lines += wrap(kind + told, "  " * min(depth, DEEPEST))
        if ref not in seen:
            seen.add(ref)
            stack += [(far, word, depth + 1) for far, word in reversed(below.get(ref, []))]
    lines += [line for ref, node in nodes.items() if ref not in seen for line in wrap(_node(ref, node))]
    return lines + (["truncated: --depth goes deeper"] if result["truncated"] else [])


def _depth(nodes: dict[str, Any], ref: str) -> int:
    return int(nodes[ref]["depth"]) if ref in nodes else 1 << 30


def _node(ref: str, node: dict[str, Any] | None) -> str:
    if node is None:
        return plain(ref)
    sure = "" if node["confidence"] is None else f" [{node['confidence']:.0%}]"
    words = [plain(node[name]) for name in ("origin", "status") if node.get(name)]
    return " ".join([plain(ref) + sure, *words])

"""A trace as a tree. Each node stands in full once; where it is met again only its name does.

An edge goes from what was made to its source. A walk goes along all of them or against all of them, so one arrow holds
for the whole tree: `-> derived_from` stands before a source of the line above, `<- derived_from` before what was made
from it. Lines below `DEEPEST` are set in no further and begin with their depth instead: `[17]`.
"""

from __future__ import annotations

from typing import Any, Final

from daemon.cli.render_text import LEAST, plain, width, wrap

DEEPEST: Final = 11
"""How deep a line is set in at most."""


def trace(result: dict[str, Any]) -> list[str]:
    nodes = {node["ref"]: node for node in result["nodes"]}
    root = result["root"]
    # Nothing is its own source: what the root was made from is only asked for where no edge leads to it.
    against = any(edge["to"] == root for edge in result["edges"])
    near, far, arrow = ("to", "from", "<-") if against else ("from", "to", "->")
    below: dict[str, list[tuple[str, str]]] = {}  # what stands under a node, and how
    for edge in result["edges"]:
        below.setdefault(edge[near], []).append((edge[far], f"{arrow} {edge['type']} "))
    lines: list[str] = []
    seen: set[str] = set()
    stack = [(root, "", 0)]
    while stack:  # no recursion: a trace is up to 1000 deep
        ref, kind, depth = stack.pop()
        told = f"{plain(ref)} (above)" if ref in seen else _node(ref, nodes.get(ref))
        lines += _line(kind + told, depth)
        if ref not in seen:
            seen.add(ref)
            stack += [(deeper, word, depth + 1) for deeper, word in reversed(below.get(ref, []))]
    lines += [line for ref, node in nodes.items() if ref not in seen for line in wrap(_node(ref, node))]
    return lines + (["truncated: --depth goes deeper"] if result["truncated"] else [])


def _line(told: str, depth: int) -> list[str]:
    """One node of the tree. A narrow terminal sets in less, and says the depth sooner."""
    deepest = max(0, min(DEEPEST, (width() - LEAST) // 4))
    if depth > deepest:
        told = f"[{depth}] {told}"
    return wrap(told, "  " * min(depth, deepest))


def _node(ref: str, node: dict[str, Any] | None) -> str:
    if node is None:
        return plain(ref)
    sure = "" if node["confidence"] is None else f" [{node['confidence']:.0%}]"
    words = [plain(node[name]) for name in ("origin", "status") if node.get(name)]
    return " ".join([plain(ref) + sure, *words])

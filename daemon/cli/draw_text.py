"""A trace as Mermaid or DOT: text of which other programs make a picture.

What stands outside the store is named by its writer, so every label is escaped: none can end its own quotes. Nodes have
names of their own in it, `n0`, `n1`, …; the root is drawn bold, what is no longer active grey.
"""

from __future__ import annotations

import re
from typing import Any, Final

from daemon.cli.render_text import cleaned

ALIVE: Final = ("active", "live")
"""What holds; every other status is set off."""
_ENTITY = re.compile(r"[^\w :.,/%@+()=-]", re.ASCII)
"""What Mermaid might take for its own: it is written as the number of the character."""


def mermaid(result: dict[str, Any]) -> str:
    """A flowchart, from what was made to its sources."""
    names = _names(result)
    lines = ["flowchart TD"]
    for node in result["nodes"]:
        label = "<br/>".join(_ENTITY.sub(lambda found: f"#{ord(found[0])};", line) for line in label_of(node))
        lines.append(f'  {names[node["ref"]]}["{label}"]')
    for edge in result["edges"]:
        lines.append(f"  {names[edge['from']]} -->|{_word(edge['type'])}| {names[edge['to']]}")
    for node in result["nodes"]:
        looks = ["stroke-width:3px"] if node["ref"] == result["root"] else []
        looks += [] if node["status"] in ALIVE else ["fill:#eee", "color:#666", "stroke-dasharray:4"]
        lines += [f"  style {names[node['ref']]} {','.join(looks)}"] if looks else []
    return "\n".join(lines + (["  %% truncated: --depth goes deeper"] if result["truncated"] else []))


def dot(result: dict[str, Any]) -> str:
    """A directed graph, from what was made to its sources."""
    names = _names(result)
    lines = ["digraph trace {", "  node [shape=box];"]
    for node in result["nodes"]:
        bold = ", style=bold" if node["ref"] == result["root"] else ""
        bold += "" if node["status"] in ALIVE else ", color=gray, fontcolor=gray"
        label = r"\n".join(line.replace("\\", r"\\").replace('"', r"\"") for line in label_of(node))
        lines.append(f'  {names[node["ref"]]} [label="{label}"{bold}];')
    for edge in result["edges"]:
        lines.append(f'  {names[edge["from"]]} -> {names[edge["to"]]} [label="{_word(edge["type"])}"];')
    return "\n".join([*lines, *(["  // truncated: --depth goes deeper"] if result["truncated"] else []), "}"])


def label_of(node: dict[str, Any]) -> list[str]:
    """What stands in the box of a node: its name, and how it stands."""
    sure = [] if node["confidence"] is None else [f"{node['confidence']:.0%}"]
    words = [*sure, *(cleaned(str(node[name])) for name in ("origin", "status") if node.get(name))]
    return [cleaned(node["ref"]), " ".join(words)]


def _names(result: dict[str, Any]) -> dict[str, str]:
    return {node["ref"]: f"n{number}" for number, node in enumerate(result["nodes"])}


def _word(text: str) -> str:
    """The type of an edge: it is one of a few words, whatever a daemon answers."""
    return re.sub(r"\W", "_", text, flags=re.ASCII)

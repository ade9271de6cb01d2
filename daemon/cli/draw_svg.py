"""A trace as SVG, laid out by this file alone.

A layer for each depth, the root above. Within a layer nodes stand in the order of what they hang from, so that few
lines cross; a layer of many is broken into rows. Arrows go from what was made to its source;
revisions are dashed, and say which they are. So are the boxes of what is no longer active.
"""

from __future__ import annotations

from html import escape
from typing import Any, Final, NamedTuple

from daemon.cli.draw_text import ALIVE, label_of
from daemon.cli.render_text import clipped

BOX_WIDTH: Final = 184
BOX_HEIGHT: Final = 40
GAP_X: Final = 20
GAP_Y: Final = 56
ROW_GAP_Y: Final = 16
MARGIN: Final = 16
PER_ROW: Final = 24
"""How many boxes stand beside each other at most."""
LABEL_CHARACTERS: Final = 26
STYLE: Final = (
    "text{font:12px sans-serif;fill:#222}.s{fill:#666}rect{fill:#fff;stroke:#555}.r{stroke-width:3}"
    ".d{fill:#eee;stroke-dasharray:2}line{stroke:#888}.v{stroke-dasharray:5}"
)
_NO_XML = {0xFFFE: "?", 0xFFFF: "?"}


class Spot(NamedTuple):
    """The upper left corner of a box."""

    x: float
    y: float


def svg(result: dict[str, Any]) -> str:
    """One picture, as text."""
    spots, width, height = _laid_out(result)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}">',
        f"<title>{_text(result['root'])}</title>",
        f"<style>{STYLE}</style>",
        '<defs><marker id="a" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#888"/></marker></defs>',
    ]
    lines += [_line(edge, spots) for edge in result["edges"]]
    lines += [_box(node, spots[node["ref"]], node["ref"] == result["root"]) for node in result["nodes"]]
    if result["truncated"]:
        lines.append(f'<text class="s" x="{MARGIN}" y="{height - 6:g}">truncated: --depth goes deeper</text>')
    return "\n".join([*lines, "</svg>"])


def _laid_out(result: dict[str, Any]) -> tuple[dict[str, Spot], float, float]:
    """`(where each node stands, width, height)`."""
    layers: dict[int, list[str]] = {}
    for node in result["nodes"]:
        layers.setdefault(node["depth"], []).append(node["ref"])
    beside = min(PER_ROW, max(map(len, layers.values())))
    width = 2 * MARGIN + beside * BOX_WIDTH + (beside - 1) * GAP_X
    above = _hangs_from(result)
    spots: dict[str, Spot] = {}
    y: float = MARGIN
    for depth in sorted(layers):
        refs = layers[depth]
        places = {ref: _middle([spots[each].x for each in above.get(ref, ()) if each in spots]) for ref in refs}
        refs = sorted(refs, key=places.__getitem__)  # stable: the order of the walk decides the rest
        for first in range(0, len(refs), PER_ROW):
            row = refs[first : first + PER_ROW]
            x = (width - len(row) * BOX_WIDTH - (len(row) - 1) * GAP_X) / 2
            for ref in row:
                spots[ref] = Spot(x, y)
                x += BOX_WIDTH + GAP_X
            y += BOX_HEIGHT + ROW_GAP_Y
        y += GAP_Y - ROW_GAP_Y
    return spots, width, y - GAP_Y + MARGIN + (MARGIN if result["truncated"] else 0)


def _hangs_from(result: dict[str, Any]) -> dict[str, list[str]]:
    """By node those that an edge connects it to; which of them stand above is known when it is placed."""
    found: dict[str, list[str]] = {}
    for edge in result["edges"]:
        found.setdefault(edge["from"], []).append(edge["to"])
        found.setdefault(edge["to"], []).append(edge["from"])
    return found


def _middle(places: list[float]) -> float:
    return sum(places) / len(places) if places else 0.0


def _line(edge: dict[str, Any], spots: dict[str, Spot]) -> str:
    made, source = spots[edge["from"]], spots[edge["to"]]
    down = made.y <= source.y
    start, end = (made.y + BOX_HEIGHT, source.y) if down else (made.y, source.y + BOX_HEIGHT)
    form = "" if edge["type"] == "derived_from" else ' class="v"'
    ends = f'x1="{made.x + BOX_WIDTH / 2:g}" y1="{start:g}" x2="{source.x + BOX_WIDTH / 2:g}" y2="{end:g}"'
    line = f'<line{form} {ends} marker-end="url(#a)"><title>{_text(edge["type"])}</title></line>'
    if not form:
        return line
    x, y = (made.x + source.x + BOX_WIDTH) / 2 + 4, (start + end) / 2
    return f'{line}<text class="s" x="{x:g}" y="{y:g}">{_text(edge["type"])}</text>'


def _box(node: dict[str, Any], spot: Spot, is_root: bool) -> str:
    name, stands = label_of(node)
    classes = [word for word, holds in (("r", is_root), ("d", node["status"] not in ALIVE)) if holds]
    form = f' class="{" ".join(classes)}"' if classes else ""
    x, y = spot
    return (
        f"<g><title>{_text(name)}</title>"
        f'<rect{form} x="{x:g}" y="{y:g}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="4"/>'
        f'<text x="{x + 8:g}" y="{y + 17:g}">{_text(clipped(name, LABEL_CHARACTERS))}</text>'
        f'<text class="s" x="{x + 8:g}" y="{y + 32:g}">{_text(stands)}</text></g>'
    )


def _text(text: str) -> str:
    return escape(text.translate(_NO_XML))

"""The ground of people's output: one line of a value, local times, tables of at most 80 columns."""

from __future__ import annotations

import re
import textwrap
from datetime import datetime
from typing import Any

WIDTH = 80
STAMP = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def local(text: str) -> str:
    """A UTC time of the wire in the local zone."""
    return f"{datetime.fromisoformat(text).astimezone():%Y-%m-%d %H:%M:%S %Z}"


def short(text: Any) -> str:
    """A local time without its zone, which the line under the table says."""
    return f"{datetime.fromisoformat(text).astimezone():%m-%d %H:%M}" if STAMP.match(str(text)) else plain(text)


def zone_line() -> str:
    return f"times are {datetime.now().astimezone():%Z (%z)}"


def plain(value: Any) -> str:
    """A value as one line. Control characters of a text don't reach the terminal."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{name} {plain(item)}" for name, item in value.items())
    if isinstance(value, list):
        return ", ".join(plain(item) for item in value) or "-"
    text = str(value)
    return local(text) if STAMP.match(text) else CONTROL.sub("?", text).replace("\n", " ")


def wrap(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent + "  ") or [""]


def table(heads: tuple[str, ...], rows: list[list[str]]) -> list[str]:
    """Columns as wide as their widest cell; the last one takes what is left and wraps."""
    widths = [max(len(row[at]) for row in [list(heads), *rows]) for at in range(len(heads) - 1)]
    used = sum(widths) + 2 * len(widths)
    room = WIDTH - used
    out = []
    for row in [list(heads), *rows]:
        left = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False))
        if room < 20:  # nothing sensible fits beside the columns
            out += wrap(left.rstrip()) + wrap(row[-1], "    ")
            continue
        pieces = textwrap.wrap(row[-1], room) or [""]
        out.append(f"{left}  {pieces[0]}".rstrip())
        out += [" " * used + piece for piece in pieces[1:]]
    return out

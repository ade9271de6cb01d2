"""People's output: local times with their zone, lines of at most 80 columns."""

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


def render(result: Any) -> str:
    """A result as lines."""
    return "\n".join(_lines(result, ""))


def _lines(value: Any, indent: str) -> list[str]:
    out: list[str] = []
    for name, item in value.items() if isinstance(value, dict) else [("", value)]:
        if isinstance(item, list) and item and isinstance(item[0], dict):
            out.append(f"{indent}{name}:")
            for row in item:
                out += _wrap("; ".join(f"{k} {plain(v)}" for k, v in row.items() if v is not None), indent + "  ")
        else:
            out += _wrap(f"{name + ': ' if name else ''}{plain(item)}", indent)
    return out


def _wrap(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent + "  ") or [""]

"""The ground of people's output: one line of a value, local times, tables of at most 80 columns.

A column is one of the terminal: a wide character (CJK, most emoji) has two, a combining one none.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import datetime
from typing import Any

WIDTH = 80
STAMP = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
# Also what turns the direction of writing: it would let a text pass for another.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def columns(text: str) -> int:
    """How many columns of a terminal the text takes."""
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def _columns_of(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def padded(text: str, width: int) -> str:
    return text + " " * (width - columns(text))


def local(text: str) -> str:
    """A UTC time of the wire in the local zone."""
    return f"{datetime.fromisoformat(text).astimezone():%Y-%m-%d %H:%M:%S %Z}"


def short(text: Any) -> str:
    """A local time without its zone, which the line under the table says; with its year unless it is this one."""
    if not STAMP.match(str(text)):
        return plain(text)
    at = datetime.fromisoformat(text).astimezone()
    this_year = at.year == datetime.now().astimezone().year
    return f"{at:%m-%d %H:%M}" if this_year else f"{at:%Y-%m-%d %H:%M}"


def zone_line() -> str:
    return f"times are {datetime.now().astimezone():%Z (%z)}"


def cleaned(text: str) -> str:
    """A text as one line. Its control characters don't reach the terminal."""
    return CONTROL.sub("?", text).replace("\n", " ").replace("\t", " ")


def plain(value: Any) -> str:
    """A value as one line."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{name} {plain(item)}" for name, item in value.items())
    if isinstance(value, list):
        return ", ".join(plain(item) for item in value) or "-"
    text = str(value)
    return local(text) if STAMP.match(text) else cleaned(text)


def fold(text: str, room: int, later: int | None = None) -> list[str]:
    """Lines of at most `room` columns (`later` from the second on), broken at blanks; longer words are cut."""
    lines: list[str] = []
    line = ""
    for word in text.split():
        if line and columns(line) + 1 + columns(word) <= room:
            line += " " + word
            continue
        if line:
            lines.append(line)
            room = room if later is None else later
        while columns(word) > room:
            lines.append(start(word, room))
            word = word[len(lines[-1]) :]
            room = room if later is None else later
        line = word
    return [*lines, line] if line or not lines else lines


def start(text: str, room: int) -> str:
    """As many characters as fit, at least one."""
    used = 0
    for place, character in enumerate(text):
        used += _columns_of(character)
        if used > room and place:
            return text[:place]
    return text


def wrap(text: str, indent: str = "") -> list[str]:
    first, *rest = fold(text, WIDTH - len(indent), WIDTH - len(indent) - 2)
    return [indent + first if first else "", *(indent + "  " + line for line in rest)]


def verbatim(text: str, indent: str) -> list[str]:
    """A text with its own lines and blanks; only lines that don't fit are broken."""
    out: list[str] = []
    for line in text.split("\n"):
        whole = CONTROL.sub("?", line.removesuffix("\r").expandtabs(4)).rstrip()
        fits = columns(whole) <= WIDTH - len(indent)
        out += [(indent + piece).rstrip() for piece in ([whole] if fits else fold(whole, WIDTH - len(indent)))]
    return out


def table(heads: tuple[str, ...], rows: list[list[str]]) -> list[str]:
    """Columns as wide as their widest cell; the last one takes what is left and wraps."""
    widths = [max(columns(row[at]) for row in [list(heads), *rows]) for at in range(len(heads) - 1)]
    used = sum(widths) + 2 * len(widths)
    room = WIDTH - used
    out = []
    for row in [list(heads), *rows]:
        left = "  ".join(padded(cell, width) for cell, width in zip(row, widths, strict=False))
        if room < 20:  # nothing sensible fits beside the columns
            out += wrap(left.rstrip()) + wrap(row[-1], "    ")
            continue
        pieces = fold(row[-1], room)
        out.append(f"{left}  {pieces[0]}".rstrip())
        out += [" " * used + piece for piece in pieces[1:]]
    return out

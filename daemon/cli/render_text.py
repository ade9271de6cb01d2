"""The ground of people's output: one line of a value, local times, tables that fit the terminal.

A column is one of the terminal: a wide character (CJK, most emoji) has two, a combining one none. Where terminals
differ the wider count is taken: a line may end early, and never breaks the table.
"""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, TextIO

WIDTH: Final = 80
"""Of what is no terminal, and of help texts."""
LEAST: Final = 20
"""Columns that something takes at least: a terminal may be narrower, and breaks the lines itself."""
EMOJI_STYLE: Final = "\ufe0f"
"""Behind a character of one column it asks for a picture, which takes two."""
STAMP = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
# Also what turns the direction of writing: it would let a text pass for another.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def width(stream: TextIO | None = None) -> int:
    """What COLUMNS says, else the columns of the terminal that a stream is (standard output, if none is given), else
    80. Shells don't hand COLUMNS on by themselves: whoever does wants it, also of a pipe."""
    stream = sys.stdout if stream is None else stream
    told = os.environ.get("COLUMNS", "")
    try:
        if told.isascii() and told.isdecimal() and int(told):
            return max(LEAST, int(told))
        if not stream.isatty():
            return WIDTH
        found = os.get_terminal_size(stream.fileno()).columns
    except (AttributeError, ValueError, OSError):  # closed, replaced, or a device that has no size
        return WIDTH
    return max(LEAST, found) if found else WIDTH


def columns(text: str) -> int:
    """How many columns of a terminal the text takes."""
    return len(text) if text.isascii() else sum(map(_columns_of, text))


@lru_cache(maxsize=8192)  # a text has few characters, each many times
def _columns_of(character: str) -> int:
    if character == EMOJI_STYLE or character == "\u00ad":  # a soft hyphen is shown
        return 1
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
    return _told(text, "%H:%M")


def precise(text: Any) -> str:
    """The same, to the second."""
    return _told(text, "%H:%M:%S")


def _told(text: Any, clock: str) -> str:
    if not STAMP.match(str(text)):
        return plain(text)
    at = datetime.fromisoformat(text).astimezone()
    this_year = at.year == datetime.now().astimezone().year
    return at.strftime(f"%m-%d {clock}" if this_year else f"%Y-%m-%d {clock}")


def zone_line(times: Iterable[Any] = ()) -> str:
    """Which zone the local times are in: a year has two, where summer time is kept."""
    found = [datetime.fromisoformat(text).astimezone() for text in map(str, times) if STAMP.match(text)]
    zones = dict.fromkeys(f"{at:%Z (%z)}" for at in found or [datetime.now().astimezone()])
    return f"times are {' or '.join(zones)}"


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


def clipped(text: str, room: int) -> str:
    """One that is longer than `room` columns ends with an ellipsis."""
    return text if columns(text) <= room else start(text, room - 1) + "…"


def start(text: str, room: int) -> str:
    """As many characters as fit, at least one."""
    used = 0
    for place, character in enumerate(text):
        used += _columns_of(character)
        if used > room and place:
            return text[:place]
    return text


def wrap(text: str, indent: str = "", room: int | None = None) -> list[str]:
    """Lines of at most `room` columns, else as wide as the terminal; from the second on two columns further in."""
    room = (width() if room is None else room) - len(indent)
    first, *rest = fold(text, room, max(1, room - 2))
    return [indent + first if first else "", *(indent + "  " + line for line in rest)]


def verbatim(text: str, indent: str) -> list[str]:
    """A text with its own lines and blanks; only lines that don't fit are broken."""
    out: list[str] = []
    room = width() - len(indent)
    for line in text.split("\n"):
        whole = CONTROL.sub("?", line.removesuffix("\r").expandtabs(4)).rstrip()
        fits = columns(whole) <= room
        out += [(indent + piece).rstrip() for piece in ([whole] if fits else fold(whole, room))]
    return out


def table(heads: tuple[str, ...], rows: list[list[str]], lines: int = 0) -> list[str]:
    """Columns as wide as their widest cell; the last one takes what is left and wraps.

    Where less than `LEAST` is left for it, or in a row where it would take more than `lines`, it stands under them.
    """
    widths = [max(columns(row[at]) for row in [list(heads), *rows]) for at in range(len(heads) - 1)]
    room = width() - sum(widths) - 2 * len(widths)
    out: list[str] = []
    for row in [list(heads), *rows]:
        left = "  ".join(padded(cell, wide) for cell, wide in zip(row, widths, strict=False))
        beside = room >= LEAST and (not lines or columns(row[-1]) <= lines * room)
        out += _beside(left, row[-1], room) if beside else _under(left.rstrip(), row[-1])
    return out


def _beside(left: str, last: str, room: int) -> list[str]:
    first, *rest = fold(last, room)
    return [f"{left}  {first}".rstrip(), *(" " * (columns(left) + 2) + piece for piece in rest)]


def _under(left: str, last: str) -> list[str]:
    lines = [left] if columns(left) <= width() else wrap(left)
    return [*lines, *("    " + piece for piece in fold(last, width() - 4) if piece)]


def named(rows: Iterable[tuple[str, str]], indent: str = "") -> list[str]:
    """`name  value` lines, the values under each other; those without a value are left out."""
    kept = [(name, value) for name, value in rows if value]
    wide = max((len(name) for name, _ in kept), default=0) + 2
    out: list[str] = []
    for name, value in kept:
        pieces = fold(value, max(LEAST, width() - len(indent) - wide))
        out.append(f"{indent}{name.ljust(wide)}{pieces[0]}")
        out += [indent + " " * wide + piece for piece in pieces[1:]]
    return out


def sized(size: int | None) -> str:
    """Bytes in a unit that people read; nothing for None."""
    if size is None:
        return ""
    if size < 1 << 10:
        return f"{size} bytes"
    amount, units = float(size), iter(("KiB", "MiB", "GiB", "TiB"))
    unit = ""
    while amount >= 1 << 10 and (following := next(units, None)):
        amount, unit = amount / (1 << 10), following
    return f"{amount:.1f} {unit}"


def lasted(took_ms: int) -> str:
    """A duration in a unit that people read."""
    if took_ms < 1000:
        return f"{took_ms} ms"
    seconds = took_ms / 1000
    return f"{seconds:.1f} s" if seconds < 60 else f"{int(seconds // 60)} min {int(seconds % 60)} s"


def counted(number: int, one: str, many: str = "") -> str:
    """`1 record`, `2 records`."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def some(items: list[Any], most: int = 3) -> str:
    """The first of a list, and how many more there are."""
    told = ", ".join(plain(item) for item in items[:most])
    return told if len(items) <= most else f"{told} and {len(items) - most} more"

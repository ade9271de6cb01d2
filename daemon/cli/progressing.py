"""How far long work is, as one line on standard error that is written over; nothing when that is no terminal.

ASCII only, at most 79 columns and fewer than the terminal has, so that it is one line in every locale.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

import noctuary
from daemon.cli.render_text import width

COLUMNS = 79
BAR = 24


def line_of(phase: str, done: int, of: int) -> str:
    """`fold         [#########...............]  38 %  380,000 of 1,000,000`."""
    share = min(1.0, max(0.0, done / of)) if of > 0 else 1.0
    filled = int(BAR * share)
    bar = "#" * filled + "." * (BAR - filled)
    name = phase.replace("_", " ").encode("ascii", "replace").decode()
    return f"{name:<12.12} [{bar}] {int(100 * share):>3} %  {done:,} of {of:,}"[:COLUMNS]


class Line:
    """One line at the bottom of a terminal. A terminal that can't be written to any more is no reason to stop."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._columns = 0

    def show(self, note: noctuary.Progress) -> None:
        self._write(
            line_of(note.phase, note.done, note.of)[: width(self._stream) - 1]
        )  # a full line would begin the next

    def clear(self) -> None:
        if self._columns:
            self._write("")
            self._columns = 0

    def _write(self, line: str) -> None:
        with suppress(OSError, ValueError):
            self._stream.write("\r" + line.ljust(self._columns) + ("" if line else "\r"))
            self._stream.flush()
        self._columns = max(self._columns, len(line))


def teller(on_progress: noctuary.OnProgress | None) -> Callable[[str, int, int], None]:
    """What work in this process is given to tell (phase, done, of)."""

    def tell(phase: str, done: int, of: int) -> None:
        if on_progress is not None:
            on_progress(noctuary.Progress(0, done, of, phase))

    return tell


@contextmanager
def shown() -> Iterator[noctuary.OnProgress | None]:
    """What to give a call as `on_progress`: None when nobody watches. The line is gone at the end."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    line = Line(sys.stderr)
    try:
        yield line.show
    finally:
        line.clear()

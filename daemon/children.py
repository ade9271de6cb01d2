"""A child process that works beside the daemon, followed line by line: folding and copying of projections.

Its standard input is a pipe that this process holds: it ends with this process, however that ends. What is written to
its standard error is of no use to anybody but the log's reader, and could be long: only its exit code is told.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

DEADLY = frozenset({signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE})
"""What a page that is none does to who reads it; any other signal came from outside."""
POLL_S = 0.1
_READ_BYTES = 1 << 12
_ROOT = Path(__file__).resolve().parents[1]


class Ended(NamedTuple):
    """How a child ended: its exit code, negative for a signal, and the words of its last line."""

    code: int
    last: tuple[str, ...]


def follow(module: str, words: Sequence[str], told: Callable[[tuple[str, ...]], None]) -> Ended:
    """Run `python -m module words…` to its end. `told` gets the words of each line, and none now and then: what it
    raises ends the child. Raises OSError when it can't be started.
    """
    child = subprocess.Popen(
        [sys.executable, "-m", module, *words], cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    with child:
        try:
            last = _lines(child, told)
            code = child.wait()
        finally:
            child.kill()  # does nothing to one that has ended
    return Ended(code, last)


def _lines(child: subprocess.Popen[bytes], told: Callable[[tuple[str, ...]], None]) -> tuple[str, ...]:
    """Read until it closes its output; the words of the last line."""
    assert child.stdout is not None
    last: tuple[str, ...] = ()
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(POLL_S):
                told(())
                continue
            data = os.read(child.stdout.fileno(), _READ_BYTES)
            if not data:
                return last
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                last = tuple(line.decode("ascii", "replace").split(" "))
                told(last)

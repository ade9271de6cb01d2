"""The command line on a pseudo-terminal of a given size: what a person would see, byte for byte."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import termios
from pathlib import Path

from tests.system.process import ENTRY, ROOT

WITHIN_S = 60.0


def on_terminal(words: list[str], columns: int, rows: int, environ: dict[str, str]) -> tuple[int, str]:
    """The exit code and all that was written to the terminal. `environ` is the whole environment."""
    ours, theirs = pty.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        process = subprocess.Popen(
            [*ENTRY, *words], cwd=ROOT, env=environ, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
    finally:
        os.close(theirs)
    written = bytearray()
    with contextlib.suppress(OSError):  # EIO: nobody has the other side open any more
        while piece := os.read(ours, 1 << 16):
            written += piece
    os.close(ours)
    return process.wait(WITHIN_S), written.decode("utf-8").replace("\r\n", "\n")


def environment(home: Path, **more: str) -> dict[str, str]:
    """One in which nothing of the tester's own shows."""
    own = ("NOCTUARY_", "XDG_", "LC_", "LANG", "COLUMNS", "PYTHONUNBUFFERED", "PYTHONUTF8", "PYTHONIOENCODING")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return {**kept, "PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": str(home / "no-config"), "TZ": "UTC", **more}

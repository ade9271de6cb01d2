"""Runs a module as if the machine had been started with another boot id.

    python -m ops.drills.crash.booted BOOT_ID_FILE MODULE ARGUMENTS…

The file stands in for the kernel's `boot_id`; nothing else is different.
"""

from __future__ import annotations

import runpy
import sys
import uuid
from pathlib import Path

import journal.layout


def new_boot(path: Path) -> Path:
    """A boot id that was never there before, in the kernel's form, as a file at `path`."""
    path.write_text(f"{uuid.uuid4()}\n", "ascii")
    return path


def boot_as(boot_id_file: Path) -> None:
    """From now on this process reads its boot id there."""
    journal.layout._BOOT_ID = boot_id_file


if __name__ == "__main__":
    boot_as(Path(sys.argv[1]))
    sys.argv = sys.argv[2:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)

"""What every benchmark reports: the machine, the table of rows, and where it is meanwhile."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ops.bench.peers import SYNC_MODES
from ops.bench.rows import Row


def machine(directory: Path) -> dict[str, Any]:
    """What the numbers depend on besides the code."""
    found = subprocess.run(
        ["findmnt", "-no", "FSTYPE,SOURCE,OPTIONS", "-T", str(directory)], capture_output=True, text=True
    )
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "kernel": platform.release(),
        "cores": os.cpu_count(),
        "processor": names[0].split(":", 1)[1].strip() if names else platform.machine(),
        "file_system": found.stdout.strip() or "unknown",
        "python": platform.python_version(),
        "fdatasync_us": _fdatasync_us(directory),
        "sync": {"noctuary": "journal fdatasync'd before each answer, batches of what waits", **SYNC_MODES},
    }


def _fdatasync_us(directory: Path) -> float:
    """Median of 200: append 4 KiB, fdatasync."""
    took = []
    with (directory / "sync-probe").open("wb", buffering=0) as probe:
        for _ in range(200):
            began = time.perf_counter()
            probe.write(bytes(4096))
            os.fdatasync(probe.fileno())
            took.append((time.perf_counter() - began) * 1e6)
    return sorted(took)[100]


def table(rows: list[Row]) -> str:
    lines = ["| row | what | unit | median | min–max | target | met |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        digits = 0 if row.median >= 100 else 2
        spread = f"{min(row.rounds):,.{digits}f}–{max(row.rounds):,.{digits}f}"
        met = "" if row.met is None else "yes" if row.met else "**no**"
        cells = (row.name, row.what, row.unit, f"{row.median:,.{digits}f}", spread, row.target or "", met)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def note(text: str) -> None:
    print(time.strftime("%H:%M:%S"), text, file=sys.stderr, flush=True)

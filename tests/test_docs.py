"""The generated sections of the documents say what the code says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]


def test_generated_sections_are_current() -> None:
    outcome = subprocess.run(
        [sys.executable, str(REPOSITORY / "ops" / "docs" / "generate.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr

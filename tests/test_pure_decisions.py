"""Deciding asks no clock, no random number, no file and no socket: it is given all that it needs."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
IMPURE = frozenset({"os", "random", "secrets", "socket", "time", "uuid", "tempfile", "subprocess", "threading"})
DECIDING = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*(ROOT / "daemon" / "commands").glob("*.py"), ROOT / "daemon/erasing.py", ROOT / "daemon/cascading.py")
)


@pytest.mark.parametrize("path", DECIDING)
def test_what_decides_imports_nothing_that_answers_differently_each_time(path: str) -> None:
    found: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add((node.module or "").partition(".")[0])
    assert not found & IMPURE

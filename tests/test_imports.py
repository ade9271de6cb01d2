"""The shape of the house, pinned: who may import whom, and how long a file may be.

Imports run daemon → relays → projections → journal and never back. The client `noctuary.py` is copied
alone into other projects, so it needs nothing but the standard library and msgspec. Files are parsed,
not imported: an import inside a function or under TYPE_CHECKING counts as well.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CLIENT = ROOT / "noctuary.py"
# From the top down: a package may import itself and what stands below it.
PACKAGES = ("daemon", "relays", "projections", "journal")
# The command line is a client too; nothing below the daemon has a reason to be one.
MAY_IMPORT_CLIENT = {"daemon"}
MAX_LINES = 450

FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imported_roots(source: str, module: str, is_package: bool) -> set[str]:
    """The top-level names that `source` imports; relative imports are resolved against `module`."""
    package = module.split(".") if is_package else module.split(".")[:-1]
    roots: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            roots.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level == 0:
                assert node.module is not None
                roots.add(node.module.split(".")[0])
            else:
                assert node.level <= len(package), f"{module} climbs out of its package"
                roots.add(package[0])
    return roots


def roots_of(path: Path) -> set[str]:
    parts = path.relative_to(ROOT).with_suffix("").parts
    is_package = parts[-1] == "__init__"
    module = ".".join(parts[:-1] if is_package else parts)
    return imported_roots(path.read_text(encoding="utf-8"), module, is_package)


def test_every_package_has_files() -> None:
    for package in PACKAGES:
        assert any(path.is_relative_to(ROOT / package) for path in FILES), package


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_imports_run_one_way(path: Path) -> None:
    own = path.relative_to(ROOT).parts[0]
    allowed = set(PACKAGES[PACKAGES.index(own) :])
    if own in MAY_IMPORT_CLIENT:
        allowed.add("noctuary")
    ours = roots_of(path) & {*PACKAGES, "noctuary", "tests", "ops"}
    assert ours <= allowed, f"{name_of(path)} must not import {sorted(ours - allowed)}"


def test_the_client_needs_only_msgspec() -> None:
    foreign = roots_of(CLIENT) - set(sys.stdlib_module_names) - {"msgspec"}
    assert not foreign, f"noctuary.py must not import {sorted(foreign)}"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_file_is_one_thing(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= MAX_LINES, f"{name_of(path)} has {lines} lines: it is two things by now"


def test_hidden_imports_are_seen() -> None:
    source = "def f():\n    import relays.cycle\n    from . import record\n    from projections import fold\n"
    assert imported_roots(source, "journal.log", False) == {"relays", "projections", "journal"}

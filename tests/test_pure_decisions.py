"""Deciding asks no clock, no random number, no file and no socket: it is given all that it needs.

Method: from all that the deciding modules say, names are followed into the project's other modules, definition by
definition; what is annotated only is not called. Methods of what is given (a view, a vault) are not followed: they are
what deciding is given.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("daemon", "projections", "journal", "relays")
IMPURE = frozenset({"os", "random", "secrets", "socket", "time", "uuid", "tempfile", "subprocess", "threading"})
DECIDING = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*(ROOT / "daemon" / "commands").glob("*.py"), ROOT / "daemon/erasing.py", ROOT / "daemon/cascading.py")
)


class Module:
    """What a module imports, `name → (module, name in it or None)`, and defines, `name → what is said there`."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.imported: dict[str, tuple[str, str | None]] = {}
        self.defined: dict[str, ast.AST] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self.imported[alias.asname or alias.name.partition(".")[0]] = (alias.name, None)
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                for alias in node.names:
                    self.imported[alias.asname or alias.name] = (node.module or "", alias.name)
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                self.defined[node.name] = node
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                self.defined.update((target.id, node) for target in targets if isinstance(target, ast.Name))


@cache
def module(dotted: str) -> Module | None:
    """None of what is not ours."""
    if dotted.partition(".")[0] not in PACKAGES:
        return None
    base = ROOT / dotted.replace(".", "/")
    path = base.with_suffix(".py") if base.with_suffix(".py").exists() else base / "__init__.py"
    return Module(ast.parse(path.read_text())) if path.exists() else None


def said(node: ast.AST) -> Iterator[tuple[str, str | None]]:
    """`(name, its attribute or None)` of each name that is read, without annotations."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        yield node.value.id, node.attr
        return
    if isinstance(node, ast.Name):
        yield node.id, None
        return
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from said(child)


def reached(start: str) -> Iterator[str]:
    """What impure is reached, and from where, out of everything that the module `start` says."""
    first = module(start)
    assert first is not None
    waiting: list[tuple[str, str, ast.AST]] = [(start, "", first.tree)]
    seen: set[tuple[str, str]] = set()

    def follow(dotted: str, name: str) -> None:
        """Wherever it is defined, through what only hands it on."""
        found = module(dotted)
        if found is None or (dotted, name) in seen:
            return
        seen.add((dotted, name))
        if name in found.defined:
            waiting.append((dotted, name, found.defined[name]))
        elif name in found.imported:
            follow(found.imported[name][0], found.imported[name][1] or "")

    while waiting:
        dotted, where, node = waiting.pop()
        here = module(dotted)
        assert here is not None
        for name, attribute in said(node):
            if name in here.imported:
                of, what = here.imported[name]
                if of.partition(".")[0] in IMPURE:
                    yield f"{dotted}.{where}: {of}.{attribute or what}"
                elif what is not None and module(f"{of}.{what}") is not None:
                    follow(f"{of}.{what}", attribute or "")
                else:
                    follow(of, what or attribute or "")
            elif name in here.defined:
                follow(dotted, name)


@pytest.mark.parametrize("path", DECIDING)
def test_what_decides_imports_nothing_that_answers_differently_each_time(path: str) -> None:
    found: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add((node.module or "").partition(".")[0])
    assert not found & IMPURE


@pytest.mark.parametrize("path", DECIDING)
def test_what_decides_reaches_nothing_that_answers_differently_each_time(path: str) -> None:
    assert sorted(set(reached(path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")))) == []


def test_the_look_finds_what_is_reached_through_others() -> None:
    """Who makes a store asks for random numbers, three modules away."""
    assert any("os.urandom" in each for each in reached("journal.creating"))

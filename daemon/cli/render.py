"""People's output: which form a verb's result has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from daemon.cli import render_block, render_rows, render_tree

FORMS: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "list": render_rows.memories,
    "sessions": render_rows.sessions,
    "session": render_rows.session,
    "trace": render_tree.trace,
    "get": render_block.memories,
    "remember_many": render_block.written,
    "head": render_block.short,
    "status": render_block.short,
    "audit": render_block.audit,
}


def render(result: Any, verb: str = "") -> str:
    """A result as lines."""
    form = FORMS.get(verb)
    return "\n".join(form(result) if form else render_block.block(result)).rstrip()

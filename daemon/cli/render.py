"""People's output: which form a verb's result has. No control character of a result reaches the terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FORMS: dict[str, str] = {
    "list": "rows.memories",
    "sessions": "rows.sessions",
    "session": "rows.session",
    "trace": "tree.trace",
    "review": "review.review",
    "get": "block.memories",
    "remember": "written.remember",
    "remember_many": "written.remember_many",
    "forget": "written.forget",
    "recover": "written.recover",
    "verify": "written.verify",
    "reinforce": "written.recover",
    "weaken": "written.recover",
    "reaffirm": "written.recover",
    "mark": "written.mark",
    "relate": "written.relate",
    "revise": "written.revise",
    "propose": "proposals.propose",
    "decide": "proposals.decide",
    "proposals": "proposals.proposals",
    "cohort": "cohorts.cohort",
    "cohorts": "cohorts.cohorts",
    "lift": "cohorts.lift",
    "purge": "erasure.purge",
    "purges": "erasure.purges",
    "hold": "erasure.hold",
    "holds": "erasure.holds",
    "partitions": "partitions.partitions",
    "vacuum": "partitions.vacuum",
    "residue": "residue.residue",
    "session_open": "written.session_open",
    "session_close": "written.session_close",
    "history": "history.history",
    "explain": "provenance.explain",
    "session_provenance": "provenance.session_provenance",
    "region": "provenance.region",
    "region_rows": "provenance.region_rows",
    "records": "records.records",
    "hello": "operator.hello",
    "describe": "schema.described",
    "head": "operator.head",
    "status": "operator.status",
    "audit": "operator.audit",
    "backup": "operator.backup",
    "rebuild": "operator.rebuild",
    "cancel": "operator.cancel",
    "metrics": "operator.metrics",
    "lifecycle": "operator.lifecycle",
    "import": "moved.imported",
    "import_frames": "moved.made",
    "export": "moved.exported",
    "restore": "moved.restored",
}
"""Verb or command → module and function of its form. What isn't there, or not as it should be, is told as a block."""


def render(result: Any, verb: str = "") -> str:
    """A result as lines."""
    from daemon.cli.render_text import CONTROL

    try:
        lines = form_of(verb)(result)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):  # of a daemon that answers otherwise
        lines = form_of("")(result)
    return CONTROL.sub("?", "\n".join(lines)).replace("\t", " ").rstrip()


def form_of(verb: str) -> Callable[[Any], list[str]]:
    """Imported here: a hook that asks for JSON, or for one form, needn't wait for the others."""
    from importlib import import_module

    module, _, name = FORMS.get(verb, "block.block").partition(".")
    form: Callable[[Any], list[str]] = getattr(import_module(f"daemon.cli.render_{module}"), name)
    return form

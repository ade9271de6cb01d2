"""What went wrong, for people and as JSON, on standard error.

A refusal is told with all that its data says to help: the parameter, its limit, the words that are allowed.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from daemon.cli.render_text import cleaned, plain

QUIET = frozenset(["reason", "retryable", "parameter"])
ORDER = ("index", "limit", "allowed", "ids", "current", "hint", "retry_after_ms")


def complain(
    as_json: bool, code: int, message: str, data: dict[str, Any] | None = None, wire: int | None = None
) -> int:
    """Say it; the exit code is handed on."""
    told = {"code": wire, "message": message, "data": data or {}}
    print(json.dumps({"error": told}) if as_json else f"noctuary: {sentence(message, data or {})}", file=sys.stderr)
    return code


def sentence(message: str, data: dict[str, Any]) -> str:
    """`reason: parameter: message (limit 10; allowed: a, b)`, without what isn't there."""
    heads = [str(data[name]) for name in ("reason", "parameter") if data.get(name)]
    names = [*(name for name in ORDER if name in data), *sorted(data.keys() - {*ORDER, *QUIET})]
    extras = [_extra(name, data[name]) for name in names if data[name] not in (None, [], {})]
    return cleaned(": ".join([*heads, message])) + (f" ({'; '.join(extras)})" if extras else "")


def _extra(name: str, value: Any) -> str:
    return f"{name}: {plain(value)}" if isinstance(value, list | dict) else f"{name} {plain(value)}"

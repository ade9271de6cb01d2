"""What went wrong, for people and as JSON, on standard error.

A refusal is told with all that its data says to help: the parameter, its limit, the words that are allowed.
"""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Any

from daemon.cli.render_text import cleaned, plain, width, wrap

QUIET = frozenset(["reason", "retryable", "parameter"])
HINTS = {
    "unreachable": "noctuary daemon starts one; --socket or NOCTUARY_SOCKET says where it is",
    "lifecycle": "noctuary lifecycle tells the state",
    "maintenance": "an operator ends it with noctuary lifecycle --state active",
    "protected": "noctuary mark KIND:ID protected --no-on takes the mark off",
}
"""What a person does about a refusal, by its reason or by what is in the way."""
ORDER = ("index", "limit", "allowed", "ids", "current", "hint", "retry_after_ms")


def complain(
    as_json: bool, code: int, message: str, data: dict[str, Any] | None = None, wire: int | None = None
) -> int:
    """Say it; the exit code is handed on."""
    told = {"code": wire, "message": message, "data": data or {}}
    if as_json:
        _say(json.dumps({"error": told}))
    else:
        _tell(f"noctuary: {sentence(message, _hinted(data or {}))}")
    return code


def _hinted(data: dict[str, Any]) -> dict[str, Any]:
    hint = HINTS.get(str(data.get("current"))) or HINTS.get(str(data.get("reason")))
    return {"hint": hint, **data} if hint else data


def warn(message: str) -> None:
    """Say what is no fault, and should be known."""
    _tell(f"noctuary: warning: {cleaned(message)}")


def _tell(line: str) -> None:
    """One line, that of a terminal broken where it fits."""
    on_terminal = sys.stderr is not None and sys.stderr.isatty()
    _say("\n".join(wrap(line, room=width(sys.stderr))) if on_terminal else line)


def _say(text: str) -> None:
    if sys.stderr is None:  # closed: `print` would take standard output instead
        return
    with contextlib.suppress(OSError):  # nobody reads it; the exit code says enough
        print(text, file=sys.stderr, flush=True)


def sentence(message: str, data: dict[str, Any]) -> str:
    """`reason: parameter: message (limit 10; allowed: a, b)`, without what isn't there."""
    heads = [str(data[name]) for name in ("reason", "parameter") if data.get(name)]
    names = [*(name for name in ORDER if name in data), *sorted(data.keys() - {*ORDER, *QUIET})]
    extras = [_extra(name, data[name]) for name in names if data[name] not in (None, [], {})]
    return cleaned(": ".join([*heads, message])) + (f" ({'; '.join(extras)})" if extras else "")


def _extra(name: str, value: Any) -> str:
    return f"{name}: {plain(value)}" if isinstance(value, list | dict) else f"{name} {plain(value)}"

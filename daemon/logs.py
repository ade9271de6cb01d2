"""The log: JSON lines on stderr, and no content in them, ever.

Nothing is logged that isn't on the list below: a field of another name is dropped (and named in
`dropped`), and a value is a number, a bool, or a short plain word. Text that a caller wrote has no way
through, whoever logs it by mistake. Exceptions are logged by class and place only.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import MutableMapping
from typing import Any, TextIO

import structlog

ALLOWED = frozenset(
    {
        "action", "allowed", "boot_changed", "bytes", "chain", "check", "clean", "code", "connections", "count",
        "cycle", "database", "directory", "epoch", "errno", "error_class", "error_id", "exit_code", "frames",
        "from_seq", "health", "held_bytes", "key", "level", "logger", "memory", "peers", "pid", "reason", "rebuilt",
        "records", "relay", "role", "section", "seq", "signal", "socket", "source", "state", "store",
        "timestamp", "to_seq", "took_ms", "uid", "verb", "version", "warmed", "what", "why",
    }
)  # fmt: skip
_PLAIN = re.compile(r"[A-Za-z0-9_.:/@+=-]{0,256}\Z")
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def only_plain(_logger: Any, _method: str, fields: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """The fields that may be logged, of those given."""
    kept: dict[str, Any] = {}
    dropped = 0
    for name, value in fields.items():
        if name != "event" and name not in ALLOWED:
            dropped += 1
        elif _is_plain(value):
            kept[name] = value
        else:
            dropped += 1
    if "event" not in kept:
        kept["event"] = "unnamed"
    if dropped:
        kept["dropped"] = dropped
    return kept


def _is_plain(value: Any) -> bool:
    if value is None or isinstance(value, (bool, int, float)):
        return True
    if isinstance(value, str):
        return _PLAIN.match(value) is not None
    return isinstance(value, (list, tuple)) and len(value) <= 64 and all(_is_plain(v) for v in value)


class Lines:
    """Where log lines go. A log that can't be written (its reader has gone, its disk is full) never stops what
    is logged about: the line is lost, and counted in the next one that can be written."""

    lost_ever = 0
    """Of all that were made: `metrics` tells it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lost = 0
        self._one_at_a_time = threading.Lock()

    def __call__(self, *_names: Any) -> Lines:
        return self

    def msg(self, line: str) -> None:
        with self._one_at_a_time:
            try:
                if self._lost:
                    self._stream.write(f'{{"event": "lines_lost", "level": "warning", "count": {self._lost}}}\n')
                self._stream.write(line + "\n")
                self._stream.flush()
            except (OSError, ValueError):
                self._lost += 1
                Lines.lost_ever += 1
            else:
                self._lost = 0

    debug = info = warning = error = critical = exception = log = msg


def configure_logs(level: str = "info", stream: TextIO | None = None) -> None:
    """Log to `stream` (stderr) from `level` on."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            only_plain,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=Lines(stream if stream is not None else sys.stderr),
        cache_logger_on_first_use=False,
    )


def set_log_level(level: str) -> None:
    """From now on log from `level` on, to where it is logged now."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]))

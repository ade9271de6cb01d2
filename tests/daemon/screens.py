"""A terminal of a given width as standard output, and results full of what breaks tables."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import cycle
from typing import Any

import msgspec
import pytest

from daemon.wire import chain_results, results
from daemon.wire.verbs import VERBS

HOSTILE = (
    "plain words that go on and on and on, longer than any line of eighty columns would be, and then some more",
    "日本語の文章がここにあります。とても長い文章です。" * 4,
    "مرحبا بالعالم هذا نص طويل من اليمين إلى اليسار " * 3,
    "👨‍👩‍👧‍👦 emoji ❤️ 🇩🇪 👍🏽 " * 6,
    "e\u0301a\u0308o\u0302 combining " * 8,
    "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x9b2J tab\there\r\nnew\x08line\n\n  in\u2028dented",
    "x" * 300,
    "漢" * 120,
    "a\u202eevil\u202c \u2066isolated\u2069 \u200fmark",
    "",
    " ",
)
MIXED = {
    "memories": (results.CompactMemory, results.Memory, results.PurgedMemory, results.DamagedMemory),
    "results": (results.RememberResult, results.RefusedItem),
}
ANY = {"provenance": chain_results.Chain}
"""What stands where a type says Any."""
TIMES = cycle(("2026-07-02T07:00:00.000Z", "2001-01-02T03:04:05.678Z"))


@contextmanager
def terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Standard output is a pseudo-terminal of so many columns meanwhile."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    monkeypatch.delenv("COLUMNS", raising=False)
    with open(theirs, "w") as stream:
        try:
            with monkeypatch.context() as patched:
                patched.setattr(sys, "stdout", stream)
                yield
        finally:
            os.close(ours)


@contextmanager
def zone(name: str) -> Iterator[None]:
    """Local time is that of `name` meanwhile."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = name
    time.tzset()
    try:
        yield
    finally:
        os.environ.pop("TZ")
        if before is not None:
            os.environ["TZ"] = before
        time.tzset()


def result_of(verb: str, texts: Iterator[str], count: int = 3) -> dict[str, Any]:
    """One of the verb's type: every text is one of `texts`, every list has `count` items, within those of a list 3."""
    return dict(_struct(VERBS[verb].result, texts, count))


def chain_of(texts: Iterator[str], count: int = 3) -> dict[str, Any]:
    """A provenance chain like that, all of whose sections can be read."""
    found: dict[str, Any] = _struct(ANY["provenance"], texts, count)
    found["sections"] = dict.fromkeys(found["sections"], "ok")
    return found


_schema = cache(msgspec.json.schema)


def _struct(kind: type, texts: Iterator[str], count: int) -> Any:
    told = _schema(kind)
    return _value("", told, told["$defs"], texts, count)


def _value(name: str, told: dict[str, Any], defs: dict[str, Any], texts: Iterator[str], count: int) -> Any:
    if "$ref" in told:
        return _value(name, defs[told["$ref"].rpartition("/")[2]], defs, texts, count)
    if "anyOf" in told:
        return _value(name, told["anyOf"][0], defs, texts, count)
    if name in ANY:
        return chain_of(texts, count)
    match told.get("type"):
        case "object" if "properties" in told:
            return {key: _value(key, each, defs, texts, count) for key, each in told["properties"].items()}
        case "object":
            inner = told.get("additionalProperties")
            return {f"name{n}": _value(name, inner, defs, texts, count) if inner else next(texts) for n in range(count)}
        case "array" if not told.get("items"):
            kinds = cycle(MIXED.get(name, ()))
            return [_struct(next(kinds), texts, min(count, 3)) for _ in range(count)] if name in MIXED else []
        case "array":
            return [_value(name, told["items"], defs, texts, count) for _ in range(count)]
        case "integer":
            return 12
        case "number":
            return 0.5
        case "boolean":
            return True
        case "string":
            return next(TIMES) if name == "at" or name.endswith("_at") else next(texts)
        case _:
            return next(texts)

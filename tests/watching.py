"""No content in any log line or metric, watched over every test that has a daemon or a service.

While a test runs, everything that its clients send is kept: at the socket, at the door of a service in this process,
and as words on the command line. Whatever stands there under a name of content, or is written as a sentence, must not
be found in what the daemons logged and measured meanwhile. Searched for are the first and last `PIECE` characters of
each text, whatever their case. Left out are texts under `SHORTEST` characters, mere numbers and hex, and the words
that the project itself logs and labels with (`own_words`): those say nothing of who sent them.

Of a test that sends very much, the first `KEPT` requests and `KEPT_BYTES` are looked at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from daemon.logs import ALLOWED
from daemon.refusal import Reason
from daemon.wire.verbs import VERBS
from projections.tables import DATABASES, PROJECTIONS

ROOT = Path(__file__).resolve().parents[1]
SHORTEST = 6
PIECE = 12
KEPT = 2000
KEPT_BYTES = 1 << 20
LINE_BYTES = 1 << 14
"""Of a longer line only so much is looked at: its beginning."""

CONTENT = frozenset(
    {
        "foreign_id", "id", "idempotency_key", "key", "metadata", "name", "note", "predicate", "project", "query",
        "source_entity", "speaker", "subject", "tags", "text", "topic", "value", "words",
    }
)  # fmt: skip
"""Parameters under whose names callers write freely; `id` where it is that of a source outside."""
CONTENT_OPTIONS = frozenset(f"--{written}" for name in CONTENT for written in (name, name.replace("_", "-")))
STAMPS = frozenset({"agent", "model", "version", "extractor"})
"""Public by contract, also when they stand below a name of content."""
LOG_FIELDS = ALLOWED | {"event", "dropped"}
_ANSWER = b'"result":'
ANSWER_HEAD_BYTES = 200
_FREE_TEXT = re.compile(rb'"(\w+)"\s*:\s*"((?:[^"\\]|\\.){6,})')
_NOT_WORDS = re.compile(r"[0-9a-f\s.:,;+T Z/_-]*\Z", re.IGNORECASE)
_REFERENCE = re.compile(r"[a-z]+:[0-9A-HJKMNP-TV-Z]{13}\Z")
_LABEL = re.compile(r'[a-z_]+="((?:[^"\\]|\\.)*)"')
_LOGGED = re.compile(r'(?:log\.\w+|log_failure)\(\s*"([a-z_]+)"')


class Watch:
    """What one test sent, and what was said meanwhile."""

    def __init__(self) -> None:
        self._lines: list[bytes] = []
        self._sent_bytes = 0
        self._params: list[Any] = []
        self._words: list[str] = []
        self.logs: list[str] = []
        self.metrics: list[str] = []

    def sent(self, data: bytes | bytearray | memoryview) -> None:
        """Bytes that went into a socket."""
        if len(self._lines) < KEPT and self._sent_bytes < KEPT_BYTES:
            kept = bytes(data[:LINE_BYTES])
            if _ANSWER not in kept[:ANSWER_HEAD_BYTES]:
                self._sent_bytes += len(kept)
                self._lines.append(kept)

    def asked(self, params: Any) -> None:
        """Parameters that were handed to a service in this process."""
        if len(self._params) < KEPT:
            self._params.append(params)

    def typed(self, words: Iterable[str]) -> None:
        """A command line, also one that isn't ours."""
        before = ""
        for word in words:
            if before in CONTENT_OPTIONS or " " in word:
                self._words.append(word)
            before = word

    def texts(self) -> set[str]:
        """All that was sent and is content."""
        found = set(self._words)
        for params in self._params:
            found.update(_texts(msgspec.json.decode(msgspec.json.encode(params)), None))
        for data in self._lines:
            for line in data.split(b"\n"):
                found.update(_texts_of_line(line))
        return found

    def findings(self) -> list[str]:
        """What is wrong: leaks, and log lines that are no log lines."""
        said = [value for text in self.logs for value in _logged_values(text)]
        said += [value for text in self.metrics for value in _LABEL.findall(text)]
        haystack = {value.casefold() for value in said if not is_harmless(value)}
        found = [line for text in self.logs for line in strange_lines(text)]
        found += [name for text in self.metrics for name in _strange_metrics(text)]
        if haystack:
            pieces = {piece for text in self.texts() for piece in pieces_of(text)}
            together = "\n".join(sorted(haystack))
            found += [f"content was said: {piece!r}" for piece in sorted(pieces) if piece in together]
        return found


WATCH = Watch()
"""That of the test that runs. There is one in each process of pytest."""


def begin() -> Watch:
    """A new test."""
    WATCH.__init__()  # type: ignore[misc]
    return WATCH


def pieces_of(text: str) -> list[str]:
    """What a text is searched for by; nothing when it says nothing of its sender."""
    plain = text.strip().casefold()
    if len(plain) < SHORTEST or is_harmless(plain):
        return []
    return [
        piece
        for piece in (plain[:PIECE].strip(), plain[-PIECE:].strip())
        if len(piece) >= SHORTEST and not is_harmless(piece)
    ]


def is_harmless(value: str) -> bool:
    """Whether it is a number, hex, a reference, or the project's own word."""
    plain = value.casefold()
    return _NOT_WORDS.match(value) is not None or _REFERENCE.match(value) is not None or plain in own_text()


@cache
def own_text() -> str:
    """The words that logs and metrics are made of, one a line: a text that lies within them is found everywhere."""
    words = {*LOG_FIELDS, *VERBS, *DATABASES, *PROJECTIONS, *(reason.wire for reason in Reason)}
    for room in ("daemon", "journal", "projections"):
        for path in (ROOT / room).rglob("*.py"):
            words.add(path.name)
            words.update(_LOGGED.findall(path.read_text("utf-8")))
    words |= {"warning", "folding", "degraded", "noctuary", "traceback"}
    return "\n".join(sorted(word.casefold() for word in words))


def _texts_of_line(line: bytes) -> Iterator[str]:
    if b'"params"' not in line and b'"text"' not in line:
        return
    try:
        request = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        for name, text in _FREE_TEXT.findall(line):
            if name.decode() in CONTENT:
                yield text.decode("utf-8", "replace")
        return
    if isinstance(request, dict):
        yield from _texts(request.get("params"), None)


def _texts(value: Any, name: str | None) -> Iterator[str]:
    """The strings below a name of content, keys of objects there among them."""
    if isinstance(value, str):
        if name is not None and not _REFERENCE.match(value):
            yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            if name == "metadata":
                yield str(key)
            if key not in STAMPS:
                below = key if key in CONTENT else name if name == "metadata" else None
                yield from _texts(inner, below)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner, name)


def _logged_values(text: str) -> Iterator[str]:
    """The strings of log lines, of their lists too; of lines that are none, all."""
    for line in text.splitlines():
        fields = _fields(line)
        if fields is None:
            yield line
            continue
        for value in fields.values():
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, str):
                    yield each


def _fields(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def strange_lines(text: str) -> Iterator[str]:
    """Lines that aren't JSON with fields of the list. What the program says when it can't run begins with its name."""
    for line in text.splitlines():
        fields = _fields(line)
        if fields is None:
            if not line.startswith("noctuary: "):
                yield f"no log line: {line[:120]!r}"
        elif set(fields) - LOG_FIELDS:
            yield f"fields that may not be logged: {sorted(set(fields) - LOG_FIELDS)}"


def _strange_metrics(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if not line.startswith(("#", "noctuary_")):
            yield f"no metric of ours: {line[:120]!r}"

"""What the load consists of: generated memories, nothing taken from anywhere.

*full* carries every usual field and is about 1 kB of JSON: turns and notes by turns, a note with two
sources and one evidence. *small* is a turn of about 300 characters. The same number always gives the same
text, so that our store and the peers write the same bytes; idempotency keys never repeat within a run.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

FULL_TEXT_CHARACTERS = 330
SMALL_TEXT_CHARACTERS = 300
SESSIONS = 200
_ENCODE = msgspec.json.Encoder().encode

_PROSE = (
    "the build failed after we moved parser into its own module and nobody noticed until friday because "
    "tests for that path were skipped so please keep a note that reviews of schema changes need two people "
    "one from storage and one who knows how clients read older rows before anything is merged or released"
)
_WORDS = _PROSE.split()

Fields = dict[str, Any]


def text_of(number: int, characters: int) -> str:
    """About `characters` of words, beginning with the number so that no two texts are equal."""
    chooser = random.Random(number)
    text = f"#{number}"
    while len(text) < characters:
        text += " " + " ".join(chooser.choices(_WORDS, k=12))
    return text[:characters].rstrip()


def _common(number: int) -> Fields:
    return {
        "text": text_of(number, FULL_TEXT_CHARACTERS),
        "session": {"agent": "bench", "key": f"session-{number % SESSIONS}"},
        "topic": f"release planning {number % 50}",
        "tags": ["build", f"week-{number % 52}", "review"],
        "entities": [{"name": f"Service {number % 30}", "type": "concept"}],
        "importance": 1 + number % 10,
        "valence": 0.25,
        "arousal": 0.5,
        "confidence": 0.8,
        "producer": {"agent": "bench", "model": "model-a", "version": "2026-01", "extractor": "none"},
        "subject": f"person-{number % 40}",
        "project": "noctuary-bench",
        "occurred_at": f"2026-01-{1 + number % 28:02d}T08:15:30.250+01:00",
        "metadata": {"thread": number % 1000, "channel": "planning", "edited": False},
    }


def full_turn(number: int, key: str) -> Fields:
    return {
        "kind": "raw",
        **_common(number),
        "role": "user",
        "speaker": f"Speaker {number % 7}",
        "source_entity": f"host-{number % 9}",
        "idempotency_key": key,
    }


def full_note(number: int, key: str, known: Sequence[str]) -> Fields:
    """A note on two memories of `known`, with a third as its evidence."""
    first = number * 7919 % (len(known) - 2)
    return {
        "kind": "note",
        **_common(number),
        "origin": "inferred",
        "derived_from": [known[first], known[first + 1]],
        "evidence": [known[first + 2]],
        "idempotency_key": key,
    }


def full(number: int, key: str, known: Sequence[str]) -> Fields:
    """Turns and notes by turns; turns only while there is nothing to derive a note from."""
    if number % 2 == 0 or len(known) < 3:
        return full_turn(number, key)
    return full_note(number, key, known)


def small_turn(number: int) -> Fields:
    return {
        "kind": "raw",
        "text": text_of(number, SMALL_TEXT_CHARACTERS),
        "role": "assistant",
        "session": {"agent": "bench", "key": f"small-{number % SESSIONS}"},
    }


def request(request_id: int, method: str, params: Fields) -> bytes:
    """One line of the protocol."""
    return _ENCODE({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}) + b"\n"


def full_requests(run: str, first: int, count: int, known: Sequence[str]) -> list[bytes]:
    """`remember` requests with ids 0.. and keys of their own; `run` tells rounds apart."""
    return [request(i, "remember", full(first + i, f"{run}-{i}", known)) for i in range(count)]


def full_bodies(first: int, count: int, known: Sequence[str]) -> Iterator[bytes]:
    """The same memories as bare JSON, for the peers."""
    for number in range(first, first + count):
        yield _ENCODE(full(number, f"peer-{number}", known))

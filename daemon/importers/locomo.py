"""The shape of the LoCoMo set: conversations in sessions, observations that cite their turns.

Both speakers are users with a `speaker`; a session's date has no zone and is taken as UTC for all its turns.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import datetime
from typing import Any

from daemon.importers.plan import Item, Plan, UnknownShape, key_of

AGENT = "locomo"
SESSION = re.compile(r"^session_(\d+)$")
TAKEN_OF_TURNS = frozenset(["speaker", "dia_id", "text"])
TAKEN_OF_SAMPLES = frozenset(["sample_id", "conversation", "observation"])


def read(text: str) -> Plan:
    """All turns, then all observations. Raises UnknownShape."""
    try:
        samples = json.loads(text)
    except ValueError as error:
        raise UnknownShape(f"no JSON: {error}") from error
    if not isinstance(samples, list):
        raise UnknownShape("not a list of samples")
    turns: list[Item] = []
    notes: list[Item] = []
    for number, sample in enumerate(samples):
        try:
            turns += _turns(sample)
            notes += _notes(sample)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise UnknownShape(f"sample {number}: {type(error).__name__} {error}") from error
    return Plan(turns + notes, _left_out(samples))


def _left_out(samples: list[dict[str, Any]]) -> tuple[str, ...]:
    """Which fields of the file are not taken over: captions of images among them."""
    found: Counter[str] = Counter()
    for sample in samples:
        found.update(f"{name} of a sample" for name in sample.keys() - TAKEN_OF_SAMPLES)
        for name, turns in sample["conversation"].items():
            for turn in turns if SESSION.match(name) else ():
                found.update(f"{field} of a turn" for field in turn.keys() - TAKEN_OF_TURNS)
    return tuple(f"{name}: {count}, not imported" for name, count in sorted(found.items()))


def _turns(sample: dict[str, Any]) -> list[Item]:
    name, conversation = sample["sample_id"], sample["conversation"]
    numbers = sorted(int(found[1]) for key in conversation if (found := SESSION.match(key)))
    items = []
    for number in numbers:
        at = occurred_at(conversation[f"session_{number}_date_time"])
        for turn in conversation[f"session_{number}"]:
            ref = f"{name}/{turn['dia_id']}"
            request = {
                "kind": "raw",
                "subtype": "turn",
                "role": "user",
                "speaker": turn["speaker"],
                "text": turn["text"],
                "occurred_at": at,
                "session": {"agent": AGENT, "key": f"{name}/session_{number}"},
                "idempotency_key": key_of("locomo", name, f"turn:{turn['dia_id']}"),
            }
            items.append(Item(ref, ref, request))
    return items


def _notes(sample: dict[str, Any]) -> list[Item]:
    name = sample["sample_id"]
    items = []
    for title, speakers in sample.get("observation", {}).items():
        session = title.removesuffix("_observation")
        for speaker, facts in speakers.items():
            for place, (fact, cited) in enumerate(facts):
                request: dict[str, Any] = {
                    "kind": "note",
                    "subtype": "observation",
                    "origin": "inferred",
                    "text": fact,
                    "idempotency_key": key_of("locomo", name, f"{title}:{speaker}:{place}"),
                }
                if session in sample["conversation"]:
                    request["session"] = {"agent": AGENT, "key": f"{name}/{session}"}
                refs = tuple(f"{name}/{ref}" for ref in ([cited] if isinstance(cited, str) else cited))
                where = f"{name}/{title}/{speaker}/{place}"
                items.append(Item(where, None, request, refs, (), True))
    return items


def occurred_at(words: str) -> str:
    """`1:56 pm on 8 May, 2023` as RFC 3339 UTC. Months are English whatever the locale."""
    found = re.fullmatch(r"(\d+):(\d+) (am|pm) on (\d+) (\w+), (\d+)", words.strip())
    if not found:
        raise UnknownShape(f"no session date: {words!r}")
    hour, minute, half, day, month, year = found.groups()
    names = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
    number = names.index(month[:3].lower()) + 1
    moment = datetime(int(year), number, int(day), int(hour) % 12 + 12 * (half == "pm"), int(minute))
    return f"{moment:%Y-%m-%dT%H:%M:%S}.000Z"

"""What a write did, in a line or two; what it made stands first, so that it can be copied."""

from __future__ import annotations

from typing import Any

from daemon.cli.complaining import sentence
from daemon.cli.render_operator import repeated
from daemon.cli.render_text import counted, plain, some, wrap


def remember(result: dict[str, Any]) -> list[str]:
    return [*wrap(_written(result)), *repeated(result)]


def remember_many(result: dict[str, Any]) -> list[str]:
    """A line for each item, in its order."""
    out: list[str] = []
    for place, row in enumerate(result.get("results") or ()):
        if "error" in row:
            error = row["error"]
            data = {name: item for name, item in (error.get("data") or {}).items() if name != "index"}
            out += wrap(f"@{place} refused: {sentence(str(error.get('message')), data)}")
        else:
            out += wrap(f"@{place} {plain(row.get('id'))}" + (" (duplicate)" if row.get("duplicate") else ""))
    return out or ["nothing"]


def _written(row: dict[str, Any]) -> str:
    place = row.get("address") or {}
    told = [f"record {place['seq']}"] if place.get("seq") is not None else []
    told += [f"turn {row['turn']} of {plain(row['session'])}"] if row.get("turn") else []
    told += [plain(row["session"])] if row.get("session") and not row.get("turn") else []
    told += _notes(row)
    return plain(row["id"]) + (f" ({', '.join(told)})" if told else "")


def _notes(row: dict[str, Any]) -> list[str]:
    """What became of its session."""
    return [plain(note) for note in row.get("notes") or ()]


def _note_lines(row: dict[str, Any]) -> list[str]:
    return [line for note in _notes(row) for line in wrap(f"note: {note}")]


def forget(result: dict[str, Any]) -> list[str]:
    if not result["found"]:
        return wrap(f"not found: {plain(result['id'])}" if result.get("id") else "not found")
    flagged = result.get("flagged") or []
    if result["tombstoned_at"] is None:
        return wrap("it is purged: nothing is left to be forgotten")
    lines = wrap(f"forgotten at {plain(result['tombstoned_at'])}")
    if flagged:
        lines += wrap(f"{counted(len(flagged), 'memory', 'memories')} made from it flagged: {some(flagged, 20)}")
    return lines + repeated(result)


def recover(result: dict[str, Any]) -> list[str]:
    lines = [f"{name} {_change(result[name])}" for name in ("strength", "confidence")]
    for name in ("flags_set", "flags_cleared"):
        if result.get(name):
            lines += wrap(f"{name.replace('_', ' ')}: {some(result[name], 20)}")
    return lines + _note_lines(result) + repeated(result)


def verify(result: dict[str, Any]) -> list[str]:
    times = counted(result["verifications"], "time")
    lines = wrap(f"verified at {plain(result['verified_at'])}, {times} in all")
    lines += [f"{name} {_change(result[name])}" for name in ("strength", "confidence")]
    for row in result["boosted"]:
        lines += wrap(f"strength of {plain(row['id'])} {_change(row)}")
    if result["flags_cleared"]:
        lines += wrap(f"flags cleared: {some(result['flags_cleared'], 20)}")
    return lines + repeated(result)


def mark(result: dict[str, Any]) -> list[str]:
    return [*wrap(f"marks: {plain(result['marks'])}"), *_note_lines(result), *repeated(result)]


def relate(result: dict[str, Any]) -> list[str]:
    return [*wrap(plain(result["edge"])), *repeated(result)]


def revise(result: dict[str, Any]) -> list[str]:
    before = "filed anew" if result["predecessor"] is None else f"takes the place of {plain(result['predecessor'])}"
    told = [before, f"record {result['address']['seq']}", *_notes(result)]
    return [*wrap(f"{plain(result['id'])} ({', '.join(told)})"), *repeated(result)]


def _change(row: dict[str, Any]) -> str:
    return f"{row['old']:.4g} -> {row['new']:.4g}" if row["old"] != row["new"] else f"{row['new']:.4g}, as it was"


def session_open(result: dict[str, Any]) -> list[str]:
    how = "opened" if result["created"] else "opened again" if result["reopened"] else "was open"
    told = f"{plain(result['session'])} {how}: activation {result['activation']}, since {plain(result['opened_at'])}"
    return [*wrap(told), *repeated(result)]


def session_close(result: dict[str, Any]) -> list[str]:
    already = "was closed already, " if result["already_closed"] else "closed "
    return [*wrap(f"{already}at {plain(result['closed_at'])}"), *repeated(result)]

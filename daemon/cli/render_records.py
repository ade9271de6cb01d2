"""Frames as people read them: a line of number, local time, type and who, and what it is about."""

from __future__ import annotations

from typing import Any, Final

from daemon.cli.render_text import STAMP, cleaned, plain, precise, some, table, wrap, zone_line

TEXT_CHARACTERS: Final = 200
LINES: Final = 2
"""That an event may take in its column."""
HIDDEN: Final = """parts slot key result boot_id vault_nonce from_chain process_start fence fingerprint_key fingerprints
    head_chain digests report hints encoding fingerprint destroyed importance_by soul_version owner_seq edge"""
"""What says nothing to a person: `--json` has it."""
OF_MEMORY: Final = (
    "id", "subtype", "origin", "session", "turn", "role", "predecessor", "disposition", "sources", "evidence",
    "quoted_from", "imported", "occurred_at", "protected", "pinned", "notes",
)  # fmt: skip


def records(result: dict[str, Any]) -> list[str]:
    frames = result["frames"]
    if not frames and not result.get("next_cursor"):
        return ["none"]
    tenants = {frame["tenant"] for frame in frames}
    rows = [_row(frame, len(tenants) > 1) for frame in frames]
    lines = table(("SEQ", "AT", "TYPE", "WHO", "ABOUT"), rows, LINES)
    lines += wrap(f"{len(frames)} of {result.get('total', len(frames))}; {zone_line(frame['at'] for frame in frames)}")
    return lines + ([f"more: --cursor {plain(result['next_cursor'])}"] if result.get("next_cursor") else [])


def frame_lines(frame: dict[str, Any]) -> list[str]:
    """One frame alone, with its tenant and the zone of its time."""
    seq, at, word, who, about = _row(frame, True)
    zone = zone_line([frame["at"]]).removeprefix("times are ").partition(" ")[0]
    return [*wrap(f"{seq} {at} {zone} {word} {who}"), *(wrap(about, "    ") if about else [])]


def _row(frame: dict[str, Any], with_tenant: bool) -> list[str]:
    tenant = f"tenant {plain(frame['tenant'])}; " if with_tenant and frame["tenant"] else ""
    told = [f"{tenant}{about(frame['type'], frame['event'])}", *map(_part, frame.get("parts") or ())]
    return [
        str(frame["seq"]), precise(frame["at"]), plain(frame["type"]), who(frame.get("actor")),
        "; ".join(piece for piece in told if piece),
    ]  # fmt: skip


def who(actor: dict[str, Any] | None) -> str:
    """`agent 1000`, and by which way unless it is the plain one."""
    if not actor:
        return "-"
    way = "" if actor.get("via") in (None, "client") else f" ({plain(actor['via'])})"
    return f"{plain(actor['role'])} {actor['uid']}{way}"


def about(kind: str, event: dict[str, Any]) -> str:
    """What an event says, in its own words: ids and numbers, without what is empty or serves machines only."""
    names = OF_MEMORY if kind == "memory_created" else [name for name in event if name not in HIDDEN.split()]
    return "; ".join(_said(name, event[name]) for name in names if name == "on" or _is_said(event.get(name)))


def _is_said(value: Any) -> bool:
    return value not in (None, [], {}, False)


def _said(name: str, value: Any) -> str:
    if name in ("id", "memory", "memories") and not isinstance(value, dict):
        return some(value) if isinstance(value, list) else plain(value)
    if name == "on":
        return "on" if value else "off"
    if value is True:
        return name
    if isinstance(value, list):
        return f"{name} {some(value)}"
    if isinstance(value, float):
        return f"{name} {value:.4g}"
    return f"{name} {precise(value) if STAMP.match(str(value)) else plain(value)}"


def _part(part: dict[str, Any]) -> str:
    """A sealed part: its text when it was sent, else what it is."""
    content = part.get("content")
    if content is None or part.get("encoding") != "utf-8":
        return f"{plain(part['part'])} {plain(part['state'])}, {part['length']} bytes"
    cut = " …" if len(content) > TEXT_CHARACTERS else ""
    return f'{plain(part["part"])} "{cleaned(content[:TEXT_CHARACTERS])}{cut}"'

"""Blocks: one thing as `name: value` lines, without what has nothing to say."""

from __future__ import annotations

from typing import Any

from daemon.cli.render_text import plain, wrap


def block(value: Any, indent: str = "") -> list[str]:
    out: list[str] = []
    for name, item in value.items() if isinstance(value, dict) else [("", value)]:
        if isinstance(item, list) and item and isinstance(item[0], dict):
            out.append(f"{indent}{name}:")
            for row in item:
                out += wrap("; ".join(f"{k} {plain(v)}" for k, v in row.items() if v is not None), indent + "  ")
        else:
            out += wrap(f"{name + ': ' if name else ''}{plain(item)}", indent)
    return out


def said(value: dict[str, Any]) -> dict[str, Any]:
    """Without nulls, empty lists, and objects that have nothing else."""
    kept = {name: said(item) if isinstance(item, dict) else item for name, item in value.items()}
    return {name: item for name, item in kept.items() if item is not None and item not in ([], {})}


def memories(result: dict[str, Any]) -> list[str]:
    """`get`: a block for each memory, its text last."""
    out: list[str] = []
    for row in result["memories"]:
        text = row.get("text")
        head = f"{plain(row['id'])} {plain(row.get('status'))} {plain(row.get('origin'))} {plain(row.get('at'))}"
        rest = {k: v for k, v in row.items() if k not in ("id", "status", "origin", "at", "text")}
        out += [*wrap(head), *block(said(rest), "  "), *(wrap(plain(text), "  ") if text else []), ""]
    return out + ([f"not found: {plain(result['not_found'])}"] if result["not_found"] else [])


def short(result: dict[str, Any]) -> list[str]:
    return block(said(result)) or ["done"]


def audit(result: dict[str, Any]) -> list[str]:
    """What was walked and found; the digests a line each."""
    found = result["findings"]
    head = result.get("head") or {}
    lines = [f"{result['records']} records; {len(found) or 'no'} findings"]
    lines += block(said(head), "  ") + block(result.get("digests") or {}, "  ")
    for row in found:
        lines += wrap(f"{row['code']} at {plain(row['seq'])}: {plain(row['what'])}") + wrap(
            plain(row["action"]), "    "
        )
    return lines + [f"against {number}: {plain(item)}" for number, item in enumerate(result.get("against") or (), 1)]

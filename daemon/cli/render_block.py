"""Blocks: one thing as `name: value` lines, without what has nothing to say."""

from __future__ import annotations

import json
from typing import Any

from daemon.cli.complaining import sentence
from daemon.cli.render_text import cleaned, plain, verbatim, wrap


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
    """`get`: a block for each memory, its text last and with its own lines."""
    out: list[str] = []
    for row in result["memories"]:
        text, metadata = row.get("text"), row.get("metadata")
        head = f"{plain(row['id'])} {plain(row.get('status'))} {plain(row.get('origin'))} {plain(row.get('at'))}"
        apart = ("id", "status", "origin", "at", "text", "metadata")
        out += [*wrap(head), *block(said({k: v for k, v in row.items() if k not in apart}), "  ")]
        if metadata is not None:
            out += wrap(f"metadata: {cleaned(json.dumps(metadata, ensure_ascii=False))}", "  ")
        out += [*(["", *verbatim(text, "  ")] if text else []), ""]
    return out + ([f"not found: {plain(result['not_found'])}"] if result["not_found"] else [])


def written(result: dict[str, Any]) -> list[str]:
    """`remember_many`: a line for each item, in its order."""
    out: list[str] = []
    for place, row in enumerate(result.get("results") or ()):
        if "error" in row:
            error = row["error"]
            data = {name: item for name, item in (error.get("data") or {}).items() if name != "index"}
            out += wrap(f"@{place} refused: {sentence(str(error.get('message')), data)}")
        else:
            out += wrap(f"@{place} {plain(row.get('id'))}" + (" (duplicate)" if row.get("duplicate") else ""))
    return out or ["nothing"]


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
    lines += [line for note in result.get("notes") or () for line in wrap(plain(note))]
    return lines + [f"against {number}: {plain(item)}" for number, item in enumerate(result.get("against") or (), 1)]

"""Blocks: one thing as `name: value` lines, without what has nothing to say."""

from __future__ import annotations

import json
from typing import Any, Final

from daemon.cli.render_text import cleaned, plain, verbatim, wrap

FIRST: Final = ("id", "status", "origin", "at")
APART: Final = (*FIRST, "kind", "text", "metadata", "provenance")
QUIET_WHEN_0: Final = ("verifications", "valence", "arousal", "soul_version")


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
    """`get`: a block for each memory, its text last and with its own lines, then its chain if it was asked for."""
    out: list[str] = []
    for row in result["memories"]:
        text, metadata = row.get("text"), row.get("metadata")
        out += wrap(" ".join(plain(row[name]) for name in FIRST if row.get(name) is not None))
        out += block(said({name: _told(name, item) for name, item in row.items() if _is_shown(name, item)}), "  ")
        if metadata is not None:
            out += wrap(f"metadata: {cleaned(json.dumps(metadata, ensure_ascii=False))}", "  ")
        out += [*(["", *verbatim(text, "  ")] if text else []), ""]
        if row.get("provenance") is not None:
            out += [*_chain(row["provenance"]), ""]
    return out + (wrap(f"not found: {plain(result['not_found'])}") if result["not_found"] else [])


def _chain(provenance: dict[str, Any]) -> list[str]:
    """Imported here: most who get a memory don't ask for its chain."""
    from daemon.cli.render_chain import chain

    return chain(provenance)


def _is_shown(name: str, item: Any) -> bool:
    return name not in APART and not (name in QUIET_WHEN_0 and item == 0)


def _told(name: str, item: Any) -> Any:
    """Who wrote it, where it stands and what is outside of the store, as people say them."""
    if name == "actor":
        return f"{item['role']} {item['uid']} ({item['via']})"
    if name == "address":
        return f"record {item['seq']} of epoch {item['epoch']}"
    if name in ("derived_from", "evidence"):
        return [f"{each['kind']}:{each['id']}" if isinstance(each, dict) else each for each in item]
    return item

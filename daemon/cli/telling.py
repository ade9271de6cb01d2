"""`VERB --help` and `schema`: what the wire types say. Imported only for these."""

from __future__ import annotations

from typing import Any

import msgspec

from daemon.cli import arguments
from daemon.cli.arguments import Usage
from daemon.cli.render_text import wrap
from daemon.wire.verbs import VERBS


def schema(words: list[str]) -> dict[str, Any]:
    """JSON Schemas of the verb named, else of all."""
    if len(words) > 1 or (words and words[0].replace("-", "_") not in VERBS):
        raise Usage("schema [VERB]")
    if not words:
        return {name: _schemas(name) for name in VERBS}
    return _schemas(words[0].replace("-", "_"))


def _schemas(verb: str) -> dict[str, Any]:
    row = VERBS[verb]
    return {"params": msgspec.json.schema(row.params), "result": msgspec.json.schema(row.result)}


def help_of(verb: str) -> str:
    """The usage of a verb, and its parameters with their types."""
    places = " ".join(name.upper() for name in arguments.VERBS[verb].split()).replace("*", " ...")
    lines = [f"usage: noctuary {verb} {places}".rstrip() + " [--OPTION VALUE ...]"]
    for field in msgspec.structs.fields(VERBS[verb].params):
        must = " (required)" if field.required else ""
        lines += wrap(f"{field.name}: {_type(msgspec.json.schema(field.type))}{must}", "  ")
    if verb == "list":
        lines += wrap("fields of sel are options: " + arguments.SELECTION.translate({ord(m): "" for m in "+#@!"}), "  ")
    return "\n".join(lines)


def _type(told: dict[str, Any]) -> str:
    if "enum" in told:
        return "|".join(str(item) for item in told["enum"])
    if "anyOf" in told:
        return " or ".join(_type(item) for item in told["anyOf"])
    if told.get("type") == "array":
        return f"list of {_type(told.get('items') or {})}"
    return str(told.get("type") or "object")

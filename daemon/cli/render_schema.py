"""JSON Schemas in words: what kind of value, and what it may be. Pure; for `--help` and for `describe`."""

from __future__ import annotations

from typing import Any, Final

from daemon.cli.render_text import plain, wrap

Schema = dict[str, Any]
LARGE: Final = 1 << 31
"""A bound this far out is the number's size only, and not worth a word."""
TIME_BEGINS: Final = "^[0-9]{4}-[0-9]{2}-[0-9]{2}"
PLACES: Final = {"string": "TEXT", "number": "NUMBER", "integer": "NUMBER", "boolean": "[true|false]", "object": "JSON"}
UNITS: Final = {"string": ("minLength", "maxLength", "characters"), "array": ("minItems", "maxItems", "items"),
                "number": ("minimum", "maximum", ""), "integer": ("minimum", "maximum", "")}  # fmt: skip


def followed(told: Schema, defs: Schema) -> Schema:
    """What a reference leads to."""
    return defs[told["$ref"].rpartition("/")[2]] if "$ref" in told else told


def place(told: Schema, defs: Schema) -> str:
    """The word that stands for a value: TEXT, NUMBER, TIME, WORD, JSON; of a list that of its items."""
    told = followed(told, defs)
    if "anyOf" in told:
        some = [each for each in told["anyOf"] if each.get("type") != "null"]
        return " or ".join(dict.fromkeys(place(each, defs) for each in some))
    if "enum" in told:
        return "WORD"
    if told.get("type") == "array":
        return place(told["items"], defs) if told.get("items") else "JSON"
    if str(told.get("pattern")).startswith(TIME_BEGINS):
        return "TIME"
    return PLACES.get(str(told.get("type")), "JSON")


def bounds(told: Schema, defs: Schema) -> list[str]:
    """What a value may be: the words of a closed set, lengths with their units, ranges."""
    told = followed(told, defs)
    out = [note for each in told.get("anyOf", ()) for note in bounds(each, defs)]
    if told.get("properties"):
        must = told.get("required", ())
        out.append(f"{{{', '.join(name if name in must else name + '?' for name in told['properties'])}}}")
    if "enum" in told:
        out.append(" | ".join(plain(word) for word in told["enum"]))
    low, high, unit = UNITS.get(str(told.get("type")), ("", "", ""))
    if str(told.get("pattern")).startswith(TIME_BEGINS):
        return ["as 2026-06-02T09:00:00+02:00"]
    if told.get("type") == "array":
        out += [f"each {note}" if "characters" in note else note for note in bounds(told.get("items") or {}, defs)]
    return list(dict.fromkeys([*out, *_span(told.get(low), told.get(high), unit)]))


def choices(told: Schema, defs: Schema) -> str:
    """The words of a closed set, empty for anything else."""
    return " | ".join(plain(word) for word in followed(told, defs).get("enum", ()))


def _span(least: Any, most: Any, unit: str) -> list[str]:
    if least is not None and abs(least) >= LARGE:
        least = None
    if most is not None and abs(most) >= LARGE:
        most = None
    if most is None:
        return [f"at least {least:g}"] if least and not unit else []
    told = f"{least:g}..{most:d}" if least and isinstance(most, int) else f"at most {most}"
    if not unit and least is not None:
        told = f"{least:g}..{most:g}"
    return [f"{told} {unit}".rstrip()]


def described(result: dict[str, Any]) -> list[str]:
    """`describe`: the parameters and the fields of the result, a line each."""
    lines: list[str] = []
    for name in ("params", "result"):
        told = result[name]
        defs = told.get("$defs", {})
        struct = followed(told, defs)
        lines += ["", f"{name}:"] if lines else [f"{name}:"]
        required = struct.get("required", ())
        for field, schema in (struct.get("properties") or {}).items():
            notes = bounds(schema, defs)
            if name == "params":
                notes += ["required"] if field in required else default(schema)
            lines += wrap(f"{plain(field)} {place(schema, defs)}" + (f" ({'; '.join(notes)})" if notes else ""), "  ")
    return [*lines, "", *wrap("--json has the whole JSON Schema")]


def default(schema: Schema) -> list[str]:
    """What holds when nothing is given."""
    value = schema.get("default")
    return [] if value in (None, [], {}) else [f"default {str(value).lower()}"]

"""The verbs as tables: parameters, results and what stands inside them, from the schemas that `describe` answers.

Invariant: everything shown is what the daemon enforces or sends; only the words for a pattern are written here, and a
list whose items no schema describes fails the generation.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from daemon.reads.operator import describe
from daemon.wire.forms import AGENT_PATTERN, NOT_BLANK_PATTERN, STAMP_PATTERN, TIME_PATTERN
from daemon.wire.verbs import VERBS, Verb
from daemon.wire.vocabulary import TENANT_PATTERN
from journal.codes import CallerRole
from ops.docs.parameter_words import VERB_WORDS, meaning
from ops.docs.result_words import saying

Schema = dict[str, Any]

COMMON = ("tenant", "tenants", "correlation", "progress", "idempotency_key")
"""Parameters that many verbs take and that are explained once."""

PATTERN_WORDS = {
    NOT_BLANK_PATTERN: "not blank",
    STAMP_PATTERN: "[stamp](#forms-of-values)",
    AGENT_PATTERN: "[agent name](#forms-of-values)",
    TIME_PATTERN: "[time](#forms-of-values)",
    TENANT_PATTERN: "[short name](#forms-of-values)",
}

ANSWERED_BY = {verb.result.__name__: verb.name for verb in VERBS.values()}


def linked(name: str) -> str:
    """A struct's name as a link to its own table, which a verb's result has under the verb."""
    return f"[{name}](#{ANSWERED_BY.get(name, name.lower())})"


def span(schema: Schema, low: str, high: str, unit: str = "") -> str:
    """`, 1..64 characters`, or nothing."""
    least, most = schema.get(low), schema.get(high)
    if least is None and most is None:
        return ""
    shown = f"{'' if least is None else least}..{'' if most is None else most}"
    if least is None:
        shown = f"at most {most}"
    if most is None:
        shown, unit = f"at least {least}", unit.removesuffix("s") if least == 1 else unit
    return f", {shown}{unit}"


def string_words(schema: Schema) -> str:
    """A string with its form and length."""
    pattern = schema.get("pattern")
    if pattern in (STAMP_PATTERN, AGENT_PATTERN, TIME_PATTERN, TENANT_PATTERN):
        return PATTERN_WORDS[str(pattern)]
    words = "string" + span(schema, "minLength", "maxLength", " characters")
    if pattern is None:
        return words
    shown = PATTERN_WORDS.get(pattern, "`" + pattern.replace("\\Z", "$").replace("|", "\\|") + "`")
    return f"{words}, {shown}"


def words_of(schema: Schema, owner: str = "", field: str = "") -> str:
    """A type as the tables show it. Raises KeyError for a list of anything."""
    if "$ref" in schema:
        return linked(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " or ".join(words_of(part, owner, field) for part in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"])
    kind = schema.get("type")
    if kind == "string":
        return string_words(schema)
    if kind in ("integer", "number"):
        return f"{kind}{span(schema, 'minimum', 'maximum')}"
    if kind == "array":
        return _list_words(schema, owner, field)
    if kind == "object":
        inner = schema.get("additionalProperties")
        return f"object of {words_of(inner)}" if isinstance(inner, dict) and inner else "object"
    return str(kind) if kind else "any JSON"


def _list_words(schema: Schema, owner: str, field: str) -> str:
    return f"list of {words_of(schema['items'], owner, field)}" + span(schema, "minItems", "maxItems", " items")


@cache
def schemas(verb: str) -> tuple[Schema, Schema]:
    """The parameters and the result of a verb, as `describe` answers them."""
    told = describe(verb)
    return told.params, told.result


@cache
def structs() -> dict[str, Schema]:
    """Every struct that stands in a parameter or a result, by name."""
    found: dict[str, Schema] = {}
    for verb in VERBS:
        for schema in schemas(verb):
            found |= schema["$defs"]
    return found


def struct_of(schema: Schema) -> tuple[str, Schema]:
    """The name and the schema of the struct that a parameter list or a result is."""
    name = schema["$ref"].rpartition("/")[2]
    return name, schema["$defs"][name]


def parameter_rows(name: str, struct: Schema, without: tuple[str, ...] = ()) -> list[str]:
    """A table of what may be sent."""
    rows = ["| parameter | type | | is |", "|---|---|---|---|"]
    required = set(struct.get("required", ()))
    for field, schema in struct.get("properties", {}).items():
        if field in without:
            continue
        need = "required" if field in required else ""
        if schema.get("default") is not None:
            need = f"default `{str(schema['default']).lower()}`"
        rows.append(f"| {field} | {words_of(schema, name, field)} | {need} | {meaning(name, field)} |")
    return rows


def result_rows(name: str, struct: Schema) -> list[str]:
    """A table of what is answered."""
    rows = ["| field | type | is |", "|---|---|---|"]
    always = {field for field, schema in struct["properties"].items() if "default" in schema}
    always.update(struct.get("required", ()))
    for field, schema in struct["properties"].items():
        need = "" if field in always else "only when it applies: "
        rows.append(f"| {field} | {words_of(schema, name, field)} | {need}{saying(name, field)} |")
    return rows


def verb_sections() -> str:
    """Each verb: who may, what it takes, what it answers."""
    return "\n\n".join(_verb(verb) for verb in VERBS.values())


def _verb(verb: Verb) -> str:
    params, result = (struct_of(schema) for schema in schemas(verb.name))
    properties = params[1].get("properties", {})
    common = ", ".join(f"`{name}`" for name in COMMON if name in properties)
    roles = ", ".join(role.wire for role in CallerRole if role in verb.roles)
    what = "Writes" if verb.writes else "Reads"
    lines = [
        f"#### {verb.name}",
        "",
        VERB_WORDS[verb.name],
        "",
        f"{what}; for {roles}. Common parameters: {common}.",
        "",
    ]
    own = [name for name in properties if name not in COMMON]
    item = set(structs()["RememberItem"]["properties"])
    if set(own) == item - set(COMMON):
        lines += [f"Parameters: the fields of {linked('RememberItem')}.", ""]
    elif own:
        lines += [*parameter_rows(*params, without=COMMON), ""]
    return "\n".join([*lines, f"Answers {result[0]}:", "", *result_rows(*result)])


def inner_sections(sent: bool) -> str:
    """The structs that stand inside parameters (`sent`) or results."""
    tops = {struct_of(schema)[0] for verb in VERBS for schema in schemas(verb)}
    inputs = {name for verb in VERBS for name in schemas(verb)[0]["$defs"]}
    parts = []
    for name, struct in sorted(structs().items()):
        if name in tops or (name in inputs) is not sent:
            continue
        rows = parameter_rows(name, struct) if sent else result_rows(name, struct)
        said = [re.sub(r"\s+", " ", struct["description"]), ""] if "description" in struct else []
        heading = "#### " + name
        parts.append("\n".join([heading, "", *said, *rows]))
    return "\n\n".join(parts)


def compact_results() -> str:
    """One line a verb: its result's fields as `formats.md` lists them."""
    rows = ["| verb | fields |", "|---|---|"]
    rows += [f"| {verb} | {_compact(*struct_of(schemas(verb)[1]), depth=2)} |" for verb in VERBS]
    return "\n".join(rows)


def _compact(name: str, struct: Schema, depth: int) -> str:
    required = set(struct.get("required", ()))
    shown = []
    for field, schema in struct.get("properties", {}).items():
        options = schema.get("anyOf", [schema])
        always = field in required or "default" in schema
        mark = "?" if not always or {"type": "null"} in options else ""
        shown.append(field + mark + _inside(options, depth))
    return ", ".join(shown)


def _inside(options: list[Schema], depth: int) -> str:
    for option in options:
        if option.get("type") == "array":
            return "[" + _inside([option.get("items", {})], depth) + "]"
        if "$ref" in option and depth:
            name = option["$ref"].rpartition("/")[2]
            return "{" + _compact(name, structs()[name], depth - 1) + "}"
    return ""

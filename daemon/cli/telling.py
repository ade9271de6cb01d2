"""`--help` and `schema`: what the wire types and the client's docstrings say. Imported only for these."""

from __future__ import annotations

from typing import Any

import msgspec

import noctuary
from daemon.cli import arguments
from daemon.cli.arguments import Usage
from daemon.cli.render_text import WIDTH, fold, wrap
from daemon.wire.params import Selection
from daemon.wire.verbs import VERBS

OTHERS = {
    "import": (
        "import --format turns|locomo FILE",
        "Write the turns and memories of a file; importing it again adds only what is new.",
        ("--format turns|locomo: what the file is", "FILE: its path, - for standard input"),
    ),
    "call": (
        "call VERB JSON",
        "Call a verb with its parameters as one JSON object, as they stand on the wire.",
        ("JSON: the object, {} when left out, - for standard input",),
    ),
    "meta": (
        "meta trace|reverse KIND:ID",
        "Where a memory comes from (trace), or what was made from it (reverse).",
        ("KIND:ID: also as two words, KIND ID", "uncertain, orphans, verify: not in this version"),
    ),
    "schema": (
        "schema [VERB]",
        "Print the JSON Schema of a verb's parameters and result, or of all verbs.",
        (),
    ),
    "config": (
        "config [--state DIR] [--socket PATH] [--config FILE] [--json]",
        "Print the effective configuration, and where each value came from.",
        ("--state DIR: the state directory", "--socket PATH: the socket", "--config FILE: the configuration file"),
    ),
    "daemon": (
        "daemon [--state DIR] [--socket PATH] [--config FILE] [--check]",
        "Run the daemon in the foreground.",
        (
            "--state DIR: the state directory; a store is made if there is none",
            "--socket PATH: where it listens",
            "--config FILE: the configuration file",
            "--check: walk the whole journal before anything is written",
        ),
    ),
}
EXTRA = {
    "remember": ("--file PATH: the text, from a file", "TEXT: - for standard input"),
    "remember_many": ("--file PATH: the items, from a file", "ITEMS: a JSON array, - for standard input"),
    "audit": (
        "--state DIR: the store there, read without a daemon if none has it open (default: NOCTUARY_STATE, "
        "else the default place)",
        "--rebuild without a daemon folds in TMPDIR: nothing is written under the state directory",
    ),
    "get": ("IDS: KIND:ID, also as two words, KIND ID",),
}
FOOT = (
    "--version prints the version. The words of a name are joined with - or _. Exit codes: 0 done, 1 not found, "
    "2 wrong words, 3 no daemon, 4 refused, 65 damaged, 75 not now, 77 denied, 78 configuration."
)
TIMES = frozenset(["as_known_at", "since", "until", "valid_from", "valid_to", "occurred_at", "at"])
TIME = "TIME, as 2026-06-02T09:00:00+02:00"
LARGE = 1 << 40
COMMON_LINES = (
    "--json: the plain result, times in UTC",
    "--socket PATH, --tenant NAME: which daemon, whose memories",
    "--: what follows is no option",
)


def usage() -> str:
    """The help of the command itself."""
    lines = ["usage: noctuary [--json] [--socket PATH] [--tenant NAME] COMMAND ...", ""]
    lines += [*wrap("Write and read memories of a noctuary daemon. COMMAND --help tells more of each."), ""]
    width = max(len(name) for name in (*arguments.VERBS, *OTHERS)) + 2
    for name in arguments.VERBS:
        lines += _entry(name, width, sentence_of(name))
    lines.append("")
    for name, (_, told, _) in OTHERS.items():
        lines += _entry(name, width, told)
    lines += ["", *fold(FOOT, WIDTH)]
    return "\n".join(lines)


def _entry(name: str, width: int, told: str) -> list[str]:
    first, *rest = wrap(told, " " * width)
    return [name.ljust(width) + first[width:], *(" " * width + line.strip() for line in rest)]


def sentence_of(verb: str) -> str:
    """One sentence on what a verb does."""
    return str(getattr(noctuary.Client, verb).__doc__ or "").split("\n\n")[0].replace("`", "").strip()


def schema(words: list[str]) -> dict[str, Any]:
    """JSON Schemas of the verb named, else of all."""
    if len(words) > 1:
        raise Usage("schema [VERB]")
    if not words:
        return {name: _schemas(name) for name in VERBS}
    verb = words[0].replace("-", "_")
    if verb not in VERBS:
        raise Usage(f"there is no verb {words[0]!r}; see noctuary --help")
    return _schemas(verb)


def _schemas(verb: str) -> dict[str, Any]:
    row = VERBS[verb]
    return {"params": msgspec.json.schema(row.params), "result": msgspec.json.schema(row.result)}


def help_of(name: str) -> str:
    """Usage, one sentence, and a line for each option with the words it allows. Raises Usage."""
    if name in OTHERS:
        form, told, options = OTHERS[name]
        return "\n".join([*wrap(f"usage: noctuary {form}"), "", *fold(told, WIDTH), "", *_lines(options)]).rstrip()
    if name not in VERBS:
        arguments_word = "is not in this version" if name in arguments.LATER.split() else "is no command"
        raise Usage(f"{name} {arguments_word}; see noctuary --help")
    places = " ".join(word.upper() for word in arguments.VERBS[name].split()).replace("*", " ...")
    must = "".join(f" --{word} {word.upper()}" for word in arguments.REQUIRED.get(name, ()))
    lines = [*wrap(f"usage: noctuary {name} {places}".rstrip() + f"{must} [--OPTION VALUE ...]"), ""]
    lines += [*fold(sentence_of(name), WIDTH), ""]
    lines += _lines([*_options(name), *EXTRA.get(name, ()), *COMMON_LINES])
    return "\n".join(lines)


def _lines(told: Any) -> list[str]:
    return [line for each in told for line in wrap(each, "  ")]


def _options(verb: str) -> list[str]:
    """A line for each option: its value's form, whether it must be there, may be repeated, or is JSON."""
    kinds = {field.name: field for field in msgspec.structs.fields(VERBS[verb].params)}
    inner = {field.name: field for field in msgspec.structs.fields(Selection)} if verb == "list" else {}
    told = []
    for word in f"{arguments.OPTIONS.get(verb, '')} {arguments.COMMON}".split():
        name, mark = word.rstrip(arguments.MARKS), word[-1]
        field = kinds.get(name) or inner.get(name)
        if field is None:
            continue
        must = " (required)" if name in arguments.REQUIRED.get(verb, ()) else ""
        told.append(f"--{name} {TIME if name in TIMES else _form(msgspec.json.schema(field.type), mark)}{must}")
    return told


def _form(told: dict[str, Any], mark: str) -> str:
    if mark == "!":
        return "[true|false], or --no-..."
    if mark == "@":
        return "TEXT or JSON" if any(each.get("type") == "string" for each in told.get("anyOf", ())) else "JSON"
    item = told.get("items") or {} if told.get("type") == "array" else told
    if mark == "+":
        nested = next((each["items"] for each in told.get("anyOf", ()) if "items" in each), item)
        return f"{_type(nested)} (may be repeated)"
    return _type(item)


def _type(told: dict[str, Any]) -> str:
    if "enum" in told:
        return " | ".join(str(item) for item in told["enum"])
    if "anyOf" in told:
        kinds = dict.fromkeys(_type(item) for item in told["anyOf"])
        return " or ".join(kinds)
    if told.get("type") in ("number", "integer") and "minimum" in told and told.get("maximum", LARGE) < LARGE:
        return f"{told['minimum']:g}..{told['maximum']:g}"
    return {"string": "TEXT", "number": "NUMBER", "integer": "NUMBER", "boolean": "[true|false]"}.get(
        str(told.get("type")), "JSON"
    )

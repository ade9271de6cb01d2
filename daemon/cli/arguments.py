"""From words on the command line to a verb and its parameters. Pure, but for reading a text.

Options are the wire's parameter names; values are read by their type in `OPTIONS`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

VERBS = {
    "hello": "", "describe": "verb", "remember": "text", "remember_many": "items", "get": "ids*",
    "list": "", "forget": "id", "recover": "id", "session_open": "agent key",
    "session_close": "session", "sessions": "", "session": "session", "trace": "id",
    "lifecycle": "", "audit": "", "head": "", "status": "",
}  # fmt: skip
COMMON = "correlation progress! idempotency_key tenants+"
MEMORY = (
    "kind origin subtype session@ role speaker derived_from+ evidence+ topic tags+ entities@ importance# "
    "valence# arousal# interest# challenge# urgency# confidence# protected! vector@ producer@ subject "
    "project source_entity source@ facts@ valid_from valid_to occurred_at metadata@ imported@"
)
SELECTION = "ids+ session subject entity text producer@ origins+ kinds+ status+ tags+ project since until"
OPTIONS = {
    "hello": "via", "remember": MEMORY, "remember_many": "atomic!", "get": "include+ as_known_at",
    "list": SELECTION + " limit# cursor full!", "forget": "note", "recover": "evidence+ amount# note",
    "session_open": "project subject producer@ at", "session_close": "at",
    "sessions": "agent open! limit# cursor", "session": "include+ limit# cursor",
    "trace": "direction depth#", "lifecycle": "state enforce!",
    "audit": "from_seq# to_seq# rebuild! against@",
}  # fmt: skip
MARKS = "+#@!"


class Usage(Exception):
    """Wrong words: exit 2."""


def globals_of(words: list[str]) -> tuple[dict[str, Any], list[str]]:
    """`--json --socket --tenant` wherever they stand, and the other words."""
    found: dict[str, Any] = {"json": False, "socket": None, "tenant": None}
    rest: list[str] = []
    source = iter(words)
    for item in source:
        name, equals, value = item.partition("=")
        if item == "--":
            return found, [*rest, item, *source]
        if item == "--json":
            found["json"] = True
        elif name in ("--socket", "--tenant"):
            found[name[2:]] = value if equals else next(source, None)
            if not found[name[2:]]:
                raise Usage(f"{name} needs a value")
        else:
            rest.append(item)
    return found, rest


def take(option: str, words: list[str]) -> tuple[str, list[str]]:
    """The value of one option, and the other words. Raises Usage."""
    found, rest = "", []
    source = iter(words)
    for item in source:
        name, equals, value = item.partition("=")
        if name == option:
            found = value if equals else next(source, "")
        else:
            rest.append(item)
    if not found:
        raise Usage(f"{option} needs a value")
    return found, rest


def parameters(verb: str, words: list[str]) -> dict[str, Any]:
    """The parameters of `verb`. Raises Usage."""
    marks = {name.rstrip(MARKS): name[-1] for name in f"{OPTIONS.get(verb, '')} {COMMON}".split()}
    params: dict[str, Any] = {}
    places: list[str] = []
    source = iter(words)
    for item in source:
        if item == "--":
            places += source
        elif item.startswith("--"):
            _option(verb, item, marks, source, params)
        else:
            places.append(item)
    _positional(verb, places, params)
    selected = {name.rstrip(MARKS) for name in SELECTION.split()}
    if verb == "list" and (sel := {name: params.pop(name) for name in selected & params.keys()}):
        params["sel"] = sel
    return params


def _option(verb: str, item: str, marks: dict[str, str], source: Any, params: dict[str, Any]) -> None:
    name, equals, value = item[2:].partition("=")
    name = name.replace("-", "_")
    if name == "file" and verb in ("remember", "remember_many"):
        path = value if equals else next(source, "")
        params["text" if verb == "remember" else "items"] = text_of(path)
        return
    negated = name.startswith("no_") and marks.get(name[3:]) == "!"
    name = name[3:] if negated else name
    if name not in marks:
        raise Usage(f"{verb} has no option {item}")
    if marks[name] == "!":
        if equals and value not in ("true", "false"):
            raise Usage(f"--{name} is true or false")
        params[name] = not negated and value != "false"
        return
    given = value if equals else next(source, None)
    if given is None:
        raise Usage(f"--{name} needs a value")
    if marks[name] == "+":
        params.setdefault(name, []).append(_external(given) if name in ("derived_from", "evidence") else given)
    else:
        params[name] = _value(name, marks[name], given)


def _external(given: str) -> Any:
    return _value("source", "@", given) if given.startswith("{") else given


def _value(name: str, mark: str, given: str) -> Any:
    if mark == "@" and (name != "session" or given.startswith("{")):
        try:
            return json.loads(given)
        except ValueError as error:
            raise Usage(f"--{name} is JSON: {error}") from error
    if mark == "#":
        try:
            return int(given) if given.lstrip("-").isdigit() else float(given)
        except ValueError as error:
            raise Usage(f"--{name} is a number") from error
    return given


def _positional(verb: str, places: list[str], params: dict[str, Any]) -> None:
    names = VERBS[verb].split()
    if names == ["ids*"]:
        if not places:
            raise Usage("get needs an id")
        params["ids"] = places
        return
    missing = [name for name in names if name not in params]
    if len(places) != len(missing):
        raise Usage(f"{verb} takes {' '.join(names) or 'no argument'}")
    params.update(zip(missing, places, strict=True))
    if params.get("text") == "-" and verb == "remember":
        params["text"] = text_of("-")
    if verb == "remember_many":
        params["items"] = _value("items", "@", text_of("-") if params["items"] == "-" else params["items"])


def text_of(path: str) -> str:
    """The text of a file, `-` for stdin; UTF-8 whatever the locale, and exact."""
    try:
        raw = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        return raw.decode("utf-8")
    except (OSError, ValueError) as error:
        raise Usage(f"can't read {path or 'the file'}: {error}") from error

"""From words on the command line to a verb and its parameters. Pure, but for reading a text.

Options are the wire's parameter names; values are read by their type in `OPTIONS`: `+` may be repeated, `#` is a
number, `%` a number or a word, `@` is JSON, `!` is yes or no (`--x`, `--x true`, `--x=false`, `--no-x`).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from typing import Any, BinaryIO

import noctuary

VERBS = {
    "hello": "", "describe": "verb", "remember": "text", "remember_many": "items", "get": "ids*",
    "list": "", "forget": "id", "recover": "id", "verify": "id", "reinforce": "id", "weaken": "id",
    "reaffirm": "id", "mark": "id mark", "relate": "from to type", "revise": "id", "session_open": "agent key",
    "session_close": "session", "sessions": "", "session": "session", "trace": "id",
    "review": "", "lifecycle": "", "audit": "", "head": "", "status": "",
    "history": "id", "records": "", "subscribe": "", "cancel": "request", "rebuild": "", "backup": "dir",
    "metrics": "", "explain": "id", "session_provenance": "session",
    "propose": "proposal_kind memory", "decide": "proposal", "proposals": "", "cohort": "action", "cohorts": "",
    "lift": "cohort", "purge": "ids*", "purges": "", "hold": "", "holds": "", "partitions": "", "vacuum": "",
    "residue": "pattern",
}  # fmt: skip
COMMON = "correlation progress! idempotency_key tenants+"
MEMORY = (
    "kind origin subtype session@ role speaker derived_from+ evidence+ topic tags+ entities@ importance# "
    "valence# arousal# interest# challenge# urgency# confidence# protected! vector@ producer@ subject "
    "project source_entity source@ facts@ valid_from valid_to occurred_at metadata@ imported@"
)
SELECTION = "ids+ session subject entity text producer@ origins+ kinds+ status+ tags+ project since until"
OPTIONS = {
    "hello": "via", "remember": MEMORY, "remember_many": "atomic!", "get": "include+ as_of as_known_at",
    "list": SELECTION + " limit# cursor full! as_of as_known_at", "forget": "note", "recover": "evidence+ amount# note",
    "verify": "evidence+ note", "reinforce": "evidence+ amount# note", "weaken": "evidence+ amount# note",
    "reaffirm": "evidence+ amount# note session", "mark": "on! note session",
    "revise": "disposition text origin fields@ session producer@",
    "propose": "other edge fact@ action note", "decide": "accept!", "proposals": "status proposal_kind limit# cursor",
    "purge": SELECTION + " cascade block_reingest! reason dry_run! token", "purges": "receipt limit# cursor",
    "hold": SELECTION + " on! note", "holds": "limit# cursor",
    "cohort": SELECTION + " with@ downstream! token", "cohorts": "limit# cursor",
    "partitions": "tier limit# cursor", "vacuum": "partition tier force! dry_run!",
    "session_open": "project subject producer@ at", "session_close": "at",
    "sessions": "agent open! limit# cursor", "session": "include+ limit# cursor",
    "trace": "direction depth#", "review": "what+ threshold# limit# cursor", "lifecycle": "state enforce!",
    "audit": "from_seq# to_seq# rebuild! against@",
    "records": "since until from_seq# memory session types+ actor% level store_wide! limit# cursor",
    "subscribe": "after@ level types+ store_wide!", "rebuild": "what", "backup": "parts+",
    "session_provenance": "include_clients!",
}  # fmt: skip
SELECTING = frozenset({"list", "cohort", "hold", "purge"})
"""Commands whose options are the fields of a selection."""
MARKS = "+#%@!"
MAY_STAND_LAST = {"revise": "text"}
"""An option that may also stand without its name, behind what must be there."""
REQUIRED = {"remember": ("kind",), "decide": ("accept",)}
"""Options that must be there; whatever else must be is positional."""
REFERENCES = frozenset(["id", "ids*", "session", "from", "to", "memory", "proposal"])
KINDS = (
    "raw", "episode", "note", "belief", "value", "goal", "relationship", "drive", "procedure", "session", "proposal",
)  # fmt: skip
FILES = {"remember": "text", "remember_many": "items", "get": "ids"}
LATER = "recall briefing soul reflect reports"
"""Commands that other versions have."""
NO_FILE = (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError)
"""What makes a path a wrong word. Other faults of a file are faults of input and output."""


class Usage(Exception):
    """Wrong words: exit 2."""


def as_utf8(word: str) -> str:
    """A word as it was typed: UTF-8, whatever the locale made of it. Raises Usage."""
    try:
        return os.fsencode(word).decode("utf-8")
    except ValueError as error:
        raise Usage("what was given is not UTF-8") from error


def wants_json(words: list[str]) -> bool:
    """Whether `--json` stands among the options."""
    return "--json" in (words[: words.index("--")] if "--" in words else words)


def nearest(word: str, known: Iterable[str]) -> str:
    """` (did you mean X?)`, or nothing."""
    from difflib import get_close_matches

    found = get_close_matches(word, sorted(known), 1)
    return f" (did you mean {found[0]}?)" if found else ""


def unknown(name: str, others: Iterable[str] = ()) -> str:
    """What is said of a command that isn't there."""
    if name in LATER.split():
        return f"{name} is not in this version; see noctuary --help"
    return f"no command {name!r}{nearest(name, {*VERBS, *others})}; see noctuary --help"


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


class Words:
    """The words of a command, taken one by one."""

    def __init__(self, words: list[str]) -> None:
        self._words = words
        self._at = 0

    def more(self) -> bool:
        return self._at < len(self._words)

    def next(self) -> str | None:
        """The next word, None at the end."""
        if not self.more():
            return None
        self._at += 1
        return self._words[self._at - 1]

    def next_if(self, allowed: tuple[str, ...]) -> str | None:
        """The next word if it is one of these."""
        return self.next() if self.more() and self._words[self._at] in allowed else None


def parameters(verb: str, words: list[str]) -> dict[str, Any]:
    """The parameters of `verb`. Raises Usage."""
    marks = {name.rstrip(MARKS): name[-1] for name in f"{OPTIONS.get(verb, '')} {COMMON}".split()}
    marks = {**{name.rstrip("*"): "+" if name.endswith("*") else "" for name in VERBS[verb].split()}, **marks}
    params: dict[str, Any] = {}
    places: list[str] = []
    source = Words([as_utf8(word) for word in words])
    while (item := source.next()) is not None:
        if item == "--":
            while (place := source.next()) is not None:
                places.append(place)
        elif item.startswith("--"):
            _option(verb, item, marks, source, params)
        else:
            places.append(item)
    _positional(verb, places, params)
    for name in REQUIRED.get(verb, ()):
        if name not in params:
            raise Usage(f"{verb} needs --{name}; see noctuary {verb} --help")
    if verb == "audit" and isinstance(params.get("against"), dict):
        params["against"] = [params["against"]]
    selected = {name.rstrip(MARKS) for name in SELECTION.split()}
    if verb == "purge":
        _by_ids_or_selection(params, selected)
    elif verb in SELECTING and (sel := {name: params.pop(name) for name in selected & params.keys()}):
        params["sel"] = sel
    if verb in ("cohort", "hold") and "sel" not in params:
        raise Usage(f"{verb} needs options that select memories; see noctuary {verb} --help")
    if verb == "purges" and "receipt" in params:
        params["receipt"] = _address(params["receipt"])
    return params


def _by_ids_or_selection(params: dict[str, Any], fields: set[str]) -> None:
    """References alone name what goes; with other options of a selection they are one of its fields."""
    selecting = fields & params.keys()
    if not selecting:
        raise Usage("purge needs an id, or options that select memories; see noctuary purge --help")
    if selecting != {"ids"}:
        params["sel"] = {name: params.pop(name) for name in selecting}


def _address(given: str) -> dict[str, int]:
    """EPOCH/SEQ, or what an answer in JSON has: {"epoch": EPOCH, "seq": SEQ}."""
    if given.startswith("{"):
        read = _value("receipt", "@", given)
        epoch, seq = (str(read[name]) if set(read) == {"epoch", "seq"} else "" for name in ("epoch", "seq"))
    else:
        epoch, _, seq = given.partition("/")
    if not all(each.isascii() and each.isdecimal() for each in (epoch, seq)):
        raise Usage("--receipt is EPOCH/SEQ, as purge and purges tell it")
    return {"epoch": int(epoch), "seq": int(seq)}


def _option(verb: str, item: str, marks: dict[str, str], source: Words, params: dict[str, Any]) -> None:
    name, equals, value = item[2:].partition("=")
    name = name.replace("-", "_")
    if name == "file" and verb in FILES:
        read = text_of(value if equals else source.next() or "")
        params[FILES[verb]] = read.split() if verb == "get" else read
        return
    negated = name.startswith("no_") and marks.get(name[3:]) == "!"
    name = name[3:] if negated else name
    if name not in marks:
        option = item.partition("=")[0]
        near = nearest(name, marks).replace("mean ", "mean --")
        raise Usage(f"{verb} has no option {option}{near}; see noctuary {verb} --help")
    if marks[name] == "!":
        params[name] = _switch(item, negated, value if equals else None, source)
        return
    given = value if equals else source.next()
    if given is None:
        raise Usage(f"--{name} needs a value")
    if marks[name] == "+":
        params.setdefault(name, []).append(_external(given) if name in ("derived_from", "evidence") else given)
    else:
        params[name] = _value(name, marks[name], given)
        if name == "text" and given == "-" and verb in ("remember", "revise"):
            params[name] = text_of("-")


def _switch(item: str, negated: bool, value: str | None, source: Words) -> bool:
    """`--x`, `--x true`, `--x=true`, `--no-x`."""
    if negated:
        if value is not None:
            raise Usage(f"{item.partition('=')[0]} takes no value")
        return False
    given = source.next_if(("true", "false")) if value is None else value
    if given not in (None, "true", "false"):
        raise Usage(f"{item.partition('=')[0]} is true or false")
    return given != "false"


def _external(given: str) -> Any:
    return _value("source", "@", given) if given.startswith("{") else given


def _value(name: str, mark: str, given: str) -> Any:
    if given == "-" and (mark == "@" or name == "note"):
        given = text_of("-")
    if mark == "@" and (name != "session" or given.startswith("{")):
        try:
            return json.loads(given)
        except ValueError as error:
            raise Usage(f"--{name} is JSON: {error}") from error
    if mark == "#" or (mark == "%" and given.isdecimal()):
        return _number(name, given)
    return given


def _number(name: str, given: str) -> int | float:
    try:
        if "_" in given or not given.isascii():  # Python's own ways to write one
            raise ValueError
        return int(given) if given.lstrip("-").isdecimal() else float(given)
    except ValueError as error:
        raise Usage(f"--{name} is a number") from error


def joined(places: list[str], most: int | None = None) -> list[str]:
    """References in one word each: `raw 095…` is `raw:095…`. `most`: no more than so many of them are joined."""
    out: list[str] = []
    source = Words(places)
    while (place := source.next()) is not None:
        after = source.next() if place in KINDS and (most is None or len(out) < most) else None
        out.append(place if after is None else f"{place}:{after}")
    return out


def _positional(verb: str, places: list[str], params: dict[str, Any]) -> None:
    names = VERBS[verb].split()
    last = MAY_STAND_LAST.get(verb)
    if REFERENCES.intersection(names):
        places = joined(places, None if last is None else len(names))
    if last is not None and last not in params and len(places) > len([name for name in names if name not in params]):
        params[last] = places.pop()
        params[last] = text_of("-") if params[last] == "-" else params[last]
    if names == ["ids*"]:
        if "ids" in params and not places:
            return
        if not places and verb != "get":
            return
        if not places:
            raise Usage("get needs an id")
        params["ids"] = text_of("-").split() if places == ["-"] else places
        return
    missing = [name for name in names if name not in params]
    if len(places) < len(missing):
        raise Usage(f"{verb} needs {' and '.join(name.upper() for name in missing[len(places) :])}")
    if len(places) > len(missing):
        raise Usage(f"{verb} takes {' '.join(names).upper() or 'no argument'}; {places[len(missing)]!r} is too much")
    params.update(zip(missing, places, strict=True))
    if params.get("text") == "-" and verb == "remember" and "text" in missing:
        params["text"] = text_of("-")
    if verb == "remember_many":
        params["items"] = _value("items", "@", params["items"])


def text_of(path: str, most_bytes: int | None = noctuary.LINE_BYTES) -> str:
    """The text of a file, `-` for stdin; UTF-8 whatever the locale, and exact. Raises Usage, OSError, and TooLarge for
    what no request can hold, without reading on; `most_bytes` None: it isn't for one request."""
    try:
        if path == "-":
            return _standard_input(most_bytes).decode("utf-8")
        if "\0" in path:
            raise FileNotFoundError(2, "no file has such a name")
        with open(path.encode("utf-8", "surrogateescape"), "rb") as file:
            return _bounded(file, most_bytes).decode("utf-8")
    except NO_FILE as error:
        raise Usage(f"can't read {path or 'the file'}: {error.strerror}") from error
    except ValueError as error:
        raise Usage(f"can't read {path or 'the file'}: it is not UTF-8") from error


def _standard_input(most_bytes: int | None) -> bytes:
    """Raises Usage when there is none, or it was read already: a second `-` would silently be empty."""
    if sys.stdin is None or sys.stdin.closed:
        raise Usage("standard input is closed")
    with sys.stdin:
        return _bounded(sys.stdin.buffer, most_bytes)


def _bounded(file: BinaryIO, most_bytes: int | None) -> bytes:
    if most_bytes is None:
        return file.read()
    content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise noctuary.TooLarge("what was given is longer than a request may be", data={"limit": most_bytes})
    return content

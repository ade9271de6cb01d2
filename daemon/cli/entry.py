"""`noctuary`: the entry. Imports late what only some commands need; hooks start it at every turn."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import noctuary
from daemon.cli import arguments, exits, render
from daemon.cli.arguments import Usage
from daemon.cli.complaining import complain

META = {"trace": "sources", "reverse": "dependents"}
META_LATER = ("uncertain", "orphans", "verify")
HELP = ("--help", "-h")


def main(argv: list[str] | None = None) -> int:
    """Run one command; the exit code is that of contract PROTOCOL §7."""
    words = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")
    as_json = "--json" in words
    try:
        code = run(words)
        sys.stdout.flush()
        return code
    except Usage as error:
        return complain(as_json, exits.USAGE, str(error), {"reason": "usage"} if as_json else {})
    except RecursionError:
        return complain(
            as_json, exits.USAGE, "what was given is nested too deeply", {"reason": "usage"} if as_json else {}
        )
    except noctuary.NoctuaryError as error:
        data = {"reason": error.reason, **error.data}
        return complain(as_json, exits.of_reason(error.reason), error.message, data, error.code)
    except BrokenPipeError:
        # Whoever read has gone, which is no fault; at its end Python would still flush, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exits.OK


def run(words: list[str]) -> int:
    first = next(iter(arguments.globals_of(words)[1]), "--help")  # --socket and --tenant may stand before it
    if first in ("--help", "-h", "help"):
        from daemon.cli import telling

        print(telling.usage())
        return exits.OK if words else exits.USAGE
    if first == "--version":
        return show_version()
    if wants_help(words):
        from daemon.cli import telling

        print(telling.help_of(first.replace("-", "_")))
        return exits.OK
    if first in ("daemon", "config"):  # they belong to the daemon, which isn't imported for anything else
        from daemon.cli import serving

        rest = [word for word in words if word != "--json"]
        rest.remove(first)
        return serving.run([first, *rest], "--json" in words)
    given, rest = arguments.globals_of(words)
    return command(given, rest)


def wants_help(words: list[str]) -> bool:
    """Whether `--help` stands among the options of a command."""
    before = words[: words.index("--")] if "--" in words else words
    return any(word in HELP for word in before)


def show_version() -> int:
    from importlib.metadata import PackageNotFoundError, version

    try:
        print(f"noctuary {version('noctuary')}")
    except PackageNotFoundError:
        print("noctuary (not installed)")
    return exits.OK


def command(given: dict[str, Any], rest: list[str]) -> int:
    if not rest:
        raise Usage("which command? see noctuary --help")
    name, words = rest[0].replace("-", "_"), rest[1:]
    if name == "schema":
        from daemon.cli import telling

        print(json.dumps(telling.schema(words), indent=2))
        return exits.OK
    if name == "audit":
        return audit(given, words)
    client = noctuary.Client(given["socket"], given["tenant"])
    try:
        return dispatch(client, given, name, words)
    finally:
        client.close()


def audit(given: dict[str, Any], words: list[str]) -> int:
    from daemon.cli import auditing
    from journal.errors import NoctuaryFault

    try:
        told = auditing.run(given, words)
    except NoctuaryFault as fault:
        return complain(given["json"], int(fault.exit_code), str(fault), {"reason": fault.reason})
    return show(given, told, auditing.code_of(told), "audit")


def dispatch(client: noctuary.Client, given: dict[str, Any], name: str, words: list[str]) -> int:
    if name == "import":
        from daemon.cli import importing

        code, told = importing.run(client, words)
        return show(given, told, code, name)
    verb, params = request(name, words)
    result = client.call(verb, params, dict)
    if verb in ("list", "session") and name != "call" and not given["json"]:
        from daemon.cli import fuller

        fuller.fill(client, result, params)
    return show(given, result, code_of(verb, result), verb)


def code_of(verb: str, result: dict[str, Any]) -> int:
    """The exit code of an answer: it may say that a thing isn't there, or that some items were refused."""
    judged: dict[str, Callable[[], int]] = {
        "audit": lambda: exits.DAMAGED if result.get("findings") else exits.OK,
        "forget": lambda: exits.OK if result.get("found", True) else exits.NOT_FOUND,
        "get": lambda: exits.NOT_FOUND if result.get("not_found") else exits.OK,
        "remember_many": lambda: (
            exits.REFUSED if any("error" in row for row in result.get("results") or ()) else exits.OK
        ),
    }
    return judged[verb]() if verb in judged else exits.OK


def request(name: str, words: list[str]) -> tuple[str, dict[str, Any]]:
    """The verb and its parameters behind a command."""
    name = name.replace("-", "_")
    if name == "call":
        return called(words)
    if name == "meta":
        return meta(words)
    if name in arguments.LATER.split():
        raise Usage(f"{name} is not in this version; see noctuary --help")
    if name not in arguments.VERBS:
        raise Usage(f"no command {name!r}; see noctuary --help")
    return name, arguments.parameters(name, words)


def called(words: list[str]) -> tuple[str, dict[str, Any]]:
    """`call VERB JSON`, `call VERB -`."""
    if len(words) not in (1, 2):
        raise Usage("call VERB JSON, or call VERB - for standard input")
    given = words[1] if len(words) == 2 else "{}"
    try:
        params = json.loads(arguments.text_of("-") if given == "-" else given)
    except ValueError as error:
        raise Usage(f"not JSON: {error}") from error
    if not isinstance(params, dict):
        raise Usage("parameters are a JSON object")
    return words[0].replace("-", "_"), params


def meta(words: list[str]) -> tuple[str, dict[str, Any]]:
    if words and words[0] in META_LATER:
        raise Usage(f"meta {words[0]} is not in this version; meta trace and meta reverse are")
    if len(words) not in (2, 3) or words[0] not in META:
        raise Usage("meta trace|reverse KIND:ID (or KIND ID)")
    return "trace", {"id": ":".join(words[1:]), "direction": META[words[0]]}


def show(given: dict[str, Any], result: Any, code: int, verb: str = "") -> int:
    print(json.dumps(result) if given["json"] else render.render(result, verb))
    return code


if __name__ == "__main__":
    sys.exit(main())

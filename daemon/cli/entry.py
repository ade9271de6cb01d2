"""`noctuary`: the entry. Imports late what only some commands need; hooks start it at every turn."""

from __future__ import annotations

import json
import sys
from typing import Any

import noctuary
from daemon.cli import arguments, exits, render
from daemon.cli.arguments import Usage

USAGE = """usage: noctuary [--json] [--socket PATH] [--tenant NAME] VERB ...
verbs: {verbs}
also:  call VERB JSON, import --format turns|locomo FILE, meta trace|reverse ID,
       config, daemon --state DIR --socket PATH --config FILE"""
META = {"trace": "sources", "reverse": "dependents"}


def main(argv: list[str] | None = None) -> int:
    """Run one command; the exit code is that of contract PROTOCOL §7."""
    words = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")
    if words and words[0] in ("daemon", "config"):
        return server(words)
    as_json = "--json" in words
    try:
        given, rest = arguments.globals_of(words)
        return command(given, rest)
    except Usage as error:
        return complain(as_json, {"reason": "usage", "message": str(error)}, exits.USAGE)
    except noctuary.NoctuaryError as error:
        told = {"code": error.code, "message": error.message, "data": {"reason": error.reason, **error.data}}
        return complain(as_json, told, exits.of_reason(error.reason))
    except BrokenPipeError:
        return exits.OK


def complain(as_json: bool, error: dict[str, Any], code: int) -> int:
    """Say it on stderr."""
    print(json.dumps({"error": error}) if as_json else f"noctuary: {error['message']}", file=sys.stderr)
    return code


def server(words: list[str]) -> int:
    """`daemon` and `config` belong to the daemon, which isn't imported for anything else."""
    from daemon.cli import serving

    try:
        return serving.run(words)
    except Usage as error:
        return complain(False, {"message": str(error)}, exits.USAGE)


def command(given: dict[str, Any], rest: list[str]) -> int:
    if not rest or rest[0] in ("--help", "-h", "help"):
        print(USAGE.format(verbs=" ".join(arguments.VERBS)))
        return exits.OK if rest else exits.USAGE
    client = noctuary.Client(given["socket"], given["tenant"])
    try:
        return dispatch(client, given, rest[0], rest[1:])
    finally:
        client.close()


def dispatch(client: noctuary.Client, given: dict[str, Any], name: str, words: list[str]) -> int:
    if name == "import":
        from daemon.cli import importing

        code, told = importing.run(client, words)
        if "error" in told:
            return complain(given["json"], {"message": told["error"], "reason": "invalid_input"}, code)
        return show(given, told, code)
    verb, params = request(name, words)
    result = client.call(verb, params, dict)
    code = exits.NOT_FOUND if result.get("not_found") else exits.OK
    if verb == "audit" and any("damage" in str(item.get("code")) for item in result.get("findings", ())):
        code = exits.DAMAGED
    return show(given, result, code)


def request(name: str, words: list[str]) -> tuple[str, dict[str, Any]]:
    """The verb and its parameters behind a command."""
    name = name.replace("-", "_")
    if name == "call":
        if len(words) not in (1, 2):
            raise Usage("call VERB JSON")
        try:
            params = json.loads(words[1] if len(words) == 2 else "{}")
        except ValueError as error:
            raise Usage(f"not JSON: {error}") from error
        if not isinstance(params, dict):
            raise Usage("parameters are a JSON object")
        return words[0], params
    if name == "meta":
        if len(words) not in (2, 3) or words[0] not in META:
            raise Usage("meta trace|reverse KIND:ID (or KIND ID)")
        return "trace", {"id": ":".join(words[1:]), "direction": META[words[0]]}
    if name not in arguments.VERBS:
        raise Usage(f"no command {name!r}; see noctuary --help")
    return name, arguments.parameters(name, words)


def show(given: dict[str, Any], result: Any, code: int) -> int:
    print(json.dumps(result) if given["json"] else render.render(result))
    return code


if __name__ == "__main__":
    sys.exit(main())

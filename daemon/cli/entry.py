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
also:  VERB --help, --version, schema [VERB], audit --state DIR [--rebuild],
       call VERB JSON, import --format turns|locomo FILE, meta trace|reverse ID,
       config, daemon --state DIR --socket PATH --config FILE --check"""
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
    if (told := without_socket(given, rest)) is not None:
        return told
    client = noctuary.Client(given["socket"], given["tenant"])
    try:
        return dispatch(client, given, rest[0], rest[1:])
    finally:
        client.close()


def without_socket(given: dict[str, Any], rest: list[str]) -> int | None:
    """The exit code of what needs no daemon, else None. An audit whose store is held loses its `--state`."""
    name, words = rest[0].replace("-", "_"), rest[1:]
    if rest[0] == "--version":
        from importlib.metadata import PackageNotFoundError, version

        try:
            print(f"noctuary {version('noctuary')}")
        except PackageNotFoundError:
            print("noctuary (not installed)")
        return exits.OK
    if name == "schema" or (name in arguments.VERBS and words in (["--help"], ["-h"])):
        from daemon.cli import telling

        print(json.dumps(telling.schema(words), indent=2) if name == "schema" else telling.help_of(name))
        return exits.OK
    if name == "audit" and any(word.partition("=")[0] == "--state" for word in words):
        return audit_state(given, rest)
    return None


def audit_state(given: dict[str, Any], rest: list[str]) -> int | None:
    state, kept = arguments.take("--state", rest)
    params = arguments.parameters("audit", kept[1:])
    if params.keys() - {"rebuild"}:
        raise Usage("audit --state DIR takes --rebuild only")
    from pathlib import Path

    from daemon.cli.offline import audit_offline
    from journal.errors import NoctuaryFault

    try:
        told = audit_offline(Path(state), params.get("rebuild", False))
    except NoctuaryFault as fault:
        return complain(given["json"], {"message": str(fault), "reason": fault.reason}, int(fault.exit_code))
    rest[:] = kept
    return None if told is None else show(given, told, audit_code(told), "audit")


def audit_code(result: dict[str, Any]) -> int:
    """Every finding is damage: of the journal, or of a projection that differs from it."""
    return exits.DAMAGED if result.get("findings") else exits.OK


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
    if verb == "audit":
        code = audit_code(result)
    return show(given, result, code, verb)


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


def show(given: dict[str, Any], result: Any, code: int, verb: str = "") -> int:
    print(json.dumps(result) if given["json"] else render.render(result, verb))
    return code


if __name__ == "__main__":
    sys.exit(main())

"""`noctuary`: the entry. Imports late what only some commands need; hooks start it at every turn.

`COMMANDS` has what is more than a verb of the socket; every other name is a verb, asked and shown.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import noctuary
from daemon.cli import arguments, exits, render
from daemon.cli.arguments import Usage
from daemon.cli.complaining import complain, warn

META: dict[str, tuple[str, dict[str, Any]]] = {
    "trace": ("trace", {"direction": "sources"}),
    "reverse": ("trace", {"direction": "dependents"}),
    "uncertain": ("review", {"what": ["uncertain"]}),
    "orphans": ("review", {"what": ["orphans", "ungrounded"]}),
    "verify": ("verify", {}),
}
"""By name the verb, and which of its parameters are set by it."""
HELP = ("--help", "-h")
_SIGNALLED = 128
"""As a shell says of a command that a signal ended: this and its number."""
LONG = frozenset(["audit", "backup", "purge", "hold", "rebuild", "records", "residue"])
"""Verbs that may take longer than a client waits otherwise."""
TELL_HOW_FAR = LONG | {"list"}


def main(argv: list[str] | None = None) -> int:
    """Run one command; the exit code is that of contract PROTOCOL §7."""
    words = list(sys.argv[1:] if argv is None else argv)
    prepare_streams()
    if argv is None:  # this process is the command
        end_in_order()
    as_json = arguments.wants_json(words)
    try:
        code = run(words)
        if sys.stdout is not None:
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
        if error.reason == "not_found" and data.get("parameter") == "verb":
            data["allowed"] = list(arguments.VERBS)
        return complain(as_json, exits.of_reason(error.reason), error.message, data, error.code)
    except BrokenPipeError:
        leave_output()
        return exits.OK
    except KeyboardInterrupt:
        leave_output()
        return exits.INTERRUPTED
    except Ended as ended:  # what was begun has been cleaned up on the way here
        leave_output()
        return _SIGNALLED + ended.number
    except Exception as error:
        from daemon.cli import failing

        code = failing.tell(as_json, error)
        if isinstance(error, OSError):
            leave_output()  # it may be the output itself that failed
        return code


class Ended(BaseException):
    """SIGTERM or SIGHUP: the command ends as at Ctrl-C, with what it had begun taken away."""

    def __init__(self, number: int) -> None:
        self.number = number


def end_in_order() -> None:
    """Have the signals that end a command by others end it through the code that cleans up."""

    def end(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_IGN)
        raise Ended(number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, end)


def prepare_streams() -> None:
    """UTF-8 whatever the locale; and no file that is opened later takes the place of a closed one of the three."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(number)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")


def leave_output() -> None:
    """Whoever read has gone, which is no fault; at its end Python would still flush, and complain."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run(words: list[str]) -> int:
    first = next(iter(arguments.globals_of(words)[1]), "--help")  # --socket and --tenant may stand before it
    if first in HELP:
        show_help({}, [])
        return exits.OK if wants_help(words) else exits.USAGE
    if first == "--version":
        return show_version(arguments.wants_json(words))
    if wants_help(words):
        behind = arguments.globals_of(words)[1][1:2] if first == "meta" else []
        return show_help({}, [first, *(word for word in behind if word in META)])
    given, rest = arguments.globals_of(words)
    if not rest:
        raise Usage("which command? see noctuary --help")
    if rest[0].startswith("-"):
        raise Usage(f"{rest[0]} stands before a command: its options stand behind its name; see noctuary --help")
    name = rest[0].replace("-", "_")
    own = COMMANDS.get(name)
    return own(given, rest[1:]) if own else asked(given, *request(name, rest[1:]))


def wants_help(words: list[str]) -> bool:
    """Whether `--help` stands among the options of a command."""
    before = words[: words.index("--")] if "--" in words else words
    return any(word in HELP for word in before)


def show_version(as_json: bool) -> int:
    from importlib.metadata import PackageNotFoundError, version

    try:
        told = version("noctuary")
    except PackageNotFoundError:
        told = None
    print(json.dumps({"version": told}) if as_json else f"noctuary {told or '(not installed)'}")
    return exits.OK


# --- commands that are more than a verb -----------------------------------------------------------


def show_help(_given: dict[str, Any], words: list[str]) -> int:
    """`help`, `help COMMAND`, `help meta NAME`."""
    from daemon.cli import telling

    if len(words) == 2 and words[0] == "meta" and words[1] in META:
        print(telling.help_of("meta"), telling.help_of(META[words[1]][0]), sep="\n\n")
        return exits.OK
    if len(words) > 1:
        raise Usage("help [COMMAND]")
    print(telling.help_of(words[0].replace("-", "_")) if words else telling.usage())
    return exits.OK


def schema(given: dict[str, Any], words: list[str]) -> int:
    from daemon.cli import telling

    print(json.dumps(telling.schema(words), indent=None if given["json"] else 2))
    return exits.OK


def serve(given: dict[str, Any], words: list[str]) -> int:
    return _of_the_daemon("daemon", given, words)


def config(given: dict[str, Any], words: list[str]) -> int:
    return _of_the_daemon("config", given, words)


def _of_the_daemon(name: str, given: dict[str, Any], words: list[str]) -> int:
    """They belong to the daemon, which isn't imported for anything else."""
    from daemon.cli import serving

    if given["tenant"]:
        raise Usage(f"{name} has no option --tenant")
    socket = [] if given["socket"] is None else ["--socket", given["socket"]]
    return serving.run([name, *words, *socket], given["json"])


def audit(given: dict[str, Any], words: list[str]) -> int:
    from daemon.cli import auditing

    told = auditing.run(given, words)
    return show(given, told, auditing.code_of(told), "audit")


def residue(given: dict[str, Any], words: list[str]) -> int:
    from daemon.cli import searching

    return show(given, searching.run(given, words), exits.OK, "residue")


def rebuild(given: dict[str, Any], words: list[str]) -> int:
    from daemon.cli import rebuilding

    return show(given, rebuilding.run(given, words), exits.OK, "rebuild")


def subscribe(given: dict[str, Any], words: list[str]) -> int:
    from daemon.cli import following

    return following.subscribe(given, words)


def trace(given: dict[str, Any], words: list[str]) -> int:
    """`trace ID`; with `--format` it is drawn."""
    from daemon.cli import tracing

    return tracing.run(given, words)


def import_file(given: dict[str, Any], words: list[str]) -> int:
    from daemon.cli import importing

    if importing.format_of(words) == "frames":  # makes a store, and asks no daemon
        from daemon.cli import exchange

        return exchange.import_frames(given, words)
    client = noctuary.Client(given["socket"], given["tenant"])
    try:
        code, told = importing.run(client, words)
    finally:
        client.close()
    return show(given, told, code, "import")


def export(given: dict[str, Any], words: list[str]) -> int:
    from daemon.cli import exchange

    return exchange.export(given, words)


def restore(given: dict[str, Any], words: list[str]) -> int:
    from daemon.cli import restoring

    return restoring.run(given, words)


def rekey(given: dict[str, Any], words: list[str]) -> int:
    from daemon.cli import rekeying

    return rekeying.run(given, words)


def region(given: dict[str, Any], words: list[str]) -> int:
    from daemon.cli import region as of_region

    return of_region.run(given, words)


def purges(given: dict[str, Any], words: list[str]) -> int:
    """`purges`; with `--html` a receipt becomes a page."""
    from daemon.cli import receipts

    return receipts.run(given, words)


def call(given: dict[str, Any], words: list[str]) -> int:
    return asked(given, *called(words), plain=True)


COMMANDS: dict[str, Callable[[dict[str, Any], list[str]], int]] = {
    "help": show_help,
    "schema": schema,
    "daemon": serve,
    "config": config,
    "audit": audit,
    "rebuild": rebuild,
    "import": import_file,
    "export": export,
    "restore": restore,
    "rekey": rekey,
    "region": region,
    "subscribe": subscribe,
    "trace": trace,
    "purges": purges,
    "residue": residue,
    "call": call,
}
"""What is routed here: the global options `{json, socket, tenant}` and the words behind the name → the exit code.
What they raise is told by `main`: Usage, noctuary.NoctuaryError, NoctuaryFault."""


# --- verbs ---------------------------------------------------------------------------------------


def asked(given: dict[str, Any], verb: str, params: dict[str, Any], plain: bool = False) -> int:
    """Ask the daemon and show its answer. `plain`: as it came, nothing is asked besides."""
    client = noctuary.Client(given["socket"], given["tenant"], None if verb in LONG else 60.0)
    try:
        result = told_how_far(client, verb, params) if verb in TELL_HOW_FAR else client.call(verb, params, dict)
        if verb in ("list", "session", "history") and not plain and not given["json"]:
            from daemon.cli import fuller

            (fuller.fill_history if verb == "history" else fuller.fill)(client, result, params)
    finally:
        client.close()
    if left := result.get("leftover"):  # of a backup: they may be keys
        warn(f"these could not be removed from the directory of the backup: {', '.join(map(str, left))}")
    code = code_of(verb, result)
    if verb == "forget" and not given["json"]:  # the answer doesn't say of what it speaks
        result = {**result, "id": params.get("id")}
    return show(given, result, code, verb)


def answered(given: dict[str, Any], verb: str, params: dict[str, Any]) -> dict[str, Any]:
    """The daemon's answer. Raises noctuary.NoctuaryError."""
    client = noctuary.Client(given["socket"], given["tenant"], 60.0)
    try:
        return client.call(verb, params, dict)
    finally:
        client.close()


def told_how_far(client: noctuary.Client, verb: str, params: dict[str, Any]) -> dict[str, Any]:
    """Ask, and show on a terminal meanwhile how far it is."""
    from daemon.cli import progressing

    with progressing.shown() as on_progress:
        return client.call(verb, params, dict, on_progress)


def code_of(verb: str, result: dict[str, Any]) -> int:
    """The exit code of an answer: it may say that a thing isn't there, or that some items were refused."""
    judged: dict[str, Callable[[], int]] = {
        "audit": lambda: exits.DAMAGED if result.get("findings") else exits.OK,
        "forget": lambda: exits.OK if result.get("found", True) else exits.NOT_FOUND,
        "purge": lambda: _code_of_purge(result.get("results") or []),
        "hold": lambda: exits.NOT_FOUND if result.get("not_found") else exits.OK,
        "get": lambda: exits.NOT_FOUND if result.get("not_found") else exits.OK,
        "remember_many": lambda: (
            exits.REFUSED if any("error" in row for row in result.get("results") or ()) else exits.OK
        ),
    }
    return judged[verb]() if verb in judged else exits.OK


def _code_of_purge(results: list[dict[str, Any]]) -> int:
    if any(row.get("damaged") for row in results):
        return exits.DAMAGED
    return exits.OK if all(row["found"] for row in results) else exits.NOT_FOUND


def request(name: str, words: list[str]) -> tuple[str, dict[str, Any]]:
    """The verb and its parameters behind a command."""
    name = name.replace("-", "_")
    if name == "meta":
        return meta(words)
    if name == "call":
        return called(words)
    if name in arguments.VERBS:
        return name, arguments.parameters(name, words)
    raise Usage(arguments.unknown(name, (*COMMANDS, "meta")))


def called(words: list[str]) -> tuple[str, dict[str, Any]]:
    """`call VERB JSON`, `call VERB -`, `call VERB --file PATH`."""
    words = [arguments.as_utf8(word) for word in words]
    if len(words) == 3 and words[1] == "--file":
        words = [words[0], arguments.text_of(words[2])]
    elif len(words) == 2 and words[1].startswith("--file="):
        words = [words[0], arguments.text_of(words[1].removeprefix("--file="))]
    elif len(words) == 2 and words[1] == "-":
        words = [words[0], arguments.text_of("-")]
    if len(words) not in (1, 2) or words[0].startswith("--"):
        raise Usage("call VERB JSON, call VERB - for standard input, or call VERB --file PATH")
    try:
        params = json.loads(words[1] if len(words) == 2 else "{}")
    except ValueError as error:
        raise Usage(f"not JSON: {error}") from error
    if not isinstance(params, dict):
        raise Usage("parameters are a JSON object")
    return words[0].replace("-", "_"), params


def meta(words: list[str]) -> tuple[str, dict[str, Any]]:
    """`meta NAME …`: another name for a verb with some of its parameters set."""
    name = words[0] if words else ""
    if name not in META:
        raise Usage(f"meta {'|'.join(META)}{arguments.nearest(name, META)}")
    verb, fixed = META[name]
    given = arguments.parameters(verb, words[1:])
    for parameter in fixed:
        if parameter in given:
            raise Usage(f"meta {name} has no option --{parameter}: use noctuary {verb}")
    return verb, {**given, **fixed}


def show(given: dict[str, Any], result: Any, code: int, verb: str = "") -> int:
    """Print a result; its code."""
    return printed(json.dumps(result) if given["json"] else render.render(result, verb), code)


def printed(text: str, code: int) -> int:
    """Print; the code, also when nobody reads it any more."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        leave_output()
    return code


if __name__ == "__main__":
    sys.exit(main())

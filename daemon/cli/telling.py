"""`--help`, `help` and `schema`. The words of verbs and options are those of the reference, what values they take is
read from the wire types. Imported only for these.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from daemon.cli import arguments
from daemon.cli.arguments import Usage
from daemon.cli.option_words import OPTION_WORDS, VERB_WORDS
from daemon.cli.render_text import WIDTH, columns, fold, width, wrap

OTHERS = {
    "import": (
        "import --format turns|locomo|frames FILE [--state DIR] [--master-key FILE]",
        "Writes the turns and memories of a file, and again only what is new; or, of frames, makes a "
        "store of an export.",
        (
            "--format turns|locomo: what the file is; a daemon writes it",
            "--format frames: an export at level content; a new store is made of it, without a daemon",
            "--state DIR: where that store is made: absent or empty (default: NOCTUARY_STATE, else the default place)",
            "--master-key FILE: wrap its keys with the master key in FILE (default: NOCTUARY_MASTER_KEY, else the "
            "credential noctuary-master-key, else none)",
            "FILE: its path, - for standard input",
        ),
    ),
    "export": (
        "export [--tenant NAME] [--level skeleton|sealed|content] [--out FILE] [--force] [--state DIR] "
        "[--master-key FILE]",
        "Writes the whole store as frames, one JSON object a line, of which import --format frames makes a store; or "
        "all that one tenant has, held against what the projections say of it.",
        (
            "--tenant NAME: the frames of this tenant only, nothing of the store's; no store can be made of it",
            "--level skeleton: records only; sealed: with ciphertext; content: with all texts in the clear (default)",
            "--out FILE: a file of its own, mode 0600; - is standard output (default)",
            "--force: replace FILE",
            "--state DIR: the store there, read without a daemon if none has it open (default: NOCTUARY_STATE, "
            "else the default place)",
            "--master-key FILE: the master key of the store, when it has one and no daemon; at level content only "
            "(default: NOCTUARY_MASTER_KEY, else the credential noctuary-master-key)",
        ),
    ),
    "restore": (
        "restore BACKUP [--state DIR] [--vault BACKUP] [--master-key FILE] [--purges FILE | --without-purges]",
        "Makes a store of a backup, without a daemon, and carries out every purge since.",
        (
            "BACKUP: the directory that noctuary backup wrote",
            "--state DIR: where the store is made: absent, empty, or with a file purges only (default: NOCTUARY_STATE, "
            "else the default place)",
            "--vault BACKUP: take the keys from this backup of the same store, which may be newer",
            "--master-key FILE: the master key of the time when the backup's keys were copied, if there was one "
            "(default: NOCTUARY_MASTER_KEY, else the credential noctuary-master-key)",
            "--purges FILE: the purges to carry out again, beside those of the file purges in DIR",
            "--without-purges: carry out none; what was purged since reads again",
        ),
    ),
    "rekey": (
        "rekey [--state DIR] [--master-key FILE] (--new-master-key FILE | --remove-master-key) [--give-up-damaged]",
        "Wraps the keys of a store with another master key, a first one or none, and overwrites the old file. No "
        "daemon may have the store open. Interrupted, it is run again.",
        (
            "--state DIR: the store (default: NOCTUARY_STATE, else the default place)",
            "--master-key FILE: the master key that it has now (default: NOCTUARY_MASTER_KEY, else the credential "
            "noctuary-master-key, else none)",
            "--new-master-key FILE: the one it is to have: 32 bytes or 64 hex digits, readable by nobody else",
            "--remove-master-key: it is to have none; then whoever has its files reads them",
            "--give-up-damaged: a damaged slot ends it otherwise; what such a slot seals is lost for good",
        ),
    ),
    "region": (
        "region dump FILE|- [--force] [--state DIR] | region show [--json] [--state DIR]",
        "Writes a tenant's provenance region as a file of 72-byte rows, or shows them, without a daemon.",
        (
            "dump FILE: a file of its own, mode 0600; - is standard output. Behind the rows stand zeros, up to the "
            "next multiple of 8192 rows",
            "show: the rows as a table, facts counted from 1",
            "--json: the rows with all their fields as at rest, facts counted from 0",
            "--tenant NAME: whose region (default: NOCTUARY_TENANT, else default)",
            "--force: replace FILE",
            "--state DIR: the store there, which no daemon may have open (default: NOCTUARY_STATE, else the default "
            "place)",
        ),
    ),
    "call": (
        "call VERB JSON",
        "Calls a verb with its parameters as one JSON object, as they stand on the wire.",
        ("JSON: the object, {} when left out, - for standard input", "--file PATH: the object, from a file"),
    ),
    "meta": (
        "meta trace|reverse|verify KIND:ID | meta uncertain|orphans",
        "Other names for what is asked most of where memories come from; each takes the options of its verb.",
        (
            "trace KIND:ID: where it comes from (trace)",
            "reverse KIND:ID: what was made from it (trace --direction dependents)",
            "verify KIND:ID: somebody has looked at it, and it is so (verify)",
            "uncertain: what is believed less than --threshold (review --what uncertain)",
            "orphans: what stands on nothing, or on nothing that is left (review --what orphans --what ungrounded)",
            "KIND:ID: also as two words, KIND ID",
            "noctuary help meta NAME: also the options of its verb",
        ),
    ),
    "help": (
        "help [COMMAND]",
        "Tells what a command is for and what it takes, as COMMAND --help does; without one, which there are.",
        (),
    ),
    "schema": (
        "schema [VERB]",
        "Prints the JSON Schema of a verb's parameters and result, or of all verbs.",
        (),
    ),
    "config": (
        "config [--state DIR] [--socket PATH] [--config FILE] [--master-key FILE] [--json]",
        "Prints the effective configuration, and where each value came from.",
        (
            "--state DIR: the state directory",
            "--socket PATH: the socket",
            "--config FILE: the configuration file",
            "--master-key FILE: where the master key is read from; it is not shown",
        ),
    ),
    "daemon": (
        "daemon [--state DIR] [--socket PATH] [--config FILE] [--master-key FILE] [--check]",
        "Runs the daemon in the foreground.",
        (
            "--state DIR: the state directory; a store is made if there is none",
            "--socket PATH: where it listens",
            "--config FILE: the configuration file",
            "--master-key FILE: the master key of the store; one that is made gets it (default: "
            "NOCTUARY_MASTER_KEY, master_key of the configuration, the credential noctuary-master-key, else none)",
            "--check: walk the whole journal before anything is written",
        ),
    ),
}
FORMS = {"residue": "[--file PATH | -] [--state DIR] [--master-key FILE]"}
"""What stands behind the name of a verb that takes other words than the wire."""
EXTRA = {
    "residue": (
        "PATTERN: read from standard input (default, or -), never an argument; a line end behind it isn't part of it",
        "--file PATH: the same, from a file",
        "--state DIR: the store there, read without a daemon if none has it open (default: NOCTUARY_STATE, "
        "else the default place)",
        "--master-key FILE: the master key of the store, when it has one and no daemon",
    ),
    "subscribe": (
        "--after JSON: also a frame, a mark or a head as it was printed",
        "--marks: also say now and then up to where everything was printed",
        "--json: each frame as a line, times in UTC; it ends at SIGINT, SIGTERM and when nobody reads",
    ),
    "revise": ("TEXT: the same as --text TEXT; - for standard input",),
    "remember": ("--file PATH: the text, from a file; TEXT may be - for standard input",),
    "remember_many": ("--file PATH: the items, from a file; ITEMS is a JSON array, or - for standard input",),
    "audit": (
        "--state DIR: the store there, read without a daemon if none has it open (default: NOCTUARY_STATE, "
        "else the default place)",
        "--rebuild: without a daemon it folds in TMPDIR; nothing is written under the state directory",
        "--against JSON: as noctuary head --json prints them",
        "--master-key FILE: not needed; with it, whether it opens every key in use is seen too, without a daemon "
        "(default: NOCTUARY_MASTER_KEY, else the credential noctuary-master-key)",
    ),
    "rebuild": (
        "WHAT: the same as --what WHAT",
        "--state DIR: the store there, folded without a daemon if none has it open (default: NOCTUARY_STATE, "
        "else the default place)",
    ),
    "trace": ("--format mermaid|dot|svg: draw it instead, as text that other programs show",),
    "purge": (
        "IDS: KIND:ID, also as two words; they are purged at once. Options that select memories first only tell",
    ),
    "purges": ("EPOCH/SEQ: the same as --receipt. --html: with it, one receipt as a page for the person who asked",),
    "cancel": (
        "REQUEST: a command has a connection of its own, so that only a program can cancel; Ctrl-C ends a command",
    ),
    "get": (
        "IDS: KIND:ID, also as two words, KIND ID; - for standard input",
        "--file PATH: the ids, from a file, one or more a line",
    ),
}
ABOUT = "Writes and reads memories of a noctuary daemon. noctuary help COMMAND tells more of each."
FOOT = (
    "--version prints the version. The words of a name are joined with - or _. Exit codes: 0 done, 1 not found, "
    "2 wrong words, 3 no daemon, 4 refused, 65 damaged, 70 a fault of the program, 73 can't create, 74 input or output "
    "failed or the outcome is unknown, 75 not now, 77 denied, 78 configuration, 130 interrupted."
)
DIALECT = "https://json-schema.org/draft/2020-12/schema"
COMMON_LINES = (
    "--json: the plain result as one line, times in UTC; errors too, on standard error",
    "--socket PATH: the daemon's socket (default: NOCTUARY_SOCKET, else the usual places)",
    "--tenant NAME: whose memories (default: NOCTUARY_TENANT, else your own)",
    "--: what follows is no option",
)
HEAD_COLUMNS: Final = 24
COMMON_WORDS: Final = {
    "correlation": "a name of the caller's for this call, kept in the journal",
    "progress": "tell how far long work is; on a terminal it is shown anyway",
    "idempotency_key": "a request with the key of an earlier one is not done again: its first answer comes back",
    "tenants": "tenants to read, instead of --tenant",
}


def usage() -> str:
    """The help of the command itself."""
    lines = _wrapped("usage: noctuary [--json] [--socket PATH] [--tenant NAME] COMMAND ...")
    lines += [
        "",
        *fold(ABOUT, _room()),
        "",
    ]
    lines += _pairs((name, sentence_of(name)) for name in arguments.VERBS)
    lines += ["", *_pairs((name, told) for name, (_, told, _) in OTHERS.items()), "", *fold(FOOT, _room())]
    return "\n".join(lines)


def sentence_of(verb: str) -> str:
    """One sentence on what a verb does."""
    return VERB_WORDS[verb].partition(". ")[0].removesuffix(".") + "."


def schema(words: list[str]) -> dict[str, Any]:
    """JSON Schemas of the verb named, else of all. Raises Usage."""
    from daemon.wire.schema import schemas_of

    if len(words) > 1:
        raise Usage("schema [VERB]")
    verb = words[0].replace("-", "_") if words else ""
    if verb and verb not in arguments.VERBS:
        raise Usage(f"there is no verb {words[0]!r}{arguments.nearest(verb, arguments.VERBS)}; see noctuary --help")
    asked = [verb] if verb else arguments.VERBS
    found = {each: {part: {"$schema": DIALECT, **told} for part, told in schemas_of(each).items()} for each in asked}
    return found[verb] if verb else found


def help_of(name: str) -> str:
    """Usage, what it is for, and for each option what it is, what it may be and what holds without it. Raises Usage."""
    if name in OTHERS:
        form, told, options = OTHERS[name]
        lines = [*_wrapped(f"usage: noctuary {form}"), "", *fold(told, _room()), "", *_lines(options)]
        return "\n".join(lines).rstrip()
    if name not in arguments.VERBS:
        raise Usage(arguments.unknown(name, OTHERS))
    places = " ".join(word.upper() for word in arguments.VERBS[name].split()).replace("*", " ...")
    must = "".join(_must(name, word) for word in arguments.REQUIRED.get(name, ()))
    last = f" [{arguments.MAY_STAND_LAST[name].upper()}]" if name in arguments.MAY_STAND_LAST else ""
    form = FORMS.get(name, f"{places}{last}{must} [--OPTION VALUE ...]".lstrip())
    lines = _wrapped(f"usage: noctuary {name} {form}")
    lines += ["", *fold(VERB_WORDS[name], _room()), ""]
    own = _merged([*_places(name), *_options(name), *_split(EXTRA.get(name, ()))])
    common = {head: words for head, words in _split(COMMON_LINES) if head not in own}
    return "\n".join([*lines, *_pairs({**own, **common}.items(), "  ")])


def _must(verb: str, option: str) -> str:
    """An option that must be there, as the usage has it."""
    is_switch = f"{option}!" in arguments.OPTIONS[verb].split()
    return f" --[no-]{option}" if is_switch else f" --{option} {option.upper()}"


def _merged(told: Iterable[tuple[str, str]]) -> dict[str, str]:
    """What is said of an option in two places, in one."""
    merged: dict[str, str] = {}
    for head, words in told:
        known = next((each for each in merged if each.partition(" ")[0] == head.partition(" ")[0]), None)
        merged[known or head] = words if known is None else f"{merged[known]}; {words}"
    return merged


def _places(verb: str) -> list[tuple[str, str]]:
    """What stands without an option's name, with the words of closed sets."""
    from daemon.cli.render_schema import choices, followed
    from daemon.wire.schema import schemas_of

    told = schemas_of(verb)["params"]
    known = followed(told, told["$defs"])["properties"]
    out = []
    for name in (word.rstrip("*") for word in arguments.VERBS[verb].split()):
        words = choices(known.get(name, {}), told["$defs"])
        out.append((name.upper(), OPTION_WORDS[verb][name] + (f" ({words})" if words else "")))
    return out


def _options(verb: str) -> list[tuple[str, str]]:
    """Each option with the form of its value, and its words."""
    from daemon.cli.render_schema import bounds, default, followed, place
    from daemon.wire.schema import schemas_of

    told = schemas_of(verb)["params"]
    defs = told["$defs"]
    known = dict(followed(told, defs)["properties"])
    known |= defs["Selection"]["properties"] if verb in arguments.SELECTING else {}
    out = []
    for word in f"{arguments.OPTIONS.get(verb, '')} {arguments.COMMON}".split():
        name, mark = word.rstrip(arguments.MARKS), word[-1]
        if name not in known:
            continue
        form = "[true|false]" if mark == "!" else place(known[name], defs)
        notes = [*bounds(known[name], defs), *default(known[name])]
        notes += ["may be repeated"] if mark == "+" else ["or --no-" + name.replace("_", "-")] if mark == "!" else []
        notes += ["- for standard input"] if form == "JSON" and mark == "@" else []
        notes += ["required"] if name in arguments.REQUIRED.get(verb, ()) else []
        words = COMMON_WORDS.get(name) or OPTION_WORDS[verb][name]
        out.append((f"--{name} {form}", words + (f" ({'; '.join(notes)})" if notes else "")))
    return out


# --- lines ---------------------------------------------------------------------------------------


def _room() -> int:
    """Prose is read in lines of at most 80 columns, however wide the terminal is."""
    return min(WIDTH, width())


def _wrapped(text: str) -> list[str]:
    return wrap(text, room=_room())


def _lines(told: Iterable[str]) -> list[str]:
    """`OPTION: words` lines."""
    return _pairs(_split(told), "  ")


def _split(told: Iterable[str]) -> list[tuple[str, str]]:
    return [(head, words) for head, _, words in (each.partition(": ") for each in told)]


def _pairs(told: Iterable[tuple[str, str]], indent: str = "") -> list[str]:
    """Names and what they are, in two columns; a name that is too long has a line of its own."""
    lines: list[str] = []
    room = _room()
    beside = HEAD_COLUMNS if room == WIDTH else 6
    for head, words in told:
        pieces = fold(words, room - beside)
        if columns(indent + head) + 2 > beside:
            lines += wrap(head, indent, room)
        else:
            lines.append((indent + head).ljust(beside) + pieces.pop(0))
        lines += [" " * beside + piece for piece in pieces]
    return lines

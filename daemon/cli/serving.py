"""`noctuary daemon` and `noctuary config`: the only commands that import the daemon itself.

`noctuary daemon --check` walks the whole journal, in a child process, before anything is written.
"""

from __future__ import annotations

import functools
import os
import signal
import sys

import msgspec

from daemon.cli.arguments import Usage
from daemon.cli.complaining import complain
from daemon.config import KEYS, Config, load_config, show_config
from journal.errors import NoctuaryFault

FLAGS = ("state", "socket", "config", "master_key")
CHECK = "--check"


def flags_of(words: list[str]) -> dict[str, str]:
    """`--state DIR --socket PATH --config FILE --master-key FILE`, in any order, by key. Raises Usage."""
    found: dict[str, str] = {}
    source = iter(words)
    for item in source:
        option, equals, value = item.removeprefix("--").partition("=")
        name = option.replace("-", "_")
        if not item.startswith("--") or name not in FLAGS:
            raise Usage(f"no option {item}")
        given = value if equals else next(source, "")
        if not given:
            raise Usage(f"--{option} needs a value")
        found[name] = given
    return found


def run(words: list[str], as_json: bool = False) -> int:
    """`daemon` in the foreground, or `config` printed. The exit code."""
    check_all = words[0] == "daemon" and CHECK in words
    found = flags_of([word for word in words[1:] if not (check_all and word == CHECK)])
    load = functools.partial(load_config, found.pop("config", None), found)
    try:
        config = load()
    except NoctuaryFault as fault:
        return complain(as_json, int(fault.exit_code), str(fault), {"reason": fault.reason} if as_json else {})
    if words[0] == "config":
        print_config(config, as_json)
        return 0
    _end_early_on_signals()
    from daemon.main import run_daemon

    return run_daemon(config, load, check_all=check_all)


def _end_early_on_signals() -> None:
    """Until the loop takes signals itself nothing is open: being told to stop is an orderly end."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: os._exit(os.EX_OK))


def print_config(config: Config, as_json: bool) -> None:
    """Each key with its value and where it came from."""
    if not as_json:
        show_config(config, sys.stdout.write)
        return
    told = {key: {"value": getattr(config, key), "source": config.sources[key]} for key in KEYS}
    sys.stdout.write(msgspec.json.encode(told).decode() + "\n")

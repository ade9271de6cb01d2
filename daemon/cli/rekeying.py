"""`noctuary rekey`: another master key for a store that no daemon has open, a first one, or none.

The key that opens the store now is that of `--master-key`, found as for every other command. Run again after it was
interrupted it finishes what was begun: also with the old key, which then opens nothing any more.
"""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from daemon.cli import arguments, exits
from daemon.cli.arguments import Usage
from daemon.cli.keyed import take_key_file
from daemon.config import default_state
from daemon.keyfile import harden, master_keys
from journal.masterkey import read_master_key
from journal.rekeying import Change, Changed, change_master_key

FORM: Final = (
    "rekey [--state DIR] [--master-key FILE] (--new-master-key FILE | --remove-master-key) [--give-up-damaged]"
)
NEW, REMOVE, GIVE_UP = "--new-master-key", "--remove-master-key", "--give-up-damaged"


def run(given: dict[str, Any], words: list[str]) -> int:
    """Change it and tell; the exit code. Raises Usage, NoctuaryFault."""
    if given["tenant"] or given["socket"] is not None:
        raise Usage("rekey works on a store that no daemon has open: it takes --state, no --socket and no --tenant")
    root, old_file, new_file, give_up = _options(words)
    harden()
    with ExitStack() as stack:
        new = None if new_file is None else stack.enter_context(read_master_key(Path(new_file)))
        old = stack.enter_context(master_keys(old_file)).master
        changed = change_master_key(root, Change(old, new, give_up))
    _show(given, root, changed, wrapped=new_file is not None)
    return exits.OK


def _options(words: list[str]) -> tuple[Path, str | None, str | None, bool]:
    """`(state directory, file of the old key, of the new one, whether damaged slots are given up)`. Raises Usage."""
    remove, give_up = REMOVE in words, GIVE_UP in words
    words = [word for word in words if word not in (REMOVE, GIVE_UP)]
    names = {word.partition("=")[0] for word in words}
    new_file = None
    if NEW in names:
        new_file, words = arguments.take(NEW, words)
    old_file, words = take_key_file(words)
    state = os.environ.get("NOCTUARY_STATE", "")
    if "--state" in names:
        state, words = arguments.take("--state", words)
    if words or remove is (new_file is not None):
        raise Usage(f"usage: noctuary {FORM}")
    return Path(state or default_state(os.environ)), old_file, new_file, give_up


def _show(given: dict[str, Any], root: Path, changed: Changed, wrapped: bool) -> None:
    told = {
        "state": str(root),
        "store": changed.store_id.hex(),
        "master_key": wrapped,
        "changed": changed.anew,
        "keys": changed.keys,
        "given_up": list(changed.given_up),
    }
    print(json.dumps(told) if given["json"] else _sentence(root, changed, wrapped))


def _sentence(root: Path, changed: Changed, wrapped: bool) -> str:
    which = "that master key" if wrapped else "no master key"
    if not changed.anew:
        return f"{root} opens with {which} already; nothing was left to do"
    lost = f"; {len(changed.given_up)} damaged slots were given up" if changed.given_up else ""
    return (
        f"{root} opens with {which} from now on: {changed.keys} keys were written anew, the old file was overwritten"
        f"{lost}. Backups keep the master key of the time when they were made"
    )

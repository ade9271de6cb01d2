"""`noctuary restore`: a store made of a backup, by this process; no daemon is asked.

Which purges are carried out again: those of `--purges FILE`, and of the file `purges` in the state directory. Without
any what was purged since the backup reads again: that is said loudly, unless `--without-purges` wants it so; so is a
list that may be an old copy.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import noctuary
from daemon.cli import arguments, complaining, exits, progressing, render
from daemon.cli.arguments import Usage
from daemon.cli.keyed import take_key_file
from daemon.cli.render_text import counted
from daemon.config import default_state
from daemon.keyfile import master_keys
from journal.errors import DamagedStore
from journal.layout import StateDir
from journal.purges import Purges, read_purges
from journal.restoring import Outcome, Wanted, restore
from journal.times import format_ms
from journal.tsid import memory_ref

FORM = "restore BACKUP [--state DIR] [--vault BACKUP] [--master-key FILE] [--purges FILE | --without-purges]"
VALUED = ("--state", "--vault", "--purges")


def run(given: dict[str, Any], words: list[str]) -> int:
    """Make the store and tell of it; the exit code. Raises Usage, NoctuaryFault."""
    from daemon.main import VERSION
    from daemon.repurging import again

    if given["tenant"] or given["socket"] is not None:
        raise Usage("a restore makes a store: it takes --state, no --socket and no --tenant")
    key_file, words = take_key_file(words)
    backup, options, without = _options(words)
    root = Path(options.get("--state") or os.environ.get("NOCTUARY_STATE") or default_state(os.environ)).absolute()
    found = Purges((), ()) if without else _purges(root, options.get("--purges"))
    vault_from = Path(options["--vault"]) if "--vault" in options else None
    with master_keys(key_file) as keys, progressing.shown() as on_progress:
        now_ms = time.time_ns() // 1_000_000
        wanted = Wanted(backup, vault_from, found.directives, VERSION, now_ms, again, keys.master)

        def step(phase: str, done: int, of: int) -> None:
            if on_progress is not None:
                on_progress(noctuary.Progress(0, done, of, phase))

        made = restore(root, wanted, step)
    warnings = [*_cut_short(found), *_warnings(made, found, without, "--purges" in options)]
    _show(given, root, made, warnings)
    return exits.OK


def _options(words: list[str]) -> tuple[Path, dict[str, str], bool]:
    """`(backup, values of options, whether purges are not wanted)`. Raises Usage."""
    without = "--without-purges" in words
    words = [word for word in words if word != "--without-purges"]
    found: dict[str, str] = {}
    for option in VALUED:
        if any(word.partition("=")[0] == option for word in words):
            found[option], words = arguments.take(option, words)
    words = [word for word in words if word != "--"]
    if without and "--purges" in found:
        raise Usage("restore takes --purges FILE or --without-purges, not both")
    if len(words) != 1 or words[0].startswith("--"):
        raise Usage(f"usage: noctuary {FORM}")
    return Path(words[0]), found, without


def _purges(root: Path, given: str | None) -> Purges:
    """The purges to be carried out again. Raises Usage, DamagedStore when a line of theirs is lost."""
    there = _listed(StateDir(root).purges_file)
    if given is None:
        return there
    if not Path(given).is_file():
        raise Usage(f"there is no file {given}: --purges takes the file purges of the store, or a copy of it")
    found = _listed(Path(given))
    damaged = tuple(sorted({*found.damaged_lines, *there.damaged_lines}))
    return Purges(tuple(dict.fromkeys((*found.directives, *there.directives))), damaged, ())


def _listed(path: Path) -> Purges:
    found = read_purges(path)
    if found.lost_lines:
        lines = ", ".join(map(str, found.lost_lines[:10]))
        raise DamagedStore(
            "purge list",
            f"{path} can't be read in {len(found.lost_lines)} lines: {lines}",
            "What they purged would read again: take a sound copy of the file, or remove these lines to go without.",
        )
    return found


def _cut_short(found: Purges) -> list[str]:
    """Lines that a crash explains may still be all that is left of a purge: the store that was to write it again at its
    next opening is lost.
    """
    if not found.damaged_lines:
        return []
    lines = ", ".join(map(str, found.damaged_lines[:10]))
    return [
        f"{len(found.damaged_lines)} lines of the purge list are cut short, as a crash leaves them: {lines}. What such "
        "a line purged READS AGAIN in this store, unless another line says it too."
    ]


def _warnings(made: Outcome, found: Purges, without: bool, given: bool) -> list[str]:
    purges = made.reapplied
    warnings = [] if without else list(_of_the_list(made, found, given))
    if purges.foreign:
        warnings.append(f"{purges.foreign} purges of the list are of another store and were passed over.")
    if purges.held:
        told = ", ".join(memory_ref(*ref) for ref in purges.held[:10])
        held = counted(len(purges.held), "memory", "memories")
        warnings.append(f"{held} under hold in the backup went all the same, as purged later: {told}.")
    if made.unnamed:
        warnings.append(
            f"{made.unnamed} parts read as purged, and no purge of the list names them: the vault part is newer than "
            "the list. `noctuary audit` tells which."
        )
    return warnings


def _of_the_list(made: Outcome, found: Purges, given: bool) -> Iterator[str]:
    """What a list that is missing, or may be an old one, leaves open."""
    own = [each for each in found.directives if each.store == made.store_id.hex()]
    if not own:
        what = "THE PURGE LIST HAS NO PURGE OF THIS STORE" if given else "NO PURGE LIST"
        since = f"whatever was purged after {made.vault_at} READS AGAIN in this store"
        if made.vault_at > made.at:
            since += f" (what was purged after {made.at} is unreadable, but not known as purged)"
        yield (
            f"{what}: {since}. If anything was, "
            "remove the store and restore again with --purges FILE (the file purges of the lost state directory)."
        )
        return
    newest = max(own, key=lambda each: (each.epoch, each.seq))
    if (newest.epoch, newest.seq) < (made.forked_from.epoch, made.forked_from.seq):
        yield (
            f"The newest purge of the list is of {format_ms(newest.at)}, from before the backup. If anything was "
            "purged since, the list is an old copy, and that READS AGAIN in this store: restore again with the newest."
        )


def _show(given: dict[str, Any], root: Path, made: Outcome, warnings: list[str]) -> None:
    for warning in warnings:
        complaining.warn(warning)
    told = _told(root, made, warnings)
    print(json.dumps(told) if given["json"] else render.render(told, "restore"))


def _told(root: Path, made: Outcome, warnings: list[str]) -> dict[str, Any]:
    source, head, purges = made.forked_from, made.head, made.reapplied
    return {
        "state": str(root),
        "store": made.store_id.hex(),
        "epoch": head.epoch,
        "seq": head.seq,
        "chain": head.chain.hex(),
        "from": {"epoch": source.epoch, "seq": source.seq, "chain": source.chain.hex(), "at": made.at},
        "purges": {
            "applied": purges.applied,
            "already": purges.already,
            "not_found": purges.not_found,
            "foreign": purges.foreign,
            "held": [memory_ref(*ref) for ref in purges.held],
        },
        "unnamed": made.unnamed,
        "warnings": warnings,
    }

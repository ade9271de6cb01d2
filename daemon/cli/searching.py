"""`noctuary residue`: looking for what a text has left, by the daemon that has the store open, or by this process.

What is looked for comes from standard input or a file, never from the command line, which other users of the machine
can read and shells keep. One line end behind it is not part of it. It is in no message either. Which store is meant is
found out as for `audit`. Without a daemon nothing is written under the state directory, and a store that has a master
key is searched only with it: else nothing would be opened, and all would look erased.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daemon.cli import arguments, auditing
from daemon.cli.arguments import Usage

if TYPE_CHECKING:
    from journal.masterkey import Keys

FORM = "residue [--file PATH | -] [--state DIR] [--master-key FILE]"


def run(given: dict[str, Any], words: list[str]) -> dict[str, Any]:
    """The result. Raises Usage, noctuary.NoctuaryError, NoctuaryFault."""
    from daemon.cli.keyed import take_key_file

    key_file, words = take_key_file(words)
    state, rest = auditing.place_of(given["socket"], words)
    params = parameters(rest)
    if state is None:
        return auditing.asked(given, params, verb="residue")
    _refuse_backup(state)
    from daemon.cli import progressing
    from daemon.cli.offline import store_at
    from daemon.keyfile import master_keys

    with master_keys(key_file) as keys, progressing.shown() as on_progress:
        told = residue_offline(state, params, progressing.teller(on_progress), keys)
    return auditing.asked(given, params, state, store_at(state), verb="residue") if told is None else told


def _refuse_backup(state: Path) -> None:
    """Its parts are no store that could be opened. Raises Usage."""
    from journal.layout import StateDir
    from journal.manifest import MANIFEST

    if (state / MANIFEST).is_file() and not StateDir(state).format_file.exists():
        raise Usage(f"{state} is a backup: restore it into another directory, and search there")


def parameters(words: list[str]) -> dict[str, Any]:
    """Raises Usage, which doesn't repeat a word: it may be what is looked for."""
    if len(words) == 1 and words[0].startswith("--file="):
        path = words[0].removeprefix("--file=")
    elif len(words) == 2 and words[0] == "--file":
        path = words[1]
    elif words in ([], ["-"]):
        path = "-"
    else:
        raise Usage(f"{FORM}: what is looked for is read from standard input or a file, never from the command line")
    read = arguments.text_of(path)
    return {"pattern": read.removesuffix("\n").removesuffix("\r")}


def residue_offline(state: Path, params: dict[str, Any], tell: Any, keys: Keys) -> dict[str, Any] | None:
    """What lies at `state`, read by this process; None when the lock is held. Raises NoctuaryFault."""
    import msgspec

    from daemon.asking import Asking
    from daemon.cli.offline import open_to_read
    from daemon.reads.residue import residue
    from daemon.wire.erasure_params import ResidueParams
    from journal.errors import StoreLocked
    from projections.store import ProjectionStore

    typed = auditing.checked(params, ResidueParams)
    try:
        with (
            open_to_read(state, keys) as (store, _),
            tempfile.TemporaryDirectory(prefix="noctuary-residue-") as scratch,
        ):
            folded = ProjectionStore.open(Path(scratch) / "folded", store.boot_id)
            try:
                folded.catch_up(store.log, lambda done, of: tell("fold", done, of))
                result = residue(store, folded, typed, Asking(tell=tell), state.absolute())
            finally:
                folded.close(clean=False)
    except StoreLocked:
        return None
    told: dict[str, Any] = msgspec.to_builtins(result)
    return told

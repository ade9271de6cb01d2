"""How projections that stand complete beside those in use take their place on the disk.

They are made under the name ending in `.new`, with `OPEN` of this boot in it, or synced and without. Then the old
ones are taken away, data first, and the new ones take the name. A crash leaves the old ones, the new ones, or none,
which are folded from the journal; never some of each. Who has the old environment open keeps it: its files have no
name any more, but they are there until they are closed.
"""

from __future__ import annotations

import os
from pathlib import Path

from journal.errors import StoreIO
from journal.layout import StateDir, new_path, sync_directory
from journal.log import Log
from projections import trust
from projections.store import ProjectionStore


def take_place(directory: Path) -> OSError | None:
    """Put what lies under the new name of `directory` there. Raises OSError when it is not there: what was there may
    be gone. The error that is returned is none of that: the name stands, and may not outlast a power cut."""
    if os.path.lexists(directory):
        trust.remove(directory)
    return take_name(directory)


def take_name(directory: Path) -> OSError | None:
    """Let what is there no longer be new; as `take_place`."""
    new_path(directory).rename(directory)
    try:
        sync_directory(directory.parent)
    except OSError as error:
        return error
    return None


def settle(state_dir: StateDir, boot_id: bytes, log: Log) -> None:
    """Where nobody has projections open: catch up what lies under the new name, leave it as a clean stop does, and put
    it in its place. The copy of the old ones goes first. Raises DamagedStore, StoreIO, OSError.
    """
    directory = state_dir.projections_dir
    fresh = ProjectionStore.open(new_path(directory), boot_id)
    clean = False
    try:
        fresh.catch_up(log)
        clean = True
    finally:
        fresh.close(clean)
    remove_copy(state_dir.projections_copy_dir)  # first: a crash must not leave it to be believed again
    try:
        unsynced = take_place(directory)
    except OSError as error:
        raise StoreIO(f"{directory.name}: {error.strerror}") from error
    if unsynced is not None:
        raise StoreIO(f"{directory.name}: {unsynced.strerror}") from unsynced


def remove_copy(copy: Path) -> None:
    """Take the copy of the projections away, if there is one. Raises OSError."""
    if os.path.lexists(copy):
        trust.remove(copy)


def remove_new(directory: Path) -> None:
    """Take away what was being made for `directory`."""
    if os.path.lexists(new_path(directory)):
        trust.remove(new_path(directory))

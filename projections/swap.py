"""How projections that stand complete beside those in use take their place on the disk.

They are made under the name ending in `.new`, with `OPEN` of this boot in it, or synced and without. Then the old
ones are taken away, data first, and the new ones take the name. A crash leaves the old ones, the new ones, or none,
which are folded from the journal; never some of each. Who has the old environment open keeps it: its files have no
name any more, but they are there until they are closed.
"""

from __future__ import annotations

import os
from pathlib import Path

from journal.layout import StateDir, new_path, take_name
from journal.log import Log
from projections import trust
from projections.store import ProjectionStore


def take_place(directory: Path) -> None:
    """Put what lies under the new name of `directory` there. Raises StoreIO, OSError."""
    if os.path.lexists(directory):
        trust.remove(directory)
    take_name(directory)


def settle(state_dir: StateDir, boot_id: bytes, log: Log) -> None:
    """Where nobody has projections open: catch up what lies under the new name, leave it as a clean stop does, and put
    it in its place. The copy of the old ones goes. Raises DamagedStore, StoreIO, OSError.
    """
    directory = state_dir.projections_dir
    fresh = ProjectionStore.open(new_path(directory), boot_id)
    clean = False
    try:
        fresh.catch_up(log)
        clean = True
    finally:
        fresh.close(clean)
    take_place(directory)
    if os.path.lexists(state_dir.projections_copy_dir):
        trust.remove(state_dir.projections_copy_dir)


def remove_new(directory: Path) -> None:
    """Take away what was being made for `directory`."""
    if os.path.lexists(new_path(directory)):
        trust.remove(new_path(directory))

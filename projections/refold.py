"""Folding projections anew beside those in use, in a process of its own: `python -m projections.refold STATE TO_SEQ
[PROJECTION…]`.

Without names all are folded from record 1. With names the environment in use is copied as it stands, and only those
are folded anew, up to the copy's watermark; every value of the others is checked. What is made lies under the name
ending in `.new`. Run again it goes on: so whoever waits for it has it come near the journal's head while writes go on,
and does only the last records itself. The journal is read, and nothing of it is written.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import lmdb

from journal.environment import Environment
from journal.errors import DamagedStore, StoreIO
from journal.layout import StateDir, new_path, read_boot_id, read_format
from journal.log import DATABASES, Log
from projections import child, tables, trust
from projections.rows import DamagedRow
from projections.scrub import scrub
from projections.store import ProjectionStore


def refold(state: Path, to_seq: int, projections: Sequence[str]) -> None:
    """Bring what lies under the new name up to record `to_seq`. Raises NoctuaryFault."""
    state_dir, boot_id = StateDir(state), read_boot_id()
    directory = new_path(state_dir.projections_dir)
    begins = not os.path.lexists(directory)
    if begins and projections:
        _copy(state_dir.projections_dir, directory, boot_id)
    store = ProjectionStore.open(directory, boot_id)
    try:
        if begins and projections and not store.head.seq:
            raise DamagedRow(tables.META)  # the copy's watermark could not be read
        journal = Environment.open(state_dir.journal_dir, DATABASES, durable=True, readonly=True)
        try:
            log = Log(journal, read_format(state_dir.format_file))
            if begins and projections:
                store.fold_anew(log, projections, _tell)
                scrub(store.env)
            store.catch_up(log, _tell, to_seq)
        finally:
            journal.close()
    finally:
        store.close(False)


def _copy(source: Path, directory: Path, boot_id: bytes) -> None:
    """The projections in use, as they stand. Raises DamagedRow when they can't be copied."""
    databases = (*tables.DATABASES, tables.META)
    try:
        env = Environment.open(source, databases, durable=False, readonly=True)
        try:
            env.copy(directory)
        finally:
            env.close()
    except (DamagedStore, StoreIO, lmdb.Error) as error:
        raise DamagedRow("projections") from error
    trust.write_open(directory, boot_id)


def _tell(seq: int, to_seq: int) -> None:
    child.tell("fold", seq, to_seq)


def main(arguments: list[str]) -> int:
    child.begin()
    state, to_seq, *projections = arguments
    return child.run(lambda: refold(Path(state), int(to_seq), projections))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

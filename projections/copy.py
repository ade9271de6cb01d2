"""`projections.copy`: a compact, synced copy of the projections, left beside them now and then.

Projections are not fsync'd, so that those of another boot are never opened. The copy is: what is folded then begins at
its watermark, not at record 1. A child process makes it (`python -m projections.copy PROJECTIONS COPY`), reads every
value of it once, and writes `SEAL` last: so it holds the bytes that were checked, or is not used.

`SEAL` (little-endian): the record it stands at u64, size of `data.mdb` u64, BLAKE2b-256 of it 32 bytes, CRC-32C.

Disposable, and never believed: it is taken only if the seal holds, all projections are of this version, and its
watermark is a place in this journal. It is copied again when it is taken, so that it is there for the next time too.
It goes when the projections it was made of are folded anew from the journal, for whatever was wrong there.
"""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

from journal.copying import copy_file, digest_of
from journal.environment import Environment
from journal.errors import DamagedStore, StoreIO
from journal.layout import StateDir, new_path, sync_directory, take_name, write_synced
from journal.log import Log
from journal.space import free_bytes, make_way
from projections import child, rows, tables, trust
from projections.scrub import scrub
from projections.store import ProjectionStore
from projections.swap import remove_copy, remove_new, take_place
from projections.watermark import check_place

_SEAL = struct.Struct("<QQ32s")
_SEAL_KEY = b"SEAL"
_DATABASES = (*tables.DATABASES, tables.META)


def seal_file(directory: Path) -> Path:
    """Where the seal of the copy in `directory` lies."""
    return directory / "SEAL"


def make_copy(source: Path, copy: Path) -> int:
    """Copy the projections in `source` to the new name of `copy`, complete but for the name; the record they stand
    at. Raises DamagedRow for one whose values don't hold, StoreIO, DamagedStore.
    """
    remove_new(copy)
    directory = new_path(copy)
    env = Environment.open(source, _DATABASES, durable=False, readonly=True)
    try:
        env.copy(directory)
    finally:
        env.close()
    seq = _check(directory)
    (directory / "lock.mdb").unlink()
    found = digest_of(directory / trust.DATA_FILE)
    payload = _SEAL.pack(seq, found.size_bytes, bytes.fromhex(found.digest))
    write_synced(seal_file(directory), rows.seal_row(_SEAL_KEY, payload))
    sync_directory(directory)
    return seq


def _check(directory: Path) -> int:
    """Every value; the record the copy stands at."""
    env = Environment.open(directory, _DATABASES, durable=False, readonly=True)
    try:
        scrub(env)
        store = ProjectionStore.of(env, directory)
        if store.stale():
            raise rows.DamagedRow(tables.META)
        return store.head.seq
    finally:
        env.close()


def take_name_of_copy(copy: Path) -> None:
    """Let the copy that is complete take its name; the old one goes. Raises StoreIO, OSError."""
    remove_copy(copy)
    take_name(copy)


def copied_seq(copy: Path) -> int:
    """The record that the copy says it stands at, 0 when there is none to be used. Its data are not looked at."""
    try:
        return _read_seal(copy)[0]
    except NotUsed:
        return 0


class NotUsed(Exception):
    """Why a copy is not taken: one word."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


def take_copy(state_dir: StateDir, boot_id: bytes, log: Log) -> str | None:
    """Put the copy in the place of projections that are of another boot; None, also when there is no copy. Else why it
    can't be used, in one word: it is gone then.

    A crash leaves the projections of another boot, without data, so that it is done again. Only one within the last
    step, between taking those away and giving the new ones their name, leaves none: they are folded from the journal
    then, and the copy goes, as where they were deleted. Raises DamagedRecord.
    """
    if not os.path.lexists(state_dir.projections_copy_dir):
        return None
    try:
        _take(state_dir, boot_id, log)
    except NotUsed as error:
        reason = error.reason
    except (StoreIO, OSError):
        reason = "io"
    else:
        return None
    remove_new(state_dir.projections_dir)
    remove_copy(state_dir.projections_copy_dir)
    return reason


def _take(state_dir: StateDir, boot_id: bytes, log: Log) -> None:
    """Raises NotUsed, StoreIO, OSError, DamagedRecord."""
    copy, directory = state_dir.projections_copy_dir, state_dir.projections_dir
    _seq, size, digest = _read_seal(copy)
    trust.remove_data(directory)  # it is not opened again in any case; the room may be needed
    make_way(state_dir.root, state_dir.reserve_file, size)
    if free_bytes(state_dir.root) < size:
        raise NotUsed("no_room")
    remove_new(directory)
    fresh = new_path(directory)
    fresh.mkdir(mode=0o700)
    if copy_file(copy / trust.DATA_FILE, fresh / trust.DATA_FILE) != (size, digest.hex()):
        raise NotUsed("seal")
    trust.write_open(fresh, boot_id)
    _check_fits(fresh, boot_id, log)
    take_place(directory)  # a name that doesn't outlast a power cut costs a fold then, and nothing now


def _check_fits(fresh: Path, boot_id: bytes, log: Log) -> None:
    """Raises NotUsed, DamagedRecord."""
    store = ProjectionStore.open(fresh, boot_id)
    try:
        if not store.head.seq:
            raise NotUsed("watermark")
        if store.stale():
            raise NotUsed("version")
        check_place(store.head, log)
    except DamagedStore as error:
        raise NotUsed("other_journal") from error
    finally:
        store.close(False)


def _read_seal(copy: Path) -> tuple[int, int, bytes]:
    """`(record, size, digest)`. Raises NotUsed."""
    path = seal_file(copy)
    if copy.is_symlink() or not trust.is_file(path) or not trust.is_file(copy / trust.DATA_FILE):
        raise NotUsed("incomplete")
    try:
        seq, size, digest = _SEAL.unpack(rows.open_row("SEAL", _SEAL_KEY, path.read_bytes()))
    except (rows.DamagedRow, struct.error) as error:
        raise NotUsed("seal") from error
    return seq, size, digest


def main(arguments: list[str]) -> int:
    """Make a copy of the projections in the first directory for the second."""
    child.begin()
    source, copy = (Path(argument) for argument in arguments)
    return child.run(lambda: child.tell("at", make_copy(source, copy)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

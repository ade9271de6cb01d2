"""Exports: a whole journal as lines of JSON.

| line | what |
|---|---|
| 1 | `ExportHead`: `{export: 1, store, epoch, head{store, epoch, seq, chain, at}, level, hash_key, hash_key_check}` |
| 2 … | the frames of records 1 to `head.seq`, in order (`frames.py`) |

An export of one tenant has `tenant` (its name) in the first line, and only the frames of its records. No store is made
of it, so it has no `hash_key`, whatever its level.

`hash_key` (hex) stands there at level content only: with it an import gives keyed hashes, and so digests, as they were.

Invariant: an export is complete up to the head that it names, or there is no file of its name: it is written beside
under another name, mode 0600, and takes its own when it is on the disk.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec
from msgspec import UNSET, Meta, UnsetType

from journal.destroying import destroyed_slots
from journal.errors import CannotCreate, DamagedRecord, NoctuaryFault
from journal.events import TenantBegan
from journal.frames import TAG_OF_WORD, FrameMaker, Level, encode_frame, rows_between
from journal.layout import sync_directory
from journal.record import MAX_EPOCH, MAX_SEQ, Head, decode_value
from journal.sealing import keyed_hash
from journal.store import Destroying, Store
from journal.times import format_ms

EXPORT_FORM = 1
CHUNK_RECORDS = 1000
"""Read in one transaction: a long one would keep pages from being used again."""
_TENANT_BEGAN = TAG_OF_WORD["tenant_began"]

Progress = Callable[[int, int], None]
"""Called with (done, of), in records."""


Epoch = Annotated[int, Meta(ge=0, le=MAX_EPOCH)]


class ExportFailed(NoctuaryFault):
    """The file could not be written. There is none."""

    reason = "io_error"
    exit_code = 74


class HeadLine(msgspec.Struct):
    store: str
    epoch: Epoch
    seq: Annotated[int, Meta(ge=0, le=MAX_SEQ)]
    chain: str
    at: str | None


class ExportHead(msgspec.Struct, forbid_unknown_fields=True):
    """The first line. `head`: the last frame's record; with seq 0 there is none."""

    export: int
    store: str
    epoch: Epoch
    head: HeadLine
    level: str
    hash_key: str | UnsetType = UNSET
    hash_key_check: str | UnsetType = UNSET
    tenant: str | UnsetType = UNSET


def hash_key_check(store: str, hash_key: str) -> str:
    """What says that a key of hashes (hex) is that of `store` (hex): one that is changed opens nothing, so nothing else
    would tell."""
    return keyed_hash(bytes.fromhex(hash_key), b"export", bytes.fromhex(store)).hex()


encode_line = msgspec.json.Encoder().encode


def export_lines(
    store: Store, destroying: list[Destroying], level: Level, progress: Progress | None = None
) -> Iterator[bytes]:
    """The lines of an export of an open store, each with its newline. Raises DamagedRecord.

    `destroying`: what `Store.check` gave. What these records destroy is purged here too, when a crash kept its keys.
    """
    head = store.log.head()
    yield encode_line(_first_line(store, head, level)) + b"\n"
    names: dict[int, str] = {}
    slots = frozenset(destroyed_slots(each.record.event for each in destroying))
    maker = FrameMaker(store.log, store.vault, store.sealer, names.get, slots)
    for first in range(1, head.seq + 1, CHUNK_RECORDS):
        last = min(first + CHUNK_RECORDS - 1, head.seq)
        with store.env.read() as txn:
            for row in rows_between(store.log, txn, first, last):
                if row.outline().tag == _TENANT_BEGAN:
                    _learn(names, decode_value(row.seq, row.value).event)
                yield encode_frame(maker.frame(txn, row, level)) + b"\n"
        if progress is not None:
            progress(last, head.seq)


def tenant_lines(
    store: Store, destroyed: frozenset[int], level: Level, tenant: str, last_seq: int, progress: Progress | None = None
) -> Iterator[bytes]:
    """The frames of one tenant's records up to `last_seq`, each with its newline. Raises DamagedRecord."""
    names: dict[int, str] = {}
    maker = FrameMaker(store.log, store.vault, store.sealer, names.get, destroyed)
    for first in range(1, last_seq + 1, CHUNK_RECORDS):
        last = min(first + CHUNK_RECORDS - 1, last_seq)
        with store.env.read() as txn:
            for row in rows_between(store.log, txn, first, last):
                outline = row.outline()
                if outline.tag == _TENANT_BEGAN:
                    _learn(names, decode_value(row.seq, row.value).event)
                if names.get(outline.tenant) == tenant:
                    yield encode_frame(maker.frame(txn, row, level)) + b"\n"
        if progress is not None:
            progress(last, last_seq)


def _learn(names: dict[int, str], event: object) -> None:
    """The names of tenants stand in the journal before anything of theirs."""
    if isinstance(event, TenantBegan):
        names[event.number] = event.name


def _first_line(store: Store, head: Head, level: Level) -> ExportHead:
    at = None
    if head.seq:
        with store.env.read() as txn:
            record = store.log.get(txn, head.seq)
        if record is None:
            raise DamagedRecord(head.seq, "missing")
        at = format_ms(record.at_ms)
    told = HeadLine(store.store_id.hex(), head.epoch, head.seq, head.chain.hex(), at)
    line = ExportHead(EXPORT_FORM, told.store, head.epoch, told, str(level))
    if level is Level.CONTENT:
        line.hash_key = store.vault.hash_key.hex()
        line.hash_key_check = hash_key_check(told.store, line.hash_key)
    return line


# --- the file ----------------------------------------------------------------------------------------


def check_target(path: Path, replace: bool) -> None:
    """Whether an export may take the name `path`. Raises CannotCreate."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise CannotCreate(f"{path}: {error.strerror}") from error
    if not stat.S_ISREG(status.st_mode):
        raise CannotCreate(f"{path} is no regular file; - is standard output")
    if not replace:
        raise CannotCreate(f"{path} exists; --force replaces it")


class Output:
    """The file of an export while it is written."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path = path
        self._file = file

    def write(self, data: bytes) -> int:
        """How many bytes, all of them. Raises ExportFailed."""
        with _failing(self._path):
            return self._file.write(data)

    def finish(self) -> None:
        """Bring it to the disk. Raises ExportFailed."""
        with _failing(self._path):
            self._file.flush()
            os.fsync(self._file.fileno())


@contextmanager
def _failing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ExportFailed(f"{path}: {error.strerror}") from error


@contextmanager
def export_file(path: Path, replace: bool = False) -> Iterator[Output]:
    """A file that is `path` once the block is left, and nothing when the block raises.

    Raises CannotCreate when something has that name already, or it can't be made; ExportFailed when it can't be
    written; and what the block raises, as it is.
    """
    check_target(path, replace)
    try:
        descriptor, name = tempfile.mkstemp(".partial", f"{path.name}.", path.absolute().parent)
    except OSError as error:
        raise CannotCreate(f"{path}: {error.strerror}") from error
    partial = Path(name)
    file = open(descriptor, "wb", buffering=1 << 20)  # noqa: SIM115 - closed below: that may fail, and is told before
    try:
        output = Output(path, file)
        yield output
        output.finish()
        check_target(path, replace)
        with _failing(path):
            partial.rename(path)
            sync_directory(path.absolute().parent)
    finally:
        with suppress(OSError):
            file.close()
        with suppress(FileNotFoundError):
            partial.unlink()

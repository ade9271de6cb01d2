"""The manifest of a backup: what lies in its directory, as of when, and how it can be told that it is whole.

The file `manifest` is two lines of ASCII, written last and replaced as a whole: without it there is no backup.

| line | content |
|---|---|
| 1 | JSON: `backup` (1), `store` (id, hex), `format` (of the store), `version` (of the program), `journal`, `vault` |
| 2 | BLAKE2b-256 of line 1 without its newline, hex |

A part (`journal`, `vault`) is null when it was never asked for, else `epoch`, `seq`, `chain` (hex) of the record that
it stands at, `vault_next` (the first slot that it needs no key for, or has none), `at` (when it was made) and `files`:
for each `name`, `bytes` and `digest` (BLAKE2b-256, hex). Parts have one file each, named `PART-EPOCH-SEQ`. `master_key`
says whether its keys are wrapped, so that a restore takes the master key of that time. The key is in no backup.

Invariant: a file that a manifest names is never written again; what replaces it has another name.
"""

from __future__ import annotations

import errno
import os
import re
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, NoReturn

import msgspec
from msgspec import Meta

from journal.errors import DamagedStore, ForeignStore, StoreIO
from journal.layout import FORMAT_VERSION, replace_file
from journal.record import MAX_EPOCH

MANIFEST_VERSION = 1
MANIFEST = "manifest"
DIGEST_BYTES = 32
MAX_MANIFEST_BYTES = 1 << 16
PARTS = ("journal", "vault")

PART_FILE = re.compile(r"^(journal|vault)-[0-9]{1,10}-[0-9]{1,20}(\.[0-9]{1,6})?\Z")
"""The name of a part's file: part, epoch, seq, and a number when the same place was backed up again."""

_Hex16 = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")]
_Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
_Chain = Annotated[str, Meta(pattern=r"^([0-9a-f]{2}){16,32}\Z")]
_Number = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
_ELSEWHERE = "Use another backup."


class FileEntry(msgspec.Struct, frozen=True):
    """One file of a part. `name` is its name in the directory of the backup."""

    name: Annotated[str, Meta(pattern=PART_FILE.pattern)]
    bytes: _Number
    digest: _Digest


class PartEntry(msgspec.Struct, frozen=True):
    """A part as of record `seq`; a vault has every purge up to there carried out in it."""

    epoch: Annotated[int, Meta(ge=0, le=MAX_EPOCH)]
    seq: _Number
    chain: _Chain
    vault_next: Annotated[int, Meta(ge=1, le=(1 << 63) - 1)]
    at: str
    files: Annotated[tuple[FileEntry, ...], Meta(min_length=1, max_length=1)]
    master_key: bool = False

    @property
    def file(self) -> FileEntry:
        return self.files[0]


def opens(vault: PartEntry, journal: PartEntry) -> bool:
    """Whether a vault part of the journal part's line has its keys, and every purge of it. Of an older one the keys
    are missing.
    """
    return vault.vault_next >= journal.vault_next and (vault.epoch != journal.epoch or vault.seq >= journal.seq)


class Manifest(msgspec.Struct, frozen=True):
    """What a backup holds. `store` is hex."""

    backup: int
    store: _Hex16
    format: int
    version: str
    journal: PartEntry | None
    vault: PartEntry | None

    def part(self, name: str) -> PartEntry | None:
        return self.journal if name == "journal" else self.vault

    def names(self) -> frozenset[str]:
        """Of all files that it speaks of."""
        return frozenset(entry.name for part in (self.journal, self.vault) if part is not None for entry in part.files)


class _Versions(msgspec.Struct, frozen=True):
    """All that is read of a manifest before its version is known."""

    backup: int
    format: int


_ENCODE = msgspec.json.Encoder().encode
_DECODE = msgspec.json.Decoder(Manifest).decode
_DECODE_VERSIONS = msgspec.json.Decoder(_Versions).decode


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Put it in the place of the one that is there, on the disk when this returns. Raises StoreIO."""
    line = _ENCODE(manifest)
    replace_file(directory / MANIFEST, b"%b\n%b\n" % (line, _digest(line)))


def read_manifest(directory: Path) -> Manifest:
    """The manifest in `directory`. Raises DamagedStore (there is none, or it isn't whole), ForeignStore, StoreIO."""
    data = _read(directory)
    line, _, digest = data.removesuffix(b"\n").rpartition(b"\n")
    if digest != _digest(line):
        _damaged("its digest does not hold")
    try:
        versions = _DECODE_VERSIONS(line)
        if (versions.backup, versions.format) != (MANIFEST_VERSION, FORMAT_VERSION):
            found = f"it is of version {versions.backup}, of a store of format {versions.format}"
            wanted = f"this program reads version {MANIFEST_VERSION}, format {FORMAT_VERSION}"
            raise ForeignStore("backup manifest", f"{found}; {wanted}", "Use the version that wrote it.")
        return _DECODE(line)
    except msgspec.DecodeError:
        _damaged("it can't be decoded")


def _read(directory: Path) -> bytes:
    path = directory / MANIFEST
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError) as error:
        found = f"{directory} has no manifest: it is not a backup, or one that was never finished"
        raise DamagedStore("backup", found, _ELSEWHERE) from error
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise DamagedStore("backup manifest", "it is a symbolic link", _ELSEWHERE) from error
        raise StoreIO(f"{path}: {error.strerror}") from error
    try:
        return os.read(descriptor, MAX_MANIFEST_BYTES)
    except OSError as error:
        raise StoreIO(f"{path}: {error.strerror}") from error
    finally:
        os.close(descriptor)


def _digest(line: bytes) -> bytes:
    return blake2b(line, digest_size=DIGEST_BYTES).hexdigest().encode("ascii")


def _damaged(found: str) -> NoReturn:
    raise DamagedStore("backup manifest", found, _ELSEWHERE)

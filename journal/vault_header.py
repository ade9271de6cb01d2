"""The header of a vault: its two copies, and what of it a master key opens.

The byte table is that of `vault.py`. Invariant: a header whose CRC does not hold is damaged; one that holds and asks
for a master key is never called so.
"""

from __future__ import annotations

import os
import struct
from typing import NamedTuple

from crc32c import crc32c

from journal.errors import RESTORE_A_BACKUP, DamagedStore, ForeignStore
from journal.masterkey import (
    KEY_BYTES,
    NEEDED,
    NO_CHECK,
    NOT_WRAPPED,
    WRAPPED_BYTES,
    WRONG,
    MasterKey,
    MasterKeyFault,
)

SECTOR_BYTES = 512
PLAIN, WRAPPED = 0, 1
_MAGIC = b"NOCTVLT1"
_VERSION = 1
_HEADER = struct.Struct("<8sIIQ16s40s16s16s16s")
_U32 = struct.Struct("<I")


class Header(NamedTuple):
    """The fields, as they lie there. `hash_field`: the key for keyed hashes in the form that `form` says, 40 bytes."""

    generation: int
    store_id: bytes
    form: int
    hash_field: bytes
    nonce: bytes
    previous_nonce: bytes
    check: bytes


def header_of(
    generation: int, store_id: bytes, hash_key: bytes, nonces: tuple[bytes, bytes], master: MasterKey | None
) -> Header:
    """The header of a vault whose keys are wrapped with `master`, or plain without one."""
    if master is None:
        return Header(generation, store_id, PLAIN, hash_key.ljust(WRAPPED_BYTES, b"\0"), *nonces, NO_CHECK)
    return Header(generation, store_id, WRAPPED, master.wrap(hash_key), *nonces, master.check(store_id))


def hash_key_in(header: Header, master: MasterKey | None, keyless: bool = False) -> bytes:
    """The key for keyed hashes; empty when `keyless` and no key opens it.

    Raises MasterKeyFault: a master key is needed, is not the right one, or is given where there is none; and
    DamagedStore when the right one does not open it.
    """
    if header.form == PLAIN:
        if master is not None:
            raise MasterKeyFault(NOT_WRAPPED)
        return header.hash_field[:KEY_BYTES]
    if master is None:
        if keyless:
            return b""
        raise MasterKeyFault(NEEDED)
    if not master.fits(header.store_id, header.check):
        raise MasterKeyFault(WRONG)
    key = master.unwrap(header.hash_field)
    if key is None:
        raise damaged("the master key is the right one, and its key for hashes can't be unwrapped")
    return key


def encode_header(header: Header) -> bytes:
    """One copy, a sector."""
    covered = _HEADER.pack(
        _MAGIC,
        _VERSION,
        header.form,
        header.generation,
        header.store_id,
        header.hash_field,
        header.nonce,
        header.previous_nonce,
        header.check,
    )
    return (covered + _U32.pack(crc32c(covered))).ljust(SECTOR_BYTES, b"\0")


def read_header(descriptor: int) -> Header:
    """Of the copies whose CRC holds the one with the higher generation. Raises DamagedStore, ForeignStore."""
    copies = [_decode(os.pread(descriptor, SECTOR_BYTES, at)) for at in (0, SECTOR_BYTES)]
    valid = [header for header in copies if header is not None]
    if not valid:
        raise damaged("neither copy of its header holds")
    return max(valid, key=lambda header: header.generation)


def _decode(data: bytes) -> Header | None:
    """The header in one copy; None when it is damaged. Raises ForeignStore for one that this program can't use."""
    if len(data) < _HEADER.size + 4:
        return None
    if _U32.unpack_from(data, _HEADER.size)[0] != crc32c(data[: _HEADER.size]):
        return None
    magic, version, form, generation, store_id, key, nonce, previous, check = _HEADER.unpack_from(data)
    if magic != _MAGIC or version != _VERSION or form not in (PLAIN, WRAPPED):
        found = f"it says {magic!r} version {version}, form {form}"
        raise ForeignStore("vault", found, "Use the version that wrote it.")
    return Header(generation, store_id, form, key, nonce, previous, check)


def damaged(found: str) -> DamagedStore:
    """What is said of a vault that can't be used."""
    return DamagedStore("vault", found, f"{RESTORE_A_BACKUP} Without its vault no text can be read.")

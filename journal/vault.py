"""The vault: the keys of the sealed parts, in fixed slots that are overwritten in place.

Slot n lies at byte 4096 + 64 * n; slot 0 is never used (it means "no part"). Little-endian.

| offset in a slot | size | field |
|---|---|---|
| 0 | 1 | state: 0 blank, 1 keyed, 2 shredded |
| 1 | 1 | form of the key: 0 plain, 1 wrapped (AES-KW) |
| 2 | 2 | zero |
| 4 | 4 | CRC-32C of the slot number (u64) and the other 60 bytes |
| 8 | 40 | key: 32 bytes and 8 zeros when plain; zeros when shredded |
| 48 | 16 | zero |

A slot of zeros is blank. The header stands twice, at byte 0 and at byte 512; of those whose CRC holds the
one with the higher generation counts, and the second is written (and synced) before the first.

| offset in a header | size | field |
|---|---|---|
| 0 | 8 | magic `NOCTVLT1` |
| 8 | 4 | version, 1 |
| 12 | 4 | form of the hash key: 0 plain, 1 wrapped |
| 16 | 8 | generation |
| 24 | 16 | store id |
| 40 | 40 | key for keyed hashes: 32 bytes and 8 zeros when plain |
| 80 | 16 | nonce of this opening |
| 96 | 16 | nonce before it that the journal may still name |
| 112 | 16 | key check, zeros without a master key |
| 128 | 4 | CRC-32C of the 128 bytes before |

Invariants: a slot that is handed out is keyed on the disk before; a slot number is handed out at most once
for a committed record; a slot once shredded is never keyed again. One thread takes, shreds and extends;
any thread may read.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from enum import IntEnum, unique
from pathlib import Path
from typing import NamedTuple

import numpy as np
from crc32c import crc32c

from journal.errors import RESTORE_A_BACKUP, BadConfiguration, DamagedStore, ForeignStore, NoctuaryFault, StoreIO
from journal.layout import FILE_MODE
from journal.slots import keyed_anew, rows_of, states

SLOTS_OFFSET = 4096
SLOT_BYTES = 64
KEY_BYTES = 32
NONCE_BYTES = 16
BLOCK_SLOTS = 8192
KEYED_AHEAD_SLOTS = 4096

_MAGIC = b"NOCTVLT1"
_VERSION = 1
_SECTOR_BYTES = 512
_HEADER = struct.Struct("<8sIIQ16s40s16s16s16s")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_SLOT = struct.Struct("<4sI40s16x")
_SCAN_BYTES = 1 << 22
_BLANK = bytes(SLOT_BYTES)
_KEYED_HEAD = b"\x01\x00\x00\x00"
_SHREDDED_HEAD = b"\x02\x00\x00\x00"
_KEY_PAD = bytes(8)
_TAIL = bytes(16)


@unique
class SlotState(IntEnum):
    """What a slot is on the disk. DAMAGED is never stored: its checksum does not hold."""

    BLANK = 0
    KEYED = 1
    SHREDDED = 2
    DAMAGED = 3


class SlotUnreadable(NoctuaryFault):
    """The key of a slot can't be had: it is shredded, damaged, or never was."""

    reason = "damaged"

    def __init__(self, slot: int, state: SlotState) -> None:
        self.slot = slot
        self.state = state
        super().__init__(f"vault slot {slot} is {state.name.lower()}")


class _Header(NamedTuple):
    generation: int
    store_id: bytes
    hash_key: bytes
    nonce: bytes
    previous_nonce: bytes


class Vault:
    """An open vault. `next_slot` is the one that `take` hands out next (0: `start_at` not called yet)."""

    def __init__(self, path: Path, descriptor: int, header: _Header, readonly: bool) -> None:
        self.path = path
        self.readonly = readonly
        self.next_slot = 0
        self._descriptor = descriptor
        self._header = header
        self._first = 0  # the slot of _keys[0]
        self._keys: list[bytes] = []  # b"": a slot that can't be handed out

    @classmethod
    def create(cls, path: Path, store_id: bytes, hash_key: bytes | None = None) -> Vault:
        """A new vault with no slot keyed, on the disk when this returns; without `hash_key` with a fresh one.

        Raises StoreIO.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            descriptor = os.open(path, flags, FILE_MODE)
            os.ftruncate(descriptor, SLOTS_OFFSET + SLOT_BYTES)
        except OSError as error:
            raise _failed(path, error) from error
        nonce = os.urandom(NONCE_BYTES)
        header = _Header(1, store_id, hash_key or os.urandom(KEY_BYTES), nonce, nonce)
        vault = cls(path, descriptor, header, readonly=False)
        vault._write_header(header)
        return vault

    @classmethod
    def open(cls, path: Path, store_id: bytes, readonly: bool = False) -> Vault:
        """Open the vault of a store; writes nothing. Raises DamagedStore, ForeignStore, StoreIO."""
        access = os.O_RDONLY if readonly else os.O_RDWR
        try:
            descriptor = os.open(path, access | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError as error:
            raise _damaged("it is missing") from error
        except OSError as error:
            raise _failed(path, error) from error
        try:
            header = _read_header(descriptor)
            if header.store_id != store_id:
                raise ForeignStore("vault", "its store id is not that of FORMAT", "Put the right vault back.")
        except BaseException:
            os.close(descriptor)
            raise
        return cls(path, descriptor, header, readonly)

    @property
    def hash_key(self) -> bytes:
        """The key for keyed hashes."""
        return self._header.hash_key

    @property
    def nonces(self) -> tuple[bytes, bytes]:
        """The nonce of the newest opening, and the one kept from before."""
        return self._header.nonce, self._header.previous_nonce

    def slot_count(self) -> int:
        """How many slots the file has room for, slot 0 included."""
        return max(0, os.fstat(self._descriptor).st_size - SLOTS_OFFSET) // SLOT_BYTES

    # --- reading -----------------------------------------------------------------------------------

    def state(self, slot: int) -> SlotState:
        """What the slot is on the disk."""
        return _slot_state(slot, self._read(slot))

    def key(self, slot: int) -> bytes:
        """The key in a slot. Raises SlotUnreadable."""
        data = self._read(slot)
        state = _slot_state(slot, data)
        if state is not SlotState.KEYED:
            raise SlotUnreadable(slot, state)
        return data[8 : 8 + KEY_BYTES]

    def shredded_slots(self, before: int) -> list[int]:
        """The slots below `before` whose state is shredded, ascending; their checksums are not looked at."""
        found: list[int] = []
        per_scan = _SCAN_BYTES // SLOT_BYTES
        for first in range(0, min(before, self.slot_count()), per_scan):
            wanted = min(per_scan, before - first) * SLOT_BYTES
            data = os.pread(self._descriptor, wanted, SLOTS_OFFSET + first * SLOT_BYTES)
            states = np.frombuffer(data, np.uint8)[::SLOT_BYTES]
            found.extend((np.flatnonzero(states == SlotState.SHREDDED) + first).tolist())
        return found

    def odd_slots(self, before: int) -> dict[int, SlotState]:
        """The slots from 1 to below `before` that are not keyed, each with its state."""
        found: dict[int, SlotState] = {}
        per_scan = _SCAN_BYTES // SLOT_BYTES
        for first in range(1, before, per_scan):
            count = min(per_scan, before - first)
            size = count * SLOT_BYTES
            data = os.pread(self._descriptor, size, SLOTS_OFFSET + first * SLOT_BYTES).ljust(size, b"\0")
            state_of = states(first, rows_of(data))
            for index in np.flatnonzero(state_of != SlotState.KEYED):
                found[first + int(index)] = SlotState(int(state_of[index]))
        return found

    def raw(self, offset: int, size_bytes: int) -> bytes:
        """The bytes of the file from `offset` on, for a copy of it. Raises StoreIO."""
        try:
            return os.pread(self._descriptor, size_bytes, offset)
        except OSError as error:
            raise _failed(self.path, error) from error

    def _read(self, slot: int) -> bytes:
        if slot <= 0:
            return _BLANK
        data = os.pread(self._descriptor, SLOT_BYTES, SLOTS_OFFSET + slot * SLOT_BYTES)
        return data if len(data) == SLOT_BYTES else data.ljust(SLOT_BYTES, b"\0")

    # --- handing out ---------------------------------------------------------------------------------

    def take(self) -> tuple[int, bytes]:
        """The next slot that has a key, and the key."""
        while True:
            slot = self.next_slot
            try:
                key = self._keys[slot - self._first]
            except IndexError:
                self._extend()
                key = self._keys[slot - self._first]
            self.next_slot = slot + 1
            if key:
                return slot, key

    def rewind(self, slot: int) -> None:
        """Take back `slot` and all behind it: what was sealed with them was never committed."""
        if not self._first <= slot <= self.next_slot:
            raise ValueError(f"slot {slot} is not one of those just handed out")
        self.next_slot = slot

    def start_at(self, vault_next: int) -> None:
        """Begin to hand out at `vault_next`, with keys that no earlier process has seen. Raises StoreIO.

        Keyed and blank slots from there on get a fresh key; a shredded or damaged one is passed over.
        """
        if vault_next < 1:
            raise ValueError("slot 0 is never used")
        self._first = self.next_slot = vault_next
        self._keys = []
        end = max(self.slot_count(), vault_next)
        while vault_next + len(self._keys) < end:
            first = vault_next + len(self._keys)
            self._key_block(first, min(BLOCK_SLOTS, end - first))
        self._sync()
        self.ensure(KEYED_AHEAD_SLOTS)

    def ensure(self, slots: int = KEYED_AHEAD_SLOTS) -> None:
        """Have at least `slots` keyed ahead. To be called between batches: what is behind is let go."""
        if len(self._keys) - (self.next_slot - self._first) >= slots:
            return
        del self._keys[: self.next_slot - self._first]
        self._first = self.next_slot
        while len(self._keys) < slots:
            self._extend()

    def _extend(self) -> None:
        self._key_block(self._first + len(self._keys), BLOCK_SLOTS)
        self._sync()

    def _key_block(self, first: int, count: int) -> None:
        """Write fresh keys to `count` slots, but for those that are shredded or damaged; not synced."""
        size = count * SLOT_BYTES
        offset = SLOTS_OFFSET + first * SLOT_BYTES
        old = os.pread(self._descriptor, size, offset).ljust(size, b"\0")
        new, keys = keyed_anew(first, old)
        self._write(new, offset)
        self._keys += keys

    # --- destroying, and the header ------------------------------------------------------------------

    def shred(self, slots: Iterable[int]) -> int:
        """Overwrite the keys in place, on the disk when this returns; how many were not shredded before.

        Raises StoreIO. A slot that is shredded already is left as it is.
        """
        wanted = sorted(set(slots))
        if wanted and wanted[0] <= 0:
            raise ValueError("slot 0 is never used")
        count = 0
        for slot in wanted:
            if self.state(slot) is SlotState.SHREDDED:
                continue
            data = _encode_slot(slot, _SHREDDED_HEAD, bytes(KEY_BYTES + len(_KEY_PAD)))
            self._write(data, SLOTS_OFFSET + slot * SLOT_BYTES)
            if 0 <= slot - self._first < len(self._keys):
                self._keys[slot - self._first] = b""
            count += 1
        if wanted:
            self._sync()
        return count

    def renew_nonce(self, recorded: bytes | None = None) -> bytes:
        """Draw a nonce for this opening, on the disk when this returns. Raises StoreIO.

        `recorded` is the nonce that the journal names: it is the one kept, so that openings which end before
        they record theirs never push it out. None: the current one is kept.
        """
        old = self._header
        nonce = os.urandom(NONCE_BYTES)
        keep = old.nonce if recorded is None else recorded
        self._write_header(old._replace(generation=old.generation + 1, nonce=nonce, previous_nonce=keep))
        return nonce

    def close(self) -> None:
        """Close it; a second time does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        self._keys = []

    def _write_header(self, header: _Header) -> None:
        data = _encode_header(header)
        for offset in (_SECTOR_BYTES, 0):
            self._write(data, offset)
            self._sync()
        self._header = header

    def _write(self, data: bytes, offset: int) -> None:
        if self.readonly:
            raise StoreIO("the vault is open for reading only")
        view = memoryview(data)
        try:
            while view:
                written = os.pwrite(self._descriptor, view, offset)
                view, offset = view[written:], offset + written
        except OSError as error:
            raise _failed(self.path, error) from error

    def _sync(self) -> None:
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            raise _failed(self.path, error) from error


def _encode_slot(slot: int, head: bytes, key: bytes) -> bytes:
    checksum = crc32c(_U64.pack(slot) + head + key + _TAIL)
    return _SLOT.pack(head, checksum, key)


def _slot_state(slot: int, data: bytes) -> SlotState:
    if data == _BLANK:
        return SlotState.BLANK
    if _U32.unpack_from(data, 4)[0] != crc32c(_U64.pack(slot) + data[:4] + data[8:]):
        return SlotState.DAMAGED
    if data[:4] == _KEYED_HEAD:
        return SlotState.KEYED
    return SlotState.SHREDDED if data[:4] == _SHREDDED_HEAD else SlotState.DAMAGED


def _encode_header(header: _Header) -> bytes:
    covered = _HEADER.pack(
        _MAGIC,
        _VERSION,
        0,
        header.generation,
        header.store_id,
        header.hash_key + _KEY_PAD,
        header.nonce,
        header.previous_nonce,
        bytes(16),
    )
    return (covered + _U32.pack(crc32c(covered))).ljust(_SECTOR_BYTES, b"\0")


def _read_header(descriptor: int) -> _Header:
    copies = [_decode_header(os.pread(descriptor, _SECTOR_BYTES, at)) for at in (0, _SECTOR_BYTES)]
    valid = [header for header in copies if header is not None]
    if not valid:
        raise _damaged("neither copy of its header holds")
    return max(valid, key=lambda header: header.generation)


def _decode_header(data: bytes) -> _Header | None:
    """The header in one copy; None when it is damaged. Raises for one that this program can't use."""
    if len(data) < _HEADER.size + 4:
        return None
    if _U32.unpack_from(data, _HEADER.size)[0] != crc32c(data[: _HEADER.size]):
        return None
    magic, version, form, generation, store_id, key, nonce, previous, _check = _HEADER.unpack_from(data)
    if magic != _MAGIC or version != _VERSION:
        raise ForeignStore("vault", f"it says {magic!r} version {version}", "Use the version that wrote it.")
    if form:
        raise BadConfiguration("the vault's keys are wrapped with a master key, and none is configured")
    return _Header(generation, store_id, key[:KEY_BYTES], nonce, previous)


def _damaged(found: str) -> DamagedStore:
    return DamagedStore("vault", found, f"{RESTORE_A_BACKUP} Without its vault no text can be read.")


def _failed(path: Path, error: OSError) -> StoreIO:
    return StoreIO(f"{path.name}: {error.strerror}")

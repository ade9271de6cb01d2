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
| 112 | 16 | key check of the master key (`masterkey.py`), zeros without one |
| 128 | 4 | CRC-32C of the 128 bytes before |

The form is one for the whole file: a keyed slot in another form than the header's is damaged. With a master key all
is the same but for 40 bytes: those of a slot are unwrapped each time it is read, as they are read each time without
one; only the keys ahead of use, and the key for hashes, are held plain.

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

import numpy as np
from crc32c import crc32c

from journal.errors import ForeignStore, NoctuaryFault, StoreIO
from journal.layout import FILE_MODE
from journal.masterkey import NEEDED, MasterKey, MasterKeyFault
from journal.slots import FIELD_BYTES, KEY_AT, KEYED_HEADS, keyed_anew, rows_of, states
from journal.vault_header import SECTOR_BYTES, Header, damaged, encode_header, hash_key_in, header_of, read_header

SLOTS_OFFSET = 4096
SLOT_BYTES = 64
KEY_BYTES = 32
NONCE_BYTES = 16
BLOCK_SLOTS = 8192
KEYED_AHEAD_SLOTS = 4096

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_SLOT = struct.Struct("<4sI40s16x")
_SCAN_BYTES = 1 << 22
_BLANK = bytes(SLOT_BYTES)
_SHREDDED_HEAD = b"\x02\x00\x00\x00"
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


class Vault:
    """An open vault. `next_slot` is the one that `take` hands out next (0: `start_at` not called yet)."""

    def __init__(
        self, path: Path, descriptor: int, header: Header, hash_key: bytes, readonly: bool, master: MasterKey | None
    ) -> None:
        self.path = path
        self.readonly = readonly
        self.next_slot = 0
        self._descriptor = descriptor
        self._header = header
        self._hash_key = hash_key
        self._master = master
        self._first = 0  # the slot of _keys[0]
        self._keys: list[bytes] = []  # b"": a slot that can't be handed out

    @classmethod
    def create(
        cls, path: Path, store_id: bytes, hash_key: bytes | None = None, master: MasterKey | None = None
    ) -> Vault:
        """A new vault with no slot keyed, on the disk when this returns; without `hash_key` with a fresh one, and
        wrapped with `master` if there is one.

        Raises StoreIO.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            descriptor = os.open(path, flags, FILE_MODE)
            os.ftruncate(descriptor, SLOTS_OFFSET + SLOT_BYTES)
        except OSError as error:
            raise _failed(path, error) from error
        nonce = os.urandom(NONCE_BYTES)
        hash_key = hash_key or os.urandom(KEY_BYTES)
        header = header_of(1, store_id, hash_key, (nonce, nonce), master)
        vault = cls(path, descriptor, header, hash_key, readonly=False, master=master)
        vault._write_header(header)
        return vault

    @classmethod
    def open(
        cls, path: Path, store_id: bytes, readonly: bool = False, master: MasterKey | None = None, keyless: bool = False
    ) -> Vault:
        """Open the vault of a store; writes nothing. `keyless`: one that is wrapped opens without its master key too,
        for all that needs no key: states, shredding, nonces, raw bytes.

        Raises DamagedStore, ForeignStore, StoreIO; MasterKeyFault when `master` is needed, wrong, or not wanted.
        """
        access = os.O_RDONLY if readonly else os.O_RDWR
        try:
            descriptor = os.open(path, access | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError as error:
            raise damaged("it is missing") from error
        except OSError as error:
            raise _failed(path, error) from error
        try:
            header = read_header(descriptor)
            if header.store_id != store_id:
                raise ForeignStore("vault", "its store id is not that of FORMAT", "Put the right vault back.")
            hash_key = hash_key_in(header, master, keyless)
        except BaseException:
            os.close(descriptor)
            raise
        return cls(path, descriptor, header, hash_key, readonly, master)

    @property
    def hash_key(self) -> bytes:
        """The key for keyed hashes. Raises MasterKeyFault in a vault that was opened without its master key."""
        if not self._hash_key:
            raise MasterKeyFault(NEEDED)
        return self._hash_key

    @property
    def header(self) -> Header:
        """The header, as it lies there."""
        return self._header

    @property
    def form(self) -> int:
        """Of all its keys: 0 plain, 1 wrapped."""
        return self._header.form

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
        return _slot_state(slot, self._read(slot), self.form)

    def key(self, slot: int) -> bytes:
        """The key in a slot. Raises SlotUnreadable; MasterKeyFault in a vault opened without its master key."""
        data = self._read(slot)
        state = _slot_state(slot, data, self.form)
        if state is not SlotState.KEYED:
            raise SlotUnreadable(slot, state)
        if not self.form:
            return data[KEY_AT : KEY_AT + KEY_BYTES]
        if self._master is None:
            raise MasterKeyFault(NEEDED)
        key = self._master.unwrap(data[KEY_AT : KEY_AT + FIELD_BYTES])
        if key is None:
            raise SlotUnreadable(slot, SlotState.DAMAGED)
        return key

    def plain_keys(self, fields: list[bytes]) -> list[bytes]:
        """The keys in key fields of 40 bytes, empty where one does not unwrap or is empty. Raises MasterKeyFault."""
        if not self.form:
            return [field[:KEY_BYTES] for field in fields]
        if self._master is None:
            raise MasterKeyFault(NEEDED)
        return self._master.unwrap_each(fields)

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
        """The slots from 1 to below `before` that are not keyed, each with its state. Damaged is with a master key also
        one whose key it does not unwrap.
        """
        found: dict[int, SlotState] = {}
        per_scan = _SCAN_BYTES // SLOT_BYTES
        for first in range(1, before, per_scan):
            count = min(per_scan, before - first)
            size = count * SLOT_BYTES
            data = os.pread(self._descriptor, size, SLOTS_OFFSET + first * SLOT_BYTES).ljust(size, b"\0")
            rows = rows_of(data)
            state_of = states(first, rows, self.form)
            if self._master is not None:
                keyed = np.flatnonzero(state_of == SlotState.KEYED)
                holds, _ = self._master.unwrap_all(rows[keyed, KEY_AT : KEY_AT + FIELD_BYTES])
                state_of[keyed[~holds]] = SlotState.DAMAGED
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
        if self.form and self._master is None:
            raise MasterKeyFault(NEEDED)
        new, keys = keyed_anew(first, old, None if self._master is None else self._master.wrap_all)
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
            data = _encode_slot(slot, _SHREDDED_HEAD, bytes(FIELD_BYTES))
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

    def _write_header(self, header: Header) -> None:
        data = encode_header(header)
        for offset in (SECTOR_BYTES, 0):
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


def _slot_state(slot: int, data: bytes, form: int = 0) -> SlotState:
    if data == _BLANK:
        return SlotState.BLANK
    if _U32.unpack_from(data, 4)[0] != crc32c(_U64.pack(slot) + data[:4] + data[8:]):
        return SlotState.DAMAGED
    if data[:4] == KEYED_HEADS[form]:
        return SlotState.KEYED
    return SlotState.SHREDDED if data[:4] == _SHREDDED_HEAD else SlotState.DAMAGED


def _failed(path: Path, error: OSError) -> StoreIO:
    return StoreIO(f"{path.name}: {error.strerror}")

"""Sealing: a part's plaintext to bytes that are nothing without its key, and back; and keyed hashes.

| sealed | size | |
|---|---|---|
| nonce | 12 | random |
| ciphertext | plaintext + 16 | AES-256-GCM under the key of the part's slot |

Associated data: store id (16), slot (u64 big-endian), part (u8), so that a ciphertext that was moved to
another place does not open. Invariant: the plaintext of a part whose slot is shredded can't be had.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from journal.slots import FIELD_BYTES, KEY_AT, KEYED_HEADS, SLOT_BYTES
from journal.vault import SLOTS_OFFSET, SlotState, SlotUnreadable, Vault

NONCE_BYTES = 12
TAG_BYTES = 16
DIGEST_BYTES = 16
_NONCE_BLOCK = NONCE_BYTES * 1024

_PLACE = struct.Struct(">QB")
_NEAR = 64
"""Slots of which at least one in so many is wanted are read at once."""


class Sealer:
    """Seals with the slots of a vault. `seal` is for the one writer, `open` for every thread."""

    def __init__(self, vault: Vault, store_id: bytes) -> None:
        self._vault = vault
        self._store_id = store_id
        self._nonces = b""
        self._nonce_at = 0

    def seal(self, part: int, plaintext: bytes) -> tuple[int, int, bytes, bytes]:
        """`(slot, plaintext length, digest, nonce and ciphertext)`; takes the vault's next slot."""
        slot, key = self._vault.take()
        at = self._nonce_at
        if at >= len(self._nonces):
            self._nonces = os.urandom(_NONCE_BLOCK)
            at = 0
        self._nonce_at = at + NONCE_BYTES
        nonce = self._nonces[at : at + NONCE_BYTES]
        sealed = nonce + AESGCM(key).encrypt(nonce, plaintext, self._store_id + _PLACE.pack(slot, part))
        return slot, len(plaintext), sealed_digest(sealed), sealed

    def open(self, slot: int, part: int, sealed: bytes) -> bytes:
        """The plaintext. Raises SlotUnreadable: shredded, or damaged (key or ciphertext)."""
        plaintext = self.open_with(self._vault.key(slot), slot, part, sealed)
        if plaintext is None:
            raise SlotUnreadable(slot, SlotState.DAMAGED)
        return plaintext

    def open_with(self, key: bytes, slot: int, part: int, sealed: bytes) -> bytes | None:
        """The plaintext under a key that was read before; None when they don't belong together."""
        place = self._store_id + _PLACE.pack(slot, part)
        try:
            return AESGCM(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], place)
        except (InvalidTag, ValueError):
            return None

    def keys(self, slots: Sequence[int]) -> list[bytes]:
        """The keys of many slots with few looks at the vault; empty where a slot is not plainly keyed. No checksum is
        looked at: a key that is not the right one opens nothing."""
        if not slots:
            return []
        first, last = min(slots), max(slots)
        if last - first >= _NEAR * len(slots):
            middle = len(slots) // 2
            return [*self.keys(slots[:middle]), *self.keys(slots[middle:])] if middle else [b""]
        data = self._vault.raw(SLOTS_OFFSET + first * SLOT_BYTES, (last - first + 1) * SLOT_BYTES)
        keyed = KEYED_HEADS[self._vault.form]
        fields = []
        for slot in slots:
            at = (slot - first) * SLOT_BYTES
            fields.append(data[at + KEY_AT : at + KEY_AT + FIELD_BYTES] if data[at : at + 4] == keyed else b"")
        return self._vault.plain_keys(fields)


def sealed_digest(sealed: bytes) -> bytes:
    """The digest of nonce and ciphertext that a record holds."""
    return blake2b(sealed, digest_size=DIGEST_BYTES).digest()


def keyed_hash(hash_key: bytes, person: bytes, *pieces: bytes) -> bytes:
    """BLAKE2b-128 over the pieces, each behind its length; `person` (≤ 16 bytes) keeps uses apart."""
    state = _keyed(hash_key, person).copy()
    for piece in pieces:
        state.update(len(piece).to_bytes(8, "little") + piece)
    return state.digest()


@lru_cache(maxsize=64)
def _keyed(hash_key: bytes, person: bytes) -> blake2b:
    """The hash before its first piece: the key's block is worked in once."""
    return blake2b(key=hash_key, person=person, digest_size=DIGEST_BYTES)

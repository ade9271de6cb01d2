"""Fingerprints of texts that a purge keeps from coming again, as they stand in its PURGE record and in its line.

What a text is found by is a keyed hash of it, under the key of the vault and with the name of its tenant: one for all
purges, so that a write looks once. In a record it stands sealed, under a key of that one record:

| in the record | size | |
|---|---|---|
| fingerprint_key | 32 | random; the key is two keyed hashes of it, under the vault's key for hashes |
| each of fingerprints | 12 + 32 | nonce, AES-256-GCM of the keyed hash (16), tag (16), over fingerprint_key |

Invariant: without the vault nothing here tells anything, not even that two purges were of one text. Whoever has the
vault too can test guesses, as the receipt says.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from journal.sealing import NONCE_BYTES, keyed_hash

KEY_BYTES = 32


def seal_fingerprints(hash_key: bytes, key: bytes, found_by: Iterable[bytes]) -> tuple[bytes, ...]:
    """What is to stand in a record, in the same order. `key`: random, the record's own."""
    cipher = _cipher(hash_key, key)
    sealed: list[bytes] = []
    for each in found_by:
        nonce = os.urandom(NONCE_BYTES)
        sealed.append(nonce + cipher.encrypt(nonce, each, key))
    return tuple(sealed)


def open_fingerprints(hash_key: bytes, key: bytes, sealed: Iterable[bytes]) -> list[bytes]:
    """What the texts are found by. One that does not open is of another vault, and keeps nothing out."""
    cipher = _cipher(hash_key, key)
    found: list[bytes] = []
    for each in sealed:
        try:
            found.append(cipher.decrypt(each[:NONCE_BYTES], each[NONCE_BYTES:], key))
        except InvalidTag:
            continue
    return found


def _cipher(hash_key: bytes, key: bytes) -> AESGCM:
    return AESGCM(keyed_hash(hash_key, b"reingest 1", key) + keyed_hash(hash_key, b"reingest 2", key))

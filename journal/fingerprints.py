"""Fingerprints of texts that a purge keeps from coming again, as they stand in its PURGE record and in its line.

What a text is found by is a keyed hash of it, under the key of the vault and with the name of its tenant: one for all
purges, so that a write looks once. In a record it stands sealed, under a key that the records of one command share:

| in the record | size | |
|---|---|---|
| fingerprint_key | 32 | random; the key is two keyed hashes of it, under the vault's key for hashes |
| each of fingerprints | 12 + 32 | nonce, AES-256-GCM of the keyed hash (16), tag (16), over fingerprint_key |

The nonce is a keyed hash of fingerprint_key and of what is sealed, so that sealing draws nothing at random: it is done
where a purge is decided. Two texts never share one, also not in two records under the same key.

Invariant: without the vault's key for hashes nothing here tells anything, not even that two purges were of one text.
Whoever has that key can test guesses, and it is not only in the vault: an export of the whole store at level `content`
and what `records` tells of it at that level carry it. So whoever holds one of these beside a record or line with
fingerprints can.
"""

from __future__ import annotations

from collections.abc import Iterable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from journal.sealing import NONCE_BYTES, keyed_hash

KEY_BYTES = 32


def seal_fingerprints(hash_key: bytes, key: bytes, found_by: Iterable[bytes]) -> tuple[bytes, ...]:
    """What is to stand in a record, in the same order. `key`: random, of this command."""
    cipher = _cipher(hash_key, key)
    sealed: list[bytes] = []
    for each in found_by:
        nonce = keyed_hash(hash_key, b"reingest nonce", key, each)[:NONCE_BYTES]
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

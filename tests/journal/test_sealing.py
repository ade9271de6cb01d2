"""Sealing and opening, and keyed hashes."""

from __future__ import annotations

from pathlib import Path

import pytest

from journal.sealing import Sealer, keyed_hash, sealed_digest
from journal.vault import SlotState, SlotUnreadable, Vault

STORE_ID = bytes(range(16))


def test_only_its_own_place_opens_a_part(tmp_path: Path) -> None:
    vault = Vault.create(tmp_path / "vault", STORE_ID)
    vault.start_at(1)
    sealer = Sealer(vault, STORE_ID)
    slot, length, digest, sealed = sealer.seal(1, b"text")
    assert (slot, length, digest) == (1, 4, sealed_digest(sealed))
    assert sealer.open(slot, 1, sealed) == b"text"
    for wrong in ((slot + 1, 1, sealed), (slot, 2, sealed), (slot, 1, sealed[:-1]), (slot, 1, b"")):
        with pytest.raises(SlotUnreadable):
            sealer.open(*wrong)
    with pytest.raises(SlotUnreadable):
        Sealer(vault, bytes(16)).open(slot, 1, sealed)
    vault.shred([slot])
    with pytest.raises(SlotUnreadable) as refused:
        sealer.open(slot, 1, sealed)
    assert refused.value.state is SlotState.SHREDDED


def test_keyed_hashes_keep_pieces_and_uses_apart() -> None:
    key = bytes(32)
    assert keyed_hash(key, b"a", b"xy", b"z") != keyed_hash(key, b"a", b"x", b"yz")
    assert keyed_hash(key, b"a", b"x") != keyed_hash(key, b"b", b"x")

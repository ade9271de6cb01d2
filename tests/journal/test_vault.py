"""The vault on disk: handing out, shredding, and what damage looks like."""

from __future__ import annotations

from pathlib import Path

import pytest

from journal.errors import DamagedStore, ForeignStore
from journal.vault import SLOT_BYTES, SLOTS_OFFSET, SlotState, SlotUnreadable, Vault

STORE_ID = bytes(range(16))


def test_slots_ascend_and_stay_readable(tmp_path: Path) -> None:
    vault = Vault.create(tmp_path / "vault", STORE_ID)
    vault.start_at(1)
    taken = [vault.take() for _ in range(10_000)]
    assert [slot for slot, _ in taken] == list(range(1, 10_001))
    again = Vault.open(tmp_path / "vault", STORE_ID, readonly=True)
    assert all(again.key(slot) == key for slot, key in taken[::97])
    assert again.hash_key == vault.hash_key


def test_a_key_that_was_not_committed_never_outlives_its_process(tmp_path: Path) -> None:
    vault = Vault.create(tmp_path / "vault", STORE_ID)
    vault.start_at(1)
    first, second = vault.take(), vault.take()
    vault.close()
    again = Vault.open(tmp_path / "vault", STORE_ID)
    again.start_at(2)
    assert again.key(1) == first[1]
    slot, key = again.take()
    assert slot == 2
    assert key != second[1]


def test_shredded_is_for_ever(tmp_path: Path) -> None:
    vault = Vault.create(tmp_path / "vault", STORE_ID)
    vault.start_at(1)
    _, key = vault.take()
    assert vault.shred([1, 2]) == 2
    assert vault.shred([1]) == 0
    assert key not in (tmp_path / "vault").read_bytes()
    with pytest.raises(SlotUnreadable):
        vault.key(1)
    assert vault.take()[0] == 3
    assert vault.shredded_slots(100) == [1, 2]
    vault.start_at(1)
    assert vault.state(1) is SlotState.SHREDDED


def test_rewind_and_ensure(tmp_path: Path) -> None:
    vault = Vault.create(tmp_path / "vault", STORE_ID)
    vault.start_at(1)
    taken = vault.take()
    vault.rewind(1)
    assert vault.take() == taken
    vault.ensure(20_000)
    assert vault.take()[0] == 2


def test_a_damaged_slot_is_told_from_a_shredded_one(tmp_path: Path) -> None:
    path = tmp_path / "vault"
    vault = Vault.create(path, STORE_ID)
    vault.start_at(1)
    data = bytearray(path.read_bytes())
    data[SLOTS_OFFSET + SLOT_BYTES + 9] ^= 1
    path.write_bytes(data)
    assert vault.state(1) is SlotState.DAMAGED
    assert vault.state(2) is SlotState.KEYED


def test_one_copy_of_the_header_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "vault"
    vault = Vault.create(path, STORE_ID)
    first = vault.nonces[0]
    nonce = vault.renew_nonce()
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(data)
    assert Vault.open(path, STORE_ID).nonces == (nonce, first)
    data[532] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedStore):
        Vault.open(path, STORE_ID)


def test_the_vault_of_another_store_is_refused(tmp_path: Path) -> None:
    Vault.create(tmp_path / "vault", STORE_ID).close()
    with pytest.raises(ForeignStore):
        Vault.open(tmp_path / "vault", bytes(16))


def test_thousands_of_shredded_slots_ahead_are_passed_over(tmp_path: Path) -> None:
    vault = Vault.create(tmp_path / "vault", STORE_ID)
    vault.start_at(1)
    vault.ensure(5_010)
    vault.shred(range(2, 5_002))
    assert [vault.take()[0] for _ in range(3)] == [1, 5_002, 5_003]
    again = Vault.open(tmp_path / "vault", STORE_ID)
    again.start_at(2)
    assert again.take()[0] == 5_002

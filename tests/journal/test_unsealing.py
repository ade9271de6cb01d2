"""A part that can't be opened: purged only when its key was destroyed, else damaged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from journal.errors import PartUnreadable
from journal.events import SealedPart
from journal.sealing import Sealer
from journal.unsealing import open_sealed
from journal.vault import Vault

STORE_ID = bytes(range(16))


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[Vault]:
    made = Vault.create(tmp_path / "vault", STORE_ID)
    made.start_at(1)
    yield made
    made.close()


def sealed(vault: Vault) -> tuple[Sealer, SealedPart, bytes]:
    sealer = Sealer(vault, STORE_ID)
    slot, length, digest, data = sealer.seal(1, b"text")
    return sealer, SealedPart(9, 1, slot, length, digest), data


def state_of(sealer: Sealer, part: SealedPart, data: bytes | None) -> str:
    with pytest.raises(PartUnreadable) as raised:
        open_sealed(sealer, part, data)
    return raised.value.state


def test_a_ciphertext_is_opened(vault: Vault) -> None:
    assert open_sealed(*sealed(vault)) == b"text"


def test_a_missing_ciphertext_whose_key_is_there_was_lost_not_purged(vault: Vault) -> None:
    sealer, part, _ = sealed(vault)
    assert state_of(sealer, part, None) == "damaged"


@pytest.mark.parametrize("vacuumed", [False, True])
def test_a_destroyed_key_says_purged_whether_or_not_the_ciphertext_is_left(vault: Vault, vacuumed: bool) -> None:
    sealer, part, data = sealed(vault)
    vault.shred([part.slot])
    assert state_of(sealer, part, None if vacuumed else data) == "purged"


def test_a_part_that_has_no_slot_any_more_is_purged(vault: Vault) -> None:
    sealer, part, _ = sealed(vault)
    assert state_of(sealer, SealedPart(9, 1, 0, 4, part.digest), None) == "purged"


def test_a_changed_ciphertext_is_damaged(vault: Vault) -> None:
    sealer, part, data = sealed(vault)
    assert state_of(sealer, part, data[:-1] + bytes([data[-1] ^ 1])) == "damaged"

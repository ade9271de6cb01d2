"""A store whose keys are wrapped: at rest no key is plain; without the key nothing is written, nothing is damage."""

from __future__ import annotations

import io
from contextlib import closing
from pathlib import Path

import pytest

from daemon import repurging
from daemon.cli.offline import open_to_read
from journal.backup import Source, back_up
from journal.errors import DamagedStore
from journal.exporting import export_lines
from journal.frames import Level
from journal.importing import import_frames
from journal.keycheck import check_keys
from journal.manifest import PARTS, Manifest
from journal.masterkey import Keys, MasterKeyFault
from journal.rekeying import Change, change_master_key
from journal.restoring import Wanted, restore
from journal.slots import keyed_rows, rows_of
from journal.store import Store
from journal.vault import SLOT_BYTES, SLOTS_OFFSET, SlotState, SlotUnreadable, Vault
from journal.vault_header import encode_header
from tests.journal.backing import AT, files_in, nothing, place_of, purge
from tests.journal.mastered import NOW_MS, everything_in, key, made_with, opened_with
from tests.journal.test_store import read, remember


def backed_up(store: Store, directory: Path) -> Manifest:
    source = Source(store, "test", lambda: AT, lambda: place_of(store), nothing, lambda: False)
    return back_up(source, str(directory), PARTS).manifest


def wanted(backup: Path, name: str | None) -> Wanted:
    return Wanted(backup, None, (), "test", NOW_MS, repurging.again, None if name is None else key(name))


def test_no_key_lies_there_plain(tmp_path: Path) -> None:
    root = made_with(tmp_path / "state", "old")
    store = opened_with(root, "old")
    parts = [remember(store, b"text %d" % number) for number in range(40)]
    plain = [store.vault.key(part.slot) for part in parts] + [store.vault.hash_key]
    taken, ahead = store.vault.take()
    store.close(clean=True)
    there = everything_in(root)
    assert len(set(plain)) == len(plain) and not any(each in there for each in [*plain, ahead])
    again = opened_with(root, "old")
    assert [again.vault.key(part.slot) for part in parts] + [again.vault.hash_key] == plain
    assert again.sealer.keys([part.slot for part in parts]) == plain[:-1]
    assert [read(again, part) for part in parts] == [b"text %d" % number for number in range(40)]
    assert again.vault.state(taken) is SlotState.KEYED and again.vault.key(taken) != ahead
    again.close(clean=True)


@pytest.mark.parametrize(("has", "given", "says"), [("old", None, "none was given"), ("old", "new", "not the one"),
                                                    (None, "new", "rekey")])  # fmt: skip
@pytest.mark.parametrize("readonly", [False, True])
def test_the_wrong_key_or_none_is_no_damage_and_nothing_is_written(
    tmp_path: Path, has: str | None, given: str | None, says: str, readonly: bool
) -> None:
    root = made_with(tmp_path / "state", has)
    store = opened_with(root, has)
    part = remember(store, b"a text")
    store.close(clean=True)
    (root / "head.new").write_bytes(b"a leftover")  # even that stays
    (root / "head.new").chmod(0o600)
    before = files_in(root)
    with pytest.raises(MasterKeyFault, match=says) as caught:
        opened_with(root, given, readonly)
    assert caught.value.exit_code == 78 and "damaged" not in str(caught.value).replace("Nothing was found damaged", "")
    assert files_in(root) == before
    again = opened_with(root, has)
    assert read(again, part) == b"a text"
    again.close(clean=True)


def test_a_damaged_slot_is_told_from_a_wrong_key(tmp_path: Path) -> None:
    root = made_with(tmp_path / "state", "old")
    store = opened_with(root, "old")
    flipped, moved, whole = (remember(store, text) for text in (b"one", b"two", b"three"))
    store.close(clean=True)
    data = bytearray((root / "vault").read_bytes())
    data[SLOTS_OFFSET + flipped.slot * SLOT_BYTES + 20] ^= 1
    at = SLOTS_OFFSET + moved.slot * SLOT_BYTES  # a checksum that holds, over what the master key never wrapped
    field = bytes(40)
    data[at : at + SLOT_BYTES] = keyed_rows(moved.slot, rows_of(field.ljust(64, b"\0"))[:, :40], 1).tobytes()
    (root / "vault").write_bytes(data)
    with pytest.raises(MasterKeyFault):
        opened_with(root, "new")
    again = opened_with(root, "old")
    assert again.vault.state(flipped.slot) is SlotState.DAMAGED
    for part in (flipped, moved):
        with pytest.raises(SlotUnreadable) as caught:
            read(again, part)
        assert caught.value.state is SlotState.DAMAGED
    assert again.sealer.keys([flipped.slot, moved.slot, whole.slot])[1:] == [b"", again.vault.key(whole.slot)]
    found = check_keys(again.log, again.vault)
    assert [each.code for each in found] == ["key_damaged", "key_damaged"]
    assert read(again, whole) == b"three"
    again.close(clean=True)


def test_a_plain_key_among_wrapped_ones_is_damage(tmp_path: Path) -> None:
    vault = Vault.create(tmp_path / "vault", bytes(16), master=key("old"))
    vault.start_at(1)
    plain = keyed_rows(1, rows_of(bytes(64))[:, :32], 0).tobytes()
    data = bytearray((tmp_path / "vault").read_bytes())
    data[SLOTS_OFFSET + SLOT_BYTES : SLOTS_OFFSET + 2 * SLOT_BYTES] = plain
    (tmp_path / "vault").write_bytes(data)
    assert vault.state(1) is SlotState.DAMAGED
    vault.start_at(1)
    assert vault.take()[0] == 2  # passed over, not written over


def test_a_header_whose_hash_key_was_changed_is_damage(tmp_path: Path) -> None:
    """The key fits, its checksum was made anew: what is left to say is damage."""
    Vault.create(tmp_path / "vault", bytes(16), master=key("old")).close()
    with closing(Vault.open(tmp_path / "vault", bytes(16), master=key("old"))) as vault:
        header = encode_header(vault.header._replace(hash_field=bytes(40), generation=9))
    data = bytearray((tmp_path / "vault").read_bytes())
    data[:512] = header
    (tmp_path / "vault").write_bytes(data)
    with pytest.raises(DamagedStore, match="right one"):
        Vault.open(tmp_path / "vault", bytes(16), master=key("old"))
    with pytest.raises(MasterKeyFault):
        Vault.open(tmp_path / "vault", bytes(16), master=key("new"))


def test_what_is_purged_stays_purged(tmp_path: Path) -> None:
    root = made_with(tmp_path / "state", "old")
    store = opened_with(root, "old")
    gone, kept = remember(store, b"gone"), remember(store, b"kept")
    vault = (root / "vault").read_bytes()
    wrapped = vault[SLOTS_OFFSET + gone.slot * SLOT_BYTES + 8 :][:40]
    purge(store, gone)
    assert any(wrapped) and wrapped not in everything_in(root)
    store.close(clean=True)
    change_master_key(root, Change(key("old"), key("new")))
    again = opened_with(root, "new")
    assert again.findings == []
    assert again.vault.state(gone.slot) is SlotState.SHREDDED and read(again, kept) == b"kept"
    with pytest.raises(SlotUnreadable):
        read(again, gone)
    again.close(clean=True)


# --- what is read without the key, and what isn't ---------------------------------------------------------


def test_an_export_at_content_takes_the_key_and_a_skeleton_does_not(tmp_path: Path) -> None:
    root = made_with(tmp_path / "state", "old")
    store = opened_with(root, "old")
    remember(store, b"a text")
    store.close(clean=True)
    before = files_in(root)
    with open_to_read(root, Keys(keyless=True)) as (read_only, destroying):
        assert list(export_lines(read_only, destroying, Level.SKELETON))
        assert check_keys(read_only.log, read_only.vault) == []
        with pytest.raises(MasterKeyFault):
            list(export_lines(read_only, destroying, Level.CONTENT))
        with pytest.raises(MasterKeyFault):
            read_only.vault.key(1)
    with pytest.raises(MasterKeyFault), open_to_read(root, Keys()):
        pass
    with pytest.raises(MasterKeyFault), open_to_read(root, Keys(key("new"), keyless=True)):
        pass
    assert files_in(root) == before


# --- backups, and imports ----------------------------------------------------------------------------------


def test_a_backup_says_that_it_takes_a_key_and_has_none_plain(tmp_path: Path) -> None:
    root = made_with(tmp_path / "state", "old")
    store = opened_with(root, "old")
    gone, kept = remember(store, b"gone"), remember(store, b"kept")
    purge(store, gone)
    manifest = backed_up(store, tmp_path / "b")
    keys = [store.vault.key(kept.slot), store.vault.hash_key]
    store.close(clean=True)
    assert manifest.vault is not None and manifest.vault.master_key
    assert manifest.journal is not None and not manifest.journal.master_key
    there = everything_in(tmp_path / "b")
    assert not any(each in there for each in (*keys, bytes(range(32)), bytes(range(32)).hex().encode()))
    for name in (None, "new"):
        with pytest.raises(MasterKeyFault):
            restore(tmp_path / "r", wanted(tmp_path / "b", name), nothing)
        assert not (tmp_path / "r").exists()
    restore(tmp_path / "r", wanted(tmp_path / "b", "old"), nothing)
    again = opened_with(tmp_path / "r", "old")
    assert read(again, kept) == b"kept" and again.vault.state(gone.slot) is SlotState.SHREDDED
    assert again.vault.hash_key == keys[1]
    again.close(clean=True)


def test_a_backup_keeps_the_key_of_its_time(tmp_path: Path) -> None:
    root = made_with(tmp_path / "state", None)
    store = opened_with(root, None)
    part = remember(store, b"a text")
    plain = backed_up(store, tmp_path / "plain")
    store.close(clean=True)
    assert plain.vault is not None and not plain.vault.master_key
    change_master_key(root, Change(None, key("old")))
    store = opened_with(root, "old")
    backed_up(store, tmp_path / "first")
    store.close(clean=True)
    change_master_key(root, Change(key("old"), key("new")))
    for backup, fits in (("plain", None), ("first", "old")):
        with pytest.raises(MasterKeyFault):
            restore(tmp_path / f"r-{backup}", wanted(tmp_path / backup, "new"), nothing)
        restore(tmp_path / f"r-{backup}", wanted(tmp_path / backup, fits), nothing)
        again = opened_with(tmp_path / f"r-{backup}", fits)
        assert read(again, part) == b"a text"
        again.close(clean=True)


def test_an_import_seals_under_a_master_key(tmp_path: Path) -> None:
    root = made_with(tmp_path / "state", None)
    store = opened_with(root, None)
    part = remember(store, b"a text")
    hash_key = store.vault.hash_key
    store.close(clean=True)
    with open_to_read(root) as (read_only, destroying):
        lines = list(export_lines(read_only, destroying, Level.CONTENT))
    import_frames(tmp_path / "new", io.BytesIO(b"".join(lines)), master=key("new"))
    with pytest.raises(MasterKeyFault):
        opened_with(tmp_path / "new", None)
    again = opened_with(tmp_path / "new", "new")
    (renewed,) = again.log.get(again.env.read().__enter__(), part.owner_seq).event.parts  # type: ignore[union-attr]
    assert read(again, renewed) == b"a text" and again.vault.hash_key == hash_key
    assert hash_key not in everything_in(tmp_path / "new")
    again.close(clean=True)

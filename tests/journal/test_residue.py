"""What a text leaves is found wherever it lies as long as a key opens it, and nowhere once the key is destroyed."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from journal import residue
from journal.creating import create_store
from journal.events import SealedPart
from journal.leaves import Entry, Pages
from journal.log import sealed_key
from journal.masterkey import Keys, MasterKey
from journal.plain_scan import TOLD, Plain
from journal.preflight import check_data_file
from journal.residue import Found, Readable, search
from journal.store import Store, open_store, purge_parts
from tests.journal.test_store import body, made, opened, purged, remember

WORD = b"zqXword7"
SMALL, LARGE = b"before " + WORD + b" behind", WORD + bytes(range(1, 250)) * 60
SIZES = pytest.mark.parametrize("text", [SMALL, LARGE], ids=["in a leaf", "in overflow pages"])
PAGE = 4096


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = opened(made(tmp_path))
    for number in range(5):
        remember(store, b"other %d" % number)
    yield store
    store.close(clean=False)


def look(store: Store) -> Found:
    return search(store, store.dir.root, WORD)


def readable(part: SealedPart) -> list[Readable]:
    return [Readable(part.owner_seq, part.part, (0, 1000 + part.owner_seq))]


def remove(store: Store, part: SealedPart) -> None:
    """Take the ciphertext out of `sealed`; what is written behind it goes elsewhere."""
    store.log.append([], [], store.log.state, removed=[sealed_key(part.owner_seq, part.part)])
    with store.env.read() as txn:
        assert store.log.sealed(txn, part.owner_seq, part.part) is None


def purge(store: Store, part: SealedPart) -> None:
    purge_parts(store, [body(store.log.head().seq + 1, purged(part))], [], store.log.state)


@SIZES
def test_what_is_readable_is_found_once_and_nothing_after_its_purge(store: Store, text: bytes) -> None:
    part = remember(store, text)
    found = look(store)
    assert (found.plain, found.readable, found.unopenable, found.cut) == ([], readable(part), 0, False)
    assert (found.tried, found.files) == (6, 5)
    purge(store, part)
    found = look(store)
    assert (found.plain, found.readable) == ([], [])
    assert (found.tried, found.unopenable) == (6, 1)


@SIZES
def test_what_left_sealed_is_found_in_the_pages_it_left(store: Store, text: bytes) -> None:
    part = remember(store, text)
    remove(store, part)
    assert look(store).readable == readable(part)
    store.vault.shred([part.slot])
    found = look(store)
    assert found.readable == [] and found.unopenable >= 1


def test_what_was_taken_out_of_a_page_in_use_is_found_in_its_gap(store: Store) -> None:
    """All copies of the page but the one in use are written over."""
    part = remember(store, SMALL)
    remove(store, part)
    data = store.dir.journal_dir / "data.mdb"
    places = copies(data, part)
    in_gap = {page for page, is_entry in places if not is_entry}
    assert in_gap, "LMDB cleans up now: the gap need not be looked at"
    for page in {page for page, _ in places} - in_gap:
        overwrite(data, page)
    assert {is_entry for _, is_entry in copies(data, part)} == {False}
    assert look(store).readable == readable(part)


def copies(data: Path, part: SealedPart) -> list[tuple[int, bool]]:
    """The pages that have an entry of a part, and whether it is in use there."""
    content = data.read_bytes()
    key = sealed_key(part.owner_seq, part.part)
    found = []
    with data.open("rb") as file:
        pages = Pages(file.fileno(), check_data_file(data))
        for number in range(2, pages.count):
            page = content[number * PAGE : (number + 1) * PAGE]
            if int.from_bytes(page[:8], "little") != number or page[10] & 0xF != 2:
                continue
            lower, upper = (int.from_bytes(page[at : at + 2], "little") for at in (12, 14))
            found += [(number, entry.sure) for entry in pages._leaf(page, lower, upper, 9) if entry.key == key]
    return found


def overwrite(data: Path, page: int) -> None:
    with data.open("r+b") as file:
        file.seek(page * PAGE)
        file.write(bytes(PAGE))


def test_an_overflow_page_is_known_by_its_digest_when_its_leaf_is_written_over(store: Store) -> None:
    part = remember(store, LARGE)
    remember(store, b"other " * 2000)
    remove(store, part)
    data = store.dir.journal_dir / "data.mdb"
    key, content = sealed_key(part.owner_seq, part.part), data.read_bytes()
    assert key in content
    data.write_bytes(content.replace(key, bytes(len(key))))
    assert look(store).readable == readable(part)
    store.vault.shred([part.slot])
    assert look(store).readable == []


@SIZES
def test_what_only_an_old_record_names_is_found(tmp_path: Path, text: bytes) -> None:
    """As if the commit had been lost after its pages were written: nothing leads to record and ciphertext."""
    root = made(tmp_path)
    store = opened(root)
    data = root / "journal" / "data.mdb"
    before = data.read_bytes()[: 2 * PAGE]
    part = remember(store, text)
    store.close(clean=False)
    with data.open("r+b") as file:
        file.write(before)
    store = opened(root, readonly=True)
    assert store.log.head().seq < part.owner_seq
    assert look(store).readable == readable(part)
    store.close(clean=False)


def test_a_vault_that_was_left_is_tried_too(store: Store) -> None:
    """As if a change of the master key had been interrupted before the purge."""
    part = remember(store, SMALL)
    left = store.dir.vault_file.read_bytes()
    purge(store, part)
    assert look(store).readable == []
    store.dir.old_vault_file.write_bytes(left)
    assert look(store).readable == readable(part)
    store.dir.old_vault_file.write_bytes(b"none")
    assert look(store).readable == []


def test_wrapped_keys_are_unwrapped(tmp_path: Path) -> None:
    master = MasterKey(bytearray(range(32)))
    root = tmp_path / "state"
    create_store(root, master)
    store = open_store(root, version="0.1.0", now_ms=1_800_000_000_000, keys=Keys(master))
    part = remember(store, SMALL)
    assert look(store).readable == readable(part)
    purge(store, part)
    found = look(store)
    assert (found.readable, found.unopenable) == ([], 1)
    store.close(clean=False)


def test_a_ciphertext_that_no_record_owns_is_counted(store: Store) -> None:
    store.log.append([], [(sealed_key(900, 1), b"nothing opens this one")], store.log.state)
    found = look(store)
    assert (found.readable, found.tried, found.unopenable) == ([], 6, 1)


def damage(store: Store, seq: int) -> None:
    """Wherever the record lies, also in pages of before."""
    with store.env.read() as txn:
        value = store.log.raw(txn, seq)
    assert value is not None
    data = store.dir.journal_dir / "data.mdb"
    data.write_bytes(data.read_bytes().replace(value, value[:-1] + bytes([value[-1] ^ 1])))


@pytest.mark.parametrize("is_row", [True, False], ids=["in sealed", "in a page"])
def test_what_a_damaged_record_owns_is_found_all_the_same(store: Store, is_row: bool) -> None:
    part = remember(store, SMALL)
    damage(store, part.owner_seq)
    if not is_row:
        remove(store, part)
    found = look(store)
    assert found.readable == [Readable(part.owner_seq, part.part, None)] and not found.cut
    store.vault.shred([part.slot])
    assert look(store).readable == []


def test_slots_without_a_name_that_are_too_many_are_told(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residue, "_NAMELESS", 1)
    parts = [remember(store, SMALL + b"%d" % number) for number in range(3)]
    for part in parts:
        damage(store, part.owner_seq)
    found = look(store)
    assert [each.seq for each in found.readable] == [parts[0].owner_seq] and found.cut


def test_what_is_not_kept_of_old_records_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that let go of what it had to know says so, and not that all is clean."""
    monkeypatch.setattr(residue, "_REMEMBERED", 1)
    root = made(tmp_path)
    store = opened(root)
    data = root / "journal" / "data.mdb"
    before = data.read_bytes()[: 2 * PAGE]
    remember(store, b"first")
    part = remember(store, SMALL)
    store.close(clean=False)
    with data.open("r+b") as file:
        file.write(before)
    store = opened(root, readonly=True)
    found = look(store)
    assert found.cut or found.readable == readable(part)
    store.close(clean=False)


def test_large_parts_are_looked_for_in_steps(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residue, "_REMEMBERED", 1)
    parts = [remember(store, LARGE + b"%d" % number) for number in range(3)]
    remember(store, b"other " * 2000)
    data = store.dir.journal_dir / "data.mdb"
    for part in parts:
        remove(store, part)
    content = data.read_bytes()
    for part in parts:
        content = content.replace(sealed_key(part.owner_seq, part.part), bytes(9))
    data.write_bytes(content)
    assert sorted(look(store).readable) == [one for part in parts for one in readable(part)]


def test_a_slot_opens_no_other_slots_ciphertext(store: Store) -> None:
    """A ciphertext that was moved under another record's number is no finding."""
    part = remember(store, SMALL)
    with store.env.read() as txn:
        sealed = store.log.sealed(txn, part.owner_seq, 1)
    assert sealed is not None
    store.log.append([], [(sealed_key(part.owner_seq, 2), sealed)], store.log.state)
    assert look(store).readable == readable(part)


@pytest.mark.parametrize("name", ["stray", "projections/stray", "reserve", "lock", "head", "vault", "journal/data.mdb"])
def test_plain_bytes_are_found_at_their_place(store: Store, name: str) -> None:
    path = store.dir.root / name
    path.parent.mkdir(exist_ok=True)
    at = (path.stat().st_size if path.exists() else 0) + (1 << 20) - 3  # across two steps
    with path.open("r+b" if path.exists() else "wb") as file:
        file.truncate(at)
        file.seek(at)
        file.write(WORD)
    assert look(store).plain == [Plain(name, at)]


def test_links_and_pipes_are_passed_over(store: Store, tmp_path: Path) -> None:
    import os

    (tmp_path / "outside").write_bytes(WORD)
    (store.dir.root / "link").symlink_to(tmp_path / "outside")
    os.mkfifo(store.dir.root / "pipe")
    assert look(store).plain == []


def test_the_end_of_what_is_told(store: Store) -> None:
    (store.dir.root / "stray").write_bytes(WORD * (TOLD + 1))
    found = look(store)
    assert len(found.plain) == TOLD and found.cut
    assert found.plain[-1].offset == (TOLD - 1) * len(WORD)


def test_lmdb_keeps_its_lock(store: Store) -> None:
    """POSIX gives up a process's locks on a file when it closes any descriptor of it."""
    ask = "import fcntl,sys; fcntl.lockf(open(sys.argv[1],'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB, 1)"
    lock = str(store.dir.journal_dir / "lock.mdb")
    look(store)
    asked = subprocess.run([sys.executable, "-c", ask, lock], capture_output=True, check=False)
    assert asked.returncode != 0 and b"BlockingIOError" in asked.stderr


class Enough(Exception):
    pass


def test_every_phase_can_be_ended(store: Store) -> None:
    part = remember(store, LARGE)
    remove(store, part)
    phases: list[str] = []
    search(store, store.dir.root, WORD, lambda phase, done, of: phases.append(phase))
    assert {"files", "ciphertexts", "records", "pages"} <= set(phases)
    for phase in set(phases):
        with pytest.raises(Enough):
            search(store, store.dir.root, WORD, ended_in(phase))


def ended_in(wanted: str) -> Callable[[str, int, int], None]:
    def step(phase: str, done: int, of: int) -> None:
        assert 0 <= done <= of
        if phase == wanted:
            raise Enough

    return step


@pytest.mark.parametrize("seed", range(20))
def test_pages_of_anything_are_read_without_harm(tmp_path: Path, seed: int) -> None:
    """Heads that hold, with whatever behind them."""
    chance = random.Random(seed)
    data = made(tmp_path) / "journal" / "data.mdb"
    meta = check_data_file(data)
    with data.open("r+b") as file:
        for number in range(2, 40):
            page = bytearray(chance.randbytes(PAGE))
            page[:8] = number.to_bytes(8, "little")
            page[10:12] = chance.choice((2, 4)).to_bytes(2, "little")
            if chance.random() < 0.8:
                page[12:16] = (16 + 2 * chance.randrange(200)).to_bytes(2, "little") + b"\xf0\x0f"
            for _ in range(50):
                at = chance.randrange(16, PAGE - 9)
                page[at : at + 8] = bytes(
                    (chance.randrange(256), chance.randrange(20), 0, 0, chance.randrange(2), 0, 9, 0)
                )
            file.seek(number * PAGE)
            file.write(page)
    with data.open("rb") as file:
        found = list(Pages(file.fileno(), meta).walk(9, lambda done, of: None))
    assert any(isinstance(each, Entry) for each in found)
    assert all(len(each.key) == 9 for each in found if isinstance(each, Entry))

"""The trees of a data file: whatever LMDB writes holds together, and a page that does not is named."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from journal.creating import create_store
from journal.errors import DamagedStore
from journal.preflight import check_data_file
from journal.store import open_store
from journal.trees import check_trees
from tests.journal.making import append_memories, open_journal

PAGE = 4096
BRANCH, LEAF, OVERFLOW = 1, 2, 4


def churned(directory: Path, seed: int, commits: int, on_commit: Callable[[Path], object]) -> Path:
    """An environment in which keys and values of every size came and went, with readers held meanwhile."""
    chance = random.Random(seed)
    directory.mkdir()
    data = directory / "data.mdb"
    env = lmdb.open(str(directory), map_size=1 << 28, max_dbs=4, max_spare_txns=0)
    databases = [env.open_db(b"d%d" % number) for number in range(4)]
    keys: list[bytes] = []
    reader = env.begin()
    for commit in range(commits):
        if commit % 7 == 0:
            reader.abort()
            reader = env.begin()
        with env.begin(write=True) as txn:
            for _ in range(chance.choice([1, 5, 120])):
                database = chance.choice(databases)
                if keys and chance.random() < (0.2 if commit % 20 < 10 else 0.7):
                    txn.delete(chance.choice(keys), db=database)
                    continue
                keys.append(chance.randbytes(chance.choice([4, 8, 8, 60, 400])))
                txn.put(keys[-1], chance.randbytes(chance.choice([0, 10, 100, 1500, 2100, 9000])), db=database)
        on_commit(data)
    reader.abort()
    env.close()
    return data


@pytest.mark.parametrize("seed", range(3))
def test_all_that_lmdb_writes_holds_together(tmp_path: Path, seed: int) -> None:
    checked: list[bool] = []
    churned(tmp_path / "env", seed, 40, lambda data: checked.append(check_trees(data, 1 << 40)))
    assert checked == [True] * 40


def test_a_journal_without_a_record_holds_together(tmp_path: Path) -> None:
    with open_journal(tmp_path):
        assert check_trees(tmp_path / "journal" / "data.mdb")


def test_no_more_pages_are_looked_at_than_allowed(tmp_path: Path) -> None:
    with open_journal(tmp_path) as log:
        append_memories(log, 500)
    data = tmp_path / "journal" / "data.mdb"
    assert check_trees(data)
    assert not check_trees(data, 10)


def head(page: bytes) -> tuple[int, int]:
    """`(own number, kind)`."""
    number, flags = struct.unpack_from("<Q2xH", page)
    return number, flags & 0xF


def pages_of(data: bytes, kind: int) -> list[int]:
    """The pages of a kind that are in use in the journal of the fixture: nothing in it was ever freed."""
    return [n for n in range(2, len(data) // PAGE) if head(data[n * PAGE :][:PAGE]) == (n, kind)]


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A data file with branches, leaves, overflows and a free list, in one transaction as compaction leaves it."""
    kept = churned(tmp_path / "env", 7, 25, lambda data: None)
    (tmp_path / "compact").mkdir()
    env = lmdb.open(str(kept.parent), map_size=1 << 28, max_dbs=4)
    env.copy(str(tmp_path / "compact"), compact=True)
    env.close()
    return tmp_path / "compact" / "data.mdb"


@pytest.mark.parametrize("kind", [BRANCH, LEAF, OVERFLOW])
@pytest.mark.parametrize("at", [0, 8 + 2, 12], ids=["number", "flags", "counts"])
def test_a_page_whose_head_is_wrong_is_refused(journal: Path, kind: int, at: int) -> None:
    data = bytearray(journal.read_bytes())
    page = pages_of(bytes(data), kind)[0]
    data[page * PAGE + at] ^= 7
    journal.write_bytes(data)
    assert check_data_file(journal)
    with pytest.raises(DamagedStore, match=r"page|branch|leaf"):
        check_trees(journal)


@pytest.mark.parametrize("kind", [BRANCH, LEAF])
def test_a_page_that_lies_in_the_place_of_another_is_named(journal: Path, kind: int) -> None:
    data = bytearray(journal.read_bytes())
    one, two = pages_of(bytes(data), kind)[:2]
    data[one * PAGE : (one + 1) * PAGE] = data[two * PAGE : (two + 1) * PAGE]
    journal.write_bytes(data)
    with pytest.raises(DamagedStore, match=f"page {two} lies in the place of page {one}"):
        check_trees(journal)


@pytest.mark.parametrize("kind", [BRANCH, LEAF])
def test_an_offset_that_points_elsewhere_is_refused(journal: Path, kind: int) -> None:
    data = bytearray(journal.read_bytes())
    page = pages_of(bytes(data), kind)[-1]
    struct.pack_into("<H", data, page * PAGE + 16, 3)
    journal.write_bytes(data)
    with pytest.raises(DamagedStore, match=f"offsets of page {page}"):
        check_trees(journal)


def test_an_entry_that_reaches_over_its_page_is_refused(journal: Path) -> None:
    data = bytearray(journal.read_bytes())
    page = pages_of(bytes(data), LEAF)[0]
    (node,) = struct.unpack_from("<H", data, page * PAGE + 16)
    struct.pack_into("<H", data, page * PAGE + node + 6, 5000)
    journal.write_bytes(data)
    with pytest.raises(DamagedStore):
        check_trees(journal)


def test_a_free_list_that_names_a_page_in_use_is_refused(tmp_path: Path) -> None:
    data_file = churned(tmp_path / "env", 3, 30, lambda data: None)
    data = bytearray(data_file.read_bytes())
    newer = max((0, 1), key=lambda number: struct.unpack_from("<Q", data, number * PAGE + 144)[0])
    (leaf,) = struct.unpack_from("<Q", data, newer * PAGE + 80)
    (node,) = struct.unpack_from("<H", data, leaf * PAGE + 16)
    struct.pack_into("<Q", data, leaf * PAGE + node + 8 + 8 + 8, leaf)  # behind head, key and count
    assert head(bytes(data[leaf * PAGE :][:PAGE])) == (leaf, LEAF)
    data_file.write_bytes(data)
    with pytest.raises(DamagedStore, match="free list"):
        check_trees(data_file)


def test_a_store_whose_pages_are_swapped_is_refused_before_lmdb_reads_them(tmp_path: Path) -> None:
    root = tmp_path / "state"
    create_store(root)
    store = open_store(root, version="1", now_ms=1)
    append_memories(store.log, 60)
    store.close(clean=True)
    data = root / "journal" / "data.mdb"
    content = bytearray(data.read_bytes())
    used = pages_of(bytes(content), LEAF)
    one, two = used[-1], used[-2]
    first = bytes(content[one * PAGE : (one + 1) * PAGE])
    content[one * PAGE : (one + 1) * PAGE] = content[two * PAGE : (two + 1) * PAGE]
    content[two * PAGE : (two + 1) * PAGE] = first
    data.write_bytes(content)
    with pytest.raises(DamagedStore, match=r"journal: \d+ findings|lies in the place"):
        open_store(root, version="1", now_ms=1)
    assert data.read_bytes() == bytes(content)

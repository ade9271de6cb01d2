"""The size check: a truncated file is refused before LMDB maps it, a sound one never is."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import lmdb
import pytest

from journal.environment import Environment
from journal.errors import DamagedStore, StoreIO
from journal.preflight import check_data_file
from tests.journal.making import append_memories, open_journal


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with open_journal(tmp_path) as log:
        for _ in range(4):
            append_memories(log, 100)
    return tmp_path / "journal" / "data.mdb"


def test_it_reads_what_lmdb_reads(data: Path) -> None:
    meta = check_data_file(data)
    env = lmdb.open(str(data.parent), max_dbs=3, readonly=True)
    assert (meta.last_page, meta.txn_id) == (env.info()["last_pgno"], env.info()["last_txnid"])
    assert meta.page_bytes == env.stat()["psize"]
    env.close()


def test_a_new_environment_passes(tmp_path: Path) -> None:
    Environment.open(tmp_path / "env", (), durable=True).close()
    check_data_file(tmp_path / "env" / "data.mdb")


def test_every_truncation_that_loses_a_page_in_use_is_seen(data: Path) -> None:
    whole = data.read_bytes()
    for pages in range(len(whole) // 4096 - 8):
        data.write_bytes(whole[: pages * 4096 + 100])
        with pytest.raises(DamagedStore, match="truncated"):
            check_data_file(data)


@pytest.mark.parametrize("seed", range(8))
def test_a_sound_file_that_ends_before_its_last_page_passes(tmp_path: Path, seed: int) -> None:
    """Deleting in batches makes LMDB leave pages unwritten that were taken and given back at once."""
    dice = random.Random(seed)
    env = Environment.open(tmp_path / "env", ("rows",), durable=False)
    data, db = env.path / "data.mdb", env.db("rows")
    live: list[bytes] = []
    for batch in range(60):
        with env.write() as txn:
            for number in range(dice.choice((1, 50, 300))):
                live.append(struct.pack(">II", batch, number))
                txn.put(live[-1], dice.randbytes(dice.choice((100, 300, 9000))), db=db)
            if dice.random() < 0.4:
                begin = dice.randrange(len(live))
                end = begin + dice.choice((20, len(live) // 2, len(live)))
                for key in live[begin:end]:
                    txn.delete(key, db=db)
                del live[begin:end]
        check_data_file(data)
    env.close()


@pytest.mark.parametrize("place", [16, 20, 4096 + 16, 4096 + 20])
def test_a_meta_page_that_is_none_is_refused(data: Path, place: int) -> None:
    damaged = bytearray(data.read_bytes())
    damaged[place] ^= 0xFF
    data.write_bytes(damaged)
    with pytest.raises(DamagedStore):
        check_data_file(data)


@pytest.mark.parametrize("content", [b"", b"\0" * 4096, b"x" * 20000])
def test_what_is_no_lmdb_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "data.mdb").write_bytes(content)
    with pytest.raises(DamagedStore):
        check_data_file(tmp_path / "data.mdb")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DamagedStore):
        check_data_file(tmp_path / "data.mdb")


def test_a_file_that_cannot_be_read_now_is_not_called_damaged(tmp_path: Path) -> None:
    (tmp_path / "data.mdb").symlink_to("/proc/self/mem")  # opens, and answers a read at 0 with EIO
    with pytest.raises(StoreIO):
        check_data_file(tmp_path / "data.mdb")

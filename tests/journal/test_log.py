"""The log: what was appended is read, in order, and damage is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from journal.errors import DamagedRecord, DamagedStore, ForeignStore, StoreIO
from journal.log import Log, MetaState, sealed_key
from journal.record import Head, encode_body, seq_key
from tests.journal.making import (
    STORE_ID,
    append_memories,
    ciphertext,
    memory,
    open_journal,
    purge,
    record,
)


def test_a_new_log_is_empty(tmp_path: Path) -> None:
    with open_journal(tmp_path) as log:
        assert log.head() == Head(1, 0, STORE_ID)
        assert log.state == MetaState()
        assert list(log.chunks()) == []
        with log.env.read() as txn:
            assert log.get(txn, 1) is None
            assert log.chain_of(txn, 0) == STORE_ID


def test_what_was_appended_is_there_after_reopening(tmp_path: Path) -> None:
    with open_journal(tmp_path) as log:
        append_memories(log, 3)
        append_memories(log, 2)
        head, state = log.head(), log.state
    with open_journal(tmp_path) as log:
        assert (log.head(), log.state) == (head, state)
        assert head.seq == 5
        with log.env.read() as txn:
            assert log.get(txn, 4) == record(4, memory(4))
            assert log.sealed(txn, 4, 1) == ciphertext(4)
            assert log.sealed(txn, 4, 2) is None
            assert log.chain_of(txn, 5) == head.chain


@pytest.mark.parametrize("size", [1, 3, 10, 4096])
@pytest.mark.parametrize("check", [True, False])
def test_chunks_are_the_range_in_order(tmp_path: Path, size: int, check: bool) -> None:
    with open_journal(tmp_path) as log:
        append_memories(log, 10)
        chunks = list(log.chunks(3, 9, size=size, check=check))
        assert [entry.seq for chunk in chunks for entry in chunk] == list(range(3, 10))
        assert max(len(chunk) for chunk in chunks) <= size


def test_a_range_beyond_the_head_is_missing(tmp_path: Path) -> None:
    with open_journal(tmp_path) as log:
        append_memories(log, 2)
        with pytest.raises(DamagedRecord) as caught:
            list(log.chunks(1, 3))
        assert (caught.value.seq, caught.value.check) == (3, "missing")


def test_an_empty_batch_may_change_the_state(tmp_path: Path) -> None:
    with open_journal(tmp_path) as log:
        append_memories(log, 1)
        head = log.append([], [], MetaState(vault_next=9, owner_seq=1, epoch=2))
        assert head == Head(2, 1, log.head().chain)
    with open_journal(tmp_path) as log:
        assert log.state.vault_next == 9
        assert log.head() == head


def test_purges_are_listed_and_ciphertexts_leave(tmp_path: Path) -> None:
    with open_journal(tmp_path) as log:
        append_memories(log, 2)
        log.append([encode_body(record(3, purge(memory(1))))], [], log.state, [3], [sealed_key(1, 1)])
        assert log.destroying_seqs() == [3]
        with log.env.read() as txn:
            assert log.sealed(txn, 1, 1) is None
            assert log.sealed(txn, 2, 1) == ciphertext(2)


def test_a_ciphertext_of_an_older_record_is_refused_whole(tmp_path: Path) -> None:
    """An appending put that is out of order returns False and raises nothing: it must not pass."""
    with open_journal(tmp_path) as log:
        append_memories(log, 2)
        head = log.head()
        body = encode_body(record(3, memory(3)))
        with pytest.raises(StoreIO):
            log.append([body], [(sealed_key(1, 1), b"again")], log.state)
        assert log.head() == head
        with log.env.read() as txn:
            assert log.get(txn, 3) is None
            assert log.sealed(txn, 1, 1) == ciphertext(1)


def test_the_journal_of_another_store_is_refused(tmp_path: Path) -> None:
    with open_journal(tmp_path) as log, pytest.raises(ForeignStore):
        Log(log.env, b"x" * 16)


def test_a_log_is_made_once(tmp_path: Path) -> None:
    with open_journal(tmp_path) as log, pytest.raises(StoreIO):
        Log.create(log.env, STORE_ID)


Damage = Callable[[lmdb.Transaction, Log], object]


def flip_last(txn: lmdb.Transaction, log: Log) -> None:
    value = bytearray(log.raw(txn, 5) or b"")
    value[-1] ^= 1
    txn.put(seq_key(5), bytes(value), db=log.env.db("records"))


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(flip_last, id="newest record"),
        pytest.param(lambda txn, log: txn.delete(seq_key(2), db=log.env.db("records")), id="gap"),
        pytest.param(lambda txn, log: txn.put(b"state", b"12345", db=log.env.db("meta")), id="state"),
        pytest.param(lambda txn, log: txn.delete(b"state", db=log.env.db("meta")), id="no state"),
        pytest.param(lambda txn, log: txn.delete(b"store", db=log.env.db("meta")), id="no store"),
    ],
)
def test_opening_sees_damage_at_the_head(tmp_path: Path, damage: Damage) -> None:
    with open_journal(tmp_path) as log:
        append_memories(log, 5)
        with log.env.write() as txn:
            damage(txn, log)
    with pytest.raises(DamagedStore), open_journal(tmp_path):
        pass


def test_chunks_name_the_record_that_is_damaged(tmp_path: Path) -> None:
    with open_journal(tmp_path) as log:
        append_memories(log, 9)
        with log.env.write() as txn:
            flip_last(txn, log)
        with pytest.raises(DamagedRecord) as caught:
            list(log.chunks(size=2))
        assert (caught.value.seq, caught.value.check) == (5, "crc")
        with log.env.read() as txn, pytest.raises(DamagedRecord):
            log.get(txn, 5)


def test_a_purge_row_that_was_altered_is_damage(tmp_path: Path) -> None:
    with open_journal(tmp_path) as log:
        with log.env.write() as txn:
            txn.put(b"purge" + seq_key(1), b"wrong", db=log.env.db("meta"))
        with pytest.raises(DamagedStore):
            log.destroying_seqs()

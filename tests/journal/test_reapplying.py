"""Purges carried out again in a store that is restored: each once, and nothing of another line."""

from __future__ import annotations

from pathlib import Path

import msgspec

from journal.events import Purged
from journal.purges import read_purges
from journal.vault import SlotState, Vault
from tests.journal.backing import (
    assert_sound,
    backed_up,
    directives_of,
    plaintexts,
    purge,
    raw_record,
    restored_as_listed,
)
from tests.journal.test_store import made, opened, remember


def test_what_was_purged_since_is_purged_again(tmp_path: Path) -> None:
    store = opened(made(tmp_path))
    secret, kept = remember(store, b"secret"), remember(store, b"kept")
    backed_up(store, tmp_path / "b")
    seq = purge(store, secret)
    (line,) = directives_of(store)
    store.close(clean=True)
    outcome = restored_as_listed(tmp_path / "r", tmp_path / "b", [line])
    assert outcome.reapplied[:4] == (1, 0, 0, 0)
    assert outcome.unnamed == 0
    vault = Vault.open(tmp_path / "r" / "vault", outcome.store_id, readonly=True)  # before an opening could do it
    assert (vault.state(secret.slot), vault.state(kept.slot)) == (SlotState.SHREDDED, SlotState.KEYED)
    vault.close()
    there = read_purges(tmp_path / "r" / "purges").directives
    assert there[0] == line and (there[1].epoch, there[1].seq, there[1].memories) == (
        2,
        outcome.head.seq,
        line.memories,
    )
    assert plaintexts(tmp_path / "r", [secret, kept]) == [None, b"kept"]
    assert_sound(tmp_path / "r")
    assert read_purges(tmp_path / "r" / "purges").directives == there
    after = opened(tmp_path / "r", readonly=True)
    record = raw_record(after, outcome.head.seq)
    assert isinstance(record.event, Purged)
    assert record.tenant == 1
    assert record.event.directive == (after.store_id, 1, seq)
    assert record.event.parts == (secret,)
    after.close(clean=False)


def test_the_same_purge_told_twice_is_recorded_once(tmp_path: Path) -> None:
    """The purge list of a store that was restored before has the purge, and that it was carried out again."""
    store = opened(made(tmp_path))
    secret = remember(store, b"secret")
    backed_up(store, tmp_path / "b")
    purge(store, secret)
    lines = directives_of(store)
    store.close(clean=True)
    restored_as_listed(tmp_path / "r", tmp_path / "b", lines)
    both = read_purges(tmp_path / "r" / "purges").directives
    assert len(both) == 2
    outcome = restored_as_listed(tmp_path / "r2", tmp_path / "b", [*both, *both])
    assert outcome.reapplied[:4] == (1, 0, 0, 0)
    assert outcome.head.epoch == 3  # 2 was another fork of the same record
    assert_sound(tmp_path / "r2")


def test_a_purge_that_the_backup_holds_itself_is_not_recorded_again(tmp_path: Path) -> None:
    store = opened(made(tmp_path))
    secret = remember(store, b"secret")
    purge(store, secret)
    lines = directives_of(store)
    manifest = backed_up(store, tmp_path / "b")
    store.close(clean=True)
    assert manifest.journal is not None
    outcome = restored_as_listed(tmp_path / "r", tmp_path / "b", lines)
    assert outcome.reapplied[:4] == (0, 1, 0, 0)
    assert outcome.head.seq == manifest.journal.seq + 1
    assert plaintexts(tmp_path / "r", [secret]) == [None]
    assert_sound(tmp_path / "r")


def test_a_purge_of_another_line_destroys_nothing_of_this_one(tmp_path: Path) -> None:
    """Both lines went on from one backup: the same numbers mean other memories."""
    store = opened(made(tmp_path))
    remember(store, b"common")
    backed_up(store, tmp_path / "early")
    store.close(clean=True)
    restored_as_listed(tmp_path / "fork", tmp_path / "early")
    fork = opened(tmp_path / "fork")
    ours = remember(fork, b"ours")
    backed_up(fork, tmp_path / "b")
    fork.close(clean=True)
    store = opened(tmp_path / "state")
    remember(store, b"filling")
    theirs = remember(store, b"theirs")
    assert (theirs.owner_seq, theirs.part) == (ours.owner_seq, ours.part)
    purge(store, theirs)
    lines = directives_of(store)
    store.close(clean=True)
    outcome = restored_as_listed(tmp_path / "r", tmp_path / "b", lines)
    assert outcome.reapplied[:4] == (0, 0, 1, 0)
    assert plaintexts(tmp_path / "r", [ours]) == [b"ours"]
    foreign = [msgspec.structs.replace(each, store=bytes(16).hex()) for each in lines]
    assert restored_as_listed(tmp_path / "r2", tmp_path / "b", foreign).reapplied[:4] == (0, 0, 0, 1)


def test_lines_of_the_list_that_a_crash_explains_are_told_from_lost_ones(tmp_path: Path) -> None:
    store = opened(made(tmp_path))
    for text in (b"one", b"two", b"three"):
        purge(store, remember(store, text))
    path = store.dir.purges_file
    lines = path.read_bytes().splitlines()
    store.close(clean=True)

    def lost(*written: bytes) -> tuple[int, ...]:
        path.write_bytes(b"\n".join(written))
        return read_purges(path).lost_lines

    assert lost(*lines) == ()
    assert lost(lines[0], lines[1][:30]) == ()  # cut short at the end
    assert lost(lines[0], lines[1][:30], lines[1], b"") == ()  # and written again
    assert lost(lines[0], lines[1][:30], lines[2], b"") == (2,)
    assert lost(lines[0][:-1] + b"x", lines[1]) == (1,)
    assert lost(lines[0][:30], lines[0][:30], lines[1]) == (1, 2)

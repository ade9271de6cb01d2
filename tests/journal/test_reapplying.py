"""Purges carried out again in a store that is restored: each once, and nothing of another line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from journal.events import Purged
from journal.purges import read_purges
from journal.vault import SlotState, Vault
from tests.daemon.purged import Purging
from tests.journal.backing import (
    assert_sound,
    backed_up,
    directives_of,
    purge,
    raw_record,
    restored,
)
from tests.journal.test_store import made, opened, remember


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Purging]:
    found = Purging(tmp_path / "live")
    yield found
    found.close(True)


def look(root: Path, memories: list[str]) -> list[str | None]:
    """The text of each, None when it reads as purged and no key opens it."""
    again = Purging(root)
    try:
        told = again.read("get", {"ids": memories})["memories"]
        assert again.rebuilt_alike()
        for memory in told:
            assert memory["status"] == "active" or not again.readable("secret")
        return [memory.get("text") if memory["status"] == "active" else None for memory in told]
    finally:
        again.close(True)


def test_what_was_purged_since_is_purged_again(tmp_path: Path, live: Purging) -> None:
    secret, kept = live.capture("secret"), live.capture("kept")
    (part,) = live.readable("secret")
    (other,) = live.readable("kept")
    backed_up(live.store, tmp_path / "b")
    seq = live.purge(secret)["receipt"]["seq"]
    (line,) = directives_of(live.store)
    outcome = restored(tmp_path / "r", tmp_path / "b", [line])
    assert outcome.reapplied[:4] == (1, 0, 0, 0)
    assert outcome.unnamed == 0
    vault = Vault.open(tmp_path / "r" / "vault", outcome.store_id, readonly=True)  # before an opening could do it
    assert (vault.state(part.slot), vault.state(other.slot)) == (SlotState.SHREDDED, SlotState.KEYED)
    vault.close()
    there = read_purges(tmp_path / "r" / "purges").directives
    assert there[0] == line and (there[1].epoch, there[1].seq, there[1].memories) == (
        2,
        outcome.head.seq,
        line.memories,
    )
    after = opened(tmp_path / "r", readonly=True)
    record = raw_record(after, outcome.head.seq)
    assert isinstance(record.event, Purged)
    assert record.tenant == 1
    assert record.event.directive == (after.store_id, 1, seq)
    assert record.event.parts == (part,)
    after.close(clean=False)
    assert look(tmp_path / "r", [secret, kept]) == [None, "kept"]
    assert_sound(tmp_path / "r")
    assert read_purges(tmp_path / "r" / "purges").directives == there


def test_the_same_purge_told_twice_is_recorded_once(tmp_path: Path, live: Purging) -> None:
    """The purge list of a store that was restored before has the purge, and that it was carried out again."""
    secret = live.capture("secret")
    backed_up(live.store, tmp_path / "b")
    live.purge(secret)
    restored(tmp_path / "r", tmp_path / "b", directives_of(live.store))
    both = read_purges(tmp_path / "r" / "purges").directives
    assert len(both) == 2
    outcome = restored(tmp_path / "r2", tmp_path / "b", [*both, *both])
    assert outcome.reapplied[:4] == (1, 0, 0, 0)
    assert outcome.head.epoch == 3  # 2 was another fork of the same record
    assert look(tmp_path / "r2", [secret]) == [None]
    assert_sound(tmp_path / "r2")


def test_a_purge_that_the_backup_holds_itself_is_not_recorded_again(tmp_path: Path, live: Purging) -> None:
    secret = live.capture("secret")
    live.purge(secret)
    manifest = backed_up(live.store, tmp_path / "b")
    assert manifest.journal is not None
    outcome = restored(tmp_path / "r", tmp_path / "b", directives_of(live.store))
    assert outcome.reapplied[:4] == (0, 1, 0, 0)
    assert outcome.head.seq == manifest.journal.seq + 1
    assert look(tmp_path / "r", [secret]) == [None]
    assert_sound(tmp_path / "r")


def test_a_purge_of_another_line_destroys_nothing_of_this_one(tmp_path: Path, live: Purging) -> None:
    """Both lines went on from one backup: the same numbers mean other memories."""
    live.capture("common")
    backed_up(live.store, tmp_path / "early")
    restored(tmp_path / "fork", tmp_path / "early")
    fork = Purging(tmp_path / "fork")
    ours = fork.capture("ours")
    backed_up(fork.store, tmp_path / "b")
    (our_part,) = fork.readable("ours")
    fork.close(True)
    for number in range(2):  # a fork has written RESTORED and OPENED before
        live.capture(f"filling {number}")
    theirs = live.capture("theirs")
    (their_part,) = live.readable("theirs")
    assert (their_part.owner_seq, their_part.part) == (our_part.owner_seq, our_part.part)
    live.purge(theirs)
    lines = directives_of(live.store)
    outcome = restored(tmp_path / "r", tmp_path / "b", lines)
    assert outcome.reapplied[:4] == (0, 0, 1, 0)
    assert look(tmp_path / "r", [ours]) == ["ours"]
    foreign = [msgspec.structs.replace(each, store=bytes(16).hex()) for each in lines]
    assert restored(tmp_path / "r2", tmp_path / "b", foreign).reapplied[:4] == (0, 0, 0, 1)


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

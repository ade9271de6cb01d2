"""Free space: the thresholds, their distance, and the reserve. The file system is the real one."""

from __future__ import annotations

import stat
from pathlib import Path

from journal.space import MIB, Space, SpaceGuard, free_bytes

HUGE = 1 << 62


def guard(tmp_path: Path, *, below: int = 0, writable: int = 0, reserve: int = MIB) -> SpaceGuard:
    return SpaceGuard(
        tmp_path,
        tmp_path / "reserve",
        read_only_below=below,
        writable_from=writable,
        reserve_bytes=reserve,
    )


def test_with_room_the_store_takes_writes(tmp_path: Path) -> None:
    watched = guard(tmp_path)
    assert watched.measure().enough
    assert not watched.read_only


def test_without_room_it_is_read_only_and_says_what_it_needs(tmp_path: Path) -> None:
    watched = guard(tmp_path, below=HUGE, writable=HUGE)
    space = watched.measure()
    assert not space.enough
    assert watched.read_only
    assert space.needed_bytes == HUGE
    assert 0 < space.free_bytes < free_bytes(tmp_path) + MIB


def test_it_comes_back_only_above_the_higher_mark(tmp_path: Path) -> None:
    watched = guard(tmp_path, below=0, writable=HUGE)
    seen: list[bool] = []
    for batch_bytes in (0, HUGE, 0):
        watched.measure(batch_bytes)
        seen.append(watched.read_only)
    assert seen == [False, True, True], "there is room for the lower mark at the end, not for the higher"


def test_it_comes_back_by_itself(tmp_path: Path) -> None:
    watched = guard(tmp_path)
    watched.read_only = True
    assert watched.measure().enough
    assert not watched.read_only


def test_a_batch_needs_its_own_room(tmp_path: Path) -> None:
    assert guard(tmp_path, below=5).measure(batch_bytes=7).needed_bytes == 12


def test_the_reserve_is_really_allocated_and_given_up(tmp_path: Path) -> None:
    watched = guard(tmp_path)
    assert watched.make_reserve()
    status = (tmp_path / "reserve").stat()
    assert status.st_size == MIB
    assert status.st_blocks * 512 >= MIB
    assert stat.S_IMODE(status.st_mode) == 0o600
    watched.give_up_reserve()
    assert (tmp_path / "reserve").stat().st_blocks == 0
    assert watched.make_reserve()
    assert (tmp_path / "reserve").stat().st_size == MIB


def test_there_may_be_no_reserve_to_give_up(tmp_path: Path) -> None:
    guard(tmp_path).give_up_reserve()
    assert not (tmp_path / "reserve").exists()


def test_a_reserve_that_does_not_fit_is_not_made(tmp_path: Path) -> None:
    watched = guard(tmp_path, reserve=HUGE)
    assert not watched.make_reserve()
    assert not (tmp_path / "reserve").exists()


def test_a_reserve_that_was_given_up_does_not_count_as_free(tmp_path: Path) -> None:
    """A reserve larger than the disk is never there, so nothing is free beyond it."""
    space = guard(tmp_path, reserve=HUGE).measure()
    assert isinstance(space, Space)
    assert space.free_bytes < 0
    assert not space.enough

"""Free space: the thresholds, their distance, and the reserve. The file system is the real one."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from journal.errors import CannotCreate
from journal.space import MARGIN_BYTES, MIB, Space, SpaceGuard, free_bytes, make_way, require_room

HUGE = 1 << 62


def guard(tmp_path: Path, *, below: int = 0, writable: int = 0, reserve: int = MIB) -> SpaceGuard:
    return SpaceGuard(
        tmp_path,
        tmp_path / "reserve",
        read_only_below=below,
        writable_from=writable,
        reserve_bytes=reserve,
    )


def measured(watched: SpaceGuard) -> bool:
    watched.measure()
    return watched.read_only


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
    watched = guard(tmp_path, below=HUGE, writable=HUGE)
    seen = [measured(watched)]
    watched._read_only_below = 0
    seen.append(measured(watched))
    watched._writable_from = 0
    seen.append(measured(watched))
    assert seen == [True, True, False], "in between there is room for the lower mark, not for the higher"


def test_watching_brings_the_reserve_back(tmp_path: Path) -> None:
    watched = guard(tmp_path)
    assert watched.watch().enough
    assert (tmp_path / "reserve").stat().st_size == MIB


def test_a_batch_needs_its_own_room_and_a_margin(tmp_path: Path) -> None:
    watched = guard(tmp_path)
    assert watched.room_for(7).needed_bytes == 7 + MARGIN_BYTES
    assert watched.room_for(7).enough
    assert not watched.room_for(HUGE).enough
    assert not watched.read_only, "one batch that is too large leaves the store as it is"


def test_the_reserve_goes_when_a_permitted_write_needs_it_only(tmp_path: Path) -> None:
    watched = guard(tmp_path)
    watched.make_reserve()
    assert watched.make_room(7).enough
    assert (tmp_path / "reserve").stat().st_size == MIB
    assert not watched.make_room(HUGE).enough
    assert (tmp_path / "reserve").stat().st_size == 0


def test_an_opening_keeps_the_reserve_while_there_is_room(tmp_path: Path) -> None:
    guard(tmp_path).make_reserve()
    make_way(tmp_path, tmp_path / "reserve")
    assert (tmp_path / "reserve").stat().st_size == MIB
    make_way(tmp_path, tmp_path / "reserve", HUGE)
    assert (tmp_path / "reserve").stat().st_size == 0


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


def test_whether_it_is_read_only_is_told_while_the_reserve_is_under_way(tmp_path: Path) -> None:
    """Whoever asks is answered on the loop; making the reserve takes as long as the disk wants."""
    watched = guard(tmp_path)

    def ask() -> None:
        watched.set_thresholds(1)
        assert not watched.read_only

    asked = threading.Thread(target=ask, daemon=True)
    with watched._lock:
        asked.start()
        asked.join(10)
        assert not asked.is_alive()


def test_new_thresholds_count_from_the_next_measuring_on(tmp_path: Path) -> None:
    watched = guard(tmp_path)
    watched.set_thresholds(HUGE)
    seen = [watched.read_only]
    needed = [watched.measure().needed_bytes]
    seen.append(watched.read_only)
    watched.set_thresholds(1)
    needed.append(watched.measure().needed_bytes)
    seen.append(watched.read_only)
    assert seen == [False, True, False]
    assert needed == [HUGE, 2], "it comes back from twice the lower mark"
    assert watched.read_only_below == 1


@pytest.mark.parametrize("place", ["/proc/noctuary", "/proc/a/b"])
def test_where_no_file_can_lie_no_store_can_be_made(place: str) -> None:
    with pytest.raises(CannotCreate) as caught:
        require_room(Path(place))
    assert caught.value.exit_code == 73

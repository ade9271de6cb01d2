"""What is kept in memory only stays within its bound, and keeps what is newest."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from projections.livesessions import LEASE_MS, MAX_ASIDE, LiveSessions, candidates
from projections.recent import Recent

KEY = (1, 1000, "agent")


@given(st.integers(2, 20), st.lists(st.integers(0, 30), max_size=200))
def test_the_newest_half_is_there_and_never_more_than_the_limit(limit: int, keys: list[int]) -> None:
    recent: Recent[int, int] = Recent(limit)
    for place, key in enumerate(keys):
        recent[key] = place
        assert len(recent) <= limit
    newest: dict[int, int] = {}
    for place in reversed(range(len(keys))):
        newest.setdefault(keys[place], place)
        if len(newest) > limit // 2:
            break
    for key in list(newest)[: limit // 2]:
        assert recent.get(key) == newest[key]


def test_stale_sessions_are_passed_over_once_and_come_back_with_the_clock() -> None:
    live = LiveSessions()
    for number in range(5):
        live.add(KEY, number)
    assert list(candidates([live], KEY, 0)) == [4, 3, 2, 1, 0]
    live.set_aside(KEY, 3, last_at=1000)
    live.close(KEY, 2)
    assert list(candidates([live], KEY, 1000 + LEASE_MS)) == [4, 1, 0]
    assert list(candidates([live], KEY, 999 + LEASE_MS)) == [3, 4, 1, 0]
    live.close(KEY, 3)
    assert list(candidates([live], KEY, 0)) == [4, 1, 0]


def test_a_newer_level_hides_what_it_ended_below() -> None:
    base, pending = LiveSessions(), LiveSessions()
    base.add(KEY, 1)
    base.add(KEY, 2)
    pending.close(KEY, 2)
    pending.add(KEY, 3)
    assert list(candidates([pending, base], KEY, 0)) == [3, 1]
    base.absorb(pending)
    base.settle()
    assert list(candidates([base], KEY, 0)) == [3, 1] and base.gone == {}


def test_sessions_set_aside_are_bounded() -> None:
    live = LiveSessions()
    for number in range(5 * MAX_ASIDE):
        live.set_aside(KEY, number, number)
        assert len(live.aside[KEY]) <= 2 * MAX_ASIDE
    assert 5 * MAX_ASIDE - 1 in live.aside[KEY]

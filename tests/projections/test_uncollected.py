"""No collection while many records are worked through; as it was before, whatever happened."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from projections.uncollected import uncollected


@pytest.fixture(autouse=True)
def collecting() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def test_nothing_is_collected_meanwhile() -> None:
    with uncollected():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_failure_leaves_the_collector_on() -> None:
    with pytest.raises(LookupError), uncollected():
        raise LookupError
    assert gc.isenabled()


def test_one_that_was_off_stays_off() -> None:
    gc.disable()
    with uncollected():
        assert not gc.isenabled()
    assert not gc.isenabled()


def test_the_inner_of_two_does_not_end_the_outer() -> None:
    with uncollected():
        with uncollected():
            pass
        assert not gc.isenabled()

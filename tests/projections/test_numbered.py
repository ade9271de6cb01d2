"""Names are forgotten by their numbers, at the cost of those that go, not of all there are."""

from __future__ import annotations

from collections.abc import Iterator

from projections.numbered import Numbered
from projections.workingset import Gone, WorkingSet


class Unwalked(Numbered[tuple[int, bytes]]):
    """Names that nobody is to walk through."""

    def items(self) -> Iterator[tuple[tuple[int, bytes], int]]:  # type: ignore[override]
        raise AssertionError("all names were walked through")


def test_a_name_is_found_until_its_number_is_dropped() -> None:
    names: Numbered[str] = Numbered()
    names["a"] = 1
    names.update({"b": 2, "c": 3})
    names.drop([1, 3, 9])
    assert names == {"b": 2}
    names.drop([1, 2])
    assert names == {}


def test_a_name_that_has_another_number_by_now_stays() -> None:
    names: Numbered[str] = Numbered()
    names["a"] = 1
    names["a"] = 2
    names.drop([1])
    assert names == {"a": 2}
    names.drop([2])
    assert names == {}


def test_a_purge_walks_through_no_names_but_its_own() -> None:
    known = WorkingSet()
    known.entities = entities = Unwalked()
    for number in range(1, 10):
        entities[1, bytes((number,))] = number
        known.sessions[1, "agent", bytes((number,))] = number
    pending = WorkingSet()
    pending.gone = Gone(sessions=frozenset((2, 3)), entities=frozenset((4,)))
    known.take_over(pending)
    assert sorted(known.sessions.values()) == [1, 4, 5, 6, 7, 8, 9]
    assert sorted(entities.values()) == [1, 2, 3, 5, 6, 7, 8, 9]

"""How a dry run of a cohort is told."""

from __future__ import annotations

import pytest

from daemon.cli.render_cohorts import cohort


@pytest.mark.parametrize(
    ("count", "line"), [(0, "no memory is meant"), (1, "1 memory is meant"), (2, "2 memories are meant")]
)
def test_how_many_are_meant_is_said_in_a_sentence(count: int, line: str) -> None:
    ids = [f"note:000000000000{number}" for number in range(count)]
    assert cohort({"count": count, "ids": ids})[0] == line

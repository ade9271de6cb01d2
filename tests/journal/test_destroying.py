"""Which memory of a PURGE took a part along: each part has one, however the counts fall."""

from __future__ import annotations

import pytest

from journal.destroying import listed_by
from journal.events import PurgeTarget, SealedPart

PARTS = [SealedPart(seq, 1, seq, 1, b"") for seq in range(1, 7)]


@pytest.mark.parametrize(
    ("counts", "listed"),
    [
        ([1, 0, 5], [[1], [], [2, 3, 4, 5, 6]]),
        ([2, 1, 1], [[1, 2, 5, 6], [3], [4]]),  # applied again: what is behind them went with the first
        ([4, 4], [[1, 2, 3, 4], [5, 6]]),  # a record that goes on with it is not here
        ([], []),
    ],
)
def test_each_part_went_with_one_memory(counts: list[int], listed: list[list[int]]) -> None:
    targets = [PurgeTarget(2, number, keys_shredded=count) for number, count in enumerate(counts, 1)]
    found = listed_by(targets, PARTS)
    assert [[part.owner_seq for part in found[target.id]] for target in targets] == listed
    assert sum(len(parts) for parts in found.values()) == (len(PARTS) if targets else 0)

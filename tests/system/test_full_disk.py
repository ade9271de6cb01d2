"""A disk that really fills: no lost ack, no unplanned end, forgetting goes on, and it comes back by itself."""

from __future__ import annotations

import pytest

from ops.drills import full_disk

FORGETS = 1000


@pytest.mark.parametrize("text_bytes", [20, 2_500, 30_000, 450_000])
def test_a_disk_that_fills_costs_nothing_that_was_acked(text_bytes: int) -> None:
    """Texts of that many characters, of two bytes each."""
    try:
        row = full_disk.drill(size_mb=120, text_bytes=text_bytes, forgets=FORGETS)
    except full_disk.CannotMount as refusal:
        pytest.skip(f"no small file system can be mounted here: {refusal}")
    assert (row.lost, row.exits, row.findings) == (0, 0, 0)
    assert row.refused > 0
    assert row.closed == 1
    assert row.forgets == min(row.acked, FORGETS + FORGETS // 10 + 1)
    assert row.back == 1

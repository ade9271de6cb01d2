"""The purges file."""

from __future__ import annotations

from pathlib import Path

from journal.events import Purged, PurgeTarget, SealedPart
from journal.purges import append_purges, directive, read_purges


def test_lines_are_added_and_one_cut_short_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "purges"
    assert read_purges(path).directives == ()
    event = Purged(targets=(PurgeTarget(0, 5),), parts=(SealedPart(1, 1, 9, 3, bytes(16)),))
    first, second = (directive(bytes(16), 1, seq, bytes(32), event) for seq in (2, 3))
    append_purges(path, [first])
    with path.open("ab") as file:
        file.write(b"0000")
    append_purges(path, [second])
    found = read_purges(path)
    assert found.directives == (first, second)
    assert found.damaged_lines == (2,)
    assert path.stat().st_mode & 0o777 == 0o600

"""The purges file: which of its lines count, and which that do not are told from what a crash leaves."""

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


def test_a_line_that_was_complete_is_lost_when_it_rots_also_the_last(tmp_path: Path) -> None:
    path = tmp_path / "purges"
    event = Purged(targets=(PurgeTarget(0, 5),), parts=(SealedPart(1, 1, 9, 3, bytes(16)),))
    append_purges(path, [directive(bytes(16), 1, seq, bytes(32), event) for seq in (2, 3)])
    whole = path.read_bytes()
    last = whole.index(b"\n") + 1
    for at in range(last, len(whole)):
        for bit in (1, 0x20):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])
            found = read_purges(path)
            assert 2 in found.lost_lines, (at, bit)
    for length in range(last + 1, len(whole) - 1):
        path.write_bytes(whole[:length])
        found = read_purges(path)
        assert (found.damaged_lines, found.lost_lines) == ((2,), ()), length
    path.write_bytes(whole[:-1])  # all but its end
    assert read_purges(path).damaged_lines == ()

"""The purges file: which of its lines count, and which that do not are told from what a crash leaves."""

from __future__ import annotations

from pathlib import Path

from journal.events import Purged, PurgeTarget, SealedPart
from journal.purges import Directive, append_purges, directive, read_purges
from journal.record import Actor, Cause, Record


def line_of(seq: int) -> Directive:
    event = Purged(
        targets=(PurgeTarget(0, 5),), parts=(SealedPart(1, 1, 9, 3, bytes(16)),), reason=1, cascade=2, tenant_name="t",
        fingerprint_key=bytes(32), fingerprints=(bytes(44),),
    )  # fmt: skip
    return directive(bytes(16), 1, Record(seq, 77, 1, Actor(5, 1, 0), Cause(2, "purge"), event), bytes(32))


def test_a_line_is_the_whole_story_of_a_purge() -> None:
    line = line_of(3)
    assert (line.first, line.tenant, line.reason, line.cascade, line.at, line.actor) == (2, "t", 1, 2, 77, (5, 1, 0))
    assert (line.memories, line.parts[0].slot, line.again) == (((0, 5),), 9, None)
    assert (line.fingerprint_key, line.fingerprints) == (bytes(32).hex(), (bytes(44).hex(),))


def test_a_line_of_what_was_done_again_says_when_it_was_done_first() -> None:
    event = Purged((), (), directive=(bytes(16), 1, 9), first_at=5, first_actor=(1, 2, 0))
    line = directive(bytes(16), 2, Record(30, 77, 1, Actor(0, 1, 0), Cause(30, "restore"), event), bytes(32))
    assert (line.at, line.actor, line.again) == (5, (1, 2, 0), (bytes(16).hex(), 1, 9))


def test_lines_are_added_and_one_cut_short_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "purges"
    assert read_purges(path).directives == ()
    first, second = (line_of(seq) for seq in (2, 3))
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
    append_purges(path, [line_of(seq) for seq in (2, 3)])
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

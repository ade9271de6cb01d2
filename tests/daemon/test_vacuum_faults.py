"""What ends a vacuum loses nothing; whoever reads or writes meanwhile isn't misled."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from daemon import vacuum, vacuum_swap
from daemon.asking import Asking
from daemon.call import Call
from daemon.commands.table import PreparedWrite
from daemon.commands.vacuuming import AGAIN
from daemon.refusal import Reason, Refused
from daemon.vacuum_looking import Destroying, Looking
from daemon.wire.verbs import VERBS
from journal import events
from journal.tsid import parse_memory_ref
from projections import tables
from projections.state import KEY32_32, KEY64
from tests.daemon.vacuumed import Filled
from tests.model.opened import OPERATOR


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Filled]:
    opened = Filled(tmp_path / "state")
    yield opened
    opened.close(True)


def thinned(filled: Filled, count: int = 3600) -> tuple[list[str], list[str]]:
    """`(living notes, forgotten ones)`: every fourth is dead."""
    notes = filled.notes(count)
    dead = notes[1::4]
    calls = [
        Call("forget", msgspec.convert({"id": ref}, VERBS["forget"].params), OPERATOR, lambda outcome: None)
        for ref in dead
    ]
    for call in calls:
        filled.service.submit(call)
    for _ in calls:
        _, outcome = filled._answers.get(timeout=60)
        assert not isinstance(outcome, Refused)
    return [ref for at, ref in enumerate(notes) if at % 4 != 1], dead


def listed(filled: Filled, status: str = "active") -> list[str]:
    """All of them, page by page."""
    found: list[str] = []
    asked: dict[str, Any] = {"sel": {"status": [status], "kinds": ["note"]}, "limit": 1000}
    while True:
        page = filled.read("list", asked)
        found += [memory["id"] for memory in page["memories"]]
        if page["next_cursor"] is None:
            return found
        asked = {**asked, "cursor": page["next_cursor"]}


def vacuum_with(filled: Filled, asking: Asking, **params: Any) -> None:
    """Raises Refused when it is ended."""
    typed = msgspec.convert(params, VERBS["vacuum"].params)
    filled.service.submit(Call("vacuum", typed, OPERATOR, lambda outcome: None, asking=asking))
    filled._answers.get(timeout=60)


class EndsAfter(Asking):
    """Cancels itself before the slice behind the first `slices`."""

    def __init__(self, slices: int) -> None:
        super().__init__()
        self._left = slices + 2  # a step for the partition, a look before each slice

    def check(self) -> None:
        self._left -= 1
        if self._left <= 0:
            self.cancel()
        super().check()


def flip(filled: Filled, database: str, key: bytes, at: int = 20) -> None:
    with filled.projections.env.write() as txn:
        handle = filled.projections.env.db(database)
        value = bytearray(txn.get(key, db=handle) or b"")
        value[at] ^= 1
        txn.put(key, bytes(value), db=handle)


@pytest.mark.parametrize("what", ["page", "memory"])
@pytest.mark.parametrize("named", [True, False])
def test_a_row_that_can_not_be_read_stops_the_partition_and_loses_nothing(
    filled: Filled, what: str, named: bool
) -> None:
    alive, dead = thinned(filled)
    if what == "page":
        flip(filled, tables.ROWS, KEY32_32.pack(1, 30))
    else:
        flip(filled, tables.MEMORIES, KEY64.pack(parse_memory_ref(alive[2000])[1]))
    if named:
        with pytest.raises(Refused) as refused:
            filled.vacuum(partition="semantic")
        assert refused.value.reason in (Reason.DAMAGED, Reason.UNAVAILABLE)
    else:
        other = filled.turns(4)
        filled.forget(*other[:2])
        results = filled.vacuum(force=True)
        assert results["semantic"]["compacted"] is False and results["semantic"]["tombstones_removed"] > 0
        assert results["semantic"]["reason"] == "damaged"
        assert results["2026-09-21"]["compacted"] is True, "the others are compacted"
    assert filled.projections.damaged
    filled.read("rebuild", {"what": "all"})
    assert 3600 - 900 < filled.listed()["semantic"]["rows"] < 3600, "it got as far as that"
    assert listed(filled) == alive and listed(filled, "forgotten") == dead
    filled.check_rows()
    result = filled.vacuum()["semantic"]
    assert result["compacted"] is True and result["after_count"] == len(alive)
    filled.check_rows()
    assert listed(filled) == alive and listed(filled, "forgotten") == dead
    assert filled.rebuilt_alike()


@pytest.mark.parametrize("slices", [1, 2, 3])
@pytest.mark.parametrize("clean", [True, False])
def test_one_that_was_ended_between_two_slices_goes_on_later(filled: Filled, slices: int, clean: bool) -> None:
    alive, dead = thinned(filled)
    with pytest.raises(Refused):
        vacuum_with(filled, EndsAfter(slices))
    assert len(filled.written(events.Vacuumed)) == slices
    filled.reopen(clean)
    assert listed(filled) == alive and listed(filled, "forgotten") == dead
    filled.check_rows()
    assert filled.rebuilt_alike()
    assert [each["text"] for each in filled.read("get", {"ids": alive[-20:]})["memories"]]
    filled.write("recover", {"id": dead[0]})
    filled.write("recover", {"id": dead[-1]})
    filled.forget(alive[0], alive[-1])
    more = filled.notes(3)
    filled.check_rows()
    result = filled.vacuum()["semantic"]
    assert result["compacted"] is True, "it goes on whatever the ratio is by now"
    filled.check_rows()
    assert sorted(listed(filled)) == sorted([*alive[1:-1], dead[0], dead[-1], *more])
    assert filled.rebuilt_alike()


def test_readers_and_writers_at_work_meanwhile_get_right_answers(filled: Filled) -> None:
    alive, _ = thinned(filled)
    stop = threading.Event()
    wrong: list[object] = []
    count = [0]

    def reads() -> None:
        while not stop.is_set():
            found = listed(filled)
            if found[: len(alive)] != alive:
                wrong.append(found)
            told = filled.read("get", {"ids": alive[:: len(alive) // 15]})
            if [memory["id"] for memory in told["memories"]] != alive[:: len(alive) // 15]:
                wrong.append(told)
            count[0] += 1

    readers = [threading.Thread(target=reads) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        result = filled.vacuum()["semantic"]
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    assert result["compacted"] is True and wrong == [] and count[0] > 0
    filled.check_rows()


def test_memories_that_are_written_meanwhile_are_kept(filled: Filled) -> None:
    """Writes get their turn between two slices."""
    alive, _ = thinned(filled)
    written: list[str] = []

    class Writes(Asking):
        """Between two slices a note is written and an old one dies."""

        def check(self) -> None:
            typed = msgspec.convert(
                {"kind": "note", "origin": "seeded", "text": f"meanwhile {len(written)}"}, VERBS["remember"].params
            )
            filled.service.submit(Call("remember", typed, OPERATOR, lambda outcome: None))
            _, outcome = filled._answers.get(timeout=30)
            written.append(outcome.id)  # type: ignore[union-attr]
            filled.forget(alive.pop(0), alive.pop())

    vacuum_with(filled, Writes())
    assert len(written) >= 3
    assert listed(filled) == [*alive, *written]
    filled.check_rows()
    assert filled.listed()["semantic"]["rows"] == len(alive) + len(written) + filled.listed()["semantic"]["dead"]
    assert filled.rebuilt_alike()


def test_a_memory_purged_between_the_look_and_the_slice_is_looked_at_again(filled: Filled) -> None:
    """Its ciphertexts leave with its row, not never."""
    notes = filled.notes(20)
    filled.forget(*notes[:5])
    stale = Looking(filled.store, filled.projections, 1, Destroying(filled.store)).slice(True)
    filled.purge(notes[0])
    write = PreparedWrite("vacuum", "default", msgspec.convert({}, VERBS["vacuum"].params), vacuum=stale)
    assert filled.service._await(write, 0) == AGAIN
    result = filled.vacuum(force=True)["semantic"]
    assert result["tombstones_removed"] == 5 and result["ciphertexts_removed"] == 1


def test_a_memory_purged_between_the_look_for_late_ones_and_their_record_is_not_lost(filled: Filled) -> None:
    """It is collected by the next, since the record names whose ciphertexts it took."""
    notes = filled.notes(20)
    filled.forget(*notes[:5])
    filled.vacuum(force=True)
    filled.purge(notes[0])
    stale = Looking(filled.store, filled.projections, 1, Destroying(filled.store)).late(True)
    filled.purge(notes[1])
    assert filled.partition(1).late == 2
    write = PreparedWrite("vacuum", "default", msgspec.convert({}, VERBS["vacuum"].params), vacuum=stale)
    assert filled.service._await(write, 0)["ciphertexts"] == 1
    assert filled.partition(1).late == 1
    filled.check_rows()
    assert filled.vacuum(tier="semantic", force=True)["semantic"]["ciphertexts_removed"] == 1
    assert filled.partition(1).late == 0
    assert filled.rebuilt_alike()


def test_a_partition_that_is_being_opened_just_now_is_not_looked_at(filled: Filled) -> None:
    """Names know it before the projections do."""
    filled.forget(*filled.notes(10)[:5])
    names = filled.service.names
    names.partitions[1] = (*names.partitions[1], 99)
    try:
        assert list(filled.vacuum(force=True)) == ["semantic"]
    finally:
        names.partitions[1] = names.partitions[1][:-1]


def test_one_that_changes_too_fast_is_told_as_such_also_where_something_else_is_damaged(
    filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not taken for damage; the others are compacted all the same."""
    filled.forget(*filled.notes(10)[:5])
    turns = filled.turns(10)
    filled.forget(*turns[:5])
    monkeypatch.setattr(vacuum, "TRIES", 0)
    filled.projections.damaged.add(tables.USAGE)
    results = filled.vacuum(force=True)
    assert {name: (row["compacted"], row["reason"]) for name, row in results.items()} == {
        "semantic": (False, "restless"), "2026-09-21": (False, "restless"),
    }  # fmt: skip
    with pytest.raises(Refused) as refused:
        filled.vacuum(force=True, partition="semantic")
    assert refused.value.reason is Reason.UNAVAILABLE


def test_only_one_at_a_time(filled: Filled) -> None:
    filled.forget(*filled.notes(10)[:5])
    with filled.service.long_work(), pytest.raises(Refused) as refused:
        filled.vacuum()
    assert refused.value.reason is Reason.CONFLICT
    assert filled.vacuum(dry_run=True)["semantic"]["compacted"] is False


def test_the_projections_file_is_swapped_when_much_of_it_is_free(
    filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers go on in the old one; answers are what they were, and nothing is left beside it."""
    monkeypatch.setattr(vacuum_swap, "SWAP_BYTES", 1)
    monkeypatch.setattr(vacuum_swap, "SWAP_SHARE", 0.0)
    alive, dead = thinned(filled, 1200)
    old = filled.projections.env
    before = (filled.root / "projections" / "data.mdb").stat().st_size
    with filled.projections.snapshot() as snapshot:
        key = KEY64.pack(parse_memory_ref(alive[0])[1])
        row = snapshot.get(tables.MEMORIES, key)
        result = filled.vacuum()["semantic"]
        assert snapshot.get(tables.MEMORIES, key) == row
    after = (filled.root / "projections" / "data.mdb").stat().st_size
    assert filled.projections.env is not old
    assert result["file_bytes_reclaimed"] > 0 and before > after
    assert [path.name for path in filled.root.glob("*.new")] == []
    assert listed(filled) == alive and listed(filled, "forgotten") == dead
    filled.notes(1)
    filled.reopen(False)
    filled.check_rows()
    assert filled.rebuilt_alike()


def test_without_room_nothing_is_swapped(filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vacuum_swap, "SWAP_BYTES", 1)
    monkeypatch.setattr(vacuum_swap, "SWAP_SHARE", 0.0)
    filled.forget(*filled.notes(50)[:25])
    filled.service.space.set_thresholds(1 << 60)
    old = filled.projections.env
    try:
        assert vacuum_swap.swap_if_worthwhile(filled.service, Asking()) == 0
    finally:
        filled.service.space.set_thresholds(1 << 20)
    assert filled.projections.env is old

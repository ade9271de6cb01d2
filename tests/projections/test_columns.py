"""The working set's columns: at every record they are what the snapshot of that record says, whoever looks when."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from journal import events
from journal.codes import Kind, Mark, Origin, Status, Tier
from journal.record import Actor, Cause, Head, Record
from projections import header_columns, tables
from projections.columns import codes_table, statuses
from projections.fold import apply
from projections.header_columns import (
    EVICTIONS,
    MERGE_BATCHES,
    MERGE_PAGES,
    SEGMENT_ROWS,
    HeaderColumns,
    Segment,
    View,
    read_segments,
)
from projections.rows import FLAG_PURGED
from projections.state import KEY32, KEY32_32, Counters, State
from projections.store import ProjectionStore
from projections.tag_blooms import ANY, NONE, bloom_of

ACTOR = Actor(1000, 0, 0)
PARTITIONS = (1, 2)


class Told:
    """Projections and columns that follow one batch after another."""

    def __init__(self, directory: Path) -> None:
        self.projections = ProjectionStore.open(directory, b"b" * 16)
        self.columns = HeaderColumns()
        self.seq = 0
        self.made: list[int] = []
        opened: list[events.AnyEvent] = [
            events.PartitionOpened(number=number, tier=int(Tier.SEMANTIC)) for number in PARTITIONS
        ]
        self.commit(opened, publish=False)
        self.columns.begin()
        self.load()

    def load(self) -> None:
        with self.projections.snapshot() as snapshot:
            state = State(snapshot, self.projections.counters, self.projections.head)
            read = {number: read_segments(state, number) for number in PARTITIONS}
            self.columns.load(snapshot.watermark_seq(), {number: found for number, found in read.items() if found})

    def commit(self, told: list[events.AnyEvent], blooms: dict[int, int] | None = None, publish: bool = True) -> None:
        with self.projections.snapshot() as snapshot:
            state = State(snapshot, self.projections.counters.copy(), self.projections.head)
            for event in told:
                self.seq += 1
                apply(state, Record(self.seq, 1000 + self.seq, 1, ACTOR, Cause(self.seq, "test"), event))
            changes = state.finish()
        self.projections.commit(changes, state.counters, Head(1, self.seq, bytes(32)))
        if publish:
            self.columns.publish(self.seq, changes[tables.ROWS], blooms or {})

    def create(self, count: int, partition: int = 1, tags: tuple[str, ...] = ()) -> list[int]:
        made = list(range(len(self.made) + 1, len(self.made) + 1 + count))
        self.made += made
        told: list[events.AnyEvent] = [
            events.MemoryCreated(
                id=tsid, slot=tsid, kind=int(Kind.NOTE), subtype=1, origin=int(Origin.TOLD), partition=partition
            )
            for tsid in made
        ]
        self.commit(told, {tsid: bloom_of(tags) for tsid in made})
        return made

    def forget(self, tsid: int) -> None:
        self.commit([events.Forgotten(memory=(2, tsid), strength=0.0)])

    def recover(self, tsid: int) -> None:
        mark = int(Mark.FORGOTTEN)
        self.commit([events.Recovered(memory=(2, tsid), mark=mark, old_strength=0.0, new_strength=0.2)])

    def purge(self, tsid: int) -> None:
        self.commit([events.Purged(targets=(events.PurgeTarget(2, tsid),), parts=())])

    def at_rest(self) -> dict[int, bytes]:
        with self.projections.snapshot() as snapshot:
            state = State(snapshot, self.projections.counters, self.projections.head)
            return {number: _bytes(read_segments(state, number)) for number in PARTITIONS}

    def newest(self) -> View:
        view = self.columns.at(self.seq)
        assert view is not None
        return view


def _bytes(segments: tuple[Segment, ...]) -> bytes:
    return b"".join(segment.rows.tobytes() for segment in segments)


def in_memory(view: View) -> dict[int, bytes]:
    return {number: _bytes(view.segments(number)) for number in PARTITIONS}


def row_of(view: View, tsid: int) -> tuple[Segment, int]:
    for number in PARTITIONS:
        for segment in view.segments(number):
            found = np.flatnonzero(segment.rows["tsid"] == tsid)
            if len(found):
                return segment, int(found[0])
    raise AssertionError(f"no row of memory {tsid}")


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Told]:
    found = Told(tmp_path / "projections")
    yield found
    found.projections.close(False)


STEPS = st.lists(
    st.tuples(st.sampled_from(["create", "forget", "recover", "purge", "load"]), st.integers(0, 5000)), max_size=25
)


@settings(max_examples=40, deadline=None)
@given(steps=STEPS)
def test_whatever_is_written_the_columns_are_what_is_at_rest(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    told = Told(tmp_path_factory.mktemp("columns") / "projections")
    try:
        for step, number in steps:
            if step == "create":
                told.create(1 + number % 700, PARTITIONS[number % 2], ("a",))
            elif step == "load":
                told.columns.begin()
                told.load()
            elif told.made:
                getattr(told, step)(told.made[number % len(told.made)])
            view = told.newest()
            assert view.seq == told.seq and in_memory(view) == told.at_rest()
            segments = [segment for partition in PARTITIONS for segment in view.segments(partition)]
            assert view.total == sum(len(segment.rows) for segment in segments) == len(told.made)
            assert view.unknown == sum(int((~segment.known).sum()) for segment in segments)
            assert all(len(segment.rows) <= SEGMENT_ROWS for segment in segments)
    finally:
        told.projections.close(False)


def test_a_view_that_was_taken_never_changes(told: Told) -> None:
    made = told.create(SEGMENT_ROWS + 10, tags=("a",))
    before = told.newest()
    kept = in_memory(before)
    told.purge(made[0])
    told.forget(made[-1])
    told.create(5)
    assert in_memory(before) == kept and int(row_of(before, made[0])[0].blooms[0]) == bloom_of(("a",))
    assert in_memory(told.newest()) == told.at_rest() != kept


def test_only_what_a_batch_changed_is_made_anew(told: Told) -> None:
    told.create(3 * SEGMENT_ROWS)
    told.create(10, partition=2)
    before = told.newest()
    told.forget(SEGMENT_ROWS + 1)
    shared = [old is new for old, new in zip(before.segments(1), told.newest().segments(1), strict=True)]
    assert shared == [True, False, True]
    assert told.newest().segments(2) is before.segments(2)


def test_a_question_gets_the_view_of_its_snapshot_or_none(told: Told) -> None:
    first = told.create(10)
    at_first = told.seq
    told.forget(first[0])
    at_second = told.seq  # both wait to be made into views: whoever asks gets what stands at its own record
    view = told.columns.at(at_first)
    assert view is not None and view.seq == at_first and not row_of(view, first[0])[0].rows["flags"][0]
    newer = told.columns.at(at_second)
    assert newer is not None and newer.seq == at_second and row_of(newer, first[0])[0].rows["flags"][0]
    assert told.columns.at(at_first) is view and told.columns.at(at_second) is newer
    told.forget(first[1])
    told.newest()
    assert told.columns.at(at_first) is None
    assert told.columns.at(told.seq + 1) is None  # not published within the time that is waited for it


def test_what_nobody_asks_for_does_not_pile_up(told: Told) -> None:
    made = told.create(10)
    for number in range(5 * MERGE_BATCHES):
        (told.forget if number % 2 == 0 else told.recover)(made[0])
        assert len(told.columns._waiting) < MERGE_BATCHES
    newest = told.columns.newest
    assert newest is not None and newest.seq > told.seq - MERGE_BATCHES
    told.create(63 * MERGE_PAGES)
    assert told.columns._waiting == [] and told.columns.newest is told.newest()
    assert in_memory(told.newest()) == told.at_rest()


def test_settled_columns_hold_nothing_of_what_was_purged(told: Told) -> None:
    made = told.create(3, tags=("secret",))
    told.purge(made[1])
    told.columns.settle()
    view = told.columns.newest
    assert view is not None and view.seq == told.seq
    segment, at = row_of(view, made[1])
    assert all(holds(segment, at) for _, holds in EVICTIONS.values())


def test_a_commit_that_is_not_published_yet_is_waited_for(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(header_columns, "WAIT_S", 60.0)
    told.create(10)
    next_seq = told.seq + 1
    waiting: list[View | None] = []
    asked = threading.Thread(target=lambda: waiting.append(told.columns.at(next_seq)), daemon=True)
    asked.start()
    told.create(1)
    asked.join(20)
    assert waiting == [told.newest()]


def test_what_is_published_while_they_are_loaded_is_in_them(told: Told) -> None:
    made = told.create(200)
    told.columns.forget()
    assert told.columns.newest is None and told.columns.at(told.seq) is None
    told.columns.begin()
    told.forget(made[0])  # before the snapshot that is loaded
    with told.projections.snapshot() as snapshot:
        state = State(snapshot, told.projections.counters, told.projections.head)
        read = {number: read_segments(state, number) for number in PARTITIONS}
        seq = snapshot.watermark_seq()
    told.forget(made[1])  # behind it
    told.create(100)
    told.columns.load(seq, read)
    assert told.newest().seq == told.seq and in_memory(told.newest()) == told.at_rest()


def test_a_page_published_before_the_loaded_snapshot_does_not_undo_what_came_after(told: Told) -> None:
    made = told.create(10)
    told.columns.forget()
    told.columns.begin()
    told.forget(made[0])
    told.commit([events.Forgotten(memory=(2, made[1]), strength=0.0)], publish=False)  # committed, not yet published
    told.load()
    assert in_memory(told.newest()) == told.at_rest()
    told.create(5, partition=2)
    assert in_memory(told.newest()) == told.at_rest()


def test_readers_see_every_batch_wholly_or_not_at_all(told: Told) -> None:
    """Each batch creates ten memories and forgets the ten before: at every moment exactly ten are active, and the
    columns are byte for byte what the snapshot of the asking holds."""
    active = codes_table((int(Status.ACTIVE),))
    told.create(10)
    ended = threading.Event()
    failures: list[str] = []
    looks = [0, 0]

    def look(place: int) -> None:
        while not ended.is_set():
            with told.projections.snapshot() as snapshot:
                view = told.columns.at(snapshot.watermark_seq())
                if view is None:  # two commits came between: such a question reads its snapshot
                    continue
                looks[place] += 1
                at_rest = read_segments(State(snapshot, Counters(), Head(0, 0, b"")), 1)
            alive = sum(int(active[statuses(segment.rows)].sum()) for segment in view.segments(1))
            if alive != 10 or _bytes(view.segments(1)) != _bytes(at_rest):
                failures.append(f"{alive} at record {view.seq}")
                return

    readers = [threading.Thread(target=look, args=(place,)) for place in range(2)]
    for reader in readers:
        reader.start()
    for _ in range(150):
        before = told.made[-10:]
        made = list(range(len(told.made) + 1, len(told.made) + 11))
        told.made += made
        born: list[events.AnyEvent] = [
            events.MemoryCreated(id=t, slot=t, kind=int(Kind.NOTE), subtype=1, origin=int(Origin.TOLD), partition=1)
            for t in made
        ]
        told.commit([*born, *(events.Forgotten(memory=(2, tsid), strength=0.0) for tsid in before)])
    while min(looks) < 10 and not failures:
        pass
    ended.set()
    for reader in readers:
        reader.join()
    assert failures == []


@pytest.mark.parametrize("column", sorted(EVICTIONS))
def test_what_a_purge_does_to_each_column_is_what_its_table_says(told: Told, column: str) -> None:
    made = told.create(100, tags=("secret", "other"))
    _, holds = EVICTIONS[column]
    segment, at = row_of(told.newest(), made[50])
    purged = column != "known" and holds(segment, at)
    assert not purged, "the check must be able to fail"
    told.purge(made[50])
    segment, at = row_of(told.newest(), made[50])
    assert holds(segment, at)
    assert int(segment.blooms[at]) == NONE and segment.rows["flags"][at] & FLAG_PURGED
    assert int(segment.blooms[at + 1]) == bloom_of(("secret", "other"))


def test_every_column_has_its_row_in_the_table_of_evictions() -> None:
    assert set(EVICTIONS) == set(Segment._fields)


def test_a_bloom_learned_from_before_does_not_come_back_after_a_purge_or_a_new_one(told: Told) -> None:
    made = told.create(4, tags=("a",))
    told.columns.begin()
    told.load()  # nothing is known of the tags now
    assert told.columns.warmed() == 0.5
    segment = told.newest().segments(1)[0]
    assert segment.blooms.tolist() == [ANY] * 4 and not segment.known.any()
    told.purge(made[0])
    told.commit([], {made[1]: bloom_of(("moved",))})  # its tags were written anew, its row stayed
    told.columns.learn(1, 0, segment.rows, np.full(4, bloom_of(("a",)), np.uint64))
    assert told.newest().segments(1)[0].blooms.tolist() == [
        NONE, bloom_of(("moved",)), bloom_of(("a",)), bloom_of(("a",)),
    ]  # fmt: skip
    assert told.columns.warmed() == 1.0


def test_rows_that_moved_to_other_places_keep_what_was_known_of_them(told: Told) -> None:
    told.create(100, tags=("a",))
    with told.projections.snapshot() as snapshot:
        pages = dict(snapshot.prefix(tables.ROWS, b""))
    keys = sorted(pages)
    told.newest()
    told.seq += 1
    told.columns.publish(told.seq, {keys[0]: pages[keys[1]], keys[1]: None}, {})  # the first page's rows have left
    segment = told.newest().segments(1)[0]
    assert segment.rows["tsid"].tolist() == list(range(64, 101))
    assert segment.known.all() and set(segment.blooms.tolist()) == {bloom_of(("a",))}


class Unread:
    """The rows of a segment that nobody is to look at."""

    def __len__(self) -> int:
        return SEGMENT_ROWS

    def __getitem__(self, key: object) -> None:
        raise AssertionError("a segment was read that no page of the batch lies in")


def test_what_moves_is_looked_for_in_changed_segments_only(told: Told) -> None:
    """A slice of a vacuum costs what it moves, not what the partition holds."""
    told.create(2 * SEGMENT_ROWS, tags=("a",))
    known = told.newest().segments(1)
    unread = Segment(Unread(), np.zeros(SEGMENT_ROWS, np.uint64), np.ones(SEGMENT_ROWS, np.bool_))  # type: ignore[arg-type]
    told.columns.begin()
    told.columns.load(told.seq, {1: (known[0], unread, known[1])})
    with told.projections.snapshot() as snapshot:
        pages = [value for _, value in snapshot.prefix(tables.ROWS, KEY32.pack(1))]
    keys = [KEY32_32.pack(1, page) for page in (0, 23)]
    told.seq += 1
    told.columns.publish(told.seq, {keys[0]: pages[15], keys[1]: None}, {})  # rows of the last segment are in the first
    view = told.newest()
    first, last = view.segments(1)[0], view.segments(1)[2]
    assert first.rows["tsid"][:63].tolist() == list(range(2 * SEGMENT_ROWS - 62, 2 * SEGMENT_ROWS + 1))
    assert first.known.all() and set(first.blooms.tolist()) == {bloom_of(("a",))}
    assert len(last.rows) == SEGMENT_ROWS - 63 and view.unknown == 0


def test_a_bloom_learned_from_before_does_not_come_back_once_the_purge_is_in_the_view(told: Told) -> None:
    made = told.create(3, tags=("a",))
    told.columns.begin()
    told.load()
    segment = told.newest().segments(1)[0]
    told.purge(made[0])
    told.commit([], {made[1]: bloom_of(("moved",))})
    assert told.newest().segments(1)[0].known.tolist() == [True, True, False], "nothing waits to be merged"
    told.columns.learn(1, 0, segment.rows, np.full(3, bloom_of(("a",)), np.uint64))
    assert told.newest().segments(1)[0].blooms.tolist() == [NONE, bloom_of(("moved",)), bloom_of(("a",))]

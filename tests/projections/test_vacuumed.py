"""The fold of a vacuum: pure, in row order, and each row and its memory say the same behind every record."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from journal import events
from journal.codes import Kind, Mark, Origin, Tier
from journal.record import Actor, Cause, Head, Record
from projections import partitions, removed
from projections.fold import apply
from projections.rows import NO_ROW, ROWS_PER_PAGE, DamagedRow
from projections.state import Counters, State
from projections.vacuumed import header_rows, leaving

TENANT = 1


class Nothing:
    def get(self, database: str, key: bytes) -> bytes | None:
        return None

    def prefix(self, database: str, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        return iter(())


class Told:
    """A state and what was folded into it."""

    def __init__(self, count: int) -> None:
        self.state = State(Nothing(), Counters(), Head(1, 0, b""))
        self.records: list[Record] = []
        self.tell(events.TenantBegan(number=TENANT, name="t"))
        self.tell(events.PartitionOpened(number=1, tier=int(Tier.SEMANTIC)))
        for tsid in range(1, count + 1):
            self.create(tsid)

    def tell(self, event: events.AnyEvent) -> None:
        seq = len(self.records) + 1
        record = Record(seq, 1000 + seq, TENANT, Actor(0, 0, 0), Cause(seq, "test"), event)
        self.records.append(record)
        apply(self.state, record)

    def create(self, tsid: int) -> None:
        self.tell(events.MemoryCreated(
            id=tsid, slot=tsid, kind=int(Kind.NOTE), subtype=1, origin=int(Origin.SEEDED), partition=1,
        ))  # fmt: skip

    def forget(self, *tsids: int) -> None:
        for tsid in tsids:
            self.tell(events.Forgotten(memory=(int(Kind.NOTE), tsid), strength=0.0))

    def recover(self, tsid: int) -> None:
        self.tell(
            events.Recovered(
                memory=(int(Kind.NOTE), tsid), mark=int(Mark.FORGOTTEN), old_strength=0.0, new_strength=0.2
            )
        )

    def vacuum(self, first: int, until: int) -> None:
        """As the daemon decides it."""
        row = partitions.load(self.state, 1)
        columns = header_rows(self.state, 1, first, until)
        gone = int(leaving(columns).sum())
        self.tell(events.Vacuumed(
            partition=1, before_count=len(columns), after_count=len(columns) - gone, tombstones_removed=gone,
            removed_bytes=0, forced=True, first=first, until=until,
            to=row.packed if row.reached else first, last=until == row.rows,
        ))  # fmt: skip

    def order(self) -> list[int]:
        """The TSIDs in row order, 0 where a row is blank; every row is where its memory says."""
        row = partitions.load(self.state, 1)
        found: list[int] = header_rows(self.state, 1, 0, row.rows)["tsid"].tolist()
        for offset, tsid in enumerate(found):
            memory = self.state.memory(tsid)
            assert not tsid or (memory is not None and memory.offset == offset)
        return found


@pytest.mark.parametrize("count", [1, ROWS_PER_PAGE, ROWS_PER_PAGE + 1, 3 * ROWS_PER_PAGE + 7])
@pytest.mark.parametrize("dead", ["first", "last", "all", "each third", "a page"])
def test_living_rows_lie_densely_in_their_order(count: int, dead: str) -> None:
    told = Told(count)
    every = list(range(1, count + 1))
    gone = {"first": every[:1], "last": every[-1:], "all": every, "each third": every[::3], "a page": every[63:126]}
    told.forget(*gone[dead])
    told.vacuum(0, count)
    living = [tsid for tsid in every if tsid not in gone[dead]]
    assert told.order() == living
    row = partitions.load(told.state, 1)
    assert (row.rows, row.dead, row.packed, row.reached) == (len(living), 0, 0, 0)
    assert [tsid for tsid, _ in removed.of_partition(told.state, 1)] == sorted(gone[dead])
    pages = -(-len(living) // ROWS_PER_PAGE)
    assert [bool(content) for (_, page), content in sorted(told.state.pages.items())] == [
        page < pages for page in range(-(-count // ROWS_PER_PAGE))
    ]
    told.create(1000)
    assert told.order() == [*living, 1000]


def test_between_two_slices_every_row_can_be_read_and_changed() -> None:
    told = Told(300)
    told.forget(*range(1, 301, 4))
    told.vacuum(0, 130)
    living = [tsid for tsid in range(1, 301) if tsid % 4 != 1]
    assert [tsid for tsid in told.order() if tsid] == [t for t in range(1, 131) if t % 4 != 1] + list(range(131, 301))
    row = partitions.load(told.state, 1)
    assert row.count == 300 - 33 and row.dead == 75 - 33 and (row.packed, row.reached) == (97, 130)
    told.create(301)
    told.recover(1)  # its row was taken: it comes anew, at the end
    told.recover(297)  # its row was not
    told.forget(2, 300)
    told.vacuum(130, 260)
    told.vacuum(260, partitions.load(told.state, 1).rows)
    assert told.order() == [2, *(tsid for tsid in living if tsid not in (2, 300) and tsid < 297), 297, 298, 299, 301, 1]
    assert partitions.load(told.state, 1).dead == 1, "what died behind the vacuum is left to the next one"
    told.vacuum(0, partitions.load(told.state, 1).rows)
    assert 2 not in told.order() and partitions.load(told.state, 1).dead == 0


def test_it_folds_alike_again() -> None:
    told = Told(200)
    told.forget(*range(5, 200, 3))
    told.vacuum(0, 100)
    told.recover(5)
    told.vacuum(100, partitions.load(told.state, 1).rows)
    again = State(Nothing(), Counters(), Head(1, 0, b""))
    for record in told.records:
        apply(again, record)
    assert again.finish() == told.state.finish()


def test_a_row_that_names_another_memory_is_damage_and_moves_nothing() -> None:
    told = Told(100)
    told.forget(1)
    page = told.state.row_page(1, 0)
    page[64 * 5 : 64 * 6] = page[64 * 9 : 64 * 10]
    before = bytes(page)
    with pytest.raises(DamagedRow):
        told.vacuum(0, 100)
    assert bytes(told.state.row_page(1, 0)) == before


def test_a_dead_memory_keeps_all_but_its_place() -> None:
    told = Told(10)
    told.forget(3)
    before = told.state.memory(3)
    header = header_rows(told.state, 1, 2, 3).tobytes()
    told.vacuum(0, 10)
    after = told.state.memory(3)
    assert before is not None and after == before._replace(offset=NO_ROW)
    assert removed.header_of(told.state, 3, after) == header
    told.recover(3)
    again = told.state.memory(3)
    assert again is not None and again.offset == 9 and again.strength == 0.2
    assert not list(removed.of_partition(told.state, 1))

"""Rows of the provenance region: byte for byte, in pages, damaged and folded again."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from daemon.refusal import Reason, Refused
from daemon.tending import what_heals
from journal import events
from journal.codes import Kind, Mark, Origin
from journal.record import Actor, Cause, Head, Record
from journal.tsid import parse_memory_ref
from projections import provenance, region, tables
from projections.columns import PROVENANCE
from projections.fold import fold_of
from projections.region import LIVE, PARTIAL, ROW_BYTES, ROWS_PER_PAGE, TOMBSTONE, RegionRow
from projections.rows import DamagedRow, seal_row
from projections.state import Counters, State
from tests.daemon.slept import Slept, fact

FORMATS = Path(__file__).resolve().parents[2] / "ops" / "docs" / "formats.md"
U8, U16, U32, U64 = (st.integers(0, (1 << bits) - 1) for bits in (8, 16, 32, 64))
ROWS = st.builds(
    RegionRow, U8, U8, U8, U8, U16, U16, U64, U64, U64, U32, U32, U32, U32, U32, U8, U8, U16, U64, U32
)  # fmt: skip
EXAMPLE = RegionRow(2, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0, 15, 16)
FOLD = fold_of(["provenance"])


# --- one row -------------------------------------------------------------------------------------


@given(ROWS)
def test_a_row_comes_back_as_it_was(row: RegionRow) -> None:
    """All of it unsigned: a high pass or fact is no negative number."""
    packed = region.pack(row)
    assert len(packed) == ROW_BYTES and region.unpack(packed) == row
    (read,) = np.frombuffer(packed, PROVENANCE)
    assert tuple(int(read[name]) for name in RegionRow._fields) == tuple(row)
    assert int(read["crc32c"]) == crc32c(packed[:68])


def test_a_row_is_byte_for_byte_as_it_is_documented() -> None:
    assert region.pack(EXAMPLE)[:68].hex() == (
        "02010202" "0300" "0400" "0500000000000000" "0600000000000000" "0700000000000000" "08000000" "09000000"
        "0a000000" "0b000000" "0c000000" "0d" "0e" "0000" "0f00000000000000" "10000000"
    )  # fmt: skip
    assert region.pack(EXAMPLE)[68:] == struct.pack("<I", crc32c(region.pack(EXAMPLE)[:68]))


@pytest.mark.parametrize("document", [FORMATS.read_text("utf-8"), region.__doc__ or ""], ids=["formats", "module"])
def test_the_byte_table_is_that_of_the_code(document: str) -> None:
    """A reader in another language is written from it."""
    section = document[document.index("| 0 | u8 | flags") :]
    table = re.findall(r"^\| (\d+) \| u(\d+) \| (\w+)", section, re.MULTILINE)[: len(PROVENANCE.names or ())]
    told = {name: (int(offset), int(bits) // 8) for offset, bits, name in table}
    crc = told.pop("crc32c", None) or told.pop("CRC")
    assert PROVENANCE.fields is not None
    coded = {name: (offset, kind.itemsize) for name, (kind, offset, *_) in PROVENANCE.fields.items()}
    assert crc == coded.pop("crc32c") and told == coded


@pytest.mark.parametrize("at", [0, 4, 33, 67, 68, 71])
def test_a_flipped_bit_is_noticed(at: int) -> None:
    flipped = bytearray(region.pack(EXAMPLE))
    flipped[at] ^= 0x10
    with pytest.raises(DamagedRow):
        region.unpack(bytes(flipped))


@pytest.mark.parametrize("data", [b"", bytes(72), region.pack(EXAMPLE)[:71], region.pack(EXAMPLE) + b"\0"])
def test_what_is_no_row_is_none(data: bytes) -> None:
    """Truncated, zeroed, or longer."""
    with pytest.raises(DamagedRow):
        region.unpack(data)


# --- the fold ------------------------------------------------------------------------------------


class Empty:
    """A snapshot of a store in which nothing was written yet."""

    def get(self, database: str, key: bytes) -> bytes | None:
        return None

    def prefix(self, database: str, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        return iter(())


class Kept:
    """A snapshot of what another state has come to."""

    def __init__(self, of: State) -> None:
        self._rows = {name: {k: v for k, v in found.items() if v is not None} for name, found in of.finish().items()}

    def get(self, database: str, key: bytes) -> bytes | None:
        return self._rows[database].get(key)

    def prefix(self, database: str, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        return iter(sorted(item for item in self._rows[database].items() if item[0].startswith(prefix)))


class Told:
    """Events folded one by one, into a state that is read back from what was written."""

    def __init__(self) -> None:
        self.state = State(Empty(), Counters(), Head(1, 0, b""))
        self._seq = 0

    def tell(self, *told: events.AnyEvent, tenant: int = 1) -> None:
        for event in told:
            self._seq += 1
            FOLD(self.state, Record(self._seq, 1000 + self._seq, tenant, Actor(0, 0, 0), Cause(self._seq, "t"), event))

    def note(self, tsid: int, fact_index: int, last: bool = True, session: int = 7, number: int = 1) -> None:
        self.tell(
            events.MemoryCreated(
                id=tsid, slot=tsid, kind=int(Kind.NOTE), subtype=1, origin=int(Origin.CONSOLIDATED), partition=2,
                session=session, made_by_pass=(number, fact_index, fact_index + 1),
                rows=(events.RegionRow(session=99, turns=2, partition=1, first_turn=3, last_turn=9),),
            ),
            events.PassCommitted(session=session, number=number, promoted=(), noise=(), last=last),
        )  # fmt: skip

    def rows(self, tsid: int) -> list[RegionRow]:
        state = State(Kept(self.state), Counters(), Head(1, 0, b""))  # of this projection alone: no memory is known
        return [provenance.load(state, place) for place in provenance.places_of(state, tsid)]

    def state_of(self, tsid: int) -> int:
        (row,) = self.rows(tsid)
        return row.flags


NOTE = int(Kind.NOTE)


def test_pages_are_filled_one_behind_the_other() -> None:
    told = Told()
    many = 2 * ROWS_PER_PAGE + 5
    for number in range(many):
        told.note(1000 + number, number % 200, number=1 + number // 200)
    state = State(Kept(told.state), Counters(), Head(1, 0, b""))
    pages = list(provenance.all_rows(state, 1))
    assert [len(page) // ROW_BYTES for page in pages] == [ROWS_PER_PAGE, ROWS_PER_PAGE, 5]
    read = np.frombuffer(b"".join(pages), PROVENANCE)
    assert read["target_tsid"].tolist() == [1000 + number for number in range(many)]
    assert provenance.count(state, 1) == many and provenance.count(state, 2) == 0


def test_each_tenant_has_a_region_of_its_own() -> None:
    told = Told()
    for tenant in (1, 2, 1):
        made = 10 * tenant + told._seq
        told.tell(
            events.MemoryCreated(
                id=made, slot=1, kind=int(Kind.PROCEDURE), subtype=0, origin=5, partition=3,
                rows=(events.RegionRow(source=5, source_kind=NOTE, source_partition=2),),
            ),
            tenant=tenant,
        )  # fmt: skip
    state = State(Kept(told.state), Counters(), Head(1, 0, b""))
    assert [provenance.count(state, tenant) for tenant in (1, 2, 3)] == [2, 1, 0]


@pytest.mark.parametrize("before", [LIVE, PARTIAL])
@pytest.mark.parametrize("mark", [Mark.FORGOTTEN, Mark.PRUNED])
def test_a_tombstone_gives_the_state_before_it_back(before: int, mark: Mark) -> None:
    told = Told()
    told.note(50, 0, last=before == LIVE)
    ref = (NOTE, 50)
    told.tell(
        events.Forgotten(memory=ref, strength=0.0)
        if mark is Mark.FORGOTTEN
        else events.Pruned(memories=(ref,), cycle=1)
    )
    assert told.state_of(50) == TOMBSTONE
    told.tell(events.Recovered(memory=ref, mark=int(mark), old_strength=0.0, new_strength=0.2))
    assert told.state_of(50) == before


def test_what_is_dead_twice_comes_back_when_both_are_lifted() -> None:
    told = Told()
    told.note(50, 0)
    ref = (NOTE, 50)
    told.tell(events.Pruned(memories=(ref,), cycle=1), events.Forgotten(memory=ref, strength=0.0))
    told.tell(events.Recovered(memory=ref, mark=int(Mark.FORGOTTEN), old_strength=0.0, new_strength=0.2))
    assert told.state_of(50) == TOMBSTONE
    told.tell(events.Recovered(memory=ref, mark=int(Mark.PRUNED), old_strength=0.2, new_strength=0.2))
    assert told.state_of(50) == LIVE


def test_what_is_purged_stays_a_tombstone() -> None:
    told = Told()
    told.note(50, 0, last=False)
    told.tell(events.Purged(targets=(events.PurgeTarget(NOTE, 50),), parts=()))
    told.tell(events.PassCommitted(session=7, number=1, promoted=(), noise=(), last=True))
    assert told.state_of(50) == TOMBSTONE
    told.tell(events.Recovered(memory=(NOTE, 50), mark=int(Mark.FORGOTTEN), old_strength=0.0, new_strength=0.2))
    assert told.state_of(50) == TOMBSTONE


def test_a_row_for_each_semantic_source_of_a_procedure() -> None:
    told = Told()
    told.tell(
        events.MemoryCreated(
            id=60, slot=1, kind=int(Kind.PROCEDURE), subtype=0, origin=5, partition=3,
            rows=tuple(events.RegionRow(source=tsid, source_kind=NOTE, source_partition=2) for tsid in (41, 42)),
        )
    )  # fmt: skip
    rows = told.rows(60)
    assert [(row.source_kind, row.target_kind, row.prefix_kind) for row in rows] == [(2, 3, 8)] * 2
    assert [(row.source_tsid, row.source_partition, row.flags, row.pass_number) for row in rows] == [
        (41, 2, LIVE, 0), (42, 2, LIVE, 0),
    ]  # fmt: skip


def test_nothing_of_a_content_stands_in_a_row() -> None:
    told = Told()
    told.note(50, 0)
    (row,) = told.rows(50)
    assert row.content_hash_hi == 0


# --- damage --------------------------------------------------------------------------------------


@pytest.fixture
def slept(tmp_path: Path) -> Iterator[Slept]:
    opened = Slept(tmp_path / "state")
    try:
        yield opened
    finally:
        opened.close(True)


def _change(slept: Slept, database: str, change: object) -> None:
    """Change the first value of a database as no fold would."""
    env = slept.projections.env
    with env.write() as txn, txn.cursor(db=env.db(database)) as cursor:
        assert cursor.first()
        key, value = bytes(cursor.key()), bytes(cursor.value())
        txn.put(key, change(value), db=env.db(database))  # type: ignore[operator]


@pytest.mark.parametrize(
    "change",
    [
        lambda value: value[:20] + bytes((value[20] ^ 1,)) + value[21:],
        lambda value: value[:72],
        lambda value: bytes(len(value)),
        lambda value: b"",
    ],
    ids=["flipped", "truncated", "zeroed", "empty"],
)
def test_a_damaged_page_is_reported_and_folded_again(slept: Slept, change: object) -> None:
    turns = slept.turns(2)
    (note, _) = slept.commit([fact(turns[0]), fact(turns[1], text="two")])["notes"]
    rows, digests = slept.rows(), slept.digests()
    _change(slept, tables.REGION, change)
    with pytest.raises(Refused) as refused:
        slept.explain(note)
    assert (refused.value.reason, refused.value.data["projection"]) == (Reason.DAMAGED, tables.REGION)
    assert slept.projections.damaged == {tables.REGION}
    assert what_heals(slept.projections.damaged) == "provenance"
    assert slept.read("rebuild", {"what": "provenance"})["rebuilt"] == ["provenance"]
    assert not slept.projections.damaged
    assert (slept.rows(), slept.digests()) == (rows, digests)


def test_a_row_of_another_memory_is_not_served(slept: Slept) -> None:
    """The index leads to a row that is sound, but not this one's."""
    turns = slept.turns(2)
    notes = slept.commit([fact(turns[0]), fact(turns[1], text="two")])["notes"]
    state, tsids = slept.state(), [parse_memory_ref(note)[1] for note in notes]
    assert [row.target_tsid for tsid in tsids for row in provenance.rows_of(state, tsid)] == tsids
    key = tsids[0].to_bytes(8, "big") + (1).to_bytes(4, "big")
    state.put(tables.REGION_TARGETS, key, seal_row(key, (1).to_bytes(4, "little")))
    with pytest.raises(DamagedRow):
        provenance.rows_of(state, tsids[0])

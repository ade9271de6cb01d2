"""audit holds the provenance region against the edges: each kind of difference is found, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon.reads.audit import region_findings
from daemon.refusal import Reason, Refused
from journal import events
from journal.codes import Kind, Origin
from journal.tsid import memory_ref, parse_memory_ref
from projections import region, tables
from projections.rows import open_row, seal_row
from tests.daemon.slept import DAY_MS, Slept, fact


@pytest.fixture
def slept(tmp_path: Path) -> Iterator[Slept]:
    opened = Slept(tmp_path / "state")
    try:
        yield opened
    finally:
        opened.close(True)


def differing(slept: Slept) -> list[str]:
    return [each["what"] for each in slept.read("audit", {"rebuild": True})["findings"]]


def test_sound_rows_of_every_state_are_no_finding(slept: Slept) -> None:
    turns = slept.turns(4)
    slept.now_ms += DAY_MS
    turns += slept.turns(2)
    made = slept.commit([fact(turns[1], turns[4]), fact(turns[0], text="two")], noise=[turns[2]])["notes"]
    slept.write("remember", {"kind": "procedure", "origin": "derived", "text": "p", "derived_from": made})
    slept.commit([fact(turns[5], text="three")], last=False)
    slept.write("forget", {"id": made[0]})
    assert differing(slept) == []
    slept.purge(made[1])
    assert differing(slept) == []


ROW: dict[str, Any] = {"turns": 1, "partition": 1, "first_turn": 1, "last_turn": 1}


@pytest.mark.parametrize(
    "wrong",
    [{"turns": 2}, {"first_turn": 2}, {"last_turn": 2}, {"partition": 2}, {"session": 1}, {}],
    ids=["turns", "first", "last", "partition", "session", "nothing"],
)
def test_a_row_that_says_otherwise_than_its_edges_is_found(slept: Slept, wrong: dict[str, Any]) -> None:
    """The journal itself says so: folding it again gives the same row."""
    turn = slept.turn("t")
    session = parse_memory_ref(slept.ref().replace("session", "raw"))[1]
    slept.write("remember", {"kind": "note", "origin": "told", "text": "opens the partition", "derived_from": [turn]})
    tsid = slept.projections.counters.tsid + 1
    slept.append(
        events.MemoryCreated(
            id=tsid, slot=9, kind=int(Kind.NOTE), subtype=1, origin=int(Origin.CONSOLIDATED), partition=2,
            session=slept.number(), sources=(parse_memory_ref(turn),), made_by_pass=(1, 0, 1),
            rows=(events.RegionRow(**{**ROW, "session": session, **wrong}),),
        )
    )  # fmt: skip
    promoted = (parse_memory_ref(turn)[1],)
    slept.append(events.PassCommitted(session=slept.number(), number=1, promoted=promoted, noise=(), last=True))
    assert differing(slept) == ([memory_ref(Kind.NOTE, tsid)] if wrong else [])
    assert [each.code for each in region_findings(slept.projections)] == (["provenance_differs"] if wrong else [])


# --- what the projections hold against themselves ------------------------------------------------


def drop_first(slept: Slept, database: str) -> None:
    env = slept.projections.env
    with env.write() as txn, txn.cursor(db=env.db(database)) as cursor:
        assert cursor.first()
        cursor.delete()


def put_row(slept: Slept, place: int, **fields: int) -> None:
    """Change a row of the first page; its CRC, and the page's, hold."""
    env = slept.projections.env
    with env.write() as txn, txn.cursor(db=env.db(tables.REGION)) as cursor:
        assert cursor.first()
        key, value = bytes(cursor.key()), bytes(cursor.value())
        page = bytearray(open_row(tables.REGION, key, value))
        at = slice(place * region.ROW_BYTES, (place + 1) * region.ROW_BYTES)
        page[at] = region.pack(region.unpack(bytes(page[at]))._replace(**fields))
        txn.put(key, seal_row(key, bytes(page)), db=env.db(tables.REGION))


def two_notes(slept: Slept) -> list[str]:
    turns = slept.turns(4)
    made = slept.commit([fact(turns[0]), fact(turns[1], text="two")])["notes"]
    slept.write("forget", {"id": made[1]})
    slept.commit([fact(turns[2], text="three")], last=False)
    return [str(each) for each in made]


CODES = {"provenance_differs", "projection_damaged", "projection_differs"}


@pytest.mark.parametrize("rebuild", [False, True], ids=["plain", "rebuild"])
@pytest.mark.parametrize("database", [tables.REGION_TARGETS, tables.REGION_SESSIONS, tables.REGION_DEAD])
def test_an_entry_that_is_missing_is_found(slept: Slept, database: str, rebuild: bool) -> None:
    two_notes(slept)
    assert slept.read("audit", {"rebuild": rebuild})["findings"] == []
    drop_first(slept, database)
    found = slept.read("audit", {"rebuild": rebuild})["findings"]
    assert found and {each["code"] for each in found} <= CODES
    assert slept.projections.damaged & set(tables.PROJECTIONS["provenance"])
    slept.read("rebuild", {"what": "provenance"})
    assert slept.read("audit", {"rebuild": rebuild})["findings"] == []


@pytest.mark.parametrize("database", [tables.REGION_TARGETS, tables.REGION_SESSIONS, tables.REGION_DEAD])
def test_an_entry_of_no_row_is_found(slept: Slept, database: str) -> None:
    two_notes(slept)
    env = slept.projections.env
    with env.write() as txn, txn.cursor(db=env.db(database)) as cursor:
        assert cursor.last()
        key, payload = bytes(cursor.key()), open_row(database, bytes(cursor.key()), bytes(cursor.value()))
        further = key[:-4] + (99).to_bytes(4, "big")
        txn.put(further, seal_row(further, payload), db=env.db(database))
    (found,) = slept.read("audit", {})["findings"]
    assert (found["code"], found["what"]) == ("projection_damaged", database)


WRONG: list[dict[str, int]] = [
    {"pass_number": 9}, {"fact_index": 7}, {"flags": region.PARTIAL}, {"flags": region.TOMBSTONE}, {"target_kind": 3},
    {"prefix_kind": 3}, {"session_id": 1}, {"turn_count": 2}, {"target_tsid": 5},
]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: next(iter(wrong)) + str(next(iter(wrong.values()))))
def test_a_row_that_is_sound_and_wrong_is_found_by_a_plain_audit(slept: Slept, wrong: dict[str, int]) -> None:
    two_notes(slept)
    put_row(slept, 0, **wrong)
    found = slept.read("audit", {})["findings"]
    assert found and {each["code"] for each in found} <= {"provenance_differs", "projection_damaged"}


@pytest.mark.parametrize("flags", [region.LIVE, region.PARTIAL])
def test_a_row_of_a_forgotten_note_that_is_no_tombstone_is_found(slept: Slept, flags: int) -> None:
    made = two_notes(slept)
    put_row(slept, 1, flags=flags)
    found = [(each["code"], each["what"]) for each in slept.read("audit", {})["findings"]]
    assert ("provenance_differs", made[1]) in found or found == [("projection_damaged", tables.REGION_DEAD)]


@pytest.mark.parametrize(
    "wrong", [{"pass_number": 9}, {"fact_index": 7}, {"flags": region.TOMBSTONE}, {"target_tsid": 5}],
    ids=["pass", "fact", "tombstone", "target"],
)  # fmt: skip
@pytest.mark.parametrize("verb", ["explain", "session_provenance"])
def test_a_row_that_is_not_the_one_of_its_index_is_not_served(slept: Slept, verb: str, wrong: dict[str, int]) -> None:
    made = two_notes(slept)
    put_row(slept, 0, **wrong)
    params = {"id": made[0]} if verb == "explain" else {"session": slept.ref()}
    with pytest.raises(Refused) as refused:
        slept.read(verb, params)
    assert refused.value.reason is Reason.DAMAGED
    assert refused.value.data["projection"] in tables.PROJECTIONS["provenance"]


def test_a_plain_audit_looks_at_the_newest_rows(slept: Slept) -> None:
    two_notes(slept)
    assert [each.code for each in region_findings(slept.projections, newest=1)] == []
    put_row(slept, 0, fact_index=7)
    assert [each.code for each in region_findings(slept.projections, newest=1)] == []
    put_row(slept, 2, fact_index=7)
    assert [each.code for each in region_findings(slept.projections, newest=1)] == ["provenance_differs"]

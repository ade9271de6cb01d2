"""A section that can't be read is unavailable and empty, the others stay; and no hop leaves the tenant."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from daemon.logs import configure_logs
from journal import events
from journal.codes import ProposalKind
from journal.log import sealed_key
from journal.record import HEAD_BYTES, seq_key
from journal.tsid import parse_memory_ref
from projections import tables
from tests.daemon.chained import Chained, fact_added
from tests.journal.appending import Legacy

SECTIONS = ("origin", "supersession", "events", "proposals", "facts")
NOTHING = {
    "origin": {"session": None, "actor_kind": None, "created_at": None, "run": None},
    "supersession": {"predecessors": [], "successors": [], "truncated": False},
    **{section: {"items": [], "truncated": False} for section in ("events", "proposals", "facts")},
}


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Chained]:
    opened = Chained(tmp_path / "state")
    try:
        yield opened
    finally:
        opened.close(True)


def whole(told: Chained) -> tuple[str, str]:
    """Two versions; the second has something in each section."""
    first = told.decision(session=told.session(), topic="before")
    second = told.revised(first)
    told.do("reaffirm", second)
    proposal = told.applied(ProposalKind.FACT, second)
    added = fact_added(told, second, ("a-canary", "b-canary", "c-canary"), proposal.id)
    told.by_hand(proposal.made, added, proposal.decided)
    return first, second


def damage_record(told: Chained, seq: int) -> None:
    env = told.store.env
    with env.write() as txn:
        value = bytearray(txn.get(seq_key(seq), db=env.db("records")) or b"")
        value[HEAD_BYTES + 3] ^= 1
        txn.put(seq_key(seq), bytes(value), db=env.db("records"))


def damage_index(told: Chained, database: str) -> None:
    env = told.projections.env
    with env.write() as txn:
        for key, value in list(txn.cursor(db=env.db(database))):
            txn.put(key, bytes((value[0] ^ 1, *value[1:])), db=env.db(database))


def seq_of(told: Chained, ref: str) -> int:
    return int(told.memory(ref)["address"]["seq"])


def events_of(told: Chained, ref: str) -> dict[str, int]:
    items = told.chain(ref)["events"]["items"]
    return {item["event_kind"]: int(item["id"].partition(":")[2]) for item in items}


def dropped_rows(told: Chained, database: str) -> None:
    env = told.projections.env
    with env.write() as txn:
        for key, _ in list(txn.cursor(db=env.db(database))):
            txn.delete(key, db=env.db(database))


def moved_rows(told: Chained, database: str) -> None:
    """Under other keys, which lead to nothing."""
    env = told.projections.env
    with env.write() as txn:
        for key, value in list(txn.cursor(db=env.db(database))):
            txn.delete(key, db=env.db(database))
            txn.put(bytes((key[0] ^ 0x40, *key[1:])), value, db=env.db(database))


def damaged_event(told: Chained, first: str, second: str) -> None:
    damage_record(told, events_of(told, second)["reaffirm"])


def damaged_predecessor(told: Chained, first: str, second: str) -> None:
    damage_record(told, seq_of(told, first))


def damaged_topic(told: Chained, first: str, second: str) -> None:
    env, key = told.store.env, sealed_key(seq_of(told, first), 2)
    with env.write() as txn:
        value = bytearray(txn.get(key, db=env.db("sealed")) or b"")
        value[-1] ^= 1
        txn.put(key, bytes(value), db=env.db("sealed"))


def damaged_edge(told: Chained, first: str, second: str) -> None:
    damage_record(told, events_of(told, first)["supersede"])


def damaged_genesis(told: Chained, first: str, second: str) -> None:
    damage_record(told, seq_of(told, second))


def damaged_fact(told: Chained, first: str, second: str) -> None:
    damage_record(told, told.store.log.head().seq - 2)  # before its decision and the opening


def index(database: str) -> Callable[[Chained, str, str], None]:
    return lambda told, first, second: damage_index(told, database)


@pytest.mark.parametrize(
    ("damage", "gone"),
    [
        (damaged_event, {"events"}),
        (damaged_predecessor, {"supersession"}),
        (damaged_topic, {"supersession"}),
        (damaged_edge, {"supersession"}),
        (damaged_fact, {"facts"}),
        (damaged_genesis, {"origin", "events", "facts"}),
        (index(tables.HAPPENINGS), {"events"}),
        (index(tables.REVISIONS), {"supersession"}),
        (index(tables.PROPOSALS_OF), {"proposals"}),
        (index(tables.PROPOSALS), {"proposals", "facts"}),
    ],
)
def test_a_section_that_can_not_be_read_is_unavailable_and_the_others_stay(
    told: Chained, damage: Callable[[Chained, str, str], None], gone: set[str]
) -> None:
    """T3: also one that fails before the others are read."""
    first, second = whole(told)
    before = told.chain(second)
    assert all(before[section] != NOTHING[section] for section in SECTIONS)
    damage(told, first, second)
    log = io.StringIO()
    configure_logs(stream=log)
    chain = told.chain(second)
    assert {name for name, state in chain["sections"].items() if state == "unavailable"} == gone
    for section in SECTIONS:
        assert chain[section] == (NOTHING[section] if section in gone else before[section]), section
    told_of = [json.loads(line) for line in log.getvalue().splitlines()]
    lines = [line for line in told_of if line["event"] == "section_unavailable"]
    assert {line["section"] for line in lines} == gone
    for line in lines:
        assert line.keys() == {"event", "level", "timestamp", "section", "memory", "error_class"}
        assert line["memory"] == second and line["level"] == "warning"
        assert line["error_class"] in ("DamagedRecord", "DamagedRow", "PartUnreadable")
    assert "canary" not in log.getvalue()


@pytest.mark.parametrize("lost", [dropped_rows, moved_rows])
@pytest.mark.parametrize(
    ("database", "gone"),
    [
        (tables.SESSIONS, {"supersession"}),
        (tables.PROPOSALS, {"proposals", "facts"}),
        (tables.REVISIONS, {"supersession"}),
        (tables.PROPOSALS_OF, {"proposals"}),
    ],
)
def test_what_is_named_and_has_no_row_is_damage_and_not_null(
    told: Chained, lost: Callable[[Chained, str], None], database: str, gone: set[str]
) -> None:
    _, second = whole(told)
    before, counted = told.chain(second), dropped(told)
    lost(told, database)
    chain = told.chain(second)
    assert {name for name, state in chain["sections"].items() if state == "unavailable"} == gone
    for section in SECTIONS:
        assert chain[section] == (NOTHING[section] if section in gone else before[section]), section
    assert dropped(told) == counted and database in told.projections.damaged


@pytest.mark.parametrize("lost", [dropped_rows, moved_rows])
@pytest.mark.parametrize(("database", "gone"), [(tables.PROPOSALS_OF, "proposals"), (tables.FACTS_ADDED, "facts")])
def test_a_fact_and_its_proposal_are_not_told_one_without_the_other(
    told: Chained, lost: Callable[[Chained, str], None], database: str, gone: str
) -> None:
    ref = told.decision()
    said = {"subject": "s-canary", "predicate": "p-canary", "value": "v-canary"}
    proposal = told.write("propose", {"proposal_kind": "fact", "memory": ref, "fact": said})["proposal"]
    told.write("decide", {"proposal": proposal, "accept": True})
    before = told.chain(ref)
    assert len(before["proposals"]["items"]) == len(before["facts"]["items"]) == 1
    lost(told, database)
    chain = told.chain(ref)
    assert {name for name, state in chain["sections"].items() if state == "unavailable"} == {gone}
    assert [chain[name] for name in SECTIONS] == [NOTHING[n] if n == gone else before[n] for n in SECTIONS]
    assert told.projections.damaged == {database}


def test_a_session_that_a_memory_began_in_is_never_null_for_being_lost(told: Chained) -> None:
    first, _ = whole(told)
    dropped_rows(told, tables.SESSIONS)
    chain = told.chain(first)
    assert chain["sections"]["origin"] == "unavailable" and chain["origin"] == NOTHING["origin"]


@pytest.mark.parametrize("lost", [dropped_rows, moved_rows])
def test_a_memory_that_bears_a_successor_has_an_edge_to_it(told: Chained, lost: Callable[[Chained, str], None]) -> None:
    first, _ = whole(told)
    lost(told, tables.REVISIONS)
    assert told.chain(first)["sections"]["supersession"] == "unavailable"


MARKING: list[tuple[str, dict[str, Any]]] = [
    ("forget", {}),
    ("mark", {"mark": "archived"}),
    ("mark", {"mark": "resolved"}),
    ("hold", {}),
    ("cohort", {}),
    ("purge", {}),
    ("revise", {}),
]


def marked(told: Chained, verb: str, more: dict[str, Any]) -> str:
    ref = told.decision()
    if verb == "revise":
        told.revised(ref)
    elif verb == "hold":
        told.write("hold", {"sel": {"ids": [ref]}})
    elif verb == "cohort":
        asked = {"action": "quarantine", "sel": {"ids": [ref]}}
        told.write("cohort", {**asked, "token": told.write("cohort", asked)["token"]})
    elif verb == "purge":
        told.write("purge", {"ids": [ref]})
    else:
        told.do(verb, ref, **more)
    return ref


@pytest.mark.parametrize(("verb", "more"), MARKING)
@pytest.mark.parametrize("lost", [dropped_rows, moved_rows])
def test_a_mark_without_what_left_it_is_damage(
    told: Chained, lost: Callable[[Chained, str], None], verb: str, more: dict[str, Any]
) -> None:
    ref = marked(told, verb, more)
    before = told.chain(ref)
    assert before["sections"]["events"] == "ok" and len(before["events"]["items"]) > 1
    lost(told, tables.HAPPENINGS)
    chain = told.chain(ref)
    assert chain["sections"]["events"] == "unavailable" and chain["events"] == NOTHING["events"]
    assert told.projections.damaged == {tables.HAPPENINGS}


def test_damage_that_a_chain_met_is_a_finding_and_a_projection_is_folded_anew(told: Chained) -> None:
    first, second = whole(told)
    seq = seq_of(told, first)
    damage_record(told, seq)
    told.chain(second)
    assert seq in [finding.seq for finding in told.store.findings]
    damage_index(told, tables.HAPPENINGS)
    assert told.projections.damaged == set()
    told.chain(second)
    assert told.projections.damaged == {tables.HAPPENINGS}


def test_a_damaged_memory_has_a_chain_of_what_can_be_read(told: Chained) -> None:
    first, second = whole(told)
    damaged_genesis(told, first, second)
    (memory,) = told.got(second)["memories"]
    assert memory["damaged"] is True
    assert memory["provenance"]["supersession"]["predecessors"][0]["id"] == first


@pytest.fixture
def ours_and_theirs(told: Chained) -> tuple[str, str]:
    ours = told.decision("ours")
    turn = told.write("remember", {"kind": "raw", "origin": "stated", "text": "theirs", "tenant": "other"})["id"]
    note = {"kind": "note", "origin": "stated", "text": "theirs", "derived_from": [turn], "tenant": "other"}
    theirs = str(told.write("remember", {**note, "topic": "their-canary"})["id"])
    return ours, theirs


def dropped(told: Chained) -> int:
    return told.service.counts.foreign_references


def chain_everywhere(told: Chained, ref: str) -> dict[str, Any]:
    """The same whether or not the question may read the other tenant too."""
    chain = told.chain(ref)
    (wide,) = told.read("get", {"ids": [ref], "include": ["provenance"], "tenants": ["default", "other"]})["memories"]
    assert wide["provenance"] == chain
    return chain


def test_a_forged_edge_to_another_tenants_memory_has_no_row_and_is_counted(
    told: Chained, ours_and_theirs: tuple[str, str]
) -> None:
    ours, theirs = ours_and_theirs
    told.by_hand(told.edge(ours, theirs))
    before = dropped(told)
    chain = chain_everywhere(told, ours)
    assert chain["supersession"] == NOTHING["supersession"]
    assert dropped(told) >= before + 2
    assert theirs not in json.dumps(chain) and "canary" not in json.dumps(chain)


def test_an_edge_in_a_record_of_another_tenant_has_no_row_and_is_counted(told: Chained) -> None:
    old, new = told.decision("old"), told.decision("new")
    told.write("remember", {"kind": "raw", "origin": "stated", "text": "theirs", "tenant": "other"})
    reaffirmed = events.Reaffirmed(memory=parse_memory_ref(old))
    told.by_hand(Legacy(told.edge(new, old), tenant=2), Legacy(reaffirmed, tenant=2))
    assert chain_everywhere(told, new)["supersession"] == NOTHING["supersession"]
    kinds = [event["event_kind"] for event in chain_everywhere(told, old)["events"]["items"]]
    assert kinds == ["create"]
    assert dropped(told) > 0


def test_a_proposal_of_another_tenant_is_in_no_section(told: Chained, ours_and_theirs: tuple[str, str]) -> None:
    ours, theirs = ours_and_theirs
    other = told.decision("other")
    edge = told.edge(other, ours)
    foreign = told.applied(ProposalKind.EDGE, other, ours, edges=(edge.edge,))
    leading_out = told.applied(ProposalKind.EDGE, ours, theirs)
    told.by_hand(
        Legacy(foreign.made, tenant=2), msgspec.structs.replace(edge, proposal=foreign.id),
        Legacy(foreign.decided, tenant=2), leading_out.made, leading_out.decided,
        events.Marked(memory=parse_memory_ref(ours), mark=9, on=True, proposal=foreign.id),
        fact_added(told, ours, ("a", "b", "c"), foreign.id),
    )  # fmt: skip
    chain = chain_everywhere(told, ours)
    assert chain["proposals"] == NOTHING["proposals"]
    assert chain["supersession"]["successors"][0]["source_proposal"] is None
    assert chain["events"]["items"][0]["proposal"] is None
    assert chain["facts"]["items"][0]["source_proposal"] is None
    assert theirs not in json.dumps(chain)
    assert dropped(told) > 0


def test_an_unknown_and_a_foreign_memory_are_the_same_miss(told: Chained, ours_and_theirs: tuple[str, str]) -> None:
    ours, theirs = ours_and_theirs
    found = told.got("note:0000000000001", theirs, ours)
    assert [memory["id"] for memory in found["memories"]] == [ours]
    assert found["not_found"] == ["note:0000000000001", theirs]

"""Whose an entry is: every database has a row in the table, and a planted entry that joins two tenants is found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from journal.frames import rows_between
from journal.tsid import parse_memory_ref, parse_tsid
from projections import edges, proposals, rows, sessions, tables, tenancy
from projections.state import KEY32, KEY32_32, KEY32_64, KEY64, KEY64_64, State
from projections.tenancy import By
from tests.daemon.told import Told

TEXT = {"kind": "raw", "origin": "stated"}


def furnish(told: Told, tenant: str) -> dict[str, str]:
    """Something of everything that a tenant can have."""
    at: dict[str, Any] = {"tenant": tenant}
    session = told.write("session_open", {"agent": "a", "key": "k", "idempotency_key": "s", **at})["session"]
    turn = told.raw("the same words", session=session, idempotency_key="k", role="user", **at)
    again = told.raw("the same words", **at)
    note = told.note(turn, evidence=[again], producer={"agent": "a", "version": "1"}, **at)
    later = told.write("revise", {"id": note, "text": "b", "origin": "stated", **at})["id"]
    skill = {"kind": "procedure", "origin": "derived", "text": "c", "derived_from": [later], **at}
    made = told.write("remember", skill)["id"]
    fact = {"subject": "s", "predicate": "p", "value": "v"}
    proposal = told.write("propose", {"proposal_kind": "fact", "memory": later, "fact": fact, **at})["proposal"]
    told.write("decide", {"proposal": proposal, "accept": True, **at})
    told.write("propose", {"proposal_kind": "retention", "memory": later, "action": "archive", **at})
    told.do("mark", made, mark="archived", **at)
    told.do("verify", made, evidence=[{"kind": "url", "id": "u"}], **at)
    told.do("forget", turn, **at)
    sel = {"kinds": ["note"]}
    token = told.write("cohort", {"action": "quarantine", "sel": sel, **at})["token"]
    cohort = told.write("cohort", {"action": "quarantine", "sel": sel, "token": token, **at})["cohort"]
    told.do("verify", made, evidence=[{"kind": "url", "id": "u"}], **at)
    told.write("hold", {"sel": {"ids": [made]}, **at})
    told.write("mark", {"id": made, "mark": "resolved", "idempotency_key": "m", **at})
    told.raw("named", entities=[{"name": "n", "type": "t"}], **at)
    told.write("purge", {"ids": [told.raw("gone", **at)], **at})
    late = told.raw("gone late", **at)
    told.do("forget", late, **at)
    told.write("vacuum", {"force": True, **at})
    told.write("purge", {"ids": [late], **at})
    return {"session": session, "turn": turn, "note": note, "later": later, "proposal": proposal, "cohort": cohort}


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Told, dict[str, dict[str, str]]]]:
    told = Told(tmp_path_factory.mktemp("tenancy") / "state")
    try:
        yield told, {tenant: furnish(told, tenant) for tenant in ("default", "other")}
    finally:
        told.close(True)


def state_of(told: Told, snapshot: Any) -> State:
    return State(snapshot, told.projections.counters, snapshot.head)


def crossings(told: Told) -> list[tuple[str, int | None]]:
    with told.projections.snapshot() as snapshot, told.store.env.read() as txn:

        def of_record(seq: int) -> int | None:
            return next(rows_between(told.store.log, txn, seq, seq)).outline().tenant

        found = tenancy.crossing(state_of(told, snapshot), lambda: None, of_record)
        return [(each.database, each.tenant) for each in found]


def test_every_database_has_an_owner_and_none_that_is_gone_is_left() -> None:
    assert set(tenancy.OWNERS) == set(tables.DATABASES)
    assert {name for name, owner in tenancy.OWNERS.items() if owner.by is By.SAID} == set(tenancy.SAID)
    assert all(owner.why for owner in tenancy.OWNERS.values() if owner.by is By.STORE)
    assert [name for name, owner in tenancy.OWNERS.items() if owner.by is By.STORE] == [tables.BLOCKS]


def test_what_is_well_is_found_well(furnished: tuple[Told, Any]) -> None:
    told, _ = furnished
    assert crossings(told) == []


def test_what_the_tenants_have_is_together_all_there_is(furnished: tuple[Told, Any]) -> None:
    told, _ = furnished
    with told.projections.snapshot() as snapshot:
        state = state_of(told, snapshot)
        mine, theirs = (list(tenancy.entries_of(state, tenant, lambda: None)) for tenant in (1, 2))
        whole = [
            (database, key, value)
            for database in tables.DATABASES
            if database != tables.BLOCKS
            for key, value in state.prefix(database, b"")
        ]
    assert sorted(mine + theirs) == sorted(whole)
    counts = [Counter(database for database, _, _ in own) for own in (mine, theirs)]
    assert counts[0] == counts[1], "both were given the same things"
    empty = set(tables.DATABASES) - set(counts[0]) - {tables.BLOCKS}
    assert empty <= NOT_FURNISHED, "give the tenants something of these too"


NOT_FURNISHED = {
    tables.SETTLED, tables.PASSES, tables.SLEEPS, tables.REGION_SESSIONS, tables.REGION_PASSES, tables.RESOLVABLES,
    tables.REGION_DEAD, tables.QUOTES,
}  # fmt: skip
"""What only sleep writes, and what has its own tests."""


def _tsid(ref: str) -> int:
    return parse_tsid(ref.partition(":")[2])


Plant = Callable[[dict[str, str], dict[str, str], State], tuple[str, bytes, bytes]]


def _edge_out(mine: dict[str, str], theirs: dict[str, str], state: State) -> tuple[str, bytes, bytes]:
    key = KEY64.pack(_tsid(mine["later"]))
    return tables.EDGES_OUT, key, rows.seal_row(key, edges.ENTRY.pack(1, *parse_memory_ref(theirs["note"])))


def _edge_in(mine: dict[str, str], theirs: dict[str, str], state: State) -> tuple[str, bytes, bytes]:
    key = edges.IN_KEY.pack(_tsid(mine["turn"]), 1, _tsid(theirs["note"]))
    return tables.EDGES_IN, key, rows.seal_row(key, b"\1")


def _turn(mine: dict[str, str], theirs: dict[str, str], state: State) -> tuple[str, bytes, bytes]:
    key = KEY32_32.pack(sessions.number_of(state, _tsid(mine["session"])) or 0, 1)
    return tables.TURNS, key, rows.seal_row(key, KEY64.pack(_tsid(theirs["turn"])))


def _flag(mine: dict[str, str], theirs: dict[str, str], state: State) -> tuple[str, bytes, bytes]:
    key = KEY64_64.pack(_tsid(mine["note"]), _tsid(theirs["turn"]))
    return tables.FLAGS, key, rows.seal_row(key, (1).to_bytes(8, "little"))


def _proposal_by(mine: dict[str, str], theirs: dict[str, str], state: State) -> tuple[str, bytes, bytes]:
    key = proposals.BY_KEY.pack(1, 1, 1, _tsid(theirs["proposal"]))
    return tables.PROPOSALS_BY, key, rows.seal_row(key, b"")


def _cohort_by(mine: dict[str, str], theirs: dict[str, str], state: State) -> tuple[str, bytes, bytes]:
    key = KEY32_64.pack(1, _tsid(theirs["cohort"]))
    return tables.COHORTS_BY, key, rows.seal_row(key, b"")


def _touch(mine: dict[str, str], theirs: dict[str, str], state: State) -> tuple[str, bytes, bytes]:
    row = state.memory(_tsid(theirs["note"]))
    assert row is not None
    key = KEY64_64.pack(_tsid(mine["note"]), row.seq)
    return tables.TOUCHES, key, rows.seal_row(key, b"")


def _memory(mine: dict[str, str], theirs: dict[str, str], state: State) -> tuple[str, bytes, bytes]:
    row = state.memory(_tsid(mine["note"]))
    assert row is not None
    key = KEY64.pack(_tsid(mine["note"]))
    return tables.MEMORIES, key, rows.pack_memory(key, row._replace(tenant=2))


def _ownerless(mine: dict[str, str], theirs: dict[str, str], state: State) -> tuple[str, bytes, bytes]:
    key = KEY64_64.pack(77, 1)
    return tables.TOUCHES, key, rows.seal_row(key, b"")


def _key(mine: dict[str, str], theirs: dict[str, str], state: State) -> tuple[str, bytes, bytes]:
    row = state.memory(_tsid(theirs["turn"]))
    assert row is not None
    key = KEY32.pack(1) + b"k" * 16
    return tables.IDEMPOTENCY, key, rows.seal_row(key, KEY64.pack(row.seq))


PLANTS: tuple[Plant, ...] = (
    _edge_out, _edge_in, _turn, _flag, _proposal_by, _cohort_by, _touch, _memory, _ownerless, _key,
)  # fmt: skip


@pytest.mark.parametrize("plant", PLANTS)
def test_an_entry_that_joins_two_tenants_or_is_nobodys_is_found(furnished: tuple[Told, Any], plant: Plant) -> None:
    told, has = furnished
    env = told.projections.env
    with told.projections.snapshot() as snapshot:
        database, key, value = plant(has["default"], has["other"], state_of(told, snapshot))
    with env.write() as txn:
        before = txn.get(key, db=env.db(database))
        txn.put(key, value, db=env.db(database))
    try:
        assert database in {found for found, _ in crossings(told)}
        told_of = told.read("audit", {"rebuild": True})["findings"]
        assert f"{database} {key.hex()}" in {each["what"] for each in told_of if each["code"] == "cross_tenant"} or (
            plant is _memory
        )
    finally:
        with env.write() as txn:
            if before is None:
                txn.delete(key, db=env.db(database))
            else:
                txn.put(key, before, db=env.db(database))
    assert crossings(told) == []

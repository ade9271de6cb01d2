"""What a tenant has is counted from the projections and from its records alike, and nothing can be left out unseen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from daemon.cli.export_tenant import check
from daemon.reads.holdings import holdings
from daemon.wire.audit_results import TenantHoldings
from journal.errors import DamagedStore
from journal.record import Record
from projections import tables, tenancy
from projections.holdings import THINGS, Begun, held_by, number_of
from tests.daemon.told import Told
from tests.projections.test_tenancy import furnish, state_of


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    told = Told(tmp_path_factory.mktemp("holdings") / "state")
    try:
        for tenant in ("default", "other"):
            furnish(told, tenant)
        yield told
    finally:
        told.close(True)


def held_of(told: Told, number: int) -> TenantHoldings:
    return holdings(told.store, told.projections, f"tenant {number}", number)


def records_of(told: Told, number: int) -> list[Record]:
    return [record for chunk in told.store.log.chunks() for record in chunk if record.tenant == number]


def begun_in(records: list[Record]) -> Begun:
    begun = Begun()
    for record in records:
        begun.learn(record.event)
    return begun


@pytest.mark.parametrize("number", [1, 2])
def test_its_records_tell_everything_that_the_projections_hold(furnished: Told, number: int) -> None:
    held = held_of(furnished, number)
    assert set(held.things) == set(THINGS), "there is one of each"
    check(held, begun_in(records_of(furnished, number)))
    with furnished.projections.snapshot() as snapshot:
        state = state_of(furnished, snapshot)
        mine = sum(1 for _ in tenancy.entries_of(state, number, lambda: None))
        assert sum(held.entries.values()) == mine
        assert number_of(state, ("default", "other")[number - 1]) == number and number_of(state, "never") == 0


@pytest.mark.parametrize("database", sorted(THINGS))
def test_a_record_that_is_left_out_is_missed(furnished: Told, database: str) -> None:
    records = records_of(furnished, 2)
    left_out = next(record for record in records if isinstance(record.event, THINGS[database].event))
    begun = begun_in([record for record in records if record is not left_out])
    with pytest.raises(DamagedStore, match="frames of"):
        check(held_of(furnished, 2), begun)
    begun.records += 1  # one of nothing in its place
    with pytest.raises(DamagedStore, match=f"{database}: the frames tell"):
        check(held_of(furnished, 2), begun)


def test_things_of_another_tenant_are_not_taken_for_its_own(furnished: Told) -> None:
    held = held_of(furnished, 1)
    begun = begun_in(records_of(furnished, 2))
    held.records = begun.records
    with pytest.raises(DamagedStore):
        check(held, begun)


def test_a_database_that_nobody_said_whose_it_is_can_not_be_forgotten(
    furnished: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(tenancy.OWNERS, tables.IN_COHORTS)
    with furnished.projections.snapshot() as snapshot, pytest.raises(LookupError):
        held_by(state_of(furnished, snapshot), 1, lambda: None)


def test_what_says_itself_whose_it_is_is_a_thing_or_leads_to_one() -> None:
    indexes = {tables.SESSION_IDS, tables.REGION_TARGETS, tables.REGION_SESSIONS}
    assert set(tenancy.SAID) - set(THINGS) == indexes
    assert set(THINGS) - set(tenancy.SAID) == {tables.TENANTS}


def test_what_is_left_readable_is_counted_by_the_keys_that_are_there(told_alone: Told) -> None:
    told = told_alone
    turn = told.raw("one", entities=[{"name": "n", "type": "t"}])
    told.note(turn, text="two")
    before = held_of(told, 1)
    assert before.readable["text"] == 2 and before.destroyed == 0
    assert set(before.readable_seqs) == {record.seq for record in records_of(told, 1) if _own_parts(record)}
    asked: dict[str, Any] = {"sel": {"until": "2100-01-01T00:00:00Z"}}
    told.write("purge", {**asked, "token": told.write("purge", asked)["token"]})
    after = held_of(told, 1)
    assert after.destroyed == sum(before.readable.values()) - sum(after.readable.values())
    assert (after.readable, after.readable_seqs) == ({}, [])
    assert after.things == before.things


def test_a_purge_of_everything_leaves_nothing_readable_of_a_tenant_that_had_something_of_everything(
    told_alone: Told,
) -> None:
    told = told_alone
    for tenant in ("default", "other"):
        furnish(told, tenant)
    before, theirs = held_of(told, 2), held_of(told, 1)
    assert {"name", "particulars", "request", "text"} <= set(before.readable)
    everything = {"sel": {"until": "2100-01-01T00:00:00Z"}, "tenant": "other"}
    told.write("hold", {**everything, "on": False})
    told.write("purge", {**everything, "token": told.write("purge", everything)["token"]})
    after = held_of(told, 2)
    assert (after.readable, after.readable_seqs) == ({}, [])
    assert after.things == before.things, "what stood there is retained: numbers and ids"
    assert held_of(told, 1).readable == theirs.readable


def _own_parts(record: Record) -> bool:
    return any(part.owner_seq == record.seq for part in getattr(record.event, "parts", ()))


@pytest.fixture
def told_alone(tmp_path: Any) -> Iterator[Told]:
    opened = Told(tmp_path / "state")
    try:
        yield opened
    finally:
        opened.close(True)

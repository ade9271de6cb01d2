"""What tells of the whole store: who of others' tenants is told, and what an operator who looks leaves there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from daemon.caller import Caller
from daemon.peers import check_access
from daemon.refusal import Reason, Refused
from daemon.wire.verbs import VERBS
from journal import events
from journal.codes import CallerRole
from projections import tables
from projections.rows import seal_row
from tests.daemon.told import Told
from tests.model.opened import OPERATOR

OTHER = {"tenant": "other"}


def crossings(told: Told) -> list[tuple[int, str]]:
    return [
        (record.tenant, record.event.verb)
        for chunk in told.store.log.chunks()
        for record in chunk
        if isinstance(record.event, events.OperatorCrossed)
    ]


def ask(told: Told, verb: str, caller: Caller, **params: Any) -> Any:
    return told.service.read(verb, msgspec.convert(params, VERBS[verb].params), caller)


# --- audit ---------------------------------------------------------------------------------------


def auditor(tenant: str, *reads: str) -> Caller:
    return Caller(uid=9, role=CallerRole.AUDITOR, tenant=tenant, tenants_read=frozenset(reads), content=False)


def found(told: Told, caller: Caller, **more: Any) -> list[tuple[str, str | None]]:
    return [(each.code, each.what) for each in ask(told, "audit", caller, **more).findings]


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Told]:
    """Its projections may be damaged on purpose."""
    opened = Told(tmp_path / "state")
    try:
        yield opened
    finally:
        opened.close(True)


@pytest.fixture
def differing(told: Told) -> tuple[str, str]:
    """A procedure in each of two tenants (it has a row of the region for its source) whose edges are lost."""
    refs = []
    for tenant in ("default", "other"):
        turn = told.raw("a turn", tenant=tenant)
        note = told.note(turn, tenant=tenant)
        params = {"kind": "procedure", "origin": "derived", "text": "p", "derived_from": [note], "tenant": tenant}
        refs.append(str(told.write("remember", params)["id"]))
    env = told.projections.env
    with env.write() as txn, txn.cursor(db=env.db(tables.EDGES_OUT)) as cursor:
        while cursor.first():
            cursor.delete()
    return refs[0], refs[1]


def test_an_auditor_is_told_which_of_its_own_memories_differ_and_of_others_that_some_do(
    told: Told, differing: tuple[str, str]
) -> None:
    ours, theirs = differing
    code = "provenance_differs"
    assert found(told, OPERATOR) == [(code, ours), (code, theirs)]
    assert found(told, auditor("default")) == [(code, ours), (code, "region")]
    assert found(told, auditor("other")) == [(code, "region"), (code, theirs)]
    assert found(told, auditor("third")) == [(code, "region")]
    assert found(told, auditor("third", "other")) == [(code, "region"), (code, theirs)]


def test_the_key_of_an_entry_that_joins_two_tenants_is_told_to_operators_only(told: Told) -> None:
    told.raw("ours")
    told.raw("theirs", **OTHER)
    env = told.projections.env
    keys = [bytes(7) + bytes((number,)) + bytes(8) for number in (77, 78)]
    with env.write() as txn:
        for key in keys:
            txn.put(key, seal_row(key, b"\1"), db=env.db(tables.HAPPENINGS))
    told_of = [("cross_tenant", f"{tables.HAPPENINGS} {key.hex()}") for key in keys]
    assert [each for each in found(told, OPERATOR, rebuild=True) if each[0] == "cross_tenant"] == told_of
    (seen,) = [each for each in found(told, auditor("other"), rebuild=True) if each[0] == "cross_tenant"]
    assert seen == ("cross_tenant", tables.HAPPENINGS)


# --- an operator who reads the store -------------------------------------------------------------


@pytest.mark.parametrize("level", ["skeleton", "sealed", "content"])
def test_records_of_the_whole_store_leave_it_in_each_tenant_that_is_told_of(told: Told, level: str) -> None:
    told.raw("ours")
    for tenant in ("other", "third"):
        told.raw("theirs", tenant=tenant)
    before = crossings(told)
    last = told.store.log.head().seq
    operator = msgspec.structs.replace(OPERATOR, export=True)
    page = ask(told, "records", operator, store_wide=True, level=level, from_seq=last)
    assert {frame.tenant for frame in page.frames} == {"third"}
    assert crossings(told)[len(before) :] == ([] if level == "skeleton" else [(3, "records")])
    ask(told, "records", operator, store_wide=True, level=level)
    assert crossings(told)[len(before) :] == ([] if level == "skeleton" else [(3, "records"), (2, "records")])


@pytest.mark.parametrize("level", ["skeleton", "content"])
def test_following_the_whole_store_leaves_it_in_each_tenant(told: Told, level: str) -> None:
    told.raw("ours")
    told.raw("theirs", **OTHER)
    before = crossings(told)
    ask(told, "subscribe", msgspec.structs.replace(OPERATOR, export=True), store_wide=True, level=level)
    assert crossings(told)[len(before) :] == ([] if level == "skeleton" else [(2, "subscribe")])


def test_a_residue_leaves_it_where_it_found_something(told: Told) -> None:
    told.raw("a canary of ours")
    told.raw("a canary of theirs", **OTHER)
    told.raw("nothing", tenant="third")
    before = crossings(told)
    assert not told.read("residue", {"pattern": "no such words"})["readable"]
    assert crossings(told) == before
    assert len(told.read("residue", {"pattern": "a canary of"})["readable"]) == 2
    assert crossings(told)[len(before) :] == [(2, "residue")]


# --- whose parameter it was -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "parameter"),
    [({"tenant": "other"}, "tenant"), ({"tenants": ["default", "other"]}, "tenants")],
)
def test_an_outsider_is_told_by_the_parameter_that_named_it(params: dict[str, Any], parameter: str) -> None:
    agent = Caller(uid=9, role=CallerRole.AGENT)
    with pytest.raises(Refused) as refused:
        check_access(VERBS["list"], msgspec.convert(params, VERBS["list"].params), agent)
    assert refused.value.reason is Reason.NOT_FOUND
    assert refused.value.data["parameter"] == parameter

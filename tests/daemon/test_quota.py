"""A tenant over its bound: its writes are refused, nothing else is. And what counts is what the journal says."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daemon.reads.operator import Operator
from daemon.refusal import Reason, Refused
from daemon.wire.params import StatusParams
from daemon.wire.results import RecoveryOut
from journal.events import MemoryCreated
from journal.record import decode_value, key_seq
from journal.sealing import NONCE_BYTES, TAG_BYTES
from projections import usage
from tests.model.opened import OPERATOR, OpenedService

NOW_MS = 1_767_225_600_000
RECOVERY = RecoveryOut(clean=True, boot_changed=False, from_seq=1, to_seq=1, rebuilt=[], took_ms=0)


def said(text: str = "the kettle is on", **more: Any) -> dict[str, Any]:
    return {"kind": "raw", "origin": "told", "text": text, **more}


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[OpenedService]:
    service = OpenedService(tmp_path / "state", lambda: NOW_MS)
    yield service
    service.close(True)


def told_usage(opened: OpenedService, tenant: str = "default") -> dict[str, Any]:
    """As `status` tells it."""
    operator = Operator(opened.store, "test", None)
    operator.begin(opened.service, RECOVERY)
    found = operator.read("status", StatusParams(tenant=tenant), OPERATOR).usage
    return {"records": found.records, "bytes": found.bytes, "max_bytes": found.max_bytes}


def recounted(opened: OpenedService, tenant: str) -> tuple[int, int]:
    """(records, bytes) of a tenant, from the journal's own tables: what lies in `sealed`, not what records say."""
    env = opened.store.env
    number = opened.service.names.tenant_numbers.get(tenant, 0)
    with env.read() as txn:
        of_record = {
            key_seq(bytes(key)): decode_value(key_seq(bytes(key)), bytes(value)).tenant
            for key, value in txn.cursor(db=env.db("records"))
        }
        sealed = sum(
            len(value) - NONCE_BYTES - TAG_BYTES
            for key, value in txn.cursor(db=env.db("sealed"))
            if of_record[key_seq(bytes(key[:8]))] == number
        )
    records = sum(1 for each in of_record.values() if each == number) if number else 0
    return records, (records * usage.RECORD_BYTES + sealed if number else 0)


def refused(opened: OpenedService, verb: str, **params: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        opened.write(verb, params)
    return caught.value


TEXTS = st.text("abcdefgh é", min_size=1, max_size=300).filter(lambda text: bool(text.strip()))
COMMANDS = st.one_of(
    st.fixed_dictionaries({"do": st.just("say"), "text": TEXTS, "topic": st.booleans(), "session": st.booleans()}),
    st.fixed_dictionaries({"do": st.just("many"), "texts": st.lists(TEXTS, min_size=1, max_size=4)}),
    st.fixed_dictionaries({"do": st.sampled_from(["forget", "recover", "close"]), "pick": st.integers(0, 99)}),
)


@given(commands=st.lists(st.tuples(st.sampled_from(["one", "two"]), COMMANDS), max_size=20))
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_counts_is_what_the_journal_keeps(commands: list[tuple[str, dict[str, Any]]]) -> None:
    with tempfile.TemporaryDirectory(prefix="noctuary-") as name:
        opened = OpenedService(Path(name, "state"), lambda: NOW_MS)
        try:
            made: dict[str, list[str]] = {"one": [], "two": []}
            for tenant, command in commands:
                with suppress(Refused):  # of what can't be recovered, of a key that was used otherwise: no record
                    run(opened, tenant, command, made[tenant])
            for tenant in made:
                told = told_usage(opened, tenant)
                assert (told["records"], told["bytes"]) == recounted(opened, tenant)
        finally:
            opened.close(True)


def run(opened: OpenedService, tenant: str, command: dict[str, Any], made: list[str]) -> None:
    if command["do"] == "say":
        more: dict[str, Any] = {"tenant": tenant, "entities": [{"name": "Ada", "type": "person"}]}
        if command["topic"]:
            more |= {"topic": "kitchen", "tags": ["tea"], "idempotency_key": command["text"][:40].encode().hex()}
        if command["session"]:
            more["session"] = {"agent": "alpha", "key": "one"}
        made.append(opened.write("remember", said(command["text"], **more))["id"])
    elif command["do"] == "many":
        items = [said(text) for text in command["texts"]]
        made += [row["id"] for row in opened.write("remember_many", {"items": items, "tenant": tenant})["results"]]
    elif command["do"] == "close":
        opened.write("session_open", {"agent": "alpha", "key": "one", "tenant": tenant, "project": "tea"})
    elif made:
        opened.write(command["do"], {"id": made[command["pick"] % len(made)], "note": "why", "tenant": tenant})


def test_over_its_bound_a_tenant_is_told_the_bound_and_what_it_keeps(opened: OpenedService) -> None:
    opened.write("remember", said())
    current = told_usage(opened)["bytes"]
    opened.service.quotas.replace({"default": current})
    told = refused(opened, "remember", **said("ten bytes."))
    assert told.reason is Reason.READ_ONLY
    assert (told.data["limit"], told.data["current"]) == (current, current)
    assert told.data["needed_bytes"] >= usage.RECORD_BYTES + 10
    assert told_usage(opened) == {"records": told_usage(opened)["records"], "bytes": current, "max_bytes": current}


def test_a_write_that_fits_exactly_is_taken_and_the_next_is_not(opened: OpenedService) -> None:
    opened.write("remember", said("aaaa"))
    before = told_usage(opened)["bytes"]
    opened.write("remember", said("bbbb"))
    one = told_usage(opened)["bytes"] - before
    opened.service.quotas.replace({"default": before + 2 * one})
    opened.write("remember", said("cccc"))
    assert told_usage(opened)["bytes"] == before + 2 * one
    assert refused(opened, "remember", **said("dddd")).data["needed_bytes"] == one


def test_what_a_batch_did_before_counts(opened: OpenedService) -> None:
    """Of ten items, as many as fit are written; atomic, none is."""
    opened.write("remember", said("aaaa"))
    before = told_usage(opened)["bytes"]
    opened.write("remember", said("bbbb"))
    one = told_usage(opened)["bytes"] - before
    opened.service.quotas.replace({"default": before + 4 * one})
    items = [said(f"it{number:02}") for number in range(10)]
    assert refused(opened, "remember_many", items=items, atomic=True).reason is Reason.READ_ONLY
    assert told_usage(opened)["bytes"] == before + one
    rows = opened.write("remember_many", {"items": items, "atomic": False})["results"]
    assert ["error" in row for row in rows] == [False] * 3 + [True] * 7
    assert {row["error"]["data"]["limit"] for row in rows[3:]} == {before + 4 * one}
    opened.service.quotas.replace({})
    written = opened.write("remember", said("after all"))["id"]
    assert opened.read("get", {"ids": [written]})["memories"][0]["text"] == "after all"
    live = opened.digests()
    opened.rebuild()
    assert opened.digests() == live, "numbers that were handed out to refused writes left a trace"


def test_a_first_write_that_is_too_large_begins_no_tenant(opened: OpenedService) -> None:
    opened.service.quotas.replace({"small": 600})
    assert refused(opened, "remember", **said(), tenant="small").data["current"] == 0
    assert told_usage(opened, "small") == {"records": 0, "bytes": 0, "max_bytes": 600}
    opened.write("remember", said())
    live = opened.digests()
    opened.rebuild()
    assert opened.digests() == live


def test_destroying_closing_reading_and_others_go_on(opened: OpenedService) -> None:
    kept = opened.write("remember", said(session={"agent": "alpha", "key": "one"}, idempotency_key="k1"))
    opened.service.quotas.replace({"default": 1})
    again = opened.write("remember", said(session={"agent": "alpha", "key": "one"}, idempotency_key="k1"))
    assert again["duplicate"] is True, "what was written is answered as the first time"
    assert opened.write("forget", {"id": kept["id"]})["found"] is True
    assert opened.write("session_close", {"session": kept["session"]})["already_closed"] is False
    assert opened.write("lifecycle", {"state": "maintenance"})["state"] == "maintenance"
    assert opened.read("get", {"ids": [kept["id"]]})["memories"][0]["status"] == "forgotten"
    assert refused(opened, "recover", id=kept["id"]).reason is not Reason.NOT_FOUND
    assert opened.write("remember", said(tenant="other"))["id"]


def test_what_changes_nothing_leaves_nothing_where_room_is_short(opened: OpenedService) -> None:
    """Each such command would keep its key: a tenant at its bound could fill the disk with them."""
    kept = opened.write("remember", said())["id"]
    opened.write("forget", {"id": kept})
    opened.write("forget", {"id": kept, "idempotency_key": "kept"})
    opened.service.quotas.replace({"default": 1})
    head = opened.store.log.head().seq
    for number in range(3):
        told = opened.write("forget", {"id": kept, "idempotency_key": f"k{number}"})
        assert told["found"] is True
        assert opened.write("forget", {"id": "raw:0000000000001", "idempotency_key": f"u{number}"})["found"] is False
    assert opened.store.log.head().seq == head
    assert opened.write("forget", {"id": kept, "idempotency_key": "kept"})["duplicate"] is True


def test_a_refused_write_takes_no_numbers_from_the_next(opened: OpenedService) -> None:
    """Rows of memories lie in order of their numbers: a hole would stay for ever."""
    opened.write("remember", said("aaaa"))
    opened.service.quotas.replace({"default": told_usage(opened)["bytes"] + 2000})
    items = [said("bbbb"), said("c" * 3000), said("dddd")]
    rows = opened.write("remember_many", {"items": items, "atomic": False})["results"]
    assert ["error" in row for row in rows] == [False, True, False]
    env = opened.store.env
    with env.read() as txn:
        records = [decode_value(key_seq(bytes(k)), bytes(v)) for k, v in txn.cursor(db=env.db("records"))]
    slots = [record.event.slot for record in records if isinstance(record.event, MemoryCreated)]
    assert slots == [1, 2, 3]

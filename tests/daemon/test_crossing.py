"""An operator in a tenant that is not its own leaves a record there, of its writes and of its questions."""

from __future__ import annotations

import json
import threading
from typing import Any

import msgspec
import pytest

from daemon.caller import Caller
from daemon.crossing import EVERY_MS, REMEMBERED, Crossed, Crossings
from daemon.reads.reading import NotBrief
from daemon.refusal import Reason, Refused
from daemon.wire.verbs import VERBS
from journal import events
from journal.codes import CallerRole
from journal.record import Record
from tests.daemon.told import Told
from tests.model.opened import OPERATOR

OTHER = {"tenant": "other"}
TURN = {"kind": "raw", "origin": "stated", "text": "a"}


def crossings(told: Told) -> list[Record]:
    return [
        record
        for chunk in told.store.log.chunks()
        for record in chunk
        if isinstance(record.event, events.OperatorCrossed)
    ]


def verbs(told: Told) -> list[str]:
    return [record.event.verb for record in crossings(told)]  # type: ignore[union-attr]


def test_a_write_says_so_in_its_own_command(told: Told) -> None:
    told.raw("mine")
    assert crossings(told) == []
    written = told.write("remember", {**TURN, **OTHER, "correlation": "c-1"})
    (found,) = crossings(told)
    assert (found.tenant, found.actor.uid, found.actor.role) == (2, OPERATOR.uid, int(CallerRole.OPERATOR))
    assert found.event == events.OperatorCrossed("remember")
    assert (found.cause.correlation, found.cause.verb) == ("c-1", "remember")
    assert found.cause.first_seq <= written["address"]["seq"] < found.seq == told.store.log.head().seq


def test_a_batch_says_so_once_however_many_it_holds(told: Told) -> None:
    for atomic in (True, False):
        told.write("remember_many", {"items": [TURN] * 3, "atomic": atomic, **OTHER})
    told.write(
        "remember_many", {"items": [{**TURN, "session": "session:0000000000001"}, TURN], "atomic": False, **OTHER}
    )
    assert verbs(told) == ["remember_many"] * 3


def test_what_changes_nothing_leaves_nothing_and_is_answered_alike(told: Told) -> None:
    told.raw("mine")
    keyed = {**TURN, **OTHER, "idempotency_key": "k"}
    first = told.write("remember", keyed)
    head = told.store.log.head()
    again = told.write("remember", keyed)
    assert {**again, "duplicate": None} == {**first, "duplicate": None} and told.store.log.head() == head
    with pytest.raises(Refused):
        told.write("remember", {**TURN, **OTHER, "session": "session:0000000000001"})
    assert told.store.log.head() == head


def test_a_refused_write_and_one_that_changes_nothing_leave_one_an_hour(told: Told) -> None:
    turn = told.raw("a", **OTHER)
    note = told.note(turn, **OTHER)
    told.write("revise", {"id": note, "text": "b", "origin": "stated", **OTHER})
    told.write("hold", {"sel": {"ids": [turn]}, **OTHER})
    told.now_ms += EVERY_MS
    before = len(verbs(told))
    for _ in range(2):
        with pytest.raises(Refused) as refused:
            told.write("revise", {"id": note, "text": "c", "origin": "stated", **OTHER})
        assert refused.value.reason is Reason.CONFLICT
        assert told.write("lifecycle", OTHER)["state"] == "active"
        assert not told.write("forget", {"id": "note:0000000000001", **OTHER})["found"]
        with pytest.raises(Refused) as refused:
            told.write("purge", {"ids": [turn], **OTHER})
        assert refused.value.reason is Reason.LEGAL_HOLD
        batch = {"items": [{**TURN, "session": "session:0000000000001"}], "atomic": False}
        told.write("remember_many", {**batch, **OTHER})
    assert verbs(told)[before:] == ["revise", "lifecycle", "forget", "purge", "remember_many"]
    told.now_ms += EVERY_MS
    told.write("lifecycle", OTHER)
    assert verbs(told)[before + 5 :] == ["lifecycle"]


def test_a_refused_write_of_ones_own_and_one_where_nothing_began_leave_none(told: Told) -> None:
    told.raw("mine")
    head = told.store.log.head()
    told.write("lifecycle", {})
    told.write("lifecycle", {"tenant": "never"})
    assert not told.write("forget", {"id": "note:0000000000001", "tenant": "never"})["found"]
    with pytest.raises(Refused):
        told.write("revise", {"id": "note:0000000000001", "text": "b", "origin": "stated", "tenant": "never"})
    assert told.store.log.head() == head


QUESTIONS: dict[str, dict[str, Any]] = {
    "get": {}, "list": {}, "trace": {}, "sessions": {}, "session": {}, "history": {}, "explain": {}, "review": {},
    "session_provenance": {}, "proposals": {}, "cohorts": {}, "records": {}, "partitions": {},
    "purges": {}, "holds": {},
}  # fmt: skip
OF_THE_STORE = {"hello", "describe", "head", "status", "metrics", "audit", "backup", "rebuild", "cancel", "residue"}
STARTS = {"subscribe"}


def test_every_question_is_one_about_a_tenant_or_one_about_the_store() -> None:
    questions = {name for name, verb in VERBS.items() if not verb.writes}
    assert questions == set(QUESTIONS) | OF_THE_STORE | STARTS


def about(told: Told, verb: str) -> dict[str, Any]:
    told.raw("mine")
    session = told.write("session_open", {"agent": "a", "key": "k", **OTHER})["session"]
    ref = told.raw("a", session=session, **OTHER)
    if verb == "get":
        return {"ids": [ref]}
    if verb in ("trace", "history", "explain"):
        return {"id": ref}
    return {"session": session} if verb in ("session", "session_provenance") else {}


@pytest.mark.parametrize("verb", [*QUESTIONS, "subscribe"])
def test_a_question_leaves_a_record_before_it_is_answered(told: Told, verb: str) -> None:
    params = {**about(told, verb), **OTHER, "correlation": "c-2"}
    if verb == "subscribe":
        typed = msgspec.convert({**OTHER, "correlation": "c-2"}, VERBS[verb].params)
        told.service.read(verb, typed, msgspec.structs.replace(OPERATOR, export=True))
    else:
        told.read(verb, params)
    found = crossings(told)[-1]
    assert (found.event, found.tenant, found.seq) == (events.OperatorCrossed(verb), 2, told.store.log.head().seq)
    assert (found.cause.verb, found.cause.correlation, found.cause.first_seq) == (verb, "c-2", found.seq)


def test_what_a_tenant_is_told_of_it_is_in_its_records(told: Told) -> None:
    told.raw("a", **OTHER)
    told.read("list", OTHER)
    ada = Caller(uid=12_345, role=CallerRole.AGENT, tenant="other")
    params = msgspec.convert({"types": ["operator_crossed"], "level": "skeleton"}, VERBS["records"].params)
    answer = json.loads(msgspec.json.encode(told.service.read("records", params, ada)))
    assert [frame["event"]["verb"] for frame in answer["frames"]] == ["remember", "list"]
    assert all(frame["actor"]["uid"] == OPERATOR.uid for frame in answer["frames"])


def test_asked_again_it_leaves_one_an_hour_for_each_verb_and_tenant(told: Told) -> None:
    for tenant in ("other", "third"):
        told.raw("a", tenant=tenant)
    for _ in range(3):
        told.read("list", OTHER)
        told.read("list", {"tenants": ["other", "third", "default"]})
        told.read("sessions", OTHER)
    assert sorted(verbs(told)[2:]) == ["list", "list", "sessions"]
    told.now_ms += EVERY_MS - 1
    told.read("list", OTHER)
    assert len(verbs(told)) == 5
    told.now_ms += 1
    told.read("list", OTHER)
    assert verbs(told)[5:] == ["list"]
    told.now_ms -= EVERY_MS  # a clock that was set back keeps nobody unseen
    told.read("list", OTHER)
    assert verbs(told)[6:] == ["list"]


def test_a_tenant_does_not_begin_by_being_read(told: Told) -> None:
    told.raw("mine")
    head = told.store.log.head()
    assert told.read("list", {"tenant": "never"})["total"] == 0
    told.read("list", {})
    assert told.store.log.head() == head


def test_what_is_of_the_store_leaves_none(told: Told) -> None:
    told.raw("a", **OTHER)
    head = told.store.log.head()
    told.read("audit", {"rebuild": True})
    told.read("records", {"store_wide": True})
    assert told.store.log.head() == head


def test_an_audit_that_names_a_tenant_is_about_it(told: Told) -> None:
    told.raw("a", **OTHER)
    head = told.store.log.head().seq
    found = told.read("audit", OTHER)["holdings"]
    assert verbs(told)[-1] == "audit" and told.store.log.head().seq == head + 1
    assert (found["tenant"], found["things"]["memories"]["count"], found["readable"]["text"]) == ("other", 1, 1)
    assert found["head"]["seq"] == head + 1 and found["records"] == found["head"]["seq"] - 1, "but for the opening"
    assert told.read("audit", {"tenant": "never"})["holdings"]["records"] == 0


def test_others_leave_none(told: Told) -> None:
    told.raw("a", **OTHER)
    head = told.store.log.head()
    for role in (CallerRole.AGENT, CallerRole.AUDITOR):
        caller = Caller(uid=9, role=role, tenant="default", tenants_read=frozenset({"other"}))
        told.service.read("list", msgspec.convert(OTHER, VERBS["list"].params), caller)
    own = msgspec.structs.replace(OPERATOR, tenant="other")
    told.service.read("list", msgspec.convert(OTHER, VERBS["list"].params), own)
    assert told.store.log.head() == head


def test_a_dry_run_of_a_cohort_is_a_question(told: Told) -> None:
    told.raw("a", **OTHER)
    told.write("cohort", {"action": "quarantine", "sel": {"kinds": ["raw"]}, **OTHER})
    assert verbs(told) == ["remember", "cohort"]


def test_a_question_that_must_be_brief_is_not_answered_where_it_would_wait(told: Told) -> None:
    """The loop's thread never waits for a commit."""
    ref = told.raw("a", **OTHER)
    params = msgspec.convert({"ids": [ref], **OTHER}, VERBS["get"].params)
    with pytest.raises(NotBrief):
        told.service.read("get", params, OPERATOR, budget=100)
    told.service.read("get", params, OPERATOR)
    assert told.service.read("get", params, OPERATOR, budget=100).memories


def test_a_full_disk_keeps_no_question_from_being_answered(told: Told) -> None:
    told.raw("a", **OTHER)
    told.service.space.set_thresholds(1 << 60)
    head = told.store.log.head()
    assert told.read("list", OTHER)["total"] == 1
    assert told.store.log.head() == head
    told.service.space.set_thresholds(1 << 20)
    assert told.read("list", OTHER)["total"] == 1
    assert verbs(told)[-1] == "list", "what could not be recorded is so the next time"


def test_a_writer_that_ended_keeps_no_question_from_being_answered(told: Told) -> None:
    told.raw("a", **OTHER)
    told.service.stop()
    assert told.read("list", OTHER)["total"] == 1
    told.service.stop = lambda: None  # type: ignore[method-assign]


def test_many_at_once_leave_one() -> None:
    written: list[Crossed] = []
    found = Crossings(lambda name: True, written.append)
    operator = Caller(uid=1, role=CallerRole.OPERATOR)
    threads = [threading.Thread(target=found.record, args=("get", operator, ("a", "b"), 5)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(each.tenant for each in written) == ["a", "b"]


def test_what_is_remembered_is_bounded() -> None:
    found = Crossings(lambda name: True, lambda crossed: None)
    for uid in range(REMEMBERED + 1):
        found.record("get", Caller(uid=uid, role=CallerRole.OPERATOR), ("a",), 5)
    assert not found.is_due("get", Caller(uid=REMEMBERED, role=CallerRole.OPERATOR), ("a",), 5)
    assert found.is_due("get", Caller(uid=0, role=CallerRole.OPERATOR), ("a",), 5)


def test_a_refused_record_is_tried_again() -> None:
    tried: list[Crossed] = []

    def refuse(crossed: Crossed) -> None:
        tried.append(crossed)
        raise Refused(Reason.READ_ONLY, "full")

    found = Crossings(lambda name: True, refuse)
    for _ in range(2):
        found.record("get", Caller(uid=1, role=CallerRole.OPERATOR), ("a",), 5)
    assert len(tried) == 2

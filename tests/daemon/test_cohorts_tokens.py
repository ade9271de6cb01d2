"""The token of a dry run: good for what was found, once, and for nothing else."""

from __future__ import annotations

import base64
from concurrent.futures import Future
from typing import Any

import msgspec
import pytest

from daemon.commands.table import prepare
from daemon.reads.resolving import find
from daemon.refusal import Reason
from daemon.selections import bound_to, seal, unseal
from daemon.service import Service
from daemon.waiting import Job
from daemon.wire.params import Selection
from daemon.wire.verbs import VERBS
from journal import events
from tests.daemon.cohorted import BAD, GOOD, OF_BAD, Cohorted, refused
from tests.model.opened import OPERATOR


def test_a_token_is_good_for_what_it_was_given_for_only(held: Cohorted) -> None:
    held.note(BAD)
    token = held.look(OF_BAD)["token"]
    for change in (
        {"action": "demote"}, {"downstream": True}, {"sel": {"producer": {"model": "m"}}}, {"tenant": "other"},
    ):  # fmt: skip
        asked = {"sel": OF_BAD, "action": "quarantine", "token": token, **change}
        assert refused(Reason.INVALID_INPUT, held.write, "cohort", asked).data["parameter"] == "token"
    data = bytearray(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    for place in range(0, len(data), 7):
        forged = bytes(data[:place]) + bytes([data[place] ^ 1]) + bytes(data[place + 1 :])
        text = base64.urlsafe_b64encode(forged).decode().rstrip("=")
        refused(Reason.INVALID_INPUT, held.look, OF_BAD, token=text)
    last = token[:-1] + chr(ord(token[-1]) + 1)  # bits of the last letter that mean nothing
    assert base64.urlsafe_b64decode(last + "=" * (-len(last) % 4)) == bytes(data)
    for text in ("x", "é", token + "A", token[:-4], "=" * 8, token + "=", token + "==", last):
        refused(Reason.INVALID_INPUT, held.look, OF_BAD, token=text)


def test_another_spelling_of_the_selection_is_the_same_selection(held: Cohorted) -> None:
    held.note(BAD)
    sel = {**OF_BAD, "kinds": ["note", "belief"], "since": "2026-01-01T01:00:00+01:00"}
    other = {"since": "2026-01-01T00:00:00.000Z", "kinds": ["belief", "note", "note"], **OF_BAD}
    assert held.look(other, token=held.look(sel)["token"])["done"] == 1


def test_a_selection_that_finds_something_else_is_a_conflict(held: Cohorted) -> None:
    held.note(BAD)
    active = {**OF_BAD, "status": ["active"]}
    second = held.note(BAD)
    token = held.look(active)["token"]
    held.note(GOOD)
    third = held.note(BAD)
    assert refused(Reason.CONFLICT, held.look, active, token=token).data["current"] == 3
    held.write("forget", {"id": third})
    held.write("forget", {"id": second})
    refused(Reason.CONFLICT, held.look, active, token=token)
    held.write("recover", {"id": second})
    assert held.look(active, token=token)["done"] == 2, "what is found is what was found"


def test_a_token_of_before_a_restore_is_a_conflict(held: Cohorted) -> None:
    held.note(BAD)
    token = held.look(OF_BAD)["token"]
    hash_key = held.store.vault.hash_key
    sel = msgspec.convert(OF_BAD, Selection)
    bound = bound_to("default", "cohort", "quarantine", False, sel)
    of_another = unseal(token, hash_key, bound, held.store.epoch)._replace(epoch=held.store.epoch + 1)
    refused(Reason.CONFLICT, held.look, OF_BAD, token=seal(of_another, hash_key, bound))


def test_a_token_that_was_used_answers_with_its_cohort(held: Cohorted) -> None:
    held.note(BAD)
    sel = {**OF_BAD, "status": ["active"]}
    token = held.look(sel)["token"]
    first = held.look(sel, token=token)
    seq = held.store.log.head().seq
    again = held.look(sel, token=token)
    assert (again["cohort"], again["done"], again["duplicate"]) == (first["cohort"], 1, True)
    assert held.store.log.head().seq == seq
    held.lift(first["cohort"])
    assert refused(Reason.CONFLICT, held.look, sel, token=token).data["current"] == "lifted"


def test_a_repeated_answer_tells_what_the_first_told(held: Cohorted) -> None:
    note = held.note(BAD)
    held.act({"ids": [note]})
    token = held.look(OF_BAD)["token"]
    first = held.look(OF_BAD, token=token)
    assert first["held_by_others"] == 1
    assert held.look(OF_BAD, token=token) == {**first, "duplicate": True}


def test_a_token_that_nobody_used_makes_a_cohort_of_its_own(held: Cohorted) -> None:
    """Also where another one, of the same record, did the same to the same memories."""
    note = held.note(BAD)
    for_all, by_id = held.look(OF_BAD)["token"], held.look({"ids": [note]})["token"]
    other = held.look({"ids": [note]}, token=by_id)
    mine = held.look(OF_BAD, token=for_all)
    assert mine["cohort"] != other["cohort"] and "duplicate" not in mine and mine["held_by_others"] == 1
    held.lift(other["cohort"])
    assert held.memory(note)["status"] == "quarantined", "by mine"
    assert held.look(OF_BAD, token=for_all)["cohort"] == mine["cohort"]
    held.lift(mine["cohort"])
    assert held.memory(note)["status"] == "active"


def test_two_looks_of_the_same_selection_are_two_tokens(held: Cohorted) -> None:
    held.note(BAD)
    one, two = (held.look(OF_BAD)["token"] for _ in range(2))
    assert held.look(OF_BAD, token=one)["cohort"] != held.look(OF_BAD, token=two)["cohort"]


def test_a_token_used_between_looking_and_deciding_answers_with_its_cohort(held: Cohorted, monkeypatch: Any) -> None:
    held.note(BAD)
    token = held.look(OF_BAD)["token"]
    found_by, asked = find, {"sel": OF_BAD, "action": "quarantine", "token": token}
    made: list[Any] = []

    def and_then(*args: Any) -> Any:
        found = found_by(*args)
        if not made:
            made.append(None)
            made[0] = held.write("cohort", asked)["cohort"]
        return found

    monkeypatch.setattr("daemon.looking.find", and_then)
    again = held.look(OF_BAD, token=token)
    assert (again["cohort"], again["duplicate"]) == (made[0], True)


def test_what_a_cohort_keeps_of_its_token_says_nothing_of_what_the_selection_asks_for(held: Cohorted) -> None:
    """That can be content, and the record outlasts a purge."""
    held.note(BAD)
    hash_key = held.store.vault.hash_key
    sel = {"text": "note", **OF_BAD}
    text = held.look(sel)["token"]
    cohort = held.look(sel, token=text)["cohort"]
    bound = bound_to("default", "cohort", "quarantine", False, msgspec.convert(sel, Selection))
    token = unseal(text, hash_key, bound, held.store.epoch)
    (kept,) = (record.event.token for chunk in held.store.log.chunks() for record in chunk
               if isinstance(record.event, events.CohortMade))  # fmt: skip
    assert kept == token.fingerprint(hash_key) != token._replace(look=token.look ^ 1).fingerprint(hash_key)
    assert kept.hex() not in text and kept not in base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    assert cohort == held.look(sel, token=text)["cohort"]


def test_an_idempotency_key_answers_with_the_cohort(held: Cohorted) -> None:
    held.note(BAD)
    token = held.look({**OF_BAD, "since": "2001-01-01T00:00:00Z"})["token"]
    first = held.look({**OF_BAD, "since": "2001-01-01T00:00:00Z"}, token=token, idempotency_key="once")
    held.lift(first["cohort"])
    held.note(BAD)
    again = held.look({**OF_BAD, "since": "2001-01-01T00:00:00.000Z"}, token=token, idempotency_key="once")
    assert again == {**first, "duplicate": True}
    refused(Reason.CONFLICT, held.look, OF_BAD, "demote", token=token, idempotency_key="once")


@pytest.mark.parametrize(
    ("sel", "action", "between", "conflicts"),
    [
        (OF_BAD, "quarantine", ("remember", {"producer": GOOD}), False),
        (OF_BAD, "quarantine", ("remember", {"producer": {"agent": "new", "extractor": "v1"}}), True),
        (OF_BAD, "demote", ("remember", {"producer": BAD}), True),
        (OF_BAD, "demote", ("forget", {}), False),
        ({**OF_BAD, "status": ["active"]}, "demote", ("forget", {}), True),
        ({"tags": ["t"]}, "demote", ("revise", {"disposition": "move", "fields": {"topic": "x"}}), False),
        ({"tags": ["t"]}, "demote", ("revise", {"disposition": "move", "fields": {"tags": ["u"]}}), True),
        ({"tags": ["t"]}, "demote", ("remember", {"tags": ["u"]}), False),
        ({"tags": ["t"]}, "demote", ("remember", {"tags": ["t", "u"]}), True),
        ({"text": "NOTE"}, "demote", ("remember", {}), False),
        ({"text": "NOTE"}, "demote", ("remember", {"text": "another note"}), True),
        ({"subject": "ann"}, "demote", ("remember", {"subject": "ben"}), False),
        ({"subject": "ann"}, "demote", ("forget", {}), False),
        ({"subject": "ann", "status": ["active"]}, "demote", ("forget", {}), True),
        (OF_BAD, "demote", ("revise", {"disposition": "move", "fields": {"topic": "x"}}), False),
    ],
)
def test_what_is_written_between_looking_and_deciding_counts(
    held: Cohorted, monkeypatch: Any, sel: dict[str, Any], action: str, between: Any, conflicts: bool
) -> None:
    """The read is done; before the writer decides, something else is written."""
    turn = held.turn("said")
    note = held.note(BAD, turn, tags=["t"], subject="ann")
    token = held.look(sel, action)["token"]
    verb, more = between
    params = {"id": note, **more}
    if verb == "remember":
        params = {"kind": "note", "text": "n", "origin": "inferred", "derived_from": [turn], **more}
    found_by = find

    def and_then(*args: Any) -> Any:
        found = found_by(*args)
        write_beside(held.service, verb, params)
        return found

    monkeypatch.setattr("daemon.looking.find", and_then)
    if conflicts:
        refused(Reason.CONFLICT, held.look, sel, action, token=token)
    else:
        assert held.look(sel, action, token=token)["done"] == 1


@pytest.mark.parametrize("sel", [OF_BAD, {"tags": ["t"]}])
def test_what_another_tenant_writes_meanwhile_is_no_matter(
    held: Cohorted, monkeypatch: Any, sel: dict[str, Any]
) -> None:
    """Nor is it told, nor taken for damage."""
    held.note(BAD, tags=["t"])
    token = held.look(sel)["token"]
    found_by = find

    def and_then(*args: Any) -> Any:
        found = found_by(*args)
        write_beside(held.service, "remember", {"kind": "raw", "origin": "told", "text": "x", "tags": ["t"]}, "other")
        return found

    monkeypatch.setattr("daemon.looking.find", and_then)
    assert held.look(sel, token=token)["done"] == 1
    assert held.store.findings == []


def write_beside(service: Service, verb: str, params: dict[str, Any], tenant: str = "default") -> None:
    """A write from another thread than the one that waits for answers."""
    typed = msgspec.convert(params, VERBS[verb].params)
    write = prepare(verb, typed, tenant, OPERATOR, service.store.vault.hash_key)
    awaited: Future[Any] = Future()
    service.writer.submit(Job(write, OPERATOR, None, awaited, 1))
    awaited.result(timeout=30)

"""Idempotency keys: another request under a used key is a conflict, also where what was asked is purged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from daemon.commands.purging import digested
from daemon.prepare import request_digest
from daemon.refusal import Reason
from daemon.wire.verbs import VERBS
from journal import events
from projections import tables
from projections.tenancy import crossing
from tests.daemon.cohorted import refused
from tests.daemon.purged import Purging

UNKNOWN = "raw:0000000000001"


@pytest.fixture
def purging(tmp_path: Path) -> Iterator[Purging]:
    opened = Purging(tmp_path / "state")
    try:
        yield opened
    finally:
        opened.close(True)


def is_another(purging: Purging, verb: str, params: dict[str, Any]) -> bool:
    error = refused(Reason.CONFLICT, purging.write, verb, params)
    return bool(error.data["parameter"] == "idempotency_key")


# --- what a keyed answer is about ---------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["forget", "purge"])
def test_a_key_about_what_is_not_there_leads_to_nobody(purging: Purging, verb: str) -> None:
    """The client makes keys by itself: a mistyped id must not look like damage ever after."""
    purging.capture("here")
    other = purging.capture("another tenant's", tenant="other")
    for number, ref in enumerate((UNKNOWN, other)):
        named = {"ids": [ref]} if verb == "purge" else {"id": ref}
        params = {**named, "idempotency_key": f"k{number}"}
        first = purging.write(verb, params)
        assert purging.write(verb, params) == {**first, "duplicate": True}
    keyed = purging.records("Keyed")
    assert len(keyed) == 2 and all(record.event.memories == () for record in keyed)
    assert purging.read("audit", {"rebuild": True})["findings"] == []
    assert purging.rebuilt_alike()


def test_an_entry_about_nobody_that_an_earlier_version_left_is_no_finding(purging: Purging) -> None:
    """Its record stays as it is."""
    purging.capture("here")
    purging.append(events.Keyed(key=bytes(16), result=b"\x80", memories=(77,)))
    assert list(crossing(purging.state(), lambda: None)) == []
    assert purging.read("audit", {"rebuild": True})["findings"] == []
    with purging.projections.snapshot() as snapshot:
        assert len(list(snapshot.prefix(tables.KEYED_MEMORIES, b""))) == 1


# --- another request ----------------------------------------------------------------------------------


def test_the_key_of_a_purge_answers_no_other_purge(purging: Purging) -> None:
    a, b = purging.capture("a"), purging.capture("b")
    first = purging.purge(a, UNKNOWN, idempotency_key="k")
    for other in (
        {"ids": [b]}, {"ids": [a]}, {"ids": [UNKNOWN, a]}, {"ids": [a, UNKNOWN], "cascade": "derived"},
        {"ids": [a, UNKNOWN], "reason": "privacy"}, {"ids": [a, UNKNOWN], "block_reingest": True},
        {"ids": [a, UNKNOWN], "dry_run": True}, {"sel": {"ids": [b]}},
    ):  # fmt: skip
        assert is_another(purging, "purge", {**other, "idempotency_key": "k"}), other
    assert purging.status(b) == "active"
    again = purging.purge(a, UNKNOWN, idempotency_key="k")
    assert again == {**first, "duplicate": True, "state": "purged"}
    assert [each["found"] for each in again["results"]] == [True, False]
    purging.reopen(True)
    assert purging.purge(a, UNKNOWN, idempotency_key="k") == again


def test_the_key_of_a_purge_that_found_nothing_to_do_answers_as_it_did(purging: Purging) -> None:
    ref = purging.capture("a")
    done = purging.purge(ref)
    first = purging.purge(ref, UNKNOWN, idempotency_key="k")
    assert first["results"][0]["receipt"] == done["receipt"] and first["receipt"] is None
    assert purging.purge(ref, UNKNOWN, idempotency_key="k") == {**first, "duplicate": True}
    assert is_another(purging, "purge", {"ids": [ref], "idempotency_key": "k"})


def test_the_key_of_a_purge_by_selection_is_bound_to_what_it_found(purging: Purging) -> None:
    refs = [purging.capture("anna", project="p"), purging.capture("bob", project="q")]
    sel = {"text": "anna"}
    token = purging.select(sel)["token"]
    other = purging.select({"text": "bob"})["token"]
    first = purging.select(sel, token=token, idempotency_key="k")
    again = purging.select(sel, token=token, idempotency_key="k")
    assert again == {**first, "duplicate": True, "state": "purged"} and again["results"][0]["memory"] == refs[0]
    assert is_another(purging, "purge", {"sel": {"text": "bob"}, "token": other, "idempotency_key": "k"})
    assert is_another(purging, "purge", {"sel": sel, "token": token, "reason": "privacy", "idempotency_key": "k"})
    assert purging.status(refs[1]) == "active"


def test_what_a_selection_said_is_in_nothing_that_is_kept_of_its_key(purging: Purging) -> None:
    """Else whoever has the directory could test guesses of what was purged."""
    purging.capture("anna")
    sel = {"text": "anna"}
    token = purging.select(sel)["token"]
    asked = ({"sel": sel, "token": token}, {"sel": {"text": "nobody"}, "token": token[:-4] + "AAAA"})
    typed = [msgspec.convert(each, VERBS["purge"].params) for each in asked]
    digests = {request_digest(bytes(32), "purge", digested(params)) for params in typed}
    assert len(digests) == 1


OTHERS: dict[str, dict[str, Any]] = {
    "forget": {}, "recover": {}, "verify": {}, "reaffirm": {}, "reinforce": {}, "weaken": {},
    "mark": {"mark": "archived"}, "revise": {"text": "t", "origin": "inferred"},
}  # fmt: skip


@pytest.mark.parametrize("verb", [*OTHERS, "session_open", "vacuum", "hold", "relate", "remember"])
def test_the_key_of_a_purge_answers_no_other_verb(purging: Purging, verb: str) -> None:
    a, b = purging.capture("a"), purging.capture("b")
    purging.purge(a, idempotency_key="k")
    special: dict[str, dict[str, Any]] = {
        "session_open": {"agent": "x", "key": "y"}, "vacuum": {"force": True}, "hold": {"sel": {"ids": [b]}},
        "relate": {"from": b, "to": purging.capture("c"), "type": "extends"},
        "remember": {"kind": "raw", "origin": "stated", "text": "t"},
    }  # fmt: skip
    params = special.get(verb) or {"id": b, **OTHERS.get(verb, {})}
    head = purging.store.log.head().seq
    assert is_another(purging, verb, {**params, "idempotency_key": "k"})
    assert purging.store.log.head().seq == head


def test_the_key_about_what_is_purged_answers_its_own_request_only(purging: Purging) -> None:
    """The digest went with the memory; the verb and the ids that it named are open."""
    first, other = purging.capture("first"), purging.capture("other")
    purging.do("forget", first, idempotency_key="f1")
    purging.purge(first)
    head = purging.store.log.head().seq
    again = purging.do("forget", first, idempotency_key="f1")
    assert (again["duplicate"], again["state"]) == (True, "purged")
    assert is_another(purging, "forget", {"id": other, "idempotency_key": "f1"})
    assert is_another(purging, "verify", {"id": first, "idempotency_key": "f1"})
    assert is_another(purging, "purge", {"ids": [other], "idempotency_key": "f1"})
    assert purging.store.log.head().seq == head and purging.status(other) == "active"


def test_a_purged_memory_is_not_told_as_forgotten(purging: Purging) -> None:
    ref = purging.capture("a")
    purging.do("forget", ref)
    purging.purge(ref)
    assert purging.do("forget", ref) == {"found": True, "tombstoned_at": None, "flagged": [], "state": "purged"}

"""Behind a purge a key gives nothing away: a right guess of what a request said is answered as a wrong one is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon.refusal import Refused
from tests.daemon.told import Told

SECRET, WRONG = "zqsecret shared text", "zqsecret of another"


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Told]:
    told = Told(tmp_path / "state")
    yield told
    told.close(True)


def answer(told: Told, verb: str, **params: Any) -> str:
    """What a client can tell apart."""
    try:
        return "duplicate" if told.write(verb, params).get("duplicate") else "done"
    except Refused as refused:
        return refused.reason.wire


def test_a_hold_that_changed_nothing(told: Told) -> None:
    ref = told.raw(SECRET)
    told.write("hold", {"sel": {"ids": [ref]}})
    assert answer(told, "hold", sel={"text": SECRET}, idempotency_key="k") == "done"
    assert answer(told, "hold", sel={"text": WRONG}, idempotency_key="k") == "conflict"
    told.write("hold", {"sel": {"ids": [ref]}, "on": False})
    told.write("purge", {"ids": [ref]})
    guesses = {answer(told, "hold", sel={"text": text}, idempotency_key="k") for text in (SECRET, WRONG)}
    assert guesses == {"duplicate"}


def test_a_cohort_selected_by_what_its_members_said(told: Told) -> None:
    ref = told.note(told.raw(SECRET), text=SECRET)
    token = told.write("cohort", {"sel": {"text": SECRET}, "action": "quarantine"})["token"]
    asked = {"action": "quarantine", "token": token, "idempotency_key": "k"}
    assert answer(told, "cohort", sel={"text": SECRET}, **asked) == "done"
    told.write("purge", {"ids": [ref]})
    guesses = {answer(told, "cohort", sel={"text": text}, **asked) for text in (SECRET, WRONG)}
    assert len(guesses) == 1


def test_a_batch_with_an_item_that_was_written_before(told: Told) -> None:
    def items(text: str) -> list[dict[str, Any]]:
        own = {"kind": "raw", "origin": "told", "text": text, "idempotency_key": "item"}
        return [own, {"kind": "raw", "origin": "told", "text": "beside"}]

    (alone, _) = items(SECRET)
    ref = told.write("remember", alone)["id"]
    assert answer(told, "remember_many", items=items(SECRET), idempotency_key="k") == "done"
    told.write("purge", {"ids": [ref]})
    guesses = {answer(told, "remember_many", items=items(text), idempotency_key="k") for text in (SECRET, WRONG)}
    assert guesses == {"duplicate"}

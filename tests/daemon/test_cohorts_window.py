"""The ends of a cohort's window decide for what is written between looking and deciding too."""

from __future__ import annotations

from typing import Any

import pytest

from daemon.reads.resolving import find
from daemon.refusal import Reason
from journal.times import format_ms
from tests.daemon.cohorted import BAD, OF_BAD, Cohorted, refused
from tests.daemon.test_cohorts_tokens import write_beside


@pytest.mark.parametrize(
    ("ends", "by_ms", "conflicts"),
    [("until", -1, True), ("until", 0, False), ("since", -1, False), ("since", 0, True)],
)
def test_what_is_written_at_the_last_millisecond_is_behind_the_window_and_at_the_first_in_it(
    held: Cohorted, monkeypatch: Any, ends: str, by_ms: int, conflicts: bool
) -> None:
    turn = held.turn("said")
    noted = [held.note(BAD, turn)]
    end_ms = held.now_ms + (1000 if ends == "until" else 0)
    if ends == "since":
        held.now_ms += 10
        end_ms = held.now_ms
        noted = [held.note(BAD, turn)]
    sel = {**OF_BAD, ends: format_ms(end_ms)}
    looked = held.look(sel)
    assert looked["ids"] == noted
    params = {"kind": "note", "text": "n", "origin": "inferred", "derived_from": [turn], "producer": BAD}

    def and_then(*args: Any) -> Any:
        found = find(*args)
        held.now_ms = end_ms + by_ms
        write_beside(held.service, "remember", params)
        return found

    monkeypatch.setattr("daemon.looking.find", and_then)
    if conflicts:
        refused(Reason.CONFLICT, held.look, sel, token=looked["token"])
    else:
        assert held.look(sel, token=looked["token"])["done"] == 1

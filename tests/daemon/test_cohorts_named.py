"""Who holds a memory is said: in refusals, in what an action and a lift have done, and in the list of cohorts."""

from __future__ import annotations

from typing import Any

import pytest

from daemon.cli import render
from daemon.refusal import Reason
from tests.daemon.cohorted import BAD, OF_BAD, Cohorted, refused


@pytest.fixture
def note(held: Cohorted) -> str:
    return held.note(BAD)


def test_a_quarantined_refusal_names_the_cohorts_and_no_others(held: Cohorted, note: str) -> None:
    demoted = held.act(OF_BAD, "demote")
    first, second = held.act(OF_BAD), held.act(OF_BAD)
    error = refused(Reason.QUARANTINED, held.write, "verify", {"id": note})
    assert first in error.message
    assert second in error.message
    assert demoted not in error.message
    assert error.data == {"parameter": "id", "ids": [note], "current": "quarantined"}
    held.lift(first)
    assert first not in refused(Reason.QUARANTINED, held.write, "verify", {"id": note}).message


def test_a_source_that_is_quarantined_is_named_with_its_cohort(held: Cohorted, note: str) -> None:
    cohort = held.act(OF_BAD)
    error = refused(Reason.QUARANTINED, held.belief, note)
    assert note in error.message
    assert cohort in error.message


def test_of_many_cohorts_some_are_named_and_the_rest_counted(held: Cohorted, note: str) -> None:
    made = [held.act(OF_BAD) for _ in range(5)]
    message = refused(Reason.QUARANTINED, held.write, "verify", {"id": note}).message
    assert all(cohort in message for cohort in made[:3])
    assert "and 2 more" in message


@pytest.mark.parametrize("action", ["quarantine", "demote"])
def test_what_another_cohort_holds_is_counted_when_it_is_done_and_when_it_is_lifted(
    held: Cohorted, note: str, action: str
) -> None:
    def act(sel: dict[str, Any]) -> dict[str, Any]:
        return held.look(sel, action, token=held.look(sel, action)["token"])

    first = act({"ids": [note]})
    other = held.note(BAD)
    second = act({"ids": [note, other]})
    assert (first["done"], first["held_by_others"]) == (1, 0)
    assert (second["done"], second["held_by_others"]) == (2, 1)
    assert "another cohort held 1 of them" in render.render(second, "cohort")
    lifted = held.lift(second["cohort"])
    assert (lifted["done"], lifted["held_by_others"]) == (2, 1)
    assert "1 memory given back; 1 stay as they are" in " ".join(render.render(lifted, "lift").split())
    assert held.lift(first["cohort"])["held_by_others"] == 0


def test_a_cohort_of_ids_shows_some_of_them(held: Cohorted) -> None:
    notes = [held.note(BAD) for _ in range(25)]
    held.act({"ids": notes})
    (row,) = held.read("cohorts", {})["cohorts"]
    assert row["ids"] == notes[:20]
    shown = " ".join(render.render(held.read("cohorts", {}), "cohorts").split())
    assert notes[0] in shown
    assert "and 22 more" in shown


def test_a_cohort_of_a_session_names_it(held: Cohorted, note: str) -> None:
    turn = held.turn("said")
    session = held.read("get", {"ids": [turn]})["memories"][0]["session"]
    held.act({"session": session, "kinds": ["raw"]})
    (row,) = held.read("cohorts", {})["cohorts"]
    assert row["session"] == session
    assert f"in {session}" in " ".join(render.render(held.read("cohorts", {}), "cohorts").split())

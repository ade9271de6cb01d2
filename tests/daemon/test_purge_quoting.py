"""What a model says in words of a turn is a copy of that turn: it says so, and goes with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.purged import Purging

MODEL = {"agent": "a", "model": "m-1"}
SECRET = "zqsecret street seven"


@pytest.fixture
def purging(tmp_path: Path) -> Iterator[Purging]:
    opened = Purging(tmp_path / "state")
    try:
        yield opened
    finally:
        opened.close(True)


def spoken(purging: Purging, text: str) -> str:
    return purging.turn(text)


def claim(purging: Purging, *sources: str, **more: Any) -> str:
    params = {
        "kind": "note", "origin": "stated", "text": SECRET, "producer": MODEL, "derived_from": list(sources), **more,
    }  # fmt: skip
    return str(purging.write("remember", params)["id"])


def quoted(purging: Purging, ref: str) -> list[str]:
    return list(purging.read("explain", {"id": ref})["quoted_from"])


@pytest.mark.parametrize("named_as", ["source", "evidence"])
def test_a_note_in_the_words_of_a_turn_goes_with_it_whatever_the_cascade(purging: Purging, named_as: str) -> None:
    turn, other = spoken(purging, f"I live in {SECRET}, dear"), spoken(purging, "nothing to do with it")
    note = claim(purging, turn) if named_as == "source" else claim(purging, other, evidence=[turn])
    inferred = claim(purging, turn, origin="inferred", text="where I live")
    assert quoted(purging, note) == [turn] and quoted(purging, inferred) == []
    result = purging.purge(turn)
    assert [each["memory"] for each in result["results"]] == [turn, note]
    assert result["results"][0]["quoting_purged"] == [note] and purging.readable(SECRET) == []
    assert (purging.status(inferred), purging.status(other)) == ("active", "active")
    assert purging.rebuilt_alike()


def test_it_is_the_turn_that_has_the_words(purging: Purging) -> None:
    other, turn = spoken(purging, "something else"), spoken(purging, SECRET)
    note = claim(purging, other, turn)
    assert quoted(purging, note) == [turn]
    purging.purge(other)
    assert purging.status(note) == "active"


def test_a_turn_of_the_same_batch_is_quoted_as_well(purging: Purging) -> None:
    turn = {"kind": "raw", "role": "user", "text": f"in {SECRET}", "session": {"agent": "a", "key": "k"}}
    note = {"kind": "note", "origin": "stated", "text": SECRET, "producer": MODEL, "derived_from": ["@0"]}
    refs = [each["id"] for each in purging.write("remember_many", {"items": [turn, note]})["results"]]
    assert quoted(purging, refs[1]) == refs[:1]
    purging.purge(refs[0])
    assert purging.status(refs[1]) == "purged"


def test_a_revision_that_took_its_words_from_a_turn_goes_with_it(purging: Purging) -> None:
    turn = spoken(purging, f"in {SECRET}")
    note = claim(purging, turn, origin="inferred", text="somewhere")
    revised = str(purging.do("revise", note, text=SECRET, origin="stated", fields={})["id"])
    assert quoted(purging, revised) == [turn]
    purging.purge(turn)
    assert (purging.status(revised), purging.status(note)) == ("purged", "superseded")
    assert purging.readable(SECRET) == []


def test_without_a_model_nothing_was_proven_and_nothing_is_quoted(purging: Purging) -> None:
    note = claim(purging, spoken(purging, SECRET), producer={"agent": "a"})
    assert quoted(purging, note) == []

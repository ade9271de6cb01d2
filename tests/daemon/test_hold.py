"""hold and holds: what is held can't be purged, directly, as a copy, or by a cascade; forget is allowed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.refusal import Reason
from journal.codes import Mark
from journal.tsid import parse_memory_ref
from tests.daemon.cohorted import refused
from tests.daemon.purged import Purging
from tests.daemon.slept import fact


@pytest.fixture
def purging(tmp_path: Path) -> Iterator[Purging]:
    opened = Purging(tmp_path / "state")
    try:
        yield opened
    finally:
        opened.close(True)


def test_a_purge_of_anything_held_is_refused_as_a_whole(purging: Purging) -> None:
    free, held = purging.capture("free"), purging.capture("held")
    assert purging.hold(held) == {"held": True, "count": 1, "changed": [held]}
    head, keyed = purging.store.log.head().seq, purging.store.vault.shredded_slots(100)
    error = refused(Reason.LEGAL_HOLD, purging.purge, free, held)
    assert error.data["ids"] == [held]
    assert refused(Reason.LEGAL_HOLD, lambda: purging.purge(free, held, dry_run=True)).data["ids"] == [held]
    assert refused(Reason.LEGAL_HOLD, purging.select, {"kinds": ["raw"]}).data["ids"] == [held]
    assert (purging.store.log.head().seq, purging.store.vault.shredded_slots(100)) == (head, keyed)
    assert purging.memory(free)["text"] == "free"
    assert "held" in purging.memory(held)["marks"]


def test_a_held_copy_and_a_held_derivative_refuse_it_too(purging: Purging) -> None:
    turn = purging.turn("quoted")
    (copy,) = purging.commit([fact(turn, text="quoted too", quoted_from=[turn])])["notes"]
    purging.hold(copy)
    assert refused(Reason.LEGAL_HOLD, purging.purge, turn).data["ids"] == [copy]
    source = purging.capture("source")
    note = purging.note(None, source)
    purging.hold(note)
    assert refused(Reason.LEGAL_HOLD, lambda: purging.purge(source, cascade="derived")).data["ids"] == [note]
    assert purging.purge(source)["count"] == 1


def test_a_token_from_before_a_hold_does_nothing(purging: Purging) -> None:
    ref = purging.capture("a", project="p")
    token = purging.select({"project": "p"})["token"]
    purging.hold(ref)
    assert refused(Reason.LEGAL_HOLD, lambda: purging.select({"project": "p"}, token=token)).data["ids"] == [ref]


def test_what_is_held_can_be_forgotten_and_recovered_and_released(purging: Purging) -> None:
    ref = purging.capture("kept for discovery")
    purging.hold(ref)
    assert purging.do("forget", ref)["found"] and purging.do("recover", ref)
    assert purging.memory(ref)["text"] == "kept for discovery"
    assert purging.hold(ref, on=False) == {"held": False, "count": 1, "changed": [ref]}
    assert purging.purge(ref)["count"] == 1


def test_twice_changes_nothing_and_leaves_no_record(purging: Purging) -> None:
    ref = purging.capture("a")
    purging.hold(ref)
    head = purging.store.log.head().seq
    assert purging.hold(ref) == {"held": True, "count": 1, "changed": []}
    assert purging.store.log.head().seq == head


def test_what_is_purged_or_unknown_is_not_held(purging: Purging) -> None:
    ref = purging.capture("a")
    purging.purge(ref)
    assert purging.hold(ref, "raw:0000000000001") == {"held": True, "count": 0, "changed": []}


def test_holds_are_listed_with_their_notes_page_by_page(purging: Purging) -> None:
    refs = [purging.capture(f"canary {number}") for number in range(5)]
    purging.hold(*refs[:2], note="case 1")
    purging.hold(*refs[2:])
    page = purging.read("holds", {"limit": 3})
    assert [(row["memory"], row["note"]) for row in page["holds"]] == [
        (refs[0], "case 1"), (refs[1], "case 1"), (refs[2], None),
    ]  # fmt: skip
    assert page["total"] == 5
    rest = purging.read("holds", {"limit": 3, "cursor": page["next_cursor"]})
    assert [row["memory"] for row in rest["holds"]] == refs[3:] and rest["next_cursor"] is None
    assert purging.read("holds", {"tenant": "other"})["holds"] == []
    purging.hold(refs[0], on=False)
    purging.purge(refs[0])
    assert len(purging.readable("case 1")) == 1, "the note of the other one stays"
    assert [row["memory"] for row in purging.read("holds", {})["holds"]] == refs[1:]
    assert purging.rebuilt_alike()


def test_the_mark_stands_in_the_header_row_and_sleep_spares_it(purging: Purging) -> None:
    turn = purging.turn("held")
    purging.hold(turn)
    row = purging.state().memory(parse_memory_ref(turn)[1])
    assert row is not None and row.has(Mark.HELD)
    assert refused(Reason.CONFLICT, purging.commit, [fact(turn)]).data["ids"] == [turn]


def test_an_empty_selection_is_refused(purging: Purging) -> None:
    assert refused(Reason.INVALID_INPUT, purging.write, "hold", {"sel": {}}).data["parameter"] == "sel"


def test_a_keyed_hold_is_answered_again(purging: Purging) -> None:
    ref = purging.capture("a")
    first = purging.hold(ref, note="n", idempotency_key="k")
    again = purging.hold(ref, note="n", idempotency_key="k")
    assert again == {**first, "duplicate": True}
    assert refused(Reason.CONFLICT, lambda: purging.hold(ref, note="m", idempotency_key="k"))

"""hold and holds: what is held can't be purged, directly, as a copy, or by a cascade; forget is allowed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


def told(held: bool, count: int, *changed: str) -> dict[str, Any]:
    return {"held": held, "count": count, "changed": list(changed), "noted": [], "not_found": []}


def test_a_purge_of_anything_held_is_refused_as_a_whole(purging: Purging) -> None:
    free, held = purging.capture("free"), purging.capture("held")
    assert purging.hold(held) == told(True, 1, held)
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


def test_words_about_what_is_held_are_not_destroyed_by_purging_their_other_end(purging: Purging) -> None:
    held, other = purging.capture("held"), purging.capture("other")
    words = {"proposal_kind": "edge", "memory": held, "other": other, "edge": "extends", "note": "canary"}
    purging.write("propose", words)
    purging.hold(held)
    head = purging.store.log.head().seq
    for more in ({}, {"dry_run": True}, {"cascade": "derived"}):
        assert refused(Reason.LEGAL_HOLD, lambda: purging.purge(other, **more)).data["ids"] == [held]  # noqa: B023
    sel = {"ids": [other]}
    assert refused(Reason.LEGAL_HOLD, purging.select, sel).data["ids"] == [held]
    assert purging.store.log.head().seq == head and len(purging.readable("canary")) == 1
    purging.hold(held, on=False)
    assert purging.purge(other)["count"] == 1 and purging.readable("canary") == []


def test_a_proposal_without_words_keeps_nobody_from_purging_its_other_end(purging: Purging) -> None:
    held, other = purging.capture("held"), purging.capture("other")
    made = purging.write(
        "propose", {"proposal_kind": "edge", "memory": held, "other": other, "edge": "extends"}
    )  # fmt: skip
    purging.hold(held)
    assert purging.purge(other)["count"] == 1
    (row,) = purging.read("proposals", {"status": "rejected"})["proposals"]
    assert row["proposal"] == made["proposal"]


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
    assert purging.hold(ref, on=False) == told(False, 1, ref)
    assert purging.purge(ref)["count"] == 1


def test_twice_changes_nothing_and_leaves_no_record(purging: Purging) -> None:
    ref = purging.capture("a")
    purging.hold(ref)
    head = purging.store.log.head().seq
    assert purging.hold(ref) == told(True, 1)
    assert purging.hold(ref, on=False) and purging.hold(ref, on=False, note="why") == told(False, 1)
    assert purging.store.log.head().seq == head + 1


def test_another_note_about_what_is_held_is_kept_and_the_same_one_is_not_kept_twice(purging: Purging) -> None:
    first, second = purging.capture("a"), purging.capture("b")
    purging.hold(first, note="case 1")
    assert purging.hold(first, second, note="case 2") == {**told(True, 2, second), "noted": [first]}
    head = purging.store.log.head().seq
    assert purging.hold(first, second, note="case 2") == told(True, 2) and purging.store.log.head().seq == head
    assert [row["note"] for row in purging.read("holds", {})["holds"]] == ["case 2", "case 2"]
    assert len(purging.readable("case 1")) == 1, "the first one stays in the history"
    purging.hold(first, on=False)
    purging.purge(first)
    assert len(purging.readable("case")) == 1 and purging.rebuilt_alike()


def test_an_id_that_leads_to_nothing_is_named(purging: Purging) -> None:
    ref, unknown = purging.capture("a"), "raw:0000000000001"
    wrong = ref.replace("raw", "note")
    found = purging.hold(ref, unknown, wrong, unknown)
    assert (found["changed"], found["not_found"]) == ([ref], [unknown, wrong])
    other = purging.capture("o", tenant="other")
    assert purging.hold(other)["not_found"] == [other], "another tenant's is one that isn't there"
    assert purging.write("hold", {"sel": {"kinds": ["note"]}})["not_found"] == []


def test_what_is_purged_or_unknown_is_not_held(purging: Purging) -> None:
    ref = purging.capture("a")
    purging.purge(ref)
    assert purging.hold(ref, "raw:0000000000001") == {
        **told(True, 0), "not_found": [ref, "raw:0000000000001"],
    }  # fmt: skip


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

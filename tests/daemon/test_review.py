"""review: complete, each thing once, in one order, page by page; and it says why and since when."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from daemon.refusal import Reason
from daemon.wire.times import format_ms
from journal.codes import Kind, Mark
from projections.kinds import confidence_now
from projections.lineage_scan import ROW, effective_confidences, may_be_below
from projections.rows import FROM_OUTSIDE, NO_TIME, SELF_SCOPED, MemoryRow
from tests.daemon.told import DAY_MS, START_MS, Told, reason_of


def found(told: Told, *what: str, **more: Any) -> list[dict[str, Any]]:
    params = {**({"what": list(what)} if what else {}), **more}
    return list(told.read("review", params)["items"])


def ids(told: Told, *what: str, **more: Any) -> list[str]:
    return [item["id"] for item in found(told, *what, **more)]


def remember(told: Told, kind: str, *sources: str, **more: Any) -> str:
    params = {"kind": kind, "origin": "derived", "text": f"a {kind}", "derived_from": list(sources), **more}
    return str(told.write("remember", params)["id"])


def test_an_empty_tenant_has_nothing_to_review(told: Told) -> None:
    assert told.read("review", {}) == {"items": [], "next_cursor": None, "total": 0}
    assert told.read("review", {"tenant": "never-there"}) == {"items": [], "next_cursor": None, "total": 0}


# --- uncertain -----------------------------------------------------------------------------------


def test_an_old_memory_is_uncertain_by_its_decayed_confidence_and_a_fresh_one_is_not(told: Told) -> None:
    turn = told.raw()
    episode = remember(told, "episode", turn, confidence=0.7)
    told.now_ms += 3 * 365 * DAY_MS
    fresh = remember(told, "episode", turn, confidence=0.9)
    (item,) = found(told, "uncertain")
    assert (item["id"], item["confidence"], item["why"]) == (episode, 0.5, "believed_too_little")
    assert item["since"] == format_ms(START_MS)
    assert told.memory(episode)["confidence"] == {"stored": 0.7, "effective": 0.5}
    assert fresh not in ids(told, "uncertain")


def test_the_threshold_itself_is_certain_enough(told: Told) -> None:
    at, below = told.raw(confidence=0.6), told.raw(confidence=0.59)
    assert ids(told, "uncertain") == [below]
    assert ids(told, "uncertain", threshold=0.7) == [at, below]
    assert ids(told, "uncertain", threshold=0.0) == []


def test_high_confidences_that_decayed_are_found_behind_any_number_of_lower_ones(told: Told) -> None:
    turn = told.raw()
    old = remember(told, "note", turn, confidence=0.99)
    told.now_ms += 4000 * DAY_MS
    items = [{"kind": "raw", "origin": "stated", "text": f"t {n}", "confidence": 0.2} for n in range(300)]
    told.write("remember_many", {"items": items})
    told.now_ms += 1
    assert old in ids(told, "uncertain", limit=1000)
    assert told.read("review", {"what": ["uncertain"]})["total"] == 301


def test_what_is_not_active_is_not_uncertain(told: Told) -> None:
    refs = [told.raw(text, confidence=0.1) for text in ("one", "two", "three", "four")]
    told.do("forget", refs[0])
    told.do("mark", refs[1], mark="archived")
    told.do("revise", refs[2], text="three, better", origin="stated")
    assert ids(told, "uncertain") == [refs[3]]


def test_protected_memories_do_not_decay_into_uncertainty(told: Told) -> None:
    turn = told.raw()
    plain, kept = (remember(told, "note", turn, confidence=0.7, protected=protected) for protected in (False, True))
    told.now_ms += 2000 * DAY_MS
    assert ids(told, "uncertain") == [plain]
    told.do("verify", plain)
    assert ids(told, "uncertain") == [] and kept


ROWS = st.builds(
    lambda kind, confidence, at_ms, verified_at, protected, traits: MemoryRow(
        1, 1, 0, NO_TIME, verified_at, at_ms, NO_TIME, confidence, 1.0, 1.0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0,
        protected << Mark.PROTECTED, kind, 0, 0, 0, traits,
    ),
    st.sampled_from([int(kind) for kind in Kind]), st.floats(0, 1), st.integers(START_MS, START_MS + 9000 * DAY_MS),
    st.one_of(st.just(NO_TIME), st.integers(START_MS, START_MS + 9000 * DAY_MS)), st.integers(0, 1),
    st.sampled_from([0, FROM_OUTSIDE, SELF_SCOPED]),
)  # fmt: skip


@example(
    MemoryRow(
        1, 1, 0, NO_TIME, NO_TIME, START_MS, NO_TIME, 0.8, 1.0, 1.0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0,
        0, int(Kind.BELIEF), 0, 0, 0, SELF_SCOPED,
    ), START_MS + 90 * DAY_MS, 0.5,
)  # fmt: skip
@given(ROWS, st.integers(START_MS, START_MS + 9000 * DAY_MS), st.floats(0, 1))
def test_confidences_of_many_rows_are_those_of_each(row: MemoryRow, now_ms: int, threshold: float) -> None:
    wanted = confidence_now(row, now_ms)
    columns = np.array([(*row, 0)], ROW)
    assert effective_confidences(columns, now_ms)[0] == wanted
    if wanted < threshold:  # what the header rows rule out can't be below
        assert may_be_below(columns["confidence"].astype(np.float32), columns["kind"], threshold)[0]


# --- ungrounded and orphans ----------------------------------------------------------------------


def test_ungrounded_is_what_has_no_source_left(told: Told) -> None:
    one, two = told.raw("one"), told.raw("two")
    both, only, other = remember(told, "note", one, two), remember(told, "note", one), remember(told, "note", two)
    assert ids(told, "ungrounded") == []
    told.do("forget", one)
    told.now_ms += DAY_MS
    (item,) = found(told, "ungrounded")
    assert (item["id"], item["why"], item["others"]) == (only, "sources_gone", [one])
    assert item["since"] == format_ms(START_MS)
    told.do("forget", two)
    items = {item["id"]: item for item in found(told, "ungrounded")}
    assert list(items) == [both, only, other]
    assert items[both]["since"] == format_ms(START_MS + DAY_MS), "since the last of them went"
    assert not any(told.memory(ref)["grounded"] for ref in items)
    told.do("recover", one)
    assert ids(told, "ungrounded") == [other]


def test_a_revision_is_ungrounded_with_the_sources_of_the_version_before(told: Told) -> None:
    turn = told.raw()
    first = remember(told, "note", turn)
    second = told.do("revise", first, text="second", origin="derived")["id"]
    third = told.do("revise", second, disposition="updates", text="third", origin="derived")["id"]
    assert ids(told, "ungrounded", "orphans") == []
    told.do("forget", turn)
    assert ids(told, "ungrounded") == [third], "nothing is to be done about what another took the place of"
    assert ids(told, "orphans") == []
    assert not any(told.memory(ref)["grounded"] for ref in (first, second, third))


def test_grounds_go_one_step_only(told: Told) -> None:
    turn = told.raw()
    note = remember(told, "note", turn)
    remember(told, "belief", note)
    told.do("forget", turn)
    assert ids(told, "ungrounded") == [note], "the belief stands on a note, which is there"


def test_dead_memories_are_not_in_the_inbox(told: Told) -> None:
    turn = told.raw()
    note = remember(told, "note", turn)
    told.do("forget", turn)
    told.do("forget", note)
    assert found(told) == []


def test_orphans_are_those_whose_kind_needs_sources_and_that_have_none(told: Told) -> None:
    seeded = [
        str(told.write("remember", {"kind": kind.wire, "origin": "seeded", "text": kind.wire})["id"]) for kind in Kind
    ]
    revised = told.do("revise", seeded[3], text="anew", origin="stated")["id"]
    assert ids(told, "orphans") == [], "what was seeded needs none, and what revises it stands where it stood"
    assert all(told.memory(ref)["grounded"] for ref in [*seeded, revised])
    told.raw()
    told.write("lifecycle", {"enforce": False})
    loose = str(told.write("remember", {"kind": "note", "origin": "told", "text": "from nowhere"})["id"])
    external = {"kind": "note", "origin": "observed", "text": "x", "derived_from": [{"kind": "url", "id": "https://x"}]}
    outside = str(told.write("remember", external)["id"])
    later = told.do("revise", loose, text="from nowhere still", origin="told")["id"]
    assert ids(told, "orphans") == [outside, later], "what lies outside grounds nothing"
    assert not any(told.memory(ref)["grounded"] for ref in (loose, outside, later))
    assert found(told, "orphans")[0]["why"] == "no_sources"


# --- flags and contradictions --------------------------------------------------------------------


def test_flags_say_who_set_them_and_why(told: Told) -> None:
    one, two = told.raw("one"), told.raw("two")
    note = remember(told, "note", one, two)
    told.do("weaken", two, amount=0.9)
    told.now_ms += DAY_MS
    told.do("forget", one)
    items = [(item["id"], item["others"], item["why"], item["since"]) for item in found(told, "flags")]
    assert items == [
        (note, [one], "source_forgotten", format_ms(START_MS + DAY_MS)),
        (note, [two], "source_dormant", format_ms(START_MS)),
    ]
    told.do("recover", one)
    assert [item["others"] for item in found(told, "flags")] == [[two]]
    told.do("verify", note)
    assert found(told, "flags") == []


def test_a_contradiction_is_one_item_until_one_side_gives_way(told: Told) -> None:
    one, other = told.raw("one"), told.raw("other")
    told.now_ms += DAY_MS
    told.write("relate", {"from": other, "to": one, "type": "contradicts"})
    told.write("relate", {"from": one, "to": other, "type": "extends"})
    (item,) = found(told, "contradictions")
    assert (item["id"], item["others"], item["since"]) == (other, [one], format_ms(START_MS + DAY_MS))
    told.do("forget", one)
    assert found(told, "contradictions") == []
    told.do("recover", one)
    assert ids(told, "contradictions") == [other]
    told.do("revise", one, text="one, corrected", origin="stated")
    assert found(told, "contradictions") == []


def test_words_of_what_is_not_made_yet_are_accepted(told: Told) -> None:
    told.raw()
    assert found(told, "proposals", "parked") == []


# --- pages ---------------------------------------------------------------------------------------


def filled(told: Told) -> None:
    turns = [told.raw(f"turn {n}", confidence=0.3) for n in range(4)]
    notes = [remember(told, "note", turn) for turn in turns]
    told.write("relate", {"from": notes[0], "to": notes[1], "type": "contradicts"})
    for turn in turns[:2]:
        told.do("forget", turn)


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_pages_give_everything_once_in_order_with_one_total(told: Told, limit: int) -> None:
    filled(told)
    whole = told.read("review", {})
    words = [item["what"] for item in whole["items"]]
    assert words == ["uncertain"] * 2 + ["ungrounded"] * 2 + ["flags"] * 2 + ["contradictions"]
    items: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    totals = set()
    while True:
        page = told.read("review", {"limit": limit, **cursor})
        items += page["items"]
        totals.add(page["total"])
        if page["next_cursor"] is None:
            break
        assert len(page["items"]) == limit
        cursor = {"cursor": page["next_cursor"]}
    assert items == whole["items"] and totals == {7}


def test_the_order_is_that_of_the_words_whatever_was_asked_first(told: Told) -> None:
    filled(told)
    assert found(told, "flags", "uncertain", "flags") == found(told, "uncertain", "flags")


def test_what_is_written_meanwhile_is_on_no_page(told: Told) -> None:
    filled(told)
    page = told.read("review", {"what": ["uncertain"], "limit": 1})
    told.raw("later", confidence=0.1)
    following = told.read("review", {"what": ["uncertain"], "limit": 9, "cursor": page["next_cursor"]})
    assert (len(following["items"]), following["total"], following["next_cursor"]) == (1, 2, None)


def test_a_cursor_goes_on_with_its_own_question_only(told: Told) -> None:
    filled(told)
    cursor = told.read("review", {"limit": 1})["next_cursor"]
    for params in (
        {"cursor": cursor, "threshold": 0.7}, {"cursor": cursor, "what": ["flags"]}, {"cursor": cursor[:-1]},
        {"cursor": f"{cursor}.1"}, {"cursor": cursor.swapcase()}, {"cursor": "."},
        {"cursor": told.read("list", {"limit": 1})["next_cursor"]},
    ):  # fmt: skip
        reason, data = reason_of(lambda params=params: told.read("review", params))
        assert (reason, data["parameter"]) == (Reason.INVALID_INPUT, "cursor"), params


def test_another_tenants_memories_are_in_no_inbox_of_ours(told: Told) -> None:
    told.raw()
    other = {"tenant": "other"}
    turn = told.write("remember", {"kind": "raw", "origin": "stated", "text": "t", "confidence": 0.1, **other})["id"]
    note = {"kind": "note", "origin": "inferred", "text": "n", "derived_from": [turn], **other}
    told.write("remember", note)
    told.write("forget", {"id": turn, **other})
    assert found(told) == []
    assert [item["what"] for item in found(told, tenants=["default", "other"])] == ["ungrounded", "flags"]


def test_the_answer_is_the_same_from_columns_and_from_pages(told: Told) -> None:
    filled(told)
    told.reopen(True)
    told.service.columns.forget()
    cold = told.read("review", {})
    told.rebuild()
    assert told.read("review", {}) == cold and cold["total"] == 7


def test_a_long_review_ends_when_it_is_cancelled(told: Told) -> None:
    from daemon.asking import Asking
    from daemon.refusal import Refused
    from daemon.wire.verbs import VERBS
    from tests.model.opened import OPERATOR

    filled(told)
    asking = Asking()
    asking.cancel()
    with pytest.raises(Refused) as refused:
        told.service.read("review", msgspec.convert({}, VERBS["review"].params), OPERATOR, asking=asking)
    assert refused.value.data["cancelled"] is True

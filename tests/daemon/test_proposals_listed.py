"""proposals: newest first within each kind, no kind hides another, pages without gaps; in the inbox and in records."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.caller import Caller
from daemon.cli import render
from daemon.reads import proposals
from daemon.refusal import Reason
from daemon.wire.params import ProposalsParams
from daemon.wire.times import format_ms
from journal.codes import CallerRole, ProposalKind
from tests.daemon.proposed import FACT, decide, edge, fact, head, ids, listed, pair, propose
from tests.daemon.told import DAY_MS, Told, reason_of


def pages(told: Told, limit: int, **params: Any) -> list[dict[str, Any]]:
    """All pages of a question."""
    found = [told.read("proposals", {"limit": limit, **params})]
    while found[-1]["next_cursor"]:
        found.append(told.read("proposals", {"limit": limit, "cursor": found[-1]["next_cursor"], **params}))
    return found


def given_ids(page: dict[str, Any]) -> list[str]:
    return [row["proposal"] for row in page["proposals"]]


def many_edges_one_fact(told: Told) -> tuple[list[str], str]:
    """The fact is the oldest of all."""
    turn = told.raw()
    base = told.note(turn)
    waiting = fact(told, base)
    return [edge(told, told.note(turn), base) for _ in range(7)], waiting


# --- rows ------------------------------------------------------------------------------------------


def test_nothing_is_listed_where_nothing_was_proposed(told: Told) -> None:
    assert told.read("proposals", {}) == {"proposals": [], "next_cursor": None, "total": 0}
    assert told.read("proposals", {"tenant": "never-there"})["total"] == 0


def test_a_row_tells_what_was_proposed_and_what_became_of_it(told: Told) -> None:
    older, newer = pair(told)
    proposal = edge(told, newer, older, "updates", note="why")
    wanted: dict[str, Any] = {
        "proposal": proposal, "proposal_kind": "edge", "status": "proposed", "memory": newer, "other": older,
        "edge": "updates", "action": None, "fact": None, "note": "why", "unread": None, "cycle": None,
        "at": format_ms(told.now_ms), "decided_at": None, "produced": [],
    }  # fmt: skip
    assert listed(told) == [wanted]
    told.now_ms += DAY_MS
    produced = decide(told, proposal)["produced"]
    assert listed(told) == []
    decided = {"status": "applied", "decided_at": format_ms(told.now_ms), "produced": produced}
    assert listed(told, status="applied") == [{**wanted, **decided}]


def test_facts_and_actions_are_told_in_words(told: Told) -> None:
    older, newer = pair(told)
    bounds = {"valid_from": "2020-01-01T00:00:00.000Z", "valid_to": "2021-01-01T00:00:00.000Z"}
    propose(told, "fact", newer, fact={**FACT, **bounds, "confidence": 0.25})
    propose(told, "resolution", newer)
    propose(told, "retention", older, action="supersede", other=newer)
    last, middle, first = listed(told)
    assert first["fact"] == {**FACT, **bounds, "confidence": 0.25}
    assert (middle["action"], middle["other"], middle["edge"]) == ("resolve", None, None)
    assert (last["action"], last["memory"], last["other"]) == ("supersede", older, newer)


def test_status_and_kind_choose(told: Told) -> None:
    note = told.note(told.raw())
    facts = [fact(told, note, value) for value in ("one", "two", "three")]
    mark = propose(told, "resolution", note)
    decide(told, facts[0])
    decide(told, facts[1], accept=False)
    assert ids(told) == [mark, facts[2]]
    assert ids(told, proposal_kind="fact") == [facts[2]]
    assert ids(told, proposal_kind="edge") == []
    assert ids(told, status="applied") == [facts[0]]
    assert ids(told, status="rejected", proposal_kind="fact") == [facts[1]]


def test_without_content_neither_note_nor_fact_is_told(told: Told) -> None:
    note = told.note(told.raw())
    fact(told, note, note="why")
    for granted, shown in ((False, False), (True, True)):
        auditor = Caller(
            uid=1, role=CallerRole.AUDITOR, tenants_read=None, tenants_write=frozenset(), content=granted
        )  # fmt: skip
        answer = told.service.read("proposals", ProposalsParams(), auditor)
        (row,) = msgspec.to_builtins(answer)["proposals"]
        assert (row["note"] is not None, row["fact"] is not None) == (shown, shown)
        assert row["unread"] == (None if shown else "withheld")
        told_lines = " ".join(render.render(msgspec.to_builtins(answer), "proposals").split())
        assert ("(not for you to read)" in told_lines) is not shown
        assert "(gone)" not in told_lines
        assert (row["memory"], row["proposal_kind"]) == (note, "fact")


def test_tenants_are_listed_together_only_when_asked(told: Told) -> None:
    made = {}
    for tenant in ("one", "two", "three"):
        turn = told.raw(tenant=tenant)
        made[tenant] = fact(told, told.note(turn, tenant=tenant), tenant=tenant)
    assert ids(told, tenants=["one", "three"]) == [made["three"], made["one"]]
    found = pages(told, 1, tenants=["one", "two", "three"])
    assert [given_ids(page) for page in found] == [[made["three"]], [made["two"]], [made["one"]]]
    assert {page["total"] for page in found} == {3}


# --- pages -----------------------------------------------------------------------------------------


def test_one_kind_is_paged_newest_first_without_gap_or_repetition(told: Told) -> None:
    note = told.note(told.raw())
    made = [fact(told, note, str(number)) for number in range(5)]
    found = pages(told, 2)
    assert [given_ids(page) for page in found] == [made[:2:-1], made[2:0:-1], made[:1]]
    assert {page["total"] for page in found} == {5}


def test_many_of_one_kind_hide_no_other(told: Told) -> None:
    edges, waiting = many_edges_one_fact(told)
    first = told.read("proposals", {"limit": 3})
    assert given_ids(first) == [edges[6], edges[5], waiting], "the fact is older than all edges"
    found = pages(told, 3)
    assert sorted(ref for page in found for ref in given_ids(page)) == sorted([*edges, waiting])
    assert {page["total"] for page in found} == {8}


def test_what_is_proposed_or_decided_between_pages_neither_repeats_nor_hides(told: Told) -> None:
    edges, waiting = many_edges_one_fact(told)
    note = told.note(told.raw())
    first = told.read("proposals", {"limit": 3})
    decide(told, edges[6], accept=False)
    decide(told, edges[2], accept=False)
    propose(told, "resolution", note)
    fact(told, note, "new")
    rest = told.read("proposals", {"limit": 100, "cursor": first["next_cursor"]})
    assert given_ids(rest) == [edges[number] for number in (4, 3, 1, 0)]
    assert rest["next_cursor"] is None and rest["total"] == 8 and waiting in given_ids(first)


def test_a_cursor_belongs_to_its_question(told: Told) -> None:
    many_edges_one_fact(told)
    cursor = told.read("proposals", {"limit": 1})["next_cursor"]
    for other in ({"status": "applied"}, {"proposal_kind": "edge"}, {"tenant": "other"}):
        reason, data = reason_of(lambda other=other: told.read("proposals", {"cursor": cursor, **other}))
        assert (reason, data["parameter"]) == (Reason.INVALID_INPUT, "cursor")
    reason, data = reason_of(lambda: told.read("proposals", {"cursor": "made-up"}))
    assert (reason, data["parameter"]) == (Reason.INVALID_INPUT, "cursor")


def test_a_page_ends_before_the_line_is_too_long(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proposals, "PAGE_BYTES", 2_000)
    note = told.note(told.raw())
    made = [propose(told, "fact", note, fact={**FACT, "value": f"{number}" * 700}) for number in range(4)]
    made.append(propose(told, "resolution", note))
    found = pages(told, 100)
    assert [ref for page in found for ref in given_ids(page)] == made[::-1]
    assert len(found) > 2


@given(
    found=st.lists(st.sampled_from(list(ProposalKind)), max_size=40).map(
        lambda kinds: {kind: [i for i in range(len(kinds), 0, -1) if kinds[i - 1] is kind] for kind in ProposalKind}
    ),
    limit=st.integers(1, 12),
)
def test_a_page_is_full_fair_and_the_newest_of_each_kind(found: dict[ProposalKind, list[int]], limit: int) -> None:
    chosen = proposals.shared(found, limit)
    everything = sum(len(ids) for ids in found.values())
    assert chosen == sorted(set(chosen), reverse=True)
    assert len(chosen) == min(limit, everything)
    given = {kind: [each for each in ids if each in chosen] for kind, ids in found.items()}
    for kind, ids_of in found.items():
        assert given[kind] == ids_of[: len(given[kind])], "the newest ones"
        if len(given[kind]) < len(ids_of):  # it lacks some: nobody has more than one more than it
            assert all(len(other) <= len(given[kind]) + 1 for other in given.values())


# --- the inbox, records, history -------------------------------------------------------------------


def test_the_inbox_has_what_waits_in_order(told: Told) -> None:
    older, newer = pair(told)
    made = [edge(told, newer, older), fact(told, newer), propose(told, "retention", older, action="archive")]
    decide(told, fact(told, older, "gone"), accept=False)
    items = told.read("review", {"what": ["proposals"]})["items"]
    assert [item["id"] for item in items] == made
    assert [item["why"] for item in items] == ["proposes_supersedes", "proposes_fact", "proposes_archive"]
    assert [item["others"] for item in items] == [[newer, older], [newer], [older]]
    assert {item["since"] for item in items} == {format_ms(told.now_ms)}
    told.do("forget", older)
    assert [item["id"] for item in told.read("review", {"what": ["proposals"]})["items"]] == [made[1]], "no tombstones"
    told.do("recover", older)
    decide(told, made[0])
    assert [item["id"] for item in told.read("review", {})["items"]] == made[1:]


def test_the_inbox_is_paged_over_proposals_and_has_nothing_that_came_later(told: Told) -> None:
    note = told.note(told.raw())
    made = [fact(told, note, str(number)) for number in range(4)]
    seen: list[str] = []
    cursor: dict[str, Any] = {}
    while True:
        page = told.read("review", {"what": ["proposals"], "limit": 1, **cursor})
        seen += [item["id"] for item in page["items"]]
        assert page["total"] == 4
        fact(told, note, f"later {len(seen)}")
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert seen == made


def test_the_inbox_of_one_tenant_has_nothing_of_another(told: Told) -> None:
    turn = told.raw(tenant="theirs")
    fact(told, told.note(turn, tenant="theirs"), tenant="theirs")
    assert told.read("review", {})["items"] == []
    assert len(told.read("review", {"tenant": "theirs"})["items"]) == 1


def test_records_and_history_of_either_end_have_the_proposal_the_decision_and_the_product(told: Told) -> None:
    older, newer = pair(told)
    seq = head(told)
    proposal, rejected = edge(told, newer, older), edge(told, newer, older, "updates")
    decide(told, rejected, accept=False)
    decide(told, proposal)
    wanted = ["proposal_made", "proposal_made", "proposal_decided", "superseded", "proposal_decided"]
    for ref in (older, newer):
        frames = told.read("records", {"memory": ref, "from_seq": seq + 1})
        assert [frame["type"] for frame in frames["frames"]] == wanted
        assert frames["total"] == 5
        told_events = told.read("history", {"id": ref})["events"]
        assert [each["type"] for each in told_events] == ["memory_created", *wanted]
        assert [each["seq"] for each in told_events] == sorted(each["seq"] for each in told_events)


def test_records_of_a_memory_have_its_accepted_facts_and_marks(told: Told) -> None:
    note, other = told.note(told.raw()), told.note(told.raw())
    decide(told, fact(told, note))
    decide(told, propose(told, "resolution", note))
    fact(told, other)
    types = [frame["type"] for frame in told.read("records", {"memory": note})["frames"]]
    assert types == [
        "memory_created", "proposal_made", "fact_added", "proposal_decided", "proposal_made", "marked",
        "proposal_decided",
    ]  # fmt: skip

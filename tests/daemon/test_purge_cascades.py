"""What else goes with a purge: cascades, copies of copies, diamonds and circles; and by selection, in two steps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from daemon.call import Call
from daemon.caller import Caller
from daemon.purge_looking import check_asked
from daemon.refusal import Reason, Refused
from daemon.wire.verbs import VERBS
from journal.codes import CallerRole
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


def gone(result: dict[str, Any]) -> list[str]:
    return [each["memory"] for each in result["results"]]


def surviving(purging: Purging, *refs: str) -> list[str]:
    return [ref for ref in refs if purging.status(ref) != "purged"]


def test_derived_takes_whatever_has_a_purged_source_and_goes_on_from_there(purging: Purging) -> None:
    a, b = purging.capture("a"), purging.capture("b")
    both, only_b = purging.note(None, a, b), purging.note(None, b)
    belief = purging.belief(both, only_b)
    result = purging.purge(a, cascade="derived")
    assert gone(result) == [a, both, belief] and surviving(purging, a, b, both, only_b, belief) == [b, only_b]
    assert result["results"][1]["sources_surviving"] == [b] and result["results"][0]["derived_surviving"] == []
    assert purging.rebuilt_alike()


def test_ungrounded_takes_only_what_has_no_source_left(purging: Purging) -> None:
    a, b = purging.capture("a"), purging.capture("b")
    both, only_a = purging.note(None, a, b), purging.note(None, a)
    outside = purging.note(None, a, {"kind": "document", "id": "d"})  # type: ignore[arg-type]
    belief, on_both = purging.belief(only_a), purging.belief(only_a, both)
    result = purging.purge(a, cascade="ungrounded")
    assert gone(result) == [a, only_a, belief]
    assert result["results"][0]["derived_surviving"] == [both, outside]
    assert gone(purging.purge(b, cascade="ungrounded")) == [b, both, on_both]
    assert surviving(purging, outside) == [outside]


def test_ungrounded_sees_through_a_diamond_whose_sides_go_one_after_the_other(purging: Purging) -> None:
    a = purging.capture("a")
    left, right = purging.note(None, a), purging.note(None, a)
    bottom = purging.belief(left, right)
    assert set(gone(purging.purge(a, cascade="ungrounded"))) == {a, left, right, bottom}


def test_a_forgotten_source_is_a_source_that_is_left(purging: Purging) -> None:
    a, b = purging.capture("a"), purging.capture("b")
    both = purging.note(None, a, b)
    purging.do("forget", b)
    assert gone(purging.purge(a, cascade="ungrounded")) == [a] and surviving(purging, both) == [both]


def test_a_purge_flags_nothing_that_survives_and_leaves_the_flags_that_are_there(purging: Purging) -> None:
    """Flags ask for a look that `recover` can make needless (DESIGN §4.6); what lost its last source is ungrounded."""
    a, b = purging.capture("a"), purging.capture("b")
    both, only_a = purging.note(None, a, b), purging.note(None, a)
    purging.do("forget", b)
    flagged = [item["id"] for item in purging.read("review", {"what": ["flags"]})["items"]]
    purging.purge(a)
    assert [item["id"] for item in purging.read("review", {"what": ["flags"]})["items"]] == flagged == [both]
    assert {item["id"] for item in purging.read("review", {"what": ["ungrounded"]})["items"]} == {both, only_a}
    purging.purge(b)
    assert [item["id"] for item in purging.read("review", {"what": ["flags"]})["items"]] == flagged


def test_versions_takes_the_revisions_before_and_after(purging: Purging) -> None:
    first = purging.note(None)
    second = purging.do("revise", first, text="two", origin="inferred")["id"]
    third = purging.do("revise", second, text="three", origin="inferred", disposition="updates")["id"]
    told = purging.write("purge", {"ids": [second], "dry_run": True})
    assert told["results"][0]["versions_surviving"] == [first, third]
    assert set(gone(purging.purge(second, cascade="versions"))) == {first, second, third}


def test_a_version_that_stands_on_its_predecessors_sources_derives_from_them(purging: Purging) -> None:
    a = purging.capture("a")
    note = purging.note(None, a)
    later = purging.do("revise", note, text="later", origin="inferred")["id"]
    assert set(gone(purging.purge(a, cascade="derived"))) == {a, note, later}
    b = purging.capture("b")
    note = purging.note(None, b)
    later = purging.do("revise", note, text="later still", origin="inferred")["id"]
    assert gone(purging.purge(note, cascade="derived")) == [note] and surviving(purging, later, b) == [later, b]


def test_what_was_purged_before_is_passed_through(purging: Purging) -> None:
    a = purging.capture("a")
    note = purging.note(None, a)
    belief = purging.belief(note)
    purging.purge(note)
    result = purging.purge(a, cascade="derived")
    assert gone(result) == [a, belief]
    other = purging.belief(purging.note(None, b := purging.capture("b")))
    purging.purge(b)
    result = purging.purge(b, cascade="derived")
    assert result["results"][0]["receipt"] and other in gone(result) and result["count"] == 2


def test_copies_of_what_a_cascade_takes_go_too(purging: Purging) -> None:
    turn = purging.turn("quote me")
    (copy,) = purging.commit([fact(turn, text="quote me!", quoted_from=[turn])])["notes"]
    later = purging.do("revise", turn, text="said better", origin="stated")["id"]
    result = purging.purge(later, cascade="versions")
    assert set(gone(result)) == {later, turn, copy} and purging.readable("quote me") == []


def test_circles_of_versions_end(purging: Purging) -> None:
    a, b = purging.note(None), purging.note(None)
    for successor, predecessor in ((a, b),):
        made = purging.write("propose", {
            "proposal_kind": "edge", "memory": successor, "other": predecessor, "edge": "supersedes",
        })  # fmt: skip
        purging.write("decide", {"proposal": made["proposal"], "accept": True})
    told = purging.write("purge", {"ids": [a, b], "dry_run": True})["results"]
    assert [each["versions_surviving"] for each in told] == [[], []], "both go"
    for one, other in ((a, b), (b, a)):
        told = purging.write("purge", {"ids": [one], "dry_run": True})["results"]
        assert told[0]["versions_surviving"] == [other]
    assert set(gone(purging.purge(b, cascade="versions"))) == {a, b}
    assert gone(purging.purge(a, cascade="versions")) == [a]


# --- by selection -----------------------------------------------------------------------------------


def test_a_selection_first_tells_and_its_token_does_it(purging: Purging) -> None:
    refs = [purging.capture(f"canary {number}", subject="bob") for number in range(3)]
    kept = purging.capture("canary of ann", subject="ann")
    note = purging.note(None, refs[0])
    head = purging.store.log.head().seq
    told = purging.select({"subject": "bob"})
    assert (told["count"], told["dry_run"], told["receipt"], gone(told)) == (3, True, None, refs)
    assert told["results"][0]["derived_surviving"] == [note] and told["results"][0]["purged_at"] is None
    assert told["totals"]["keys_shredded"] == 6 and purging.store.log.head().seq == head
    done = purging.select({"subject": "bob"}, token=told["token"])
    assert (done["count"], done["dry_run"], gone(done)) == (3, False, refs) and "token" not in done
    assert done["totals"] == told["totals"]
    assert surviving(purging, *refs, kept, note) == [kept, note] and len(purging.readable("canary")) == 1
    assert purging.rebuilt_alike()


def test_a_token_is_stale_once_the_selection_finds_something_else_or_more_would_go(purging: Purging) -> None:
    ref = purging.capture("a", project="p")
    sel = {"project": "p"}
    token = purging.select(sel)["token"]
    purging.capture("b", project="p")
    assert refused(Reason.CONFLICT, purging.select, sel, token=token).data["parameter"] == "token"
    token = purging.select(sel, cascade="derived")["token"]
    purging.note(None, ref)
    assert refused(Reason.CONFLICT, purging.select, sel, cascade="derived", token=token)
    token = purging.select(sel)["token"]
    other: dict[str, Any]
    for other in ({"cascade": "derived"}, {"block_reingest": True}, {"reason": "privacy"}):
        error = refused(Reason.INVALID_INPUT, lambda: purging.select(sel, token=token, **other))  # noqa: B023
        assert error.data["parameter"] == "token"
    assert refused(Reason.INVALID_INPUT, purging.select, {"project": "q"}, token=token)
    purging.select(sel, token=token)
    assert refused(Reason.CONFLICT, purging.select, sel, token=token), "it was used"


def test_a_selection_that_finds_nothing_gets_no_token(purging: Purging) -> None:
    purging.capture("a")
    told = purging.select({"project": "none"})
    assert (told["count"], told["results"]) == (0, []) and "token" not in told


def test_a_dry_run_by_ids_tells_and_does_nothing(purging: Purging) -> None:
    ref = purging.capture("a")
    copy = purging.note(None, ref)
    head = purging.store.log.head().seq
    told = purging.purge(ref, "raw:0000000000001", dry_run=True, cascade="derived", block_reingest=True)
    assert (gone(told), told["count"]) == ([ref, "raw:0000000000001", copy], 2)
    assert told["results"][0]["fingerprint_retained"] and told["results"][0]["text_destroyed"]
    assert "token" not in told and purging.store.log.head().seq == head and surviving(purging, ref) == [ref]


def test_many_are_several_records_with_one_receipt_and_a_bounded_answer(purging: Purging) -> None:
    items = [{"kind": "raw", "origin": "stated", "text": f"canary {number}"} for number in range(1000)]
    for _ in range(2):
        purging.write("remember_many", {"items": items})
    purging.write("remember_many", {"items": items[:50]})
    sel = {"kinds": ["raw"]}
    told = purging.select(sel)
    assert (told["count"], len(told["results"]), told["results_cut"]) == (2050, 1000, True)
    done = purging.select(sel, token=told["token"], idempotency_key="k")
    records = purging.records("Purged")
    assert [len(record.event.targets) for record in records] == [1000, 1000, 50]
    assert {record.cause.first_seq for record in records} == {done["receipt"]["seq"]}
    assert (done["totals"]["memories"], done["totals"]["keys_shredded"]) == (2050, 1000)
    assert purging.readable("canary") == [] and len(purging.read("purges", {})["purges"]) == 1
    results: list[Any] = []
    cursor: dict[str, Any] = {}
    while True:
        page = purging.read("purges", {"receipt": done["receipt"], "limit": 1000, **cursor})
        results += page["purges"][0]["results"]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert len(results) == page["purges"][0]["count"] == 2050 and results[:1000] == done["results"]
    again = purging.select(sel, token=told["token"], idempotency_key="k")
    assert (again["state"], len(again["results"]), again["results_cut"]) == ("purged", 1000, True)
    assert purging.rebuilt_alike()


# --- who may ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("granted", "params", "allowed"),
    [
        (True, {"ids": ["raw:0000000000001"]}, True), (False, {"ids": ["raw:0000000000001"]}, False),
        (False, {"ids": ["raw:0000000000001"], "dry_run": True}, False), (True, {"sel": {"kinds": ["raw"]}}, False),
    ],
)  # fmt: skip
def test_an_agent_purges_by_ids_if_that_is_granted(granted: bool, params: dict[str, Any], allowed: bool) -> None:
    caller = Caller(uid=1, role=CallerRole.AGENT, purge=granted)
    typed = msgspec.convert(params, VERBS["purge"].params)
    if allowed:
        check_asked("purge", typed, caller)
        return
    with pytest.raises(Refused) as caught:
        check_asked("purge", typed, caller)
    assert caught.value.reason is Reason.DENIED


def test_an_agent_without_the_grant_purges_nothing_through_the_service(purging: Purging) -> None:
    ref = purging.capture("mine")
    caller = Caller(uid=1, role=CallerRole.AGENT)
    call = Call("purge", msgspec.convert({"ids": [ref]}, VERBS["purge"].params), caller, lambda outcome: None)
    with pytest.raises(Refused) as caught:
        purging.service.submit(call)
    assert caught.value.reason is Reason.DENIED and surviving(purging, ref) == [ref]


def test_maintenance_and_initializing_do_not_keep_anybody_from_it(purging: Purging) -> None:
    seeded = str(purging.write("remember", {"kind": "value", "origin": "seeded", "text": "seed"})["id"])
    assert purging.purge(seeded)["count"] == 1
    assert purging.write("lifecycle", {})["state"] == "initializing", "a purge begins nothing"
    ref, held = purging.capture("a"), purging.capture("b")
    purging.write("lifecycle", {"state": "maintenance"})
    assert refused(Reason.LIFECYCLE, purging.capture, "c")
    assert purging.hold(held)["changed"] == [held] and purging.purge(ref)["count"] == 1

"""What may be said again: the same words in a successor, in a memory like one that was settled, in a repeated request;
and what a command leaves behind that said something it may not: nothing."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from daemon.refusal import Reason
from journal.tsid import parse_memory_ref
from projections import tables
from projections.state import KEY64
from tests.daemon.cohorted import Cohorted
from tests.daemon.proposed import head, propose
from tests.daemon.slept import MINUTE_MS, fact
from tests.daemon.told import DAY_MS, Told, reason_of


@pytest.mark.parametrize("disposition", ["supersedes", "updates"])
def test_a_successor_may_say_the_very_words_of_its_predecessor(told: Told, disposition: str) -> None:
    """T11: it is told anew, by somebody else."""
    first = told.note(told.raw(), text="we use lmdb")
    second = told.do("revise", first, text="we use lmdb", origin="told", disposition=disposition)["id"]
    old, new = told.memory(first), told.memory(second)
    assert second != first and old["text"] == new["text"] == "we use lmdb"
    assert (old["status"], old["superseded_by"], new["status"], new["predecessor"]) == (
        "superseded", second, "active", first,
    )  # fmt: skip


@pytest.mark.parametrize("settled", ["resolved", "archived", "forgotten", None])
def test_words_that_were_settled_may_be_said_again_in_a_memory_of_its_own(told: Told, settled: str | None) -> None:
    """B26. Where we differ: so may words that still stand; only a key says that it is the same memory."""
    turn = told.raw()
    blocker = {"subtype": "blocker", "text": "the build is red"}
    first = told.note(turn, **blocker)
    if settled == "forgotten":
        told.do("forget", first)
    elif settled is not None:
        told.do("mark", first, mark=settled)
    before = told.memory(first)
    second = told.note(turn, **blocker)
    assert second != first and told.memory(first) == before
    assert told.memory(second)["status"] == "active" and told.memory(second)["marks"] == []


def _turned(value: Any) -> Any:
    """The same object with all its keys the other way round."""
    if isinstance(value, dict):
        return {name: _turned(each) for name, each in reversed(value.items())}
    return [_turned(each) for each in value] if isinstance(value, list) else value


def test_a_request_with_its_keys_in_another_order_is_the_same_request(told: Told) -> None:
    """B15: no conflict under one idempotency key."""
    turn = told.raw()
    params = {
        "kind": "note", "origin": "inferred", "text": "a note", "derived_from": [turn], "tags": ["b", "a"],
        "producer": {"agent": "a", "model": "m", "version": "1"}, "entities": [{"name": "Ada", "type": "person"}],
        "facts": [{"subject": "s", "predicate": "p", "value": "v"}], "topic": "t", "idempotency_key": "once",
    }  # fmt: skip
    first = told.write("remember", params)
    before = head(told)
    again = told.write("remember", _turned(params))
    assert again == {**first, "duplicate": True} and head(told) == before
    other = {**params, "tags": ["a", "b", "c"]}
    assert reason_of(partial(told.write, "remember", other))[0] is Reason.CONFLICT


def _row(told: Told, ref: str) -> bytes:
    with told.projections.snapshot() as snapshot:
        return bytes(snapshot.get(tables.MEMORIES, KEY64.pack(parse_memory_ref(ref)[1])) or b"")


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("edge", {"edge": "supersedes"}), ("edge", {"edge": "contradicts"}), ("resolution", {}),
        ("fact", {"fact": {"subject": "s", "predicate": "p", "value": "v"}}), ("retention", {"action": "archive"}),
        ("retention", {"action": "supersede"}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("accept", [None, False])
def test_staging_and_rejecting_change_no_memory(
    told: Told, kind: str, more: dict[str, Any], accept: bool | None
) -> None:
    """T20: neither row, byte for byte, nor what `get` tells of them."""
    turn = told.raw()
    one, other = told.note(turn), told.note(turn)
    if kind == "edge" or more.get("action") == "supersede":
        more = {**more, "other": other}
    before = [(_row(told, ref), told.memory(ref)) for ref in (one, other, turn)]
    assert all(row for row, _ in before)
    proposal = propose(told, kind, one, **more)
    if accept is not None:
        told.write("decide", {"proposal": proposal, "accept": accept})
    assert [(_row(told, ref), told.memory(ref)) for ref in (one, other, turn)] == before


def test_a_revision_that_is_refused_late_leaves_nothing_of_what_it_did_before(told: Told) -> None:
    """T9: its stale session was to be revived first, and its words are looked at behind that."""
    ref = told.write("session_open", {"agent": "claude", "key": "k", "producer": {"model": "m"}})["session"]
    note = told.note(told.raw("I like tea"))
    told.now_ms += 2 * DAY_MS
    before, memory, seq = told.read("session", {"session": ref}), told.memory(note), head(told)
    claim = {"text": "hates tea", "origin": "stated", "session": ref}
    assert reason_of(partial(told.do, "revise", note, **claim))[0] is Reason.PROVENANCE
    assert head(told) == seq and told.read("session", {"session": ref}) == before and told.memory(note) == memory
    raw = {"kind": "raw", "origin": "stated", "text": "one"}
    items = [raw, {**raw, "session": "session:0000000000001"}]
    assert reason_of(partial(told.write, "remember_many", {"items": items}))[0] is Reason.NOT_FOUND
    assert head(told) == seq


def test_a_place_that_was_given_back_may_be_taken_again(held: Cohorted) -> None:
    """Lifting a re-derivation leaves its edge in the journal, and nobody superseded by it."""
    turn, *_ = held.turns(1)
    (old,) = held.commit([fact(turn)], producer={"extractor": "v1"})["notes"]
    cohort = held.act({"producer": {"extractor": "v1"}}, "rederive")
    held.now_ms += MINUTE_MS
    (new,) = held.commit([fact(turn)], producer={"extractor": "v2"})["notes"]
    assert held.memory(old)["superseded_by"] == new
    held.lift(cohort)
    assert held.memory(old)["superseded_by"] is None
    proposed = {"proposal_kind": "edge", "memory": new, "other": old, "edge": "supersedes"}
    proposal = held.write("propose", proposed)["proposal"]
    produced = held.write("decide", {"proposal": proposal, "accept": True})["produced"]
    assert held.memory(old)["superseded_by"] == new and held.memory(old)["status"] == "superseded"
    assert len(produced) == 1
    found = held.read("get", {"ids": [new], "include": ["provenance"]})["memories"][0]["provenance"]["supersession"]
    sources = [row["source_proposal"] for row in found["predecessors"]]
    assert sources == [None, {"kind": "edge", "id": proposal}], "both times it took its place"

"""In which session something was done: what `revise`, `mark` and `reaffirm` name, and what becomes of that session."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from daemon.call import Call
from daemon.cli import render_written
from daemon.prepare import parse_session
from daemon.refusal import Reason, Refused
from daemon.wire.verbs import VERBS
from journal import events
from projections.livesessions import LEASE_MS
from tests.daemon.told import Told, reason_of
from tests.model.opened import OPERATOR

HOUR_MS = 3_600_000
AGENT = {"agent": "scribe"}
UNKNOWN = "session:0000000000001"


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Told]:
    opened = Told(tmp_path / "state")
    try:
        yield opened
    finally:
        opened.close(True)


def opened(told: Told, key: str = "k", agent: str = "scribe", **more: Any) -> str:
    return str(told.write("session_open", {"agent": agent, "key": key, **more})["session"])


def session(told: Told, ref: str) -> dict[str, Any]:
    return told.read("session", {"session": ref})


def frames(told: Told, after: int) -> list[Any]:
    """The events behind record `after`, oldest first."""
    log = told.store.log
    found = []
    with told.store.env.read() as txn:
        for seq in range(after + 1, log.head().seq + 1):
            record = log.get(txn, seq)
            assert record is not None
            found.append(record.event)
    return found


def head(told: Told) -> int:
    return told.store.log.head().seq


DOINGS: dict[str, tuple[str, dict[str, Any], type]] = {
    "supersede": ("revise", {"text": "so", "origin": "inferred"}, events.Superseded),
    "update": ("revise", {"text": "so", "origin": "inferred", "disposition": "updates"}, events.Superseded),
    "move": ("revise", {"disposition": "move", "fields": {"topic": "elsewhere"}}, events.Moved),
    "mark": ("mark", {"mark": "resolved"}, events.Marked),
    "reaffirm": ("reaffirm", {}, events.Reaffirmed),
}
doings = pytest.mark.parametrize("doing", DOINGS)


def do(told: Told, doing: str, ref: str, **more: Any) -> tuple[dict[str, Any], list[Any]]:
    """The answer, and the events that came of it."""
    verb, params, _ = DOINGS[doing]
    before = head(told)
    return told.do(verb, ref, **params, **more), frames(told, before)


def stamps(found: list[Any]) -> set[int]:
    """The session of each event that can name one."""
    return {event.session for event in found if hasattr(event, "session")}


def number_of(told: Told, ref: str) -> int:
    tsid = parse_session("session", ref)
    (event,) = (each for each in frames(told, 0) if isinstance(each, events.SessionOpened) and each.id == tsid)
    return int(event.number)


# --- T23: which session --------------------------------------------------------------------------


@doings
def test_all_events_of_one_command_name_the_live_session_in_which_it_was_done(told: Told, doing: str) -> None:
    note = told.note(told.raw())
    ref = opened(told)
    answer, found = do(told, doing, note, session=ref)
    assert stamps(found) == {number_of(told, ref)}
    assert "notes" not in answer
    if "update" in doing or "supersede" in doing:
        assert [type(event) for event in found] == [events.MemoryCreated, events.Superseded]
        assert told.memory(answer["id"])["session"] == ref
    assert told.rebuilt_alike()


@doings
def test_what_belongs_to_a_session_does_not_say_in_which_session_it_is_changed(told: Told, doing: str) -> None:
    first = told.raw()
    note = told.note(first, session={"agent": "scribe", "key": "k"})
    assert told.memory(note)["session"] is not None
    _, found = do(told, doing, note)
    assert stamps(found) == {0}


@doings
@pytest.mark.parametrize("which", ["unknown", "foreign"])
def test_an_unknown_or_foreign_session_fails_the_command(told: Told, doing: str, which: str) -> None:
    note = told.note(told.raw())
    ref = UNKNOWN if which == "unknown" else opened(told, tenant="other")
    before, digests = head(told), told.digests()
    verb, params, _ = DOINGS[doing]
    reason, data = reason_of(lambda: told.do(verb, note, **params, session=ref))
    assert (reason, data["parameter"]) == (Reason.NOT_FOUND, "session")
    assert (head(told), told.digests()) == (before, digests)


@doings
def test_in_a_closed_session_it_is_done_and_unattributed_and_the_answer_says_so(told: Told, doing: str) -> None:
    note = told.note(told.raw())
    ref = opened(told)
    told.write("session_close", {"session": ref})
    shown = session(told, ref)
    told.now_ms += HOUR_MS
    answer, found = do(told, doing, note, session=ref)
    assert answer["notes"] == ["session_closed"]
    assert stamps(found) == {0}
    assert not any(isinstance(event, events.SessionReopened) for event in found)
    assert session(told, ref) == shown, "closed it stays, with the time of its last activity"


@doings
def test_a_stale_session_is_revived_once_in_the_same_commit(told: Told, doing: str) -> None:
    note = told.note(told.raw())
    ref = opened(told)
    told.now_ms += LEASE_MS
    assert session(told, ref)["state"] == "stale"
    answer, found = do(told, doing, note, session=ref)
    assert answer["notes"] == ["session_revived"]
    revived = [event for event in found if isinstance(event, events.SessionReopened)]
    assert [event.activation for event in revived] == [2] and found[0] is revived[0]
    assert stamps(found) == {number_of(told, ref)}
    assert (session(told, ref)["state"], session(told, ref)["activation"]) == ("open", 2)
    assert "notes" not in told.do("reaffirm", answer.get("id", note), session=ref), "live now: nothing to say"
    assert session(told, ref)["activation"] == 2
    assert told.rebuilt_alike()


@doings
def test_the_lease_is_renewed_by_what_is_done_in_the_session(told: Told, doing: str) -> None:
    note = told.note(told.raw())
    ref = opened(told)
    told.now_ms += LEASE_MS - 1
    do(told, doing, note, session=ref)
    told.now_ms += LEASE_MS - 1
    assert session(told, ref)["state"] == "open"
    told.now_ms += 1
    assert session(told, ref)["state"] == "stale"


def test_what_changes_nothing_fails_in_a_foreign_session_and_renews_or_revives_none(told: Told) -> None:
    """B13: a mark that is on already."""
    note = told.note(told.raw())
    told.do("mark", note, mark="resolved")
    told.do("revise", note, disposition="move", fields={"topic": "here"})
    live, stale = opened(told, "a"), opened(told, "b", agent="other")
    told.now_ms += LEASE_MS
    opened(told, "a")
    told.now_ms += HOUR_MS
    shown, before = [session(told, ref) for ref in (live, stale)], head(told)
    for ref in (live, stale):
        assert told.do("mark", note, mark="resolved", session=ref) == {"marks": ["resolved"]}
        moved = told.do("revise", note, disposition="move", fields={"topic": "here"}, session=ref)
        assert moved["predecessor"] is None
    for ref in (UNKNOWN, opened(told, tenant="other")):
        assert reason_of(partial(told.do, "mark", note, mark="resolved", session=ref))[0] is Reason.NOT_FOUND
    assert [session(told, ref) for ref in (live, stale)] == shown
    assert not [event for event in frames(told, before) if isinstance(event, events.Marked | events.SessionReopened)]


# --- T23: none named -----------------------------------------------------------------------------


@pytest.mark.parametrize("doing", ["supersede", "move"])
def test_a_revision_that_names_none_is_of_the_only_live_session_of_its_agent(told: Told, doing: str) -> None:
    one, two, three, four = (told.note(told.raw()) for _ in range(4))
    stale = opened(told, "stale")
    told.now_ms += LEASE_MS
    ref = opened(told)
    opened(told, "k", agent="other")
    answer, found = do(told, doing, one, producer=AGENT)
    assert answer["notes"] == ["session_attached"] and stamps(found) == {number_of(told, ref)}
    assert session(told, stale)["activation"] == 1, "a stale one is none of them, and stays"
    assert stamps(do(told, doing, two)[1]) == {0}, "no agent, no session"
    second = opened(told, "second")
    assert stamps(do(told, doing, three, producer=AGENT)[1]) == {0}, "it may be either"
    told.write("session_close", {"session": ref})
    assert stamps(do(told, doing, four, producer=AGENT)[1]) == {number_of(told, second)}


@pytest.mark.parametrize("doing", ["mark", "reaffirm"])
def test_what_has_no_producer_is_in_no_session_but_the_one_it_names(told: Told, doing: str) -> None:
    note = told.note(told.raw())
    opened(told)
    assert stamps(do(told, doing, note)[1]) == {0}


# --- revisions -----------------------------------------------------------------------------------


def test_a_revision_of_a_raw_memory_is_in_no_session(told: Told) -> None:
    turn = told.write("remember", {"kind": "raw", "role": "user", "text": "t", "session": {**AGENT, "key": "k"}})
    ref = turn["session"]
    reason, data = reason_of(lambda: told.do("revise", turn["id"], text="u", origin="told", session=ref))
    assert (reason, data["parameter"]) == (Reason.INVALID_INPUT, "session")
    answer, found = do(told, "supersede", turn["id"], producer=AGENT)
    assert stamps(found) == {0} and told.memory(answer["id"])["session"] is None
    answer, found = do(told, "move", answer["id"], session=ref)
    assert stamps(found) == {number_of(told, ref)}, "what is filed anew is no new telling"
    assert session(told, ref)["turns"] == 1


def test_a_successor_has_the_producer_of_its_own_telling_else_that_of_its_session(told: Told) -> None:
    note = told.note(told.raw(), project="kitchen", producer={"agent": "first", "model": "m"})
    plain = told.do("revise", note, text="b", origin="inferred")["id"]
    assert told.memory(plain)["producer"] == dict.fromkeys(("agent", "model", "version", "extractor"))
    ref = opened(told, project="garden", subject="Ada", producer={**AGENT, "model": "m2", "version": "3"})
    mine = told.memory(told.do("revise", plain, text="c", origin="inferred", session=ref)["id"])
    assert mine["producer"] == {**AGENT, "model": "m2", "version": "3", "extractor": None}
    assert mine["project"] == "kitchen", "what it is filed under is inherited, not the session's"
    other = told.do("revise", mine["id"], text="d", origin="inferred", session=ref, producer={"agent": "other"})["id"]
    assert told.memory(other)["producer"] == {"agent": "other", "model": None, "version": None, "extractor": None}


def test_a_model_that_revises_may_say_stated_only_what_was_said(told: Told) -> None:
    key = {**AGENT, "key": "k"}
    turn = told.write("remember", {"kind": "raw", "role": "user", "text": "I like tea  black", "session": key})["id"]
    note = told.note(turn)
    ref = opened(told, producer={**AGENT, "model": "m"})
    for more in ({"session": ref}, {"producer": {"model": "m"}}):
        claim = {"origin": "stated", "text": "hates tea", **more}
        assert reason_of(partial(told.do, "revise", note, **claim))[0] is Reason.PROVENANCE
    assert (
        told.memory(told.do("revise", note, origin="stated", text="tea black", session=ref)["id"])["origin"] == "stated"
    )


# --- spelling and repeats ------------------------------------------------------------------------


@doings
def test_an_id_in_any_spelling_is_that_session(told: Told, doing: str) -> None:
    """B9: one spelling is owned and another found."""
    note = told.note(told.raw())
    ref = opened(told)
    prefix, _, tsid = ref.partition(":")
    spelled = f"{prefix}:{tsid.lower().replace('0', 'o').replace('1', 'l')}"
    assert spelled != ref
    _, found = do(told, doing, note, session=spelled)
    assert stamps(found) == {number_of(told, ref)}
    for sel in (ref, spelled):
        listed = told.read("list", {"sel": {"session": sel}})["total"]
        assert listed == (1 if doing in ("supersede", "update") else 0)
        assert told.read("records", {"session": sel})["total"] == 1 + len(
            [event for event in found if getattr(event, "session", 0)]
        )
    assert told.write("session_close", {"session": spelled})["already_closed"] is False


def test_pages_go_on_under_another_spelling_of_the_session(told: Told) -> None:
    ref = opened(told)
    note = told.raw()
    for _ in range(5):
        told.note(note, session=ref)
        told.do("mark", note, mark="resolved", session=ref)
        told.do("mark", note, mark="resolved", on=False, session=ref)
    low = f"session:{ref.partition(':')[2].lower()}"
    for verb, params in (
        ("list", lambda session: {"sel": {"session": session}}),
        ("records", lambda session: {"session": session}),
        ("session", lambda session: {"session": session, "include": ["derived"]}),
    ):
        first = told.read(verb, {**params(ref), "limit": 2})
        second = told.read(verb, {**params(low), "limit": 2, "cursor": first["next_cursor"]})
        assert second["total"] == first["total"] > 2, verb


@doings
def test_a_repeat_answers_from_the_record_whatever_became_of_the_session(told: Told, doing: str) -> None:
    note = told.note(told.raw())
    ref = opened(told)
    told.now_ms += LEASE_MS
    verb, params, _ = DOINGS[doing]
    keyed = {**params, "session": ref, "idempotency_key": "once"}
    first = told.do(verb, note, **keyed)
    told.write("session_close", {"session": ref})
    before = head(told)
    low = f"session:{ref.partition(':')[2].lower()}"
    for spelled in (ref, low):
        assert told.do(verb, note, **{**keyed, "session": spelled}) == {**first, "duplicate": True}
    assert head(told) == before and first["notes"] == ["session_revived"]
    with pytest.raises(Refused) as refused:
        told.do(verb, note, **{**keyed, "session": opened(told, "another")})
    assert refused.value.reason is Reason.CONFLICT


# --- T24, B10, B11: at once ----------------------------------------------------------------------


def at_once(told: Told, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    """Commands given to the writer together; the answers in the order of the commands."""
    submitted = [
        Call(verb, msgspec.convert(params, VERBS[verb].params), OPERATOR, lambda outcome: None)
        for verb, params in calls
    ]
    for call in submitted:
        told.service.submit(call)
    answers = dict((id(call), outcome) for call, outcome in (told._answers.get(timeout=30) for _ in submitted))
    return [answers[id(call)] for call in submitted]


def test_writers_that_come_at_once_revive_a_stale_session_once(told: Told) -> None:
    notes = [told.note(told.raw()) for _ in range(4)]
    ref = opened(told)
    told.now_ms += LEASE_MS
    before = head(told)
    turn = {"kind": "raw", "role": "user", "text": "t", "session": ref}
    answers = at_once(
        told,
        ("mark", {"id": notes[0], "mark": "resolved", "session": ref}), ("reaffirm", {"id": notes[1], "session": ref}),
        ("revise", {"id": notes[2], "text": "a", "origin": "inferred", "session": ref}), ("remember", turn),
        ("remember_many", {"items": [turn, turn], "atomic": False}),
    )  # fmt: skip
    assert not [answer for answer in answers if isinstance(answer, Refused)]
    assert [type(event) for event in frames(told, before)].count(events.SessionReopened) == 1
    assert session(told, ref)["activation"] == 2
    assert stamps([e for e in frames(told, before) if not isinstance(e, events.Keyed)]) == {number_of(told, ref)}
    assert told.rebuilt_alike()


def test_a_close_that_comes_before_a_write_wins_and_is_not_undone(told: Told) -> None:
    notes = [told.note(told.raw()) for _ in range(3)]
    ref = opened(told)
    told.now_ms += LEASE_MS
    marks = [("mark", {"id": note, "mark": "resolved", "session": ref}) for note in notes]
    answers = at_once(told, ("session_close", {"session": ref}), *marks)
    assert [msgspec.to_builtins(answer)["notes"] for answer in answers[1:]] == [["session_closed"]] * 3
    shown = session(told, ref)
    assert (shown["state"], shown["activation"]) == ("closed", 1)


def test_a_batch_of_turns_revives_each_of_its_stale_sessions_once(told: Told) -> None:
    first, second = opened(told, "a"), opened(told, "b")
    told.now_ms += LEASE_MS
    turn = {"kind": "raw", "role": "user", "text": "t"}
    items = [{**turn, "session": ref} for ref in (first, second, first, second)]
    results = told.write("remember_many", {"items": items})["results"]
    assert [row["notes"] for row in results] == [["session_revived"]] * 2 + [[]] * 2
    assert [row["turn"] for row in results] == [1, 1, 2, 2]
    assert [session(told, ref)["activation"] for ref in (first, second)] == [2, 2]


# --- for people ----------------------------------------------------------------------------------


@doings
def test_people_are_told_what_became_of_the_session(told: Told, doing: str) -> None:
    note = told.note(told.raw())
    ref = opened(told)
    told.write("session_close", {"session": ref})
    verb = DOINGS[doing][0]
    show = {"revise": render_written.revise, "mark": render_written.mark, "reaffirm": render_written.recover}[verb]
    quiet, _ = do(told, doing, told.note(told.raw()))
    loud, _ = do(told, doing, note, session=ref)
    assert "session_" not in " ".join(show(quiet))
    assert "session_closed" in " ".join(show(loud))

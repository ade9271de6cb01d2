"""explain and session_provenance: how a memory came to be, what came out of a session, and who is told what of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from crc32c import crc32c

from daemon.caller import Caller
from daemon.refusal import Reason, Refused
from daemon.wire.verbs import VERBS
from journal.codes import CallerRole, Kind
from journal.events import Pruned, ResolvableChanged
from journal.tsid import parse_memory_ref
from tests.daemon.slept import Slept, fact

AUDITOR = Caller(uid=7, role=CallerRole.AUDITOR, content=False)
URL = {"kind": "url", "id": "https://example.org/zqXcanary", "resolvable": True}


@pytest.fixture
def slept(tmp_path: Path) -> Iterator[Slept]:
    opened = Slept(tmp_path / "state")
    try:
        yield opened
        assert opened.rebuilt_alike()
    finally:
        opened.close(True)


def asked_by(slept: Slept, caller: Caller, verb: str, **params: Any) -> Any:
    answer = slept.service.read(verb, msgspec.convert(params, VERBS[verb].params), caller)
    return json.loads(msgspec.json.encode(answer))


def remember(slept: Slept, **params: Any) -> str:
    return str(slept.write("remember", {"origin": "told", "text": "words", **params})["id"])


# --- how it came to be ---------------------------------------------------------------------------


def test_how_a_memory_came_to_be(slept: Slept) -> None:
    seeded = remember(slept, kind="value", origin="seeded")
    turn = slept.turn("t")
    imported = {"format": "old", "foreign_id": "1", "created_at": "2020-01-01T00:00:00Z"}
    (note,) = slept.commit([fact(turn)])["notes"]
    told = {
        seeded: "seeded",
        turn: "written",
        remember(slept, kind="note", derived_from=[turn]): "written",
        remember(slept, kind="note", derived_from=[turn], imported=imported): "imported",
        note: "consolidated",
    }
    assert {ref: slept.explain(ref)["how"] for ref in told} == told


def test_a_turn_is_explained_by_who_wrote_it_and_where(slept: Slept) -> None:
    turn = slept.turn("t", producer={"agent": "sleeper", "model": "m-1"})
    told = slept.explain(turn)
    assert (told["session"], told["turn"], told["origin"]) == (slept.ref(), 1, "stated")
    assert told["actor"] == {"uid": told["actor"]["uid"], "role": "operator", "via": "client"}
    assert told["producer"] == {"agent": "sleeper", "model": "m-1", "version": None, "extractor": None}
    assert (told["sources"], told["evidence"], told["quoted_from"], told["row"]) == ([], [], [], None)
    assert told["at"] == slept.memory(turn)["at"]


def test_a_note_of_a_pass_is_explained_down_to_its_turns(slept: Slept) -> None:
    turns = [slept.turn("tea at four"), slept.turn("x" * 300), slept.turn("no milk")]
    stamp = {"agent": "noctuary", "extractor": "extractive/1"}
    (note,) = slept.commit(
        [fact(*turns, text="tea, no milk — ✓", quoted_from=[turns[0]])], producer=stamp
    )["notes"]  # fmt: skip
    told = slept.explain(note)
    assert [(each["ref"], each["state"], each["text"], each["cut"]) for each in told["sources"]] == [
        (turns[0], "live", "tea at four", False), (turns[1], "live", "x" * 200, True),
        (turns[2], "live", "no milk", False),
    ]  # fmt: skip
    assert told["quoted_from"] == [turns[0]]
    assert (told["actor"]["role"], told["actor"]["via"]) == ("daemon", "relay")
    assert told["producer"]["extractor"] == "extractive/1"
    assert told["row"] == {
        "id": note, "session": slept.ref(), "state": "live", "pass": 1, "fact_index": 0, "batch_count": 1,
        "turn_count": 3, "first_seq": 1, "last_seq": 3, "partition": slept.memory(turns[0])["partition"],
        "at": told["at"], "source": None, "content_hash_hi": crc32c("tea, no milk — ✓".encode()) >> 16,
    }  # fmt: skip


def test_a_procedure_has_a_row_per_semantic_source(slept: Slept) -> None:
    turn = slept.turn("t")
    notes = slept.commit([fact(turn, text="one"), fact(turn, text="two")])["notes"]
    episode = remember(slept, kind="episode", derived_from=[turn])
    both = remember(slept, kind="procedure", derived_from=[notes[1], episode, notes[0]], session=slept.ref())
    row = slept.row(both)
    assert (row["source"], row["session"], row["pass"], row["turn_count"], row["first_seq"]) == (
        notes[1], None, None, 0, None,
    )  # fmt: skip
    told = slept.explain(both)
    assert [each["source"] for each in told["rows"]] == [notes[1], notes[0]] and told["rows"][0] == told["row"]
    assert slept.explain(remember(slept, kind="procedure", derived_from=[episode]))["row"] is None
    assert both not in [each["id"] for each in slept.rows(include_clients=True)]


def test_a_revision_is_explained_by_what_it_revises_and_what_it_stands_on(slept: Slept) -> None:
    turns = slept.turns(2)
    (note,) = slept.commit([fact(*turns)])["notes"]
    before = slept.explain(note)
    assert (before["predecessor"], before["disposition"], before["grounds"]) == (None, None, turns)
    second = slept.write("revise", {"id": note, "text": "n2", "origin": "derived"})["id"]
    third = slept.write("revise", {"id": second, "text": "n3", "origin": "derived", "disposition": "updates"})["id"]
    told = [slept.explain(ref) for ref in (second, third)]
    assert [each["sources"] for each in told] == [[], []], "it was made from nothing itself"
    assert [each["grounds"] for each in told] == [turns, turns]
    assert [(each["predecessor"], each["disposition"]) for each in told] == [(note, "supersedes"), (second, "updates")]
    assert [each["rows"] for each in told] == [[], []] and before["rows"] == [before["row"]]


def test_where_its_writer_has_it_from_is_told(slept: Slept) -> None:
    turn = slept.turn("t", source=URL)
    source = slept.explain(turn)["source"]
    assert (source["ref"], source["state"]) == (f"url:{URL['id']}", "live")
    assert slept.explain(slept.turn("u"))["source"] is None


def test_a_procedure_made_in_the_command_of_its_source_has_its_row_too(slept: Slept) -> None:
    items = [
        {"kind": "raw", "origin": "told", "text": "r"},
        {"kind": "note", "origin": "told", "text": "n", "derived_from": ["@0"]},
        {"kind": "procedure", "origin": "derived", "text": "p", "derived_from": ["@1"]},
    ]
    made = [each["id"] for each in slept.write("remember_many", {"items": items})["results"]]
    assert slept.row(made[2])["source"] == made[1]


# --- references as they stand now ----------------------------------------------------------------


def test_each_source_is_told_as_it_stands_now(slept: Slept) -> None:
    turns = slept.turns(4)
    note = remember(slept, kind="note", derived_from=turns, evidence=[turns[1]])
    slept.write("forget", {"id": turns[1]})
    slept.append(Pruned(memories=(parse_memory_ref(turns[2]),), cycle=1))
    slept.purge(turns[3])
    told = slept.explain(note)
    assert [(each["ref"], each["state"], each["text"]) for each in told["sources"]] == [
        (turns[0], "live", "one 1"), (turns[1], "forgotten", "one 2"), (turns[2], "pruned", "one 3"),
        (turns[3], "purged", None),
    ]  # fmt: skip
    assert [each["purged_at"] is not None for each in told["sources"]] == [False, False, False, True]
    assert [(each["ref"], each["state"]) for each in told["evidence"]] == [(turns[1], "forgotten")]


def test_a_purged_note_is_still_explained_without_its_content(slept: Slept) -> None:
    turn = slept.turn("t")
    (note,) = slept.commit([fact(turn, text="zqXcanary")])["notes"]
    before = slept.explain(note)
    slept.purge(note)
    told = slept.explain(note)
    assert told["row"] == {**before["row"], "state": "tombstone", "content_hash_hi": 0}
    assert told["sources"] == before["sources"] and "zqXcanary" not in json.dumps(told)


def test_what_lies_outside_is_live_until_it_is_said_not_to_be(slept: Slept) -> None:
    turn = slept.turn("t")
    gone = {**URL, "id": "gone", "resolvable": False}
    note = remember(slept, kind="note", derived_from=[turn, URL, gone, "context:a remark"], evidence=[URL])
    outside = [(each["ref"], each["state"]) for each in slept.explain(note)["sources"][1:]]
    assert outside == [(f"url:{URL['id']}", "live"), ("url:gone", "unavailable"), ("context:a remark", "live")]
    for resolvable, state in ((False, "unavailable"), (True, "live")):
        slept.append(ResolvableChanged(memory=parse_memory_ref(note), index=0, resolvable=resolvable))
        told = slept.explain(note)
        assert [each["state"] for each in told["sources"]] == ["live", state, "unavailable", "live"]
        assert told["evidence"][0]["state"] == "live", "another place, though the same name"
        shown = [each["resolvable"] for each in slept.memory(note)["derived_from"] if isinstance(each, dict)]
        assert shown == [resolvable, False]
        nodes = {each["ref"]: each["status"] for each in slept.read("trace", {"id": note})["nodes"]}
        assert nodes[f"url:{URL['id']}"] == state
    words = [each["type"] for each in slept.read("history", {"id": note})["events"]]
    assert words == ["memory_created", "resolvable_changed", "resolvable_changed"]


# --- who is told what ----------------------------------------------------------------------------


def test_who_may_not_read_content_is_told_none_of_it(slept: Slept) -> None:
    turn = slept.turn("zqXcanary of a turn")
    (note,) = slept.commit([fact(turn, text="zqXcanary of a note", quoted_from=[turn])])["notes"]
    mine = remember(slept, kind="note", derived_from=[turn, URL], text="zqXcanary of mine", session=slept.ref())
    answers = [asked_by(slept, AUDITOR, "explain", id=ref) for ref in (note, mine, turn)]
    answers.append(asked_by(slept, AUDITOR, "session_provenance", session=slept.ref(), include_clients=True))
    assert "zqXcanary" not in json.dumps(answers)
    assert answers[0]["sources"] == [
        {"ref": turn, "state": "live", "text": None, "cut": False, "purged_at": None, "quarantined": False}
    ]  # fmt: skip
    assert [each["ref"] for each in answers[1]["sources"]] == [turn, "url"]
    assert [row["content_hash_hi"] for row in answers[3]["derived"]] == [0, 0], "16 bits confirm a guess"
    assert [row["content_hash_hi"] > 0 for row in slept.rows(include_clients=True)] == [True, True]


@pytest.mark.parametrize("caller", [AUDITOR, Caller(uid=8, role=CallerRole.AGENT)])
def test_another_tenants_memory_and_session_are_like_none(slept: Slept, caller: Caller) -> None:
    turn = slept.turn("t")
    (note,) = slept.commit([fact(turn)])["notes"]
    session = slept.ref()
    slept.write("remember", {"kind": "raw", "origin": "told", "text": "theirs", "tenant": "other"})
    other = msgspec.structs.replace(caller, tenant="other")
    asks: list[tuple[str, dict[str, str], dict[str, str]]] = [
        ("explain", {"id": note}, {"id": "note:0000000000000"}),
        ("session_provenance", {"session": session}, {"session": "session:0000000000000"}),
    ]
    for verb, theirs, never in asks:
        told = []
        for params in (theirs, never):
            with pytest.raises(Refused) as refused:
                asked_by(slept, other, verb, **params)
            told.append((refused.value.reason, refused.value.message, refused.value.data))
        assert told[0] == told[1] and told[0][0] is Reason.NOT_FOUND
    with pytest.raises(Refused):
        slept.explain(note.replace("note", "belief"))


# --- what came out of a session ------------------------------------------------------------------


def test_rows_come_by_pass_then_fact_however_they_were_made(slept: Slept) -> None:
    made: dict[tuple[int, int], str] = {}
    for number in (1, 2, 3):
        for commit in range(2):
            turns = slept.turns(2)
            notes = slept.commit(
                [fact(turn, text=f"{number} {turn}") for turn in turns], last=commit == 1
            )["notes"]  # fmt: skip
            slept.commit([fact(slept.turn("x", "two"), text=str(commit))], "two")
            made |= {(number, commit * 2 + place): note for place, note in enumerate(notes)}
    rows = slept.rows()
    assert {(row["pass"], row["fact_index"]): row["id"] for row in rows} == made
    assert [(row["pass"], row["fact_index"]) for row in rows] == sorted(made)
    assert {row["session"] for row in rows} == {slept.ref()}


def test_clients_notes_stand_behind_the_rows_when_asked_for(slept: Slept) -> None:
    turns = slept.turns(4)
    (note,) = slept.commit([fact(turns[0])])["notes"]
    cited = remember(slept, kind="note", derived_from=[turns[3], turns[1]])
    carried = remember(slept, kind="note", derived_from=[slept.turn("x", "two")], session=slept.ref())
    remember(slept, kind="episode", derived_from=[turns[0]], session=slept.ref())
    assert [row["id"] for row in slept.rows()] == [note]
    rows = slept.rows(include_clients=True)
    assert [row["id"] for row in rows] == [note, cited, carried]
    told = ("pass", "fact_index", "batch_count", "turn_count", "first_seq", "last_seq", "state")
    assert [[row[name] for name in told] for row in rows[1:]] == [
        [None, None, None, 2, 2, 4, "live"], [None, None, None, 0, None, None, "live"],
    ]  # fmt: skip
    slept.write("forget", {"id": cited})
    assert slept.rows(include_clients=True)[1]["state"] == "tombstone"


def test_what_took_the_place_of_a_note_stands_with_the_clients_notes(slept: Slept) -> None:
    turn = slept.turn("t")
    (note,) = slept.commit([fact(turn)])["notes"]
    own = remember(slept, kind="note", derived_from=[turn])
    elsewhere = remember(slept, kind="note", derived_from=[slept.turn("other", "two")])
    later = [str(slept.write("revise", {"id": each, "text": "x", "origin": "told"})["id"]) for each in (note, own)]
    later.append(str(slept.write("revise", {"id": later[0], "text": "y", "origin": "told"})["id"]))
    asked = {"session": slept.ref()}
    assert slept.read("session_provenance", asked)["client_notes"] == 4, "how many there are is told in any case"
    assert [row["id"] for row in slept.rows()] == [note]
    rows = slept.rows(include_clients=True)
    assert [row["id"] for row in rows] == [note, own, *later] and elsewhere not in later
    assert {(row["turn_count"], row["first_seq"], row["pass"]) for row in rows[1:]} == {(1, 1, None)}


def test_a_session_without_anything_has_nothing(slept: Slept) -> None:
    slept.turn("t")
    assert slept.read("session_provenance", {"session": slept.ref()}) == {
        "derived": [],
        "truncated": False,
        "client_notes": 0,
    }


def test_references_hold_the_kind_they_name(slept: Slept) -> None:
    (note,) = slept.commit([fact(slept.turn("t"))])["notes"]
    assert parse_memory_ref(slept.rows()[0]["id"]) == parse_memory_ref(note)
    assert parse_memory_ref(note)[0] == Kind.NOTE

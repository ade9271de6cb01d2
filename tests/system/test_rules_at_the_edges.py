"""Values at and beyond the edges: refused with their parameter, or read back as they were written."""

from __future__ import annotations

from typing import Any

import pytest

import noctuary
from tests.system.process import DaemonProcess

TURN = {"kind": "raw", "text": "t", "role": "user"}
FACT = {"subject": "s", "predicate": "p", "value": "v"}


def refusal(daemon: DaemonProcess, method: str, **params: Any) -> dict[str, Any]:
    with pytest.raises(noctuary.NoctuaryError) as refused:
        daemon.call(method, **params)
    return {"reason": refused.value.reason, **refused.value.data}


@pytest.mark.parametrize("time", ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59"])
def test_a_time_that_no_answer_could_say_is_refused(daemon: DaemonProcess, time: str) -> None:
    session = daemon.call("session_open", agent="a", key="k")["session"]
    for name in ("occurred_at", "valid_from", "valid_to"):
        assert refusal(daemon, "remember", **TURN, **{name: time})["parameter"] == name
    for name in ("valid_from", "valid_to"):
        assert refusal(daemon, "remember", **TURN, facts=[{**FACT, name: time}])["parameter"] == f"facts.{name}"
    told = refusal(daemon, "remember", **TURN, imported={"format": "x", "created_at": time})
    assert told["parameter"] == "imported.created_at"
    assert refusal(daemon, "session_open", agent="a", key="k", at=time)["parameter"] == "at"
    assert refusal(daemon, "session_close", session=session, at=time)["parameter"] == "at"
    assert daemon.call("list", full=True)["total"] == 0


FIRST, BEFORE, EPOCH, LAST = (
    "0001-01-01T00:00:00.000Z",
    "1969-12-31T23:59:59.999Z",
    "1970-01-01T00:00:00.000Z",
    ("9999-12-31T23:59:59.999Z"),
)


@pytest.mark.parametrize("time", [FIRST, BEFORE, EPOCH, LAST])
def test_every_time_that_is_taken_comes_back(daemon: DaemonProcess, time: str) -> None:
    fact = {**FACT, "valid_from": time, "valid_to": time}
    written = daemon.call("remember", **TURN, occurred_at=time, valid_from=time, valid_to=time, facts=[fact])
    (memory,) = daemon.call("get", ids=[written["id"]])["memories"]
    told = (memory["occurred_at"], memory["valid_from"], memory["valid_to"])
    assert told == (time, time, time)
    assert (memory["facts"][0]["valid_from"], memory["facts"][0]["valid_to"]) == (time, time)


def test_a_session_closes_when_it_was_open(daemon: DaemonProcess) -> None:
    opened = daemon.call("session_open", agent="a", key="k", at="2026-01-01T00:00:00Z")
    session = opened["session"]
    assert refusal(daemon, "session_close", session=session, at="2025-12-31T00:00:00Z")["parameter"] == "at"
    assert refusal(daemon, "session_close", session=session, at="2999-01-01T00:00:00Z")["parameter"] == "at"
    assert refusal(daemon, "session_open", agent="a", key="new", at="2999-01-01T00:00:00Z")["parameter"] == "at"
    # A lease follows the clock of the writing: a session of long ago that is opened now is live now.
    again = daemon.call("session_open", agent="a", key="k", at="2026-01-01T00:00:00Z")
    assert (again["activation"], again["reopened"]) == (1, False)
    closed = daemon.call("session_close", session=session, at="2026-01-02T00:00:00Z")
    assert closed == {"closed_at": "2026-01-02T00:00:00.000Z", "already_closed": False}
    assert daemon.call("session_close", session=session)["already_closed"] is True
    assert daemon.call("session", session=session)["state"] == "closed"


def test_recover_keeps_its_evidence_and_takes_no_amount(daemon: DaemonProcess) -> None:
    first, second = (daemon.call("remember", **{**TURN, "text": text})["id"] for text in "ab")
    daemon.call("forget", id=first)
    assert refusal(daemon, "recover", id=first, amount=0.5)["parameter"] == "amount"
    told = refusal(daemon, "recover", id=first, evidence=["raw:0000000000001"])
    assert (told["reason"], told["parameter"]) == ("provenance", "evidence")
    external = {"kind": "url", "id": "https://example.org/canary-of-recover"}
    assert daemon.call("recover", id=first, evidence=[second, external])["strength"]["new"] == 0.2
    assert b"canary-of-recover" not in b"".join(daemon.files().values())


def test_a_selection_says_something_and_means_the_kind_it_names(daemon: DaemonProcess) -> None:
    written = daemon.call("remember", **TURN)["id"]
    assert refusal(daemon, "list", sel={})["parameter"] == "sel"
    assert daemon.call("list", sel={"ids": [written]})["total"] == 1
    assert daemon.call("list", sel={"ids": ["belief:" + written.partition(":")[2]]})["total"] == 0


def test_a_document_is_no_utterance(daemon: DaemonProcess) -> None:
    said = {"role": "user", "origin": "stated", "producer": {"model": "m-1"}}
    told = refusal(daemon, "remember", kind="raw", subtype="document", text="I said so", **said)
    assert (told["reason"], told["hint"]) == ("provenance", "inferred")
    assert daemon.call("remember", kind="raw", text="I said so", **said)["duplicate"] is False


def test_metadata_of_any_number_and_spelling_is_one_request(daemon: DaemonProcess) -> None:
    keyed = {**TURN, "idempotency_key": "k"}
    first = daemon.call("remember", **keyed, metadata={"n": 1 << 70, "a": [1, {"x": None}]})
    again = daemon.call("remember", **keyed, metadata={"a": [1, {"x": None}], "n": 1 << 70})
    assert (again["id"], again["duplicate"]) == (first["id"], True)
    assert refusal(daemon, "remember", **keyed, metadata={"n": 1})["reason"] == "conflict"


def test_derived_memories_of_a_session_are_paged_like_its_turns(daemon: DaemonProcess) -> None:
    session = {"agent": "a", "key": "k"}
    turns = [daemon.call("remember", **TURN, session=session)["id"] for _ in range(3)]
    note = {"kind": "note", "text": "n", "origin": "derived", "derived_from": turns[:1], "session": session}
    notes = [daemon.call("remember", **note)["id"] for _ in range(3)]
    number = daemon.call("sessions")["sessions"][0]["session"]
    params: dict[str, Any] = {"session": number, "include": ["turns", "derived"], "limit": 2}
    found: list[str] = []
    while True:
        page = daemon.call("session", **params)
        found += [memory["id"] for memory in (*page["memories"], *page["derived"])]
        assert page["total"] == 6
        if page["next_cursor"] is None:
            break
        params["cursor"] = page["next_cursor"]
        daemon.call("remember", **TURN, session=session)  # what is written meanwhile is not on later pages
    assert found == turns + notes


def test_two_daemons_do_not_take_one_socket(daemon: DaemonProcess) -> None:
    other = DaemonProcess(daemon.state.parent / "other")
    (daemon.state.parent / "other").mkdir()
    other.socket = daemon.socket
    other.spawn()
    assert other.wait() == 75
    assert str(daemon.socket) in other.logged()
    assert daemon.call("hello")["state"] == "ready"


def test_an_external_source_is_one_node_however_many_cite_it(daemon: DaemonProcess) -> None:
    turn = daemon.call("remember", **TURN)["id"]
    url = {"kind": "url", "id": "https://example.org/one"}
    note = {"kind": "note", "text": "n", "origin": "observed", "derived_from": [turn, url]}
    notes = [daemon.call("remember", **note)["id"] for _ in range(2)]
    belief = daemon.call("remember", kind="belief", text="b", origin="derived", derived_from=notes)["id"]
    found = daemon.call("trace", id=belief)
    refs = [node["ref"] for node in found["nodes"]]
    assert sorted(refs) == sorted({belief, *notes, turn, "url:https://example.org/one"})
    assert [edge["from"] for edge in found["edges"] if edge["to"].startswith("url:")] == notes

"""Writing, reading, sessions, lineage, repeats and refusals, through the socket of a real daemon."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

import noctuary
from tests.system.process import DaemonProcess

RAW = {"kind": "raw", "text": "the kettle is on", "role": "user"}


def exchange(daemon: DaemonProcess, *lines: bytes) -> list[dict[str, Any]]:
    """Raw lines in, all answers out: at the end of input the daemon answers what it read, and closes."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
        stream.connect(str(daemon.socket))
        stream.settimeout(30)
        stream.sendall(b"".join(line + b"\n" for line in lines))
        stream.shutdown(socket.SHUT_WR)
        with stream.makefile("rb") as answers:
            return [json.loads(line) for line in answers]


def request(method: str, number: int = 1, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()


def refused(daemon: DaemonProcess, method: str, **params: Any) -> dict[str, Any]:
    """The `data` of the refusal of one call."""
    (answer,) = exchange(daemon, request(method, **params))
    assert answer["id"] == 1
    data: dict[str, Any] = answer["error"]["data"]
    return data


def test_what_was_written_is_read(daemon: DaemonProcess) -> None:
    text = "  Grüße — 你好\u2028\t"
    given = {
        "text": text, "topic": "tea", "tags": ["kitchen", "morning"], "speaker": "Ada", "subject": "household",
        "entities": [{"name": "Ada", "type": "person"}], "metadata": {"b": 1, "a": [2]}, "importance": 2.5,
        "occurred_at": "2026-03-01T10:00:00.250+02:00", "producer": {"agent": "tester", "model": "m-1"},
    }  # fmt: skip
    written = daemon.call("remember", **{**RAW, **given})
    assert written["duplicate"] is False and written["id"].startswith("raw:")
    (memory,) = daemon.call("get", ids=[written["id"]])["memories"]
    assert memory["text"] == text
    for name in ("topic", "speaker", "subject", "entities", "metadata", "importance"):
        assert memory[name] == given[name], name
    assert sorted(memory["tags"]) == ["kitchen", "morning"]
    assert memory["occurred_at"] == "2026-03-01T08:00:00.250Z"
    assert memory["occurred_offset"] == "+02:00"
    assert memory["producer"]["agent"] == "tester" and memory["producer"]["version"] is None
    assert memory["origin"] == "stated" and memory["address"] == written["address"]


def test_get_keeps_the_order_and_names_what_is_missing(daemon: DaemonProcess) -> None:
    first, second = (daemon.call("remember", **{**RAW, "text": text})["id"] for text in ("a", "b"))
    found = daemon.call("get", ids=[second, "raw:0000000000000", first, second])
    assert [memory["id"] for memory in found["memories"]] == [second, first]
    assert found["not_found"] == ["raw:0000000000000"]
    by_command = daemon.command("get", "raw:0000000000000")
    assert by_command.returncode == 1, by_command.stderr


def test_list_pages_cover_everything_once(daemon: DaemonProcess) -> None:
    items = [{**RAW, "text": f"n{number}", "tags": ["even"] if number % 2 == 0 else ["odd"]} for number in range(25)]
    ids = [each["id"] for each in daemon.call("remember_many", items=items)["results"]]
    found: list[str] = []
    params: dict[str, Any] = {"limit": 10}
    for expected in (10, 10, 5):
        page = daemon.call("list", **params)
        assert len(page["memories"]) == expected and page["total"] == 25
        found += [memory["id"] for memory in page["memories"]]
        params["cursor"] = page["next_cursor"]
    assert params["cursor"] is None
    assert sorted(found) == sorted(ids)
    assert daemon.call("list", sel={"tags": ["even"]})["total"] == 13
    assert daemon.call("list", sel={"text": "N24"})["total"] == 1


def test_a_session_numbers_its_turns(daemon: DaemonProcess) -> None:
    opened = daemon.call("session_open", agent="tester", key="one")
    again = daemon.call("session_open", agent="tester", key="one")
    assert opened["created"] and not again["created"] and opened["session"] == again["session"]
    by_key = daemon.call("remember", **RAW, session={"agent": "tester", "key": "one"})
    by_id = daemon.call("remember", **RAW, session=opened["session"])
    assert [by_key["turn"], by_id["turn"]] == [1, 2] and by_id["session"] == opened["session"]
    assert daemon.call("session_close", session=opened["session"])["already_closed"] is False
    late = daemon.call("remember", **RAW, session=opened["session"])
    assert late["notes"] == ["session_closed"] and late["turn"] is None
    (row,) = daemon.call("sessions")["sessions"]
    assert (row["agent"], row["key"], row["state"], row["turns"]) == ("tester", "one", "closed", 2)
    reopened = daemon.call("session_open", agent="tester", key="one")
    assert reopened["reopened"] and reopened["activation"] == 2


def test_trace_both_ways(daemon: DaemonProcess) -> None:
    turns = [daemon.call("remember", **{**RAW, "text": text})["id"] for text in ("a", "b", "c")]
    note = {"kind": "note", "subtype": "observation", "origin": "inferred", "text": "a and b"}
    made = daemon.call("remember", **note, derived_from=turns[:2])["id"]
    up = daemon.call("trace", id=made)
    assert up["root"] == made and not up["truncated"]
    assert {edge["to"] for edge in up["edges"]} == set(turns[:2])
    assert {edge["from"] for edge in up["edges"]} == {made}
    assert {node["ref"]: node["depth"] for node in up["nodes"]} == {made: 0, turns[0]: 1, turns[1]: 1}
    down = daemon.call("trace", id=turns[0], direction="dependents")
    assert [node["ref"] for node in down["nodes"]] == [turns[0], made]
    assert len(daemon.call("trace", id=turns[2], direction="dependents")["nodes"]) == 1


def test_a_forgotten_source_flags_its_child_and_recovers(daemon: DaemonProcess) -> None:
    turn = daemon.call("remember", **RAW)["id"]
    note = {"kind": "note", "subtype": "observation", "origin": "inferred", "text": "tea soon"}
    made = daemon.call("remember", **note, derived_from=[turn])["id"]
    forgotten = daemon.call("forget", id=turn)
    assert forgotten["found"] and forgotten["flagged"] == [made]
    assert daemon.call("list")["total"] == 1
    recovered = daemon.call("recover", id=turn)
    assert recovered["flags_cleared"] == [made]
    assert daemon.call("list")["total"] == 2


@pytest.mark.parametrize("end", [DaemonProcess.restart, DaemonProcess.kill])
def test_a_repeat_is_answered_from_the_journal(daemon: DaemonProcess, end: Any) -> None:
    params = {**RAW, "session": {"agent": "tester", "key": "one"}, "idempotency_key": "once"}
    first = daemon.call("remember", **params)
    end(daemon)
    if end is DaemonProcess.kill:
        daemon.start()
    assert daemon.call("remember", **params) == {**first, "duplicate": True}
    data = refused(daemon, "remember", **{**params, "text": "another"})
    assert data["reason"] == "conflict"
    assert daemon.call("list")["total"] == 1
    assert daemon.call("remember", **{**params, "tenant": "other"})["duplicate"] is False


@pytest.mark.parametrize(
    ("method", "params", "reason", "parameter"),
    [
        ("remember", {**RAW, "text": " \u2003"}, "invalid_input", "text"),
        ("remember", {**RAW, "text": "x" * (1 << 20) + "x"}, "too_large", "text"),
        ("remember", {**RAW, "colour": "red"}, "invalid_input", "colour"),
        ("remember", {**RAW, "importance": 99}, "invalid_input", "importance"),
        ("remember", {**RAW, "occurred_at": "2026-01-01T00:00:00"}, "invalid_input", "occurred_at"),
        ("remember", {**RAW, "kind": "thought"}, "invalid_input", "kind"),
        ("remember", {"kind": "note", "text": "a", "subtype": "observation"}, "invalid_input", "origin"),
        (
            "remember",
            {"kind": "note", "text": "a", "subtype": "observation", "origin": "consolidated"},
            "invalid_input",
            "origin",
        ),
        ("recover", {"id": "raw:0000000000000"}, "not_found", "id"),
        ("session", {"session": "session:0000000000000"}, "not_found", None),
        ("get", {"ids": ["a"] * 21}, "invalid_input", "ids"),
        ("list", {"limit": 0}, "invalid_input", "limit"),
        ("list", {"cursor": "made up"}, "invalid_input", "cursor"),
        ("no_such_verb", {}, "unknown_method", None),
    ],
)
def test_refusals_name_reason_and_parameter(
    daemon: DaemonProcess, method: str, params: dict[str, Any], reason: str, parameter: str | None
) -> None:
    head = daemon.call("head")["seq"]
    data = refused(daemon, method, **params)
    assert data["reason"] == reason
    if parameter is not None:
        assert data["parameter"] == parameter
    assert daemon.call("head")["seq"] == head, "a refused request left a record"


def test_a_missing_source_is_named(daemon: DaemonProcess) -> None:
    daemon.call("remember", **RAW)
    note = {"kind": "note", "subtype": "observation", "origin": "inferred", "text": "a"}
    data = refused(daemon, "remember", **note, derived_from=["raw:0000000000000"])
    assert data["reason"] == "provenance" and data["parameter"].startswith("derived_from")
    data = refused(daemon, "remember", **note)
    assert data["reason"] == "provenance" and data["parameter"] == "derived_from"


def test_a_batch_is_all_or_nothing_unless_it_says_so(daemon: DaemonProcess) -> None:
    good, bad = {**RAW, "text": "good"}, {**RAW, "kind": "note", "subtype": "observation", "origin": "inferred"}
    daemon.call("remember", **RAW)
    data = refused(daemon, "remember_many", items=[good, bad])
    assert data["index"] == 1 and data["reason"] == "provenance"
    assert daemon.call("list")["total"] == 1
    results = daemon.call("remember_many", items=[good, bad], atomic=False)["results"]
    assert "id" in results[0] and results[1]["error"]["data"]["reason"] == "provenance"
    assert daemon.call("list")["total"] == 2


def test_tenants_do_not_see_each_other(daemon: DaemonProcess) -> None:
    mine = daemon.call("remember", **RAW, tenant="mine")["id"]
    assert daemon.call("get", ids=[mine], tenant="theirs") == {"memories": [], "not_found": [mine]}
    assert daemon.call("list", tenant="theirs")["total"] == 0
    assert daemon.call("forget", id=mine, tenant="theirs")["found"] is False
    assert daemon.call("list", tenant="mine")["total"] == 1


def test_bad_lines_hurt_nobody_else(daemon: DaemonProcess) -> None:
    with daemon.client() as other:
        before = other.hello()
        answers = exchange(
            daemon, b"{", b"[]", b'{"jsonrpc":"2.0","method":"head"}',
            b'{"jsonrpc":"2.0","id":5,"method":"remember","params":{"kind":"raw","text":"\\ud800"}}',
            b'{"jsonrpc":"2.0","id":6,"method":"remember","params":{"kind":"raw","text":"a","confidence":NaN}}',
            request("head", 7),
        )  # fmt: skip
        reasons = [answer["error"]["data"]["reason"] for answer in answers[:5]]
        assert reasons == ["parse_error", "invalid_request", "invalid_request", "invalid_input", "invalid_input"]
        assert [answer["id"] for answer in answers] == [None, None, None, 5, 6, 7]
        assert "result" in answers[5]
        assert other.hello() == before
        assert other.call("remember", RAW, dict)["duplicate"] is False


def test_pipelined_writes_keep_their_order_and_are_seen(daemon: DaemonProcess) -> None:
    session = {"agent": "tester", "key": "one"}
    lines = [request("remember", number, **{**RAW, "text": f"n{number}"}, session=session) for number in range(300)]
    answers = exchange(daemon, *lines, request("list", 300, limit=1))
    by_id = {answer["id"]: answer["result"] for answer in answers}
    assert [by_id[number]["turn"] for number in range(300)] == list(range(1, 301))
    assert by_id[300]["total"] == 300


def test_nobody_listens(stopped: DaemonProcess) -> None:
    with pytest.raises(noctuary.Unreachable):
        stopped.call("hello")
    assert stopped.command("head").returncode == 3


def test_one_key_twice_in_an_atomic_batch_is_one_memory(daemon: DaemonProcess) -> None:
    item = {**RAW, "idempotency_key": "twice"}
    first, second = daemon.call("remember_many", items=[item, item])["results"]
    assert (first["duplicate"], second["duplicate"]) == (False, True)
    assert first["id"] == second["id"]
    assert daemon.call("list")["total"] == 1


def test_a_key_for_a_batch_that_is_not_atomic_is_refused_not_ignored(daemon: DaemonProcess) -> None:
    data = refused(daemon, "remember_many", items=[RAW], atomic=False, idempotency_key="k")
    assert (data["reason"], data["parameter"]) == ("invalid_input", "idempotency_key")


def test_a_vector_beyond_float32_is_refused_and_the_daemon_goes_on(daemon: DaemonProcess) -> None:
    data = refused(daemon, "remember", **RAW, vector={"model": "m", "values": [1e39]})
    assert data["reason"] == "invalid_input"
    assert daemon.call("remember", **RAW)["duplicate"] is False


def test_a_question_may_be_about_several_tenants(daemon: DaemonProcess) -> None:
    written = {name: daemon.call("remember", **{**RAW, "text": name}, tenant=name)["id"] for name in ("a", "b", "c")}
    found = daemon.call("list", tenants=["a", "b"])
    assert sorted(memory["text"] for memory in found["memories"]) == ["a", "b"]
    got = daemon.call("get", ids=list(written.values()), tenants=["c", "a", "c"])
    assert [memory["text"] for memory in got["memories"]] == ["a", "c"] and got["not_found"] == [written["b"]]
    data = refused(daemon, "list", tenants=["a"], tenant="a")
    assert (data["reason"], data["parameter"]) == ("invalid_input", "tenants")


def test_an_item_that_is_malformed_costs_only_itself_unless_the_batch_is_atomic(daemon: DaemonProcess) -> None:
    good = {**RAW, "text": "fine"}
    bad = [{**RAW, "text": " "}, {**RAW, "txt": "no"}, {**RAW, "producer": {"agent": "latest"}}, {"kind": "raw"}]
    results = daemon.call("remember_many", items=[good, *bad, good], atomic=False)["results"]
    assert [result.get("index") for result in results] == [None, 1, 2, 3, 4, None]
    data = [result["error"]["data"] for result in results[1:-1]]
    assert {each["reason"] for each in data} == {"invalid_input"} and [each["index"] for each in data] == [1, 2, 3, 4]
    assert [each["parameter"] for each in data] == ["text", "txt", "producer.agent", "text"]
    for item in bad:
        found = refused(daemon, "remember_many", items=[good, item])
        assert (found["reason"], found["index"]) == ("invalid_input", 1)
    assert daemon.call("list")["total"] == 2


def test_sources_keep_the_order_they_were_given_in(daemon: DaemonProcess) -> None:
    old = daemon.call("remember", **{**RAW, "text": "old"})["id"]
    note = {"kind": "note", "text": "n", "origin": "derived", "derived_from": ["@0", old, "@1", "@0", old]}
    first, second, made = daemon.call("remember_many", items=[RAW, RAW, note])["results"]
    (memory,) = daemon.call("get", ids=[made["id"]])["memories"]
    assert memory["derived_from"] == [first["id"], old, second["id"]]

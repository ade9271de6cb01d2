"""Who connects decides what is answered: roles and tenants by uid, over a real socket with real users.

A forked child takes on the uid, so this needs root. Two tenants, `ada` and `bob`, hold the same kinds of things;
whatever one asks about the other's must be answered like what never was.
"""

from __future__ import annotations

import base64
import grp  # noqa: F401 - the client wants it, and whom the children become may not read where modules lie
import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import noctuary
from daemon.cli import exits
from daemon.wire.verbs import VERBS
from tests.system.process import DaemonProcess
from tests.system.raw_client import RAW, ask, eventually, reason_of, request

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become other users")

GROUP = 54_321
ADA, BOB, AUDITOR, READER, BY_GROUP, FAR, UNMAPPED = 12_001, 12_002, 12_003, 12_004, 12_005, 3_000_000_001, 12_009
NOBODY = 65_534
TEAM = 54_322
MANY = (*range(60_000, 63_000), TEAM)
CONFIG = f"""
socket_group = {GROUP}
[[peer]]
uid = 0
tenant = "default"
role = "operator"
[[peer]]
uid = {ADA}
tenant = "ada"
role = "agent"
[[peer]]
uid = {BOB}
tenant = "bob"
role = "agent"
reads = ["library"]
[[peer]]
uid = {AUDITOR}
tenant = "ada"
role = "auditor"
[[peer]]
uid = {READER}
tenant = "ada"
role = "auditor"
grants = ["content"]
[[peer]]
uid = {FAR}
tenant = "far"
role = "agent"
[[peer]]
group = {TEAM}
tenant = "team"
role = "agent"
"""
READ_BY_ALL = {
    "hello", "describe", "list", "sessions", "session", "trace", "head", "history", "records", "cancel", "explain",
    "session_provenance", "proposals", "partitions",
}  # fmt: skip
MAY = {
    ADA: READ_BY_ALL
    | {"remember", "remember_many", "get", "forget", "recover", "session_open", "session_close", "status", "subscribe"}
    | {"verify", "reinforce", "weaken", "reaffirm", "mark", "relate", "revise", "review"}
    | {"propose", "decide"},
    AUDITOR: READ_BY_ALL | {"audit", "metrics", "cohorts", "purges", "holds"},
}  # fmt: skip
"""Of the verbs there are, what the contract gives an agent and an auditor."""
ARGUMENTS: dict[str, dict[str, Any]] = {
    "remember": RAW,
    "remember_many": {"items": [RAW]},
    "get": {"ids": ["raw:0000000000000"]},
    "forget": {"id": "raw:0000000000000"},
    "recover": {"id": "raw:0000000000000"},
    **{verb: {"id": "raw:0000000000000"} for verb in ("verify", "reinforce", "weaken", "reaffirm")},
    "mark": {"id": "raw:0000000000000", "mark": "archived"},
    "relate": {"from": "raw:0000000000000", "to": "raw:0000000000001", "type": "extends"},
    "revise": {"id": "raw:0000000000000", "text": "x", "origin": "stated"},
    "trace": {"id": "raw:0000000000000"},
    "session": {"session": "session:0000000000000"},
    "explain": {"id": "raw:0000000000000"},
    "session_provenance": {"session": "session:0000000000000"},
    "session_open": {"agent": "a", "key": "k"},
    "session_close": {"session": "session:0000000000000"},
    "describe": {"verb": "hello"},
    "history": {"id": "raw:0000000000000"},
    "cancel": {"request": "none"},
    "backup": {"dir": "/nowhere/there"},
    "propose": {"proposal_kind": "resolution", "memory": "raw:0000000000000", "action": "resolve"},
    "decide": {"proposal": "proposal:0000000000000", "accept": True},
    "cohort": {"sel": {"ids": ["raw:0000000000000"]}, "action": "quarantine"},
    "lift": {"cohort": "cohort:0000000000000"},
    "purge": {"ids": ["raw:0000000000000"]},
    "hold": {"sel": {"ids": ["raw:0000000000000"]}},
    "residue": {"pattern": "tea"},
}


class PeeredDaemon(DaemonProcess):
    @property
    def config(self) -> Path:
        return self.socket.parent / "noctuary.toml"

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "NOCTUARY_CONFIG": str(self.config)}


@pytest.fixture
def peered(short_dir: Path) -> Iterator[PeeredDaemon]:
    daemon = PeeredDaemon(short_dir)
    short_dir.chmod(0o711)
    daemon.config.write_text(CONFIG)
    daemon.start()
    yield daemon
    daemon.close()


def become(uid: int, groups: tuple[int, ...]) -> None:
    os.setgroups(groups)
    os.setresgid(GROUP, GROUP, GROUP)
    os.setresuid(uid, uid, uid)


def ask_as(uid: int, path: Path, *lines: bytes, groups: tuple[int, ...] = ()) -> list[dict[str, Any]]:
    """The answers to `lines`, asked by a child that is `uid`, in the order of the ids 0, 1, …."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            become(uid, groups)
            os.write(writing, json.dumps(ask(path, *lines)).encode())
            os._exit(0)
        except BaseException:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as answers:
        found = answers.read()
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the child that was to ask as {uid} failed"
    return sorted(json.loads(found), key=lambda answer: answer["id"])


def result_as(uid: int, path: Path, method: str, **params: Any) -> dict[str, Any]:
    (answer,) = ask_as(uid, path, request(method, 0, **params))
    assert "result" in answer, answer
    found: dict[str, Any] = answer["result"]
    return found


def ask_every_verb(uid: int, path: Path, groups: tuple[int, ...] = (), **more: Any) -> dict[str, dict[str, Any]]:
    names = list(VERBS)
    lines = [request(name, number, **ARGUMENTS.get(name, {}), **more) for number, name in enumerate(names)]
    return {names[answer["id"]]: answer for answer in ask_as(uid, path, *lines, groups=groups)}


@pytest.mark.parametrize(("uid", "groups"), [(UNMAPPED, ()), (NOBODY, ()), (NOBODY, (TEAM,))])
def test_who_is_nobody_here_is_denied_everything(peered: PeeredDaemon, uid: int, groups: tuple[int, ...]) -> None:
    """The kernel's word for unknown is nobody even in a group that has an entry."""
    answers = ask_every_verb(uid, peered.socket, groups)
    assert {reason_of(answer) for answer in answers.values()} == {"denied"}
    assert all(set(answer["error"]["data"]) <= {"reason", "retryable", "hint"} for answer in answers.values())
    assert all(f"uid {uid}" in answer["error"]["message"] for answer in answers.values())
    assert peered.call("list", tenant="default")["total"] == 0


def test_a_user_outside_of_the_group_does_not_get_in_at_all(peered: PeeredDaemon) -> None:
    assert peered.socket.stat().st_mode & 0o777 == 0o660 and peered.socket.stat().st_gid == GROUP
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setresgid(ADA, ADA, ADA)
        os.setresuid(ADA, ADA, ADA)
        try:
            socket.socket(socket.AF_UNIX).connect(str(peered.socket))
        except PermissionError:
            os._exit(13)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 13


def test_the_command_tells_a_user_outside_of_the_group_whom_to_ask(peered: PeeredDaemon) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(ADA, ADA, ADA)
            os.setresuid(ADA, ADA, ADA)
            noctuary.Client(str(peered.socket)).head()
        except noctuary.Denied as error:
            os.write(writing, str(error).encode())
        finally:  # whatever happens: it must not go on as a second test run
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as told:
        message = told.read().decode()
    assert f"user {ADA} may not connect" in message
    assert f"group {GROUP}" in message
    assert exits.of_reason(noctuary.Denied.reason) == 77


def test_a_verb_that_a_role_may_not_use_is_refused_with_the_roles_that_may(peered: PeeredDaemon) -> None:
    (answer,) = ask_as(AUDITOR, peered.socket, request("get", 0, ids=["note:0000000000001"]))
    assert f"uid {AUDITOR} is auditor" in answer["error"]["message"]
    assert answer["error"]["data"]["allowed"] == ["agent", "operator"]


@pytest.mark.parametrize("uid", [ADA, AUDITOR])
def test_a_role_may_what_the_contract_gives_it_and_no_more(peered: PeeredDaemon, uid: int) -> None:
    answers = ask_every_verb(uid, peered.socket)
    allowed = {name for name, answer in answers.items() if reason_of(answer) != "denied"}
    assert allowed == MAY[uid]
    assert set(answers["hello"]["result"]["verbs"]) == MAY[uid]
    assert peered.call("lifecycle", tenant="ada")["state"] in ("initializing", "active")


def test_each_uid_and_group_has_its_tenant(peered: PeeredDaemon) -> None:
    known = (
        (ADA, (), "ada"),
        (BOB, (), "bob"),
        (FAR, (), "far"),
        (BY_GROUP, (TEAM,), "team"),
        (BY_GROUP, MANY, "team"),
    )
    for uid, groups, tenant in known:
        (answer,) = ask_as(uid, peered.socket, request("hello", 0), groups=groups)
        assert (answer["result"]["tenant"], answer["result"]["role"]) == (tenant, "agent")
    far = result_as(FAR, peered.socket, "remember", **RAW)["id"]
    (memory,) = peered.call("get", ids=[far], tenant="far")["memories"]
    assert memory["actor"]["uid"] == FAR


def test_naming_another_tenant_is_not_found_in_every_verb(peered: PeeredDaemon) -> None:
    result_as(BOB, peered.socket, "remember", **RAW)
    for uid in (ADA, AUDITOR):
        there, never = (ask_every_verb(uid, peered.socket, tenant=name) for name in ("bob", "never-there"))
        assert {reason_of(answer) for name, answer in there.items() if name in MAY[uid]} == {"not_found"}
        assert there == never
    listed = [request("list", 0, tenant="library"), request("remember", 1, **RAW, tenant="library")]
    read, written = ask_as(BOB, peered.socket, *listed)
    assert read["result"]["total"] == 0 and reason_of(written) == "not_found", "a right to read is none to write"


def furnish(peered: PeeredDaemon, uid: int) -> tuple[str, str, str]:
    """A session with a turn, and a note made from it: `(session, turn, note)`."""
    session = result_as(uid, peered.socket, "session_open", agent="a", key="k")["session"]
    turn = result_as(uid, peered.socket, "remember", **RAW, session=session)["id"]
    note = {"kind": "note", "subtype": "observation", "origin": "inferred", "text": "tea"}
    made = result_as(uid, peered.socket, "remember", **note, derived_from=[turn], idempotency_key="k")["id"]
    return session, turn, made


def about(session: str, turn: str) -> list[bytes]:
    """Every way there is to ask about a session and a memory."""
    note = {"kind": "note", "subtype": "observation", "origin": "inferred", "text": "mine"}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("get", {"ids": [turn]}),
        ("list", {"sel": {"ids": [turn]}}),
        ("list", {"sel": {"session": session}}),
        ("trace", {"id": turn}),
        ("trace", {"id": turn, "direction": "dependents"}),
        ("explain", {"id": turn}),
        ("session_provenance", {"session": session, "include_clients": True}),
        ("session", {"session": session, "include": ["turns", "passes", "derived"]}),
        ("forget", {"id": turn}),
        ("recover", {"id": turn}),
        *((verb, {"id": turn}) for verb in ("verify", "reinforce", "weaken", "reaffirm")),
        ("mark", {"id": turn, "mark": "archived"}),
        ("relate", {"from": turn, "to": "raw:0000000000002", "type": "extends"}),
        ("revise", {"id": turn, "text": "x", "origin": "stated"}),
        ("session_close", {"session": session}),
        ("remember", {**RAW, "session": session}),
        ("remember", {**note, "derived_from": [turn]}),
        ("remember", {**RAW, "evidence": [turn]}),
        ("remember_many", {"items": [RAW, {**note, "derived_from": [turn]}]}),
    ]
    return [request(method, number, **params) for number, (method, params) in enumerate(calls)]


@pytest.mark.parametrize("mapped", [BOB, 0])
def test_another_tenants_things_are_answered_like_what_never_was(peered: PeeredDaemon, mapped: int) -> None:
    """Also for an operator, as long as it asks in its own tenant."""
    session, turn, made = furnish(peered, ADA)
    if mapped == BOB:
        furnish(peered, BOB)
    before = ask_as(ADA, peered.socket, request("list", 0), request("sessions", 1), request("trace", 2, id=made))
    foreign = json.dumps(ask_as(mapped, peered.socket, *about(session, turn)))
    unknown = json.dumps(ask_as(mapped, peered.socket, *about("session:0000000000001", "raw:0000000000001")))
    assert foreign.replace(session, "S").replace(turn, "T") == unknown.replace("session:0000000000001", "S").replace(
        "raw:0000000000001", "T"
    )
    after = ask_as(ADA, peered.socket, request("list", 0), request("sessions", 1), request("trace", 2, id=made))
    assert after == before
    assert peered.audit()["findings"] == []


def test_counts_and_keys_are_each_tenants_own(peered: PeeredDaemon) -> None:
    questions = [request("list", 0, limit=1), request("sessions", 1), request("list", 2, sel={"text": "tea"})]
    mine = furnish(peered, ADA)
    assert [answer["result"]["total"] for answer in ask_as(ADA, peered.socket, *questions)] == [2, 1, 1]
    theirs = furnish(peered, BOB)  # under the same idempotency key and the same name of a session
    assert not set(mine) & set(theirs)
    assert [answer["result"]["total"] for answer in ask_as(ADA, peered.socket, *questions)] == [2, 1, 1]
    partitions = [result_as(uid, peered.socket, "status")["partitions"] for uid in (ADA, BOB)]
    assert partitions[0] == partitions[1] and sum(partitions[0].values()) == 2


def test_a_cursor_of_another_tenant_or_made_up_opens_nothing(peered: PeeredDaemon) -> None:
    for uid in (ADA, BOB):
        items = [{**RAW, "text": f"{uid} {number}"} for number in range(5)]
        result_as(uid, peered.socket, "remember_many", items=items)
    first = result_as(ADA, peered.socket, "list", limit=2)
    own = result_as(ADA, peered.socket, "list", limit=2, cursor=first["next_cursor"])
    assert [memory["text"] for memory in own["memories"]] == [f"{ADA} 2", f"{ADA} 3"]
    made_up = ["A", "AAAA", "=" * 40, "é" * 8, "A" * 32, "_" * 32, "\0" * 32, "A" * 1024, first["next_cursor"][:-2]]
    for cursor in [first["next_cursor"], *made_up]:
        (answer,) = ask_as(BOB, peered.socket, request("list", 0, limit=2, cursor=cursor))
        assert reason_of(answer) == "invalid_input", cursor
        assert answer["error"]["data"]["parameter"] == "cursor"
    # Nor can one's own be changed, so that it names another place or a head that never was.
    cursor = result_as(BOB, peered.socket, "list", limit=2)["next_cursor"]
    genuine = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    for at in range(0, len(genuine), 3):
        changed = genuine[:at] + bytes((genuine[at] ^ 1,)) + genuine[at + 1 :]
        forged = base64.urlsafe_b64encode(changed).decode().rstrip("=")
        (answer,) = ask_as(BOB, peered.socket, request("list", 0, limit=2, cursor=forged))
        assert reason_of(answer) == "invalid_input", at


def test_an_auditor_sees_no_content_unless_granted(peered: PeeredDaemon) -> None:
    secret = {"text": "canary-text", "topic": "canary-topic", "speaker": "canary-speaker", "tags": ["canary-tag"]}
    session = result_as(ADA, peered.socket, "session_open", agent="a", key="canary-key", project="canary-project")
    turn = result_as(ADA, peered.socket, "remember", **{**RAW, **secret}, session=session["session"])["id"]
    questions = [
        request("list", 0, full=True), request("list", 1), request("sessions", 2), request("trace", 3, id=turn),
        request("session", 4, session=session["session"], include=["turns", "derived"]),
        request("list", 5, sel={"text": "canary-text"}), request("list", 6, sel={"tags": ["canary-tag"]}),
    ]  # fmt: skip
    answers = ask_as(AUDITOR, peered.socket, *questions)
    assert [reason_of(answer) for answer in answers] == [None] * 5 + ["denied"] * 2
    assert "canary" not in json.dumps(answers) and answers[0]["result"]["total"] == 1
    granted = ask_as(READER, peered.socket, *questions)
    assert {reason_of(answer) for answer in granted} == {None}
    assert all("canary" in json.dumps(granted[number]) for number in (0, 1, 2, 4))


def test_new_entries_count_at_once_also_for_who_is_connected(peered: PeeredDaemon) -> None:
    with peered.client() as client:
        assert client.hello().role == "operator"

        def refused_as(reason: str) -> Callable[[], bool]:
            return lambda: reason_of(client_answer()) == reason

        def client_answer() -> dict[str, Any]:
            (answer,) = ask(peered.socket, request("audit", 0))
            return answer

        peered.config.write_text(CONFIG.replace('role = "operator"', 'role = "agent"', 1))
        os.kill(peered.pid, signal.SIGHUP)
        eventually(refused_as("denied"))
        assert client.hello().role == "agent"
        peered.config.write_text("no such key = 1")
        os.kill(peered.pid, signal.SIGHUP)
        eventually(lambda: "reload_failed" in peered.logged())
        assert client.hello().role == "agent", "what can't be read leaves the entries that were in force"

"""Two tenants through the socket, asked by real users in every role: whatever one names of the other's is answered,
byte for byte, like what never was."""

from __future__ import annotations

import json
import os
import re
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from daemon.wire.verbs import VERBS
from tests.system.raw_client import RAW, ask, reason_of, request
from tests.system.test_foreign_peers import ARGUMENTS, NOBODY, UNMAPPED, PeeredDaemon, ask_as, result_as

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become other users")

ADA, BOB, AUDITOR, BOBS_AUDITOR, SHARER = 12_101, 12_102, 12_103, 12_104, 12_105
ROLES = {ADA: "agent", AUDITOR: "auditor", 0: "operator"}
CONFIG = f"""
socket_group = 54321
[[peer]]
uid = 0
tenant = "default"
role = "operator"
[[peer]]
uid = {ADA}
tenant = "ada"
role = "agent"
grants = ["purge"]
[[peer]]
uid = {BOB}
tenant = "bob"
role = "agent"
[[peer]]
uid = {AUDITOR}
tenant = "ada"
role = "auditor"
[[peer]]
uid = {BOBS_AUDITOR}
tenant = "bob"
role = "auditor"
grants = ["content", "export"]
[[peer]]
uid = {SHARER}
tenant = "ada"
role = "agent"
reads = ["bob", "library"]
writes = ["library"]
"""
NOTE = {"kind": "note", "subtype": "observation", "origin": "inferred", "text": "bobs-canary"}
FACT = {"subject": "s", "predicate": "p", "value": "v"}


class Things(NamedTuple):
    """References to one thing of each kind; `text` is what only its owner wrote."""

    memory: str
    turn: str
    session: str
    proposal: str
    cohort: str
    cursor: str
    token: str


UNKNOWN = Things(
    "note:0000000000001", "raw:0000000000002", "session:0000000000001", "proposal:0000000000001",
    "cohort:0000000000001", "", "",
)  # fmt: skip

REFERRING: list[tuple[str, dict[str, Any]]] = [
    ("get", {"ids": ["@memory", "@turn"]}),
    ("get", {"ids": ["@memory"], "include": ["provenance"]}),
    ("list", {"sel": {"ids": ["@memory", "@turn"]}}),
    ("list", {"sel": {"session": "@session"}}),
    ("list", {"cursor": "@cursor"}),
    *(("trace", {"id": "@memory", "direction": way}) for way in ("sources", "dependents")),
    *((verb, {"id": "@memory"}) for verb in ("explain", "history", "forget", "recover", "verify", "reinforce")),
    *((verb, {"id": "@turn"}) for verb in ("weaken", "reaffirm", "trace", "explain", "history")),
    *((verb, {"id": "@own", "evidence": ["@memory"]}) for verb in ("recover", "verify", "reinforce", "weaken")),
    ("reaffirm", {"id": "@own", "evidence": ["@memory"]}),
    ("reaffirm", {"id": "@own", "session": "@session"}),
    ("mark", {"id": "@memory", "mark": "archived"}),
    ("mark", {"id": "@own", "mark": "archived", "session": "@session"}),
    ("relate", {"from": "@memory", "to": "@own", "type": "extends"}),
    ("relate", {"from": "@own", "to": "@memory", "type": "extends"}),
    ("revise", {"id": "@memory", "text": "x", "origin": "stated"}),
    ("revise", {"id": "@own", "text": "x", "origin": "stated", "session": "@session"}),
    ("session", {"session": "@session", "include": ["turns", "passes", "derived"]}),
    ("session_provenance", {"session": "@session", "include_clients": True}),
    ("session_close", {"session": "@session"}),
    ("remember", {**RAW, "session": "@session"}),
    ("remember", {**NOTE, "derived_from": ["@turn"]}),
    ("remember", {**RAW, "evidence": ["@memory"]}),
    ("remember_many", {"items": [{**NOTE, "derived_from": ["@turn"]}], "atomic": True}),
    ("review", {"cursor": "@cursor"}),
    ("sessions", {"cursor": "@cursor"}),
    ("session", {"session": "@session", "cursor": "@cursor"}),
    ("proposals", {"cursor": "@cursor"}),
    ("cohorts", {"cursor": "@cursor"}),
    ("records", {"cursor": "@cursor"}),
    ("records", {"memory": "@memory"}),
    ("records", {"session": "@session"}),
    ("propose", {"proposal_kind": "fact", "memory": "@memory", "fact": FACT}),
    ("propose", {"proposal_kind": "edge", "memory": "@own", "other": "@memory", "edge": "extends"}),
    ("propose", {"proposal_kind": "retention", "memory": "@memory", "action": "archive"}),
    ("decide", {"proposal": "@proposal", "accept": True}),
    ("decide", {"proposal": "@proposal", "accept": False}),
    ("cohort", {"action": "quarantine", "sel": {"ids": ["@memory"]}}),
    ("cohort", {"action": "quarantine", "sel": {"session": "@session"}}),
    ("cohort", {"action": "quarantine", "sel": {"kinds": ["note"]}, "token": "@token"}),
    ("cohort", {"action": "compare", "sel": {"ids": ["@memory"]}, "with": {"ids": ["@turn"]}}),
    ("lift", {"cohort": "@cohort"}),
    ("purge", {"ids": ["@memory"]}),
    ("purge", {"ids": ["@turn"], "cascade": "derived", "dry_run": True}),
    ("purge", {"sel": {"session": "@session"}}),
    ("purge", {"sel": {"kinds": ["note"]}, "token": "@token"}),
    ("hold", {"sel": {"ids": ["@memory"]}}),
    ("hold", {"sel": {"session": "@session"}}),
    *((verb, {"cursor": "@cursor"}) for verb in ("purges", "holds", "partitions")),
]
"""Every parameter that takes a reference, a cursor or a token: `@own` is something of the one who asks."""
REFERENCES = {"id", "ids", "session", "memory", "other", "from_", "to", "derived_from", "evidence", "proposal"} | {
    "cohort", "sel", "cursor", "token", "with_",
}  # fmt: skip


def names_in(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value) | {name for inner in value.values() for name in names_in(inner)}
    return {name for inner in value for name in names_in(inner)} if isinstance(value, list) else set()


def test_no_parameter_that_refers_to_something_is_left_out() -> None:
    asked: dict[str, set[str]] = {}
    for name, params in REFERRING:
        asked.setdefault(name, set()).update(names_in(params))
    for verb in VERBS.values():
        fields = REFERENCES & set(verb.params.__struct_fields__)
        spelled = {{"from_": "from", "with_": "with"}.get(field, field) for field in fields}
        assert spelled <= asked.get(verb.name, set()), verb.name


@pytest.fixture(scope="module")
def peered() -> Iterator[PeeredDaemon]:
    with tempfile.TemporaryDirectory(prefix="nt-", dir="/tmp") as name:
        place = Path(name)
        place.chmod(0o711)
        daemon = PeeredDaemon(place)
        daemon.config.write_text(CONFIG)
        daemon.start()
        yield daemon
        daemon.close()


def furnish(peered: PeeredDaemon, uid: int, tenant: str) -> Things:
    """Something of each kind; what only operators make is made by one."""
    session = result_as(uid, peered.socket, "session_open", agent="a", key="k")["session"]
    turn = result_as(uid, peered.socket, "remember", **RAW, session=session, idempotency_key="once")["id"]
    note = result_as(uid, peered.socket, "remember", **NOTE, derived_from=[turn], facts=[FACT])["id"]
    proposed = result_as(uid, peered.socket, "propose", proposal_kind="fact", memory=note, fact=FACT)["proposal"]
    asked: dict[str, Any] = {"action": "quarantine", "sel": {"ids": [turn]}, "tenant": tenant}
    token = peered.call("cohort", **asked)["token"]
    cohort = peered.call("cohort", **asked, token=token)["cohort"]
    peered.call("lift", cohort=cohort, tenant=tenant)
    cursor = result_as(uid, peered.socket, "list", limit=1)["next_cursor"]
    fresh = peered.call("cohort", action="quarantine", sel={"kinds": ["note"]}, tenant=tenant)["token"]
    return Things(note, turn, session, proposed, cohort, cursor, fresh)


@pytest.fixture(scope="module")
def bobs(peered: PeeredDaemon) -> Things:
    return furnish(peered, BOB, "bob")


@pytest.fixture(scope="module")
def adas(peered: PeeredDaemon) -> Things:
    return furnish(peered, ADA, "ada")


def spoil(text: str) -> str:
    """Of the same form, and nobody's."""
    return text[:-6] + ("AAAAAA" if not text.endswith("AAAAAA") else "BBBBBB")


def filled(params: Any, things: Things, own: str) -> Any:
    if isinstance(params, dict):
        return {name: filled(value, things, own) for name, value in params.items()}
    if isinstance(params, list):
        return [filled(value, things, own) for value in params]
    if isinstance(params, str) and params.startswith("@"):
        return own if params == "@own" else getattr(things, params[1:])
    return params


def answers(uid: int, path: Path, things: Things, own: str, **more: Any) -> list[str]:
    lines = [
        request(verb, number, **filled(params, things, own), **more) for number, (verb, params) in enumerate(REFERRING)
    ]
    found = [json.dumps(answer, sort_keys=True) for answer in ask_as(uid, path, *lines)]
    for name, value in things._asdict().items():
        found = [answer.replace(value, f"<{name}>") for answer in found] if value else found
    return found


@pytest.mark.parametrize("uid", ROLES, ids=ROLES.values())
def test_anothers_things_are_answered_like_what_never_was(
    peered: PeeredDaemon, bobs: Things, adas: Things, uid: int
) -> None:
    own = adas.memory if uid else peered.call("remember", **RAW)["id"]
    unknown = UNKNOWN._replace(cursor=spoil(bobs.cursor), token=spoil(bobs.token))
    before = result_as(BOB, peered.socket, "records", limit=1)["total"]
    foreign, never = (answers(uid, peered.socket, each, own) for each in (bobs, unknown))
    for (verb, params), one, other in zip(REFERRING, foreign, never, strict=True):
        assert _plain(one) == _plain(other), (verb, params)
    assert not re.search("bobs-canary", "".join(foreign))
    told = [json.loads(answer) for answer in foreign]
    refused = {reason_of(answer) for answer in told} - {None}
    assert refused <= {"not_found", "denied", "invalid_input", "provenance", "conflict"}
    assert result_as(BOB, peered.socket, "records", limit=1)["total"] == before, "nothing was written at the other's"


def _plain(answer: str) -> str:
    """Without what differs between any two answers: which record it was, when, the ids of what was made, tokens."""
    answer = re.sub(r"(note|raw|session|proposal|cohort):[0-9A-Z]{13}", r"\1:*", answer)
    answer = re.sub(r'"(seq|as_of_seq|took_ms|head_seq|to_seq)": [0-9.]+', r'"\1": 0', answer)
    answer = re.sub(r'"(next_cursor|token|chain)": "[^"]+"', r'"\1": "*"', answer)
    answer = re.sub(r'"total": [0-9]+', '"total": 0', answer) if '"frames"' in answer else answer
    return re.sub(r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "*", answer)


@pytest.mark.parametrize("uid", ROLES, ids=ROLES.values())
def test_another_tenant_is_named_like_one_that_never_was(peered: PeeredDaemon, bobs: Things, uid: int) -> None:
    """An operator may name any; the others may not, and aren't told whether it is there."""
    names = [name for name in VERBS if name not in ("backup", "rebuild") and (uid or name != "subscribe")]
    both: list[dict[str, Any]] = [{"tenants": ["ada", "bob"]}, {"tenants": ["ada", "never"]}]
    asked = [{"tenant": "bob"}, {"tenant": "never"}, *both]
    found = []
    for more in asked:
        lines = [request(name, number, **ARGUMENTS.get(name, {}), **more) for number, name in enumerate(names)]
        found.append({names[answer["id"]]: answer for answer in ask_as(uid, peered.socket, *lines)})
    if not uid:
        assert {reason_of(answer) for answer in found[0].values()} <= {None, "not_found", "invalid_input", "conflict"}
        assert all(reason_of(answer) != "denied" for answer in found[0].values())
        return
    assert found[0] == found[1] and found[2] == found[3]
    allowed = {name for name, answer in found[0].items() if reason_of(answer) != "denied"}
    assert {reason_of(found[0][name]) for name in allowed} == {"not_found"}
    roles = {name for name, verb in VERBS.items() if ROLES[uid] in {role.name.lower() for role in verb.roles}}
    assert allowed == roles
    assert set(result_as(uid, peered.socket, "hello")["verbs"]) == roles


def test_the_own_tenant_may_be_named(peered: PeeredDaemon, adas: Things) -> None:
    for uid in (ADA, AUDITOR):
        for more in ({"tenant": "ada"}, {"tenants": ["ada"]}):
            (answer,) = ask_as(uid, peered.socket, request("list", 0, **more))
            assert answer["result"]["total"] >= 1


@pytest.mark.parametrize("uid", [UNMAPPED, NOBODY])
def test_who_is_not_mapped_is_told_nothing_else_whatever_is_wrong_with_the_request(
    peered: PeeredDaemon, bobs: Things, uid: int
) -> None:
    told: set[str] = set()
    for name in VERBS:
        for params in ({}, {"tenant": "bob"}, {"tenant": "never"}):
            line = request(name, 0, **ARGUMENTS.get(name, {}), **params)
            (answer,) = ask_as(uid, peered.socket, line)
            assert reason_of(answer) == "denied", name
            told.add(json.dumps(answer["error"], sort_keys=True))
    assert len(told) == 1, "whatever was asked, the answer is the same"
    assert "bob" not in told.pop()


def test_a_role_that_may_not_is_denied_before_the_tenant_is_looked_at(peered: PeeredDaemon, bobs: Things) -> None:
    for uid, verb in ((ADA, "cohort"), (ADA, "lift"), (ADA, "cohorts"), (AUDITOR, "propose"), (AUDITOR, "decide")):
        template = next(params for name, params in REFERRING if name == verb)
        asked = filled(template, bobs, bobs.memory)
        for more in ({}, {"tenant": "bob"}, {"tenant": "never"}):
            (answer,) = ask_as(uid, peered.socket, request(verb, 0, **asked, **more))
            assert reason_of(answer) == "denied", (verb, more)


def test_a_shared_tenant_is_read_and_written_as_far_as_it_is_shared(peered: PeeredDaemon, bobs: Things) -> None:
    lines = [
        request("get", 0, ids=[bobs.memory], tenant="bob"),
        request("list", 1, tenants=["ada", "bob"]),
        request("get", 2, ids=[bobs.memory], tenant="bob", include=["provenance"]),
        request("proposals", 3, tenant="bob"),
        request("decide", 4, proposal=bobs.proposal, accept=False, tenant="bob"),
        request("forget", 5, id=bobs.memory, tenant="bob"),
        request("remember", 6, **RAW, tenant="library"),
        request("remember", 7, **NOTE, derived_from=[bobs.turn], tenant="library"),
        request("get", 8, ids=[bobs.memory], tenant="library"),
        request("get", 9, ids=[bobs.memory]),
        request("list", 10, tenants=["bob", "elsewhere"]),
    ]
    found = ask_as(SHARER, peered.socket, *lines)
    assert [reason_of(answer) for answer in found] == [
        None, None, None, None, "not_found", "not_found", None, "provenance", None, None, "not_found",
    ]  # fmt: skip
    assert found[0]["result"]["memories"][0]["text"] == "bobs-canary"
    assert found[2]["result"]["memories"][0]["provenance"]["origin"]["created_at"]
    assert [each["proposal"] for each in found[3]["result"]["proposals"]] == [bobs.proposal]
    assert found[8]["result"]["not_found"] == found[9]["result"]["not_found"] == [bobs.memory]


def test_what_is_exported_of_a_tenant_names_nothing_of_another(
    peered: PeeredDaemon, bobs: Things, adas: Things
) -> None:
    frames: list[dict[str, Any]] = []
    place: dict[str, Any] | None = {}
    while place is not None:
        page = result_as(BOBS_AUDITOR, peered.socket, "records", level="content", limit=50, **place)
        frames += page["frames"]
        place = {"cursor": page["next_cursor"]} if page["next_cursor"] else None
    said = json.dumps(frames)
    assert {frame["tenant"] for frame in frames} == {"bob"} and "bobs-canary" in said
    assert all(each in said for each in (bobs.memory, bobs.turn, bobs.session))
    for each in adas._replace(cursor="-", token="-"):
        assert each == "-" or each.partition(":")[2] not in said


def test_an_operators_visit_is_in_the_tenants_records(peered: PeeredDaemon, bobs: Things) -> None:
    peered.call("list", tenant="bob")
    peered.call("mark", id=bobs.memory, mark="archived", tenant="bob")
    frames = result_as(BOB, peered.socket, "records", types=["operator_crossed"], limit=1000)["frames"]
    assert {"list", "mark", "cohort", "lift"} <= {frame["event"]["verb"] for frame in frames}
    assert {frame["actor"]["uid"] for frame in frames} == {0}


def test_a_hundred_operations_at_once_over_ten_tenants_meet_nothing_foreign(peered: PeeredDaemon) -> None:
    """T7: each connection is bound to one tenant, and writes and reads there while the others do."""
    names = [f"tenant-{number}" for number in range(10)]
    begin = threading.Barrier(20)
    found: dict[str, list[str]] = {name: [] for name in names}

    def run(worker: int) -> None:
        name = names[worker % 10]
        begin.wait()
        for turn in range(5):
            text = f"{name} says {worker} {turn}"
            lines = [
                request("remember", 0, kind="raw", role="user", text=text, tenant=name, topic=name),
                request("list", 1, tenant=name, full=True, limit=1000),
                request("records", 2, tenant=name, limit=1000),
            ]
            for answer in ask(peered.socket, *lines):
                assert "result" in answer, answer
                found[name].append(json.dumps(answer["result"]))

    with ThreadPoolExecutor(20) as pool:
        list(pool.map(run, range(20)))
    foreign = 0
    for name, told in found.items():
        others = [other for other in names if other != name]
        foreign += sum(other in answer for other in others for answer in told)
        assert len(told) == 30 and all(name in answer for answer in told if '"memories"' in answer)
        assert peered.call("list", tenant=name)["total"] == 10
    assert foreign == 0
    assert [each for each in peered.call("audit", rebuild=True)["findings"] if each["code"] == "cross_tenant"] == []


def test_no_tenant_is_no_rows_and_no_failure(peered: PeeredDaemon, bobs: Things) -> None:
    """A tenant that never began: every question is answered, with nothing in it."""
    for verb in ("list", "sessions", "review", "proposals", "cohorts", "records"):
        result = peered.call(verb, tenant="never-begun")
        assert result.get("total", 0) == 0 and "canary" not in json.dumps(result)

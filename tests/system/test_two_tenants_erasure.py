"""What erases and holds, over two tenants and the socket: receipts, holds, partitions, what is searched and
tokens of another tenant are answered byte for byte like those that never were."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.system.raw_client import RAW, reason_of, request
from tests.system.test_foreign_peers import PeeredDaemon, ask_as, result_as
from tests.system.test_two_tenants import ADA, AUDITOR, BOB, CONFIG, spoil

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become other users")

ASKING = {AUDITOR: "auditor", 0: "operator"}
"""Who may ask for receipts and holds: one of `ada`, and an operator whose own tenant is `default`."""
WORD = "bobs-erased-canary"


class Erased(NamedTuple):
    """What was done in tenant `bob`: of purges, the receipts; what is held; cursors by verb; a token of a selection."""

    receipts: list[dict[str, int]]
    purged: str
    held: str
    others: list[int]
    cursors: dict[str, str]
    token: str


@pytest.fixture(scope="module")
def peered() -> Iterator[PeeredDaemon]:
    with tempfile.TemporaryDirectory(prefix="nte-", dir="/tmp") as name:
        place = Path(name)
        place.chmod(0o711)
        daemon = PeeredDaemon(place)
        daemon.config.write_text(CONFIG)
        daemon.start()
        result_as(ADA, daemon.socket, "remember", **RAW)
        daemon.call("remember", **RAW)
        yield daemon
        daemon.close()


@pytest.fixture(scope="module")
def bobs(peered: PeeredDaemon) -> Erased:
    def write(**more: Any) -> str:
        return str(result_as(BOB, peered.socket, "remember", **{**RAW, "text": WORD, **more})["id"])

    refs = [write(text=f"{WORD} {number}") for number in range(5)]
    write(kind="note", origin="inferred", derived_from=[refs[4]])
    receipts = [peered.call("purge", ids=[ref], tenant="bob")["receipt"] for ref in refs[:2]]
    peered.call("hold", sel={"ids": refs[2:4]}, note=WORD, tenant="bob")
    cursors = {
        verb: peered.call(verb, tenant="bob", limit=1)["next_cursor"] for verb in ("purges", "holds", "partitions")
    }
    cursors["receipt"] = cursors["purges"]
    records = peered.call("records", tenant="bob", limit=1000)["frames"]
    done = {receipt["seq"] for receipt in receipts}
    others = [int(frame["seq"]) for frame in records if frame["seq"] not in done]
    token = peered.call("purge", sel={"ids": [refs[4]]}, tenant="bob")["token"]
    assert all(cursors.values()) and others and token
    return Erased(receipts, refs[0], refs[2], others, cursors, token)


def answered(peered: PeeredDaemon, uid: int, *asked: tuple[str, dict[str, Any]]) -> list[str]:
    """Each as text, without its id."""
    lines = [request(verb, number, **params) for number, (verb, params) in enumerate(asked)]
    told = ask_as(uid, peered.socket, *lines)
    return [json.dumps({name: value for name, value in each.items() if name != "id"}, sort_keys=True) for each in told]


@pytest.mark.parametrize("uid", ASKING, ids=ASKING.values())
def test_a_receipt_of_another_tenant_is_one_that_never_was(peered: PeeredDaemon, bobs: Erased, uid: int) -> None:
    """Whether its number is a purge of theirs, another record of theirs, one of the store's, or of none."""
    seqs = [*(receipt["seq"] for receipt in bobs.receipts), *bobs.others, 1, 10**12]
    found = answered(peered, uid, *(("purges", {"receipt": {"epoch": 1, "seq": seq}}) for seq in seqs))
    assert len(set(found)) == 1 and reason_of(json.loads(found[0])) == "not_found"
    (page,) = answered(peered, uid, ("purges", {"receipt": bobs.receipts[0], "cursor": bobs.cursors["receipt"]}))
    assert page == found[0], "nor does a cursor lead in"
    (listed,) = answered(peered, uid, ("purges", {}))
    assert json.loads(listed)["result"] == {"next_cursor": None, "purges": [], "total": 0}


def test_who_may_see_the_tenant_finds_the_receipt(peered: PeeredDaemon, bobs: Erased) -> None:
    for params in ({"tenant": "bob"}, {"tenants": ["default", "bob"]}):
        told = peered.call("purges", receipt=bobs.receipts[0], **params)["purges"]
        assert [each["tenant"] for each in told] == ["bob"] and told[0]["memories"] == [bobs.purged]
    assert peered.call("purges", tenant="bob")["total"] == 2


def test_an_agent_is_denied_receipts_and_holds_whosever_they_are(peered: PeeredDaemon, bobs: Erased) -> None:
    never = {"epoch": 1, "seq": 10**12}
    for uid in (ADA, BOB):
        found = answered(
            peered, uid, *(("purges", {"receipt": receipt}) for receipt in (bobs.receipts[0], never)), ("purges", {}),
            ("purges", {"cursor": bobs.cursors["purges"]}),
        )  # fmt: skip
        found += [each.replace("holds", "purges") for each in answered(peered, uid, ("holds", {}))]
        assert len(set(found)) == 1 and reason_of(json.loads(found[0])) == "denied"


def test_a_cursor_into_the_partitions_of_another_tenant_is_made_up_for_an_agent_too(
    peered: PeeredDaemon, bobs: Erased
) -> None:
    cursor = bobs.cursors["partitions"]
    foreign, spoiled = answered(peered, ADA, *(("partitions", {"cursor": each}) for each in (cursor, spoil(cursor))))
    assert foreign == spoiled and reason_of(json.loads(foreign)) == "invalid_input"


@pytest.mark.parametrize("uid", ASKING, ids=ASKING.values())
@pytest.mark.parametrize("verb", ["purges", "holds", "partitions"])
def test_a_cursor_into_the_list_of_another_tenant_is_one_that_was_made_up(
    peered: PeeredDaemon, bobs: Erased, uid: int, verb: str
) -> None:
    cursor = bobs.cursors[verb]
    foreign, spoiled = answered(peered, uid, (verb, {"cursor": cursor}), (verb, {"cursor": spoil(cursor)}))
    assert foreign == spoiled and reason_of(json.loads(foreign)) == "invalid_input"


@pytest.mark.parametrize("uid", ASKING, ids=ASKING.values())
def test_holds_and_partitions_tell_of_no_other_tenant(peered: PeeredDaemon, bobs: Erased, uid: int) -> None:
    holds, partitions = answered(peered, uid, ("holds", {}), ("partitions", {}))
    assert json.loads(holds)["result"]["total"] == 0 and bobs.held not in holds and WORD not in holds
    assert [row["tier"] for row in json.loads(partitions)["result"]["results"]] == ["episodic"], "ours alone"
    assert peered.call("holds", tenant="bob")["total"] == 2
    assert [row["tier"] for row in result_as(BOB, peered.socket, "partitions")["results"]] == ["episodic", "semantic"]


@pytest.mark.parametrize("uid", [ADA, 0], ids=["agent", "operator"])
@pytest.mark.parametrize("cascade", ["none", "derived", "versions"])
def test_what_another_tenant_holds_or_purged_is_told_like_what_is_not_there(
    peered: PeeredDaemon, bobs: Erased, uid: int, cascade: str
) -> None:
    """No `legal_hold`, no time of a purge, and nothing done."""
    never = "raw:0000000000002"
    head = peered.call("head")["seq"]
    told = answered(
        peered, uid, *(("purge", {"ids": [ref], "cascade": cascade}) for ref in (bobs.held, bobs.purged, never))
    )
    plain = {re.sub(r"raw:[0-9A-Z]{13}", "*", each) for each in told}
    assert len(plain) == 1 and json.loads(told[0])["result"]["results"][0]["found"] is False
    assert peered.call("head")["seq"] == head
    (row,) = result_as(BOB, peered.socket, "get", ids=[bobs.held])["memories"]
    assert row["status"] == "active"


def test_a_token_of_a_selection_in_another_tenant_is_one_that_was_made_up(peered: PeeredDaemon, bobs: Erased) -> None:
    """An operator looked in `bob`; the token does nothing in the tenant that is meant when none is named."""
    sel = {"ids": ["raw:0000000000002"]}
    asked = [("purge", {"sel": sel, "token": token, **more})
             for more in ({}, {"tenant": "ada"}) for token in (bobs.token, spoil(bobs.token))]  # fmt: skip
    found = answered(peered, 0, *asked)
    assert len(set(found)) == 1 and reason_of(json.loads(found[0])) == "invalid_input"


@pytest.mark.parametrize(("uid", "role"), [(ADA, "agent"), (BOB, "agent"), (AUDITOR, "auditor")])
def test_only_an_operator_searches_the_store(peered: PeeredDaemon, bobs: Erased, uid: int, role: str) -> None:
    """The same answer, whether the word is there or not: also to the tenant whose word it is."""
    there, nowhere = answered(peered, uid, ("residue", {"pattern": WORD}), ("residue", {"pattern": "never written"}))
    assert there == nowhere and reason_of(json.loads(there)) == "denied" and role in there
    found = peered.call("residue", pattern=WORD)
    assert bobs.held in {each["memory"] for each in found["readable"]}
    assert bobs.purged not in {each["memory"] for each in found["readable"]}


def test_a_partition_of_another_tenant_is_one_that_never_was(peered: PeeredDaemon, bobs: Erased) -> None:
    """`bob` has a semantic one, `ada` and `default` have none."""
    found = answered(
        peered, 0, *(("vacuum", {"partition": name, **more, "dry_run": True})
                     for name in ("semantic", "procedural") for more in ({}, {"tenant": "ada"})),
    )  # fmt: skip
    assert len({each.replace("semantic", "*").replace("procedural", "*") for each in found}) == 1
    assert reason_of(json.loads(found[0])) == "not_found"
    assert peered.call("vacuum", partition="semantic", tenant="bob", dry_run=True)["results"]

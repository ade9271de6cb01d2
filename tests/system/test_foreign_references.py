"""Records of one tenant that name things of another, forged in a stopped store and read through the socket.

No verb writes such a record. Whoever asks learns nothing of the other tenant from it, not even that it is there, and
the daemon counts what it passed over. What is counted by the projections themselves is in `test_chain_damage.py`.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from journal import events
from journal.codes import EdgeType, Mark
from journal.store import open_store
from journal.tsid import memory_ref, parse_memory_ref, parse_tsid
from tests.journal.appending import append
from tests.system.probing import references
from tests.system.process import DaemonProcess

TENANTS = ("ours", "theirs")
SECRET = "the-other-agent"


class Two:
    """Two tenants with a session, a note in it and an accepted proposal each, by tenant; then what is forged."""

    def __init__(self, daemon: DaemonProcess) -> None:
        self.daemon = daemon
        self.session: dict[str, str] = {}
        self.note: dict[str, str] = {}
        self.proposal: dict[str, str] = {}
        for tenant in TENANTS:
            with daemon.client(tenant) as client:
                agent = SECRET if tenant == "theirs" else "claude"
                session = client.call("session_open", {"agent": agent, "key": "one"}, dict)["session"]
                turn = {"kind": "raw", "role": "user", "text": "a turn", "session": session}
                note = {"kind": "note", "origin": "inferred", "text": "a note", "topic": "fence", "session": session}
                note["derived_from"] = [client.call("remember", turn, dict)["id"]]
                ref = client.call("remember", note, dict)["id"]
                staged = client.call("propose", {"proposal_kind": "resolution", "memory": ref}, dict)["proposal"]
                client.call("decide", {"proposal": staged, "accept": True}, dict)
            self.session[tenant], self.note[tenant], self.proposal[tenant] = session, ref, staged
        self.before = self.chain(self.note["ours"])
        self.findings_before = daemon.audit()["findings"]
        (frame,) = daemon.call("records", tenant="theirs", types=["session_opened"])["frames"]
        self.forged = self._forge(int(frame["event"]["number"]))

    def _forge(self, foreign_session: int) -> str:
        """Records of our tenant that name things of the other; the memory among them."""
        ours, theirs = (parse_memory_ref(self.note[tenant]) for tenant in TENANTS)
        proposal = parse_tsid(self.proposal["theirs"].partition(":")[2])
        assert self.daemon.stop() == 0
        now_ms = int(time.time() * 1000)
        made = self._genesis(ours[1], now_ms)
        append(
            self.daemon.state, now_ms,
            replace(made, id=made.id + 1, slot=made.slot + 100, session=foreign_session, parts=(), producer=0),
            events.Marked(memory=ours, mark=int(Mark.ARCHIVED), on=True, proposal=proposal),
            events.Superseded(
                predecessor=theirs, successor=ours, edge_type=int(EdgeType.SUPERSEDES), edge=made.id + 2,
                valid_to=now_ms,
            ),
            events.Related(source=ours, target=theirs, edge_type=int(EdgeType.EXTENDS), edge=made.id + 3),
        )  # fmt: skip
        self.daemon.start()
        return memory_ref(ours[0], made.id + 1)

    def _genesis(self, tsid: int, now_ms: int) -> events.MemoryCreated:
        store = open_store(self.daemon.state, version="by hand", now_ms=now_ms)
        try:
            found = (record.event for chunk in store.log.chunks() for record in chunk)
            return next(each for each in found if isinstance(each, events.MemoryCreated) and each.id == tsid)
        finally:
            store.close(clean=True)

    def chain(self, ref: str) -> dict[str, Any]:
        """The same for one who reads our tenant, and for one who reads both and could resolve everything."""
        own = self._asked(ref, tenant="ours")
        assert self._asked(ref, tenants=list(TENANTS)) == own
        assert SECRET not in json.dumps(own)
        theirs = {self.session["theirs"], self.note["theirs"], self.proposal["theirs"]}
        assert not theirs & set(references(own))
        return own

    def _asked(self, ref: str, **whose: Any) -> dict[str, Any]:
        (memory,) = self.daemon.call("get", ids=[ref], include=["provenance"], **whose)["memories"]
        chain: dict[str, Any] = memory["provenance"]
        assert set(chain["sections"].values()) == {"ok"}
        return chain

    def passed_over(self) -> int:
        text = self.daemon.call("metrics")["text"]
        found = re.search(r"^noctuary_foreign_references\S* (\S+)", text, re.MULTILINE)
        assert found is not None, text
        return int(float(found[1]))


@pytest.fixture(scope="module")
def two() -> Iterator[Two]:
    with tempfile.TemporaryDirectory(prefix="noctuary-") as name:
        daemon = DaemonProcess(Path(name))
        try:
            daemon.start()
            yield Two(daemon)
        finally:
            daemon.close()


def test_a_memory_that_was_made_in_a_session_of_another_tenant_tells_of_no_run(two: Two) -> None:
    """Where we differ: a session is named by number, so there is no id that could be told as it was recorded."""
    origin = two.chain(two.forged)["origin"]
    assert (origin["session"], origin["run"], origin["actor_kind"]) == (None, None, "client")
    assert origin["created_at"] is not None
    assert two.before["origin"]["session"] == two.session["ours"], "one of its own is told"


def test_an_event_that_names_a_proposal_of_another_tenant_is_in_none_of_its_products(two: Two) -> None:
    chain = two.chain(two.note["ours"])
    archived = next(event for event in chain["events"]["items"] if event["event_kind"] == "archive")
    assert archived["proposal"] is None and chain["proposals"] == two.before["proposals"]
    (theirs,) = two.daemon.call("proposals", tenant="theirs", status="applied")["proposals"]
    assert archived["id"] not in theirs["produced"]


def test_a_forged_edge_to_a_memory_of_another_tenant_has_no_row_and_is_counted(two: Two) -> None:
    before = two.passed_over()
    chain = two.chain(two.note["ours"])
    assert chain["supersession"] == {"predecessors": [], "successors": [], "truncated": False}
    assert two.passed_over() > before
    trace = two.daemon.call("trace", id=two.note["ours"], tenant="ours")
    assert two.note["theirs"] not in json.dumps(trace)
    assert two.daemon.call("get", ids=[two.note["theirs"]], tenant="ours")["not_found"] == [two.note["theirs"]]


def test_the_audit_names_what_joins_two_tenants(two: Two) -> None:
    assert two.findings_before == []
    assert "cross_tenant" in {finding["code"] for finding in two.daemon.audit()["findings"]}

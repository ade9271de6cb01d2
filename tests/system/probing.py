"""The scenario of two tenants written through a socket, its things named, and what chains tell of them measured.

Ids of memories, sessions and proposals are what the writing verb answered; those of edges, facts and records stand in
the journal's own frames (`records`). No id is taken from a chain, so a chain that names something else can't agree.
A section told is a list of rows in words of labels; what has no label, or another tenant's, stands there as it came.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

import noctuary
from tests.journal.appending import append
from tests.system.process import DaemonProcess
from tests.system.provenance_probes.fragment import fragment
from tests.system.provenance_probes.probes import PROBES, Probe
from tests.system.provenance_probes.scenario import Op, scenario
from tests.system.raw_client import RawClient

TENANTS = ("a", "b")
_MADE = {"remember": "id", "revise": "id", "session_open": "session", "propose": "proposal"}
_REFERENCE = re.compile(r"[a-z]+:[0-9A-Z]+\Z")
_SIDES = ("predecessors", "successors")
_LISTS = ("events", "proposals", "facts")


class Traced(msgspec.Struct):
    id: str
    provenance: msgspec.Raw


class Found(msgspec.Struct):
    memories: list[Traced]
    not_found: list[str]


class Answer(msgspec.Struct):
    result: Found


class Labels:
    """Of one tenant: its references by label, and its labels by reference."""

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}
        self.names: dict[str, str] = {"-": "-"}
        self.own: set[str] = set()
        """Every reference to something of the tenant's, and `record:SEQ` of every record, named or not."""

    def name(self, label: str, ref: str) -> None:
        assert label not in self.ids and ref not in self.names, (label, ref)
        self.ids[label] = ref
        self.names[ref] = label
        self.own.add(ref)

    def of(self, ref: str | None) -> str:
        return self.names.get(ref or "-", f"?{ref}")


class Measured(NamedTuple):
    """`expected`, `told` and `right` count rows, of all sections of all probes; the rest is what to look at."""

    expected: int
    told: int
    right: int
    foreign: list[str]
    wrong: list[str]

    @property
    def recall(self) -> float:
        """provenance_chain_recall"""
        return self.right / self.expected

    @property
    def precision(self) -> float:
        """provenance_chain_precision"""
        return self.right / self.told


def seed(daemon: DaemonProcess) -> dict[str, Labels]:
    """Write the scenario for both tenants, with its fragment; the daemon runs before and after. The labels of each."""
    labels = {tenant: Labels() for tenant in TENANTS}
    clients = {tenant: daemon.client(tenant) for tenant in TENANTS}
    for op in scenario():
        for tenant in TENANTS:
            _do(clients[tenant], labels[tenant], op)
    for client in clients.values():
        client.close()
    numbers = {tenant: _number(daemon, tenant, "tenant_began") for tenant in TENANTS}
    sessions = {tenant: _number(daemon, tenant, "session_opened") for tenant in TENANTS}
    assert daemon.stop() == 0, daemon.logged()[-2000:]
    now_ms = int(time.time() * 1000)
    for tenant, other in zip(TENANTS, reversed(TENANTS), strict=True):
        records, made = fragment(labels[tenant].ids, numbers[tenant], sessions[other], now_ms)
        append(daemon.state, now_ms, *records)
        for label, ref in made.items():
            labels[tenant].name(label, ref)
    daemon.start()
    for tenant in TENANTS:
        _name_what_stands_in_records(daemon, tenant, labels[tenant])
    return labels


def _do(client: noctuary.Client, labels: Labels, op: Op) -> None:
    result = client.call(op.verb, _filled(op.params, labels.ids), dict)
    if op.label:
        labels.name(op.label, result[_MADE[op.verb]])


def _filled(value: Any, ids: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: _filled(each, ids) for name, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, ids) for each in value]
    return ids[value[1:]] if isinstance(value, str) and value.startswith("@") else value


def _number(daemon: DaemonProcess, tenant: str, event: str) -> int:
    """By which the journal knows the tenant, or the first session of its own."""
    frame = daemon.call("records", tenant=tenant, types=[event])["frames"][0]
    assert frame["tenant"] == tenant
    return int(frame["event"]["number"])


def frames(daemon: DaemonProcess, tenant: str) -> Iterator[dict[str, Any]]:
    """All records of a tenant, oldest first."""
    params: dict[str, Any] = {"tenant": tenant, "limit": 1000}
    while True:
        page = daemon.call("records", **params)
        yield from page["frames"]
        if page["next_cursor"] is None:
            return
        params["cursor"] = page["next_cursor"]


def _name_what_stands_in_records(daemon: DaemonProcess, tenant: str, labels: Labels) -> None:
    seen: Counter[str] = Counter()
    facts: dict[str, list[str]] = {}
    for frame in frames(daemon, tenant):
        event, record = frame["event"], f"record:{frame['seq']}"
        labels.own.add(record)
        about = event["id"] if frame["type"] == "memory_created" else event.get("predecessor") or event.get("memory")
        if frame["type"] == "memory_created":
            facts.setdefault(event["id"], []).extend(fact["id"] for fact in event["facts"])
        if frame["type"] == "fact_added":
            facts.setdefault(event["memory"], []).append(event["fact"]["id"])
        if frame["type"] in ("superseded", "related"):
            newer, older = ("successor", "predecessor") if frame["type"] == "superseded" else ("source", "target")
            labels.name(f"edge({labels.of(event[newer])}>{labels.of(event[older])})", event["edge"])
        if about in labels.names and frame["type"] not in ("proposal_made", "proposal_decided"):
            what = f"{frame['type']}({labels.of(about)})"
            seen[what] += 1
            labels.name(f"{what}#{seen[what]}", record)
    for memory, refs in facts.items():
        for number, ref in enumerate(sorted(refs), 1):
            labels.name(f"fact({labels.of(memory)})#{number}", ref)


def chain_bytes(daemon: DaemonProcess, refs: list[str], **whose: Any) -> dict[str, bytes]:
    """The chain of each, as it stands in the line that answers; `whose` are the tenants of the question."""
    found: dict[str, bytes] = {}
    with RawClient(daemon.socket) as client:
        for ref in refs:
            params = {"ids": [ref], "include": ["provenance"], **whose}
            client.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "get", "params": params}).encode() + b"\n")
            (memory,) = msgspec.json.decode(client.line(), type=Answer).result.memories
            assert memory.id == ref
            found[ref] = bytes(memory.provenance)
    return found


def all_chains(daemon: DaemonProcess, labels: dict[str, Labels], wide: bool = False) -> dict[str, bytes]:
    """The chains that the probes ask for, of both tenants, by reference; `wide`: by one who may read both at once."""
    found: dict[str, bytes] = {}
    for tenant in TENANTS:
        whose = {"tenants": list(TENANTS)} if wide else {"tenant": tenant}
        found |= chain_bytes(daemon, [labels[tenant].ids[probe.traced] for probe in PROBES], **whose)
    return found


def measure(chains: dict[str, bytes], labels: dict[str, Labels], tenant: str) -> Measured:
    """What the chains of one tenant tell, against what its probes expect, in rows and ids."""
    expected = told = right = 0
    foreign: list[str] = []
    wrong: list[str] = []
    theirs = set().union(*(labels[other].own for other in TENANTS if other != tenant))
    for probe in PROBES:
        chain = json.loads(chains[labels[tenant].ids[probe.traced]])
        foreign += [f"{probe.name}: {ref}" for ref in references(chain) if ref in theirs]
        wanted, found = _wanted(probe), rows(chain, labels[tenant])
        for section in wanted.keys() | found.keys():
            want, got = wanted.get(section, []), found.get(section, [])
            expected, told = expected + len(want), told + len(got)
            right += (Counter(want) & Counter(got)).total()
            if want != got:
                wrong.append(f"{probe.name} {section}: expected {want}, told {got}")
    return Measured(expected, told, right, foreign, wrong)


def _wanted(probe: Probe) -> dict[str, list[str]]:
    listed = {name: list(getattr(probe, name)) for name in (*_SIDES, *_LISTS)}
    return {"origin": [probe.origin], **listed, "truncated": sorted(probe.truncated), "unavailable": []}


def rows(chain: dict[str, Any], labels: Labels) -> dict[str, list[str]]:
    """What each section tells, in labels."""
    of, begun = labels.of, chain["origin"]
    run = begun["run"]
    assert (begun["created_at"] is None) == (begun["actor_kind"] is None)
    flagged = {"supersession": chain["supersession"], **{name: chain[name] for name in _LISTS}}
    return {
        "origin": [f"{begun['actor_kind'] or '-'} in {of(begun['session'])} run {run['agent'] if run else '-'}"],
        **{side: [_version(row, of) for row in chain["supersession"][side]] for side in _SIDES},
        "events": [
            f"{of(row['id'])} says {row['event_kind']} in {of(row['session'])} of {of(row['proposal'])}"
            for row in chain["events"]["items"]
        ],
        "proposals": [_proposal(row, of) for row in chain["proposals"]["items"]],
        "facts": [f"{of(row['id'])} of {of(row['source_proposal'])}" for row in chain["facts"]["items"]],
        "truncated": sorted(name for name, section in flagged.items() if section["truncated"]),
        "unavailable": [name for name, state in chain["sections"].items() if state != "ok"],
    }  # fmt: skip


def _version(row: dict[str, Any], of: Any) -> str:
    source = row["source_proposal"]
    by = "-" if source is None else f"{source['kind']} {of(source['id'])}"
    session = of(row["created_by_session"])
    return f"{of(row['id'])} at {row['depth']} {row['edge_type']} by {of(row['edge'])} in {session} of {by}"


def _proposal(row: dict[str, Any], of: Any) -> str:
    does = row["edge_type"] or row["action"] or "-"
    made = " ".join(of(ref) for ref in row["produced"]) or "-"
    return f"{of(row['id'])} {row['kind']} {does} with {of(row['other_memory'])} made {made}"


def references(value: Any) -> Iterator[str]:
    """Every reference anywhere in it."""
    if isinstance(value, dict):
        for each in value.values():
            yield from references(each)
    elif isinstance(value, list):
        for each in value:
            yield from references(each)
    elif isinstance(value, str) and _REFERENCE.match(value):
        yield value

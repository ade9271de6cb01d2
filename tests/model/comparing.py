"""How answers of the service are held against the reference's, and everything that is asked at the end."""

from __future__ import annotations

from typing import Any

import pytest

from tests.model import domain
from tests.model.domain import Name
from tests.model.opened import OpenedService
from tests.model.reference import Reference


class Comparing:
    """Mixed into the state machine. `names` maps what the reference calls a thing to the daemon's reference."""

    now_ms: int
    opened: OpenedService
    model: Reference
    names: dict[Name, str]
    kinds: dict[Name, str]

    def both(self, tenant: str, verb: str, args: dict[str, Any], key: str | None) -> None:
        raise NotImplementedError

    def compare_sleep(self, tenant_name: str, tenant: domain.Tenant, session: domain.Session) -> None:
        raise NotImplementedError

    def compare_explained(self, tenant_name: str, tenant: domain.Tenant, memory: domain.Memory) -> None:
        raise NotImplementedError

    def match(self, expected: Any, got: Any) -> None:
        """Equal, with names for references. A name that is seen first stands for a new domain."""
        if isinstance(expected, Name):
            if expected not in self.names:
                assert isinstance(got, str) and got not in self.names.values()
                self.names[expected] = got
            assert got == self.names[expected]
        elif isinstance(expected, dict):
            assert isinstance(got, dict), (expected, got)
            for name, value in expected.items():
                self.match(value, got[name])
        elif isinstance(expected, list):
            assert isinstance(got, list) and len(got) == len(expected), (expected, got)
            for one, other in zip(expected, got, strict=True):
                self.match(one, other)
        elif isinstance(expected, float):
            assert got == pytest.approx(expected)
        else:
            assert got == expected

    def compare_everything(self) -> None:
        for name, tenant in self.model.tenants.items():
            for memory in tenant.memories.values():
                self.compare_memory(name, tenant, memory)
                self.compare_explained(name, tenant, memory)
                for direction in ("sources", "dependents"):
                    self.compare_trace(name, tenant, memory.name, direction)
            for session in tenant.sessions.values():
                self.compare_session(name, session)
                self.compare_sleep(name, tenant, session)
            self.compare_review(name, tenant)
            told = self.opened.write("lifecycle", {"tenant": name})  # asked for nothing it only answers
            self.match({"state": tenant.state, "enforce": tenant.enforce}, told)
        live = self.opened.digests()
        self.opened.rebuild()
        assert self.opened.digests() == live

    def compare_memory(self, tenant_name: str, tenant: domain.Tenant, memory: domain.Memory) -> None:
        ref = self.names[memory.name]
        got = self.opened.read("get", {"tenant": tenant_name, "ids": [ref]})["memories"][0]
        expected = {
            "id": memory.name,
            "kind": memory.kind,
            "text": memory.text,
            "status": memory.status,
            "origin": memory.origin,
            "role": memory.role,
            "session": memory.session,
            "turn": memory.turn,
            "strength": memory.strength,
            "project": memory.project,
            "producer": {"agent": memory.producer.get("agent"), "model": memory.producer.get("model")},
            "derived_from": memory.sources,
            "processed_into": domain.children(tenant, memory.name),
            "grounded": domain.grounded(tenant, memory.name),
            "marks": memory.marks,
            "confidence": {"stored": memory.confidence, "effective": memory.effective(self.now_ms)},
            "verifications": memory.verifications,
            "verified_at": None if memory.verified_at is None else domain.when(memory.verified_at),
            "valid_from": None if memory.valid_from is None else domain.when(memory.valid_from),
            "valid_to": None if memory.valid_to is None else domain.when(memory.valid_to),
            "evidence": memory.evidence,
            "predecessor": memory.predecessor,
            "superseded_by": memory.superseded_by,
        }
        self.match(expected, got)
        for other in self.model.tenants:
            if other != tenant_name:
                foreign = self.opened.read("get", {"tenant": other, "ids": [ref]})
                assert foreign == {"memories": [], "not_found": [ref]}

    def compare_trace(self, tenant_name: str, tenant: domain.Tenant, root: Name, direction: str) -> None:
        depths, edges = domain.trace(tenant, root, direction)
        params = {"tenant": tenant_name, "id": self.names[root], "direction": direction, "depth": 32}
        got = self.opened.read("trace", params)
        found = {node["ref"]: (node["depth"], node["status"]) for node in got["nodes"]}
        assert found == {
            self.names[name]: (depth, tenant.memories[name].status) for name, depth in depths.items()
        }  # fmt: skip
        assert len(found) == len(got["nodes"])
        assert sorted((edge["from"], edge["to"]) for edge in got["edges"]) == sorted(
            (self.names[made], self.names[source]) for made, source in edges
        )

    def compare_review(self, tenant_name: str, tenant: domain.Tenant) -> None:
        words = ["uncertain", "ungrounded", "orphans", "flags", "contradictions"]
        got = self.opened.read("review", {"tenant": tenant_name, "limit": 1000, "what": words})
        found: dict[str, list[Any]] = {word: [] for word in ("uncertain", "ungrounded", "orphans")}
        flags, contradictions = [], []
        for item in got["items"]:
            if item["what"] == "flags":
                flags.append((item["id"], *item["others"]))
            elif item["what"] == "contradictions":
                contradictions.append({item["id"], *item["others"]})
            else:
                found[item["what"]].append(item["id"])
        expected = domain.review(tenant, self.now_ms, 0.6)
        assert found == {word: [self.names[name] for name in expected[word]] for word in found}
        assert sorted(flags) == sorted((self.names[child], self.names[source]) for child, source in expected["flags"])
        wanted = [{self.names[name] for name in pair} for pair in expected["contradictions"]]
        assert sorted(map(sorted, contradictions)) == sorted(map(sorted, wanted))
        assert got["total"] == len(got["items"])

    def compare_session(self, tenant_name: str, session: domain.Session) -> None:
        params = {"tenant": tenant_name, "session": self.names[session.name], "include": ["turns", "derived"]}
        got = self.opened.read("session", {**params, "limit": 200})
        expected = {
            "agent": session.agent,
            "key": session.key,
            "state": session.state(self.now_ms),
            "activation": session.activation,
            "turns": len(session.turns),
            "opened_at": domain.when(session.opened_at),
            "last_at": domain.when(session.last_at),
            "closed_at": None if session.closed_at is None else domain.when(session.closed_at),
            "memories": [{"id": name, "turn": at} for at, name in enumerate(session.turns, 1)],
            "derived": [{"id": name} for name in session.others],
        }
        self.match(expected, got)

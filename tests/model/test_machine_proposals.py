"""The same two, which also propose and decide: whatever else happens between, each decision is taken alike."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from tests.model import domain
from tests.model.domain import Name
from tests.model.test_machine import ARGUMENTS, PICKS, TENANTS, Twins

SAID = st.sampled_from(
    [("edge", word) for word in ("supersedes", "updates", "extends", "contradicts")]
    + [("fact", "green"), ("fact", "blue"), ("resolution", None), ("retention", "archive"), ("retention", "supersede")]
)
KEYS = st.sampled_from([None] * 7 + ["k1"])
OWN: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "propose": {"tenant": TENANTS, "key": KEYS, "said": SAID, "pick": PICKS, "other": PICKS},
    "decide": {
        "tenant": TENANTS, "key": KEYS, "pick": PICKS, "accept": st.sampled_from([True, True, True, False]),
    },
}  # fmt: skip
WEIGHTS = {
    "propose": 16, "decide": 14, "revise": 3, "forget": 2, "recover": 2, "mark": 2, "relate": 2, "remember": 1,
    "verify": 2, "lifecycle": 1, "end_maintenance": 1, "repeat": 1, "reuse_key": 1, "step_clock": 1, "restart": 1,
    "kill": 1, "rebuild": 1,
}  # fmt: skip
CHOICES = [what for what, weight in WEIGHTS.items() for _ in range(weight)]
NOTES, SEEDS = 4, 2


class TwinsThatPropose(Twins):
    @initialize()
    def begin(self) -> None:
        """Not in `__init__`: where that fails nothing is torn down, and the service's threads keep pytest."""
        turn = {"kind": "raw", "role": "user", "text": "a turn"}
        note = {"kind": "note", "origin": "observed", "text": "a note", "derived_from": [SEEDS]}
        seed = {"kind": "note", "origin": "seeded", "text": "stands on nothing"}
        self.both("default", "remember_many", {"items": [*[seed] * SEEDS, turn, *[note] * NOTES]}, None)

    @rule(data=st.data(), what=st.sampled_from(CHOICES))
    def step(self, data: st.DataObject, what: str) -> None:
        step = getattr(self, what)
        strategies = {**ARGUMENTS, **OWN}[what]
        step(**{name: data.draw(strategy, name) for name, strategy in strategies.items()})

    def propose(self, tenant: str, key: str | None, said: tuple[str, str | None], pick: int, other: int) -> None:
        if not self.kinds:
            return
        kind, word = said
        memory, counterpart = self.own(tenant, pick), self.alike(tenant, pick, other)
        args: dict[str, Any] = {"proposal_kind": kind, "memory": memory}
        if kind == "edge" or word == "supersede":
            args["other"] = counterpart
        if kind == "fact":
            args["fact"] = {"subject": "the fence", "predicate": "colour", "value": word}
        elif word is not None:
            args["edge" if kind == "edge" else "action"] = word
        self.both(tenant, "propose", args, None if args.get("other") == memory else key)

    def alike(self, tenant: str, pick: int, other: int) -> Name:
        """Mostly one of the kind of the first, so that one can take the place of the other."""
        first = self.own(tenant, pick)
        names = [name for name, kind in self.kinds.items() if kind == self.kinds[first] and name != first]
        return names[other // 8 % len(names)] if names and other % 8 else self.own(tenant, other)

    def decide(self, tenant: str, key: str | None, pick: int, accept: bool) -> None:
        known = [proposal.name for each in self.model.tenants.values() for proposal in each.proposals.values()]
        own = self.model.tenants.get(tenant)
        waiting = [each.name for each in own.proposals.values() if each.status == "proposed"] if own else []
        pool = waiting if waiting and pick % 5 else known
        if pool:
            self.both(tenant, "decide", {"proposal": pool[pick // 5 % len(pool)], "accept": accept}, key)

    def compare_memory(self, tenant_name: str, tenant: domain.Tenant, memory: domain.Memory) -> None:
        super().compare_memory(tenant_name, tenant, memory)
        (got,) = self.opened.read("get", {"tenant": tenant_name, "ids": [self.names[memory.name]]})["memories"]
        facts = memory.facts.items()  # as they were accepted: a fact gets its id then, not when it is proposed
        wanted = [{"id": name, "value": value, "source_proposal": proposal} for name, (value, proposal) in facts]
        self.match(wanted, sorted(got["facts"], key=lambda fact: str(fact["id"])))

    def compare_review(self, tenant_name: str, tenant: domain.Tenant) -> None:
        super().compare_review(tenant_name, tenant)
        for status in ("proposed", "applied", "rejected"):
            params = {"tenant": tenant_name, "status": status, "limit": 1000}
            got = self.opened.read("proposals", params)
            known = [each for each in reversed(tenant.proposals.values()) if each.status == status]
            wanted = [
                {"proposal": each.name, "proposal_kind": each.said[0], "memory": each.said[2], "other": each.said[3],
                 "status": status, "produced": each.produced}
                for each in known
            ]  # fmt: skip
            self.match(wanted, got["proposals"])
            assert got["total"] == len(known)
        living = {each.name for each in tenant.memories.values() if each.forgotten_at is None}
        waiting = [
            each.name
            for each in tenant.proposals.values()
            if each.status == "proposed" and {each.said[2], each.said[3] or each.said[2]} <= living
        ]
        items = self.opened.read("review", {"tenant": tenant_name, "what": ["proposals"], "limit": 1000})["items"]
        self.match(waiting, [item["id"] for item in items])


TwinsThatPropose.TestCase.settings = settings(Twins.TestCase.settings, max_examples=40)
TestTwinsThatPropose = pytest.mark.timeout(600)(TwinsThatPropose.TestCase)

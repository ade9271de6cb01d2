"""The service and the reference are given the same commands, and have to answer alike.

Between commands the clock moves, the store is closed and opened, left as a killed process leaves it, and
folded anew. At the end everything that can be asked is asked of both.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from daemon.commands.passes import PassParams
from daemon.refusal import Refused
from tests.model import domain
from tests.model.asleep import Asleep, arguments
from tests.model.domain import Declined, Name
from tests.model.opened import OPERATOR, OpenedService
from tests.model.reference import Reference

START_MS = 1_790_000_000_000
HOUR_MS = 3_600_000
TENANTS = st.sampled_from(["default", "default", "default", "other"])
KEYS = st.one_of(st.none(), st.none(), st.sampled_from(["k1", "k2", "k3"]))
KINDS = st.sampled_from(["raw", "raw", "raw", "note", "note", *domain.SOURCES])
ORIGINS = st.sampled_from(["experienced", "observed", "seeded", "stated"])
AGENTS = st.sampled_from(["alpha", "beta"])
SESSION_KEYS = st.sampled_from(["one", "two"])
TEXTS = st.sampled_from(["the gate was painted green", "the gate", "painted green", "rain by noon"])
PICKS = st.integers(0, 999)
SUPPORT: st.SearchStrategy[list[int]] = st.one_of(st.just([]), st.just([]), st.lists(PICKS, min_size=1, max_size=2))
DONE_IN: st.SearchStrategy[int | None] = st.one_of(st.none(), PICKS)
PRODUCERS = st.sampled_from([None, None, None, {"agent": "alpha"}, {"agent": "beta", "model": "m-1"}])
HOLDS = st.builds(
    lambda begins, lasts: {
        end: domain.when(START_MS + hours * HOUR_MS)
        for end, hours in [("valid_from", begins), ("valid_to", None if lasts is None else (begins or 0) + lasts)]
        if hours is not None
    },
    st.sampled_from([None, -24 * 30, 0, 24 * 50]),
    st.sampled_from([None, 0, 1, 24 * 30]),
)
DEFAULTS = st.sampled_from(
    [{}, {}, {"project": "fence"}, {"producer": {"agent": "alpha", "model": "m-1"}}, {"producer": {"agent": "beta"}}]
)


@st.composite
def memories(draw: st.DrawFn) -> dict[str, Any]:
    """A memory to be written; sources and session are picks among those that there will be."""
    kind = draw(KINDS)
    wanted: dict[str, Any] = {"kind": kind, "text": draw(TEXTS), "origin": draw(ORIGINS)}
    if kind == "raw" and draw(st.booleans()):
        wanted["role"] = draw(st.sampled_from(["user", "assistant", "tool"]))
        if draw(st.booleans()):
            del wanted["origin"]
    if kind == "raw" and draw(st.integers(0, 3)) == 0:
        wanted["subtype"] = draw(st.sampled_from(["turn", "capture"]))
    if draw(st.booleans()):
        wanted["producer"] = {"agent": draw(AGENTS)}
        if draw(st.booleans()):
            wanted["producer"]["model"] = "m-1"
    if draw(st.integers(0, 3)) == 0:
        wanted |= draw(HOLDS)
    wanted["picks"] = draw(st.lists(PICKS, min_size=1, max_size=3))
    wanted["fitting"] = draw(st.integers(0, 4)) > 0
    how = draw(st.integers(0, 3))
    if how == 1:
        wanted["session_pick"] = draw(PICKS)
    elif how == 2:
        wanted["session"] = {"agent": draw(AGENTS), "key": draw(SESSION_KEYS)}
    return wanted


ARGUMENTS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "remember": {"tenant": TENANTS, "key": KEYS, "wanted": memories()},
    "remember_many": {"tenant": TENANTS, "key": KEYS, "wanted": st.lists(memories(), min_size=1, max_size=4)},
    "forget": {"tenant": TENANTS, "key": KEYS, "pick": PICKS},
    "recover": {"tenant": TENANTS, "key": KEYS, "pick": PICKS, "dead": st.sampled_from([True, True, True, False])},
    "verify": {"tenant": TENANTS, "key": KEYS, "pick": PICKS, "support": SUPPORT},
    "reinforce": {"tenant": TENANTS, "key": KEYS, "pick": PICKS, "support": SUPPORT},
    "weaken": {
        "tenant": TENANTS, "key": KEYS, "pick": PICKS, "support": SUPPORT,
        "amount": st.sampled_from([None, 0.1, 0.3, 0.5, 0.8, 1.0]),
    },
    "reaffirm": {"tenant": TENANTS, "key": KEYS, "pick": PICKS, "support": SUPPORT, "where": DONE_IN},
    "mark": {
        "tenant": TENANTS, "key": KEYS, "pick": PICKS, "on": st.booleans(),
        "mark": st.sampled_from(["protected", "archived", "resolved"]), "where": DONE_IN,
    },
    "relate": {
        "tenant": TENANTS, "key": KEYS, "pick": PICKS, "other": PICKS, "turned": st.booleans(),
        "kind": st.sampled_from(["extends", "contradicts", "contradicts"]),
    },
    "revise": {
        "tenant": TENANTS, "key": KEYS, "pick": PICKS, "support": SUPPORT, "text": TEXTS, "origin": ORIGINS,
        "disposition": st.sampled_from(["supersedes", "updates", None, "move"]), "where": DONE_IN,
        "producer": PRODUCERS,
    },
    "session_open": {
        "tenant": TENANTS, "key": KEYS, "agent": AGENTS, "name": SESSION_KEYS, "defaults": DEFAULTS,
    },
    "session_close": {"tenant": TENANTS, "key": KEYS, "pick": PICKS},
    "lifecycle": {
        "tenant": TENANTS, "key": KEYS, "enforce": st.sampled_from([None, None, None, True, True, False]),
        "state": st.sampled_from([None, "initializing", "active", "active", "maintenance"]),
    },
    "end_maintenance": {"tenant": TENANTS},
    "repeat": {"pick": PICKS},
    "reuse_key": {"pick": PICKS, "text": TEXTS, "other_verb": st.booleans()},
    "step_clock": {"hours": st.sampled_from([1, 12, 23, 24, 25, 24 * 40, -1, -30])},
    "restart": {}, "kill": {}, "rebuild": {}, **arguments(TENANTS, KEYS),
}  # fmt: skip
WEIGHTS = {
    "remember": 10, "remember_many": 4, "forget": 4, "recover": 3, "verify": 2, "reinforce": 1,
    "weaken": 3, "reaffirm": 1, "mark": 4, "relate": 5, "revise": 4, "session_open": 3, "session_close": 1,
    "lifecycle": 1, "end_maintenance": 1, "repeat": 2, "reuse_key": 3, "step_clock": 2, "restart": 1, "kill": 1,
    "rebuild": 1, "talk": 3, "commit_pass": 5, "end_pass": 1, "retake": 1, "forget_note": 1,
    "note_outside": 1,
}  # fmt: skip
WEIGHTED = [what for what, weight in WEIGHTS.items() for _ in range(weight)]


class Twins(Asleep, RuleBasedStateMachine):
    """`names` maps what the reference calls a thing to the reference that the daemon gave it."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = START_MS
        self.root = Path(tempfile.mkdtemp(prefix="noctuary-model-"))
        self.opened = OpenedService(self.root / "state", lambda: self.now_ms)
        self.model = Reference(OPERATOR.uid)
        self.names: dict[Name, str] = {}
        self.kinds: dict[Name, str] = {}
        self.done: list[tuple[str, str, dict[str, Any], str]] = []

    def teardown(self) -> None:
        try:
            self.compare_everything()
        finally:
            self.opened.close(True)
            shutil.rmtree(self.root)

    @rule(data=st.data(), what=st.sampled_from(WEIGHTED))
    def step(self, data: st.DataObject, what: str) -> None:
        """One step; which is drawn here, because rules alone can't be weighted."""
        step = getattr(self, what)
        step(**{name: data.draw(strategy, name) for name, strategy in ARGUMENTS[what].items()})

    # --- commands --------------------------------------------------------------------------------

    def remember(self, tenant: str, key: str | None, wanted: dict[str, Any]) -> None:
        self.both(tenant, "remember", self.with_picks(wanted, 0), key)

    def remember_many(self, tenant: str, key: str | None, wanted: list[dict[str, Any]]) -> None:
        items = [self.with_picks(item, place, wanted) for place, item in enumerate(wanted)]
        self.both(tenant, "remember_many", {"items": items}, key)

    def forget(self, tenant: str, key: str | None, pick: int) -> None:
        if self.kinds:
            self.both(tenant, "forget", {"id": self.memory(pick)}, key)

    def recover(self, tenant: str, key: str | None, pick: int, dead: bool) -> None:
        known = self.model.tenants.get(tenant)
        gone = [m.name for m in known.memories.values() if m.forgotten_at is not None] if known else []
        if dead and gone:
            self.both(tenant, "recover", {"id": gone[pick % len(gone)]}, key)
        elif self.kinds:
            self.both(tenant, "recover", {"id": self.memory(pick)}, key)

    def verify(self, tenant: str, key: str | None, pick: int, support: list[int]) -> None:
        self.stand("verify", tenant, key, pick, support)

    def reinforce(self, tenant: str, key: str | None, pick: int, support: list[int]) -> None:
        self.stand("reinforce", tenant, key, pick, support)

    def reaffirm(self, tenant: str, key: str | None, pick: int, support: list[int], where: int | None) -> None:
        self.stand("reaffirm", tenant, key, pick, support, **self.done_in(tenant, where))

    def weaken(self, tenant: str, key: str | None, pick: int, support: list[int], amount: float | None) -> None:
        self.stand("weaken", tenant, key, pick, support, **({} if amount is None else {"amount": amount}))

    def stand(self, verb: str, tenant: str, key: str | None, pick: int, support: list[int], **more: Any) -> None:
        if self.kinds:
            evidence = {"evidence": [self.own(tenant, each) for each in support]} if support else {}
            self.both(tenant, verb, {"id": self.own(tenant, pick), **evidence, **more}, key)

    def mark(self, tenant: str, key: str | None, pick: int, on: bool, mark: str, where: int | None) -> None:
        if self.kinds:
            args = {"id": self.own(tenant, pick), "mark": mark, "on": on, **self.done_in(tenant, where)}
            self.both(tenant, "mark", args, key)

    def relate(self, tenant: str, key: str | None, pick: int, other: int, kind: str, turned: bool) -> None:
        """`turned`: a relation that there is, the other way round."""
        known = self.model.tenants.get(tenant)
        drawn = list(known.relations) if known else []
        if turned and drawn:
            said, to, from_ = drawn[pick % len(drawn)]
            self.both(tenant, "relate", {"from": from_, "to": to, "type": said}, key)
        elif self.kinds:
            self.both(
                tenant, "relate", {"from": self.own(tenant, pick), "to": self.own(tenant, other), "type": kind}, key
            )

    def revise(
        self, tenant: str, key: str | None, pick: int, support: list[int], text: str, origin: str, disposition: Any,
        where: int | None, producer: dict[str, str] | None,
    ) -> None:  # fmt: skip
        if not self.kinds:
            return
        args: dict[str, Any] = {"id": self.own(tenant, pick), **self.done_in(tenant, where)}
        if producer is not None:
            args["producer"] = producer
        if disposition == "move":
            args |= {"disposition": "move", "fields": {"project": ("fence", "roof")[len(text) % 2]}}
        else:
            args |= {"text": text, "origin": origin, **({} if disposition is None else {"disposition": disposition})}
            if support:
                args["fields"] = {"evidence": [self.own(tenant, each) for each in support]}
        self.both(tenant, "revise", args, key)

    def session_open(self, tenant: str, key: str | None, agent: str, name: str, defaults: dict[str, Any]) -> None:
        self.both(tenant, "session_open", {"agent": agent, "key": name, **defaults}, key)

    def session_close(self, tenant: str, key: str | None, pick: int) -> None:
        if sessions := self.sessions():
            self.both(tenant, "session_close", {"session": sessions[pick % len(sessions)]}, key)

    def lifecycle(self, tenant: str, key: str | None, enforce: bool | None, state: str | None) -> None:
        args = {"enforce": enforce, "state": state}
        self.both(tenant, "lifecycle", {name: value for name, value in args.items() if value is not None}, key)

    def end_maintenance(self, tenant: str) -> None:
        self.both(tenant, "lifecycle", {"state": "active"}, None)

    def repeat(self, pick: int) -> None:
        if self.done:
            self.both(*self.done[pick % len(self.done)])

    def reuse_key(self, pick: int, text: str, other_verb: bool) -> None:
        """A key that has an answer, with a request that may be another one."""
        if not self.done:
            return
        tenant, verb, args, key = self.done[pick % len(self.done)]
        if verb == "remember" and not other_verb:
            self.both(tenant, verb, {**args, "text": text}, key)
        else:
            self.both(tenant, "session_open", {"agent": "alpha", "key": "one"}, key)

    def step_clock(self, hours: int) -> None:
        self.now_ms += hours * HOUR_MS

    # --- what happens to the store ---------------------------------------------------------------

    def restart(self) -> None:
        self.opened.reopen(True)

    def kill(self) -> None:
        self.opened.reopen(False)

    def rebuild(self) -> None:
        live = self.opened.digests()
        self.opened.rebuild()
        assert self.opened.folded > 0
        assert self.opened.digests() == live

    # --- comparing -------------------------------------------------------------------------------

    def memory(self, pick: int) -> Name:
        names = list(self.kinds)
        return names[pick % len(names)]

    def own(self, tenant: str, pick: int) -> Name:
        """Mostly one of the tenant's own, else any."""
        known = self.model.tenants.get(tenant)
        if known is None or not known.memories or pick % 8 == 0:
            return self.memory(pick)
        names = list(known.memories)
        return names[pick // 8 % len(names)]

    def sessions(self) -> list[Name]:
        return [name for tenant in self.model.tenants.values() for name in tenant.sessions]

    def done_in(self, tenant: str, where: int | None) -> dict[str, Any]:
        """The session that a command names: mostly one of the tenant's own, else any."""
        known = self.model.tenants.get(tenant)
        own = list(known.sessions) if known else []
        sessions = own if own and where and where % 8 else self.sessions()
        return {} if where is None or not sessions else {"session": sessions[where // 8 % len(sessions)]}

    def with_picks(self, wanted: dict[str, Any], place: int, items: Any = ()) -> dict[str, Any]:
        """The memory with its sources by name (or place in the batch) and its session by name."""
        args = {name: value for name, value in wanted.items() if name not in ("picks", "fitting", "session_pick")}
        pool: list[tuple[Name | int, str]] = [(at, items[at]["kind"]) for at in range(place)]
        pool += self.kinds.items()
        if wanted["fitting"]:
            pool = [entry for entry in pool if entry[1] in domain.SOURCES[wanted["kind"]]]
            if not pool:  # nothing that fits is there yet: a turn needs nothing
                args["kind"] = "raw"
        if pool and wanted["picks"]:
            args["derived_from"] = [pool[pick % len(pool)][0] for pick in wanted["picks"]]
        if "session_pick" in wanted and (sessions := self.sessions()):
            args["session"] = sessions[wanted["session_pick"] % len(sessions)]
        return args

    def both(self, tenant: str, verb: str, args: dict[str, Any], key: str | None) -> None:
        params = {"tenant": tenant, **self.wire(args)}
        if key is not None:
            params["idempotency_key"] = key
        expected: dict[str, Any] | str
        got: dict[str, Any] | str
        try:
            expected = self.model.apply(tenant, verb, args, key, self.now_ms)
        except Declined as declined:
            expected = declined.reason
        try:
            got = self.send(tenant, verb, params)
        except Refused as refused:
            got = refused.reason.wire
        self.match(expected, got)
        if isinstance(expected, dict):
            self.learn(tenant)
            if key is not None:
                self.done.append((tenant, verb, args, key))

    def send(self, tenant: str, verb: str, params: dict[str, Any]) -> dict[str, Any]:
        """The answer. A commit of a pass is no verb. Raises Refused."""
        if verb in ("reaffirm", "mark", "revise"):  # which say nothing of a session when there is nothing to say
            return {"notes": [], **self.opened.write(verb, params)}
        if verb != "commit_pass":
            return self.opened.write(verb, params)
        del params["tenant"]
        return self.opened.service.commit_pass(msgspec.convert(params, PassParams), tenant)

    def learn(self, tenant: str) -> None:
        known = self.model.tenants.get(tenant)
        for memory in known.memories.values() if known else ():
            self.kinds[memory.name] = memory.kind

    def wire(self, value: Any) -> Any:
        """Arguments with the daemon's references in place of names."""
        if isinstance(value, Name):
            return self.names[value]
        if isinstance(value, dict):
            return {
                name: [f"@{item}" if isinstance(item, int) else self.wire(item) for item in inner]
                if name == "derived_from"
                else self.wire(inner)
                for name, inner in value.items()
            }
        return [self.wire(item) for item in value] if isinstance(value, list) else value


Twins.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
TestTwins = pytest.mark.timeout(600)(Twins.TestCase)  # a search that found something takes time to make it small

"""The first write that isn't seeded makes a tenant ACTIVE, whatever it is, in its own commit (contract §4.7)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon.commands.table import _DECIDE
from daemon.refusal import Refused
from daemon.wire.verbs import VERBS
from journal import events
from journal.codes import TenantState
from journal.tsid import parse_memory_ref
from tests.daemon.slept import DAY_MS, Slept, fact


@pytest.fixture
def slept(tmp_path: Path) -> Iterator[Slept]:
    opened = Slept(tmp_path / "state")
    try:
        yield opened
        assert opened.rebuilt_alike()
    finally:
        opened.close(True)


def state(slept: Slept) -> str:
    return str(slept.write("lifecycle", {})["state"])


def belief(slept: Slept, text: str = "b", **more: Any) -> str:
    made = {"kind": "belief", "origin": "seeded", "text": text, "confidence": 0.6, **more}
    return str(slept.write("remember", made)["id"])


def forgotten(slept: Slept) -> str:
    """One that was, before there were tenants that are ACTIVE."""
    ref = belief(slept)
    slept.append(events.Forgotten(memory=parse_memory_ref(ref), strength=0.0))
    return ref


def external(slept: Slept) -> str:
    return belief(slept, derived_from=[{"kind": "url", "id": "u"}])


def seeded_turn(slept: Slept) -> str:
    return slept.turn("t", origin="seeded")


Write = Callable[[Slept], Any]
WRITES: dict[str, tuple[Callable[[Slept], Any], Callable[[Slept, Any], Any]]] = {
    "verify": (belief, lambda s, ref: s.write("verify", {"id": ref})),
    "reinforce": (belief, lambda s, ref: s.write("reinforce", {"id": ref})),
    "weaken": (belief, lambda s, ref: s.write("weaken", {"id": ref})),
    "reaffirm": (belief, lambda s, ref: s.write("reaffirm", {"id": ref})),
    "mark": (belief, lambda s, ref: s.write("mark", {"id": ref, "mark": "archived"})),
    "forget": (belief, lambda s, ref: s.write("forget", {"id": ref})),
    "recover": (forgotten, lambda s, ref: s.write("recover", {"id": ref})),
    "relate": (belief, lambda s, ref: s.write("relate", {"from": ref, "to": belief(s, "c"), "type": "extends"})),
    "propose": (belief, lambda s, ref: s.write("propose", {
        "proposal_kind": "retention", "action": "archive", "memory": ref})),
    "session_open": (belief, lambda s, _: s.write("session_open", {"agent": "a", "key": "k"})),
    "session_close": (seeded_turn, lambda s, _: s.write("session_close", {"session": s.ref()})),
    "move": (belief, lambda s, ref: s.write("revise", {"id": ref, "disposition": "move", "fields": {"topic": "x"}})),
    "revise": (belief, lambda s, ref: s.write("revise", {"id": ref, "text": "n", "origin": "told"})),
    "remember": (belief, lambda s, _: s.write("remember", {"kind": "raw", "origin": "told", "text": "t"})),
    "remember_many": (belief, lambda s, _: s.write("remember_many", {"items": [
        {"kind": "raw", "origin": "seeded", "text": "t"}, {"kind": "raw", "origin": "told", "text": "u"}]})),
    "pass": (seeded_turn, lambda s, ref: s.commit([fact(ref)])),
    "set_resolvable": (external, lambda s, ref: s.service.set_resolvable(ref, 0, False, "default")),
}  # fmt: skip


BEGINS_NOTHING: dict[str, Callable[[Slept, str], Any]] = {
    "purge": lambda s, ref: s.write("purge", {"ids": [ref]}),
    "hold": lambda s, ref: s.write("hold", {"sel": {"ids": [ref]}}),
    "vacuum": lambda s, ref: vacuumed(s, ref),
    "roll_over": lambda s, ref: rolled_over(s),
}
"""Nobody writes of what they know with these: like `lifecycle` they go on in every state and begin none."""


def vacuumed(slept: Slept, ref: str) -> None:
    slept.write("purge", {"ids": [ref]})
    before = slept.store.log.head().seq
    slept.write("vacuum", {"force": True})
    assert slept.store.log.head().seq > before


def rolled_over(slept: Slept) -> None:
    slept.now_ms += DAY_MS
    slept.service.roll_over()


def test_every_writing_verb_is_here() -> None:
    """What a later version adds has to be thought of."""
    behind_another = {"decide", "lift", "cohort"}  # a proposal was written first, or a memory to select
    writing = set(_DECIDE) | {name for name, verb in VERBS.items() if verb.writes}
    assert writing - set(WRITES) == {"lifecycle"} | behind_another | set(BEGINS_NOTHING)


@pytest.mark.parametrize("name", WRITES)
def test_it_is_active_from_its_first_write_that_is_not_seeded(slept: Slept, name: str) -> None:
    prepared, write = WRITES[name]
    given = prepared(slept)
    assert state(slept) == "initializing"
    before = slept.store.log.head().seq
    write(slept, given)
    assert state(slept) == "active"
    records = [record for chunk in slept.store.log.chunks(before + 1) for record in chunk]
    (change,) = [r for r in records if isinstance(r.event, events.TenantChanged)]
    assert change.event.state == int(TenantState.ACTIVE)  # type: ignore[union-attr]
    command = {r.cause.first_seq for r in records if r.cause.verb == change.cause.verb}
    assert change.cause.first_seq in command and change.cause.verb not in ("lifecycle", "")
    with pytest.raises(Refused):
        belief(slept, "too late")


@pytest.mark.parametrize("name", BEGINS_NOTHING)
def test_erasure_leaves_it_initializing(slept: Slept, name: str) -> None:
    ref = seeded_turn(slept)
    before = slept.store.log.head().seq
    BEGINS_NOTHING[name](slept, ref)
    assert slept.store.log.head().seq > before and state(slept) == "initializing"
    belief(slept, "seeding goes on")


def test_what_is_seeded_changes_nothing_and_leaves_it_initializing(slept: Slept) -> None:
    ref = belief(slept)
    slept.write("revise", {"id": ref, "text": "better", "origin": "seeded"})
    slept.write("remember_many", {"items": [{"kind": "raw", "origin": "seeded", "text": "t"}]})
    assert state(slept) == "initializing"


def test_a_command_that_changes_nothing_leaves_it_initializing(slept: Slept) -> None:
    ref = belief(slept)
    slept.write("mark", {"id": ref, "mark": "archived", "on": False})
    slept.write("forget", {"id": "belief:0000000000001"})
    slept.write("mark", {"id": ref, "mark": "archived", "on": False, "idempotency_key": "k"})
    with pytest.raises(Refused):
        slept.write("verify", {"id": "belief:0000000000001"})
    slept.write("lifecycle", {"enforce": False})
    assert state(slept) == "initializing"

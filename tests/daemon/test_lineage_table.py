"""Which kind may be made from which, in which state of the tenant: every cell of the table, every state, every verb."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from daemon.refusal import Reason, Refused
from daemon.wire.verbs import VERBS
from journal.codes import Kind
from tests.daemon.told import Told, reason_of

SOURCES = {
    "raw": set(),
    "episode": {"raw"},
    "note": {"raw"},
    "belief": {"episode", "note"},
    "value": {"belief"},
    "goal": {"episode", "belief"},
    "relationship": {"episode"},
    "drive": {"episode", "belief"},
    "procedure": {"episode", "note"},
}
"""The table of the contract, written down once more by hand."""
CELLS = [(kind.wire, source.wire) for kind in Kind for source in Kind]
MISFITS = [(kind, source) for kind, source in CELLS if SOURCES[kind] and source not in SOURCES[kind]]


class Kinds(Told):
    """With a seeded memory of each kind, in an active tenant."""

    def __init__(self, root: Any) -> None:
        super().__init__(root)
        self.seeds = {kind.wire: self.seed(kind.wire) for kind in Kind}
        self.write("lifecycle", {"state": "active"})

    def seed(self, kind: str) -> str:
        return str(self.write("remember", {"kind": kind, "origin": "seeded", "text": f"a {kind}"})["id"])

    def make(self, kind: str, *sources: str) -> str:
        made = {"kind": kind, "origin": "derived", "text": f"made {kind}", "derived_from": list(sources)}
        return str(self.write("remember", made)["id"])


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kinds]:
    opened = Kinds(tmp_path_factory.mktemp("kinds") / "state")
    try:
        yield opened
        assert opened.rebuilt_alike()
    finally:
        opened.close(True)


def test_the_table_names_every_kind() -> None:
    assert set(SOURCES) == {kind.wire for kind in Kind}


@pytest.mark.parametrize(("kind", "source"), CELLS)
def test_a_kind_derives_from_the_kinds_of_its_row_only(kinds: Kinds, kind: str, source: str) -> None:
    seed = kinds.seeds[source]
    if source in SOURCES[kind]:
        assert kinds.memory(kinds.make(kind, seed))["derived_from"] == [seed]
        return
    before = kinds.store.log.head().seq
    reason, data = reason_of(lambda: kinds.make(kind, seed))
    assert (reason, data["parameter"], data["ids"]) == (Reason.PROVENANCE, "derived_from", [seed])
    assert kinds.store.log.head().seq == before


@pytest.mark.parametrize(("kind", "source"), MISFITS)
def test_a_source_that_fits_does_not_carry_one_that_does_not(kinds: Kinds, kind: str, source: str) -> None:
    fitting = kinds.seeds[min(SOURCES[kind])]
    reason, data = reason_of(lambda: kinds.make(kind, fitting, kinds.seeds[source]))
    assert (reason, data["ids"]) == (Reason.PROVENANCE, [kinds.seeds[source]])


@pytest.mark.parametrize(("kind", "source"), CELLS)
def test_evidence_may_be_of_any_kind_and_is_no_source(kinds: Kinds, kind: str, source: str) -> None:
    fitting = [kinds.seeds[min(SOURCES[kind])]] if SOURCES[kind] else []
    made = {"kind": kind, "origin": "derived", "text": "made", "evidence": [kinds.seeds[source]]}
    ref = kinds.write("remember", {**made, "derived_from": fitting})["id"]
    assert kinds.memory(ref)["evidence"] == [kinds.seeds[source]]
    if fitting:
        assert reason_of(lambda: kinds.write("remember", made))[0] is Reason.PROVENANCE


@pytest.mark.parametrize("kind", list(SOURCES))
@pytest.mark.parametrize("disposition", ["supersedes", "updates"])
def test_a_revision_stays_within_its_kind_whatever_the_table_says(kinds: Kinds, kind: str, disposition: str) -> None:
    """A belief may derive from a belief in this way only."""
    old = kinds.make(kind, kinds.seeds[min(SOURCES[kind])]) if SOURCES[kind] else kinds.make(kind)
    new = kinds.do("revise", old, disposition=disposition, text="revised", origin="derived")["id"]
    assert new.partition(":")[0] == kind
    assert (kinds.memory(new)["predecessor"], kinds.memory(new)["derived_from"]) == (old, [])
    edges = kinds.read("trace", {"id": new, "depth": 1})["edges"]
    assert edges == [{"from": new, "to": old, "type": disposition}]
    assert reason_of(lambda: kinds.make(kind, old))[0] is Reason.PROVENANCE


@pytest.mark.parametrize("kind", [kind for kind, sources in SOURCES.items() if sources])
def test_a_kind_that_needs_sources_is_refused_without_and_told_which(kinds: Kinds, kind: str) -> None:
    reason, data = reason_of(lambda: kinds.make(kind))
    assert (reason, data["parameter"], set(data["allowed"])) == (Reason.PROVENANCE, "derived_from", SOURCES[kind])


# --- states --------------------------------------------------------------------------------------

STATES = ("initializing", "active", "maintenance")
ELSEWHERE = frozenset({"lifecycle", "propose", "decide", "cohort", "lift", "purge", "hold", "vacuum"})
"""Those of proposals, cohorts and erasure are asked in test_maintenance.py."""
WRITING = sorted(name for name, verb in VERBS.items() if verb.writes and name not in ELSEWHERE)


def in_state(told: Told, state: str, enforce: bool) -> dict[str, str]:
    """A tenant in that state, with a seeded turn, another, one that is forgotten, and a session. While it is
    INITIALIZING there is seeding only: nothing is forgotten then, and no session opened."""
    names = {name: told.raw(name, origin="seeded") for name in ("one", "other", "gone", "spare")}
    if state != "initializing":
        write_more(told, names)
    told.write("lifecycle", {"enforce": enforce, **({} if state == "initializing" else {"state": state})})
    assert told.write("lifecycle", {}) == {"state": state, "enforce": enforce}
    return names


def write_more(told: Told, names: dict[str, str]) -> None:
    told.do("forget", names["gone"])
    names["session"] = told.write("session_open", {"agent": "a", "key": "k"})["session"]


def arguments(verb: str, names: dict[str, str]) -> dict[str, Any]:
    turn = {"kind": "raw", "origin": "seeded", "text": "a turn"}
    special: dict[str, dict[str, Any]] = {
        "remember": turn,
        "remember_many": {"items": [turn]},
        "forget": {"id": names["spare"]},
        "recover": {"id": names["gone"]},
        "mark": {"id": names["one"], "mark": "resolved"},
        "revise": {"id": names["one"], "text": "better", "origin": "seeded"},
        "relate": {"from": names["one"], "to": names["other"], "type": "extends"},
        "session_open": {"agent": "a", "key": "k2"},
        "session_close": {"session": names.get("session", "")},
    }
    return special.get(verb, {"id": names["one"]})


@pytest.mark.parametrize("enforce", [True, False])
@pytest.mark.parametrize("state", STATES)
def test_maintenance_refuses_every_write_and_nothing_else_does(told: Told, state: str, enforce: bool) -> None:
    """Enforcement being off opens nothing there, and what was refused left nothing behind."""
    names = in_state(told, state, enforce)
    if state == "initializing":
        write_more(told, names)  # the first of its writes ends that
    for verb in WRITING:
        before = told.store.log.head().seq
        if state != "maintenance":
            told.write(verb, arguments(verb, names))
            continue
        reason, data = reason_of(lambda verb=verb: told.write(verb, arguments(verb, names)))
        assert (reason, data["current"]) == (Reason.LIFECYCLE, "maintenance"), verb
        assert told.store.log.head().seq == before
    assert told.memory(names["other"])["text"] == "other"
    assert told.read("trace", {"id": names["one"]})["nodes"] and told.read("review", {})["items"] == []
    assert told.write("lifecycle", {"state": "active"})["state"] == "active"
    told.raw("after")


@pytest.mark.parametrize("enforce", [True, False])
@pytest.mark.parametrize("state", STATES[:2])
@pytest.mark.parametrize("origin", ["seeded", "derived"])
def test_sources_may_be_missing_while_seeding_or_when_nothing_is_enforced(
    told: Told, state: str, enforce: bool, origin: str
) -> None:
    in_state(told, state, enforce)
    allowed = not enforce or (state == "initializing" and origin == "seeded")
    for batch in (False, True):
        note = {"kind": "note", "origin": origin, "text": "a note"}
        verb, params = ("remember_many", {"items": [note]}) if batch else ("remember", note)
        if allowed:
            told.write(verb, params)
        else:
            assert reason_of(lambda v=verb, p=params: told.write(v, p))[0] is Reason.PROVENANCE
    state_now = told.write("lifecycle", {})["state"]
    assert state_now == ("active" if allowed and origin != "seeded" else state)


@pytest.mark.parametrize("verb", ["remember", "remember_many", "revise"])
def test_the_first_write_that_is_not_seeded_ends_initializing_in_the_same_commit(told: Told, verb: str) -> None:
    names = in_state(told, "initializing", True)
    told.write(verb, arguments(verb, names))
    assert told.write("lifecycle", {})["state"] == "initializing"
    told.do("revise", names["other"], text="observed", origin="observed")
    assert told.write("lifecycle", {})["state"] == "active"
    assert reason_of(lambda: told.write("remember", {"kind": "note", "origin": "seeded", "text": "late"}))[0] is (
        Reason.PROVENANCE
    )


def test_a_state_outlives_restarts_and_is_each_tenants_own(told: Told) -> None:
    told.raw()
    told.write("lifecycle", {"state": "maintenance", "enforce": False})
    told.write("lifecycle", {"state": "maintenance"})
    other = {"kind": "note", "origin": "derived", "text": "x", "tenant": "other"}
    for clean in (True, False):
        told.reopen(clean)
        assert told.write("lifecycle", {}) == {"state": "maintenance", "enforce": False}
        assert reason_of(lambda: told.write("remember", other))[0] is Reason.PROVENANCE
        assert told.write("lifecycle", {"tenant": "other"})["enforce"] is True
    told.write("lifecycle", {"state": "active"})
    told.write("remember", {**other, "tenant": "default"})
    reason, _ = reason_of(lambda: told.write("lifecycle", {"state": "initializing"}))
    assert reason is Reason.LIFECYCLE


def test_enforcement_works_from_the_next_write_on_both_ways(told: Told) -> None:
    told.raw()
    note = {"kind": "note", "origin": "derived", "text": "x"}
    for enforce in (False, True, False):
        told.write("lifecycle", {"enforce": enforce})
        try:
            told.write("remember", note)
            accepted = True
        except Refused:
            accepted = False
        assert accepted is not enforce


@pytest.mark.parametrize(
    "field",
    [
        {"source_entity": "system:seed"}, {"source_entity": "plugin:x"}, {"metadata": {"enforce": False}},
        {"derived_from": [{"kind": "context", "id": "system:pre-v0.9-migration"}]}, {"producer": {"agent": "daemon"}},
        {"origin": "seeded"}, {"imported": {"format": "other"}}, {"protected": True}, {"topic": "system"},
        {"derived_from": [{"kind": "document", "id": "raw:0000000000001"}]},
    ],
    ids=str,
)  # fmt: skip
def test_nothing_that_a_caller_can_put_into_a_field_passes_by_the_table(told: Told, field: dict[str, Any]) -> None:
    import msgspec

    told.raw()
    if "metadata" in field:
        field = {"metadata": msgspec.Raw(msgspec.json.encode(field["metadata"]))}
    note = {"kind": "note", "origin": "derived", "text": "x", **field}
    assert reason_of(lambda: told.write("remember", note))[0] is Reason.PROVENANCE

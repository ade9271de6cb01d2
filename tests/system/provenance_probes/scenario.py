"""What each of the two tenants writes: the scripted scenario, as data.

An operation is a verb, the label of what it makes, and its parameters, in which `@label` stands for the reference of
something made before. Both tenants run all of it, each operation one after the other, so that their rows lie side by
side, with the same topics, shapes and agents: what leaks looks right. What no verb writes is in `fragment.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

FIVE = (("claude", ""), (None, "updates"), ("codex", "supersedes"), (None, "updates"), ("claude", "supersedes"))
"""The sessions of the five versions, and what made each of them."""
LONG = 27
BUSY_EVENTS = 60
BUSY_PROPOSALS = 30
BUSY_FACTS = 16
"""Those that the busy memory is made with: as many as one write may have. One more comes of each of its proposals."""


class Op(NamedTuple):
    verb: str
    label: str
    params: dict[str, Any]


def long_session(version: int) -> str | None:
    """The long chain alternates between a session and none."""
    return "claude" if version % 2 else None


def long_edge(version: int) -> str:
    """What made a version of the long chain, from 2 on."""
    return ("supersedes", "updates")[version % 2]


def _session(name: str | None) -> dict[str, Any]:
    return {} if name is None else {"session": f"@session.{name}"}


def _note(label: str, subtype: str = "decision", session: str | None = None, **more: Any) -> Op:
    params: dict[str, Any] = {"kind": "note", "subtype": subtype, "origin": "inferred"}
    params |= {"text": f"what is kept of {label}", "derived_from": ["@turn"], "topic": label}
    return Op("remember", label, {**params, **_session(session), **more})


def _successor(label: str, of: str, disposition: str, session: str | None) -> Op:
    params = {"id": f"@{of}", "disposition": disposition, "origin": "inferred", "text": f"what is kept of {label}"}
    return Op("revise", label, {**params, **_session(session)})


def _fact(number: int) -> dict[str, Any]:
    return {"subject": "the fence", "predicate": f"colour of slat {number}", "value": "dark green"}


def _propose(label: str, kind: str, memory: str, **more: Any) -> Op:
    return Op("propose", label, {"proposal_kind": kind, "memory": f"@{memory}", **more})


def _decide(label: str, accept: bool = True) -> Op:
    return Op("decide", "", {"proposal": f"@{label}", "accept": accept})


def _applied(label: str, kind: str, memory: str, **more: Any) -> Iterator[Op]:
    yield _propose(label, kind, memory, **more)
    yield _decide(label)


def _versions() -> Iterator[Op]:
    yield Op("session_open", "session.claude", {"agent": "claude", "key": "conversation one"})
    yield Op("session_open", "session.codex", {"agent": "codex", "key": "conversation two"})
    yield Op("remember", "turn", {"kind": "raw", "role": "user", "text": "all of it comes of this turn"})
    yield _note("single", session="claude")
    yield _note("plain")
    yield _note("five.v1", session=FIVE[0][0])
    for version, (session, disposition) in enumerate(FIVE[1:], 2):
        yield _successor(f"five.v{version}", f"five.v{version - 1}", disposition, session)
    yield _note("long.v1", session=long_session(1))
    for version in range(2, LONG + 1):
        yield _successor(f"long.v{version}", f"long.v{version - 1}", long_edge(version), long_session(version))


def _standing() -> Iterator[Op]:
    yield _note("moved", session="claude")
    yield Op(
        "revise", "", {"id": "@moved", "disposition": "move", "fields": {"topic": "elsewhere"}, **_session("codex")}
    )
    yield _note("archived")
    yield Op("mark", "", {"id": "@archived", "mark": "archived", **_session("claude")})
    preference = {"kind": "belief", "subtype": "preference", "origin": "inferred", "text": "tea, not coffee"}
    yield Op("remember", "preference", {**preference, "derived_from": ["@plain"], **_session("claude")})
    yield Op("reaffirm", "", {"id": "@preference"})
    yield _note("promised", "commitment", "claude")
    yield Op("mark", "", {"id": "@promised", "mark": "resolved", **_session("codex")})
    yield Op("mark", "", {"id": "@promised", "mark": "resolved", "on": False})


def _proposals() -> Iterator[Op]:
    for name in ("edged", "extended", "twice", "outdated", "carried"):
        subtype = "commitment" if name == "carried" else "decision"
        yield _note(f"{name}.old", subtype)
        yield _note(f"{name}.new", subtype, "codex")
    edge = {"other": "@edged.old", "edge": "supersedes"}
    yield from _applied("proposal.edged", "edge", "edged.new", **edge)
    yield from _applied("proposal.extended", "edge", "extended.new", other="@extended.old", edge="extends")
    yield from _applied("proposal.carried", "edge", "carried.new", other="@carried.old", edge="updates")
    yield from _applied("proposal.outdated", "retention", "outdated.old", action="supersede", other="@outdated.new")
    yield _propose("proposal.first", "edge", "twice.new", other="@twice.old", edge="supersedes")
    yield _propose("proposal.second", "retention", "twice.old", action="supersede", other="@twice.new")
    yield _decide("proposal.first")
    yield _decide("proposal.second")
    yield _note("revised.old")
    yield _successor("revised.new", "revised.old", "supersedes", None)
    yield from _applied("proposal.late", "edge", "revised.new", other="@revised.old", edge="supersedes")
    yield _note("factual", facts=[_fact(1), _fact(2)])
    yield from _applied("proposal.fact", "fact", "factual", fact=_fact(3))
    yield _note("told", session="claude", facts=[_fact(1), _fact(2)])
    yield _note("kept", "commitment")
    yield from _applied("proposal.kept", "resolution", "kept")
    yield _note("retired")
    yield from _applied("proposal.retired", "retention", "retired", action="archive")


def _undecided() -> Iterator[Op]:
    yield _note("undecided", "commitment")
    yield _note("beside", "commitment")
    staged: list[tuple[str, dict[str, Any]]] = [
        ("edge", {"other": "@beside", "edge": "supersedes"}), ("fact", {"fact": _fact(1)}), ("resolution", {}),
        ("retention", {"action": "archive"}),
    ]  # fmt: skip
    for kind, more in staged:
        yield _propose(f"rejected.{kind}", kind, "undecided", **more)
        yield _decide(f"rejected.{kind}", False)
        yield _propose(f"open.{kind}", kind, "undecided", **more)


def _imported() -> Iterator[Op]:
    origin = {"format": "elsewhere-1", "foreign_id": "row 17", "created_at": "2019-03-01T08:00:00.000Z"}
    yield Op("remember", "imported", {
        "kind": "raw", "origin": "told", "text": "it was written elsewhere", "topic": "imported", "imported": origin,
        "metadata": {"created": "by another program"}, "occurred_at": "2019-02-28T08:00:00.000Z",
    })  # fmt: skip
    yield Op("mark", "", {"id": "@imported", "mark": "archived"})


def _busy() -> Iterator[Op]:
    yield _note("busy", session="claude", facts=[_fact(number) for number in range(BUSY_FACTS)])
    for number in range(1, BUSY_PROPOSALS + 1):
        yield from _applied(f"proposal.busy.{number}", "fact", "busy", fact=_fact(100 + number))
    for number in range(1, BUSY_EVENTS + 1):
        yield Op("reaffirm", "", {"id": "@busy", **_session("claude" if number % 2 else None)})


def _for_the_fragment() -> Iterator[Op]:
    """What `fragment.py` adds to."""
    labels = ("half", "lost", "cycle.one", "cycle.two", "diamond.old", "diamond.left", "diamond.right", "diamond.new")
    for label in labels:
        yield _note(label)


def scenario() -> list[Op]:
    return [
        *_versions(), *_standing(), *_proposals(), *_undecided(), *_imported(), *_busy(), *_for_the_fragment(),
    ]  # fmt: skip

"""Passes of sleep, in the reference: what a commit refuses, and what it makes. Nothing here calls the product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.model.domain import CONFIDENCE, Declined, Memory, Name, PassDone, Row, Session, Tenant, refuse_in_maintenance


def check_form(args: dict[str, Any], kind_of: Callable[[Name], str]) -> None:
    """What is wrong with a commit whatever the store holds. Raises Declined."""
    for fact in args["facts"]:
        if not fact["turns"]:
            raise Declined("provenance")
        for names in (fact["turns"], fact.get("quoted_from", [])):
            _check_names(names, kind_of)
        if not set(fact.get("quoted_from", [])) <= set(fact["turns"]):
            raise Declined("provenance")
    _check_names(args["noise"], kind_of)
    if any(name in fact["turns"] for name in args["noise"] for fact in args["facts"]):
        raise Declined("invalid_input")


def _check_names(names: list[Name], kind_of: Callable[[Name], str]) -> None:
    seen: set[Name] = set()
    for name in names:
        if kind_of(name) != "raw":
            raise Declined("provenance")
        if name in seen:
            raise Declined("invalid_input")
        seen.add(name)


def commit_pass(tenant: Tenant, args: dict[str, Any], now_ms: int, fresh: Callable[[str], Name]) -> dict[str, Any]:
    """One commit. Raises Declined."""
    refuse_in_maintenance(tenant)
    session = tenant.sessions.get(args["session"])
    if session is None:
        raise Declined("not_found")
    facts, noise, last = args["facts"], args["noise"], args["last"]
    if not facts and not noise and not (last and session.open_pass):
        raise Declined("provenance")
    named = list(dict.fromkeys([*(name for fact in facts for name in fact["turns"]), *noise]))
    for name in named:
        _check_turn(tenant, session, name)
    number = session.open_pass or max((row.number for row in session.rows), default=0) + 1
    if args.get("number", number) != number:
        raise Declined("conflict")
    may_reopen = session.open_pass or waiting(tenant, session)  # it was asked when the open pass began
    for name in named:
        if name in session.settled:
            promoted, commit = session.settled[name]
            of_this_pass = session.open_pass and commit >= session.open_since
            if promoted or of_this_pass or not may_reopen:
                raise Declined("conflict")
    return _commit(tenant, session, args, number, named, now_ms, fresh)


def unsettled(session: Session) -> list[Name]:
    return [name for name in session.turns if name not in session.settled]


def waiting(tenant: Tenant, session: Session) -> list[Name]:
    """Those that a pass may still take: a dead turn waits for nothing."""
    return [name for name in unsettled(session) if tenant.memories[name].forgotten_at is None]


def _check_turn(tenant: Tenant, session: Session, name: Name) -> None:
    memory = tenant.memories.get(name)
    if memory is None or name not in session.turns:
        raise Declined("provenance")
    if memory.forgotten_at is not None:
        raise Declined("conflict")


def _commit(
    tenant: Tenant, session: Session, args: dict[str, Any], number: int, named: list[Name], now_ms: int,
    fresh: Callable[[str], Name],
) -> dict[str, Any]:  # fmt: skip
    before = sum(row.number == number for row in session.rows)
    count = before + len(args["facts"])
    made = []
    for index, fact in enumerate(args["facts"], before):
        turns = sorted(fact["turns"], key=session.turns.index)
        note = Memory(fresh("m"), "note", fact["text"], "consolidated", None, turns, session.name, None, at=now_ms)
        note.confidence, note.project = CONFIDENCE.get("note", 0.8), session.defaults.get("project")
        note.quoted = list(fact.get("quoted_from", []))
        note.valid_from = min(tenant.memories[turn].at for turn in turns)
        tenant.memories[note.name] = note
        session.others.append(note.name)
        places = [session.turns.index(turn) + 1 for turn in turns]
        session.rows.append(Row(note.name, number, index, count, places, now_ms))
        made.append(note.name)
    if args["last"]:
        for row in session.rows:
            row.count = count if row.number == number else row.count
    promoted = {turn for fact in args["facts"] for turn in fact["turns"]}
    session.commits += 1
    for name in named:
        session.settled[name] = (name in promoted, session.commits)
        if name in promoted:
            tenant.memories[name].marked.add("consolidated")
    done = session.passes.setdefault(number, PassDone())
    done.turns += len(named)
    done.at, done.open = now_ms, not args["last"]
    if session.open_pass != number:
        session.open_since = session.commits
    session.open_pass = 0 if args["last"] else number
    return {
        "session": session.name, "pass": number, "notes": made, "settled": len(named), "partial": not args["last"],
    }  # fmt: skip


def states(tenant: Tenant, session: Session) -> list[str]:
    """How each row of a session stands."""
    return [
        "tombstone" if tenant.memories[row.note].forgotten_at is not None
        else "partial" if row.number == session.open_pass
        else "live"
        for row in session.rows
    ]  # fmt: skip


def by_clients(tenant: Tenant, session: Session) -> list[Memory]:
    """The notes of a session that no pass made: those that carry it, those made from its turns, and what took the
    place of any note of it."""
    made = {row.note for other in tenant.sessions.values() for row in other.rows}
    turns, of_it = set(session.turns), {row.note for row in session.rows} | set(session.others)
    of_it |= {memory.name for memory in tenant.memories.values() if turns.intersection(memory.sources)}
    for name in list(of_it):
        memory = tenant.memories[name]
        while memory.superseded_by is not None:
            memory = tenant.memories[memory.superseded_by]
            of_it.add(memory.name)
    notes = (memory for memory in tenant.memories.values() if memory.kind == "note" and memory.name in of_it)
    return [memory for memory in notes if memory.name not in made]

"""A provenance chain as people read it."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import pytest

from daemon.cli import render
from daemon.cli.render_chain import chain
from daemon.cli.render_text import columns
from tests.daemon.screens import HOSTILE, chain_of, terminal, zone

AT = "2026-01-02T03:04:05.678Z"
LATER = "2026-01-03T03:04:05.678Z"
OLD, NEW, EDGE = "note:0ABCDEFGHJKM1", "note:0ABCDEFGHJKM2", "edge:0ABCDEFGHJKM3"
PROPOSAL, SESSION = "proposal:0ABCDEFGHJKM4", "session:0ABCDEFGHJKM5"


def told_of(**more: Any) -> dict[str, Any]:
    """A chain with a row in each section."""
    version = {
        "id": OLD, "kind": "note", "subtype": "decision", "topic": "queue store", "project": None,
        "status": "superseded", "valid_from": None, "valid_to": LATER, "created_at": AT, "edge": EDGE,
        "edge_type": "supersedes", "created_by": "mcp", "edge_created_at": LATER, "depth": 1,
        "source_proposal": {"kind": "edge", "id": PROPOSAL}, "created_by_session": None,
    }  # fmt: skip
    event = {"id": "record:12", "event_kind": "resolve", "actor_kind": "client", "created_at": LATER,
             "session": SESSION, "proposal": PROPOSAL}  # fmt: skip
    proposal = {"id": PROPOSAL, "kind": "edge", "edge_type": "supersedes", "action": None, "other_memory": OLD,
                "created_at": AT, "decided_at": LATER, "produced": [EDGE]}  # fmt: skip
    fact = {"id": "fact:0ABCDEFGHJKM6", "valid_from": AT, "valid_to": None, "source_proposal": PROPOSAL}
    run = {"agent": "claude", "opened_at": AT}
    return {
        "origin": {"session": SESSION, "actor_kind": "client", "created_at": AT, "run": run},
        "supersession": {"predecessors": [version], "successors": [], "truncated": False},
        "events": {"items": [event], "truncated": True},
        "proposals": {"items": [proposal], "truncated": False},
        "facts": {"items": [fact], "truncated": False},
        "sections": dict.fromkeys(("origin", "supersession", "events", "proposals", "facts"), "ok"),
        **more,
    }


def test_each_section_is_a_table_with_its_title() -> None:
    with zone("UTC"):
        lines = chain(told_of())
    assert lines == [
        "began: 2026-01-02 03:04:05 UTC by client, in session:0ABCDEFGHJKM5 of claude,",
        "  opened 2026-01-02 03:04:05 UTC",
        "",
        "earlier versions:",
        "FAR  CREATED      STATUS      ID                  HOW",
        "1    01-02 03:04  superseded  note:0ABCDEFGHJKM1  supersedes 01-03 03:04 by mcp",
        "                                                  through",
        "                                                  proposal:0ABCDEFGHJKM4; queue",
        "                                                  store",
        "",
        "what happened, newest first (there are more):",
        "AT           EVENT    BY      RECORD  OF",
        "01-03 03:04  resolve  client  12      proposal:0ABCDEFGHJKM4,",
        "                                      session:0ABCDEFGHJKM5",
        "",
        "applied proposals:",
        "DECIDED      PROPOSAL                WHAT",
        "01-03 03:04  proposal:0ABCDEFGHJKM4  edge supersedes with note:0ABCDEFGHJKM1;",
        "                                     made edge:0ABCDEFGHJKM3",
        "",
        "facts:",
        "FACT                FROM         TO  THROUGH",
        "fact:0ABCDEFGHJKM6  01-02 03:04  -   proposal:0ABCDEFGHJKM4",
        "",
        "times are UTC (+0000)",
    ]


def test_what_is_unavailable_says_so_and_what_is_empty_is_not_there() -> None:
    nothing = {"items": [], "truncated": False}
    sections = {"origin": "unavailable", "supersession": "unavailable", "events": "unavailable", "proposals": "ok",
                "facts": "ok"}  # fmt: skip
    empty = {"predecessors": [], "successors": [], "truncated": False}
    told = told_of(supersession=empty, events=nothing, proposals=nothing, facts=nothing, sections=sections)
    lines = chain(told)
    assert lines[:3] == ["began: unavailable", "supersession: unavailable", "events: unavailable"]
    assert lines[4:] == lines[-1:]


def test_a_chain_stands_behind_its_memory_once() -> None:
    memory = {"id": NEW, "status": "active", "origin": "stated", "at": AT, "text": "use lmdb", "provenance": told_of()}
    text = render.render({"memories": [memory], "not_found": []}, "get")
    assert text.index("use lmdb") < text.index("began:")
    assert text.count("began:") == 1 and "provenance" not in text


@pytest.mark.parametrize("wide", [40, 80, 200])
def test_a_chain_of_anything_fits(wide: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for first in range(len(HOSTILE)):
        texts = cycle((*HOSTILE[first:], *HOSTILE[:first]))
        with terminal(wide, monkeypatch):
            lines = chain(chain_of(texts))
        assert [line for line in lines if columns(line) > wide] == []

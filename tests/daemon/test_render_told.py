"""How a memory came to be and what became of it, in people's words."""

from __future__ import annotations

from typing import Any

import pytest

from daemon.cli import render

AT = "2026-06-02T09:00:00.000Z"
ACTOR = {"uid": 1, "role": "agent", "via": "client"}
ROW = {
    "id": "note:1", "session": "session:1", "state": "live", "pass": 1, "fact_index": 0, "batch_count": 2,
    "turn_count": 2, "first_seq": 3, "last_seq": 5, "partition": None, "at": AT, "source": None, "content_hash_hi": 0,
}  # fmt: skip
EXPLAINED: dict[str, Any] = {
    "how": "written", "at": AT, "actor": ACTOR, "producer": None, "origin": "derived", "session": None, "turn": None,
    "sources": [], "evidence": [], "quoted_from": [], "row": None, "rows": [], "grounds": [], "predecessor": None,
    "disposition": None, "source": None,
}  # fmt: skip


def explained(ref: str, **more: Any) -> str:
    return render.render({**EXPLAINED, "id": ref, **more}, "explain")


def test_what_a_revision_stands_on_is_told() -> None:
    told = explained("belief:2", predecessor="belief:1", disposition="supersedes", grounds=["episode:1"])
    assert told.endswith("the successor of belief:1 (supersedes), which stands on episode:1")
    source = {"ref": "note:1", "state": "live", "text": None}
    both = explained("belief:2", predecessor="belief:1", disposition="updates", sources=[source])
    assert "successor of  belief:1 (updates)" in both and "made from:" in both


def test_what_was_derived_from_nothing_says_who_said_it_or_that_it_is_a_root() -> None:
    said = explained("raw:1", source={"ref": "tool:weather#1", "state": "live", "text": None})
    assert said.endswith("said by tool:weather#1")
    assert "a root" in explained("raw:1") and "nothing that is recorded" not in explained("raw:1")
    assert explained("note:1").endswith("made from nothing that is recorded")


def test_facts_are_counted_from_1_wherever_people_are_told() -> None:
    assert "1, fact 1 of 2" in explained("note:1", row=ROW, rows=[ROW])
    provenance = render.render({"derived": [ROW], "truncated": False, "client_notes": 0}, "session_provenance")
    assert " 1.1 " in provenance.split("\n")[1] and provenance.split("\n")[1].endswith("2 of 3-5")
    stored = {
        "flags": "live", "pass_number": 1, "fact_index": 0, "target": "note:1", "consolidated_at": 0,
        "source_tsid": None, "session_id": "session:1", "first_seq": 3, "last_seq": 5, "turn_count": 2,
    }  # fmt: skip
    shown = render.render({"tenant": "t", "rows": [stored]}, "region_rows").split("\n")[1]
    assert " 1.1 " in shown and shown.endswith("session:1 2 of 3-5")


@pytest.mark.parametrize(
    ("notes", "said"),
    [(3, "; 3 notes of clients: --include-clients"), (0, ", nor has a client")],
)
def test_notes_of_clients_that_were_not_asked_for_are_counted(notes: int, said: str) -> None:
    result = {"derived": [], "truncated": False, "client_notes": notes}
    told = " ".join(render.render(result, "session_provenance").split())
    assert told == f"no pass of sleep has made anything of it{said}"
    own = {**ROW, "pass": None, "fact_index": None}
    assert "--include" not in render.render({**result, "derived": [own]}, "session_provenance")


def happened(kind: str, about: str | None = "note:1", **event: Any) -> str:
    first = {"seq": 1, "at": AT, "type": "memory_created", "actor": ACTOR, "about": "note:1"}
    row = {"seq": 2, "at": AT, "type": kind, "actor": ACTOR, "about": about, "event": event or None}
    result = {"revisions": [], "events": [first, row], "confidence": [], "strength": []}
    lines = render.render(result, "history").split("\n")
    return next(line for line in lines if line.startswith("2 ")).partition("agent 1  ")[2]


def test_a_history_says_what_changed() -> None:
    note = [{"part": "words"}]
    assert happened("marked", mark="protected", on=True, parts=note) == "marked: protected on; with a note"
    assert happened("marked", mark="protected", on=False) == "marked: protected off"
    assert happened("related", source="note:1", target="note:2", edge_type="extends") == "related: extends note:2"
    assert happened("related", source="note:2", target="note:1", edge_type="extends") == "related: note:2 extends it"
    assert happened("superseded", successor="note:2", edge_type="updates") == "superseded: by note:2 (updates)"
    assert happened("forgotten", "note:9") == "source note:9 forgotten"
    boosted = happened("verified", "note:9", boosted=[{"id": "note:1"}])
    assert boosted == "note:9, made from it, verified", "which is no source of it"
    assert happened("marked") == "marked", "nobody could say more"


def test_a_record_says_that_a_mark_was_taken_off() -> None:
    frame = {"seq": 1, "at": AT, "tenant": "t", "actor": ACTOR, "type": "marked", "parts": []}
    for on, word in ((True, "on"), (False, "off")):
        told = render.render(
            {"frames": [{**frame, "event": {"memory": "note:1", "mark": "protected", "on": on}}], "total": 1}, "records"
        )
        assert f"protected; {word}" in " ".join(told.split())

"""Four long conversations imported whole: every observation leads to exactly the turns that it cites."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.system.process import ROOT, DaemonProcess, everything

DATA = ROOT.parent / "shared" / "data" / "locomo4.json"
TURNS = 2080

pytestmark = pytest.mark.skipif(not DATA.exists(), reason=f"the LoCoMo set isn't at {DATA}: its licence keeps it out")

Cited = tuple[str, tuple[tuple[str, str], ...]]


def expected(path: Path) -> tuple[Counter[tuple[str, str, str]], Counter[Cited]]:
    """What the file says, read without the importer: turns by session, observations with cited turns."""
    turns: Counter[tuple[str, str, str]] = Counter()
    notes: Counter[Cited] = Counter()
    for sample in json.loads(path.read_text("utf-8")):
        by_id: dict[str, tuple[str, str]] = {}
        for name, spoken in sample["conversation"].items():
            if re.fullmatch(r"session_\d+", name):
                for turn in spoken:
                    key = f"{sample['sample_id']}/{name}"
                    turns[key, turn["speaker"], turn["text"]] += 1
                    by_id[turn["dia_id"]] = (key, turn["text"])
        for speakers in sample["observation"].values():
            for facts in speakers.values():
                for fact, cited in facts:
                    refs = [cited] if isinstance(cited, str) else cited
                    sources = tuple(sorted({by_id[ref] for ref in refs if ref in by_id}))
                    if sources:
                        notes[fact, sources] += 1
    return turns, notes


def stored(daemon: DaemonProcess) -> tuple[Counter[tuple[str, str, str]], Counter[Cited]]:
    """The same of the daemon: sources by `trace`, one call a note."""
    memories = {memory["id"]: memory for memory in everything(daemon)}
    with daemon.client() as client:
        keys: dict[str | None, str] = {}
        for row in client.call("sessions", {"limit": 1000}, dict)["sessions"]:
            keys[row["session"]] = row["key"]
        raws = [memory for memory in memories.values() if memory["kind"] == "raw"]
        turns = Counter((keys[raw["session"]], raw["speaker"], raw["text"]) for raw in raws)
        made = [memory for memory in memories.values() if memory["kind"] == "note"]
        traces = client.call_many([("trace", {"id": note["id"]}) for note in made])
    notes: Counter[Cited] = Counter()
    for note, trace in zip(made, traces, strict=True):
        refs = [edge.to for edge in trace.edges]
        assert all(edge.from_ == note["id"] and edge.type == "derived_from" for edge in trace.edges)
        assert sorted(refs) == sorted(note["derived_from"])
        cited = {(keys[memories[ref]["session"]], memories[ref]["text"]) for ref in refs}
        notes[note["text"], tuple(sorted(cited))] += 1
    return turns, notes


def imported(daemon: DaemonProcess) -> dict[str, Any]:
    done = daemon.command("import", "--format", "locomo", str(DATA))
    assert done.returncode == 0, done.stderr[-1000:] or done.stdout[-1000:]
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def cited_by(daemon: DaemonProcess) -> dict[str, set[str]]:
    """By turn the observations that cite it, as the notes themselves say."""
    found: dict[str, set[str]] = {}
    for memory in everything(daemon):
        found.setdefault(memory["id"], set())
        for source in memory["derived_from"]:
            found.setdefault(source, set()).add(memory["id"])
    return found


def dependents(daemon: DaemonProcess, refs: list[str]) -> dict[str, set[str]]:
    """By memory what was made from it, by `trace`: each once, one step away, with an edge of its own."""
    with daemon.client() as client:
        traces = client.call_many([("trace", {"id": ref, "direction": "dependents"}) for ref in refs])
    found: dict[str, set[str]] = {}
    for ref, trace in zip(refs, traces, strict=True):
        root, *others = trace.nodes
        assert (root.ref, root.depth, trace.truncated) == (ref, 0, False)
        assert {node.depth for node in others} <= {1}
        made = [node.ref for node in others]
        assert sorted(made) == sorted(edge.from_ for edge in trace.edges) and len(set(made)) == len(made)
        assert {edge.to for edge in trace.edges} <= {ref}
        found[ref] = set(made)
    return found


def test_the_dependents_of_every_turn_are_exactly_the_observations_that_cite_it(daemon: DaemonProcess) -> None:
    """Recall and precision 1.0, of turns that nothing cites too; and so it stays when all is folded anew."""
    imported(daemon)
    cited = cited_by(daemon)
    turns = [ref for ref in cited if ref.startswith("raw:")]
    _, notes = expected(DATA)
    assert len(turns) == TURNS
    assert sum(map(len, cited.values())) >= sum(len(sources) * many for (_, sources), many in notes.items()) > 0
    assert dependents(daemon, list(cited)) == cited
    assert daemon.call("review", what=["orphans", "ungrounded", "flags"])["total"] == 0
    assert daemon.stop() == 0
    shutil.rmtree(daemon.state / "projections")
    daemon.start()
    assert dependents(daemon, turns) == {ref: cited[ref] for ref in turns}


def test_every_observation_is_traced_to_its_turns(daemon: DaemonProcess) -> None:
    report = imported(daemon)
    turns, notes = expected(DATA)
    assert sum(turns.values()) == TURNS
    assert report["written"] == TURNS + sum(notes.values()) and report["refused"] == []
    assert stored(daemon) == (turns, notes)
    spoken = [each["conversation"].values() for each in json.loads(DATA.read_text("utf-8"))]
    said = [turn for values in spoken for session in values if isinstance(session, list) for turn in session]
    captions = sum("blip_caption" in turn for turn in said)
    assert captions and f"blip_caption of a turn: {captions}, not imported" in report["skipped"]

    before = daemon.audit()
    assert before["findings"] == []
    again = imported(daemon)
    assert again["written"] == 0 and again["duplicates"] == report["written"]
    assert daemon.call("head")["seq"] == before["head"]["seq"]

    assert daemon.stop() == 0
    shutil.rmtree(daemon.state / "projections")
    daemon.start()
    after = daemon.audit()
    assert after["digests"] == before["digests"] and after["findings"] == []
    assert stored(daemon) == (turns, notes)
    assert imported(daemon)["written"] == 0

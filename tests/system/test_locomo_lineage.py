"""Four long conversations imported by a daemon, each of their sessions consolidated over three passes, and all asked.

What is expected is read from the file here, without the importer: turns by place in their session, observations with
the turns they cite. A turn is settled once, so observations that share a turn go into the same pass.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter, defaultdict
from typing import Any, NamedTuple

import pytest

from projections import passes
from tests.daemon.slept import Slept, fact
from tests.system.process import DaemonProcess, everything
from tests.system.test_locomo import DATA, imported

pytestmark = pytest.mark.skipif(not DATA.exists(), reason=f"the LoCoMo set isn't at {DATA}: its licence keeps it out")

SAMPLES, SESSIONS, TURNS, OBSERVATIONS, CITATIONS, CITED = 4, 99, 2080, 943, 944, 870
PASSES = (1, 2, 3)


class Observation(NamedTuple):
    """`cited`: places of its turns in their session, from 1."""

    text: str
    cited: frozenset[int]


class Conversation(NamedTuple):
    """One session as the file has it."""

    turns: list[str]
    observations: list[Observation]


class Made(NamedTuple):
    """A note that a pass made: its number, its place there, the facts of that pass, and the observation it is."""

    number: int
    fact: int
    of_pass: int
    observation: Observation


def conversations() -> dict[str, Conversation]:
    """All sessions by the key the importer gives them. An observation that cites what isn't there fails here."""
    found: dict[str, Conversation] = {}
    for sample in json.loads(DATA.read_text("utf-8")):
        places: dict[str, tuple[str, int]] = {}
        for name, spoken in sample["conversation"].items():
            if re.fullmatch(r"session_\d+", name):
                key = f"{sample['sample_id']}/{name}"
                found[key] = Conversation([turn["text"] for turn in spoken], [])
                places |= {turn["dia_id"]: (key, place) for place, turn in enumerate(spoken, 1)}
        for name, speakers in sample["observation"].items():
            own = f"{sample['sample_id']}/{name.removesuffix('_observation')}"
            for text, refs in (each for facts in speakers.values() for each in facts):
                cited = [places[ref] for ref in ([refs] if isinstance(refs, str) else refs)]
                assert {key for key, _ in cited} == {own}
                found[own].observations.append(Observation(text, frozenset(place for _, place in cited)))
    return found


def by_pass(observations: list[Observation]) -> list[list[list[Observation]]]:
    """In three, each in groups: those that share a turn stand together."""
    groups: list[list[Observation]] = []
    for observation in observations:
        near = [group for group in groups if any(each.cited & observation.cited for each in group)]
        groups = [group for group in groups if group not in near]
        groups.append([each for group in near for each in group] + [observation])
    return [groups[place::3] for place in range(3)]


def consolidate(slept: Slept, key: str, talk: Conversation, refs: dict[int, str]) -> dict[str, Made]:
    """Three passes over a session; the second takes a commit for each group, the third leaves no turn waiting."""
    made: dict[str, Made] = {}
    noise = sorted(refs.keys() - {turn for each in talk.observations for turn in each.cited})
    for number, part in zip(PASSES, by_pass(talk.observations), strict=True):
        assert part, "each session has something for each pass"
        commits = part if number == 2 else [[each for group in part for each in group]]
        for place, commit in enumerate(commits):
            last = place == len(commits) - 1
            facts = [fact(*(refs[turn] for turn in sorted(each.cited)), text=each.text) for each in commit]
            left = [refs[turn] for turn in noise] if last and number == 3 else []
            done = slept.commit(facts, key, noise=left, last=last)
            assert (done["pass"], done["partial"]) == (number, not last)
            already = sum(each.number == number for each in made.values())
            for at, (note, each) in enumerate(zip(done["notes"], commit, strict=True), already):
                made[note] = Made(number, at, sum(map(len, commits)), each)
    assert passes.unsettled_turns(slept.state(), slept.number(key)) == []
    return made


def turns_of(
    daemon: DaemonProcess, sessions: dict[str, str], talks: dict[str, Conversation]
) -> dict[str, dict[int, str]]:
    """By session the turns' references by place: as many as were spoken, each with its text."""
    texts = {memory["id"]: memory["text"] for memory in everything(daemon)}
    found: dict[str, dict[int, str]] = {}
    for key, talk in talks.items():
        told = daemon.call("session", session=sessions[key], include=["turns"], limit=1000)["memories"]
        assert [texts[turn["id"]] for turn in told] == talk.turns
        found[key] = {turn["turn"]: turn["id"] for turn in told}
        assert sorted(found[key]) == list(range(1, len(talk.turns) + 1))
    return found


def test_over_three_passes_every_observation_every_turn_and_every_session_tell_the_same(
    daemon: DaemonProcess,
) -> None:
    talks = conversations()
    cited = {(key, turn) for key, talk in talks.items() for each in talk.observations for turn in each.cited}
    counted = [each for talk in talks.values() for each in talk.observations]
    assert len({key.partition("/")[0] for key in talks}) == SAMPLES
    assert (len(talks), sum(len(talk.turns) for talk in talks.values())) == (SESSIONS, TURNS)
    assert (len(counted), sum(len(each.cited) for each in counted), len(cited)) == (OBSERVATIONS, CITATIONS, CITED)
    imported(daemon)
    sessions = {row["key"]: row["session"] for row in daemon.call("sessions", limit=1000)["sessions"]}
    assert sessions.keys() == talks.keys()
    refs = turns_of(daemon, sessions, talks)
    assert daemon.stop() == 0

    slept = Slept(daemon.state)
    slept.now_ms = time.time_ns() // 1_000_000
    try:
        made = {key: consolidate(slept, key, talk, refs[key]) for key, talk in talks.items()}
        assert sum(map(len, made.values())) == OBSERVATIONS
        assert slept.rebuilt_alike()
    finally:
        slept.close(True)

    daemon.start()
    memories = everything(daemon)
    marked = {memory["id"] for memory in memories if "consolidated" in memory["marks"]}
    assert marked == {refs[key][place] for key, place in cited}
    notes = {memory["id"]: memory for memory in memories if memory["kind"] == "note"}
    assert len(notes) == 2 * OBSERVATIONS
    check_traces(daemon, talks, sessions, refs, made, notes)
    check_sessions(daemon, talks, sessions, refs, made, notes)
    assert daemon.audit()["findings"] == []


def check_traces(
    daemon: DaemonProcess, talks: dict[str, Conversation], sessions: dict[str, str],
    refs: dict[str, dict[int, str]], made: dict[str, dict[str, Made]], notes: dict[str, Any],
) -> None:  # fmt: skip
    """Up: from each observation, imported and consolidated, exactly its turns. Down: from every turn who cites it."""
    turns = [ref for by_place in refs.values() for ref in by_place.values()]
    with daemon.client() as client:
        up = client.call_many([("trace", {"id": note}) for note in notes])
        down = client.call_many([("trace", {"id": turn, "direction": "dependents"}) for turn in turns])
    found = {}
    for note, trace in zip(notes, up, strict=True):
        found[note] = {edge.to for edge in trace.edges}
        assert [(edge.from_, edge.type) for edge in trace.edges] == [(note, "derived_from")] * len(found[note])
        assert sorted(node.ref for node in trace.nodes) == sorted([note, *found[note]])
    wanted = {
        note: {refs[key][place] for place in each.observation.cited}
        for key, of_session in made.items()
        for note, each in of_session.items()
    }
    assert {note: found[note] for note in wanted} == wanted
    assert sum(map(len, wanted.values())) == CITATIONS
    written = {ref: note for ref, note in notes.items() if ref not in wanted}
    assert Counter(
        (told["session"], told["text"], frozenset(found[note])) for note, told in written.items()
    ) == Counter(
        (sessions[key], each.text, frozenset(refs[key][place] for place in each.cited))
        for key, talk in talks.items()
        for each in talk.observations
    )
    citing: dict[str, list[str]] = defaultdict(list)
    for note, sources in (wanted | {note: found[note] for note in written}).items():
        for turn in sources:
            citing[turn].append(note)
    assert len(citing) == CITED and sum(map(len, citing.values())) == 2 * CITATIONS
    for turn, trace in zip(turns, down, strict=True):
        assert sorted(edge.from_ for edge in trace.edges) == sorted(citing.get(turn, []))
        assert {edge.to for edge in trace.edges} <= {turn}
        assert sorted(node.ref for node in trace.nodes) == sorted([turn, *citing.get(turn, [])])


def check_sessions(
    daemon: DaemonProcess, talks: dict[str, Conversation], sessions: dict[str, str],
    refs: dict[str, dict[int, str]], made: dict[str, dict[str, Made]], notes: dict[str, Any],
) -> None:  # fmt: skip
    """`session_provenance` has exactly the rows of its three passes, in order; with clients' also what was imported."""
    with daemon.client() as client:
        for key, talk in talks.items():
            rows = client.call("session_provenance", {"session": sessions[key]}, dict)["derived"]
            told = [(row["id"], row["pass"], row["fact_index"], notes[row["id"]]["text"]) for row in rows]
            assert told == [(note, each.number, each.fact, each.observation.text) for note, each in made[key].items()]
            assert {row["pass"] for row in rows} == set(PASSES)
            for row in rows:
                places = made[key][row["id"]].observation.cited
                span = (len(places), min(places), max(places))
                assert (row["turn_count"], row["first_seq"], row["last_seq"]) == span
                assert (row["state"], row["session"]) == ("live", sessions[key])
                assert row["batch_count"] == made[key][row["id"]].of_pass
            promoted = len({place for each in talk.observations for place in each.cited})
            sleep = client.call("session", {"session": sessions[key]}, dict)["sleep"]
            told_counts = (sleep["promoted"], sleep["noise"], sleep["unsettled"])
            assert told_counts == (promoted, len(talk.turns) - promoted, 0)
            asked = {"session": sessions[key], "include_clients": True}
            both = client.call("session_provenance", asked, dict)["derived"]
            assert both[: len(rows)] == rows
            rest = [(notes[row["id"]]["text"], row["turn_count"], row["first_seq"]) for row in both[len(rows) :]]
            assert sorted(rest) == sorted((each.text, len(each.cited), min(each.cited)) for each in talk.observations)
            explained = client.call_many([("explain", {"id": note}) for note in made[key]])
            for (note, each), told_of in zip(made[key].items(), explained, strict=True):
                wanted = [(refs[key][place], talk.turns[place - 1][:80]) for place in sorted(each.observation.cited)]
                assert [(s.ref, s.text[:80]) for s in told_of.sources] == wanted
                assert (told_of.id, told_of.how) == (note, "consolidated")

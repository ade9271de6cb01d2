"""Whatever is proposed, decided, revised, marked and forgotten in whatever order: a small reference says what each
decision must answer, and the journal shows each thing applied once, its product naming its proposal.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daemon.refusal import Reason, Refused
from journal import events
from tests.daemon.proposed import FACT
from tests.daemon.told import Told

NOTES = 4
places = st.integers(0, NOTES - 1)
proposing = st.one_of(
    st.tuples(st.just("edge"), st.sampled_from(["supersedes", "updates", "extends", "contradicts"]), places, places),
    st.tuples(st.just("retention"), st.just("supersede"), places, places),
    st.tuples(st.just("retention"), st.just("archive"), places, places),
    st.tuples(st.just("resolution"), st.just("resolve"), places, places),
    st.tuples(st.just("fact"), st.sampled_from(["green", "blue"]), places, places),
)
steps = st.one_of(
    st.tuples(st.just("propose"), proposing),
    st.tuples(st.just("decide"), st.tuples(st.integers(0, 7), st.booleans())),
    st.tuples(st.just("decide"), st.tuples(st.integers(0, 7), st.just(True))),
    st.tuples(st.sampled_from(["revise", "forget", "recover", "archive", "unarchive"]), places),
    st.tuples(st.just("restart"), st.booleans()),
)


class Note:
    """What the reference knows of a note."""

    def __init__(self, ref: str) -> None:
        self.ref = ref
        self.superseded_by = ""
        self.forgotten = False
        self.marks: set[str] = set()
        self.facts: list[str] = []

    @property
    def live(self) -> bool:
        return not (self.superseded_by or self.forgotten or "archived" in self.marks)


class Reference:
    """The rules of proposals over notes, in a page."""

    def __init__(self, refs: list[str]) -> None:
        self.notes = {ref: Note(ref) for ref in refs}
        self.current = refs
        self.edges: set[tuple[str, str, str]] = set()
        self.waiting: dict[str, tuple[str, str, str, str]] = {}
        self.decided: list[str] = []

    def same(self, said: tuple[str, str, str, str]) -> str | None:
        kind, word, memory, other = said
        sayings = {said, (kind, word, other, memory)} if word == "contradicts" else {said}
        return next((proposal for proposal, waits in self.waiting.items() if waits in sayings), None)

    def accept(self, said: tuple[str, str, str, str]) -> int | None:
        """How much an acceptance produces, None when it is a conflict; what it does is done."""
        kind, word, memory, other = said
        if kind == "fact":
            return self._fact(memory, word)
        if kind == "resolution" or word == "archive":
            return self._mark(memory, "resolved" if kind == "resolution" else "archived")
        if word == "supersede":
            return self._close(other, "supersedes", memory)
        if word in ("supersedes", "updates"):
            return self._close(memory, word, other)
        if {(memory, word, other), *([(other, word, memory)] if word == "contradicts" else [])} & self.edges:
            return 0
        self.edges.add((memory, word, other))
        return 1

    def _fact(self, memory: str, value: str) -> int | None:
        if self.notes[memory].forgotten:
            return None
        self.notes[memory].facts.append(value)
        return 1

    def _mark(self, memory: str, mark: str) -> int:
        marks = self.notes[memory].marks
        if mark in marks:
            return 0
        marks.add(mark)
        return 1

    def _close(self, successor: str, word: str, predecessor: str) -> int | None:
        if (successor, word, predecessor) in self.edges:
            return 0
        before = self.notes[predecessor]
        if not self.notes[successor].live or before.superseded_by or before.forgotten:
            return None
        before.superseded_by = successor
        self.edges.add((successor, word, predecessor))
        return 1


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(steps, min_size=5, max_size=40))
def test_every_decision_is_as_the_reference_says_and_applied_once(taken: list[tuple[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        told = Told(Path(directory) / "state")
        try:
            turn = told.raw()
            reference = Reference([told.note(turn, text=f"note {number}") for number in range(NOTES)])
            for name, given_ in taken:
                _STEPS[name](told, reference, given_)
            _check_memories(told, reference)
            _check_journal(told, reference)
            assert told.rebuilt_alike()
            _check_memories(told, reference)
        finally:
            told.close(True)


def _propose(told: Told, reference: Reference, step: tuple[str, str, int, int]) -> None:
    kind, word, one, two = step
    memory, other = reference.current[one], reference.current[two]
    named = kind == "edge" or word == "supersede"
    if named and memory == other:
        return
    said = (kind, word, memory, other if named else "")
    more: dict[str, Any] = {"other": other} if named else {}
    saying: dict[str, dict[str, Any]] = {"edge": {"edge": word}, "fact": {"fact": {**FACT, "value": word}}}
    more |= saying.get(kind, {"action": word})
    answer = told.write("propose", {"proposal_kind": kind, "memory": memory, **more})
    waits = reference.same(said)
    assert answer["existed"] is (waits is not None)
    assert waits in (None, answer["proposal"])
    reference.waiting.setdefault(answer["proposal"], said)


def _decide(told: Told, reference: Reference, step: tuple[int, bool]) -> None:
    number, accept = step
    known = [*reference.waiting, *reference.decided]
    if not known:
        return
    proposal = known[number % len(known)]
    said = reference.waiting.get(proposal)
    params = {"proposal": proposal, "accept": accept}
    if said is None:
        assert _reason(told, params) is Reason.NOT_FOUND
        return
    produced = reference.accept(said) if accept else 0
    if produced is None:
        assert _reason(told, params) is Reason.CONFLICT
        return
    answer = told.write("decide", params)
    assert (answer["decided"], len(answer["produced"])) == ("applied" if accept else "rejected", produced)
    del reference.waiting[proposal]
    reference.decided.append(proposal)


def _reason(told: Told, params: dict[str, Any]) -> Reason:
    with pytest.raises(Refused) as refused:
        told.write("decide", params)
    return refused.value.reason


def _revise(told: Told, reference: Reference, place: int) -> None:
    """What takes its place is not one of the notes that are proposed about, but for what is current."""
    note = reference.notes[reference.current[place]]
    if note.forgotten or note.superseded_by:
        return
    made = told.write("revise", {"id": note.ref, "text": f"better than {note.ref}", "origin": "told"})["id"]
    note.superseded_by = made
    reference.notes[made] = Note(made)
    reference.edges.add((made, "supersedes", note.ref))
    if place % 2:
        reference.current[place] = made


def _forget(told: Told, reference: Reference, place: int) -> None:
    note = reference.notes[reference.current[place]]
    told.do("forget", note.ref)
    note.forgotten = True


def _recover(told: Told, reference: Reference, place: int) -> None:
    note = reference.notes[reference.current[place]]
    if note.forgotten:
        told.do("recover", note.ref)
        note.forgotten = False


def _archive(told: Told, reference: Reference, place: int) -> None:
    note = reference.notes[reference.current[place]]
    told.do("mark", note.ref, mark="archived")
    note.marks.add("archived")


def _unarchive(told: Told, reference: Reference, place: int) -> None:
    note = reference.notes[reference.current[place]]
    told.do("mark", note.ref, mark="archived", on=False)
    note.marks.discard("archived")


def _restart(told: Told, reference: Reference, clean: bool) -> None:
    told.reopen(clean)


_STEPS: dict[str, Callable[[Told, Reference, Any], None]] = {
    "propose": _propose, "decide": _decide, "revise": _revise, "forget": _forget, "recover": _recover,
    "archive": _archive, "unarchive": _unarchive, "restart": _restart,
}  # fmt: skip


def _check_memories(told: Told, reference: Reference) -> None:
    for ref, note in reference.notes.items():
        memory = told.memory(ref)
        assert memory["superseded_by"] == (note.superseded_by or None)
        assert set(memory["marks"]) & {"archived", "resolved"} == note.marks
        assert Counter(fact["value"] for fact in memory["facts"]) == Counter(note.facts)
    rows = told.read("proposals", {"limit": 1000})["proposals"]
    assert [row["proposal"] for row in rows] == sorted(reference.waiting, reverse=True)


def _check_journal(told: Told, reference: Reference) -> None:
    """No memory is superseded twice; what was decided was decided once, and its products, in the records of the same
    command, name it; nothing else names a proposal."""
    records = [record for chunk in told.store.log.chunks() for record in chunk]
    closed = Counter(record.event.predecessor for record in records if isinstance(record.event, events.Superseded))
    assert set(closed.values()) <= {1}
    drawn = [each.event for each in records if isinstance(each.event, events.Related)]
    assert len({(each.source, each.edge_type, each.target) for each in drawn}) == len(drawn)
    decisions = [record for record in records if isinstance(record.event, events.ProposalDecided)]
    assert len({record.event.id for record in decisions}) == len(decisions) == len(reference.decided)  # type: ignore[union-attr]
    products: dict[int, list[tuple[int, str, int]]] = {}
    for record in records:
        named, told_as = _product(record.seq, record.event)
        if named:
            products.setdefault(named, []).append((record.cause.first_seq, *told_as))
    for record in decisions:
        event = record.event
        assert isinstance(event, events.ProposalDecided)
        told_of = [("edge", each) for each in event.edges] + [("fact", each) for each in event.facts]
        told_of += [("seq", each) for each in event.seqs]
        assert products.pop(event.id, []) == [(record.cause.first_seq, *each) for each in told_of]
        assert event.accepted or not told_of
    assert products == {}


def _product(seq: int, event: Any) -> tuple[int, tuple[str, int]]:
    """The proposal that an event names, and what it is a product as."""
    if isinstance(event, events.Superseded | events.Related):
        return event.proposal, ("edge", event.edge)
    if isinstance(event, events.FactAdded):
        return event.fact.proposal, ("fact", event.fact.id)
    return (event.proposal, ("seq", seq)) if isinstance(event, events.Marked) else (0, ("", 0))

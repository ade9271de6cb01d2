"""A memory's row counts its open flags, and its partition its dead: after every way there is to set and clear them.
And what must not be a source, nor be inherited."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daemon.refusal import Reason, Refused
from journal import events
from journal.tsid import parse_memory_ref
from projections import flags
from projections.partitions import load
from tests.daemon.slept import Slept, fact


@pytest.fixture
def slept(tmp_path: Path) -> Iterator[Slept]:
    opened = Slept(tmp_path / "state")
    try:
        yield opened
        assert opened.rebuilt_alike()
    finally:
        opened.close(True)


def row(slept: Slept, ref: str) -> Any:
    return slept.state().memory(parse_memory_ref(ref)[1])


def note(slept: Slept, *sources: str, **more: Any) -> str:
    made = {"kind": "note", "origin": "derived", "text": "n", "derived_from": list(sources), **more}
    return str(slept.write("remember", made)["id"])


def counted(slept: Slept, refs: list[str]) -> list[int]:
    """How many flags each has, which its row and the flags say alike."""
    found = [len(flags.of_child(slept.state(), parse_memory_ref(ref)[1])) for ref in refs]
    assert [row(slept, ref).flags for ref in refs] == found
    return found


def test_rows_count_the_flags_that_are_open(slept: Slept) -> None:
    sources = slept.turns(2)
    both, one = note(slept, *sources), note(slept, sources[0])
    told = [both, one]
    slept.write("forget", {"id": sources[0]})
    assert counted(slept, told) == [1, 1]
    slept.write("weaken", {"id": sources[1], "amount": 0.9})
    assert counted(slept, told) == [2, 1]
    slept.write("recover", {"id": sources[0]})
    assert counted(slept, told) == [1, 0]
    slept.write("weaken", {"id": sources[0], "amount": 0.15})  # from .2, where it came back: dormant
    assert counted(slept, told) == [2, 1]
    slept.write("verify", {"id": sources[0]})  # .15: it stays dormant
    assert counted(slept, told) == [2, 1]
    slept.write("verify", {"id": sources[0]})
    assert counted(slept, told) == [1, 0], "it came back above dormant"
    slept.write("verify", {"id": both})
    assert counted(slept, told) == [0, 0]
    assert row(slept, both).verifications == 1 and row(slept, sources[0]).verifications == 2


def test_a_source_that_is_boosted_back_clears_its_flags(slept: Slept) -> None:
    source = slept.turn("s")
    told = [note(slept, source), note(slept, source)]
    slept.write("weaken", {"id": source, "amount": 0.81})
    assert counted(slept, told) == [1, 1]
    slept.write("verify", {"id": told[0]})
    assert row(slept, source).strength >= 0.2 and counted(slept, told) == [0, 0]


def test_what_is_pruned_and_comes_back_as_dormant_as_it_was_keeps_its_flags(slept: Slept) -> None:
    source = slept.turn("s")
    told = [note(slept, source)]
    slept.write("weaken", {"id": source, "amount": 0.9})
    slept.append(events.Pruned(memories=(parse_memory_ref(source),), cycle=1))
    assert slept.write("recover", {"id": source})["flags_cleared"] == []
    assert counted(slept, told) == [1]


def test_a_partition_counts_its_dead_once_each(slept: Slept) -> None:
    turns = slept.turns(3)
    refs = [parse_memory_ref(turn) for turn in turns]

    def dead() -> int:
        return load(slept.state(), row(slept, turns[0]).partition).dead

    slept.append(events.Pruned(memories=(refs[0],), cycle=1))
    slept.write("forget", {"id": turns[0]})
    slept.write("forget", {"id": turns[1]})
    assert dead() == 2
    slept.write("recover", {"id": turns[0]})
    assert dead() == 2 and row(slept, turns[0]).dead, "still pruned"
    slept.write("recover", {"id": turns[0]})
    assert dead() == 1 and not row(slept, turns[0]).dead


@pytest.mark.parametrize("parameter", ["derived_from", "evidence"])
def test_what_is_purged_is_no_source_and_no_evidence(slept: Slept, parameter: str) -> None:
    """It is known, unlike one that never was, and its key is gone."""
    purged, living = slept.turns(2)
    slept.purge(purged)
    head = slept.store.log.head().seq
    given = {"derived_from": [living], parameter: [living, purged]}
    with pytest.raises(Refused) as refused:
        slept.write("remember", {"kind": "note", "origin": "derived", "text": "n", **given})
    assert (refused.value.reason, refused.value.data["ids"]) == (Reason.PROVENANCE, [purged])
    assert refused.value.data["parameter"] == parameter and "purged" in refused.value.message
    if parameter == "evidence":
        with pytest.raises(Refused) as refused:
            slept.write("verify", {"id": living, "evidence": [purged]})
        assert refused.value.reason is Reason.PROVENANCE
    assert slept.store.log.head().seq == head


def test_a_purged_memory_keeps_the_text_that_another_shares(slept: Slept) -> None:
    first, second = slept.turn("the same words"), slept.turn("the same words")
    slept.purge(first)
    assert slept.memory(second)["text"] == "the same words"
    slept.purge(second)
    assert slept.memory(second)["status"] == "purged"


def test_a_revision_inherits_the_evidence_outside_and_not_what_it_was_made_from(slept: Slept) -> None:
    first = note(
        slept, slept.turn("t"), derived_from=[slept.turn("u"), {"kind": "document", "id": "made from"}],
        evidence=[{"kind": "url", "id": "shows it", "resolvable": False}], source={"kind": "tool", "id": "came by"},
    )  # fmt: skip
    second = slept.write("revise", {"id": first, "text": "better", "origin": "derived"})["id"]
    memory = slept.memory(second)
    assert memory["derived_from"] == []
    assert memory["evidence"] == [{"kind": "url", "id": "shows it", "resolvable": False}]
    assert "source" not in memory or memory["source"] is None


def test_the_highest_pass_counts_its_facts_over_its_commits(slept: Slept) -> None:
    turns = slept.turns(5)
    slept.commit([fact(turns[0]), fact(turns[1], text="two")])
    slept.commit([fact(turns[2], text="three")], last=False)
    slept.commit([fact(turns[3], text="four"), fact(turns[4], text="five")])
    told = [(each["pass"], each["fact_index"]) for each in slept.rows()]
    assert told == [(1, 0), (1, 1), (2, 0), (2, 1), (2, 2)]

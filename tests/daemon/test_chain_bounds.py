"""A chain has its caps, says when it reached one, and reads as many records whatever the journal holds (D4)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from journal import events
from journal.codes import ProposalKind
from journal.log import Log
from journal.record import Record, decode_value
from journal.tsid import parse_memory_ref
from tests.daemon.chained import Chained, fact_added
from tests.journal.appending import Legacy

MOST_RECORDS = 178


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Chained]:
    opened = Chained(tmp_path / "state")
    try:
        yield opened
        assert opened.rebuilt_alike()
    finally:
        opened.close(True)


class Reads:
    """How many records were read out of the journal."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.count = 0
        raw = Log.raw

        def counted(log: Log, txn: Any, seq: int) -> Any:
            self.count += 1
            return raw(log, txn, seq)

        patched.setattr(Log, "raw", counted)

    def of(self, told: Chained, ref: str) -> tuple[int, dict[str, Any]]:
        """What `get` with provenance read, and what it answered."""
        before = self.count
        found = told.got(ref)
        return self.count - before, found


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    return Reads(monkeypatch)


def busy(told: Chained, happenings: int = 60, proposals: int = 30, facts: int = 30, versions: int = 27) -> str:
    """The middle one of so many versions, with so many happenings, applied proposals and facts."""
    found = told.versions(versions)
    ref = found[len(found) // 2]
    told.by_hand(*more(told, ref, happenings, proposals, facts))
    return ref


def more(told: Chained, ref: str, happenings: int, proposals: int, facts: int) -> list[Legacy | events.AnyEvent]:
    made: list[Legacy | events.AnyEvent] = [
        events.Reaffirmed(memory=parse_memory_ref(ref)) for _ in range(happenings)
    ]  # fmt: skip
    for _ in range(proposals):
        proposal = told.applied(ProposalKind.FACT, ref)
        made += [proposal.made, proposal.decided]
    return made + [fact_added(told, ref, ("a", "b", "c")) for _ in range(facts)]


def test_a_busy_memory_tells_the_newest_of_each_section_and_that_there_are_more(told: Chained) -> None:
    ref = busy(told)
    (memory,) = told.got(ref)["memories"]
    chain = memory["provenance"]
    for section, most in (("events", 50), ("proposals", 25), ("facts", 25)):
        items, truncated = chain[section]["items"], chain[section]["truncated"]
        assert len(items) == most and truncated, section
        ids = [item["id"] for item in items]
        newest = [int(each.partition(":")[2]) for each in ids] if section == "events" else ids
        assert newest == sorted(newest, reverse=True)
    assert chain["events"]["items"][-1]["event_kind"] == "reaffirm"
    assert [fact["id"] for fact in memory["facts"]][-25:] == [fact["id"] for fact in chain["facts"]["items"]][::-1]
    assert len(memory["facts"]) == 30
    both = chain["supersession"]
    assert len(both["predecessors"]) + len(both["successors"]) == 24 and both["truncated"]
    assert set(chain["sections"].values()) == {"ok"}


@pytest.mark.parametrize("beyond", [0, 1])
def test_a_section_at_its_cap_is_whole_and_one_more_is_truncated(told: Chained, beyond: int) -> None:
    ref = told.decision()
    told.by_hand(*more(told, ref, 49 + beyond, 25 + beyond, 25 + beyond))
    chain = told.chain(ref)
    for section, most in (("events", 50), ("proposals", 25), ("facts", 25)):
        assert len(chain[section]["items"]) == most
        assert chain[section]["truncated"] is bool(beyond), section
    assert (chain["events"]["items"][-1]["event_kind"] == "create") is not bool(beyond)


def test_the_records_read_for_a_chain_do_not_grow_with_the_journal(told: Chained, reads: Reads) -> None:
    ref = busy(told)
    before, answer = reads.of(told, ref)
    assert before <= MOST_RECORDS
    first = told.store.log.head().seq
    kind, tsid = parse_memory_ref(ref)
    others = [told.decision(f"other {number}") for number in range(10)]
    told.by_hand(
        *(events.Reaffirmed(memory=parse_memory_ref(other)) for other in others for _ in range(50 * first // 10)),
        *(events.Reaffirmed(memory=(kind, tsid)) for _ in range(2000)),
        *more(told, ref, 0, 500, 0),
    )
    assert told.store.log.head().seq > 50 * first
    later, grown = reads.of(told, ref)
    assert later == before
    assert grown["memories"][0]["provenance"]["supersession"] == answer["memories"][0]["provenance"]["supersession"]


def test_the_widest_and_fullest_chain_reads_its_178_records_at_most(told: Chained, reads: Reads) -> None:
    """25 versions that were all filed anew, 50 edges, 50 happenings, 25 facts that came later, and a session."""
    session = told.session()
    refs = [told.decision(f"version {number}", session=session) for number in range(25)]
    for ref in refs:
        told.write("revise", {"id": ref, "disposition": "move", "fields": {"topic": f"about {ref}"}})
    root, others = refs[-1], refs[:-1]
    made = [told.edge(root, other) for other in others for _ in range(2)]
    made += [told.edge(others[1], others[0]), told.edge(others[2], others[0])]
    told.by_hand(*made, *more(told, root, 50, 26, 25))
    count, found = reads.of(told, root)
    chain = found["memories"][0]["provenance"]
    assert len(chain["supersession"]["predecessors"]) == 50
    assert len({row["id"] for row in chain["supersession"]["predecessors"]}) == 24
    assert not chain["supersession"]["truncated"]
    assert set(chain["sections"].values()) == {"ok"}
    assert 150 < count <= MOST_RECORDS  # with what `get` reads for the memory itself


def test_what_was_done_to_many_memories_at_once_is_told_without_unpacking_the_others(
    told: Chained, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = told.decision("all is well", origin="inferred", producer={"model": "bad"})
    sel = {"producer": {"model": "bad"}}
    for action in ("quarantine", "demote"):
        token = told.write("cohort", {"sel": sel, "action": action})["token"]
        cohort = told.write("cohort", {"sel": sel, "action": action, "token": token})["cohort"]
        told.write("lift", {"cohort": cohort})
    unpacked: list[str] = []

    def noted(seq: int, value: bytes) -> Record:
        record = decode_value(seq, value)
        unpacked.append(type(record.event).__name__)
        return record

    monkeypatch.setattr("daemon.reads.reading.decode_value", noted)
    items = told.chain(ref)["events"]["items"]
    assert [item["event_kind"] for item in items] == ["lift", "demote", "lift", "quarantine", "create"]
    assert {item["actor_kind"] for item in items} == {items[-1]["actor_kind"]}
    assert "MemoryCreated" in unpacked and not {"CohortMade", "CohortLifted"} & set(unpacked)


def test_a_chain_is_the_same_each_time_it_is_asked_and_after_a_rebuild(told: Chained) -> None:
    ref = busy(told)
    first = msgspec.json.encode(told.got(ref))
    assert msgspec.json.encode(told.got(ref)) == first
    told.rebuild()
    assert msgspec.json.encode(told.got(ref)) == first

"""`history`, and `get` as of a moment that is past."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from daemon.refusal import Reason, Refused
from journal import events
from journal.codes import CallerRole, EdgeType, Kind, Via
from journal.record import HEAD_BYTES, Actor, Cause, Record, encode_body, seq_key
from journal.store import open_store, purge_parts
from journal.tsid import parse_memory_ref
from tests.model.opened import OpenedService

START_MS = 1_790_000_000_000
MINUTE_MS = 60_000


class Clock:
    def __init__(self) -> None:
        self.now_ms = START_MS

    def __call__(self) -> int:
        return self.now_ms


class Told:
    """A service whose clock goes on a minute with each write; `at` is the time of the last one."""

    def __init__(self, root: Path) -> None:
        self.clock = Clock()
        self.opened = OpenedService(root, self.clock)

    def write(self, verb: str, **params: Any) -> dict[str, Any]:
        self.clock.now_ms += MINUTE_MS
        return self.opened.write(verb, params)

    def remember(self, **params: Any) -> str:
        made: str = self.write("remember", **params)["id"]
        return made

    @property
    def at(self) -> str:
        return _time(self.clock.now_ms)

    def history(self, ref: str, **params: Any) -> dict[str, Any]:
        return self.opened.read("history", {"id": ref, **params})

    def then(self, at: str, *refs: str) -> dict[str, Any]:
        return self.opened.read("get", {"ids": list(refs), "as_known_at": at})

    def by_hand(self, *made: events.AnyEvent) -> None:
        """What no verb writes yet, while the service is closed."""
        self.clock.now_ms += MINUTE_MS
        self.opened.close(True)
        store = open_store(self.opened.root, version="test", now_ms=self.clock.now_ms)
        try:
            actor = Actor(os.getuid(), CallerRole.OPERATOR, Via.CLIENT)
            for event in made:
                seq = store.log.head().seq + 1
                body = encode_body(Record(seq, self.clock.now_ms, 1, actor, Cause(seq, "test"), event))
                if isinstance(event, events.Purged):
                    purge_parts(store, [body], [], store.log.state)
                else:
                    store.log.append([body], [], store.log.state)
        finally:
            store.close(True)
        self.opened._open()

    def purge(self, ref: str) -> None:
        kind, tsid = parse_memory_ref(ref)
        seq = self.history(ref)["events"][0]["seq"]
        with self.opened.store.env.read() as txn:
            record = self.opened.store.log.get(txn, seq)
        assert record is not None
        self.by_hand(events.Purged(targets=(events.PurgeTarget(kind, tsid),), parts=record.event.parts))  # type: ignore[union-attr]


def _time(at_ms: int) -> str:
    from daemon.wire.times import format_ms

    return format_ms(at_ms)


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Told]:
    found = Told(tmp_path / "state")
    yield found
    found.opened.close(True)


def _source_and_note(told: Told) -> tuple[str, str]:
    source = told.remember(kind="raw", role="user", text="the fence is green", session={"agent": "a", "key": "k"})
    note = told.remember(kind="note", origin="told", text="a green fence", derived_from=[source], confidence=0.5)
    return source, note


def test_every_record_about_a_memory_is_an_event_also_those_of_others(told: Told) -> None:
    source, note = _source_and_note(told)
    made_at = told.at
    told.write("forget", id=source)
    told.write("recover", id=source)
    told.write("forget", id=note)
    found = told.history(note)
    assert [event["type"] for event in found["events"]] == ["memory_created", "forgotten", "recovered", "forgotten"]
    assert [event["about"] for event in found["events"]] == [note, source, source, note]
    assert [event["seq"] for event in found["events"]] == sorted(event["seq"] for event in found["events"])
    assert found["events"][0]["at"] == made_at and found["events"][-1]["at"] == told.at
    assert found["events"][0]["actor"] == {"uid": os.getuid(), "role": "operator", "via": "client"}
    assert [(step["old"], step["new"], step["reason"]) for step in found["strength"]] == [
        (None, 1.0, "memory_created"), (1.0, 0.0, "forgotten"),
    ]  # fmt: skip
    assert [(step["old"], step["new"]) for step in found["confidence"]] == [(None, 0.5)]
    assert [(step["old"], step["new"]) for step in told.history(source)["strength"]] == [
        (None, 1.0), (1.0, 0.0), (0.0, 0.2),
    ]  # fmt: skip


def test_unknown_foreign_and_of_another_kind_are_one_refusal(told: Told) -> None:
    _, note = _source_and_note(told)
    for ref, tenant in ((note, "other"), ("note:0000000000001", "default"), (f"belief:{note[5:]}", "default")):
        with pytest.raises(Refused) as refused:
            told.history(ref, tenant=tenant)
        assert refused.value.reason is Reason.NOT_FOUND
        assert refused.value.data == {"parameter": "id"}


def test_versions_are_told_from_any_of_them_oldest_first(told: Told) -> None:
    source, first = _source_and_note(told)
    refs = [first]
    for number, disposition in enumerate((EdgeType.UPDATES, EdgeType.SUPERSEDES)):
        predecessor = parse_memory_ref(refs[-1])
        tsid = predecessor[1] + 1 + number
        told.by_hand(
            events.MemoryCreated(
                id=tsid, slot=100 + number, kind=int(Kind.NOTE), subtype=1, origin=3, partition=2,
                sources=(parse_memory_ref(source),), predecessor=predecessor, disposition=int(disposition), edge=9,
            )
        )  # fmt: skip
        refs.append(f"note:{_tsid(tsid)}")
    for ref in refs:
        versions = told.history(ref)["revisions"]
        assert [version["id"] for version in versions] == refs
        assert [version["predecessor"] for version in versions] == [None, *refs[:-1]]
        assert [version["disposition"] for version in versions] == [None, "updates", "supersedes"]
    assert [version["id"] for version in told.history(source)["revisions"]] == [source]


def _tsid(tsid: int) -> str:
    from journal.tsid import format_tsid

    return format_tsid(tsid)


@pytest.mark.parametrize(("of", "truncated"), [(0, True), (1, True), (2, False), (4, True)])
def test_versions_that_are_left_out_are_told_of(
    told: Told, monkeypatch: pytest.MonkeyPatch, of: int, truncated: bool
) -> None:
    monkeypatch.setattr("daemon.reads.history.MAX_REVISIONS", 2)
    made = [told.remember(kind="raw", origin="told", text="v")]
    for number in range(4):
        made.append(str(told.write("revise", id=made[-1], text=f"v{number}", origin="told")["id"]))
    found = told.history(made[of])
    assert found["truncated"] is truncated
    assert [each["id"] for each in found["revisions"]] == made[max(0, of - 2) : of + 3]


def test_of_a_purged_memory_the_history_stays_and_holds_no_content(told: Told) -> None:
    source, note = _source_and_note(told)
    told.write("forget", id=note, note="a secret reason")
    before = told.history(note)
    told.purge(note)
    after = told.history(note)
    assert after["events"][:-1] == before["events"] and after["events"][-1]["type"] == "purged"
    assert after["strength"] == before["strength"] and after["confidence"] == before["confidence"]
    assert after["revisions"][0]["status"] == "purged"
    shown = msgspec.json.encode(after)
    assert b"green" not in shown and b"secret" not in shown
    assert told.history(source)["events"] != []


def test_a_damaged_record_costs_its_own_entry_only_and_is_a_finding(told: Told) -> None:
    _, note = _source_and_note(told)
    told.write("forget", id=note)
    told.write("recover", id=note)
    told.write("forget", id=note)
    damaged = told.history(note)["events"][1]["seq"]
    _damage(told, damaged)
    found = told.history(note)
    assert [event["type"] for event in found["events"]] == ["memory_created", "damaged", "recovered", "forgotten"]
    entry = found["events"][1]
    assert entry["seq"] == damaged and entry["at"] is None and entry["actor"] is None
    assert [(step["old"], step["new"]) for step in found["strength"]] == [(None, 1.0), (0.0, 0.2), (0.2, 0.0)]
    assert [finding.seq for finding in told.opened.store.findings] == [damaged]


def _damage(told: Told, seq: int) -> None:
    """Flip a bit of a record's body, as a disk would; the writer is idle."""
    env = told.opened.store.env
    with env.write() as txn:
        value = bytearray(txn.get(seq_key(seq), db=env.db("records")) or b"")
        value[HEAD_BYTES + 3] ^= 1
        txn.put(seq_key(seq), bytes(value), db=env.db("records"))


def test_a_memory_is_shown_as_it_was_known_then(told: Told) -> None:
    source, note = _source_and_note(told)
    written = told.at
    plain = told.opened.read("get", {"ids": [source, note]})["memories"]
    told.write("forget", id=source)
    forgotten = told.at
    told.write("recover", id=source)
    later = told.remember(kind="note", origin="told", text="also green", derived_from=[source])
    assert told.then(written, source, note)["memories"] == plain
    as_forgotten = told.then(forgotten, source, note)["memories"]
    assert [(memory["status"], memory["strength"], memory["grounded"]) for memory in as_forgotten] == [
        ("forgotten", 0.0, True), ("active", 1.0, False),
    ]  # fmt: skip
    assert as_forgotten[0]["processed_into"] == [note]
    assert told.opened.read("get", {"ids": [source]})["memories"][0]["processed_into"] == [note, later]
    assert told.then(told.at, source)["memories"] == told.opened.read("get", {"ids": [source]})["memories"]


def test_what_was_not_yet_written_is_unknown_then(told: Told) -> None:
    source, note = _source_and_note(told)
    between = _time(told.clock.now_ms - 1)
    found = told.then(between, note, source)
    assert found["not_found"] == [note] and [memory["id"] for memory in found["memories"]] == [source]
    assert told.then(_time(START_MS), note, source)["not_found"] == [note, source]


def test_what_was_purged_since_is_gone_also_for_the_time_before(told: Told) -> None:
    source, note = _source_and_note(told)
    before = told.at
    told.purge(note)
    shown = told.then(before, note)["memories"][0]
    assert shown["status"] == "purged" and "text" not in shown
    assert told.then(before, source)["memories"][0]["status"] == "active"
    assert told.then(_time(START_MS), note)["not_found"] == [note]


def test_confidence_decays_up_to_then_only(told: Told) -> None:
    _, note = _source_and_note(told)
    written = told.at
    fresh = told.then(written, note)["memories"][0]["confidence"]
    told.clock.now_ms += 60 * 24 * 60 * MINUTE_MS
    now = told.opened.read("get", {"ids": [note]})["memories"][0]["confidence"]
    assert now["effective"] < fresh["effective"] == fresh["stored"]
    assert told.then(written, note)["memories"][0]["confidence"] == fresh


def test_a_damaged_record_leaves_open_how_it_was_and_says_so(told: Told) -> None:
    source, note = _source_and_note(told)
    written = told.at
    told.write("forget", id=note)
    _damage(told, told.history(note)["events"][1]["seq"])
    found = told.then(written, note, source)["memories"]
    assert found[0]["damaged"] is True and found[0]["id"] == note
    assert found[1]["status"] == "active"

"""What a purge costs, and how much it says: bounded, and counted in full."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from daemon import erasing, limits, purge_told, repurging
from daemon.cascading import Going
from daemon.commands.purging import nothing
from daemon.erasing import plan
from daemon.refusal import Reason
from daemon.wire.answer import encode_answer
from daemon.wire.erasure_results import PurgeResult
from journal.codes import Cascade
from journal.event_reading import read_event
from journal.events import Purged, PurgeTarget, SealedPart
from journal.fingerprints import KEY_BYTES, seal_fingerprints
from journal.record import Actor, Cause, Record, encode_body
from journal.tsid import parse_memory_ref
from projections.rows import MemoryRow
from projections.state import State
from tests.daemon.cohorted import refused
from tests.daemon.purged import Purging
from tests.daemon.slept import fact


@pytest.fixture
def purging(tmp_path: Path) -> Iterator[Purging]:
    opened = Purging(tmp_path / "state")
    try:
        yield opened
    finally:
        opened.close(True)


# --- what it costs ------------------------------------------------------------------------------------


class Counting(State):
    """Counts how often something is looked up."""

    looks = 0

    def get(self, database: str, key: bytes) -> bytes | None:
        self.looks += 1
        return super().get(database, key)

    def entries(self, database: str, prefix: bytes) -> Any:
        self.looks += 1
        return super().entries(database, prefix)

    def memory(self, tsid: int) -> MemoryRow | None:
        self.looks += 1
        return super().memory(tsid)


def looks(purging: Purging, refs: list[str], cascade: Cascade) -> int:
    """What a plan of a purge looks up."""
    plain = purging.state()
    state = Counting(plain._snapshot, plain.counters, plain.head)

    def record(seq: int) -> Record | None:
        with purging.store.env.read() as txn:
            return purging.store.log.get(txn, seq)

    going = Going(state, record, cascade, nothing)
    going.walk(parse_memory_ref(ref)[1] for ref in refs)
    plan(state, record, going, lambda slot: False)
    return state.looks


def line(purging: Purging, length: int) -> list[str]:
    refs = [purging.note(None)]
    while len(refs) < length:
        refs.append(str(purging.do("revise", refs[-1], text=f"v {purging.now_ms}", origin="inferred")["id"]))
    return refs


def test_a_line_of_versions_is_walked_once_however_many_of_it_go(purging: Purging) -> None:
    short, long = line(purging, 20), line(purging, 40)
    for cascade in (Cascade.VERSIONS, Cascade.NONE):
        assert looks(purging, long, cascade) < 2.5 * looks(purging, short, cascade)


def test_who_shares_a_text_is_counted_once_for_all_that_go(purging: Purging) -> None:
    purging.capture("ok")
    items = [{"kind": "raw", "origin": "stated", "text": "ok"} for _ in range(200)]
    refs = [result["id"] for result in purging.write("remember_many", {"items": items})["results"]]
    more = looks(purging, refs[:40], Cascade.NONE) - looks(purging, refs[:20], Cascade.NONE)
    assert more < 20 * 50, "for each of twenty more, fewer than there are that share it"


# --- how much it says ---------------------------------------------------------------------------------


def test_what_survives_is_counted_in_full_where_a_list_is_cut(
    purging: Purging, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = purging.turn("source")
    notes = [purging.note(None, source) for _ in range(5)]
    monkeypatch.setattr(limits, "DOWNSTREAM_TOLD", 3)
    monkeypatch.setattr(erasing, "REFS_AT_LEAST", 1)
    told = purging.purge(source, dry_run=True)["results"][0]
    done = purging.purge(source)
    assert told["derived_surviving"] == notes[:3] and told["derived_surviving_count"] == 5
    found = done["results"][0]
    assert (found["derived_surviving"], found["derived_surviving_count"]) == (notes[:3], 5)
    (receipt,) = purging.read("purges", {"receipt": done["receipt"]})["purges"]
    assert receipt["results"] == done["results"]


def test_copies_are_counted_in_full_too(purging: Purging, monkeypatch: pytest.MonkeyPatch) -> None:
    turn = purging.turn("quoted")
    purging.commit([fact(turn, text=f"quoted {number}", quoted_from=[turn]) for number in range(4)])
    monkeypatch.setattr(limits, "DOWNSTREAM_TOLD", 2)
    monkeypatch.setattr(erasing, "REFS_AT_LEAST", 1)
    told = purging.purge(turn)["results"][0]
    assert (len(told["quoting_purged"]), told["quoting_purged_count"]) == (2, 4)


def test_many_memories_tell_fewer_of_what_survives_each(purging: Purging, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = [purging.capture(f"s {number}") for number in range(4)]
    for _ in range(5):
        purging.note(None, *sources)
    monkeypatch.setattr(erasing, "REFS_AT_LEAST", 1)
    monkeypatch.setattr(erasing, "REFS_A_PURGE", 32)
    told = purging.purge(*sources)["results"]
    assert [len(each["derived_surviving"]) for each in told] == [2] * 4
    assert [each["derived_surviving_count"] for each in told] == [5] * 4


def test_a_record_ends_before_it_outgrows_a_frame(purging: Purging, monkeypatch: pytest.MonkeyPatch) -> None:
    refs = [purging.capture(f"canary {number}", topic="canary") for number in range(9)]
    monkeypatch.setattr(erasing, "RECORD_BYTES", 4000)
    done = purging.purge(*refs, idempotency_key="k")
    records = purging.records("Purged")
    assert len(records) == 3 and done["count"] == 9 and purging.readable("canary") == []
    assert done["totals"]["keys_shredded"] == 18 and purging.rebuilt_alike()
    assert purging.purge(*refs, idempotency_key="k")["results"] == done["results"]


def test_one_memory_with_more_parts_than_a_record_names_goes_with_several(
    purging: Purging, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = purging.capture("canary", topic="canary")
    for number in range(8):
        purging.do("verify", ref, note=f"canary {number}")
    monkeypatch.setattr(erasing, "PARTS_A_RECORD", 4)
    done = purging.purge(ref)
    events = [record.event for record in purging.records("Purged")]
    assert [(len(event.targets), len(event.parts)) for event in events] == [(1, 4), (0, 4), (0, 2)]
    assert done["results"][0]["keys_shredded"] == done["totals"]["keys_shredded"] == 10
    assert purging.readable("canary") == [] and purging.rebuilt_alike()
    (receipt,) = purging.read("purges", {"receipt": done["receipt"]})["purges"]
    assert receipt["totals"] == done["totals"]
    purging.reopen(False)
    assert purging.readable("canary") == []
    done = purging.write("vacuum", {"force": True})
    with purging.store.env.read() as txn:
        left = [part for event in events for part in event.parts
                if purging.store.log.sealed(txn, part.owner_seq, part.part) is not None]  # fmt: skip
    assert left == []


def test_the_longest_records_are_frames_that_fit_a_line(purging: Purging) -> None:
    """By what a record weighs: one of each extreme, made as large as a plan, or a restore, lets it be."""
    tsid, digest = (1 << 63) - 1, bytes(16)
    part = SealedPart(1 << 50, 2, 1 << 50, 1 << 20, digest)
    refs = tuple((3, tsid - number) for number in range(1000))
    one = PurgeTarget(3, tsid, 1 << 40, 1 << 40, 1 << 40, 1 << 40, 1 << 40, quoting_purged=refs, derived_surviving=refs)
    bare = PurgeTarget(3, tsid, 1 << 40, 1 << 40, 1 << 40, 1 << 40, 1 << 40, is_fingerprinted=True)
    (blocked,) = seal_fingerprints(bytes(32), bytes(KEY_BYTES), [digest])
    of_key = {bytes(KEY_BYTES): tuple(blocked[:-2] + number.to_bytes(2) for number in range(20_000))}
    kept_out = max(repurging._in_records(of_key, set()), key=lambda each: len(each.fingerprints))
    assert (len(blocked), len(kept_out.fingerprints)) == (44, erasing.TARGETS_A_RECORD)
    story: dict[str, Any] = {
        "fingerprint_key": kept_out.key, "fingerprints": kept_out.fingerprints, "tenant_name": "t" * 64,
        "directive": (digest, 1, 1 << 50), "first_at": 1 << 41, "first_actor": (0, 3, 5),
        "earlier": tuple((epoch, 1 << 50) for epoch in range(100)), "sessions": (1 << 40,) * 1000,
        "proposals": (1 << 50,) * 1000, "entities": (1 << 40,) * 1000,
    }  # fmt: skip
    many = erasing.RECORD_BYTES // (erasing._TARGET_BYTES + 2000 * erasing._REF_BYTES) + 1
    extremes = [
        Purged(targets=(one,) * many, parts=(part,) * erasing.PARTS_A_RECORD, **story),
        Purged(targets=(bare,) * 1000, parts=(part,) * erasing.PARTS_A_RECORD, **story),
    ]
    for event in extremes:
        body = encode_body(Record(1 << 50, 1 << 41, 1, Actor(0, 3, 5), Cause(1, "purge", "c" * 64), event))
        read = msgspec.json.encode(read_event(event))
        assert len(read) + len(body) * 4 // 3 + 4096 < limits.LINE_BYTES


def test_an_answer_ends_before_it_outgrows_a_line(purging: Purging, monkeypatch: pytest.MonkeyPatch) -> None:
    refs = [purging.capture(f"c {number}") for number in range(5)]
    done = purging.purge(*refs[:1])
    size_bytes = len(msgspec.json.encode(done["results"][0]))
    monkeypatch.setattr(purge_told, "RESULTS_BYTES", 2 * size_bytes + size_bytes // 2)
    told = purging.purge(*refs, idempotency_key="k")
    assert (len(told["results"]), told["results_cut"], told["count"]) == (2, True, 4)
    again = purging.purge(*refs, idempotency_key="k")
    assert again["results"] == told["results"] and again["results_cut"]


def test_the_longest_answer_fits_a_line(purging: Purging) -> None:
    ref = purging.capture("a")
    done = msgspec.convert(purging.purge(ref), PurgeResult)
    (told,) = done.results
    told.derived_surviving = told.sources_surviving = told.versions_surviving = ["note:0123456789ABC"] * 1000
    results, cut = purge_told.fitting((told for _ in range(1001)), purge_told.RESULTS_TOLD)
    done.results = results
    line = encode_answer(1, done)
    assert cut and len(results) > 100 and len(line) > limits.LINE_BYTES // 2, "it is no refusal"


# --- limits in the writer -----------------------------------------------------------------------------


def test_copies_and_cascades_count_against_the_limit_of_an_action(
    purging: Purging, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By ids it is not looked at before: the writer counts."""
    turn = purging.turn("quoted")
    purging.commit([fact(turn, text=f"quoted {number}", quoted_from=[turn]) for number in range(3)])
    source = purging.capture("source")
    notes = [purging.note(None, source) for _ in range(3)]
    monkeypatch.setattr(limits, "MEMORIES_PER_ACTION", 3)
    head = purging.store.log.head().seq
    for ref, more in ((turn, {}), (source, {"cascade": "derived"}), (turn, {"dry_run": True})):
        error = refused(Reason.INVALID_INPUT, lambda: purging.purge(ref, **more))  # noqa: B023
        assert error.data["limit"] == 3
    assert purging.store.log.head().seq == head
    monkeypatch.setattr(limits, "MEMORIES_PER_ACTION", 4)
    assert purging.purge(source, cascade="derived")["count"] == 4 and purging.status(notes[0]) == "purged"

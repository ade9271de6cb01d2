"""Frames: every event has a reading, a frame is verified alone, and no destroyed part is in one."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
import pytest

from daemon.cli.offline import open_to_read
from daemon.wire import exchange_results, results
from journal.codes import Kind, Origin, Part
from journal.errors import DamagedRecord, DamagedStore
from journal.event_reading import FIELDS, read_event
from journal.events import EVENT_WORDS, MemoryCreated, Recovered
from journal.exporting import encode_line
from journal.frames import (
    TYPE_OF_TAG,
    Frame,
    FrameActor,
    FrameCause,
    FrameMaker,
    FramePart,
    Level,
    Row,
    decode_frame,
    encode_frame,
    rows_between,
    verify_frame,
)
from journal.record import HEAD_BYTES, decode_body
from journal.store import open_store
from ops.golden.filled import event_types, filled
from tests.journal.exported import GOLDEN, exported, unpack_golden
from tests.journal.making import append_memories, open_journal

EVENTS: list[dict[str, Any]] = json.loads((GOLDEN / "events-1.json").read_text("utf-8"))
FRAMES: list[dict[str, Any]] = json.loads((GOLDEN / "store-1-frames.json").read_text("utf-8"))
READINGS: dict[str, Any] = json.loads((GOLDEN / "readings-1.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_golden(tmp_path_factory.mktemp("frames") / "state")


@pytest.fixture(scope="module")
def frames(golden: Path) -> list[Frame]:
    return [decode_frame(line) for line in exported(golden)[1:]]


def of_type(frames: list[Frame], word: str) -> Iterator[Frame]:
    return (frame for frame in frames if frame.type == word)


# --- readings --------------------------------------------------------------------------------------


@pytest.mark.parametrize("struct_type", [*event_types(), *(each for each in FIELDS if each not in event_types())])
def test_every_field_of_every_event_has_a_reading(struct_type: Any) -> None:
    assert list(FIELDS[struct_type]) == list(struct_type.__struct_fields__)


@pytest.mark.parametrize("golden_event", EVENTS, ids=lambda golden_event: golden_event["event"])
def test_a_reading_is_as_ever(golden_event: dict[str, Any]) -> None:
    """A new event: the reading that this shows belongs into readings-1.json."""
    body = bytes.fromhex(golden_event["body"])
    reading = json.loads(msgspec.json.encode(read_event(decode_body(golden_event["seq"], body).event)))
    expected = READINGS[golden_event["event"]]
    assert {name: reading[name] for name in expected} == expected, json.dumps(reading)


@pytest.mark.parametrize("told", FRAMES, ids=lambda told: told["type"])
def test_what_the_first_format_wrote_is_told_as_ever(frames: list[Frame], told: dict[str, Any]) -> None:
    """With real values, so that words, references and times are pinned too."""
    frame: dict[str, Any] = msgspec.to_builtins(frames[told["seq"] - 1])
    event = told.pop("event")
    assert {name: frame["event"][name] for name in event} == event
    assert {name: frame[name] for name in told} == told


def test_no_reading_is_without_its_golden_one() -> None:
    assert set(READINGS) == {each.__name__ for each in event_types()}
    for event_type in event_types():
        assert set(READINGS[event_type.__name__]) == set(event_type.__struct_fields__)  # type: ignore[attr-defined]


@pytest.mark.parametrize("event_type", event_types())
def test_a_reading_stays_the_same_through_json(event_type: type) -> None:
    """An import compares what stands in the line with what it reads itself."""
    reading = read_event(filled(event_type))
    assert msgspec.json.decode(msgspec.json.encode(reading)) == reading


def test_a_reading_says_words_and_references() -> None:
    event = MemoryCreated(
        id=1, slot=1, kind=Kind.NOTE, subtype=1, origin=Origin.INFERRED, partition=1, sources=((Kind.RAW, 2),),
        occurred_at=1_790_000_000_123, key=b"\xab\xcd", edge=3,
    )  # fmt: skip
    told = read_event(event)
    assert (told["id"], told["kind"], told["subtype"], told["origin"]) == (
        "note:0000000000001", "note", "finding", "inferred",
    )  # fmt: skip
    assert told["sources"] == ["raw:0000000000002"] and told["edge"] == "edge:0000000000003"
    assert told["occurred_at"] == "2026-09-21T14:13:20.123Z" and told["key"] == "abcd"
    assert told["session"] is None and told["role"] is None and told["valid_to"] is None


# --- frames ------------------------------------------------------------------------------------------


def test_a_frame_has_the_fields_of_the_wire(frames: list[Frame]) -> None:
    pairs: list[tuple[Any, Any]] = [
        (Frame, exchange_results.Frame),
        (FramePart, exchange_results.FramePart),
        (FrameCause, exchange_results.FrameCause),
        (FrameActor, results.Actor),
    ]
    for ours, theirs in pairs:
        assert ours.__struct_fields__ == theirs.__struct_fields__
    sample = json.loads(encode_frame(next(of_type(frames, "memory_created"))))
    assert msgspec.to_builtins(msgspec.convert(sample, exchange_results.Frame)) == sample


def test_a_frame_is_verified_with_nothing_but_itself(frames: list[Frame]) -> None:
    """By the words of the contract, without a line of ours."""
    for frame in frames:
        body = base64.b64decode(frame.body)
        assert blake2b(bytes.fromhex(frame.prev) + body, digest_size=32).hexdigest() == frame.chain
        seq, at_ms, _tenant, actor, cause, event = msgspec.msgpack.decode(body)
        assert seq == frame.seq and cause[1] == frame.cause.verb and actor[0] == frame.actor.uid
        assert EVENT_WORDS[TYPE_OF_TAG[event[0]]] == frame.type
        assert frame.at.endswith(f".{at_ms % 1000:03d}Z")
    assert frames[0].prev == frames[0].store
    assert all(after.prev == frame.chain for frame, after in itertools.pairwise(frames))


def test_a_frame_that_is_sound_is_verified(frames: list[Frame]) -> None:
    assert [verify_frame(frame).seq for frame in frames] == list(range(1, len(frames) + 1))


def _other_text(frame: Frame) -> None:
    frame.parts[0].content = "x" + str(frame.parts[0].content)[1:]


def _other_body(frame: Frame) -> None:
    body = bytearray(base64.b64decode(frame.body))
    body[-1] ^= 1
    frame.body = base64.b64encode(body).decode()


def _other_chain(frame: Frame) -> None:
    frame.chain = ("0" if frame.chain[0] != "0" else "1") + frame.chain[1:]


def _without_the_text(frame: Frame) -> None:
    del frame.parts[0]


HARMS: dict[str, Callable[[Frame], object]] = {
    "content": _other_text,
    "body": _other_body,
    "body that is no base64": lambda frame: setattr(frame, "body", frame.body + "*"),
    "chain": _other_chain,
    "chain that is no hex": lambda frame: setattr(frame, "chain", "q" * 64),
    "prev": lambda frame: setattr(frame, "prev", "00" * 32),
    "seq": lambda frame: setattr(frame, "seq", frame.seq + 1),
    "type": lambda frame: setattr(frame, "type", "forgotten"),
    "version": lambda frame: setattr(frame, "version", 2),
    "reading": lambda frame: frame.event.update(importance=9.5),
    "time": lambda frame: setattr(frame, "at", "2026-01-01T00:00:00.000Z"),
    "actor": lambda frame: setattr(frame.actor, "uid", 4711),
    "verb": lambda frame: setattr(frame.cause, "verb", "forget"),
    "a part less": _without_the_text,
    "a part's length": lambda frame: setattr(frame.parts[0], "length", 3),
    "a part's owner": lambda frame: setattr(frame.parts[0], "owner_seq", 1),
    "a part's digest": lambda frame: setattr(frame.parts[0], "digest", "00" * 16),
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_frame_that_was_changed_is_not_verified(frames: list[Frame], harm: str) -> None:
    frame = decode_frame(encode_frame(next(of_type(frames, "memory_created"))))
    HARMS[harm](frame)
    with pytest.raises(DamagedStore) as caught:
        verify_frame(frame)
    assert caught.value.exit_code == 65


# --- levels ------------------------------------------------------------------------------------------


def test_skeleton_frames_have_no_parts(golden: Path) -> None:
    lines = exported(golden, Level.SKELETON)
    assert all(decode_frame(line).parts == [] for line in lines[1:])
    assert b"gate" not in b"".join(lines) and b"hash_key" not in lines[0]


def test_sealed_frames_have_the_ciphertext_that_the_record_names(golden: Path) -> None:
    lines = exported(golden, Level.SEALED)
    assert b"hash_key" not in lines[0] and b"gate" not in b"".join(lines)
    states = set()
    for frame in map(decode_frame, lines[1:]):
        verify_frame(frame)
        for part, named in zip(frame.parts, frame.event.get("parts", ()), strict=False):
            states.add(part.state)
            if part.state == "sealed":
                sealed = base64.b64decode(str(part.ciphertext))
                assert blake2b(sealed, digest_size=16).hexdigest() == named["digest"]
                assert len(sealed) == part.length + 28
            assert part.content is msgspec.UNSET
    assert states == {"sealed", "purged"}


def test_content_frames_have_the_plaintext(frames: list[Frame]) -> None:
    created = list(of_type(frames, "memory_created"))
    texts = {str(part.content) for frame in created for part in frame.parts if part.part == "text"}
    assert "Ada painted the gate — twice ✓" in texts and "x" * 6000 in texts
    vector = next(part for frame in created for part in frame.parts if part.part == "vector")
    model, values = msgspec.msgpack.decode(base64.b64decode(str(vector.content)))
    assert vector.encoding == "base64" and model == "v-1" and len(values) == 12
    name = next(of_type(frames, "session_opened")).parts[0]
    assert (name.part, name.content, name.encoding) == ("name", "spring", "utf-8")
    entity = next(of_type(frames, "entity_named")).parts[0]
    assert msgspec.msgpack.decode(base64.b64decode(str(entity.content))) == ["Ada", "person"]


def test_a_shared_part_stands_in_both_frames(frames: list[Frame]) -> None:
    noted = [
        (frame.seq, part) for frame in frames for part in frame.parts if part.part == "text" and part.content == "noted"
    ]
    (first, own), (second, shared) = noted
    assert own.owner_seq == shared.owner_seq == first < second


def test_a_purged_part_is_said_to_be_and_a_purge_carries_none(golden: Path, frames: list[Frame]) -> None:
    (purge,) = of_type(frames, "purged")
    assert purge.parts == []
    named = {(part["owner_seq"], part["part"]) for part in purge.event["parts"]}
    gone = [part for frame in frames for part in frame.parts if (part.owner_seq, part.part) in named]
    assert len(gone) == len(named) > 0
    for part in gone:
        assert part.state == "purged" and part.content is msgspec.UNSET and part.length > 0


def test_a_part_whose_key_is_shredded_is_purged_although_its_ciphertext_is_there(
    golden: Path, frames: list[Frame]
) -> None:
    """As a daemon sees it, which shreds before it answers: only the vault says so."""
    seq = next(frame.seq for frame in frames for part in frame.parts if part.state == "purged")
    with open_to_read(golden) as (store, _):
        maker = FrameMaker(store.log, store.vault, store.sealer, lambda _number: "")
        for level in (Level.SEALED, Level.CONTENT):
            with store.env.read() as txn:
                (row,) = rows_between(store.log, txn, seq, seq)
                assert store.log.sealed(txn, seq, Part.TEXT) is not None
                parts = maker.frame(txn, row, level).parts
            assert [(part.state, part.content, part.ciphertext) for part in parts] == [
                ("purged", msgspec.UNSET, msgspec.UNSET)
            ] * len(parts)


def test_what_a_purge_names_is_in_no_frame_while_its_key_is_still_there(golden: Path) -> None:
    """Between the commit of a PURGE and the overwriting of its keys a process may die."""
    with open_to_read(golden) as (store, _):
        created = next(row for row in rows_with_text(store) if row[1] > 0)
        seq, slot = created
        maker = FrameMaker(store.log, store.vault, store.sealer, lambda _number: "", frozenset({slot}))
        for level in (Level.SEALED, Level.CONTENT):
            with store.env.read() as txn:
                (row,) = rows_between(store.log, txn, seq, seq)
                part = maker.frame(txn, row, level).parts[0]
            assert (part.state, part.content, part.ciphertext) == ("purged", msgspec.UNSET, msgspec.UNSET)


def rows_with_text(store: Any) -> Iterator[tuple[int, int]]:
    """(seq, slot) of the texts."""
    for chunk in store.log.chunks():
        for record in chunk:
            for part in getattr(record.event, "parts", ()):
                if part.part == Part.TEXT and part.owner_seq == record.seq:
                    yield record.seq, part.slot


def test_a_damaged_part_is_told_beside_the_sound_ones(tmp_path: Path) -> None:
    root = unpack_golden(tmp_path / "state")
    store = open_store(root, version="", now_ms=0)
    try:
        seq, _slot = next(rows_with_text(store))
        key = seq.to_bytes(8, "big") + bytes([Part.TEXT])
        with store.env.write() as txn:
            sealed = bytes(txn.get(key, db=store.env.db("sealed")) or b"")
            txn.put(key, sealed[:-1] + bytes([sealed[-1] ^ 1]), db=store.env.db("sealed"))
        maker = FrameMaker(store.log, store.vault, store.sealer, lambda _number: "")
        with store.env.read() as txn:
            (row,) = rows_between(store.log, txn, seq, seq)
            for level, sound in ((Level.SEALED, "sealed"), (Level.CONTENT, "content")):
                text, particulars = maker.frame(txn, row, level).parts
                assert (text.state, particulars.state) == ("damaged", sound)
                assert text.content is msgspec.UNSET and text.ciphertext is msgspec.UNSET
    finally:
        store.close(clean=True)


# --- rows and outlines -----------------------------------------------------------------------------


@pytest.mark.parametrize("event_type", event_types())
def test_an_outline_says_what_the_record_says(event_type: type) -> None:
    golden_event = next(each for each in EVENTS if each["event"] == event_type.__name__)
    body = bytes.fromhex(golden_event["body"])
    record = decode_body(golden_event["seq"], body)
    outline = Row(record.seq, b"", bytes(HEAD_BYTES) + body).outline()
    assert (outline.seq, outline.at_ms, outline.tenant, outline.actor) == (
        record.seq, record.at_ms, record.tenant, record.actor,
    )  # fmt: skip
    assert TYPE_OF_TAG[outline.tag] is type(record.event)


def test_rows_are_complete_or_refused(tmp_path: Path) -> None:
    with open_journal(tmp_path) as log:
        append_memories(log, 20)
        with log.env.read() as txn:
            rows = list(rows_between(log, txn, 5, 9))
            assert [row.seq for row in rows] == [5, 6, 7, 8, 9]
            assert [row.prev for row in rows] == [log.chain_of(txn, seq) for seq in range(4, 9)]
            assert next(rows_between(log, txn, 1, 1)).prev == log.store_id
            assert list(rows_between(log, txn, 7, 6)) == []
            with pytest.raises(DamagedRecord):
                list(rows_between(log, txn, 18, 21))
        with log.env.write() as txn:
            txn.delete((7).to_bytes(8, "big"), db=log.env.db("records"))
        with log.env.read() as txn, pytest.raises(DamagedRecord) as caught:
            list(rows_between(log, txn, 5, 9))
        assert caught.value.seq == 7


def test_a_record_that_is_damaged_makes_no_frame(golden: Path) -> None:
    with open_to_read(golden) as (store, _), store.env.read() as txn:
        maker = FrameMaker(store.log, store.vault, store.sealer, lambda _number: "")
        (row,) = rows_between(store.log, txn, 9, 9)
        changed = row.value[:-1] + bytes([row.value[-1] ^ 1])
        with pytest.raises(DamagedRecord):
            maker.frame(txn, Row(row.seq, row.prev, changed), Level.SKELETON)


def test_a_line_reads_as_it_was_written(frames: list[Frame]) -> None:
    for frame in frames:
        assert encode_line(decode_frame(encode_frame(frame))) == encode_frame(frame)


def test_recovered_keeps_its_mark_as_a_word() -> None:
    assert read_event(Recovered(memory=(0, 5), mark=3, old_strength=0.0, new_strength=0.2))["mark"] == "forgotten"

"""A store made of an export: the same records, digests and texts; and of an export that does not hold, none."""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from journal import importing
from journal.creating import create_store
from journal.errors import CannotCreate, DamagedStore, NoctuaryFault, StoreLocked
from journal.events import AnyEvent, Held, Opened, SealedPart
from journal.exporting import ExportHead
from journal.frames import (
    Frame,
    FramePart,
    Level,
    bare_frame,
    content_digest,
    decode_frame,
    encode_frame,
    parts_of,
    verify_frame,
)
from journal.importing import PART_FIELDS, import_frames
from journal.log import MetaState, Source
from journal.record import Actor, Cause, Record, decode_body, encode_body, next_chain
from journal.space import NoRoom
from journal.store import Store, open_store
from journal.unsealing import unseal
from journal.verify import verify_in_child
from projections.store import ProjectionStore
from tests.journal.exported import exported, unpack_golden
from tests.model.opened import OpenedService

NOW_MS = 1_800_000_000_000


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_golden(tmp_path_factory.mktemp("importing") / "state")


@pytest.fixture(scope="module")
def lines(golden: Path) -> list[bytes]:
    return exported(golden)


def made(root: Path, lines: list[bytes]) -> Path:
    import_frames(root, io.BytesIO(b"".join(lines)))
    return root


def opened(root: Path) -> Store:
    return open_store(root, version="test", now_ms=NOW_MS)


def digests(root: Path) -> dict[str, str]:
    store = opened(root)
    projections = ProjectionStore.open(store.dir.projections_dir, store.boot_id)
    projections.catch_up(store.log)
    found = projections.digests()
    projections.close(True)
    store.close(True)
    return found


def records(store: Store, count: int) -> list[Record]:
    return [record for chunk in store.log.chunks(1, count) for record in chunk]


def without_parts(event: Any) -> Any:
    """An event, but for where its parts lie."""
    parts = {name: tuple((p.owner_seq, p.part, p.length) for p in getattr(event, name, ())) for name in PART_FIELDS}
    fields = {name: getattr(event, name) for name in event.__struct_fields__ if name not in PART_FIELDS}
    return type(event), fields, parts


# --- what is made --------------------------------------------------------------------------------


def test_an_import_has_the_same_digests(golden: Path, lines: list[bytes], tmp_path: Path) -> None:
    copy = shutil.copytree(golden, tmp_path / "copy")
    assert digests(made(tmp_path / "new", lines)) == digests(copy)


def test_an_import_has_the_same_records_but_for_where_parts_lie(
    golden: Path, lines: list[bytes], tmp_path: Path
) -> None:
    root = made(tmp_path / "new", lines)
    count = len(lines) - 1
    before = open_store(golden, version="", now_ms=0, readonly=True)
    after = opened(root)
    try:
        assert after.store_id != before.store_id and after.vault.hash_key == before.vault.hash_key
        for old, new in zip(records(before, count), records(after, count), strict=True):
            assert (old.seq, old.at_ms, old.tenant, old.actor, old.cause) == (
                new.seq, new.at_ms, new.tenant, new.actor, new.cause,
            )  # fmt: skip
            assert without_parts(old.event) == without_parts(new.event), old.seq
        assert after.log.head().seq == count + 1, "only its opening was added"
    finally:
        before.close(clean=False)
        after.close(clean=True)


def test_every_part_that_was_readable_is(golden: Path, lines: list[bytes], tmp_path: Path) -> None:
    after = opened(made(tmp_path / "new", lines))
    try:
        with after.env.read() as txn:
            for frame, record in zip(map(decode_frame, lines[1:]), records(after, len(lines) - 1), strict=True):
                for told, part in zip(frame.parts, parts_of(record.event), strict=True):
                    if told.state == "content":
                        assert content_digest(unseal(after.log, after.sealer, txn, part)) == told.digest
                    else:
                        assert (part.slot, part.digest) == (0, b"")
    finally:
        after.close(clean=True)


def test_an_import_is_sound_before_and_after_its_first_opening(lines: list[bytes], tmp_path: Path) -> None:
    root = made(tmp_path / "new", lines)
    assert verify_in_child(root).findings == ()
    assert not (root / "unfinished").exists() and not list(root.glob("*.new"))
    assert not (root / "purges").exists()
    store = opened(root)
    assert store.findings == [] and store.epoch == 1
    assert len((root / "purges").read_bytes().splitlines()) == 1, "what it purged is in its own list"
    store.close(clean=True)
    assert verify_in_child(root).findings == ()


def test_the_source_is_kept(golden: Path, lines: list[bytes], tmp_path: Path) -> None:
    head = msgspec.json.decode(lines[0])["head"]
    wanted = Source(bytes.fromhex(head["store"]), 1, head["seq"], bytes.fromhex(head["chain"]))
    store = opened(made(tmp_path / "new", lines))
    assert store.log.source == wanted
    store.close(clean=True)
    store = opened(tmp_path / "new")
    assert store.log.source == wanted
    store.close(clean=True)
    plain = open_store(golden, version="", now_ms=0, readonly=True)
    assert plain.log.source is None
    plain.close(clean=False)


def test_a_source_row_that_is_damaged_is_found(lines: list[bytes], tmp_path: Path) -> None:
    store = opened(made(tmp_path / "new", lines))
    with store.env.write() as txn:
        row = bytes(txn.get(b"source", db=store.env.db("meta")) or b"")
        txn.put(b"source", row[:-1] + bytes([row[-1] ^ 1]), db=store.env.db("meta"))
    store.close(clean=True)
    assert [finding.code for finding in verify_in_child(tmp_path / "new").findings] == ["journal_damaged"]
    with pytest.raises(DamagedStore, match="source"):
        opened(tmp_path / "new")


def test_an_import_of_an_import_is_the_same_again(lines: list[bytes], tmp_path: Path) -> None:
    first = made(tmp_path / "first", lines)
    again = exported(first)
    second = made(tmp_path / "second", again)
    assert digests(second) == digests(first)


def test_the_export_of_a_store_that_was_never_opened_has_only_its_first_line(tmp_path: Path) -> None:
    create_store(tmp_path / "state")
    lines = exported(tmp_path / "state")
    assert len(lines) == 1 and msgspec.json.decode(lines[0])["head"]["seq"] == 0
    store = opened(made(tmp_path / "new", lines))
    assert store.log.head().seq == 1
    store.close(clean=True)


def test_openings_of_later_epochs_are_no_finding_in_an_import(golden: Path, tmp_path: Path) -> None:
    """A store that was restored twice stands in epoch 3; what is made of it begins at 1."""
    root = shutil.copytree(golden, tmp_path / "state")
    store = opened(root)
    seq = store.log.head().seq + 1
    event = Opened(store.boot_id, "x", 1, 3, store.vault.nonces[0])
    state = store.log.state
    body = encode_body(Record(seq, 1, 0, Actor(0, 3, 5), Cause(seq, "open"), event))
    store.log.append([body], [], MetaState(state.vault_next, state.owner_seq, 3, seq))
    store.close(clean=True)
    lines = exported(root)
    assert msgspec.json.decode(lines[0])["epoch"] == 3
    new = made(tmp_path / "new", lines)
    assert verify_in_child(new).findings == ()
    store = opened(new)
    assert store.epoch == 1
    store.close(clean=True)
    assert verify_in_child(new).findings == ()


def test_small_batches_find_the_owner_of_a_shared_part(
    lines: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner of a part may lie in a batch before, or in the same one."""
    monkeypatch.setattr(importing, "BATCH_RECORDS", 1)
    one = digests(made(tmp_path / "one", lines))
    monkeypatch.setattr(importing, "BATCH_RECORDS", 1000)
    assert digests(made(tmp_path / "many", lines)) == one
    assert verify_in_child(tmp_path / "one").findings == ()


def test_sealed_parts_stand_in_no_other_fields_of_events() -> None:
    """What else named one would keep the slots of another store."""

    def names_parts(annotation: Any) -> bool:
        return annotation is SealedPart or any(map(names_parts, get_args(annotation)))

    for event_type in get_args(AnyEvent):
        for field in msgspec.structs.fields(event_type):
            assert names_parts(field.type) == (field.name in PART_FIELDS), f"{event_type.__name__}.{field.name}"


# --- what is refused -------------------------------------------------------------------------------


def swapped(lines: list[bytes]) -> list[bytes]:
    return [*lines[:20], lines[21], lines[20], *lines[22:]]


def changed(lines: list[bytes], change: Callable[[Frame], object], place: int = 9) -> list[bytes]:
    frame = decode_frame(lines[place])
    change(frame)
    return [*lines[:place], encode_frame(frame) + b"\n", *lines[place + 1 :]]


def with_head(lines: list[bytes], **changes: Any) -> list[bytes]:
    head = {**json.loads(lines[0]), **changes}
    return [json.dumps({name: value for name, value in head.items() if value is not None}).encode() + b"\n", *lines[1:]]


def other_content(frame: Frame) -> None:
    frame.parts[0].content = "y" + str(frame.parts[0].content)[1:]


def other_content_and_digest(frame: Frame) -> None:
    other_content(frame)
    frame.parts[0].digest = "00" * 16


def damaged_part(frame: Frame) -> None:
    part = frame.parts[0]
    frame.parts[0] = FramePart(part.part, "damaged", part.owner_seq, part.length)


DEEP = b"[" * 100_000 + b"]" * 100_000

BAD: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "out of order": swapped,
    "one missing": lambda lines: [*lines[:20], *lines[21:]],
    "one twice": lambda lines: [*lines[:20], lines[19], *lines[20:]],
    "all twice": lambda lines: lines + lines,
    "cut in a line": lambda lines: [*lines[:30], lines[30][:50]],
    "cut at a line's end": lambda lines: lines[:30],
    "the first line only": lambda lines: lines[:1],
    "without its first line": lambda lines: lines[1:],
    "empty": lambda lines: [],
    "not JSON": lambda lines: [b"what is this\n"],
    "another JSON": lambda lines: [b'{"a": 1}\n', *lines[1:]],
    "a frame that is no JSON": lambda lines: [*lines[:9], b"\x00\xff\n", *lines[10:]],
    "a frame nested too deeply": lambda lines: [*lines[:9], b'{"more":' + DEEP + b"}\n", *lines[10:]],
    "a reading nested too deeply": lambda lines: [*lines[:9], b'{"event":{"a":' + DEEP + b"}}\n", *lines[10:]],
    "a first line nested too deeply": lambda lines: [b'{"head":{"more":' + DEEP + b"}}\n", *lines[1:]],
    "a blank line": lambda lines: [*lines[:9], b"\n", *lines[9:]],
    "skeleton": lambda lines: with_head(lines, level="skeleton", hash_key=None),
    "sealed": lambda lines: with_head(lines, level="sealed", hash_key=None),
    "no key of hashes": lambda lines: with_head(lines, hash_key=None),
    "a short key of hashes": lambda lines: with_head(lines, hash_key="00"),
    "another key of hashes": lambda lines: with_head(lines, hash_key="5a" * 32),
    "an epoch that no store has": lambda lines: with_head(lines, epoch=1 << 70),
    "a number that no record has": lambda lines: with_head(
        lines, head={**json.loads(lines[0])["head"], "seq": 1 << 64}
    ),
    "a later form": lambda lines: with_head(lines, export=2),
    "another store in the first line": lambda lines: with_head(lines, store="00" * 16),
    "another epoch in the first line": lambda lines: with_head(lines, epoch=2),
    "a head of another store": lambda lines: with_head(
        lines, head={**json.loads(lines[0])["head"], "store": "00" * 16}
    ),
    "a head of another epoch": lambda lines: with_head(lines, head={**json.loads(lines[0])["head"], "epoch": 2}),
    "a byte of a body": lambda lines: changed(lines, lambda f: setattr(f, "body", "A" + f.body[1:])),
    "a byte of a chain": lambda lines: changed(lines, lambda f: setattr(f, "chain", "0f" + f.chain[2:])),
    "a byte of the last chain": lambda lines: changed(lines, lambda f: setattr(f, "chain", "0f" + f.chain[2:]), -1),
    "a byte of a content": lambda lines: changed(lines, other_content),
    "a byte of a content and its digest": lambda lines: changed(lines, other_content_and_digest),
    "a reading": lambda lines: changed(lines, lambda f: f.event.update(slot=99)),
    "a tenant": lambda lines: changed(lines, lambda f: setattr(f, "tenant", "other")),
    "a part left out": lambda lines: changed(lines, lambda f: f.parts.clear()),
    "a damaged part": lambda lines: changed(lines, damaged_part),
    "one line without end": lambda lines: [b"".join(lines).replace(b"\n", b" ")],
}


@pytest.mark.parametrize("harm", BAD)
def test_an_export_that_does_not_hold_makes_no_store(lines: list[bytes], tmp_path: Path, harm: str) -> None:
    with pytest.raises(DamagedStore) as caught:
        made(tmp_path / "new", BAD[harm](lines))
    assert caught.value.exit_code == 65
    assert not (tmp_path / "new" / "FORMAT").exists()
    with pytest.raises(NoctuaryFault):
        opened(tmp_path / "new")
    made(tmp_path / "new", lines)  # what is left doesn't stand in the way of a sound one
    opened(tmp_path / "new").close(clean=True)


def test_frames_of_another_store_in_between_are_refused(lines: list[bytes], golden: Path, tmp_path: Path) -> None:
    """Also of one whose records have the same numbers and texts."""
    others = exported(made(tmp_path / "other", lines))
    mixed = [*lines[:20], others[20], *lines[21:]]
    with pytest.raises(DamagedStore, match="of another store"):
        made(tmp_path / "new", mixed)
    renamed = decode_frame(others[20])
    renamed.store = decode_frame(lines[20]).store
    with pytest.raises(DamagedStore, match="chain"):
        made(tmp_path / "new", [*lines[:20], encode_frame(renamed) + b"\n", *lines[21:]])


def test_a_number_that_is_passed_over_is_found_although_the_chain_leads_on(lines: list[bytes], tmp_path: Path) -> None:
    """Chains have no secret: whoever writes a file can make them fit."""
    last = decode_frame(lines[-1])
    record = verify_frame(last)
    body = encode_body(Record(last.seq + 1, record.at_ms, record.tenant, record.actor, record.cause, record.event))
    prev = bytes.fromhex(last.prev)
    chain = next_chain(prev, body)
    forged = bare_frame(last.store, 1, last.tenant, decode_body(last.seq + 1, body), body, prev, chain)
    head = {**json.loads(lines[0])["head"], "chain": chain.hex()}
    with pytest.raises(DamagedStore, match=f"stands where record {last.seq} belongs"):
        made(tmp_path / "new", [*with_head(lines, head=head)[:-1], encode_frame(forged) + b"\n"])


@pytest.mark.parametrize("level", [Level.SKELETON, Level.SEALED])
def test_real_exports_of_the_other_levels_are_refused(golden: Path, tmp_path: Path, level: Level) -> None:
    with pytest.raises(DamagedStore, match=f"its level is {level}"):
        made(tmp_path / "new", exported(golden, level))


def test_only_an_empty_place_is_filled(golden: Path, lines: list[bytes], tmp_path: Path) -> None:
    root = shutil.copytree(golden, tmp_path / "state")
    opened(root).close(clean=True)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    with pytest.raises(CannotCreate, match="not empty"):
        made(root, lines)
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    (other / "letter").write_text("mine")
    with pytest.raises(CannotCreate, match="letter"):
        made(other, lines)
    store = opened(root)
    with pytest.raises(StoreLocked):
        made(root, lines)
    store.close(clean=True)


def test_the_largest_text_is_imported(golden: Path, tmp_path: Path) -> None:
    """Control characters take six bytes each in JSON."""
    root = shutil.copytree(golden, tmp_path / "state")
    service = OpenedService(root, lambda: NOW_MS)
    text, topic = "\x01" * ((1 << 20) - 1) + "x", "\x01" * 255 + "t"
    params = {
        "kind": "raw", "origin": "observed", "subtype": "document", "text": text, "topic": topic,
        "vector": {"model": "m", "values": [0.5] * 4096},
    }  # fmt: skip
    made_id = service.write("remember", params)["id"]
    service.close(True)
    told = exported(root)
    assert max(map(len, told)) > 6 << 20
    after = OpenedService(made(tmp_path / "new", told), lambda: NOW_MS)
    (memory,) = after.read("get", {"ids": [made_id]})["memories"]
    assert memory["text"] == text and memory["topic"] == topic
    after.close(True)


def test_a_line_that_no_socket_would_carry_is_imported(golden: Path, tmp_path: Path) -> None:
    root = shutil.copytree(golden, tmp_path / "state")
    store = opened(root)
    seq = store.log.head().seq + 1
    held = Held(memories=tuple((0, tsid) for tsid in range(1 << 60, (1 << 60) + 300_000)), on=True)
    body = encode_body(Record(seq, NOW_MS, 1, Actor(0, 2, 0), Cause(seq, "hold"), held))
    store.log.append([body], [], store.log.state)
    store.close(clean=True)
    told = exported(root)
    assert len(told[seq]) > 8 << 20
    after = opened(made(tmp_path / "new", told))
    assert records(after, seq)[-1].event == held
    after.close(clean=True)


# --- a full disk ---------------------------------------------------------------------------------------


def test_a_full_disk_is_said_to_be_and_the_next_try_succeeds(
    lines: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "BATCH_RECORDS", 10)
    free = iter([1 << 40] * 3)
    monkeypatch.setattr(importing, "free_bytes", lambda _root: next(free, 0))
    with pytest.raises(NoRoom, match="the disk is full: 0 bytes are free") as caught:
        made(tmp_path / "new", lines)
    assert caught.value.exit_code == 74
    assert sorted(os.listdir(tmp_path / "new")) == ["journal.new", "lock", "unfinished", "vault.new"]
    with pytest.raises(CannotCreate, match="interrupted"):
        opened(tmp_path / "new")
    with pytest.raises(CannotCreate, match="interrupted"):
        create_store(tmp_path / "new")
    monkeypatch.undo()
    made(tmp_path / "new", lines)
    opened(tmp_path / "new").close(clean=True)


def test_the_first_line_has_no_unknown_fields() -> None:
    """What a later form adds is nothing that this one may pass over."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"export": 1, "more": 2}', type=ExportHead)

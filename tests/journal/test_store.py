"""A store on disk: made, opened, purged, and refused when its files are not of one time."""

from __future__ import annotations

import resource
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from types import FrameType

import msgspec
import pytest

from journal.creating import create_store
from journal.errors import CannotCreate, DamagedStore, StoreAbsent, StoreIO, StoreLocked
from journal.events import MemoryCreated, Opened, Purged, PurgeTarget, SealedPart
from journal.keycheck import FEW_SLOTS, keyed_still
from journal.log import sealed_key
from journal.purges import read_purges
from journal.record import Actor, Cause, Record, encode_body
from journal.store import Store, open_store, purge_parts
from journal.vault import SLOT_BYTES, SLOTS_OFFSET, SlotState, SlotUnreadable


def opened(root: Path, **options: bool) -> Store:
    return open_store(root, version="0.1.0", now_ms=1_800_000_000_000, **options)  # type: ignore[arg-type]


def made(tmp_path: Path) -> Path:
    root = tmp_path / "state"
    create_store(root)
    return root


def body(seq: int, event: MemoryCreated | Purged) -> bytes:
    return encode_body(Record(seq, 1_800_000_000_000, 1, Actor(1000, 0, 0), Cause(seq, "remember"), event))


def remember(store: Store, text: bytes) -> SealedPart:
    seq = store.log.head().seq + 1
    slot, length, digest, sealed = store.sealer.seal(1, text)
    part = SealedPart(seq, 1, slot, length, digest)
    event = MemoryCreated(id=1000 + seq, slot=seq, kind=0, subtype=1, origin=0, partition=1, parts=(part,))
    state = msgspec.structs.replace(store.log.state, vault_next=store.vault.next_slot, owner_seq=seq)
    store.log.append([body(seq, event)], [(sealed_key(seq, 1), sealed)], state)
    return part


def read(store: Store, part: SealedPart) -> bytes:
    with store.env.read() as txn:
        sealed = store.log.sealed(txn, part.owner_seq, part.part)
    assert sealed is not None
    assert blake2b(sealed, digest_size=16).digest() == part.digest
    return store.sealer.open(part.slot, part.part, sealed)


def purged(part: SealedPart) -> Purged:
    return Purged(targets=(PurgeTarget(0, 1000 + part.owner_seq),), parts=(part,))


def test_what_is_remembered_is_there_after_reopening(tmp_path: Path) -> None:
    root = made(tmp_path)
    store = opened(root)
    part = remember(store, b"a text")
    store.close(clean=True)
    again = opened(root)
    assert again.clean
    assert read(again, part) == b"a text"
    assert isinstance(again._event(again.log.head().seq), Opened)
    again.close(clean=False)


def test_a_store_is_made_once_and_opened_once(tmp_path: Path) -> None:
    root = made(tmp_path)
    with pytest.raises(CannotCreate):
        create_store(root)
    store = opened(root)
    with pytest.raises(StoreLocked):
        opened(root)
    store.close(clean=True)


def test_an_absent_store_and_one_without_format_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(StoreAbsent):
        opened(tmp_path / "nowhere")
    root = made(tmp_path)
    (root / "FORMAT").unlink()
    with pytest.raises(DamagedStore, match="FORMAT"):
        opened(root)
    with pytest.raises(DamagedStore, match="FORMAT"):
        create_store(root)
    assert (root / "journal" / "data.mdb").exists()


def test_an_interrupted_creation_is_finished(tmp_path: Path) -> None:
    root = made(tmp_path)
    (root / "FORMAT").rename(root / "FORMAT.new")
    (root / "journal").rename(root / "journal.new")
    create_store(root)
    opened(root).close(clean=True)


def test_a_journal_that_went_back_is_refused(tmp_path: Path) -> None:
    root = made(tmp_path)
    store = opened(root)
    remember(store, b"one")
    store.close(clean=True)
    shutil.copytree(root / "journal", tmp_path / "old")
    store = opened(root)
    remember(store, b"two")
    store.close(clean=True)
    shutil.rmtree(root / "journal")
    shutil.copytree(tmp_path / "old", root / "journal")
    with pytest.raises(DamagedStore, match="seq 4, the journal at epoch 1 seq 2"):
        opened(root)


def test_the_vault_of_another_time_is_refused(tmp_path: Path) -> None:
    root = made(tmp_path)
    opened(root).close(clean=True)
    shutil.copy2(root / "vault", tmp_path / "vault")
    for _ in range(2):
        opened(root).close(clean=True)
    shutil.copy2(tmp_path / "vault", root / "vault")
    with pytest.raises(DamagedStore, match="another time"):
        opened(root)


def test_openings_that_end_before_their_record_lose_no_vault(tmp_path: Path) -> None:
    root = made(tmp_path)
    store = opened(root)
    named = store.vault.nonces[0]
    for _ in range(3):
        store.vault.renew_nonce(named)
    store.close(clean=True)
    opened(root).close(clean=True)


def test_a_refused_opening_writes_nothing(tmp_path: Path) -> None:
    root = made(tmp_path)
    opened(root).close(clean=True)
    before = {path.name: path.read_bytes() for path in (root / "vault", root / "head")}

    def refuse(_log: object) -> bool:
        raise DamagedStore("projections", "ahead", "x")

    with pytest.raises(DamagedStore, match="projections"):
        open_store(root, version="0.1.0", now_ms=1, check_projections=refuse)
    assert before == {path.name: path.read_bytes() for path in (root / "vault", root / "head")}
    store = opened(root, readonly=True)
    assert store.log.head().seq == 1
    store.close(clean=True)


def test_purge_destroys_the_key_and_leaves_a_line(tmp_path: Path) -> None:
    root = made(tmp_path)
    store = opened(root)
    part, kept = remember(store, b"secret"), remember(store, b"kept")
    seq = store.log.head().seq + 1
    purge_parts(store, [body(seq, purged(part))], [], store.log.state)
    with pytest.raises(SlotUnreadable):
        read(store, part)
    assert read(store, kept) == b"kept"
    assert [line.seq for line in read_purges(store.dir.purges_file).directives] == [seq]
    store.close(clean=True)
    again = opened(root)
    assert again.findings == []
    again.close(clean=True)


def test_a_purge_that_was_cut_short_is_finished_at_the_next_opening(tmp_path: Path) -> None:
    root = made(tmp_path)
    store = opened(root)
    part = remember(store, b"secret")
    seq = store.log.head().seq + 1
    store.log.append([body(seq, purged(part))], [], store.log.state, destroying_seqs=(seq,))
    store.close(clean=False)
    again = opened(root)
    assert again.vault.state(part.slot) is SlotState.SHREDDED
    assert [line.seq for line in read_purges(again.dir.purges_file).directives] == [seq]
    again.close(clean=True)


def test_a_slot_that_is_shredded_without_a_purge_is_a_finding(tmp_path: Path) -> None:
    root = made(tmp_path)
    store = opened(root)
    part = remember(store, b"secret")
    store.vault.shred([part.slot])
    store.close(clean=True)
    again = opened(root)
    assert [finding.code for finding in again.findings] == ["shredded_unnamed"]
    again.close(clean=True)


def test_a_purge_whose_line_cannot_be_written_destroys_nothing_yet(tmp_path: Path) -> None:
    """Records, lines, slots, head: a key is never gone before the line says that it is to be."""
    root = made(tmp_path)
    store = opened(root)
    part = remember(store, b"secret")
    seq = store.log.head().seq + 1
    store.log.append([body(seq, purged(part))], [], store.log.state, destroying_seqs=(seq,))
    store.close(clean=False)
    (root / "purges").touch(0o600)
    noted = (root / "head").read_bytes() if (root / "head").exists() else b""
    with no_room_for(root / "purges", b"x" * (1 << 21)), pytest.raises(StoreIO, match="purges"):
        opened(root)
    again = opened(root, readonly=True)
    assert again.vault.state(part.slot) is SlotState.KEYED
    again.close(clean=False)
    assert noted == ((root / "head").read_bytes() if (root / "head").exists() else b"")
    (root / "purges").write_bytes(b"")
    finished = opened(root)
    assert finished.vault.state(part.slot) is SlotState.SHREDDED
    assert [line.seq for line in read_purges(root / "purges").directives] == [seq]
    finished.close(clean=True)


@contextmanager
def no_room_for(path: Path, filling: bytes) -> Iterator[None]:
    """Let `path` be as long as a file of this process may get. Nothing else of a small store grows so long."""
    path.write_bytes(filling)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(filling), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


def test_missing_lines_name_the_epoch_that_each_purge_is_of(tmp_path: Path) -> None:
    root = made(tmp_path)
    store = opened(root)
    parts = [remember(store, b"%d" % number) for number in range(3)]
    expected: list[tuple[int, int]] = []
    for epoch, part in enumerate(parts, start=1):
        if epoch > 1:
            raise_epoch(store, epoch)
        seq = store.log.head().seq + 1
        store.log.append([body(seq, purged(part))], [], store.log.state, destroying_seqs=(seq,))
        expected.append((seq, epoch))
    store.close(clean=True)
    again = opened(root)
    assert [(line.seq, line.epoch) for line in read_purges(root / "purges").directives] == expected
    again.close(clean=True)
    opened(root).close(clean=True)
    assert len(read_purges(root / "purges").directives) == 3


def raise_epoch(store: Store, epoch: int) -> None:
    seq = store.log.head().seq + 1
    event = Opened(store.boot_id, "0.1.0", 1, epoch, store.vault.nonces[0])
    state = msgspec.structs.replace(store.log.state, epoch=epoch, opened_seq=seq)
    record = Record(seq, 1_800_000_000_000, 1, Actor(1000, 0, 0), Cause(seq, "open"), event)
    store.log.append([encode_body(record)], [], state)


@pytest.mark.parametrize("count", (10, FEW_SLOTS + 200))
def test_only_keys_that_are_there_still_are_destroyed_again(tmp_path: Path, count: int) -> None:
    """Among few and among many, those are found whose slot was not, or only half, overwritten."""
    root = made(tmp_path)
    vault = opened(root).vault
    vault.ensure(count + 10)
    vault.shred(range(1, count + 1))
    at = SLOTS_OFFSET + 7 * SLOT_BYTES
    with (root / "vault").open("r+b") as file:
        file.seek(at + 8)
        file.write(b"half of a key")  # the state says shredded, its checksum does not hold
    assert keyed_still(vault, range(1, count + 1)) == [7]
    assert keyed_still(vault, [*range(1, count + 1), count + 5]) == [7, count + 5]
    assert keyed_still(vault, []) == []


def test_opening_reads_each_record_that_destroys_keys_once(tmp_path: Path) -> None:
    """Beside the newest records, which are all checked, each purge is decoded one time more, lines or no lines."""
    root = made(tmp_path)
    store = opened(root)
    parts = [remember(store, b"%d" % number) for number in range(100)]
    seq = store.log.head().seq + 1
    purge_parts(store, [body(seq + at, purged(part)) for at, part in enumerate(parts)], [], store.log.state)
    records = store.log.head().seq
    store.close(clean=True)
    with_lines = decoded_in(lambda: opened(root).close(clean=True))
    (root / "purges").unlink()
    without_lines = decoded_in(lambda: opened(root).close(clean=True))
    assert records + len(parts) < with_lines <= records + len(parts) + 8
    assert without_lines <= with_lines + 2
    assert len(read_purges(root / "purges").directives) == len(parts)


def decoded_in(do: Callable[[], object]) -> int:
    """How many records are decoded while it runs."""
    count = 0

    def on_event(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call" and frame.f_code.co_name == "decode_body"

    sys.setprofile(on_event)
    try:
        do()
    finally:
        sys.setprofile(None)
    return count

"""Making a store from an export: the same records under the same numbers, sealed anew.

New are the store id, the vault, bodies and chain; the key for keyed hashes is the old one, so that every projection
has the digest it had. Kept of a record: seq, time, tenant, actor, cause, and its event but for the sealed parts in it.
A part whose key is destroyed stands with slot 0, its length, and no digest; each other one gets the next slot,
wherever an event names it. Openings stay as records, but the store's epoch is 1 and its newest opening is none until
it is first opened: then it also gets its purges file, and what a PURGE names is shredded.

Invariant: a store is only made of an export that holds as a whole: the first line, every frame in itself, all of them
linked from the store id to the head that the first line names, each part with its content or purged.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec
from msgspec.structs import replace

from journal.codes import Part
from journal.creating import fill_store
from journal.destroying import is_destroying
from journal.environment import Environment
from journal.errors import EXPORT_AGAIN, DamagedStore, ForeignStore, StoreIO
from journal.events import SealedPart, TenantBegan
from journal.exporting import EXPORT_FORM, ExportHead, Progress, hash_key_check
from journal.frames import Frame, FramePart, Level, bad_frame, decode_frame, parts_of, plaintext_of, verify_frame
from journal.layout import STORE_ID_BYTES, StateDir, new_path, sync_directory
from journal.log import DATABASES, Log, MetaState, Source, sealed_key
from journal.masterkey import MasterKey
from journal.record import CHAIN_BYTES, Record, encode_body
from journal.sealing import Sealer
from journal.space import MARGIN_BYTES, NoRoom, free_bytes
from journal.vault import KEY_BYTES, Vault

BATCH_RECORDS = 1000
BATCH_BYTES = 8 << 20
LINE_BYTES = 1 << 28
"""Of one line: far above what any record makes, so that a file without line ends is not read into memory."""
PART_FIELDS = ("parts", "destroyed")
"""The fields of events in which sealed parts stand."""
_DECODE_HEAD = msgspec.json.Decoder(ExportHead).decode


class Imported(NamedTuple):
    """What was made, of how many records, and what of."""

    store_id: bytes
    records: int
    source: Source


def import_frames(
    root: Path, file: BinaryIO, progress: Progress | None = None, master: MasterKey | None = None
) -> Imported:
    """Make a store in `root` (absent or empty) of an export at level content, its keys wrapped with `master` if given.

    Raises DamagedStore for an export that does not hold, CannotCreate, StoreLocked, StoreIO (NoRoom for a full
    disk). What was written until then stands under `.new` names, and the next try removes it.
    """
    made: list[Imported] = []

    def fill(state_dir: StateDir) -> bytes:
        made.append(_fill(state_dir, file, progress, master))
        return made[0].store_id

    fill_store(root, fill)
    return made[0]


def _fill(state_dir: StateDir, file: BinaryIO, progress: Progress | None, master: MasterKey | None) -> Imported:
    lines = _lines(file)
    source, hash_key = read_head(next(lines, b""))
    store_id = os.urandom(STORE_ID_BYTES)
    vault = Vault.create(new_path(state_dir.vault_file), store_id, hash_key, master)
    try:
        vault.start_at(1)
        env = Environment.open(new_path(state_dir.journal_dir), DATABASES, durable=True)
        try:
            log = Log.create(env, store_id, source)
            _append_all(state_dir, log, vault, verified(source, lines), progress)
            env.sync()
        finally:
            env.close()
    finally:
        vault.close()
    sync_directory(new_path(state_dir.journal_dir))
    return Imported(store_id, source.seq, source)


# --- reading ---------------------------------------------------------------------------------------


def _lines(file: BinaryIO) -> Iterator[bytes]:
    while line := file.readline(LINE_BYTES):
        if len(line) == LINE_BYTES:
            raise _unusable(f"a line is longer than {LINE_BYTES} bytes")
        yield line


def read_head(line: bytes) -> tuple[Source, bytes]:
    """`(what is imported, the key for keyed hashes)` of a first line. Raises DamagedStore."""
    if not line:
        raise _unusable("it is empty")
    try:
        head = _DECODE_HEAD(line)
        source = Source(bytes.fromhex(head.store), head.epoch, head.head.seq, bytes.fromhex(head.head.chain))
        hash_key = bytes.fromhex(head.hash_key) if isinstance(head.hash_key, str) else b""
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors; nested too deeply
        raise _unusable("its first line is not that of an export") from error
    if head.export != EXPORT_FORM:
        raise ForeignStore("export", f"its form is {head.export}", "Use the version that wrote it.")
    if isinstance(head.tenant, str):
        raise _unusable(f"it is of one tenant, {head.tenant}: a store is made of a whole one only")
    if head.level != Level.CONTENT:
        raise _unusable(f"its level is {head.level}: a store is made of level content only")
    chain_bytes = CHAIN_BYTES if source.seq else STORE_ID_BYTES
    if (len(source.store), len(source.chain), len(hash_key)) != (STORE_ID_BYTES, chain_bytes, KEY_BYTES):
        raise _unusable("its first line lacks the store, the head or the key of hashes")
    if (head.head.store, head.head.epoch) != (head.store, head.epoch):
        raise _unusable("its first line names two stores")
    if head.hash_key_check != hash_key_check(head.store, hash_key.hex()):
        raise _unusable("its key of hashes is not that of the store")
    return source, hash_key


def verified(source: Source, lines: Iterable[bytes]) -> Iterator[tuple[Record, Frame]]:
    """The records of the frames, each verified and linked to the one before. Raises DamagedStore."""
    store, chain, expected = source.store.hex(), source.store, 1
    tenants: dict[int, str] = {}
    for line in lines:
        frame = _frame(line, expected)
        if frame.store != store or frame.epoch != source.epoch:
            raise bad_frame(frame.seq, "it is of another store, or another epoch, than the first line names")
        if frame.seq != expected:
            raise bad_frame(frame.seq, f"it stands where record {expected} belongs")
        record = verify_frame(frame)
        if frame.prev != chain.hex():
            raise bad_frame(frame.seq, "its chain does not follow from the frame before it")
        if isinstance(record.event, TenantBegan):
            tenants[record.event.number] = record.event.name
        if frame.tenant != tenants.get(record.tenant):
            raise bad_frame(frame.seq, "its tenant is not the one that its body names")
        chain = bytes.fromhex(frame.chain)
        expected += 1
        yield record, frame
    if (expected - 1, chain) != (source.seq, source.chain):
        raise _unusable(f"it ends at record {expected - 1}; its first line names another head, record {source.seq}")


def _frame(line: bytes, expected: int) -> Frame:
    try:
        return decode_frame(line)
    except (ValueError, RecursionError) as error:  # the second: nested too deeply
        raise bad_frame(expected, f"line {expected + 1} is not a frame, or was cut") from error


def _unusable(found: str) -> DamagedStore:
    return DamagedStore("export", found, EXPORT_AGAIN)


# --- writing ---------------------------------------------------------------------------------------


class _Batch:
    """Records that are committed together. `sealed` are (key, nonce and ciphertext)."""

    def __init__(self, log: Log, sealer: Sealer) -> None:
        self._log = log
        self._sealer = sealer
        self.bodies: list[bytes] = []
        self.sealed: list[tuple[bytes, bytes]] = []
        self.destroying: list[int] = []
        self.owner_seq = 0
        self.size_bytes = 0
        self._parts: dict[tuple[int, int], SealedPart] = {}

    def add(self, record: Record, frame: Frame) -> None:
        """Seal the parts of a record anew, and keep what is to be written. Raises DamagedStore."""
        told = {part.part: part for part in frame.parts if part.owner_seq == record.seq}
        own = {
            part.part: self._seal(record, frame, part, told.get(Part(part.part).wire))
            for part in parts_of(record.event)
            if part.owner_seq == record.seq
        }
        event: Any = record.event
        changed: dict[str, tuple[SealedPart, ...]] = {
            name: tuple(self._renewed(record.seq, part, own) for part in getattr(event, name))
            for name in PART_FIELDS
            if getattr(event, name, ())
        }
        if changed:
            event = replace(event, **changed)
        body = encode_body(Record(record.seq, record.at_ms, record.tenant, record.actor, record.cause, event))
        self.bodies.append(body)
        self.size_bytes += len(body)
        if is_destroying(event):
            self.destroying.append(record.seq)

    def _seal(self, record: Record, frame: Frame, part: SealedPart, told: FramePart | None) -> SealedPart:
        """One of the record's own parts, sealed under the next slot. Raises DamagedStore."""
        state = "purged" if not part.slot else told.state if told is not None else "missing"
        if told is not None and state == "content":
            slot, length, digest, sealed = self._sealer.seal(part.part, plaintext_of(frame, told))
            self.sealed.append((sealed_key(record.seq, part.part), sealed))
            self.size_bytes += len(sealed)
            self.owner_seq = record.seq
            renewed = SealedPart(record.seq, part.part, slot, length, digest)
        elif state == "purged":
            renewed = SealedPart(record.seq, part.part, 0, part.length, b"")
        else:
            raise bad_frame(record.seq, f"its part {part.part} is {state}: it can't be sealed anew")
        self._parts[record.seq, part.part] = renewed
        return renewed

    def _renewed(self, seq: int, part: SealedPart, own: dict[int, SealedPart]) -> SealedPart:
        """What an event is to name in the place of `part`. Raises DamagedStore when no record before owns it."""
        if part.owner_seq == seq and part.part in own:
            return own[part.part]
        found = self._parts.get((part.owner_seq, part.part))
        if found is None and 0 < part.owner_seq < seq:
            found = self._committed(part)
        if found is None or found.length != part.length:
            raise bad_frame(seq, f"it names part {part.part} of record {part.owner_seq}, which has none such")
        return found

    def _committed(self, part: SealedPart) -> SealedPart | None:
        with self._log.env.read() as txn:
            owner = self._log.get(txn, part.owner_seq)
        parts = () if owner is None else parts_of(owner.event)
        return next((p for p in parts if p.part == part.part and p.owner_seq == part.owner_seq), None)

    def is_full(self) -> bool:
        return len(self.bodies) >= BATCH_RECORDS or self.size_bytes >= BATCH_BYTES


def _append_all(
    state_dir: StateDir, log: Log, vault: Vault, found: Iterator[tuple[Record, Frame]], progress: Progress | None
) -> None:
    sealer = Sealer(vault, log.store_id)
    batch = _Batch(log, sealer)
    for record, frame in found:
        batch.add(record, frame)
        if batch.is_full():
            _commit(state_dir, log, vault, batch, progress)
            batch = _Batch(log, sealer)
    if batch.bodies:
        _commit(state_dir, log, vault, batch, progress)


def _commit(state_dir: StateDir, log: Log, vault: Vault, batch: _Batch, progress: Progress | None) -> None:
    """One transaction. Raises NoRoom for a full disk, which LMDB reports as just any failure; StoreIO."""
    needed = 2 * batch.size_bytes + MARGIN_BYTES
    if free_bytes(state_dir.root) < needed:
        raise _no_room(state_dir.root, needed)
    state = MetaState(vault.next_slot, batch.owner_seq or log.state.owner_seq, 1, 0)
    log.env.grow_if_needed()
    try:
        log.append(batch.bodies, batch.sealed, state, destroying_seqs=batch.destroying)
    except StoreIO as error:
        if free_bytes(state_dir.root) < needed:
            raise _no_room(state_dir.root, needed) from error
        raise
    if progress is not None:
        progress(log.head().seq, 0 if log.source is None else log.source.seq)


def _no_room(root: Path, needed: int) -> NoRoom:
    return NoRoom(
        f"{root}: the disk is full: {free_bytes(root)} bytes are free, {needed} are needed to go on; "
        "make room and import again"
    )

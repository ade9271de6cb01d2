"""A backup of a store that serves: a snapshot of the journal, then the vault with every purge until then.

Method. Journal: LMDB copies one snapshot, without its free pages; a child walks the copy, and where it stands is read
from it. Vault: the header and the slots in use are copied in pieces while writes go on; then the writer, between two
batches, says where the journal stands (record M); what was handed out meanwhile is copied too, and every slot that a
record up to M destroys is shredded in the copy. So the vault opens any journal of the same line up to M, and what was
purged until M it never opens. Keys ahead of use are not copied. Last the files take their names, then the manifest;
what it no longer names is removed, a vault after it was overwritten.

Invariants: until the new manifest is in its place, the old one and all that it names are untouched. A copy that is
damaged takes nobody's place. `purges` is not in a backup: a restore is to see every purge, not those up to the backup.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from journal.copying import CHUNK_BYTES, digest_of, make_lock_file, making
from journal.destination import (
    OccupiedDirectory,
    begin_work,
    close_to_others,
    fit_directory,
    locked,
    make_directory,
    remove_unlisted,
    there_before,
    unlisted,
)
from journal.destroying import destroyed_slots
from journal.environment import Environment
from journal.errors import DamagedStore, NoctuaryFault
from journal.keycheck import keyed_still
from journal.layout import DATA_FILE, FORMAT_VERSION, sync_directory, write_all
from journal.log import DATABASES, Log, MetaState
from journal.manifest import MANIFEST_VERSION, FileEntry, Manifest, PartEntry, opens, write_manifest
from journal.record import Head
from journal.space import MARGIN_BYTES, RESERVE_BYTES, WRITABLE_FROM_BYTES, NoRoom, Space, free_bytes
from journal.store import Store
from journal.vault import SLOT_BYTES, SLOTS_OFFSET, SlotState, Vault
from journal.vault_header import WRAPPED
from journal.verify import ShouldStop, verify_in_child

MAP_BYTES = 1 << 26
_ANEW = "Back up into another directory; then see what `noctuary audit` finds."

Step = Callable[[str, int, int], None]
"""Called with (phase, done, of); what it raises ends the backup."""


class Place(NamedTuple):
    """Where a journal stands, between two batches."""

    head: Head
    state: MetaState


class Source(NamedTuple):
    """What is backed up, and who is asked meanwhile. `at` says the time; `place` has the writer say where it stands."""

    store: Store
    version: str
    at: Callable[[], str]
    place: Callable[[], Place]
    step: Step
    should_stop: ShouldStop


class NoRoomThere(NoRoom):
    """The disk of a backup has not enough room for it. Nothing was written."""

    def __init__(self, directory: Path, space: Space) -> None:
        self.space = space
        super().__init__(f"{directory}: {space.free_bytes} bytes are free there, {space.needed_bytes} are needed")


class Made(NamedTuple):
    """The file of a part, complete under its first name, and what the manifest is to say of it."""

    path: Path
    name: str
    entry: PartEntry


class Written(NamedTuple):
    """What is there now. `leftover`: names that the manifest doesn't name, and that could not be removed; a vault of
    before still holds keys. The next backup there tries again. `why`: what kept them, None when nothing is left.
    """

    manifest: Manifest
    leftover: tuple[str, ...]
    why: OSError | NoctuaryFault | None


def back_up(source: Source, path: str, parts: Iterable[str]) -> Written:
    """Write `parts` of a backup into the directory `path`; what is there then.

    Raises UnfitDirectory, OccupiedDirectory, NoRoomThere, DamagedStore (the copy is damaged), WalkStopped, StoreIO,
    OSError, and what `step` and `place` raise. Whatever it raises, all files of an earlier backup are there as they
    were.
    """
    wanted = frozenset(parts)
    store = source.store
    directory = fit_directory(path, store.dir.root)
    if not directory.exists():
        _check_room(store, directory.parent, wanted)
    made = make_directory(directory)
    try:
        with locked(directory):
            before = there_before(directory, store.store_id)
            _check_kept(store, directory, before, wanted)
            close_to_others(directory)
            remove_unlisted(directory, before)
            _check_room(store, directory, wanted)
            try:
                manifest = _write(source, directory, before, wanted)
            except BaseException:
                _clean(directory, store.store_id, before)
                raise
            return _without_the_rest(directory, before, manifest)
    except BaseException:
        if made:
            with suppress(OSError):
                directory.rmdir()
        raise


def _without_the_rest(directory: Path, before: Manifest | None, manifest: Manifest) -> Written:
    """The backup is made: what can't be removed is told, not raised."""
    try:
        remove_unlisted(directory, manifest)
    except (OSError, NoctuaryFault) as error:
        try:
            left = unlisted(directory, manifest)
        except OSError:
            left = frozenset() if before is None else before.names() - manifest.names()
        return Written(manifest, tuple(sorted(left)), error)
    return Written(manifest, (), None)


def _clean(directory: Path, store_id: bytes, before: Manifest | None) -> None:
    """Remove what a backup that failed wrote; what can't be, the next one there removes.

    A manifest that took its name without reaching the disk is not known to stay: then both backups are left.
    """
    with suppress(OSError, NoctuaryFault):
        if there_before(directory, store_id) == before:
            remove_unlisted(directory, before)


def _check_room(store: Store, directory: Path, wanted: frozenset[str]) -> None:
    """Raises NoRoomThere. A backup on the store's own disk leaves it writable."""
    needed_bytes = MARGIN_BYTES
    if "journal" in wanted:
        needed_bytes += store.env.used_bytes()
    if "vault" in wanted:
        needed_bytes += _vault_bytes(store.log.state.vault_next)
    if os.stat(directory).st_dev == os.stat(store.dir.root).st_dev:
        needed_bytes += WRITABLE_FROM_BYTES + RESERVE_BYTES
    space = Space(free_bytes(directory), needed_bytes)
    if not space.enough:
        raise NoRoomThere(directory, space)


def _check_kept(store: Store, directory: Path, before: Manifest | None, wanted: frozenset[str]) -> None:
    """A part that stays must be there, of the other's line (a restored store numbers anew), and not older than what
    it is to open. Raises OccupiedDirectory.
    """
    kept = [] if before is None else [(name, before.part(name)) for name in ("journal", "vault") if name not in wanted]
    for name, part in kept:
        if part is None:
            continue
        path = directory / part.file.name
        if not path.is_file() or path.stat().st_size != part.file.bytes:
            raise OccupiedDirectory(f"its {name} part is not whole: back up both parts, or elsewhere")
        with store.env.read() as txn:
            chain = store.log.chain_of(txn, part.seq) if part.seq <= store.log.head().seq else b""
        if chain.hex() != part.chain:
            raise OccupiedDirectory(
                f"its {name} part stands at epoch {part.epoch} seq {part.seq}, and this journal does not lead "
                "through there: back up both parts, or elsewhere"
            )
    if "journal" in wanted:
        _check_opens(before, wanted, Place(store.log.head(), store.log.state))


def _check_opens(before: Manifest | None, wanted: frozenset[str], place: Place) -> None:
    """A vault that stays must open a journal at `place`: else the two together could not be restored. Raises
    OccupiedDirectory.
    """
    vault = None if before is None or "vault" in wanted else before.vault
    if vault is not None and not opens(vault, _entry(place, "", ())):
        raise OccupiedDirectory(
            f"its vault part stands at epoch {vault.epoch} seq {vault.seq}, and the journal is at epoch "
            f"{place.head.epoch} seq {place.head.seq}: it lacks keys of it; back up both parts, or elsewhere"
        )


def _write(source: Source, directory: Path, before: Manifest | None, wanted: frozenset[str]) -> Manifest:
    """Make what is wanted, name it, and let the manifest speak of it."""
    work = begin_work(directory, source.store.store_id)
    taken = before.names() if before is not None else frozenset()
    made: dict[str, Made] = {}
    if "journal" in wanted:
        made["journal"], place = _journal(source, work, taken)
        _check_opens(before, wanted, place)  # it may have been written to since
    if "vault" in wanted:
        replaces = before is not None and before.vault is not None
        made["vault"] = _vault(source, work, taken, replaces)
    source.step("manifest", 0, 2)
    for each in made.values():
        each.path.rename(directory / each.name)
    sync_directory(directory)
    source.step("manifest", 1, 2)
    entries: dict[str, PartEntry | None] = {
        name: made[name].entry if name in made else (before.part(name) if before is not None else None)
        for name in ("journal", "vault")
    }
    store_id = source.store.store_id.hex()
    manifest = Manifest(
        MANIFEST_VERSION, store_id, FORMAT_VERSION, source.version, entries["journal"], entries["vault"]
    )
    write_manifest(directory, manifest)
    return manifest


# --- the journal ---------------------------------------------------------------------------------


def _journal(source: Source, work: Path, taken: frozenset[str]) -> tuple[Made, Place]:
    """A snapshot, walked through; and where it stands."""
    store, at = source.store, source.at()
    of_bytes = store.env.used_bytes()
    source.step("journal", 0, of_bytes)
    store.env.copy(work / "journal")
    source.step("journal", of_bytes, of_bytes)
    make_lock_file(work / "journal")
    found = verify_in_child(work, source.should_stop).findings
    if found:
        told = "; ".join(f"{each.code} at {each.seq}: {each.what}" for each in found[:5])
        raise DamagedStore("journal", f"{len(found)} findings: {told}", _ANEW, found[0].seq)
    place = place_in(work / "journal", store.store_id)
    return _made(source, "journal", work / "journal" / DATA_FILE, place, at, taken), place


def place_in(directory: Path, store_id: bytes) -> Place:
    """Where the journal in the LMDB environment `directory` stands. Raises DamagedStore, StoreIO."""
    env = Environment.open(directory, DATABASES, durable=True, readonly=True, map_bytes=MAP_BYTES)
    try:
        log = Log(env, store_id)
        return Place(log.head(), log.state)
    finally:
        env.close()


# --- the vault -----------------------------------------------------------------------------------


def _vault(source: Source, work: Path, taken: frozenset[str], replaces: bool) -> Made:
    """A copy with the keys in use, and without those of all that is purged."""
    store, at = source.store, source.at()
    path = work / "vault"
    with making(path) as descriptor:
        copied = _vault_bytes(store.log.state.vault_next)
        _copy_range(source, descriptor, 0, copied)
        place = source.place()
        _copy_range(source, descriptor, copied, _vault_bytes(place.state.vault_next))
    vault = Vault.open(path, store.store_id, keyless=True)  # shredding takes no key
    try:
        vault.shred(keyed_still(vault, _destroyed(store, place.head.seq)))
        if replaces:
            _refuse_damaged(vault, place.state.vault_next)
        wrapped = vault.form == WRAPPED
    finally:
        vault.close()
    made = _made(source, "vault", path, place, at, taken)
    return made._replace(entry=replace(made.entry, master_key=wrapped))


def _vault_bytes(vault_next: int) -> int:
    """The length of a vault that ends before slot `vault_next`."""
    return SLOTS_OFFSET + vault_next * SLOT_BYTES


def _copy_range(source: Source, descriptor: int, begin: int, end: int) -> None:
    """Copy the bytes from `begin` to `end` of the vault behind what is in the new file."""
    at = begin
    while at < end:
        source.step("vault", at, end)
        chunk = source.store.vault.raw(at, min(CHUNK_BYTES, end - at))
        if not chunk:
            raise DamagedStore("vault", f"it ends at byte {at}, slots in use end at {end}", _ANEW)
        write_all(descriptor, chunk)
        at += len(chunk)


def _destroyed(store: Store, to_seq: int) -> list[int]:
    """The slots that a record up to `to_seq` destroys. Raises DamagedRecord."""
    slots: list[int] = []
    with store.env.read() as txn:
        for seq in store.log.destroying_seqs():
            record = store.log.get(txn, seq) if seq <= to_seq else None
            if record is not None:
                slots += destroyed_slots([record.event])
    return slots


def _refuse_damaged(vault: Vault, vault_next: int) -> None:
    """Raises DamagedStore: a key that is damaged here may be sound in the backup that this one would replace."""
    damaged = [slot for slot, state in vault.odd_slots(vault_next).items() if state is not SlotState.SHREDDED]
    if damaged:
        raise DamagedStore("vault", f"slot {damaged[0]} (of {len(damaged)} such) holds no sound key", _ANEW)


# --- both ----------------------------------------------------------------------------------------


def _made(source: Source, part: str, path: Path, place: Place, at: str, taken: frozenset[str]) -> Made:
    """Bring a file to the disk, and say what it is."""
    copied = digest_of(path, lambda done, of: source.step("check", done, of))
    name = _free_name(f"{part}-{place.head.epoch}-{place.head.seq}", taken)
    return Made(path, name, _entry(place, at, (FileEntry(name, copied.size_bytes, copied.digest),)))


def _entry(place: Place, at: str, files: tuple[FileEntry, ...]) -> PartEntry:
    return PartEntry(place.head.epoch, place.head.seq, place.head.chain.hex(), place.state.vault_next, at, files)


def _free_name(name: str, taken: frozenset[str]) -> str:
    """`name`, with a number behind it when a file of the present backup has it."""
    return next(each for number in range(1_000_000) if (each := f"{name}.{number}" if number else name) not in taken)

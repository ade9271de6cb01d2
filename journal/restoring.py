"""A store made of a backup: copied, checked, purged again, and continued under a new epoch.

Method. The parts are copied under their `.new` names and hashed on the way; a child walks the journal before this
process opens it; the vault must be of the same line, which the newest key that is left proves by opening its part.
Then comes a RESTORED record with what was forked from, and what the purges of the list come to that this journal does
not know (`reapplying.py`): PURGE records and what goes with them, made by the daemon's own way of purging (`again`,
which is handed in) against this journal as it is. Their keys are shredded in the new vault. Only then the store gets
its name (`creating.py`). Keys of slots that this journal never handed out are not copied: it hands those numbers out
anew.

Invariants: what a directive names is unreadable before anybody can open the store. A backup is only read. A restore
that was interrupted leaves no store, and is run again.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import lmdb

from journal.codes import CallerRole, Via
from journal.copying import copy_file, make_lock_file, wipe
from journal.creating import fill_store
from journal.destination import OccupiedDirectory, locked
from journal.destroying import destroyed_slots, is_destroying
from journal.environment import Environment
from journal.errors import DamagedStore, ForeignStore, StoreIO, StoreLocked
from journal.events import AnyEvent, Purged, Restored
from journal.headfile import write_head
from journal.keycheck import keyed_still
from journal.layout import (
    DATA_FILE,
    DIRECTORY_MODE,
    FORMAT_VERSION,
    LMDB_LOCK_FILE,
    StateDir,
    new_path,
    read_boot_id,
    sync_directory,
)
from journal.log import DATABASES, Log, MetaState
from journal.manifest import Manifest, PartEntry, opens, read_manifest
from journal.masterkey import MasterKey
from journal.purges import Directive, directive, merge_purges, read_purges
from journal.reapplying import Again, Reapplied, Step, Unfinished, commanded
from journal.record import Actor, Cause, Head, Record, encode_body
from journal.sealing import Sealer
from journal.space import MARGIN_BYTES, OPENING_BYTES, NoRoom, free_bytes
from journal.vault import SLOT_BYTES, SLOTS_OFFSET, SlotState, SlotUnreadable, Vault
from journal.verify import verify_in_child

_ELSEWHERE = "Use another backup."


class Wanted(NamedTuple):
    """What is to be restored. `vault_from`: the backup whose vault part is taken, when it is another one. `master`:
    the master key of the time when that part was made. `again`: by which purges of the `directives` are done again.
    """

    backup: Path
    vault_from: Path | None
    directives: Sequence[Directive]
    version: str
    now_ms: int
    again: Again
    master: MasterKey | None = None


class Outcome(NamedTuple):
    """What was made. `at`, `vault_at`: when the parts were made. `unnamed`: parts that read as purged without a record
    that says so, because the vault is newer than the journal and its purge list is lost.
    """

    store_id: bytes
    forked_from: Head
    head: Head
    at: str
    vault_at: str
    reapplied: Reapplied
    unnamed: int


class _Parts(NamedTuple):
    store_id: bytes
    journal: PartEntry
    journal_path: Path
    vault: PartEntry
    vault_path: Path


def restore(root: Path, wanted: Wanted, step: Step) -> Outcome:
    """Make the store in `root`: absent, empty, or holding only `lock` and `purges`.

    Raises DamagedStore (the backup, or what of it can't be used), MasterKeyFault before anything is written,
    CannotCreate, StoreLocked, StoreIO, and what `step` raises.
    """
    done: list[_Restoring] = []

    def fill(state_dir: StateDir) -> bytes:
        _check_room(root, parts)
        done.append(_Restoring(state_dir, parts, wanted, step))
        return done[0].fill()

    with _held(wanted.backup), _held(wanted.vault_from or wanted.backup):
        parts = _parts(wanted)
        _check_master_key(parts, wanted.master)
        fill_store(root, fill, frozenset({"purges"}), lambda state_dir: done[0].finish(state_dir))
    return done[0].outcome()


@contextmanager
def _held(backup: Path) -> Iterator[None]:
    """No backup takes the place of this one meanwhile. Raises DamagedStore, StoreLocked, StoreIO."""
    read_manifest(backup)
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(backup, shared=True))
        except OccupiedDirectory as error:
            raise StoreLocked(str(error)) from error
        except OSError as error:
            raise StoreIO(f"{backup}: {error.strerror}") from error
        yield


def _parts(wanted: Wanted) -> _Parts:
    """The two parts, which must fit together. Raises DamagedStore."""
    manifest = read_manifest(wanted.backup)
    vault_from = wanted.vault_from or wanted.backup
    other = read_manifest(vault_from)
    if other.store != manifest.store:
        raise ForeignStore("backup", f"its store is {manifest.store}, that of the vault {other.store}", _ELSEWHERE)
    journal = _part(manifest, "journal", wanted.backup)
    vault = _part(other, "vault", vault_from)
    if not opens(vault, journal):
        found = (
            f"an older vault: it stands at epoch {vault.epoch} seq {vault.seq}, "
            f"the journal at epoch {journal.epoch} seq {journal.seq}"
        )
        raise ForeignStore("backup", found, "Take a vault part that was made with the journal part, or later.")
    return _Parts(
        bytes.fromhex(manifest.store), journal, wanted.backup / journal.file.name, vault, vault_from / vault.file.name
    )


def _part(manifest: Manifest, name: str, directory: Path) -> PartEntry:
    part = manifest.part(name)
    if part is None:
        action = "Give the backup that has it with --vault." if name == "vault" else _ELSEWHERE
        raise DamagedStore("backup", f"{directory} has no {name} part", action)
    return part


def _check_master_key(parts: _Parts, master: MasterKey | None) -> None:
    """Raises MasterKeyFault. A vault part that is damaged is told of when it is copied."""
    with suppress(DamagedStore, StoreIO):
        Vault.open(parts.vault_path, parts.store_id, readonly=True, master=master).close()


def _check_room(root: Path, parts: _Parts) -> None:
    """Raises NoRoom before anything of the store is written."""
    needed = parts.journal.file.bytes + _vault_bytes(parts.journal) + OPENING_BYTES + MARGIN_BYTES
    free = free_bytes(root)
    if free < needed:
        raise NoRoom(f"{root}: {free} bytes are free there, {needed} are needed to restore; make room there")


def _vault_bytes(journal: PartEntry) -> int:
    return SLOTS_OFFSET + journal.vault_next * SLOT_BYTES


class _Restoring:
    """One restore, from the copies on."""

    def __init__(self, state_dir: StateDir, parts: _Parts, wanted: Wanted, step: Step) -> None:
        self._parts = parts
        self._wanted = wanted
        self._step = step
        self._state_dir = state_dir
        self._journal_dir = new_path(state_dir.journal_dir)
        self._vault_file = new_path(state_dir.vault_file)
        self._purges_file = state_dir.purges_file
        self._head: Head
        self._reapplied: Reapplied
        self._lines: list[Directive] = []
        self._unnamed = 0

    def fill(self) -> bytes:
        """Journal and vault, complete; the store's id. A vault that is not to be is overwritten."""
        try:
            merge_purges(self._purges_file, self._wanted.directives)
            self._copy()
            self._walk()
            self._open_and_write()
        except BaseException:
            with suppress(OSError):  # then the next restore there does it
                wipe(self._vault_file)
            raise
        return self._parts.store_id

    def finish(self, state_dir: StateDir) -> None:
        """What the store's first opening would make up for: the marks of where it is, and of what was purged."""
        merge_purges(state_dir.purges_file, self._lines)
        write_head(state_dir.head_file, self._head)

    def outcome(self) -> Outcome:
        journal = self._parts.journal
        forked = Head(journal.epoch, journal.seq, bytes.fromhex(journal.chain))
        return Outcome(
            self._parts.store_id, forked, self._head, journal.at, self._parts.vault.at, self._reapplied, self._unnamed
        )  # fmt: skip

    # --- copies ----------------------------------------------------------------------------------

    def _copy(self) -> None:
        parts = self._parts
        try:
            self._journal_dir.mkdir(mode=DIRECTORY_MODE)
            sync_directory(self._journal_dir.parent)
        except OSError as error:
            raise StoreIO(f"{self._journal_dir.name}: {error.strerror}") from error
        self._checked("journal", parts.journal, parts.journal_path, self._journal_dir / DATA_FILE)
        self._checked("vault", parts.vault, parts.vault_path, self._vault_file, _vault_bytes(parts.journal))

    def _checked(self, name: str, part: PartEntry, source: Path, target: Path, keep_bytes: int | None = None) -> None:
        """Copy the file of a part. Raises DamagedStore when it is not what the manifest says."""
        if not source.is_file() or source.is_symlink():
            raise DamagedStore(f"backup, {source.name}", "it is missing, or no regular file", _ELSEWHERE)
        copied = copy_file(source, target, lambda done, of: self._step(name, done, of), keep_bytes)
        if copied.size_bytes != part.file.bytes:
            found = f"it has {copied.size_bytes} bytes, the manifest says {part.file.bytes}"
            raise DamagedStore(f"backup, {source.name}", found, _ELSEWHERE)
        if copied.digest != part.file.digest:
            raise DamagedStore(f"backup, {source.name}", "its digest does not hold", _ELSEWHERE)

    def _walk(self) -> None:
        """A child reads every record first: pages out of order can end a reader. Raises DamagedStore, StoreIO."""
        self._step("check", 0, self._parts.journal.seq)
        scratch = self._state_dir.make_audit_dir()  # here: what a killed restore leaves, the next one removes
        try:
            (scratch / "journal").mkdir()
            make_lock_file(scratch / "journal")
            (scratch / "journal" / DATA_FILE).symlink_to(self._journal_dir.resolve() / DATA_FILE)
            found = verify_in_child(scratch).findings
        except OSError as error:
            raise StoreIO(f"{scratch.name}: {error.strerror}") from error
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        if found:
            told = "; ".join(f"{each.code} at {each.seq}: {each.what}" for each in found[:5])
            raise DamagedStore("backup, journal", f"{len(found)} findings: {told}", _ELSEWHERE, found[0].seq)
        self._step("check", self._parts.journal.seq, self._parts.journal.seq)

    # --- what is written ---------------------------------------------------------------------------

    def _open_and_write(self) -> None:
        make_lock_file(self._journal_dir)
        env = Environment.open(self._journal_dir, DATABASES, durable=True)
        try:
            log = Log(env, self._parts.store_id)
            vault = Vault.open(self._vault_file, self._parts.store_id, master=self._wanted.master)
            try:
                self._check_place(log)
                _check_line(log, vault)
                self._write(log, vault)
            finally:
                vault.close()
            env.sync()
        except lmdb.Error as error:
            raise DamagedStore("backup, journal", str(error), _ELSEWHERE) from error
        finally:
            env.close()
        (self._journal_dir / LMDB_LOCK_FILE).unlink()
        sync_directory(self._journal_dir)

    def _check_place(self, log: Log) -> None:
        """The journal stands where the manifest says. Raises ForeignStore."""
        head, journal = log.head(), self._parts.journal
        there = (head.epoch, head.seq, head.chain.hex(), log.state.vault_next)
        if there != (journal.epoch, journal.seq, journal.chain, journal.vault_next):
            found = f"it stands at epoch {head.epoch} seq {head.seq}, the manifest says {journal.epoch}, {journal.seq}"
            raise ForeignStore("backup, journal", found, _ELSEWHERE)

    def _write(self, log: Log, vault: Vault) -> None:
        forked_from = log.head()
        state = MetaState(log.state.vault_next, log.state.owner_seq, self._epoch(), forked_from.seq + 1)
        restored = Restored(
            read_boot_id(), self._wanted.version, FORMAT_VERSION, state.epoch, vault.renew_nonce(),
            self._parts.store_id, forked_from.epoch, forked_from.seq, forked_from.chain,
        )  # fmt: skip
        log.append([encode_body(self._record(forked_from.seq + 1, restored))], [], state)
        self._reapplied = self._purge_again(log, vault)
        slots = destroyed_slots(record.event for record in _destroying(log))
        vault.shred(keyed_still(vault, slots))
        self._unnamed = len(set(vault.shredded_slots(state.vault_next)) - set(slots))
        self._head = log.head()
        self._lines = list(_lines(log, forked_from.seq + 2))

    def _purge_again(self, log: Log, vault: Vault) -> Reapplied:
        purges, foreign = commanded(self._wanted.directives, self._parts.store_id)
        if not purges:
            return Reapplied(foreign=foreign)
        scratch = self._state_dir.make_audit_dir()  # here: what a killed restore leaves, the next one removes
        try:
            sealer = Sealer(vault, self._parts.store_id)
            made = Unfinished(log, vault, sealer, self._state_dir.root, scratch, self._wanted.now_ms)
            return self._wanted.again(made, purges, self._step)._replace(foreign=foreign)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _epoch(self) -> int:
        """Above every epoch of this store that anything here speaks of: also the purge list that lies in the state
        directory, which has the directives by now, whether they are carried out or not. Raises StoreIO.
        """
        store = self._parts.store_id.hex()
        known = [each.epoch for each in read_purges(self._purges_file).directives if each.store == store]
        return max(self._parts.journal.epoch, self._parts.vault.epoch, *known, 0) + 1

    def _record(self, seq: int, event: AnyEvent) -> Record:
        actor = Actor(os.geteuid(), CallerRole.OPERATOR, Via.DAEMON)
        return Record(seq, self._wanted.now_ms, 0, actor, Cause(seq, "restore"), event)


def _destroying(log: Log) -> Iterator[Record]:
    """The records that destroy keys. Raises DamagedRecord, DamagedStore."""
    with log.env.read() as txn:
        for seq in log.destroying_seqs():
            record = log.get(txn, seq)
            if record is None or not is_destroying(record.event):
                raise DamagedStore("journal", "the list of purges names a record that is none", _ELSEWHERE, seq)
            yield record


def _lines(log: Log, first: int) -> Iterator[Directive]:
    """Of the purges from record `first` on."""
    with log.env.read() as txn:
        for seq in log.destroying_seqs():
            record = log.get(txn, seq) if seq >= first else None
            if record is not None and isinstance(record.event, Purged):
                yield directive(log.store_id, log.state.epoch, record, log.chain_of(txn, seq))


def _check_line(log: Log, vault: Vault) -> None:
    """The newest part whose key is there must open with it: a vault of the same store, but of a line that forked
    before, holds other keys under the same numbers. Raises ForeignStore, DamagedStore.
    """
    if vault.slot_count() < log.state.vault_next:
        found = (
            f"an older vault: it ends at slot {vault.slot_count() - 1}, slots up to {log.state.vault_next - 1} are used"
        )
        raise ForeignStore("backup, vault", found, _ELSEWHERE)
    sealer = Sealer(vault, log.store_id)
    for owner_seq, part, slot in _newest_parts(log):
        if vault.state(slot) is not SlotState.KEYED:
            continue
        with log.env.read() as txn:
            sealed = log.sealed(txn, owner_seq, part)
        try:
            sealer.open(slot, part, sealed or b"")
        except SlotUnreadable as error:
            found = f"its key of slot {slot} does not open record {owner_seq}: it is of another line of this store"
            raise ForeignStore("backup, vault", found, _ELSEWHERE) from error
        return


def _newest_parts(log: Log) -> Iterable[tuple[int, int, int]]:
    """(owner seq, part, slot) of the parts in this journal, newest record first."""
    for seq in range(log.state.owner_seq, 0, -1):
        with log.env.read() as txn:
            record = log.get(txn, seq)
        parts = getattr(record.event, "parts", ()) if record is not None and not _is_purge(record) else ()
        yield from ((seq, part.part, part.slot) for part in parts if part.owner_seq == seq and part.slot)


def _is_purge(record: Record) -> bool:
    return isinstance(record.event, Purged)

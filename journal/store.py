"""A store as a whole: made, opened in the one right order, purged, closed.

Opening: lock; FORMAT; whether the master key fits; leftovers; size of the data file; head of the journal; its newest
records; the head file; the projections' watermark; the vault; purges. A child walks the journal first when the boot is
another, when the projections are to be folded from the start, or when it is asked for: once, whatever the reasons.
Invariant: every check comes before the first write that anybody could rely on, which is the OPENED record (the
vault's nonce that it names is drawn just before). Then fresh keys, then whatever a PURGE record still asks for.
A read-only opening writes nothing.

Making one is in `creating.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import lmdb

from journal.codes import CallerRole, Via
from journal.creating import is_empty, lock_checked, refuse_remains, remove_leftovers
from journal.destroying import destroyed_slots, is_destroying
from journal.environment import Environment
from journal.errors import RESTORE_A_BACKUP, DamagedRecord, DamagedStore, StoreAbsent, StoreIO
from journal.events import Opened, Purged, Restored
from journal.headfile import check_head, read_head, write_head
from journal.keycheck import keyed_still
from journal.layout import (
    DATA_FILE,
    FORMAT_VERSION,
    StateDir,
    StoreLock,
    new_path,
    read_boot_id,
    read_format,
)
from journal.log import DATABASES, Log, MetaState
from journal.masterkey import PLAIN, Keys
from journal.preflight import check_data_file
from journal.purges import Directive, append_purges, directive, read_purges
from journal.record import Actor, Cause, Head, Record, decode_body, encode_body, split_value
from journal.sealing import Sealer
from journal.space import make_way
from journal.trees import check_trees
from journal.vault import Vault
from journal.verify import MAX_FINDINGS, Finding, ShouldStop, verify_in_child

TAIL_RECORDS = 1024
FIRST_EPOCH = 1
_RESTORE = f"{RESTORE_A_BACKUP} Or put back the file that belongs to this store."


class Destroying(NamedTuple):
    """A record that destroys keys."""

    chain: bytes
    record: Record


class Walk(NamedTuple):
    """What whoever opens says of the walk. `first`, asked before LMDB reads a page: is the journal to be walked
    whatever it says itself? `should_stop` ends a walk: the opening raises WalkStopped then.
    """

    first: Callable[[], bool] | None = None
    should_stop: ShouldStop | None = None


_WHEN_NEEDED = Walk()


class Store:
    """An open store. Made by `open_store`; `findings` is what was odd but did not keep it from opening."""

    def __init__(
        self, state_dir: StateDir, lock: StoreLock, readonly: bool, walk: Walk = _WHEN_NEEDED, keys: Keys = PLAIN
    ) -> None:
        self.dir = state_dir
        self.lock = lock
        self.readonly = readonly
        self.boot_id = read_boot_id()
        self.clean = False  # whether the head file was at the journal's head
        self.boot_changed = False  # whether the newest opening was under another boot of the machine
        self.found_seq = 0  # the newest record as the store was found, before this opening's
        self.findings: list[Finding] = []
        self.store_id = b""
        self.env: Environment
        self.log: Log
        self.vault: Vault
        self.sealer: Sealer
        self._walk = walk
        self._keys = keys
        self._walked = False
        self._purge_epochs: dict[int, int] = {}  # of PURGE records that are older than this epoch
        self._to_close: list[Callable[[], None]] = [lock.release]

    @property
    def epoch(self) -> int:
        return self.log.state.epoch

    def epoch_of_purge(self, seq: int) -> int:
        """The epoch that a PURGE record was written in."""
        return self._purge_epochs.get(seq, self.epoch)

    def note(self, finding: Finding) -> None:
        """Keep a finding that was made while the store is open, once. Safe on any thread."""
        if finding not in self.findings and len(self.findings) < MAX_FINDINGS:
            self.findings.append(finding)

    def write_head(self) -> None:
        """Put the journal's head into the head file. Raises StoreIO."""
        write_head(self.dir.head_file, self.log.head())

    def close(self, clean: bool) -> None:
        """Close everything and give the lock up last; `clean`: all is well, so note the head."""
        try:
            if clean and not self.readonly and self._to_close:
                self.write_head()
        finally:
            while self._to_close:
                self._to_close.pop()()

    # --- opening: checks -----------------------------------------------------------------------------

    def check_master_key(self) -> None:
        """Whether the master key fits, asked before all that takes long. Raises MasterKeyFault. What else is odd about
        the vault is told when its turn comes.
        """
        with suppress(DamagedStore, StoreIO):
            self._open_vault().close()

    def _open_vault(self) -> Vault:
        master, keyless = self._keys
        return Vault.open(self.dir.vault_file, self.store_id, self.readonly, master, keyless and self.readonly)

    def check(self, check_projections: Callable[[Log], bool] | None) -> list[Destroying]:
        """All checks, in order; nothing is written. The records that destroy keys. Raises DamagedStore.

        `check_projections` holds the projections against the journal (raises DamagedStore): can they be gone on with?
        """
        self._check_pages()
        if self._walk.first is not None and self._walk.first():
            self._walk_in_child()
        self.env = Environment.open(self.dir.journal_dir, DATABASES, durable=True, readonly=self.readonly)
        self._to_close.append(self.env.close)
        self.env.check_readers()
        self.log = Log(self.env, self.store_id)
        opened = self._newest_opening()
        self.boot_changed = opened is not None and opened.boot_id != self.boot_id
        if self.boot_changed and not self.readonly:  # anything may have happened to the disk
            self._walk_in_child()
        self._check_tail()
        noted = read_head(self.dir.head_file)
        if noted is not None:
            check_head(noted, self.log)
        self.found_seq = self.log.head().seq
        self.clean = noted == self.log.head() or self.found_seq == 0
        if check_projections is not None and not check_projections(self.log) and self.found_seq:
            self._walk_in_child()
        self.vault = self._open_vault()
        self._to_close.append(self.vault.close)
        self.sealer = Sealer(self.vault, self.store_id)
        self._check_opened(opened)
        self._check_owner()
        destroying = self._destroying()
        self._check_shredded(destroying)
        return destroying

    def _check_pages(self) -> None:
        """Before LMDB reads a page; a walk in a child says which records a damaged one costs."""
        check_data_file(self.dir.journal_dir / DATA_FILE)
        try:
            check_trees(self.dir.journal_dir / DATA_FILE)
        except DamagedStore:
            self._walk_in_child()
            raise

    def _check_tail(self) -> None:
        """CRC, chain and numbering of the newest records; a whole walk, in a child, when they don't hold."""
        try:
            for _ in self.log.chunks(self.log.head().seq - TAIL_RECORDS + 1):
                pass
        except DamagedRecord as error:
            self._walk_in_child()
            raise DamagedStore("journal", str(error), _RESTORE, error.seq) from error

    def _newest_opening(self) -> Opened | Restored | None:
        """What the state names as such; None before the first opening. Raises DamagedStore."""
        seq = self.log.state.opened_seq
        if not seq:
            return None
        try:
            event = self._event(seq)
        except DamagedRecord:
            self._walk_in_child()
            raise
        if not isinstance(event, Opened | Restored):
            raise DamagedStore("journal state", "its newest opening is none", _RESTORE, seq)
        return event

    def _check_opened(self, opened: Opened | Restored | None) -> None:
        """The journal's newest nonce is one of the vault's two, and its epoch that of the state."""
        state = self.log.state
        if opened is None:
            return
        if opened.epoch != state.epoch:
            raise DamagedStore("journal state", "its newest opening is none", _RESTORE, state.opened_seq)
        if opened.vault_nonce not in self.vault.nonces:
            found = f"record {state.opened_seq} names another nonce: this is the vault of another time"
            raise DamagedStore("vault", found, _RESTORE)

    def _walk_in_child(self) -> None:
        """Verify all, once in an opening. Raises DamagedStore, WalkStopped, StoreIO."""
        if self._walked:
            return
        self._walked = True
        should_stop = self._walk.should_stop
        walk = verify_in_child if should_stop is None else partial(verify_in_child, should_stop=should_stop)
        found = walk(self.dir.root).findings
        if found:
            listed = "; ".join(f"{each.code} at {each.seq}: {each.what}" for each in found[:5])
            raise DamagedStore("journal", f"{len(found)} findings: {listed}", found[0].action, found[0].seq)

    def _check_owner(self) -> None:
        """The newest record that owns a slot names the last one that was handed out."""
        state = self.log.state
        last = 0
        if state.owner_seq:
            parts = getattr(self._event(state.owner_seq), "parts", ())
            last = max((part.slot for part in parts if part.owner_seq == state.owner_seq), default=0)
        if last != state.vault_next - 1:
            found = f"vault_next is {state.vault_next}, record {state.owner_seq} names slot {last}"
            raise DamagedStore("journal state", found, _RESTORE, state.owner_seq)
        if self.vault.slot_count() < state.vault_next:
            found = f"it ends at slot {self.vault.slot_count() - 1}, slot {last} is in use"
            raise DamagedStore("vault", found, _RESTORE)

    def _check_shredded(self, destroying: Iterable[Destroying]) -> None:
        """A shredded slot that no record asks for is a finding."""
        shredded = self.vault.shredded_slots(self.log.state.vault_next)
        unexplained = set(shredded) - set(_slots(destroying))
        for slot in sorted(unexplained):
            what = f"vault slot {slot} is shredded, and no PURGE names it: it reads as purged"
            self.findings.append(Finding("shredded_unnamed", None, what, _RESTORE))

    def _event(self, seq: int) -> object:
        with self.env.read() as txn:
            record = self.log.get(txn, seq)
        if record is None:
            raise DamagedStore("journal", "the state names a record that is missing", _RESTORE, seq)
        return record.event

    def _destroying(self) -> list[Destroying]:
        """The listed records that destroy keys, ascending. Raises DamagedStore."""
        found: list[Destroying] = []
        seqs = self.log.destroying_seqs()
        with self.env.read() as txn:
            for seq in seqs:
                value = self.log.raw(txn, seq)
                if value is None:
                    raise DamagedStore("journal", "the list of purges names a missing record", _RESTORE, seq)
                chain, body = split_value(seq, value)
                record = decode_body(seq, body)
                if not is_destroying(record.event):
                    raise DamagedStore("journal", "listed as destroying keys, it does not", _RESTORE, seq)
                found.append(Destroying(chain, record))
        return found

    # --- opening: writes -----------------------------------------------------------------------------

    def begin(self, version: str, now_ms: int, destroying: Sequence[Destroying]) -> None:
        """The writes of an opening: OPENED, fresh keys; then purges as in `purge_parts`. Raises StoreIO."""
        state = self.log.state
        recorded = self._event(state.opened_seq) if state.opened_seq else None
        named = recorded.vault_nonce if isinstance(recorded, Opened | Restored) else None
        nonce = self.vault.renew_nonce(named)
        seq = self.log.head().seq + 1
        actor = Actor(os.geteuid(), CallerRole.DAEMON, Via.DAEMON)
        event = Opened(self.boot_id, version, FORMAT_VERSION, state.epoch, nonce)
        record = Record(seq, now_ms, 0, actor, Cause(seq, "open"), event)
        opened = MetaState(state.vault_next, state.owner_seq, state.epoch, seq)
        self.log.append([encode_body(record)], [], opened)
        self.vault.start_at(state.vault_next)
        added = self._reconcile_purges(destroying)
        shredded = self.vault.shred(keyed_still(self.vault, _slots(destroying)))
        if added or shredded:
            self.write_head()

    def _reconcile_purges(self, destroying: Sequence[Destroying]) -> int:
        """Add the lines of PURGE records that the file lacks; how many."""
        there = read_purges(self.dir.purges_file)
        for number in there.damaged_lines:
            what = f"line {number} of the purges file can't be read"
            self.findings.append(Finding("purges_line", None, what, "What it said stands in the journal."))
        own = (line for line in there.directives if line.store == self.store_id.hex())
        listed = {(line.seq, line.chain): line.epoch for line in own}
        missing = [
            each
            for each in destroying
            if isinstance(each.record.event, Purged) and (each.record.seq, each.chain.hex()) not in listed
        ]
        epochs = self._epochs([each.record.seq for each in missing])
        lines = [directive(self.store_id, epochs[record.seq], record, chain) for chain, record in missing]
        append_purges(self.dir.purges_file, lines)
        there_now = ((each.record.seq, listed.get((each.record.seq, each.chain.hex()))) for each in destroying)
        self._purge_epochs = {**{seq: epoch for seq, epoch in there_now if epoch is not None}, **epochs}
        return len(lines)

    def _epochs(self, seqs: Sequence[int]) -> dict[int, int]:
        """The epoch that each record was written in: what the newest opening before it says. `seqs` ascend.

        Epochs start at 1 and only grow, so that the records are read only in a store that was restored once.
        """
        if self.epoch == FIRST_EPOCH or not seqs:
            return dict.fromkeys(seqs, self.epoch)
        wanted, found, epoch = set(seqs), dict[int, int](), FIRST_EPOCH
        imported_seq = 0 if self.log.source is None else self.log.source.seq  # before it: openings of another store
        for chunk in self.log.chunks(1, seqs[-1], check=False):
            for record in chunk:
                if isinstance(record.event, Opened | Restored) and record.seq > imported_seq:
                    epoch = record.event.epoch
                if record.seq in wanted:
                    found[record.seq] = epoch
        return found


def _slots(destroying: Iterable[Destroying]) -> list[int]:
    return destroyed_slots(each.record.event for each in destroying)


def _nothing_more(head: Head) -> None:
    return None


def purge_parts(
    store: Store,
    bodies: Sequence[bytes],
    sealed: Iterable[tuple[bytes, bytes]],
    state: MetaState,
    then: Callable[[Head], None] = _nothing_more,
) -> Head:
    """Commit a batch with records that destroy keys, and do what they say, in order: records, the purges'
    lines, slots, what the caller has to do `then`, head file.

    Raises StoreIO, and what `then` raises; after that the process is to end: the next opening finishes what is not
    done.
    """
    first = store.log.head().seq + 1
    records = [decode_body(seq, body) for seq, body in enumerate(bodies, start=first)]
    destroying = {record.seq: record for record in records if is_destroying(record.event)}
    head = store.log.append(bodies, sealed, state, destroying_seqs=tuple(destroying))
    lines: list[Directive] = []
    with store.env.read() as txn:
        for seq, record in destroying.items():
            if isinstance(record.event, Purged):
                lines.append(directive(store.store_id, store.epoch, record, store.log.chain_of(txn, seq)))
    append_purges(store.dir.purges_file, lines)
    store.vault.shred(destroyed_slots(record.event for record in destroying.values()))
    then(head)
    store.write_head()
    return head


def open_store(
    root: Path,
    *,
    version: str,
    now_ms: int,
    readonly: bool = False,
    check_projections: Callable[[Log], bool] | None = None,
    walk: Walk = _WHEN_NEEDED,
    keys: Keys = PLAIN,
) -> Store:
    """Open the store in `root`.

    Raises StoreAbsent, StoreLocked, DamagedStore, UnsafePath, StoreIO, WalkStopped; MasterKeyFault before anything is
    written or walked.
    """
    state_dir = StateDir(root)
    if is_empty(root):  # whatever its mode: a store that is made there closes it
        raise StoreAbsent(f"{root} is empty")
    lock = lock_checked(state_dir, existing=True)
    store = Store(state_dir, lock, readonly, walk, keys)
    try:
        store.store_id = _read_format(state_dir)
        store.check_master_key()
        if not readonly:
            make_way(state_dir.root, state_dir.reserve_file)
            remove_leftovers(state_dir.leftovers())
        destroying = store.check(check_projections)
        if not readonly:
            store.begin(version, now_ms, destroying)
    except lmdb.Error as error:
        store.close(clean=False)
        raise DamagedStore("journal", str(error), _RESTORE) from error
    except BaseException:
        store.close(clean=False)
        raise
    return store


def _read_format(state_dir: StateDir) -> bytes:
    if not os.path.lexists(state_dir.format_file) and not new_path(state_dir.format_file).exists():
        refuse_remains(state_dir)
    return read_format(state_dir.format_file)

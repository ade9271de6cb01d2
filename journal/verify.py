"""Verifying a whole journal: every CRC, the chain, the numbering, every ciphertext's digest.

The walk never stops at damage: it notes a finding and goes on. A journal whose pages are out of order
can end the process that reads it, so `verify_in_child` walks it in another one, and a child that dies
is a finding too. `python -m journal.verify STATE` prints the result as JSON; exit 65 when there is a
finding. It takes no lock and writes nothing: whoever starts it holds the lock.

A journal that is written to meanwhile is verified up to the head as of the walk's begin; what was counted is
compared with what was stored at that moment.

Invariant: a ciphertext may be missing only when a PURGE, a new prior mean or a vacuum names it.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import lmdb
import msgspec

from journal.destroying import destroyed_parts, is_destroying
from journal.environment import Environment
from journal.errors import RESTORE_A_BACKUP, DamagedRecord, DamagedStore, StoreIO
from journal.events import Opened, Purged, Restored, SealedPart, Vacuumed
from journal.layout import DATA_FILE
from journal.log import CHUNK_RECORDS, DATABASES, Log, MetaState, rows_from, sealed_key, stored_store_id
from journal.preflight import check_data_file
from journal.record import (
    HEAD_BYTES,
    Head,
    Record,
    decode_body,
    key_seq,
    next_chain,
    seq_key,
    split_value,
)

JOURNAL_DIRECTORY = "journal"
DIGEST_BYTES = 16
MAX_FINDINGS = 1000
POLL_S = 0.05
PIN_TRIES = 16

_CHILD = "--child"
_TOLD_TO_END = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_KILLED = frozenset({signal.SIGKILL, *_TOLD_TO_END})  # by somebody, or for want of memory: damage does none of it

ShouldStop = Callable[[], bool]
"""Asked now and then by what takes long; once it says yes, WalkStopped is raised."""


class WalkStopped(Exception):
    """A walk was told to end before it was through: it says nothing about what is at rest."""


def never() -> bool:
    """The `ShouldStop` of what is to go on to its end."""
    return False


class Finding(msgspec.Struct, frozen=True):
    """Something at rest that is not as it was written. `seq` None: no one record."""

    code: str
    seq: int | None
    what: str
    action: str


class Verification(msgspec.Struct, frozen=True):
    """What a walk found. `head` is (epoch, seq, chain) of the newest record that was read, if any."""

    head: Head | None
    records: int
    findings: tuple[Finding, ...]


class Progress(NamedTuple):
    seq: int
    to_seq: int


PartKey = tuple[int, int]  # (owner seq, part)


class _Pinned(NamedTuple):
    """What the journal said of itself at one moment, in one transaction."""

    head: Head
    state: MetaState
    records: int
    sealed: int
    newest: bytes


def _pin(log: Log) -> _Pinned:
    """The journal as of now. A batch that is committed is the head a moment later: then it looks again, and in a
    journal that lacks records, or has some too many, the numbers never agree. Raises lmdb.Error.
    """
    pinned = _pin_once(log)
    for _ in range(PIN_TRIES):
        if pinned.records == pinned.head.seq:
            break
        pinned = _pin_once(log)
    return pinned


def _pin_once(log: Log) -> _Pinned:
    state = log.state  # before the head, which is set behind it: it is never ahead of a head that agrees
    head = log.head()
    with log.env.read() as txn:
        records, sealed = log.env.entries(txn, "records"), log.env.entries(txn, "sealed")
        return _Pinned(head, state, records, sealed, _newest_key(txn, log))


class _Walk:
    """The state of one walk over the records."""

    def __init__(self, log: Log, from_seq: int, pinned: _Pinned) -> None:
        self.log = log
        self.pinned = pinned
        self.head_seq = pinned.head.seq
        self.findings: list[Finding] = []
        self.expected = from_seq
        self.chain: bytes | None = None
        self.last_chain = log.store_id
        self.records = 0
        self.ciphertexts = 0
        self.suspects: dict[PartKey, str] = {}
        self.released: set[PartKey] = set()
        self.purges: set[int] = set()
        self.epoch = 0
        self.imported_seq = 0 if log.source is None else log.source.seq  # openings up to there were another store's

    def note(self, code: str, seq: int | None, what: str, action: str = RESTORE_A_BACKUP) -> None:
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(Finding(code, seq, what, action))

    def row(self, txn: lmdb.Transaction, key: bytes, value: bytes) -> None:
        """Check one row of `records` and everything that its record says of itself."""
        if len(key) != len(seq_key(0)):
            self.note("record_key", None, f"the key {key.hex()} is no sequence number")
            return
        seq = key_seq(key)
        if seq < self.expected or seq > self.head_seq:
            self.note("record_order", seq, f"record {seq} stands where {self.expected} belongs")
            return
        if seq > self.expected:
            self.note("record_missing", self.expected, f"records {self.expected} to {seq - 1} are missing")
            self.chain = None
        self.expected = seq + 1
        record = self.record(seq, value)
        if record is not None:
            self.records += 1
            self.event(txn, record)

    def record(self, seq: int, value: bytes) -> Record | None:
        previous, self.chain = self.chain, None
        try:
            chain, body = split_value(seq, value)
        except DamagedRecord as error:
            self.note("record_damaged", seq, f"its {error.check} check failed")
            return None
        if previous is not None and next_chain(previous, body) != chain:
            self.note("chain_broken", seq, "its chain does not follow from the record before it")
        self.chain = self.last_chain = chain
        try:
            return decode_body(seq, body)
        except DamagedRecord as error:
            self.note("record_damaged", seq, f"its {error.check} check failed")
            return None

    def event(self, txn: lmdb.Transaction, record: Record) -> None:
        event = record.event
        if is_destroying(event):
            self.purges.add(record.seq)
            self.release((part.owner_seq, part.part) for part in destroyed_parts(event))
        if isinstance(event, Purged):
            return
        if isinstance(event, Vacuumed):
            self.release(event.removed)
        elif isinstance(event, Opened | Restored) and record.seq > self.imported_seq:
            self.epoch = event.epoch
        for part in getattr(event, "parts", ()):
            if part.owner_seq == record.seq and part.slot:
                self.part(txn, part)

    def release(self, keys: Iterable[PartKey]) -> None:
        self.released.update(keys)

    def part(self, txn: lmdb.Transaction, part: SealedPart) -> None:
        sealed = txn.get(sealed_key(part.owner_seq, part.part), db=self.log.env.db("sealed"))
        if sealed is None:
            self.suspects[part.owner_seq, part.part] = "sealed_missing"
            return
        self.ciphertexts += 1
        if blake2b(sealed, digest_size=DIGEST_BYTES).digest() != part.digest:
            self.suspects[part.owner_seq, part.part] = "sealed_damaged"

    def settle(self, from_seq: int) -> None:
        """Report the parts that nothing excuses, and compare what was counted with what was stored."""
        if self.suspects.keys() - self.released:
            self.release_later()
        for (owner, part), code in self.suspects.items():
            if (owner, part) not in self.released:
                self.note(code, owner, f"part {part} is not the ciphertext that the record names")
        if from_seq == 1 and self.expected == self.head_seq + 1:
            self.settle_whole()

    def release_later(self) -> None:
        """A record that came behind the pinned head while this walked may have taken a ciphertext with it."""
        for chunk in self.log.chunks(self.head_seq + 1, check=False):
            for event in (record.event for record in chunk):
                self.release((part.owner_seq, part.part) for part in destroyed_parts(event))
                if isinstance(event, Vacuumed):
                    self.release(event.removed)

    def settle_whole(self) -> None:
        head, state, entries, stored, newest = self.pinned
        if newest not in (seq_key(entries), seq_key(head.seq)) and entries:
            self.note("record_order", None, f"the key {newest.hex()} stands behind the newest record")
        if entries != head.seq:
            return  # records are missing or too many: the counts say nothing more
        grown = self.log.head().seq != head.seq  # then ciphertexts may have left that were counted at the begin
        if stored != self.ciphertexts and self.records == head.seq and not grown:
            self.note("sealed_unnamed", None, f"{stored} ciphertexts, {self.ciphertexts} named by records")
        if self.last_chain != head.chain:
            self.note("head", head.seq, "the newest record is not the head that was read at open")
        if self.epoch and self.epoch != state.epoch:
            self.note("state", None, f"epoch {state.epoch}, the records say {self.epoch}")
        if max(state.owner_seq, state.opened_seq, self.imported_seq) > head.seq:
            self.note("state", None, "it names records that are ahead of the head")
        self.settle_purges()

    def settle_purges(self) -> None:
        listed = {seq for seq in self.log.destroying_seqs() if seq <= self.head_seq}
        for seq in sorted(self.purges - listed):
            self.note("purge_unlisted", seq, "it destroys keys, and is not on the list of those that do")
        for seq in sorted(listed - self.purges):
            self.note("purge_absent", seq, "the list of records that destroy keys names one that does not")


def walk_log(
    log: Log, from_seq: int = 1, to_seq: int | None = None, size: int = CHUNK_RECORDS
) -> Generator[Progress, None, Verification]:
    """Verify records `from_seq` to `to_seq` (None: the head), a chunk and a transaction at a time.

    Yields after each chunk; what it found is the generator's return value.
    """
    head = log.head()
    try:
        pinned = _pin(log)
    except lmdb.Error as error:
        return Verification(head, 0, (Finding("page_damaged", None, f"LMDB can't go on: {error}", RESTORE_A_BACKUP),))
    last = pinned.head.seq if to_seq is None else min(to_seq, pinned.head.seq)
    walk = _Walk(log, from_seq, pinned)
    try:
        walk.chain = _chain_before(log, from_seq)
        while walk.expected <= last:
            before = walk.expected
            _walk_chunk(walk, last, size)
            if walk.expected == before:
                walk.note("record_missing", before, f"records {before} to {last} are missing")
                break
            yield Progress(min(walk.expected - 1, last), last)
        walk.settle(from_seq)
    except DamagedStore as error:
        walk.note("meta_damaged", error.seq, str(error), error.action)
    except lmdb.Error as error:
        walk.note("page_damaged", walk.expected, f"LMDB can't go on: {error}")
    reached = Head(pinned.state.epoch, walk.expected - 1, walk.last_chain)
    return Verification(reached, walk.records, tuple(walk.findings))


def verify_log(
    log: Log,
    from_seq: int = 1,
    to_seq: int | None = None,
    progress: Callable[[Progress], None] | None = None,
    should_stop: ShouldStop = never,
) -> Verification:
    """`walk_log` to its end; `progress` is called after each chunk. Raises WalkStopped."""
    walk = walk_log(log, from_seq, to_seq)
    while True:
        try:
            step = next(walk)
        except StopIteration as end:
            result: Verification = end.value
            return result
        if progress is not None:
            progress(step)
        if should_stop():
            raise WalkStopped


def verify_state(state_dir: Path, should_stop: ShouldStop = never) -> Verification:
    """Verify the journal under a state directory, in this process, which damage may end.

    Raises StoreIO, WalkStopped.
    """
    path = state_dir / JOURNAL_DIRECTORY
    try:
        check_data_file(path / DATA_FILE)
        env = Environment.open(path, DATABASES, durable=True, readonly=True)
    except DamagedStore as error:
        return _single("journal_unreadable", str(error), RESTORE_A_BACKUP)
    try:
        with env.read() as txn:
            store_id = stored_store_id(txn, env.db("meta"))
        return verify_log(Log(env, store_id), should_stop=should_stop)
    except DamagedStore as error:
        return Verification(None, 0, (Finding("journal_damaged", error.seq, str(error), error.action),))
    except lmdb.Error as error:
        return _single("page_damaged", f"LMDB can't go on: {error}", RESTORE_A_BACKUP)
    finally:
        env.close()


def verify_in_child(state_dir: Path, should_stop: ShouldStop = never) -> Verification:
    """Verify the journal under a state directory in a child process, whose death is a finding.

    Raises StoreIO when the disk didn't let it read, or somebody killed the child: that says nothing about what is
    on it. Raises WalkStopped once `should_stop` says so; no child is left then.
    """
    child = subprocess.Popen(
        [sys.executable, "-m", "journal.verify", str(state_dir.resolve()), _CHILD],
        cwd=Path(__file__).resolve().parent.parent,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with child:
        try:
            told, complaint = _outcome(child, should_stop)
        finally:
            child.kill()  # does nothing to one that has ended
    if child.returncode < 0:
        return _ended_by(-child.returncode)
    if child.returncode == os.EX_IOERR:
        raise StoreIO(complaint.decode("utf-8", "replace").strip())
    try:
        return _DECODE(told)
    except msgspec.DecodeError:
        what = f"the process that read the journal ended with {child.returncode} and no result"
        return _single("child_failed", what, "Run `python -m journal.verify` on the state directory.")


def _outcome(child: subprocess.Popen[bytes], should_stop: ShouldStop) -> tuple[bytes, bytes]:
    """What the child printed until its end. Raises WalkStopped."""
    while not should_stop():
        with suppress(subprocess.TimeoutExpired):
            return child.communicate(timeout=POLL_S)
    raise WalkStopped


def _ended_by(number: int) -> Verification:
    """The finding that a child's death is, unless somebody ended it. Raises StoreIO."""
    name = signal.Signals(number).name
    what = f"{name} ended the process that read the journal"
    if number in _KILLED:
        raise StoreIO(what)
    return _single("child_died", what, RESTORE_A_BACKUP)


def main(arguments: list[str]) -> int:
    """Verify the state directory that is the one argument; the result goes to standard output."""
    is_child = arguments[1:] == [_CHILD]
    if len(arguments) != 1 + is_child:
        sys.stderr.write("usage: python -m journal.verify STATE\n")
        return os.EX_USAGE
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would be a copy nobody counts
    try:
        found = verify_state(Path(arguments[0]), should_stop=_parent_watch() if is_child else never)
    except WalkStopped:
        return os.EX_TEMPFAIL
    except StoreIO as error:
        sys.stderr.write(f"{error}\n")
        return os.EX_IOERR
    sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
    return os.EX_DATAERR if found.findings else os.EX_OK


def _parent_watch() -> ShouldStop:
    """A child ends with its parent, and only its parent ends it: a service manager or a terminal that tells all
    processes to end would let a parent that has not heard it yet see a walk that was cut short.
    """
    parent = os.getppid()
    for number in _TOLD_TO_END:
        signal.signal(number, signal.SIG_IGN)
    return lambda: os.getppid() != parent


_DECODE = msgspec.json.Decoder(Verification).decode


def _single(code: str, what: str, action: str) -> Verification:
    return Verification(None, 0, (Finding(code, None, what, action),))


def _chain_before(log: Log, from_seq: int) -> bytes | None:
    """The chain that record `from_seq` follows; None when the record before it is damaged itself."""
    with log.env.read() as txn:
        if from_seq == 1:
            return log.store_id
        value = log.raw(txn, from_seq - 1)
    return value[4:HEAD_BYTES] if value is not None and len(value) > HEAD_BYTES else None


def _newest_key(txn: lmdb.Transaction, log: Log) -> bytes:
    with txn.cursor(db=log.env.db("records")) as cursor:
        return bytes(cursor.key()) if cursor.last() else b""


def _walk_chunk(walk: _Walk, last: int, size: int) -> None:
    """Check the rows of one chunk. Rows out of order don't count, so a bad page ends the chunk too."""
    env = walk.log.env
    with env.read() as txn, txn.cursor(db=env.db("records")) as cursor:
        for count, (key, value) in enumerate(rows_from(cursor, seq_key(walk.expected)), start=1):
            walk.row(txn, key, value)
            if walk.expected > last or count >= size:
                return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

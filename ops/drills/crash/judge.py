"""Opens states the way the daemon does and says what is wrong with them: the process that may die.

Lines of JSON come on standard input: first a `Brief`, then for each `Case` a `Verdict` is answered. What
the journal of a state must be is known from the *reference*, the journal at the end of the same era: up to
where it ends, record for record, the same bytes; then only what its own opening wrote. Everything that
follows is asked of the recovered store itself: the chain, the numbering, texts, keys, digests.
"""

from __future__ import annotations

import os
import resource
import shutil
import sys
from collections import Counter
from hashlib import blake2b
from pathlib import Path
from typing import Any

import lmdb
import msgspec

from daemon.caller import DEFAULT_TENANT
from daemon.prepare import key_hash
from daemon.refusal import Refused
from journal.codes import Part
from journal.errors import NoctuaryFault, PartUnreadable
from journal.events import Keyed, MemoryCreated, Opened, Purged, SealedPart
from journal.record import Record
from journal.unsealing import unseal
from journal.vault import SlotState
from ops.drills.crash.booted import boot_as
from ops.drills.crash.forked import fork_walks
from ops.drills.crash.load import Request
from ops.drills.crash.reference import Command, Reference, read_reference
from ops.drills.crash.served import COMMIT_PASS, Served
from projections.store import ProjectionStore


class Asked(msgspec.Struct, frozen=True):
    """A write and, if it was answered, its result. `answered` counts from 0 in the order of the answers."""

    id: str
    method: str
    params: dict[str, Any]
    answered: int | None = None
    result: dict[str, Any] | None = None

    def request(self) -> Request:
        return Request(self.id, self.method, self.params)


class Brief(msgspec.Struct, frozen=True):
    """What a judge is told once. `references` are directories, one for each era."""

    asked: list[Asked]
    references: list[str]


class Case(msgspec.Struct, frozen=True):
    """One state: the store's directory, the boot to open it in, and how many answers had left."""

    path: str
    boot: str
    era: int
    answered: int


class Verdict(msgspec.Struct):
    """Counts of what must be 0, but for `acked` (what was looked for). `what` says it in words."""

    acked: int = 0
    lost: int = 0
    changed: int = 0
    doubled: int = 0
    half: int = 0
    gaps: int = 0
    refused: int = 0
    differing: int = 0
    readable: int = 0
    died: int = 0
    what: list[str] = msgspec.field(default_factory=list)

    def note(self, name: str, what: str) -> None:
        setattr(self, name, getattr(self, name) + 1)
        if len(self.what) < 12:
            self.what.append(f"{name}: {what}")


UNEXPECTED = (lmdb.Error, LookupError, ValueError, TypeError)
"""What would end a daemon without a word about what to do."""
FAULTS = ("lost", "changed", "doubled", "half", "gaps", "refused", "differing", "readable", "died")


class Judge:
    """Judges states against one brief."""

    def __init__(self, brief: Brief) -> None:
        self._asked = brief.asked
        self._references = [read_reference(Path(path)) for path in brief.references]

    def judge(self, case: Case) -> Verdict:
        verdict = Verdict()
        acked = [each for each in self._asked if each.answered is not None and each.answered < case.answered]
        verdict.acked = len(acked)
        boot_as(Path(case.boot))
        try:
            served = Served(Path(case.path))
        except NoctuaryFault as fault:
            verdict.note("refused", f"exit {fault.exit_code}: {fault}")
            return verdict
        except UNEXPECTED as error:
            verdict.note("died", f"while it was opened: {type(error).__name__}: {error}")
            return verdict
        try:
            _Look(served, self._references[case.era], verdict).at(acked, self._asked)
        except UNEXPECTED as error:
            verdict.note("died", f"{type(error).__name__}: {error}")
        finally:
            served.close(clean=False)
        return verdict


class _Look:
    """One look at one opened store."""

    def __init__(self, served: Served, reference: Reference, verdict: Verdict) -> None:
        self._served = served
        self._store = served.store
        self._reference = reference
        self._verdict = verdict
        self._records: list[Record] = []
        self._same = 0  # how many records are those of the reference

    def at(self, acked: list[Asked], asked: list[Asked]) -> None:
        try:
            self._read_records()
            self._check_whole()
            purged = self._purged_slots()
            for each in acked:
                self._check_acked(each, purged)
            self._check_once()
            self._check_digests()
            self._ask_again(acked, asked)
        except NoctuaryFault as fault:
            self._verdict.note("refused", f"after it was opened: {fault}")

    # --- the journal ---------------------------------------------------------------------------------------

    def _read_records(self) -> None:
        """All records, chain and numbering checked, and how far they are the reference's."""
        head = self._store.log.head().seq
        self._records = [record for chunk in self._store.log.chunks() for record in chunk]
        if [record.seq for record in self._records] != list(range(1, head + 1)):
            self._verdict.note("gaps", f"{len(self._records)} records up to {head}")
        with self._store.env.read() as txn:
            for seq in range(1, head + 1):
                value = self._store.log.raw(txn, seq)
                if value is None or blake2b(value).digest() != self._reference.value_digest(seq):
                    break
                self._same = seq

    def _check_whole(self) -> None:
        """Only its own opening stands behind what was; and that ends where a command ends."""
        for record in self._records[self._same :]:
            if not isinstance(record.event, Opened):
                self._verdict.note("changed", f"record {record.seq} is not the one that was written")
        command = self._reference.command_at(self._same)
        if command is not None and command.last_seq != self._same:
            self._verdict.note("half", f"records {command.first_seq} to {command.last_seq} end at {self._same}")

    def _purged_slots(self) -> set[int]:
        return {p.slot for record in self._records if isinstance(record.event, Purged) for p in record.event.parts}

    def _check_once(self) -> None:
        events = [record.event for record in self._records]
        ids = Counter(event.id for event in events if isinstance(event, MemoryCreated))
        keys = Counter(event.key for event in events if isinstance(event, MemoryCreated | Keyed) and event.key)
        for name, many in (*ids.items(), *keys.items()):
            if many > 1:
                self._verdict.note("doubled", f"{name!r} is there {many} times")

    # --- acked writes --------------------------------------------------------------------------------------

    def _check_acked(self, each: Asked, purged: set[int]) -> None:
        if each.method == "purge":
            self._check_purged(each)
        command = self._command(each)
        if command is None or command.last_seq > self._same:
            where = f"records {command.first_seq} to {command.last_seq}" if command else "in no journal"
            self._verdict.note("lost", f"{each.id} ({where}), the journal is as written up to {self._same}")
            return
        texts = Counter(_texts(each))
        for record in self._records[command.first_seq - 1 : command.last_seq]:
            if isinstance(record.event, MemoryCreated):
                self._check_text(each, record, record.event, texts, purged)
        if +texts:
            self._verdict.note("lost", f"{each.id}: {sum(texts.values())} of its texts")

    def _command(self, each: Asked) -> Command | None:
        if each.method == "purge":
            assert each.result is not None
            return self._reference.purge_of({part[2] for part in each.result["parts"]})
        return self._reference.keyed(key_hash(self._store.vault.hash_key, DEFAULT_TENANT, each.id))

    def _check_text(
        self, each: Asked, record: Record, event: MemoryCreated, texts: Counter[bytes], purged: set[int]
    ) -> None:
        part = next(part for part in event.parts if part.part == Part.TEXT)
        if part.slot in purged:
            texts.subtract(_texts(each))
            return
        try:
            texts[self._unsealed(part)] -= 1
        except PartUnreadable as error:
            self._verdict.note("lost", f"{each.id}: the text of record {record.seq} is {error.state}")

    def _unsealed(self, part: SealedPart) -> bytes:
        with self._store.env.read() as txn:
            return unseal(self._store.log, self._store.sealer, txn, part)

    def _check_purged(self, each: Asked) -> None:
        """Nothing of what a purge that returned had destroyed can be read."""
        assert each.result is not None
        gone = {(owner, part) for owner, part, _ in each.result["parts"]}
        for record in self._records:
            for part in getattr(record.event, "parts", ()):
                if (part.owner_seq, part.part) not in gone:
                    continue
                if self._store.vault.state(part.slot) is not SlotState.SHREDDED or self._opens(part):
                    self._verdict.note("readable", f"part {part.part} of record {part.owner_seq}")

    def _opens(self, part: SealedPart) -> bool:
        try:
            self._unsealed(part)
        except PartUnreadable:
            return False
        return True

    # --- what is folded, and what is answered --------------------------------------------------------------

    def _check_digests(self) -> None:
        scratch = self._store.dir.root.parent / "fresh"
        shutil.rmtree(scratch, ignore_errors=True)
        fresh = ProjectionStore.open(scratch, self._store.boot_id)
        try:
            fresh.catch_up(self._store.log)
            folded, live = fresh.digests(), self._served.projections.digests()
        finally:
            fresh.close(clean=False)
            shutil.rmtree(scratch, ignore_errors=True)
        for name in folded.keys() | live.keys():
            if folded.get(name) != live.get(name):
                self._verdict.note("differing", name)

    def _ask_again(self, acked: list[Asked], asked: list[Asked]) -> None:
        """Every acked write again: the same answer. Then memories that were not acked: there once, in the end."""
        writes = [each for each in acked if each.method != "purge"]
        for each, outcome in zip(writes, self._served.ask([each.request() for each in writes]), strict=True):
            if isinstance(outcome, Refused):
                self._verdict.note("lost", f"{each.id} is refused when it is sent again: {outcome.message}")
            elif not outcome.get("duplicate") or _named(outcome) != _named(each.result or {}):
                self._verdict.note("doubled", f"{each.id} is written again when it is sent again")
        known = {each.id for each in acked}
        others = [each for each in asked if each.id not in known and _needs_nothing(each)]
        self._served.ask([each.request() for each in others])
        self._served.quiet()
        self._records = [record for chunk in self._store.log.chunks() for record in chunk]
        self._check_once()


def _needs_nothing(each: Asked) -> bool:
    """Whether a write can be sent at any time: it names no memory that may not be there."""
    return each.method == "remember" and not each.params.get("derived_from")


def _named(result: dict[str, Any]) -> Any:
    """What an answer is about."""
    if "results" in result:
        return [each.get("id") for each in result["results"]]
    return result.get("id") or (result.get("session"), result.get("pass"), result.get("notes"))


_ITEMS = {"remember_many": "items", COMMIT_PASS: "facts"}


def _texts(each: Asked) -> list[bytes]:
    items = each.params[_ITEMS[each.method]] if each.method in _ITEMS else [each.params]
    return [item["text"].encode() for item in items if "text" in item]


def main() -> int:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.umask(0o077)
    fork_walks()
    lines = sys.stdin.buffer
    judge = Judge(msgspec.json.decode(lines.readline(), type=Brief))
    for line in lines:
        verdict = judge.judge(msgspec.json.decode(line, type=Case))
        sys.stdout.buffer.write(msgspec.json.encode(verdict) + b"\n")
        sys.stdout.buffer.flush()
    return 0

"""Looking for a text in everything that a state directory holds, plain or behind a key that is still there.

Plain: every regular file is read, so that free pages and what stands between entries count too. Readable: every
ciphertext is tried with the key of the slot that its owner's record names, wherever it lies:

| ciphertexts | found by |
|---|---|
| in `sealed` | its rows |
| in pages that no tree leads to any more, in the gaps of a page | `leaves.py`; its key names the owner's record |
| in an overflow page whose leaf was written over | its digest, at each length that a record names |

The keys are those of the vault, and of one that was left beside it. The owner's record is one of the journal, or one
that only stands in an old page. Where no record can be read that owns a ciphertext, it is tried with the keys of all
slots that no sound record names: a damaged record keeps nothing from being found. A key never opens another slot's
ciphertext (the slot is in the associated data), so that no other pair needs trying. What was cut by later writes does
not open, and is counted. Runs beside a writer: what is there throughout is found; what is being written, or is taken
away meanwhile, may be seen or not.

Memory is bounded, but for a few numbers for each overflow page without a leaf: rows come in steps of at most
`_STEP_BYTES`, owners of large parts in steps of `_REMEMBERED`. Findings end at `TOLD` of each kind, what is known from
old records at `_REMEMBERED` parts, and slots without a name at `_NAMELESS`: where one of these ends it, that is told
(`cut`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeAlias

import lmdb

from journal.errors import DamagedRecord, DamagedStore, ForeignStore, StoreIO
from journal.events import MemoryCreated, Ref, SealedPart
from journal.layout import DATA_FILE, NEW_SUFFIX
from journal.leaves import Entry, Overflow, Pages
from journal.log import SEQ_KEY_BYTES, rows_from
from journal.masterkey import MasterKeyFault
from journal.plain_scan import TOLD, Plain, scan_files
from journal.preflight import check_data_file
from journal.record import MAX_SEQ, decode_value, key_seq
from journal.sealing import NONCE_BYTES, TAG_BYTES, Sealer, sealed_digest
from journal.store import Store
from journal.vault import Vault

SEALED_KEY_BYTES = 9
_SEALING_BYTES = NONCE_BYTES + TAG_BYTES
_STEP_ROWS, _STEP_BYTES = 512, 1 << 23
_REMEMBERED = 1 << 16
_NAMELESS = 1 << 12
_JOURNAL, _VAULT = "journal", "vault"

Hear: TypeAlias = "Callable[[Readable, bytes], bool]"
Step: TypeAlias = Callable[[str, int, int], None]
"""Called with (phase, done, of) between steps: `files`, `ciphertexts`, `records`, `pages`, `overflows`. What it raises
ends the search."""


class Readable(NamedTuple):
    """A ciphertext that opened, and has the text. `memory` owns it, or is what its record is about."""

    seq: int
    part: int
    memory: Ref | None


class Found(NamedTuple):
    """`files` were read whole; `unopenable` of the `tried` ciphertexts no key opens. `cut`: there was more to tell."""

    plain: list[Plain]
    readable: list[Readable]
    files: int
    tried: int
    unopenable: int
    cut: bool


class _Owner(NamedTuple):
    """What a record says of a part of its own."""

    part: SealedPart
    memory: Ref | None


_Candidate: TypeAlias = "tuple[int, int, _Owner | None, bytes]"  # owner seq, part, its owner, nonce and ciphertext


def nothing(_phase: str, _done: int, _of: int) -> None:
    """Nobody wants to know how far it is."""


def search(store: Store, root: Path, pattern: bytes, step: Step = nothing) -> Found:
    """Look for `pattern` below `root`, the state directory of `store`. Raises StoreIO, and what `step` raises."""
    if not pattern:
        raise ValueError("nothing to be looked for")
    searching = _Search(store, root, lambda _, opened: pattern in opened, step)
    files = scan_files(root, pattern, lambda done, of: step("files", done, of))
    found = searching.run()
    return found._replace(plain=files.plain, files=files.files, cut=found.cut or files.cut)


def open_all(store: Store, root: Path, hear: Hear, step: Step = nothing) -> Found:
    """Let `hear` have every plaintext that a key still yields, once or more; those for which it says True are told as
    readable. No file is looked into for what is plain. Raises as `search` does."""
    return _Search(store, root, hear, step).run()


class _Search:
    """One search. What it has found stands in its fields."""

    def __init__(self, store: Store, root: Path, hear: Hear, step: Step) -> None:
        self._store, self._root, self._hear, self._step = store, root, hear, step
        self._readable: dict[Readable, None] = {}
        self._tried = self._unopenable = 0
        self._cut = False
        self._newest: tuple[int, dict[int, _Owner]] = (0, {})
        self._stale: dict[tuple[int, int], list[_Owner]] = {}  # of records that only an old page has
        self._seen: set[int] = set()  # hashes of ciphertexts that were tried
        self._sealers: tuple[Sealer, ...] = ()
        self._nameless: list[int] | None = None

    def run(self) -> Found:
        vaults = list(_left_vaults(self._root, self._store.store_id))
        self._sealers = (self._store.sealer, *(Sealer(vault, self._store.store_id) for vault in vaults))
        try:
            return self._run()
        finally:
            for vault in vaults:
                vault.close()

    def _run(self) -> Found:
        self._search_rows()
        for data_file in self._data_files():
            self._search_pages(data_file)
        return Found([], list(self._readable), 0, self._tried, self._unopenable, self._cut)

    # --- ciphertexts in `sealed` ---------------------------------------------------------------------

    def _search_rows(self) -> None:
        env = self._store.env
        with env.read() as txn:
            of = env.entries(txn, "sealed")
        done, key = 0, b"\0"
        while True:
            self._step("ciphertexts", min(done, of), of)
            rows, key = self._rows(key)
            self._try(rows)
            done += len(rows)
            if not key:
                return

    def _rows(self, key: bytes) -> tuple[list[_Candidate], bytes]:
        """Rows of `sealed` from `key` on; the key of the next, empty at the end. Raises StoreIO."""
        found: list[_Candidate] = []
        size = 0
        env = self._store.env
        try:
            with env.read() as txn, txn.cursor(db=env.db("sealed")) as cursor:
                for each, value in rows_from(cursor, key):
                    if len(found) >= _STEP_ROWS or size >= _STEP_BYTES:
                        return found, each
                    seq, part = key_seq(each[:SEQ_KEY_BYTES]), each[-1]
                    found.append((seq, part, self._owner(txn, seq, part), value))
                    size += len(value)
        except lmdb.Error as error:
            raise StoreIO(f"journal: {error}") from error
        return found, b""

    def _owner(self, txn: lmdb.Transaction, seq: int, part: int) -> _Owner | None:
        """What record `seq` says of its own part; None when it can't be read or has none."""
        if self._newest[0] != seq:
            owned: dict[int, _Owner] = {}
            with suppress(DamagedRecord):
                record = self._store.log.get(txn, seq)
                if record is not None:
                    owned = _owned(seq, record.event)
            self._newest = (seq, owned)
        return self._newest[1].get(part)

    def _try(self, rows: Sequence[_Candidate]) -> None:
        opened: list[bytes | None] = [None] * len(rows)
        for sealer in self._sealers:
            keys = sealer.keys([0 if owner is None else owner.part.slot for _, _, owner, _ in rows])
            for at, ((_, part, owner, sealed), key) in enumerate(zip(rows, keys, strict=True)):
                if owner is not None and key and opened[at] is None:
                    opened[at] = sealer.open_with(key, owner.part.slot, part, sealed)
            for at, (_, part, owner, sealed) in enumerate(rows):
                if owner is None and opened[at] is None:
                    opened[at] = self._opened_by_any(sealer, part, sealed)
        for (seq, part, owner, _), plain in zip(rows, opened, strict=True):
            self._tried += 1
            if plain is None:
                self._unopenable += 1
            else:
                self._note(Readable(seq, part, None if owner is None else owner.memory), plain)

    def _opened_by_any(self, sealer: Sealer, part: int, sealed: bytes) -> bytes | None:
        """Nobody says which slot it is of."""
        if self._nameless is None:
            self._nameless = self._find_nameless()
        for slot, key in zip(self._nameless, sealer.keys(self._nameless), strict=True):
            plain = sealer.open_with(key, slot, part, sealed) if key else None
            if plain is not None:
                return plain
        return None

    def _find_nameless(self) -> list[int]:
        """The slots in use that no record names which can be read."""
        slots = bytearray(b"\1") * self._store.log.state.vault_next
        slots[0] = 0
        for _, owner in self._of_records("ciphertexts"):
            if owner.part.slot < len(slots):
                slots[owner.part.slot] = 0
        found = [slot for slot, is_nameless in enumerate(slots) if is_nameless]
        self._cut = self._cut or len(found) > _NAMELESS
        return found[:_NAMELESS]

    def _note(self, found: Readable, opened: bytes) -> None:
        if not self._hear(found, opened):
            return
        if len(self._readable) >= TOLD and found not in self._readable:
            self._cut = True
            return
        self._readable[found] = None

    # --- ciphertexts in pages --------------------------------------------------------------------------

    def _data_files(self) -> list[Path]:
        """The data files of journals: the one in use, and what was left of another."""
        directories = (path for path in self._root.iterdir() if _is_of_a_journal(path.name))
        return [file for path in sorted(directories) if (file := path / DATA_FILE).is_file()]

    def _search_pages(self, data_file: Path) -> None:
        try:
            meta = check_data_file(data_file)
        except DamagedStore:
            if data_file.parent.name == _JOURNAL:
                raise
            return  # a copy that never became one
        descriptor = os.open(data_file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            pages = Pages(descriptor, meta)
            self._learn_stale(pages)
            self._search_orphans(pages, self._search_entries(pages))
        except OSError as error:
            raise StoreIO(f"{data_file.parent.name}/{data_file.name}: {error.strerror}") from error
        finally:
            os.close(descriptor)

    def _learn_stale(self, pages: Pages) -> None:
        """Records that only an old page has: they were never committed, or are of another history."""
        log = self._store.log
        for found in pages.walk(SEQ_KEY_BYTES, lambda done, of: self._step("records", done, of)):
            if not isinstance(found, Entry) or not 0 < (seq := key_seq(found.key)) <= MAX_SEQ:
                continue
            with self._store.env.read() as txn, suppress(DamagedRecord):
                if log.raw(txn, seq) == found.value:
                    continue
            with suppress(DamagedRecord):
                for part, owner in _owned(seq, decode_value(seq, found.value).event).items():
                    if (seq, part) not in self._stale and len(self._stale) >= _REMEMBERED:
                        self._cut = True
                        continue
                    known = self._stale.setdefault((seq, part), [])
                    if owner not in known:
                        known.append(owner)

    def _search_entries(self, pages: Pages) -> list[Overflow]:
        """Try all that stands in leaves; the overflow pages that no leaf explains."""
        overflows: list[Overflow] = []
        explained: set[int] = set()
        waiting: list[_Candidate] = []
        size = 0
        for found in pages.walk(SEALED_KEY_BYTES, lambda done, of: self._step("pages", done, of)):
            if isinstance(found, Overflow):
                overflows.append(found)
                continue
            rows, is_explained = self._candidates(found)
            if is_explained:
                explained.add(found.overflow)
            waiting += rows
            size += sum(len(row[3]) for row in rows)
            if len(waiting) >= _STEP_ROWS or size >= _STEP_BYTES:
                self._try(waiting)
                waiting, size = [], 0
        self._try(waiting)
        return [each for each in overflows if each.number not in explained]

    def _candidates(self, entry: Entry) -> tuple[list[_Candidate], bool]:
        """`(what is to be tried, whether the value is what its owner's record says)`: nothing when it stands in
        `sealed` like that, or was tried before."""
        seq, part = key_seq(entry.key[:SEQ_KEY_BYTES]), entry.key[-1]
        if not 0 < seq <= MAX_SEQ:
            return [], False
        with self._store.env.read() as txn:
            owner = self._owner(txn, seq, part)
            is_row = self._store.log.sealed(txn, seq, part) == entry.value
        stale = self._stale.get((seq, part), [])
        if is_row and (owner is not None or not stale):
            return [], True
        owners = stale if owner is None else [owner, *stale]
        digest = sealed_digest(entry.value) if owners else b""
        is_explained = any(each.part.digest == digest for each in owners)
        if not entry.sure and not is_explained:  # what is no entry at all, or was cut, would count as a ciphertext
            return [], False
        if not self._is_new(seq, part, entry.value):
            return [], is_explained
        if not owners:
            return [(seq, part, None, entry.value)], False
        return [(seq, part, each, entry.value) for each in owners], is_explained

    def _is_new(self, seq: int, part: int, sealed: bytes) -> bool:
        """Whether it wasn't tried lately: one entry stands in many old copies of its page."""
        mark = hash((seq, part, sealed))
        if mark in self._seen:
            return False
        if len(self._seen) >= _REMEMBERED:
            self._seen.clear()
        self._seen.add(mark)
        return True

    # --- overflow pages without a leaf -----------------------------------------------------------------

    def _search_orphans(self, pages: Pages, orphans: list[Overflow]) -> None:
        if not orphans:
            return
        spans = {each.pages for each in orphans}
        by_digest: dict[bytes, tuple[int, _Owner]] = {}
        for seq, owner in self._large(pages, spans):
            by_digest[owner.part.digest] = (seq, owner)
            if len(by_digest) >= _REMEMBERED:
                self._try_orphans(pages, orphans, by_digest)
                by_digest = {}
        if by_digest:
            self._try_orphans(pages, orphans, by_digest)

    def _try_orphans(self, pages: Pages, orphans: list[Overflow], by_digest: dict[bytes, tuple[int, _Owner]]) -> None:
        """Those that are one of these parts."""
        lengths: dict[int, set[int]] = {}
        for _, owner in by_digest.values():
            sealed_bytes = owner.part.length + _SEALING_BYTES
            lengths.setdefault(pages.span(sealed_bytes), set()).add(sealed_bytes)
        for done, orphan in enumerate(orphans):
            self._step("overflows", done, len(orphans))
            content = pages.content(orphan)
            for sealed_bytes in sorted(lengths.get(orphan.pages, ())):
                sealed = content[:sealed_bytes]
                known = by_digest.get(sealed_digest(sealed))
                if known is not None:
                    seq, owner = known
                    if self._is_new(seq, owner.part.part, sealed):
                        self._try([(seq, owner.part.part, owner, sealed)])
                    break

    def _large(self, pages: Pages, spans: set[int]) -> Iterator[tuple[int, _Owner]]:
        """The parts of records, also of old ones, whose ciphertexts span as many pages as one of these."""
        stale = ((seq, owner) for (seq, _), owners in self._stale.items() for owner in owners)
        for seq, owner in chain(stale, self._of_records("overflows")):
            if pages.span(owner.part.length + _SEALING_BYTES) in spans:
                yield seq, owner

    def _of_records(self, phase: str) -> Iterator[tuple[int, _Owner]]:
        """The parts of all records that can be read."""
        head = self._store.log.head().seq
        for first in range(1, head + 1, _STEP_ROWS):
            self._step(phase, min(first, head), head)
            owned: list[tuple[int, _Owner]] = []
            with self._store.env.read() as txn:
                for seq in range(first, min(head, first + _STEP_ROWS - 1) + 1):
                    with suppress(DamagedRecord):
                        record = self._store.log.get(txn, seq)
                        if record is not None:
                            owned += [(seq, owner) for owner in _owned(seq, record.event).values()]
            yield from owned


def _owned(seq: int, event: object) -> dict[int, _Owner]:
    """The parts that a record has sealed itself."""
    memory = (event.kind, event.id) if isinstance(event, MemoryCreated) else getattr(event, "memory", None)
    parts: tuple[SealedPart, ...] = getattr(event, "parts", ())
    return {part.part: _Owner(part, memory) for part in parts if part.owner_seq == seq and part.slot}


def _left_vaults(root: Path, store_id: bytes) -> Iterator[Vault]:
    """Vaults that an interrupted change of the master key left: what they hold plain is a key too. One that is none, or
    needs a master key that is not here, opens nothing."""
    for path in sorted(root.glob(f"{_VAULT}*{NEW_SUFFIX}")):
        with suppress(DamagedStore, ForeignStore, MasterKeyFault):
            yield Vault.open(path, store_id, readonly=True)


def _is_of_a_journal(name: str) -> bool:
    return name == _JOURNAL or (name.startswith(_JOURNAL) and name.endswith(NEW_SUFFIX))

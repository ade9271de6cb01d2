"""Backups of a store that a test has open: no daemon, so the test itself is the writer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from daemon import repurging
from journal.backup import Place, Source, Step, back_up
from journal.events import SealedPart
from journal.keycheck import check_keys
from journal.manifest import PARTS, Manifest
from journal.purges import Directive, read_purges
from journal.restoring import Outcome, Wanted, restore
from journal.store import Store, purge_parts
from journal.vault import SlotState
from journal.verify import verify_state
from tests.journal.test_store import body, opened, purged, read

AT = "2026-11-30T00:00:00.000Z"
NOW_MS = 1_800_000_000_000


class Stop(Exception):
    """What a step raises that is to end the work."""


def nothing(*_told: Any) -> None:
    """A step that goes on."""


def place_of(store: Store) -> Place:
    return Place(store.log.head(), store.log.state)


def backed_up(
    store: Store,
    directory: Path | str,
    parts: Iterable[str] = PARTS,
    step: Step = nothing,
    place: Callable[[], Place] | None = None,
) -> Manifest:
    source = Source(store, "test", lambda: AT, place or (lambda: place_of(store)), step, lambda: False)
    return back_up(source, str(directory), parts).manifest


def restored(
    root: Path,
    backup: Path,
    directives: Iterable[Directive] = (),
    step: Step = nothing,
    vault_from: Path | None = None,
) -> Outcome:
    """By the daemon's way of purging: with `directives` the journal must be one that can be folded."""
    return restore(root, Wanted(backup, vault_from, tuple(directives), "test", NOW_MS, repurging.again), step)


def purge(store: Store, part: SealedPart) -> int:
    """Destroy a memory that `remember` made; the number of the PURGE."""
    seq = store.log.head().seq + 1
    purge_parts(store, [body(seq, purged(part))], [], store.log.state)
    return seq


class StopAt:
    """A step that ends the work when it is asked the `number`th time (from 0)."""

    def __init__(self, number: int) -> None:
        self._left = number

    def __call__(self, *_told: Any) -> None:
        self._left -= 1
        if self._left < 0:
            raise Stop


def files_in(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes() for path in directory.rglob("*") if path.is_file()
    }


def raw_record(store: Store, seq: int) -> Any:
    with store.env.read() as txn:
        record = store.log.get(txn, seq)
    assert record is not None
    return record


def with_vault_next(store: Store, seq: int) -> Any:
    """The state of a journal whose newest owner is record `seq`."""
    return msgspec.structs.replace(store.log.state, vault_next=store.vault.next_slot, owner_seq=seq)


def directives_of(store: Store) -> tuple[Directive, ...]:
    return read_purges(store.dir.purges_file).directives


def assert_sound(root: Path) -> None:
    """A walk finds nothing, an opening finds nothing, and neither does a look at the keys."""
    assert verify_state(root).findings == ()
    store = opened(root)
    try:
        assert store.findings == [] and check_keys(store.log, store.vault) == []
    finally:
        store.close(clean=True)
    assert verify_state(root).findings == ()


def plaintexts(root: Path, parts: list[SealedPart]) -> list[bytes | None]:
    """Of each part what it reads as, None when its key is shredded; under every key of the vault."""
    store = opened(root)
    try:
        found: list[bytes | None] = []
        for part in parts:
            shredded = store.vault.state(part.slot) is SlotState.SHREDDED
            found.append(None if shredded else read(store, part))
        return found
    finally:
        store.close(clean=True)

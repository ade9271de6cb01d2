"""From a state directory to what can be served: the store after all its checks, then its projections.

Order (contract §3.4): every check of the journal and of what the projections say about it, the store's first
writes, then the fold: from the copy if the machine went down, of those projections alone that another version folded.
The walk that precedes them and the fold may take long: whoever waits may end both, and is told how far the fold is.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import structlog

from daemon.wire.results import RecoveryOut
from journal.creating import create_store, remove_leftovers
from journal.errors import StoreAbsent
from journal.layout import StateDir, read_boot_id
from journal.log import Log
from journal.masterkey import PLAIN, Keys
from journal.space import make_way
from journal.store import Store, Walk, open_store
from journal.verify import ShouldStop
from projections import watermark
from projections.copy import take_copy
from projections.rows import DamagedRow
from projections.scrub import INLINE_ENTRIES, entries, scrub
from projections.store import Progress, ProjectionStore
from projections.tables import PROJECTIONS
from projections.trust import is_of_another_boot, may_be_trusted

T = TypeVar("T")
log = structlog.get_logger("opening")
FOLDED_BYTES = 4096
"""More than a record adds to the projections."""


def open_journal(
    state: Path,
    version: str,
    now_ms: int,
    check_all: bool = False,
    should_stop: ShouldStop | None = None,
    keys: Keys = PLAIN,
) -> Store:
    """The store, made if there is none, after its checks and first writes. Raises NoctuaryFault, WalkStopped.

    `check_all`: every record is checked, not only the newest. `should_stop` is asked while a child walks the journal,
    which it does first when the projections are to be folded from the start: pages out of order can kill a reader.
    `keys`: with the master key, which a store that is made gets too.
    """
    directory, boot_id = StateDir(state).projections_dir, read_boot_id()

    def walk_first() -> bool:
        return check_all or not may_be_trusted(directory, boot_id)

    def opened(walk: Walk) -> Store:
        check = partial(_check_projections, directory, boot_id)
        return open_store(state, version=version, now_ms=now_ms, check_projections=check, walk=walk, keys=keys)

    try:
        return opened(Walk(walk_first, should_stop))
    except StoreAbsent:
        create_store(state, keys.master)
        return opened(Walk(None, should_stop))


def journal_for_rebuilding(state: Path) -> Store:
    """The store in `state`, walked and checked, to be read only; what the projections say about it is checked too. It
    takes no master key: a fold reads no content.

    Raises NoctuaryFault.
    """
    check = partial(_check_projections, StateDir(state).projections_dir, read_boot_id())
    walk, keys = Walk(lambda: True), Keys(keyless=True)
    return open_store(state, version="", now_ms=0, readonly=True, check_projections=check, walk=walk, keys=keys)


def _check_projections(directory: Path, boot_id: bytes, journal: Log) -> bool:
    """Whether they can be gone on with. Raises DamagedStore when they say that the journal is not what it was."""
    if watermark.peek(directory, boot_id) is None:
        return False
    watermark.check(directory, boot_id, journal)
    return True


def open_projections(store: Store, progress: Progress | None = None) -> tuple[ProjectionStore, RecoveryOut]:
    """The projections, caught up with the journal. Raises DamagedStore, StoreIO."""
    return open_served(store, lambda projections: projections, progress)


def open_served(
    store: Store, serve: Callable[[ProjectionStore], T], progress: Progress | None = None
) -> tuple[T, RecoveryOut]:
    """What `serve` makes of the projections, once they are caught up. Where a value is damaged, for the fold or for
    `serve`, they are folded anew, once.

    Raises DamagedStore, StoreIO, and what `serve` and `progress` raise; the projections are closed then.
    """
    try:
        return _served(store, serve, progress)
    except DamagedRow as damage:
        log.warning("folding_anew", database=damage.database)
    return _served(store, serve, progress)


def _served(store: Store, serve: Callable[[ProjectionStore], T], progress: Progress | None) -> tuple[T, RecoveryOut]:
    started = time.monotonic()
    _start_from_copy(store)
    projections = ProjectionStore.open(store.dir.projections_dir, store.boot_id)
    try:
        before_seq, rebuilt = _catch_up(store, projections, progress)
        recovery = RecoveryOut(
            clean=store.clean,
            boot_changed=store.boot_changed,
            from_seq=before_seq + 1,
            to_seq=projections.head.seq,
            rebuilt=rebuilt,
            took_ms=int((time.monotonic() - started) * 1000),
        )
        return serve(projections), recovery
    except BaseException as error:
        if isinstance(error, DamagedRow):
            projections.distrust()
        projections.close(False)
        raise


def _start_from_copy(store: Store) -> None:
    """Projections of another boot are never opened: the copy takes their place when it verifies. Those that are gone or
    distrusted are folded from the journal, and the copy that was made of them goes too."""
    directory = store.dir.projections_dir
    if may_be_trusted(directory, store.boot_id):
        return
    if not is_of_another_boot(directory, store.boot_id):
        remove_leftovers([path for path in [store.dir.projections_copy_dir] if os.path.lexists(path)])
        return
    reason = take_copy(store.dir, store.boot_id, store.log)
    if reason is not None:
        log.warning("copy_not_used", reason=reason)


def _catch_up(store: Store, projections: ProjectionStore, progress: Progress | None) -> tuple[int, list[str]]:
    """`(the record they stood at before, what was folded anew)`. Raises DamagedRow."""
    before_seq = projections.head.seq
    rebuilt = projections.stale()
    behind = store.log.head().seq - (0 if rebuilt else before_seq)
    make_way(store.dir.root, store.dir.reserve_file, behind * FOLDED_BYTES)
    if rebuilt:
        log.warning("other_version", rebuilt=rebuilt)
        projections.fold_anew(store.log, rebuilt, progress)
    if before_seq and entries(projections.env) <= INLINE_ENTRIES:
        scrub(projections.env)
    projections.catch_up(store.log, progress)
    if not before_seq and store.found_seq:
        rebuilt = list(PROJECTIONS)
    return before_seq, rebuilt


def open_all(state: Path, version: str, now_ms: int, keys: Keys = PLAIN) -> tuple[Store, ProjectionStore, RecoveryOut]:
    """Everything at rest, opened and caught up. Raises NoctuaryFault."""
    store = open_journal(state, version, now_ms, keys=keys)
    try:
        projections, recovery = open_projections(store)
    except BaseException:
        store.close(False)
        raise
    return store, projections, recovery

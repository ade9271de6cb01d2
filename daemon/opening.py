"""From a state directory to what can be served: the store after all its checks, then its projections.

Order (contract §3.4): every check of the journal and of what the projections say about it, the store's first
writes, then the fold. The walk that precedes them and the fold may take long: whoever waits may end both, and is
told how far the fold is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from daemon.wire.results import RecoveryOut
from journal.errors import StoreAbsent
from journal.layout import StateDir, read_boot_id
from journal.log import Log
from journal.space import make_way
from journal.store import Store, Walk, create_store, open_store
from journal.verify import ShouldStop
from projections.rows import DamagedRow
from projections.scrub import INLINE_ENTRIES, entries, scrub
from projections.store import ProjectionStore, check_watermark, may_be_trusted, peek_watermark
from projections.tables import PROJECTIONS

FOLDED_BYTES = 4096
"""More than a record adds to the projections."""

Progress = Callable[[int, int], None]
"""Called with the record that is folded and the one to be reached. What it raises ends the fold."""


def open_journal(
    state: Path, version: str, now_ms: int, check_all: bool = False, should_stop: ShouldStop | None = None
) -> Store:
    """The store, made if there is none, after its checks and first writes. Raises NoctuaryFault, WalkStopped.

    `check_all`: every record is checked, not only the newest. `should_stop` is asked while a child walks the journal,
    which it does first when the projections are to be folded from the start: pages out of order can kill a reader.
    """
    directory, boot_id = StateDir(state).projections_dir, read_boot_id()

    def walk_first() -> bool:
        return check_all or not may_be_trusted(directory, boot_id)

    def check_projections(log: Log) -> bool:
        if peek_watermark(directory, boot_id) is None:
            return False
        check_watermark(directory, boot_id, log)
        return True

    def opened(walk: Walk) -> Store:
        return open_store(state, version=version, now_ms=now_ms, check_projections=check_projections, walk=walk)

    try:
        return opened(Walk(walk_first, should_stop))
    except StoreAbsent:
        create_store(state)
        return opened(Walk(None, should_stop))


def open_projections(store: Store, progress: Progress | None = None) -> tuple[ProjectionStore, RecoveryOut]:
    """The projections, caught up with the journal. Those whose values are damaged are folded anew, once.

    Raises DamagedStore, StoreIO.
    """
    started = time.monotonic()
    try:
        projections, before_seq = _caught_up(store, progress)
    except DamagedRow:
        projections, before_seq = _caught_up(store, progress)
    rebuilt = before_seq == 0 and store.found_seq > 0
    recovery = RecoveryOut(
        clean=store.clean,
        boot_changed=store.boot_changed,
        from_seq=before_seq + 1,
        to_seq=projections.head.seq,
        rebuilt=list(PROJECTIONS) if rebuilt else [],
        took_ms=int((time.monotonic() - started) * 1000),
    )
    return projections, recovery


def _caught_up(store: Store, progress: Progress | None) -> tuple[ProjectionStore, int]:
    """`(projections, the record they stood at before)`. Raises DamagedRow: they are distrusted then."""
    projections = ProjectionStore.open(store.dir.projections_dir, store.boot_id)
    before_seq = projections.head.seq
    try:
        if before_seq and entries(projections.env) <= INLINE_ENTRIES:
            scrub(projections.env)
        behind = store.log.head().seq - before_seq
        make_way(store.dir.root, store.dir.reserve_file, behind * FOLDED_BYTES)
        projections.catch_up(store.log, progress)
    except BaseException as error:
        if isinstance(error, DamagedRow):
            projections.distrust()
        projections.close(False)
        raise
    return projections, before_seq


def open_all(state: Path, version: str, now_ms: int) -> tuple[Store, ProjectionStore, RecoveryOut]:
    """Everything at rest, opened and caught up. Raises NoctuaryFault."""
    store = open_journal(state, version, now_ms)
    try:
        projections, recovery = open_projections(store)
    except BaseException:
        store.close(False)
        raise
    return store, projections, recovery

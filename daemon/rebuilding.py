"""rebuild: projections folded anew beside a daemon that serves, and put in the place of those in use.

Method: a child folds up to the head as it was, again while many records were written meanwhile; this process folds
the few that are missing then; the last of them between two batches of the writer, where the names on the disk are
swapped and the live store adopts the new environment. Readers are never stopped, and writes wait for the last records
only. Until the swap all that was made is under the new name, and whatever ends it leaves nothing.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import structlog

from daemon.asking import Asking
from daemon.failures import refusal_of
from daemon.refolding import ALL, FoldFailed, fold_beside, go_on
from daemon.refusal import Reason, Refused
from daemon.wire import exchange_results as r
from journal.errors import NoctuaryFault
from journal.layout import new_path
from projections.copy import remove_copy
from projections.store import ProjectionStore
from projections.swap import remove_new, take_place

if TYPE_CHECKING:
    from daemon.service import Service

FEW_RECORDS = 256
"""So many are folded while writes wait: some milliseconds."""
CHILD_RECORDS = 20_000
"""For so many a child is worth its start."""
ROUNDS = 64
RETRY_MS = 1000

log = structlog.get_logger("rebuilding")


def rebuild(service: Service, params: Any, asking: Asking) -> r.RebuildResult:
    """Fold `params.what` anew. Raises Refused: then nothing has changed."""
    started = time.monotonic()
    projections = ALL if params.what == "all" else (params.what,)
    state_dir = service.store.dir
    _require_room(service)
    try:
        rebuilt = _folded(service, projections, asking)
        _take(service, rebuilt, asking)
    except FoldFailed as failed:
        raise _refusal(service, failed) from failed
    except (NoctuaryFault, OSError) as error:
        raise _unexpected(service, error) from error
    finally:
        remove_new(state_dir.projections_dir)
        service.store.env.check_readers()  # of a child that was ended
    took_ms = int((time.monotonic() - started) * 1000)
    log.info("rebuilt", rebuilt=list(rebuilt), took_ms=took_ms)
    return r.RebuildResult(rebuilt=list(rebuilt), took_ms=took_ms)


def _require_room(service: Service) -> None:
    """What is folded anew takes as much as what is in use, and pages that were freed on the way. Raises Refused."""
    used_bytes = service.projections.env.used_bytes()
    space = service.space.room_for(used_bytes + used_bytes // 2 + service.space.read_only_below)
    if not space.enough:
        raise Refused(
            Reason.READ_ONLY, "there is no room to fold beside what is in use",
            free_bytes=space.free_bytes, needed_bytes=space.needed_bytes, retry_after_ms=RETRY_MS,
        )  # fmt: skip


def _folded(service: Service, projections: Collection[str], asking: Asking) -> tuple[str, ...]:
    """Have a child fold near to the head; what was folded anew. Raises FoldFailed, Refused, OSError."""
    store = service.store

    def told(seq: int, to_seq: int) -> None:
        _check_room(service)
        if to_seq:
            asking.step("fold", seq, to_seq)
        else:
            asking.check()

    to_seq = store.log.head().seq
    asking.step("fold", 0, to_seq)
    rebuilt = fold_beside(store.dir, to_seq, projections, told)
    for _ in range(ROUNDS):
        reached, to_seq = to_seq, store.log.head().seq
        if to_seq - reached <= CHILD_RECORDS:
            break
        go_on(store.dir, to_seq, told)
    return rebuilt


def _check_room(service: Service) -> None:
    """The fold ends before it makes the store read-only. Raises Refused."""
    space = service.space.room_for(service.space.read_only_below)
    if not space.enough:
        raise _disk_full(space.free_bytes, space.needed_bytes)


def _take(service: Service, rebuilt: Collection[str], asking: Asking) -> None:
    """Open what was folded, bring it near to the journal's head, and swap. Raises Refused, NoctuaryFault, OSError."""
    store = service.store
    fresh = ProjectionStore.open(new_path(store.dir.projections_dir), store.boot_id)
    try:
        for _ in range(ROUNDS):
            to_seq = store.log.head().seq
            if to_seq - fresh.head.seq <= FEW_RECORDS:
                break
            fresh.catch_up(store.log, lambda seq, to_seq: asking.step("catch_up", seq, to_seq), to_seq)
            _check_room(service)
        _swap(service, fresh, rebuilt, asking)
    except BaseException:
        if service.projections.env is not fresh.env:
            fresh.close(False)  # at once: what failed may be held for long, and a path is open once in a process
        raise


def _swap(service: Service, fresh: ProjectionStore, rebuilt: Collection[str], asking: Asking) -> None:
    """Put it in the place of what is in use, between two batches. Raises Refused, NoctuaryFault, OSError."""
    live, log, state_dir = service.projections, service.store.log, service.store.dir

    def swap() -> None:
        fresh.catch_up(log)
        take_place(state_dir.projections_dir)
        live.adopt(fresh, rebuilt)

    asking.step("swap", 0, 1)
    service.writer.between(swap)
    remove_copy(state_dir.projections_copy_dir)  # it was made of what is no longer believed


def _refusal(service: Service, failed: FoldFailed) -> Refused:
    if failed.seq is not None:
        return Refused(Reason.DAMAGED, "the journal is damaged; run `noctuary audit`", seq=failed.seq or None)
    space = service.space.room_for(service.space.read_only_below)
    if failed.is_io and not space.enough:
        return _disk_full(space.free_bytes, space.needed_bytes)
    return Refused(Reason.UNAVAILABLE, f"{failed}; nothing has changed", retry_after_ms=RETRY_MS)


def _unexpected(service: Service, error: Exception) -> Refused:
    space = service.space.room_for(service.space.read_only_below)
    if not space.enough:
        return _disk_full(space.free_bytes, space.needed_bytes)
    return refusal_of("rebuild", error)


def _disk_full(free_bytes: int, needed_bytes: int) -> Refused:
    return Refused(
        Reason.READ_ONLY, "the disk became too full to fold beside what is in use; nothing has changed",
        free_bytes=free_bytes, needed_bytes=needed_bytes, retry_after_ms=RETRY_MS,
    )  # fmt: skip

"""rebuild: projections folded anew beside a daemon that serves, and put in the place of those in use.

Method: a child folds up to the head as it was, again while many records were written meanwhile; this process folds
the few that are missing then; the last of them between two batches of the writer, where the names on the disk are
swapped and the live store adopts the new environment. Readers are never stopped, and writes wait for the last records
only: when too many are missing as its turn comes, it folds them beside the writer and asks for another turn.

The names that decide writes are warmed anew beside those in use when what they are read from was folded, with what
batches teach meanwhile laid over them. The columns are filled again behind it: until then lists read their snapshot.

Until the new files have their name all that was made is under the new one, and whatever ends it leaves nothing. From
then on nothing is raised: what can't be cleaned up, or synced, is logged.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import lmdb
import structlog

from daemon.asking import Asking
from daemon.failures import log_failure, refusal_of
from daemon.refolding import ALL, FoldFailed, fold_beside, go_on
from daemon.refusal import Reason, Refused
from daemon.wire import exchange_results as r
from journal.errors import NoctuaryFault
from journal.layout import new_path
from journal.verify import Finding
from projections.filling import PAUSE_S
from projections.rows import DamagedRow
from projections.store import ProjectionStore
from projections.swap import remove_copy, remove_new, take_place
from projections.trust import data_bytes
from projections.warming import warm
from projections.workingset import WorkingSet

if TYPE_CHECKING:
    from daemon.service import Service

FEW_RECORDS = 256
"""So many are folded while writes wait: some milliseconds. Doubled each `MORE_AFTER` turns in which more had come."""
MORE_AFTER = 16
CHILD_RECORDS = 20_000
"""For so many a child is worth its start."""
ROUNDS = 64
RETRY_MS = 1000
_NAMED = frozenset({"names", "sessions", "memories"})
"""The projections that the working set's names are warmed from."""

log = structlog.get_logger("rebuilding")


def rebuild(service: Service, params: Any, asking: Asking) -> r.RebuildResult:
    """Fold `params.what` anew. Raises Refused: then what is answered from has not changed."""
    started = time.monotonic()
    projections = ALL if params.what == "all" else (params.what,)
    require_room(service)
    try:
        rebuilt = _folded(service, projections, asking)
        take(service, rebuilt, asking)
    except FoldFailed as failed:
        raise _refusal(service, failed) from failed
    except (NoctuaryFault, DamagedRow, OSError) as error:
        raise _unexpected(service, error) from error
    finally:
        _clean_up(service)
    took_ms = int((time.monotonic() - started) * 1000)
    log.info("rebuilt", rebuilt=list(rebuilt), took_ms=took_ms)
    return r.RebuildResult(rebuilt=list(rebuilt), took_ms=took_ms)


def _clean_up(service: Service) -> None:
    """What fails here changes nothing that was answered, nor what is answered from: it is logged."""
    try:
        remove_new(service.store.dir.projections_dir)
        service.store.env.check_readers()  # of a child that was ended
    except (OSError, lmdb.Error) as error:
        log_failure("not_cleaned_up", error)


def require_room(service: Service) -> None:
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


def take(service: Service, rebuilt: Collection[str], asking: Asking) -> None:
    """Open what was folded, bring it near to the journal's head, and swap. Raises Refused, NoctuaryFault, OSError."""
    store = service.store
    fresh = ProjectionStore.open(new_path(store.dir.projections_dir), store.boot_id)
    try:
        names = None if _NAMED.isdisjoint(rebuilt) else _named(service, fresh, asking)
        for turn in range(ROUNDS):
            few = FEW_RECORDS << turn // MORE_AFTER
            if store.log.head().seq - fresh.head.seq > few:
                _go_on(service, fresh, asking)
            if names is not None:
                service.names.teach(names)
            asking.step("swap", 0, 1)
            if _swap(service, fresh, rebuilt, names, few):
                return
        raise Refused(
            Reason.UNAVAILABLE, "writes come faster than they are folded; nothing has changed", retry_after_ms=RETRY_MS
        )
    except BaseException:
        if service.projections.env is not fresh.env:
            fresh.close(False)  # at once: what failed may be held for long, and a path is open once in a process
        raise
    finally:
        service.names.keep_no_more()


def _go_on(service: Service, fresh: ProjectionStore, asking: Asking) -> None:
    """Fold up to the journal's head as it is now. Raises Refused, NoctuaryFault."""
    journal = service.store.log
    fresh.catch_up(journal, lambda seq, to_seq: asking.step("catch_up", seq, to_seq), journal.head().seq)
    _check_room(service)


def _named(service: Service, fresh: ProjectionStore, asking: Asking) -> WorkingSet:
    """The names as of a record behind which all that batches teach is kept. It breathes, as `Filling` does.

    Raises Refused, NoctuaryFault, DamagedRow.
    """

    def step() -> None:
        asking.check()
        time.sleep(PAUSE_S)

    service.names.keep()
    _go_on(service, fresh, asking)
    made = WorkingSet()
    warm(made, service.store, fresh, service.moment.now_ms(), step)
    return made


def _swap(
    service: Service, fresh: ProjectionStore, rebuilt: Collection[str], names: WorkingSet | None, few: int
) -> bool:
    """Put it in the place of what is in use, between two batches; False, when more than `few` records were missing as
    its turn came. Raises Refused, NoctuaryFault, OSError.
    """
    journal = service.store.log

    def swap() -> bool:
        if journal.head().seq - fresh.head.seq > few:
            return False
        fresh.catch_up(journal)
        if fresh.head != service.projections.head:
            raise Refused(Reason.UNAVAILABLE, "what was folded stands at another record; nothing has changed")
        if names is not None:
            service.names.teach(names)
        _exchange(service, fresh, rebuilt)
        if names is not None:
            service.names.renew(names)
        return True

    return service.writer.between(swap)


def _exchange(service: Service, fresh: ProjectionStore, rebuilt: Collection[str]) -> None:
    """The names on the disk, and what is answered from. Raises OSError: then the latter is what it was."""
    live, state_dir = service.projections, service.store.dir
    with live.place:
        remove_copy(state_dir.projections_copy_dir)  # first: a crash must not leave it to be believed again
        try:
            unsynced = take_place(state_dir.projections_dir)
        except OSError:
            if not data_bytes(state_dir.projections_dir):  # what is in use has lost its name: it is folded anew
                live.note_damage("projections")
            raise
        live.adopt(fresh, rebuilt)
        if "memories" in rebuilt:
            service.columns.forget()  # they hold header rows of before; `Filling` loads them again
    if unsynced is not None:
        log_failure("not_synced", unsynced)


def _refusal(service: Service, failed: FoldFailed) -> Refused:
    if failed.seq is not None:
        service.store.note(Finding("record_damaged", failed.seq or None, str(failed), "Run `noctuary audit`."))
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

"""What looks after the projections while the daemon serves: one thread, nothing to do most of the time.

A damaged value that anybody met has its projection folded anew at once, by the same way as `rebuild`; all of them when
more than one is damaged. If it fails, or damage is met again soon after, the next try waits longer. A copy of the
projections is left for the next boot whenever enough was written since the last. And when the day is over, the day
partitions of tenants that write nothing are sealed. Whatever goes wrong here is logged,
and tried again later: the thread ends when it is told to, not before.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import lmdb
import structlog

from daemon.caller import Caller
from daemon.children import DEADLY, follow
from daemon.failures import log_failure
from daemon.refusal import Reason, Refused
from daemon.wire.exchange_params import RebuildParams
from journal.codes import CallerRole
from journal.environment import Environment
from journal.errors import StoreIO
from projections import tables
from projections.copy import copied_seq, take_name_of_copy
from projections.swap import remove_new

if TYPE_CHECKING:
    from daemon.service import Service

WAKE_S = 1.0
FIRST_PAUSE_S = 10.0
LONGEST_PAUSE_S = 3600.0
BUSY_PAUSE_S = 1.0
FAILED_PAUSE_S = 10.0
COPY_PAUSE_S = 600.0

log = structlog.get_logger("tending")


class Stopping(Exception):
    """The daemon stops: a child is to end."""


class Tending:
    """`start` and `stop` it. `copy_every_records` 0: no copies are made. `clock_s` never goes back."""

    def __init__(
        self, service: Service, copy_every_records: int, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock_s = clock_s
        self._service = service
        self._every = copy_every_records
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tending")
        self._heal_from = self._copy_from = self._roll_from = clock_s()
        self._rolled_day: int | None = None
        self._pause_s = FIRST_PAUSE_S

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End what it does, and the thread. A rebuild ends when the service's questions do."""
        self._ending.set()
        self._service.projections.noticed.set()
        self._thread.join()

    def _run(self) -> None:
        noticed = self._service.projections.noticed
        while not self._ending.is_set():
            noticed.wait(WAKE_S)
            noticed.clear()
            if self._ending.is_set():
                return
            try:
                self.look()
            except Exception as error:
                log_failure("tending_failed", error)
                self._ending.wait(FAILED_PAUSE_S)

    def look(self) -> None:
        """Do what is due. For its own thread, or for whoever never started it."""
        now = self._clock_s()
        if now >= self._roll_from:
            self._roll_over()
        projections = self._service.projections
        if projections.damaged:
            if now >= self._heal_from:
                self._heal(now)
        elif self._is_copy_due() and now >= self._copy_from:
            self._leave_copy()

    # --- days ----------------------------------------------------------------------------------------

    def _roll_over(self) -> None:
        """Seal the day partitions of tenants that write nothing, once a day. Where that can't be written it is tried
        again later."""
        moment = self._service.moment
        today = moment.local_day(moment.now_ms())
        if today == self._rolled_day:
            return
        try:
            self._service.roll_over()
            self._rolled_day = today
        except Refused as refused:
            log.warning("not_rolled_over", reason=refused.reason.wire)
            self._roll_from = self._clock_s() + FAILED_PAUSE_S

    # --- healing -------------------------------------------------------------------------------------

    def _heal(self, now: float) -> None:
        what = what_heals(self._service.projections.damaged)
        log.warning("healing", what=what)
        unmarked = self._service.projections.unmarked
        if unmarked is not None:
            log_failure("not_marked", unmarked)
        if now - self._heal_from > LONGEST_PAUSE_S:  # it was sound for long; a try that waited for its turn isn't that
            self._pause_s = FIRST_PAUSE_S
        caller = Caller(uid=os.geteuid(), role=CallerRole.OPERATOR)
        try:
            result = self._service.read("rebuild", RebuildParams(what=what), caller)
        except Refused as refused:
            if refused.reason is Reason.CONFLICT:
                self._heal_from = self._clock_s() + BUSY_PAUSE_S
                return
            log.error("not_healed", what=what, reason=refused.reason.wire)
        except Exception as error:
            log_failure("not_healed", error, what=what)
        else:
            log.info("healed", rebuilt=result.rebuilt, took_ms=result.took_ms)
        self._heal_from = self._clock_s() + self._pause_s
        self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)

    # --- the copy ------------------------------------------------------------------------------------

    def _is_copy_due(self) -> bool:
        if not self._every:
            return False
        head_seq = self._service.projections.head.seq
        return head_seq - copied_seq(self._service.store.dir.projections_copy_dir) >= self._every

    def _leave_copy(self) -> None:
        self._copy_from = self._clock_s() + COPY_PAUSE_S
        reason = leave_copy(self._service, self._should_go_on)
        if reason is None:
            self._copy_from = 0.0
            log.info("copied", to_seq=copied_seq(self._service.store.dir.projections_copy_dir))
        else:
            log.warning("not_copied", reason=reason)

    def _should_go_on(self) -> None:
        if self._ending.is_set():
            raise Stopping


def what_heals(damaged: set[str]) -> str:
    """What is to be folded anew when values of these databases are damaged."""
    owners = {name for name, databases in tables.PROJECTIONS.items() if not damaged.isdisjoint(databases)}
    unknown = not damaged <= set(tables.DATABASES)
    return "all" if unknown or len(owners) != 1 else owners.pop()


def leave_copy(service: Service, go_on: Callable[[], None]) -> str | None:
    """Leave a copy of the projections for the next boot; None, or why there is none, in one word. `go_on` raises
    Stopping to end it without one. Writes are not held up: a child reads one snapshot of what is in use.
    """
    env = service.projections.env
    try:
        return _copied(service, env, go_on)
    except Stopping:
        return "stopping"
    except (StoreIO, OSError) as error:
        log_failure("copy_failed", error)
        return "io"
    finally:
        _clean_up(service, env)


def _copied(service: Service, env: Environment, go_on: Callable[[], None]) -> str | None:
    """What `leave_copy` says of `env`. Raises StoreIO, OSError, and what `go_on` raises."""
    copy = service.store.dir.projections_copy_dir
    if not service.space.room_for(env.used_bytes() + service.space.read_only_below).enough:
        return "no_room"
    ended = follow("projections.copy", [str(env.path.resolve()), str(copy.resolve())], lambda _words: go_on())
    live = service.projections
    with live.place:  # a rebuild comes before this or behind it: what it discards is neither named nor blamed
        if live.env is not env:
            return "replaced"
        if ended.code == os.EX_DATAERR or -ended.code in DEADLY:
            database = ended.last[1] if ended.last[:1] == ("projection",) else ""
            live.note_damage(database if database in tables.DATABASES else "projections")
            return "damaged"
        if ended.code != os.EX_OK:
            return "io"
        if live.damaged:
            return "damaged"
        take_name_of_copy(copy)
    return None


def _clean_up(service: Service, env: Environment) -> None:
    """What fails here is done by the next copy, or the next start."""
    try:
        remove_new(service.store.dir.projections_copy_dir)
        env.check_readers()  # of a child that was ended
    except (OSError, lmdb.Error) as error:
        log_failure("not_cleaned_up", error)

"""The daemon process: opens the store, serves it, and ends in an orderly way.

Order: the socket's place is looked at; lock and store, with every check before the first write; the socket, which
answers for the daemon itself from here on; projections caught up and names warmed; the writer. The reverse at the
end: no new requests, what was read is answered, the writer ends, projections and store are closed clean. Only a
failed journal write ends it unclean, with exit 74, because what was being written may or may not be there.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import structlog

from daemon.config import Config, load_config
from daemon.counting import Counts
from daemon.exits import Exit
from daemon.failures import log_failure, log_what_nobody_catches
from daemon.front import Front
from daemon.keyfile import harden, master_keys
from daemon.listening import bind_listener, check_socket_path, name_of, passed_listener
from daemon.logs import configure_logs
from daemon.moment import Moment, system_clock_ms
from daemon.notifying import Notifier
from daemon.opening import open_journal, open_served
from daemon.reads.operator import Operator
from daemon.reloading import Reloading
from daemon.scrubbing import scrub_in_child
from daemon.server import Server
from daemon.service import Service
from daemon.supervising import Supervision
from daemon.switching import switching_loop
from daemon.tending import Tending
from daemon.wire.results import RecoveryOut
from journal.errors import NoctuaryFault
from journal.masterkey import Keys
from journal.space import SpaceGuard
from journal.store import Store
from journal.verify import WalkStopped
from projections.store import ProjectionStore

VERSION = "0.1.0"
WATCH_S = 0.2
COLLECT_EVERY = 5_000
"""New objects behind which circles of garbage are looked for. A few requests make Python's 700: what is in flight would
be gone through again and again."""
HEAD_EVERY_S = 600.0
SPACE_EVERY_S = 1.0

log = structlog.get_logger("daemon")


class Stopped(Exception):
    """The daemon was told to stop while it folded."""


class Daemon:
    """One run of the daemon. `load` makes the configuration anew at SIGHUP."""

    def __init__(self, config: Config, load: Callable[[], Config], check_all: bool) -> None:
        self._check_all = check_all
        self._config = config
        self._reloading = Reloading(config, load)
        self._counts = Counts()
        self._stop = asyncio.Event()
        self._supervision = Supervision(Notifier(), self._reloading, self._stop)

    async def run(self) -> int:
        """Serve until told to stop; the exit code. Raises NoctuaryFault."""
        log_what_nobody_catches(asyncio.get_running_loop())
        self._handle_signals()
        supervising = asyncio.create_task(self._supervision.run())
        supervising.add_done_callback(_log_its_failure)
        try:
            return await self._open_and_serve()
        finally:
            supervising.cancel()
            self._supervision.close()

    async def _open_and_serve(self) -> int:
        config = self._config
        passed = passed_listener()
        if passed is None:
            check_socket_path(Path(config.socket))
        with master_keys(config.master_key) as keys:
            return await self._open_store_and_serve(passed, keys)

    async def _open_store_and_serve(self, passed: socket.socket | None, keys: Keys) -> int:
        place = Path(self._config.state)
        arguments = (place, VERSION, system_clock_ms(), self._check_all, self._stop.is_set, keys)
        try:
            store = await asyncio.to_thread(open_journal, *arguments)
        except WalkStopped:  # nothing was written yet
            log.info("stopped", clean=True)
            return Exit.OK
        clean = False
        try:
            clean = await self._listen(store, passed)
        finally:
            self._supervision.closing()
            store.close(clean)
        return Exit.OK if clean else Exit.IO_ERROR

    async def _listen(self, store: Store, passed: socket.socket | None) -> bool:
        """Answer on the socket from here on; whether all ended well."""
        following = self._reloading
        config = following.config
        server = Server(following.peers, config.half_line_s, config.stuck_client_s, counts=self._counts)
        following.server = server
        where = config.socket if passed is None else name_of(passed)
        operator = Operator(store, VERSION, where, self._counts)
        self._supervision.folding(operator)
        front = Front(operator, self._counts)
        listener = passed or bind_listener(Path(config.socket), config.socket_gid)
        own = None if passed else os.stat(config.socket)
        await server.start(listener, front)
        try:
            return await self._fold_and_serve(store, server, front)
        finally:
            await server.stop(config.stop_within_s)
            if own is not None:
                _unlink_own(config.socket, own)

    async def _fold_and_serve(self, store: Store, server: Server, front: Front) -> bool:
        try:
            service, recovery = await asyncio.to_thread(self._make_service, store, server, front)
        except Stopped:
            log.info("stopped", clean=True)
            return True
        clean = False
        try:
            clean = await self._serve(service, recovery, server, front)
        finally:
            self._supervision.closing()
            service.projections.close(clean)
        return clean

    def _make_service(self, store: Store, server: Server, front: Front) -> tuple[Service, RecoveryOut]:
        """Fold, and warm what decides writes. Raises Stopped."""

        def progress(seq: int, to_seq: int) -> None:
            front.folding(seq, to_seq)
            self._check_going_on()

        def served(projections: ProjectionStore) -> Service:
            moment = Moment(system_clock_ms, self._config.zone, self._config.vacuum_threshold)
            return Service(
                store, projections, moment, server.deliver, self._config.node,
                self._space(store), self._counts, self._reloading.quotas, self._check_going_on,
            )  # fmt: skip

        return open_served(store, served, progress)

    def _check_going_on(self) -> None:
        """Raises Stopped when it is to end."""
        if self._stop.is_set():
            raise Stopped

    def _space(self, store: Store) -> SpaceGuard:
        space = SpaceGuard(store.dir.root, store.dir.reserve_file)
        self._reloading.space = space  # first: a reload between the two is not lost
        space.set_thresholds(self._reloading.config.read_only_below_bytes)
        return space

    async def _serve(self, service: Service, recovery: RecoveryOut, server: Server, front: Front) -> bool:
        service.start()
        gc.collect()
        gc.freeze()
        gc.set_threshold(COLLECT_EVERY)
        front.begin(service, recovery)
        log.info("ready", pid=os.getpid(), version=VERSION)
        _log_head(service.store)
        self._counts.folded_at_start = recovery.to_seq - recovery.from_seq + 1
        self._supervision.serving(service)
        scrubbing = asyncio.create_task(scrub_in_child(service.projections, recovery))
        tending = Tending(service, self._config.copy_every_records)
        tending.start()
        try:
            await self._until_stopped(service)
        finally:
            service.end_long_reads()
            scrubbing.cancel()
            await asyncio.to_thread(tending.stop)
            await server.stop(self._config.stop_within_s)
            service.stop()
        clean = service.writer.failed is None
        _log_head(service.store)
        log.info("stopped", clean=clean)
        return clean

    async def _until_stopped(self, service: Service) -> None:
        noted = measured = time.monotonic()
        read_only = False
        while not self._stop.is_set() and service.writer.failed is None:
            if time.monotonic() - noted >= HEAD_EVERY_S:
                noted = time.monotonic()
                _log_head(service.store)
                freed = service.store.env.check_readers() + service.projections.env.check_readers()
                self._counts.free_readers(freed)
            if time.monotonic() - measured >= SPACE_EVERY_S:
                space = await asyncio.to_thread(service.space.watch)  # the reserve's fsync is not for this thread
                measured = time.monotonic()
                if read_only is space.enough:
                    read_only = not space.enough
                    log.warning("read_only" if read_only else "writable_again", bytes=space.free_bytes)
            try:
                await asyncio.wait_for(self._stop.wait(), WATCH_S)
            except TimeoutError:
                continue

    def _handle_signals(self) -> None:
        """Not through the loop: at its end it would give the signals back to Python, and a second SIGTERM while
        everything is closed already would end the process with another code."""
        loop = asyncio.get_running_loop()

        def stop(_number: int, _frame: object) -> None:
            for each in (signal.SIGTERM, signal.SIGINT):
                signal.signal(each, signal.SIG_IGN)  # once is enough, however often it is said
            loop.call_soon_threadsafe(self._stop.set)

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)
        signal.signal(signal.SIGHUP, lambda _number, _frame: loop.call_soon_threadsafe(self._supervision.reload))


def _log_its_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log_failure("uncaught", error)


def _log_head(store: Store) -> None:
    """A head somebody else keeps is the only witness against a journal that was rewritten (`audit --against`)."""
    head = store.log.head()
    log.info("head", store=store.store_id.hex(), epoch=head.epoch, seq=head.seq, chain=head.chain.hex())


def _unlink_own(path: str, own: os.stat_result) -> None:
    try:
        if os.path.samestat(os.stat(path), own):
            os.unlink(path)
    except FileNotFoundError:
        pass


def run_daemon(config: Config, reload: Callable[[], Config] | None = None, *, check_all: bool = False) -> int:
    """Serve until told to stop; the exit code. `check_all`: the whole journal is checked first."""
    configure_logs(config.log_level)
    os.umask(0o077)
    harden()
    try:
        with asyncio.Runner(loop_factory=switching_loop) as runner:
            try:
                code = int(runner.run(_run(config, reload or load_config, check_all)))
            finally:
                for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                    signal.signal(number, signal.SIG_IGN)  # what was asked for is done
            return code
    except NoctuaryFault as fault:
        log.error("cannot_run", reason=fault.reason, error_class=type(fault).__name__)
        print(f"noctuary: {fault}", file=sys.stderr)
        return fault.exit_code
    except OSError as error:
        log.error("cannot_run", error_class=type(error).__name__, errno=error.errno)
        print(f"noctuary: {error.filename or 'I/O'}: {error.strerror}", file=sys.stderr)
        return Exit.IO_ERROR
    except Exception as error:
        log_failure("internal", error)
        print(f"noctuary: internal error, {type(error).__name__}; see the log", file=sys.stderr)
        return Exit.INTERNAL


async def _run(config: Config, reload: Callable[[], Config], check_all: bool) -> int:
    return await Daemon(config, reload, check_all).run()

"""The daemon process: opens the store, serves it, and ends in an orderly way.

Order: the socket's place is looked at; lock and store, with every check before the first write; the socket, which
answers for the daemon itself from here on; projections caught up and names warmed; the writer. The reverse at the
end: no new requests, what was read is answered, the writer ends, projections and store are closed clean. Only a
failed journal write ends it unclean, with exit 74, because what was being written may or may not be there.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog

from daemon.call import Call
from daemon.caller import Caller
from daemon.config import KEYS, RELOADABLE, Config, load_config
from daemon.exits import Exit
from daemon.failures import log_failure, log_what_nobody_catches
from daemon.logs import configure_logs
from daemon.moment import Moment, system_clock_ms
from daemon.opening import open_journal, open_projections
from daemon.peers import Peers
from daemon.reads.operator import Operator
from daemon.refusal import Reason, Refused
from daemon.server import Server, bind_listener, check_socket_path, passed_listener
from daemon.service import Service
from daemon.wire.results import RecoveryOut
from journal.errors import NoctuaryFault
from journal.store import Store
from journal.verify import WalkStopped
from projections.rows import DamagedRow
from projections.scrub import INLINE_ENTRIES, entries
from projections.store import ProjectionStore
from projections.tables import DATABASES

VERSION = "0.1.0"
WATCH_S = 0.2
FOLDING_RETRY_MS = 500
DEADLY_DAMAGE = frozenset({signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE})
"""What a page that is none does to who reads it; any other signal came from outside."""
SWITCH_INTERVAL_S = 0.0005
"""A question waits for the interpreter behind the writer's batch at most about this long, not Python's 5 ms."""
HEAD_EVERY_S = 600.0
SPACE_EVERY_S = 1.0
_PR_SET_DUMPABLE = 4

log = structlog.get_logger("daemon")


class Front:
    """What the socket sees: the daemon's own answers from the start, the service once it is there."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._service: Service | None = None

    def begin(self, service: Service, recovery: RecoveryOut) -> None:
        """From now on everything is answered."""
        self._operator.begin(service, recovery)
        self._service = service

    def submit(self, call: Call) -> None:
        self._serving().submit(call)

    def read(self, method: str, params: Any, caller: Caller, budget: int | None = None) -> Any:
        if method in Operator.METHODS:
            return self._operator.read(method, params, caller)
        return self._serving().read(method, params, caller, budget)

    def folding(self, seq: int, to_seq: int) -> None:
        """How far the fold is."""
        self._operator.folding(seq, to_seq)

    def _serving(self) -> Service:
        if self._service is None:
            raise Refused(
                Reason.UNAVAILABLE, "the projections are being folded from the journal",
                retry_after_ms=FOLDING_RETRY_MS,
            )  # fmt: skip
        return self._service


class Stopped(Exception):
    """The daemon was told to stop while it folded."""


class Daemon:
    """One run of the daemon. `reload` makes the configuration anew at SIGHUP."""

    def __init__(self, config: Config, reload: Callable[[], Config], check_all: bool) -> None:
        self._check_all = check_all
        self._config = config
        self._reload_config = reload
        self._peers = Peers(config.peers)
        self._stop = asyncio.Event()

    async def run(self) -> int:
        """Serve until told to stop; the exit code. Raises NoctuaryFault."""
        config = self._config
        log_what_nobody_catches(asyncio.get_running_loop())
        self._handle_signals()
        passed = passed_listener()
        if passed is None:
            check_socket_path(Path(config.socket))
        arguments = (Path(config.state), VERSION, system_clock_ms(), self._check_all, self._stop.is_set)
        try:
            store = await asyncio.to_thread(open_journal, *arguments)
        except WalkStopped:  # nothing was written yet
            log.info("stopped", clean=True)
            return Exit.OK
        clean = False
        try:
            clean = await self._listen(store, passed)
        finally:
            store.close(clean)
        return Exit.OK if clean else Exit.IO_ERROR

    async def _listen(self, store: Store, passed: socket.socket | None) -> bool:
        """Answer on the socket from here on; whether all ended well."""
        config = self._config
        server = Server(self._peers, config.half_line_s, config.stuck_client_s)
        where = config.socket if passed is None else str(passed.getsockname())
        front = Front(Operator(store, VERSION, where))
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
            service.projections.close(clean)
        return clean

    def _make_service(self, store: Store, server: Server, front: Front) -> tuple[Service, RecoveryOut]:
        """Fold, and warm what decides writes. Damaged values are folded anew, once. Raises Stopped."""
        try:
            return self._opened(store, server, front)
        except DamagedRow as damage:
            log.warning("folding_anew", database=damage.database)
        return self._opened(store, server, front)

    def _opened(self, store: Store, server: Server, front: Front) -> tuple[Service, RecoveryOut]:
        def progress(seq: int, to_seq: int) -> None:
            front.folding(seq, to_seq)
            if self._stop.is_set():
                raise Stopped

        config = self._config
        projections, recovery = open_projections(store, progress)
        moment = Moment(system_clock_ms, config.zone)
        try:
            return Service(store, projections, moment, server.deliver, config.node), recovery
        except BaseException as error:
            if isinstance(error, DamagedRow):
                projections.distrust()
            projections.close(False)
            raise

    async def _serve(self, service: Service, recovery: RecoveryOut, server: Server, front: Front) -> bool:
        service.start()
        gc.collect()
        gc.freeze()
        front.begin(service, recovery)
        log.info("ready", pid=os.getpid(), version=VERSION)
        _log_head(service.store)
        scrubbing = asyncio.create_task(_scrub_in_child(service.projections, recovery))
        try:
            await self._until_stopped(service)
        finally:
            service.end_long_reads()
            scrubbing.cancel()
            await server.stop(self._config.stop_within_s)
            service.stop()
        clean = service.writer.failed is None
        _log_head(service.store)
        log.info("stopped", clean=clean)
        return clean

    async def _until_stopped(self, service: Service) -> None:
        noted = measured = time.monotonic()
        while not self._stop.is_set() and service.writer.failed is None:
            if time.monotonic() - noted >= HEAD_EVERY_S:
                noted = time.monotonic()
                _log_head(service.store)
                service.store.env.check_readers()
                service.projections.env.check_readers()
            if time.monotonic() - measured >= SPACE_EVERY_S:
                await asyncio.to_thread(service.space.watch)  # the reserve's fsync is not for this thread
                measured = time.monotonic()
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
        signal.signal(signal.SIGHUP, lambda _number, _frame: loop.call_soon_threadsafe(self._reload))

    def _reload(self) -> None:
        """Peers count at once, for open connections too; of the rest is said that it needs a restart."""
        try:
            config = self._reload_config()
        except NoctuaryFault as fault:
            log.error("reload_failed", reason=fault.reason)
            return
        self._peers.replace(config.peers)
        log.info("reloaded", peers=len(config.peers))
        for key in KEYS:
            if key not in RELOADABLE and getattr(config, key) != getattr(self._config, key):
                log.warning("needs_restart", key=key)


async def _scrub_in_child(projections: ProjectionStore, recovery: RecoveryOut) -> None:
    """Have every value of projections that were not folded just now checked, when that was too many at open."""
    if recovery.rebuilt or entries(projections.env) <= INLINE_ENTRIES:
        return
    command = (sys.executable, "-m", "projections.scrub", str(projections.env.path.resolve()))
    child = await asyncio.create_subprocess_exec(
        *command, cwd=Path(__file__).resolve().parents[1], stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        told, _ = await child.communicate()
    except asyncio.CancelledError:
        child.kill()
        await child.wait()
        raise
    if child.returncode == Exit.OK:
        log.info("scrubbed", code=0)
        return
    database = told.decode("ascii", "replace").strip()
    log.error("scrub", database=database, exit_code=child.returncode)
    if child.returncode == Exit.DAMAGED or -(child.returncode or 0) in DEADLY_DAMAGE:
        projections.note_damage(database if database in DATABASES else "projections")


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


def harden() -> None:
    """No core dumps, no reading of this process's memory by others of the same user."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run_daemon(config: Config, reload: Callable[[], Config] | None = None, *, check_all: bool = False) -> int:
    """Serve until told to stop; the exit code. `check_all`: the whole journal is checked first."""
    configure_logs(config.log_level)
    os.umask(0o077)
    harden()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        with asyncio.Runner() as runner:
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

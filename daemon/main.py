"""The daemon process: opens the store, serves it, and ends in an orderly way.

Order: lock and store, projections caught up, writer, socket. The reverse at the end: no new requests,
what was read is answered, the writer ends, projections and store are closed clean. Only a failed journal
write ends it unclean, with exit 74, because what was being written may or may not be there.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import structlog

from daemon.call import Call
from daemon.caller import Caller
from daemon.config import KEYS, RELOADABLE, Config, load_config
from daemon.exits import Exit
from daemon.logs import configure_logs
from daemon.moment import Moment, system_clock_ms
from daemon.peers import Peers
from daemon.reads.operator import Operator
from daemon.server import Server, bind_listener, passed_listener
from daemon.service import Service
from daemon.wire.results import RecoveryOut
from journal.errors import DamagedStore, NoctuaryFault, StoreAbsent
from journal.layout import StateDir, read_boot_id
from journal.record import Head
from journal.store import Store, create_store, open_store
from journal.verify import verify_in_child
from projections.rows import DamagedRow
from projections.store import ProjectionStore, check_watermark, peek_watermark
from projections.tables import PROJECTIONS

VERSION = "0.1.0"
WATCH_S = 0.2
SWITCH_INTERVAL_S = 0.0005
"""A question waits for the interpreter behind the writer's batch at most about this long, not Python's 5 ms."""
HEAD_EVERY_S = 600.0
_PR_SET_DUMPABLE = 4

log = structlog.get_logger("daemon")


class Front:
    """The service and the daemon's own answers, as the socket sees them."""

    def __init__(self, service: Service, operator: Operator) -> None:
        self._service = service
        self._operator = operator

    def submit(self, call: Call) -> None:
        self._service.submit(call)

    def read(self, method: str, params: Any, caller: Caller) -> msgspec.Struct:
        if method in Operator.METHODS:
            return self._operator.read(method, params, caller)
        return self._service.read(method, params, caller)


class Daemon:
    """One run of the daemon. `reload` makes the configuration anew at SIGHUP."""

    def __init__(self, config: Config, reload: Callable[[], Config]) -> None:
        self._config = config
        self._reload_config = reload
        self._peers = Peers(config.peers)
        self._stop = asyncio.Event()

    async def run(self) -> int:
        """Serve until told to stop. What is folded wrongly at rest is folded anew, once."""
        try:
            return await self._open_and_serve()
        except DamagedRow as damage:
            log.warning("folding_anew", database=damage.database)
        return await self._open_and_serve()

    async def _open_and_serve(self) -> int:
        config = self._config
        store, projections, recovery = open_all(Path(config.state))
        clean = False
        try:
            server = Server(self._peers, config.half_line_s, config.stuck_client_s)
            service = Service(store, projections, Moment(system_clock_ms, config.zone), server.deliver, config.node)
            operator = Operator(service, VERSION, recovery, config.socket)
            clean = await self._serve(server, service, Front(service, operator))
        except DamagedRow:
            projections.distrust()
            raise
        finally:
            projections.close(clean)
            store.close(clean)
        return Exit.OK if clean else Exit.IO_ERROR

    async def _serve(self, server: Server, service: Service, front: Front) -> bool:
        config = self._config
        passed = passed_listener()
        listener = passed or bind_listener(Path(config.socket), config.socket_gid)
        own = None if passed else os.stat(config.socket)
        self._handle_signals()
        service.start()
        gc.collect()
        gc.freeze()
        await server.start(listener, front)
        log.info("ready", pid=os.getpid(), version=VERSION)
        _log_head(service.store)
        try:
            await self._until_stopped(service)
        finally:
            await server.stop(config.stop_within_s)
            service.stop()
            if own is not None:
                _unlink_own(config.socket, own)
        clean = service.writer.failed is None
        _log_head(service.store)
        log.info("stopped", clean=clean)
        return clean

    async def _until_stopped(self, service: Service) -> None:
        noted = time.monotonic()
        while not self._stop.is_set() and service.writer.failed is None:
            if time.monotonic() - noted >= HEAD_EVERY_S:
                noted = time.monotonic()
                _log_head(service.store)
                service.store.env.check_readers()
                service.projections.env.check_readers()
            try:
                await asyncio.wait_for(self._stop.wait(), WATCH_S)
            except TimeoutError:
                continue

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        loop.add_signal_handler(signal.SIGHUP, self._reload)

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


def _log_head(store: Store) -> None:
    """A head somebody else keeps is the only witness against a journal that was rewritten (`audit --against`)."""
    head = store.log.head()
    log.info("head", store=store.store_id.hex(), epoch=head.epoch, seq=head.seq, chain=head.chain.hex())


def open_all(state: Path) -> tuple[Store, ProjectionStore, RecoveryOut]:
    """The store, made if there is none, with its projections caught up. Raises NoctuaryFault."""
    started = time.monotonic()
    # The check is made before the store's first write (contract §3.4): a journal that went back stays as is.
    boot_id = read_boot_id()
    check = partial(_check_before_fold, state, boot_id)
    try:
        store = open_store(state, version=VERSION, now_ms=system_clock_ms(), check_projections=check)
    except StoreAbsent:
        create_store(state)
        store = open_store(state, version=VERSION, now_ms=system_clock_ms(), check_projections=check)
    opened: list[ProjectionStore] = []
    try:
        projections = ProjectionStore.open(store.dir.projections_dir, store.boot_id)
        opened.append(projections)
        before = projections.head
        try:
            projections.catch_up(store.log)
        except DamagedRow:
            projections.distrust()
            raise
    except BaseException:
        for half in opened:
            half.close(False)
        store.close(False)
        raise
    return store, projections, _recovery(store, before, started)


def _check_before_fold(state: Path, boot_id: bytes, head: Head) -> None:
    """Hold the projections against the journal. When they are to be folded from the start, a child walks the
    journal first: pages out of order can kill a reader. Raises DamagedStore.
    """
    directory = StateDir(state).projections_dir
    if peek_watermark(directory, boot_id) is not None:
        check_watermark(directory, boot_id, head)
        return
    for finding in verify_in_child(state).findings if head.seq else ():
        raise DamagedStore("journal", f"{finding.code}: {finding.what}", finding.action, finding.seq)


def _recovery(store: Store, before: Head, started: float) -> RecoveryOut:
    rebuilt = before.seq == 0 and store.found_seq > 0
    return RecoveryOut(
        clean=store.clean,
        boot_changed=store.boot_changed,
        from_seq=before.seq + 1,
        to_seq=store.log.head().seq,
        rebuilt=list(PROJECTIONS) if rebuilt else [],
        took_ms=int((time.monotonic() - started) * 1000),
    )


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


def run_daemon(config: Config, reload: Callable[[], Config] | None = None) -> int:
    """Serve until told to stop; the exit code."""
    configure_logs(config.log_level)
    os.umask(0o077)
    harden()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        return int(asyncio.run(_run(config, reload or load_config)))
    except NoctuaryFault as fault:
        log.error("cannot_run", reason=fault.reason, error_class=type(fault).__name__)
        print(f"noctuary: {fault}", file=sys.stderr)
        return fault.exit_code
    except OSError as error:
        log.error("cannot_run", error_class=type(error).__name__, errno=error.errno)
        print(f"noctuary: {error.strerror}", file=sys.stderr)
        return Exit.IO_ERROR


async def _run(config: Config, reload: Callable[[], Config]) -> int:
    return await Daemon(config, reload).run()

"""The socket: accepts, hands requests to the service, hands answers back.

The loop's thread decodes, checks and encodes; writes run on the writer's thread, reads on a few threads of
a pool. A batch of answers crosses to the loop once and costs each connection one write.
"""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import structlog

from daemon.call import Call, Outcome
from daemon.caller import Caller
from daemon.connection import Connection, connection_of
from daemon.peers import Peers
from daemon.refusal import Reason, Refused
from daemon.wire.request import Request
from journal.errors import BadConfiguration

SOCKET_MODE = 0o660
SOCKET_PATH_BYTES = 107
SWEEP_S = 1.0
READ_THREADS = 2
BACKLOG = 1024
_FIRST_PASSED_FD = 3

log = structlog.get_logger("server")


class Answers(Protocol):
    """What the server needs of the service."""

    def submit(self, call: Call) -> None: ...
    def read(self, method: str, params: Any, caller: Caller) -> Any: ...


class Server:
    """Listens on one socket. `deliver` may be called from any thread, all else from the loop's."""

    def __init__(self, peers: Peers, half_line_s: float = 30.0, stuck_s: float = 30.0) -> None:
        self.peers = peers
        self._half_line_s = half_line_s
        self._stuck_s = stuck_s
        self._connections: set[Connection] = set()
        self._pool = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="read")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listening: asyncio.Server | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._empty = asyncio.Event()
        self._service: Answers | None = None

    async def start(self, listener: socket.socket, service: Answers) -> None:
        self._loop = asyncio.get_running_loop()
        self._service = service
        self._empty.set()
        self._listening = await self._loop.create_unix_server(lambda: Connection(self), sock=listener, backlog=BACKLOG)
        self._sweep = self._loop.call_later(SWEEP_S, self._drop_overdue)

    async def stop(self, within_s: float) -> None:
        """Take no more; answer what was read; then close."""
        if self._listening is not None:
            self._listening.close()
        for connection in list(self._connections):
            connection.stop_reading()
        try:
            await asyncio.wait_for(self._empty.wait(), within_s)
        except TimeoutError:
            for connection in list(self._connections):
                connection.drop()
        if self._sweep is not None:
            self._sweep.cancel()
        self._pool.shutdown(wait=True)

    # --- for connections ---

    def submit(self, call: Call) -> None:
        assert self._service is not None
        try:
            self._service.submit(call)
        except Refused as refused:
            call.reply(refused)
        except Exception as error:
            call.reply(internal(call.method, error))

    def read(self, request: Request, caller: Caller, reply: Callable[[Outcome], None]) -> None:
        self._pool.submit(self._read, request, caller, reply)

    def joined(self, connection: Connection) -> None:
        self._connections.add(connection)
        self._empty.clear()

    def left(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._empty.set()

    # --- answers ---

    def deliver(self, answers: list[tuple[Call, Outcome]]) -> None:
        """The outcomes of a batch of writes, from the writer's thread."""
        self._cross([(call.reply, outcome) for call, outcome in answers])

    def _read(self, request: Request, caller: Caller, reply: Callable[[Outcome], None]) -> None:
        assert self._service is not None
        outcome: Outcome
        try:
            outcome = self._service.read(request.verb.name, request.params, caller)
        except Refused as refused:
            outcome = refused
        except Exception as error:
            outcome = internal(request.verb.name, error)
        self._cross([(reply, outcome)])

    def _cross(self, answers: list[tuple[Callable[[Outcome], None], Outcome]]) -> None:
        assert self._loop is not None
        # A loop that is closed has no clients left to tell.
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(_reply_all, answers)

    def _drop_overdue(self) -> None:
        assert self._loop is not None
        now = self._loop.time()
        for connection in list(self._connections):
            why = connection.overdue(now, self._half_line_s, self._stuck_s)
            if why is not None:
                log.warning("client_dropped", why=why)
                connection.drop()
        self._sweep = self._loop.call_later(SWEEP_S, self._drop_overdue)


def _reply_all(answers: list[tuple[Callable[[Outcome], None], Outcome]]) -> None:
    touched: dict[Connection, None] = {}
    for reply, outcome in answers:
        reply(outcome)
        touched[connection_of(reply)] = None
    for connection in touched:
        connection.resume()


def internal(verb: str, error: Exception) -> Refused:
    """A mistake of ours: logged under an id that the caller is given, without its text."""
    error_id = os.urandom(8).hex()
    frames = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}")
        trace = trace.tb_next
    log.error("internal", error_id=error_id, verb=verb, error_class=type(error).__name__, frames=frames)
    return Refused(Reason.INTERNAL, f"internal error {error_id}", error_id=error_id)


def passed_listener() -> socket.socket | None:
    """The listening socket that systemd passed to this process, if it did."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()) or os.environ.get("LISTEN_FDS", "0") == "0":
        return None
    if os.environ["LISTEN_FDS"] != "1":
        raise BadConfiguration("exactly one socket can be passed")
    os.set_inheritable(_FIRST_PASSED_FD, False)
    return socket.socket(fileno=_FIRST_PASSED_FD)


def bind_listener(path: Path, gid: int | None) -> socket.socket:
    """A listening socket at `path`, mode 0660. Only call with the store's lock held: what lies there is
    unlinked."""
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES:
        raise BadConfiguration(f"the path of the socket is over {SOCKET_PATH_BYTES} bytes")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise BadConfiguration("something that is no socket lies at the path of the socket")
        path.unlink()
    except FileNotFoundError:
        pass
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(os.fspath(path))
    finally:
        os.umask(before)
    if gid is not None:
        os.chown(path, -1, gid)
    path.chmod(SOCKET_MODE)
    return listener

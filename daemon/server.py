"""The socket: accepts, hands requests to the service, hands answers back.

The loop's thread decodes, checks and encodes; writes run on the writer's thread, reads on a few threads of
a pool; an audit, which can take a minute, has a thread to itself. A batch of answers crosses to the loop once
and costs each connection one write.

What clients can make it hold is bounded: connections by the files the process may open, requests in flight and
what waits in buffers by bytes over all connections. Who comes beyond that is told `overloaded`.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import structlog

from daemon import limits
from daemon.call import Call, Outcome
from daemon.caller import Caller
from daemon.connection import Connection, connection_of
from daemon.exits import Exit
from daemon.failures import refusal_of
from daemon.peers import Peers
from daemon.reads.reading import NotBrief
from daemon.refusal import Reason, Refused
from daemon.wire.answer import encode_answer
from daemon.wire.request import Request
from journal.errors import BadConfiguration, NoctuaryFault

SOCKET_MODE = 0o660
SOCKET_PATH_BYTES = 107
SWEEP_S = 1.0
STOPPING_SWEEP_S = 0.25
STOPPING_STUCK_S = 1.0
"""How long a client that takes no answers holds up the end."""
READ_THREADS = 2
OWN_POOLS = {"audit": 1, "list": 2}
"""Verbs that may look at everything, with the threads they have: others never wait behind them."""
BACKLOG = 1024
ACCEPTS_A_TURN = 64
ACCEPT_AGAIN_S = 0.5
FILES_KEPT = 64
"""Descriptors that are never given to clients: the store's, the log's, those of an audit."""
CONNECTIONS_MIN = 8
_FIRST_PASSED_FD = 3

log = structlog.get_logger("server")


BRIEF_LOOKS = {"hello": 1, "head": 1, "describe": 1, "get": 32, "trace": 96}
"""What is answered on the loop's thread, and how much it may look at there before it goes to the others."""


class Answers(Protocol):
    """What the server needs of the service."""

    def submit(self, call: Call) -> None: ...
    def read(self, method: str, params: Any, caller: Caller, budget: int | None = None) -> Any: ...


class Server:
    """Listens on one socket. `deliver` may be called from any thread, all else from the loop's."""

    def __init__(
        self,
        peers: Peers,
        half_line_s: float = 30.0,
        stuck_s: float = 30.0,
        in_flight_bytes: int = limits.IN_FLIGHT_BYTES,
        held_bytes: int = limits.HELD_BYTES,
    ) -> None:
        self.peers = peers
        self._half_line_s = half_line_s
        self._stuck_s = stuck_s
        self._may_be_in_flight_bytes = in_flight_bytes
        self._may_be_held_bytes = held_bytes
        self._in_flight_bytes = 0
        self._connections: set[Connection] = set()
        self._joining: set[asyncio.Task[None]] = set()
        self._room = CONNECTIONS_MIN
        self._pool = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="read")
        self._own_pools = {verb: ThreadPoolExecutor(many, thread_name_prefix=verb) for verb, many in OWN_POOLS.items()}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listener: socket.socket | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._empty = asyncio.Event()
        self._stopping = False
        self._service: Answers | None = None

    async def start(self, listener: socket.socket, service: Answers) -> None:
        self._loop = asyncio.get_running_loop()
        self._service = service
        self._empty.set()
        self._room = room_for_connections()
        listener.setblocking(False)
        listener.listen(BACKLOG)
        self._listener = listener
        self._loop.add_reader(listener, self._accept)
        self._sweep = self._loop.call_later(SWEEP_S, self._drop_overdue)

    async def stop(self, within_s: float) -> None:
        """Take no more; answer what was read; then close. Who doesn't take the answers is not waited for long."""
        self._stopping = True
        self._stuck_s = min(self._stuck_s, STOPPING_STUCK_S)
        self._stop_listening()
        if self._joining:
            await asyncio.wait(self._joining)
        for connection in list(self._connections):
            connection.stop_reading()
        self._drop_overdue()
        try:
            await asyncio.wait_for(self._empty.wait(), within_s)
        except TimeoutError:
            for connection in list(self._connections):
                connection.drop()
        if self._sweep is not None:
            self._sweep.cancel()
        for pool in (self._pool, *self._own_pools.values()):
            pool.shutdown(wait=True, cancel_futures=True)

    # --- who comes ---

    def _accept(self) -> None:
        """Take those who wait. Each goes through here alone, so that never more than one file too many is open."""
        assert self._loop is not None and self._listener is not None
        for _ in range(ACCEPTS_A_TURN):
            try:
                client, _address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.error("cannot_accept", errno=error.errno, connections=len(self._connections))
                self._loop.remove_reader(self._listener)
                self._loop.call_later(ACCEPT_AGAIN_S, self._listen_again)
                return
            client.setblocking(False)
            if len(self._connections) + len(self._joining) >= self._room:
                _turn_away(client)
                continue
            task = self._loop.create_task(self._join(client))
            self._joining.add(task)
            task.add_done_callback(self._joining.discard)

    async def _join(self, client: socket.socket) -> None:
        assert self._loop is not None
        try:
            await self._loop.connect_accepted_socket(lambda: Connection(self), client)
        except OSError:
            client.close()

    def _listen_again(self) -> None:
        assert self._loop is not None
        if self._listener is not None:
            self._loop.add_reader(self._listener, self._accept)

    def _stop_listening(self) -> None:
        assert self._loop is not None
        if self._listener is not None:
            self._loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    # --- for connections ---

    def submit(self, call: Call) -> None:
        assert self._service is not None
        try:
            self._service.submit(call)
        except Refused as refused:
            call.reply(refused)
        except Exception as error:
            call.reply(refusal_of(call.method, error))

    def read(self, request: Request, caller: Caller, reply: Callable[[Outcome], None]) -> bool:
        """Answer a question: at once (True) when it is brief, because handing it over would cost more than it does."""
        looks = BRIEF_LOOKS.get(request.verb.name)
        if looks is not None:
            try:
                outcome = self._outcome(request, caller, looks)
            except NotBrief:
                pass
            else:
                reply(outcome)
                return True
        pool = self._own_pools.get(request.verb.name, self._pool)
        pool.submit(self._read, request, caller, reply)
        return False

    def admit(self, size_bytes: int) -> bool:
        """Whether there is room for one more request of that size. What is admitted must be settled."""
        if self._in_flight_bytes + size_bytes > self._may_be_in_flight_bytes:
            return False
        self._in_flight_bytes += size_bytes
        return True

    def settle(self, size_bytes: int) -> None:
        self._in_flight_bytes -= size_bytes

    def failed(self, verb: str, error: Exception) -> Refused:
        return refusal_of(verb, error)

    def soon(self, what: Callable[[], None]) -> None:
        """On the loop's next turn, when others have had theirs."""
        assert self._loop is not None
        self._loop.call_soon(what)

    def joined(self, connection: Connection) -> None:
        self._connections.add(connection)
        self._empty.clear()
        if self._stopping:
            connection.drop()

    def left(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._empty.set()

    # --- answers ---

    def deliver(self, answers: list[tuple[Call, Outcome]]) -> None:
        """The outcomes of a batch of writes, from the writer's thread."""
        self._cross([(call.reply, outcome) for call, outcome in answers])

    def _read(self, request: Request, caller: Caller, reply: Callable[[Outcome], None]) -> None:
        self._cross([(reply, self._outcome(request, caller))])

    def _outcome(self, request: Request, caller: Caller, budget: int | None = None) -> Outcome:
        """Raises NotBrief."""
        assert self._service is not None
        try:
            outcome: Outcome = self._service.read(request.verb.name, request.params, caller, budget)
        except Refused as refused:
            return refused
        except NotBrief:
            raise
        except Exception as error:
            return refusal_of(request.verb.name, error)
        return outcome

    def _cross(self, answers: list[tuple[Callable[[Outcome], None], Outcome]]) -> None:
        assert self._loop is not None
        # A loop that is closed has no clients left to tell.
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(_reply_all, answers)

    def _drop_overdue(self) -> None:
        assert self._loop is not None
        if self._sweep is not None:
            self._sweep.cancel()
        now = self._loop.time()
        for connection in list(self._connections):
            why = connection.overdue(now, self._half_line_s, self._stuck_s)
            if why is not None:
                connection.drop()
                log.warning("client_dropped", why=why)
        self._drop_greediest()
        self._sweep = self._loop.call_later(STOPPING_SWEEP_S if self._stopping else SWEEP_S, self._drop_overdue)

    def _drop_greediest(self) -> None:
        """Over the bound, those for whom the most waits go, until half of it is free again."""
        held = {connection: connection.held_bytes for connection in self._connections}
        total_bytes = sum(held.values())
        if total_bytes <= self._may_be_held_bytes:
            return
        for connection in sorted(held, key=held.__getitem__, reverse=True):
            if total_bytes <= self._may_be_held_bytes // 2:
                return
            connection.drop()
            log.warning("client_dropped", why="holds_too_much", held_bytes=held[connection])
            total_bytes -= held[connection]


def _reply_all(answers: list[tuple[Callable[[Outcome], None], Outcome]]) -> None:
    touched: dict[Connection, None] = {}
    for reply, outcome in answers:
        reply(outcome)
        touched[connection_of(reply)] = None
    for connection in touched:
        connection.resume()


def _turn_away(client: socket.socket) -> None:
    """Say why, then close. A new socket has room for one line."""
    refused = Refused(Reason.OVERLOADED, "too many connections", retry_after_ms=1000)
    with client, suppress(OSError):
        client.send(encode_answer(None, refused))


def room_for_connections() -> int:
    """How many connections the process may hold, having asked for as many files as it may have."""
    wanted = limits.CONNECTIONS + FILES_KEPT
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    files = wanted if soft == resource.RLIM_INFINITY else min(soft, wanted)
    return max(CONNECTIONS_MIN, files - FILES_KEPT)


def passed_listener() -> socket.socket | None:
    """The listening socket that systemd passed to this process, if it did."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()) or os.environ.get("LISTEN_FDS", "0") == "0":
        return None
    if os.environ["LISTEN_FDS"] != "1":
        raise BadConfiguration("exactly one socket can be passed")
    os.set_inheritable(_FIRST_PASSED_FD, False)
    return socket.socket(fileno=_FIRST_PASSED_FD)


class SocketInUse(NoctuaryFault):
    """Another daemon, of another store, listens at this path."""

    reason = "unavailable"
    exit_code = Exit.UNAVAILABLE

    def __init__(self, path: Path) -> None:
        super().__init__(f"another daemon serves at {path}: give --socket, or stop it")


def _is_served(path: Path) -> bool:
    """Whether somebody listens there. A socket whose daemon was killed refuses."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            return False
        except FileNotFoundError:
            return False
        except OSError:
            return True  # its queue is full, or it isn't ours to ask
    return True


def check_socket_path(path: Path) -> None:
    """Whether a listener can be had there, before anything is written for it. Raises BadConfiguration, SocketInUse."""
    if len(os.fsencode(path)) > SOCKET_PATH_BYTES:
        raise BadConfiguration(f"the path of the socket is over {SOCKET_PATH_BYTES} bytes")
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise BadConfiguration("something that is no socket lies at the path of the socket")
    except FileNotFoundError:
        return
    if _is_served(path):
        raise SocketInUse(path)


def bind_listener(path: Path, gid: int | None) -> socket.socket:
    """A listening socket at `path`, mode 0660. Only call with the store's lock held: what lies there is
    unlinked."""
    check_socket_path(path)
    if not path.parent.is_dir():
        path.parent.mkdir(mode=0o700 if gid is None else 0o750, parents=True, exist_ok=True)
        if gid is not None:
            os.chown(path.parent, -1, gid)
            path.parent.chmod(0o750)
    path.unlink(missing_ok=True)
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

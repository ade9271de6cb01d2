"""The socket: accepts, hands requests to the service, hands answers back.

The loop's thread decodes, checks and encodes; writes run on the writer's thread, reads on a few threads of
a pool; an audit, which can take a minute, has a thread to itself. A batch of answers crosses to the loop once;
what one connection gets of it is one write, or a few. It also wakes the subscriptions (`feeder.py`). What takes long
is done bit by bit (`later.py`), so that a question that comes meanwhile waits for about one turn of the loop.

What clients can make it hold is bounded: connections by the files the process may open, requests in flight and
what waits in buffers by bytes over all connections. Who comes beyond that is told `overloaded`.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

import structlog

from daemon import limits
from daemon.asking import Asking, Tell
from daemon.call import Call, Found, Outcome
from daemon.caller import Caller
from daemon.connection import Connection, connection_of
from daemon.counting import Counts
from daemon.failures import refusal_of
from daemon.fair import FairPool
from daemon.feeder import Feeder
from daemon.later import Later
from daemon.listening import BACKLOG, CONNECTIONS_MIN, room_for_connections
from daemon.peers import Peers
from daemon.purge_looking import acts_at_once
from daemon.reads.reading import NotBrief
from daemon.refusal import Reason, Refused
from daemon.subscription import Subscription
from daemon.trimming import give_back
from daemon.wire.answer import encode_answer
from daemon.wire.request import Request
from daemon.wire.verbs import VERBS

SWEEP_S = 1.0
STOPPING_SWEEP_S = 0.25
STOPPING_STUCK_S = 1.0
"""How long a client that takes no answers holds up the end."""
READ_THREADS = 2
OWN_POOLS = {
    ("audit",): 1, ("residue",): 1, ("list", "review"): 2, ("records",): 1, ("subscribe",): 1, ("backup", "rebuild"): 2,
}  # fmt: skip
"""Verbs that may look at everything, with the threads they have: others never wait behind them. Within a pool the
callers take turns (`fair.py`). A second backup or rebuild is told that there is one."""
CROWD = 64
"""As many clients that have left are worth giving back what is free."""
ACCEPTS_A_TURN = 64
ANSWERS_AT_ONCE = 32
"""Of a batch, in one piece of the loop's work: those to one connection are one write."""
ACCEPT_AGAIN_S = 0.5

log = structlog.get_logger("server")


BRIEF_LOOKS = {"hello": 1, "head": 1, "describe": 1, "get": 32, "trace": 96, "explain": 96}
"""What is answered on the loop's thread, and how much it may look at there before it goes to the others."""


class Answers(Protocol):
    """What the server needs of the service."""

    def submit(self, call: Call) -> None: ...
    def asking(self, tell: Tell | None = None) -> Asking: ...
    def read(
        self, method: str, params: Any, caller: Caller, budget: int | None = None, asking: Asking | None = None
    ) -> Any: ...


class Server:
    """Listens on one socket. `deliver` may be called from any thread, all else from the loop's."""

    def __init__(
        self,
        peers: Peers,
        half_line_s: float = 30.0,
        stuck_s: float = 30.0,
        in_flight_bytes: int = limits.IN_FLIGHT_BYTES,
        held_bytes: int = limits.HELD_BYTES,
        mark_every_s: float = limits.MARK_EVERY_MS / 1000,
        counts: Counts | None = None,
    ) -> None:
        self.peers = peers
        self.counts = counts or Counts()
        self._half_line_s = half_line_s
        self._stuck_s = stuck_s
        self._may_be_in_flight_bytes = in_flight_bytes
        self._may_be_held_bytes = held_bytes
        self._in_flight_bytes = 0
        self._connections: set[Connection] = set()
        self._joining: set[asyncio.Task[None]] = set()
        self._left = 0
        self._room = CONNECTIONS_MIN
        self._pool = FairPool(READ_THREADS, "read")
        self._own_pools: dict[str, FairPool] = {}
        for verbs, many in OWN_POOLS.items():
            pool = FairPool(many, verbs[0])
            self._own_pools.update(dict.fromkeys(verbs, pool))
        self._feeder = Feeder(self.cross, mark_every_s)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._later = Later(self._call_soon)
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
        self._feeder.end_all(_stopping())
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
            pool.shutdown()
        self._feeder.stop()

    def set_patience(self, half_line_s: float, stuck_s: float) -> None:
        """How long clients may leave lines half sent and answers untaken, from now on."""
        self._half_line_s = half_line_s
        self._stuck_s = min(stuck_s, STOPPING_STUCK_S) if self._stopping else stuck_s

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
        """A write that looks first does so on a thread of the long questions'."""
        if VERBS[call.method].looks and not acts_at_once(call.method, call.params):
            pool = self._own_pools["list"]
            pool.submit(call.caller.uid, connection_of(call.reply), partial(self._look, call))
        else:
            self._submit(call, call.reply)

    def _look(self, call: Call) -> None:
        self._submit(call, lambda outcome: self.cross(partial(_reply_all, [(call.reply, outcome)])))

    def _submit(self, call: Call, refuse: Callable[[Refused], None]) -> None:
        assert self._service is not None
        try:
            self._service.submit(call)
        except Refused as refused:
            refuse(refused)
        except Exception as error:
            refuse(refusal_of(call.method, error))

    def asking(self, tell: Tell | None) -> Asking:
        assert self._service is not None
        return self._service.asking(tell)

    def read(self, request: Request, caller: Caller, asking: Asking, reply: Callable[[Found], None]) -> bool:
        """Answer a question: at once (True) when it is brief, because handing it over would cost more than it does."""
        looks = BRIEF_LOOKS.get(request.verb.name)
        if looks is not None:
            try:
                outcome = self._outcome(request, caller, asking, looks)
            except NotBrief:
                pass
            else:
                reply(outcome)
                return True
        pool = self._own_pools.get(request.verb.name, self._pool)
        pool.submit(caller.uid, connection_of(reply), partial(self._read, request, caller, asking, reply))
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
        """On a later turn of the loop, when others have had theirs."""
        self._later.add(what)

    def _call_soon(self, what: Callable[[], None]) -> None:
        assert self._loop is not None
        self._loop.call_soon(what)

    def follow(self, subscription: Subscription) -> None:
        """From the loop's next turn on it is given what it wants. Raises Refused."""
        if self._stopping:
            raise _stopping()
        self._feeder.check_room()
        self.soon(partial(self._follow, subscription))

    def _follow(self, subscription: Subscription) -> None:
        self._feeder.add(subscription)
        self.counts.subscriptions = len(self._feeder)

    def unfollow(self, subscription: Subscription) -> None:
        self._feeder.remove(subscription)
        self.counts.subscriptions = len(self._feeder)

    def takes_again(self) -> None:
        """A connection with subscriptions took what it had."""
        self._feeder.wake()

    def joined(self, connection: Connection) -> None:
        self._connections.add(connection)
        self.counts.connections = len(self._connections)
        self._empty.clear()
        if self._stopping:
            connection.drop()

    def left(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self._left += 1
        self.counts.connections = len(self._connections)
        if not self._connections:
            self._empty.set()

    # --- answers ---

    def deliver(self, answers: list[tuple[Call, Outcome]]) -> None:
        """The outcomes of a batch of writes, from the writer's thread."""
        self.cross(partial(self._reply_batch, [(call.reply, outcome) for call, outcome in answers]))

    def _reply_batch(self, answers: Sequence[tuple[Callable[[Any], None], Outcome]]) -> None:
        of: dict[Connection, list[tuple[Callable[[Any], None], Outcome]]] = {}
        for answer in answers:
            of.setdefault(connection_of(answer[0]), []).append(answer)
        together = [answer for theirs in of.values() for answer in theirs]
        for first in range(0, len(together), ANSWERS_AT_ONCE):
            self._later.add(partial(_reply_all, together[first : first + ANSWERS_AT_ONCE]))
        self._later.add(self._feeder.committed)

    def _read(self, request: Request, caller: Caller, asking: Asking, reply: Callable[[Found], None]) -> None:
        self.cross(partial(_reply_all, [(reply, self._outcome(request, caller, asking))]))

    def _outcome(self, request: Request, caller: Caller, asking: Asking, budget: int | None = None) -> Found:
        """Raises NotBrief."""
        assert self._service is not None
        try:
            asking.check()  # it may have waited for long
            found: Found = self._service.read(request.verb.name, request.params, caller, budget, asking)
        except Refused as refused:
            return refused
        except NotBrief:
            raise
        except Exception as error:
            return refusal_of(request.verb.name, error)
        return found

    def cross(self, what: Callable[[], None]) -> None:
        """Have it done on the loop's thread, from any other."""
        assert self._loop is not None
        # A loop that is closed has no clients left to tell.
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(what)

    def _drop_overdue(self) -> None:
        assert self._loop is not None
        if self._sweep is not None:
            self._sweep.cancel()
        now = self._loop.time()
        for connection in list(self._connections):
            why = connection.overdue(now, self._half_line_s, self._stuck_s)
            if connection.is_gone():
                connection.drop()
            elif why is not None:
                connection.drop()
                self.counts.drop(why)
                log.warning("client_dropped", why=why)
        self._drop_greediest()
        self._feeder.check_rights()
        self._tidy()
        self._sweep = self._loop.call_later(STOPPING_SWEEP_S if self._stopping else SWEEP_S, self._drop_overdue)

    def _tidy(self) -> None:
        """After many have left, what they held goes back to the system."""
        if self._left >= CROWD:
            self._left = 0
            give_back()

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
            self.counts.drop("holds_too_much")
            log.warning("client_dropped", why="holds_too_much", held_bytes=held[connection])
            total_bytes -= held[connection]


def _reply_all(answers: Sequence[tuple[Callable[[Any], None], Found]]) -> None:
    touched: dict[Connection, None] = {}
    for reply, outcome in answers:
        reply(outcome)
        touched[connection_of(reply)] = None
    for connection in touched:
        connection.resume()


def _stopping() -> Refused:
    return Refused(Reason.UNAVAILABLE, "the daemon stops", retry_after_ms=1000)


def _turn_away(client: socket.socket) -> None:
    """Say why, then close. A new socket has room for one line."""
    refused = Refused(Reason.OVERLOADED, "too many connections", retry_after_ms=1000)
    with client, suppress(OSError):
        client.send(encode_answer(None, refused))

"""One client: lines in, lines out, in the order that the contract promises.

Everything here runs on the loop's thread. Writes go to the writer in the order they came; a read waits
for the writes that were sent before it. With 1024 requests in flight the connection stops reading, and
goes on when answers have left. A client that leaves a line half-sent, or doesn't take its answers, is
dropped by the server's sweep; it holds up nobody else.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from daemon import limits
from daemon.call import Call, Outcome
from daemon.caller import Caller
from daemon.peers import Credentials, Peers, check_access, read_credentials
from daemon.refusal import Reason, Refused
from daemon.wire.answer import encode_answer
from daemon.wire.params import HelloParams
from daemon.wire.request import Rejected, Request, RequestId, decode_request
from journal.codes import Via

if TYPE_CHECKING:
    from collections.abc import Callable

WRITE_BUFFER_BYTES = 1024 * 1024


class Host(Protocol):
    """What a connection needs of its server."""

    peers: Peers

    def submit(self, call: Call) -> None: ...
    def read(self, request: Request, caller: Caller, reply: Callable[[Outcome], None]) -> None: ...
    def joined(self, connection: Connection) -> None: ...
    def left(self, connection: Connection) -> None: ...


class Connection(asyncio.Protocol):
    """The protocol of one accepted socket."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._scanned = 0
        self._out: list[bytes] = []
        self._in_flight = 0
        self._paused = False
        self._ended = False
        self._discarding = False
        self._credentials = Credentials(-1, frozenset())
        self._via = Via.CLIENT
        self._caller: Caller | None = None
        self._generation = -1
        self._writes_sent = 0
        self._writes_settled = 0
        self._settled_ahead: set[int] = set()
        self._waiting_reads: deque[tuple[int, Request, Caller]] = deque()
        self._half_since: float | None = None
        self._choked = False
        self._written_bytes = 0
        self._taken_bytes = 0
        self._unsent_since = monotonic()

    # --- asyncio's side ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        self._credentials = read_credentials(transport.get_extra_info("socket"))
        self._host.joined(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._waiting_reads.clear()
        self._buffer.clear()
        self._host.left(self)

    def data_received(self, data: bytes) -> None:
        if self._discarding:
            return
        self._buffer += data
        self._work()

    def eof_received(self) -> bool:
        self._ended = True
        self._work()
        return True

    def pause_writing(self) -> None:
        self._choked = True
        self._adjust_reading()

    def resume_writing(self) -> None:
        self._choked = False
        self._work()

    # --- the server's side ---

    def flush(self) -> None:
        """Everything that was answered since, in one write; then go on with what waits."""
        transport = self._transport
        if transport is None:
            return
        if self._out:
            answers = b"".join(self._out)
            self._written_bytes += len(answers)
            transport.write(answers)
            self._out.clear()
        if self._in_flight:
            return
        if self._ended and not self._buffer:
            transport.close()
        elif self._discarding and not transport.is_closing():
            transport.write_eof()

    def resume(self) -> None:
        """After answers have left: take the lines that waited."""
        if self._buffer or self._paused:
            self._work()
        else:
            self.flush()

    def stop_reading(self) -> None:
        """The daemon stops: what was read is still answered."""
        self._ended = True
        self._discarding = True
        self._buffer.clear()
        if self._transport is not None and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        self.flush()

    def overdue(self, now: float, half_line_s: float, stuck_s: float) -> str | None:
        """Why this client is to be dropped, if it is."""
        if self._half_since is not None and now - self._half_since > half_line_s:
            return "half_line"
        transport = self._transport
        unsent = transport.get_write_buffer_size() if transport is not None else 0
        taken = self._written_bytes - unsent
        if not unsent or taken > self._taken_bytes:
            self._unsent_since = now
        self._taken_bytes = taken
        return "not_reading" if now - self._unsent_since > stuck_s else None

    def drop(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # --- lines ---

    def _work(self) -> None:
        buffer = self._buffer
        while self._in_flight < limits.PIPELINED and not self._choked and not self._discarding:
            end = buffer.find(b"\n", self._scanned)
            if end < 0:
                self._scanned = len(buffer)
                break
            if end >= limits.LINE_BYTES:
                break
            line = bytes(buffer[:end])
            del buffer[: end + 1]
            self._scanned = 0
            self._half_since = None
            if line.strip():
                self._take(line)
        self._mind_the_rest()
        self._adjust_reading()
        self.flush()

    def _mind_the_rest(self) -> None:
        """A line that is too long, unfinished at the end, or half there."""
        rest = len(self._buffer)
        unfinished = rest > 0 and self._scanned == rest
        if rest > limits.LINE_BYTES and b"\n" not in self._buffer[: limits.LINE_BYTES + 1]:
            self._give_up(Refused(Reason.TOO_LARGE, "the line is too long", limit=limits.LINE_BYTES))
        elif unfinished and self._ended:
            self._give_up(Refused(Reason.PARSE_ERROR, "the last line has no end"))
        elif not unfinished or self._paused:
            self._half_since = None
        elif self._half_since is None:
            self._half_since = monotonic()

    def _give_up(self, refused: Refused) -> None:
        """Answer, then take no more. What the client still sends is read away for a bounded time,
        because closing on unread input would take the answer from it."""
        self._out.append(encode_answer(None, refused))
        self._buffer.clear()
        self._scanned = 0
        self._discarding = True
        self._half_since = None if self._ended else monotonic()

    def _adjust_reading(self) -> None:
        transport = self._transport
        if transport is None:
            return
        full = self._in_flight >= limits.PIPELINED or self._choked
        if full and not self._paused:
            self._paused = True
            transport.pause_reading()
        elif not full and self._paused:
            self._paused = False
            transport.resume_reading()

    # --- requests ---

    def _take(self, line: bytes) -> None:
        try:
            request = decode_request(line)
        except Rejected as rejected:
            self._out.append(encode_answer(rejected.id, rejected.refused))
            return
        try:
            caller = self._rights()
            check_access(request.verb, request.params, caller)
        except Refused as refused:
            self._out.append(encode_answer(request.id, refused))
            return
        if isinstance(request.params, HelloParams) and isinstance(request.params.via, str):
            caller = self._declare(request.params.via, caller)
        self._in_flight += 1
        if request.verb.writes:
            self._writes_sent += 1
            reply = partial(self._answer_write, self._writes_sent, request.id)
            self._host.submit(Call(request.verb.name, request.params, caller, reply))
        elif self._writes_settled < self._writes_sent:
            self._waiting_reads.append((self._writes_sent, request, caller))
        else:
            self._host.read(request, caller, partial(self._answer, request.id))

    def _rights(self) -> Caller:
        peers = self._host.peers
        if self._generation != peers.generation:
            self._generation = peers.generation
            self._caller = peers.caller(self._credentials, self._via)
        if self._caller is None:
            raise Refused(Reason.DENIED, "this user is not known here")
        return self._caller

    def _declare(self, via: str, caller: Caller) -> Caller:
        self._via = Via[via.upper()]
        self._caller = self._host.peers.caller(self._credentials, self._via)
        return self._caller or caller

    def _answer(self, request_id: RequestId, outcome: Outcome) -> None:
        self._in_flight -= 1
        if self._transport is not None:
            self._out.append(encode_answer(request_id, outcome))

    def _answer_write(self, number: int, request_id: RequestId, outcome: Outcome) -> None:
        self._answer(request_id, outcome)
        self._settled_ahead.add(number)
        while self._writes_settled + 1 in self._settled_ahead:
            self._writes_settled += 1
            self._settled_ahead.remove(self._writes_settled)
        waiting = self._waiting_reads
        while waiting and waiting[0][0] <= self._writes_settled:
            _after, request, caller = waiting.popleft()
            self._host.read(request, caller, partial(self._answer, request.id))


def connection_of(reply: Any) -> Connection:
    """The connection behind a reply that `_take` made."""
    connection = reply.func.__self__
    assert isinstance(connection, Connection)
    return connection

"""One client: lines in, lines out, in the order that the contract promises.

Everything here runs on the loop's thread. Writes go to the writer in the order they came; a read waits
for the writes that were sent before it. With 1024 requests or 16 MiB of them in flight the connection stops
reading, and goes on when answers have left. A client that leaves a line half-sent, or doesn't take its answers,
is dropped by the server's sweep. It holds up nobody else: a turn on the loop takes a bounded number of lines,
few reads of one connection run at a time, and none is begun while answers pile up.

`cancel` waits for nothing: it is answered as soon as its line is read. Whoever is gone has cancelled all questions.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from time import monotonic
from typing import Any

from daemon import limits
from daemon.asking import NOBODY
from daemon.call import Call, Found, Outcome
from daemon.caller import Caller
from daemon.counting import UNKNOWN_VERB
from daemon.feed import Feed
from daemon.hosting import Host, WaitingRead, WaitingWrite
from daemon.listening import is_hung_up
from daemon.ordering import Writes
from daemon.peers import Credentials, check_access, read_credentials
from daemon.questions import Question, Questions
from daemon.refusal import Reason, Refused
from daemon.rights import Rights
from daemon.subscription import Subscription, Subscriptions
from daemon.wire.answer import encode_answer
from daemon.wire.exchange_params import CancelParams
from daemon.wire.exchange_results import CancelResult
from daemon.wire.params import HelloParams
from daemon.wire.request import Rejected, Request, RequestId, decode_request
from journal.codes import Via

WRITE_BUFFER_BYTES = 1024 * 1024
SUBSCRIBED_BUFFER_BYTES = 256 * 1024
"""What waits for a subscriber to take it, before nothing more is read for it."""
LINES_A_TURN = 1
"""The rest of what came is taken bit by bit (`later.py`)."""
READS_AT_ONCE = 4
READS_A_TURN = 4
"""How many brief reads are answered at once, before others have their turn."""
REQUEST_OVERHEAD_BYTES = 1024
"""About what a request costs beside its line."""


class Connection(asyncio.Protocol):
    """The protocol of one accepted socket."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._scanned = 0
        self._out: list[bytes] = []
        self._in_flight = 0
        self._in_flight_bytes = 0
        self._more_soon = False
        self._reads_soon = False
        self._paused = False
        self._ended = False
        self._discarding = False
        self._credentials = Credentials(-1, frozenset())
        self._via = Via.CLIENT
        self._caller: Caller | None = None
        self._generation = -1
        self._writes = Writes(self._write)
        self._waiting_reads: deque[WaitingRead] = deque()
        self._questions = Questions()
        self._subscriptions = Subscriptions()
        self._reads_running = 0
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
        for read in self._waiting_reads:
            self._host.settle(read.size_bytes)
        for write in self._writes.drop():
            self._host.settle(write.size_bytes)
        self._waiting_reads.clear()
        self._questions.cancel_all()
        self._subscriptions.drop_all()
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
        self._start_reads()
        self._work()
        if self._subscriptions:
            self._host.takes_again()

    # --- the server's side ---

    def flush(self) -> None:
        """Everything that was answered since, in one write; then go on with what waits."""
        self._write_out()
        transport = self._transport
        if transport is None or self._in_flight:
            return
        if self._ended and not self._buffer:
            self._subscriptions.drop_all()
            transport.close()
        elif self._discarding and not transport.is_closing():
            transport.write_eof()

    def _write_out(self) -> None:
        if self._out and self._transport is not None:
            lines = b"".join(self._out)
            self._out.clear()
            self._written_bytes += len(lines)
            self._transport.write(lines)

    def resume(self) -> None:
        """After answers have left: take the lines that waited."""
        self.flush()  # first, so that answers which pile up keep further reads from being begun
        self._start_reads()
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

    def is_gone(self) -> bool:
        """Whether nobody is there any more for the questions that are asked: the end of the input alone doesn't say
        so, for whoever has no more to send may wait for answers."""
        if not self._ended or self._buffer or not self._questions or self._transport is None:
            return False
        return is_hung_up(self._transport.get_extra_info("socket"))

    @property
    def held_bytes(self) -> int:
        """What waits here for the client: the rest of its line, and that it takes its answers."""
        unsent = self._transport.get_write_buffer_size() if self._transport is not None else 0
        return len(self._buffer) + unsent + sum(map(len, self._out))

    def drop(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # --- its subscriptions' side ---

    def takes_more(self) -> bool:
        """Whether it takes what comes unasked."""
        return self._transport is not None and not self._choked and not self._transport.is_closing()

    def push(self, lines: bytes) -> None:
        self._out.append(lines)
        self._write_out()

    def rights(self) -> Caller:
        """What the client may do now. Raises Refused."""
        peers = self._host.peers
        if self._generation != peers.generation:
            self._generation = peers.generation
            self._caller = peers.caller(self._credentials, self._via)
        if self._caller is None:
            raise peers.unknown(self._credentials)
        return self._caller

    def _rights(self, caller: Caller) -> Rights:
        """To be looked at again when its turn has come. Only of the newest caller is known from when it is."""
        return Rights(self._host.peers, self._credentials, self._generation if caller is self._caller else -1)

    def subscription_ended(self, subscription: Subscription) -> None:
        self._subscriptions.remove(subscription)
        self._host.unfollow(subscription)

    # --- lines ---

    def _work(self) -> None:
        buffer = self._buffer
        taken = 0
        while not self._is_full() and not self._discarding:
            end = buffer.find(b"\n", self._scanned, limits.LINE_BYTES)
            if end < 0:
                self._scanned = min(len(buffer), limits.LINE_BYTES)
                break
            if taken == LINES_A_TURN:
                self._go_on_soon()
                break
            line = bytes(buffer[:end])
            del buffer[: end + 1]
            self._scanned = 0
            self._half_since = None
            taken += 1
            if line.strip():
                self._take(line)
        self._mind_the_rest()
        self._adjust_reading()
        self.flush()

    def _is_full(self) -> bool:
        """Whether no further line is taken until answers have left, or until it is this connection's turn again."""
        return (
            self._choked
            or self._more_soon
            or self._in_flight >= limits.PIPELINED
            or self._in_flight_bytes >= limits.PIPELINED_BYTES
        )

    def _go_on_soon(self) -> None:
        self._more_soon = True
        self._host.soon(self._go_on)

    def _go_on(self) -> None:
        self._more_soon = False
        self._reads_soon = False
        self._work()

    def _mind_the_rest(self) -> None:
        """A line that is too long, unfinished at the end, or half there."""
        if self._discarding:
            return
        unfinished = 0 < len(self._buffer) == self._scanned
        if self._scanned >= limits.LINE_BYTES:
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
        full = self._is_full()
        if full and not self._paused:
            self._paused = True
            transport.pause_reading()
        elif not full and self._paused:
            self._paused = False
            transport.resume_reading()

    # --- requests ---

    def _take(self, line: bytes) -> None:
        request_id: RequestId | None = None
        verb = UNKNOWN_VERB
        try:
            request = decode_request(line)
            request_id, verb = request.id, request.verb.name
            caller = self.rights()
            check_access(request.verb, request.params, caller)
            if isinstance(request.params, CancelParams):
                self._host.counts.read(verb, 0.0)
                self._out.append(encode_answer(request.id, self._cancel(request.params.request)))
                return
            if not self._host.admit(size_bytes := len(line) + REQUEST_OVERHEAD_BYTES):
                raise Refused(Reason.OVERLOADED, "too many requests are in flight", retry_after_ms=100)
        except Rejected as rejected:
            self._host.counts.refuse(rejected.verb or verb, rejected.refused.reason)
            self._out.append(encode_answer(rejected.id, rejected.refused))
        except Refused as refused:
            self._host.counts.refuse(verb, refused.reason)
            self._out.append(encode_answer(request_id, refused))
        except Exception as error:
            self._out.append(encode_answer(request_id, self._host.failed("a line", error)))
        else:
            self._send_on(request, caller, size_bytes)

    def _send_on(self, request: Request, caller: Caller, size_bytes: int) -> None:
        if isinstance(request.params, HelloParams) and isinstance(request.params.via, str):
            caller = self._declare(request.params.via, caller)
        self._in_flight += 1
        self._in_flight_bytes += size_bytes
        if request.verb.writes:
            self._writes.put(request, caller, size_bytes)
        else:
            question = self._questions.begin(request, self._host, self._note)
            self._waiting_reads.append(WaitingRead(self._writes.sent, request, caller, size_bytes, question))
            self._start_reads()

    def _write(self, write: WaitingWrite) -> None:
        """Whoever looks first can be cancelled until it is decided, as a question can."""
        request, size_bytes, rights = write.request, write.size_bytes, self._rights(write.caller)
        if request.verb.looks:
            question = self._questions.begin(request, self._host, self._note)
            reply = partial(self._answer_looked, question, write.number, size_bytes)
            asking = question.asking
        else:
            reply = partial(self._answer_write, write.number, request.id, size_bytes)
            asking = NOBODY
        call = Call(request.verb.name, request.params, write.caller, reply, size_bytes, asking, id(self), rights)
        self._host.submit(call)

    def _answer_looked(self, question: Question, number: int, size_bytes: int, outcome: Outcome) -> None:
        self._questions.end(question)
        self._answer_write(number, question.id, size_bytes, outcome)

    def _cancel(self, request_id: RequestId) -> CancelResult:
        """What is being written can't be taken back; what isn't there any more was answered already."""
        ended = self._subscriptions.cancel(request_id)
        return CancelResult(cancelled=self._questions.cancel(request_id) or ended)

    def _note(self, line: bytes) -> None:
        """Notes don't pile up: a client that has something to take gets none."""
        if not self._out and self._transport is not None and not self._transport.get_write_buffer_size():
            self.push(line)

    def _start_reads(self) -> None:
        waiting = self._waiting_reads
        answered = 0
        while waiting and not self._choked and not self._reads_soon and self._reads_running < READS_AT_ONCE:
            if waiting[0].after > self._writes.settled:
                return
            if answered == READS_A_TURN:
                self._reads_soon = True
                self._host.soon(self._go_on_reading)
                return
            read = waiting.popleft()
            self._reads_running += 1
            reply = partial(self._answer_read, read, self._rights(read.caller))
            if self._host.read(read.request, read.caller, read.question.asking, reply):
                answered += 1
                self.flush()  # so that a client which doesn't take its answers is noticed

    def _go_on_reading(self) -> None:
        self._reads_soon = False
        self._start_reads()
        self.flush()

    def _declare(self, via: str, caller: Caller) -> Caller:
        self._via = Via[via.upper()]
        self._caller = self._host.peers.caller(self._credentials, self._via)
        return self._caller or caller

    def _answer(self, request_id: RequestId, size_bytes: int, outcome: Outcome) -> None:
        self._in_flight -= 1
        self._in_flight_bytes -= size_bytes
        self._host.settle(size_bytes)
        if self._transport is None:
            return
        try:
            answer = encode_answer(request_id, outcome)
        except Exception as error:  # it costs only this answer, not those that came with it
            answer = encode_answer(request_id, self._host.failed("an answer", error))
        self._out.append(answer)

    def _answer_read(self, read: WaitingRead, rights: Rights, found: Found) -> None:
        self._reads_running -= 1
        self._questions.end(read.question)
        if rights.have_changed():
            try:
                rights.may_be_told(read.caller, read.request.verb, read.request.params)
            except Refused as refused:
                found = refused
        outcome = self._subscribe(read.question, found) if isinstance(found, Feed) else found
        self._answer(read.question.id, read.size_bytes, outcome)

    def _subscribe(self, question: Question, feed: Feed) -> Outcome:
        """Its first notification comes on a later turn of the loop: behind the answer."""
        if self._transport is None:
            return feed.result
        subscription = Subscription(question.id, feed, self)
        try:
            question.asking.check()
            self._subscriptions.check_room(question.id)
            self._host.follow(subscription)
        except Refused as refused:
            return refused
        self._subscriptions.add(subscription)
        self._transport.set_write_buffer_limits(high=SUBSCRIBED_BUFFER_BYTES)
        return feed.result

    def _answer_write(self, number: int, request_id: RequestId, size_bytes: int, outcome: Outcome) -> None:
        self._answer(request_id, size_bytes, outcome)
        self._writes.settle(number)
        self._start_reads()


def connection_of(reply: Any) -> Connection:
    """The connection behind a reply that `_take` made."""
    connection = reply.func.__self__
    assert isinstance(connection, Connection)
    return connection

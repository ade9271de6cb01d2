"""Client of the noctuary daemon: `Client` and `AsyncClient`. Needs msgspec and nothing else.

One file, so that it can be copied alone. Invariants: results are open (unknown fields are ignored); a
write is sent again after a broken connection only under an idempotency key, so it is never done twice; a
subscription goes on behind the place it had reached, so it gives every record once.
What stands below the line "generated" comes from the daemon's own types (ops/generate_client.py).
"""

from __future__ import annotations

import itertools
import math
import os
import select
import socket as sockets
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec

if TYPE_CHECKING:
    import asyncio

LINE_BYTES = 8 * 1024 * 1024
ATTEMPTS = 3
WINDOW = 512  # below the 1024 at which the daemon stops reading
RECEIVE_BYTES = 1 << 18
PATIENCE_S = 120.0  # how long a subscription tries to get its connection back
WAIT_MIN_S, WAIT_MAX_S = 0.05, 2.0  # between two tries
CONNECT_AGAIN_S = 0.02  # while as many wait to be accepted as may
T = TypeVar("T")


class NoctuaryError(Exception):
    """A refusal of the daemon, or no daemon. `data` has the fields of the contract, never content.

    As a text it is `parameter: message (limit 10; allowed: a, b)`, without what isn't there; `message` is that alone.
    """

    reason = "error"

    def __init__(self, message: str, code: int = 0, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.data = dict(data or {})

    def __str__(self) -> str:
        told = [(name, self.data.get(name)) for name in ("index", "limit", "allowed", "ids", "current", "hint")]
        extras = [
            f"{name}: {', '.join(map(str, value))}" if isinstance(value, list) else f"{name} {value}"
            for name, value in told
            if value not in (None, [])
        ]
        where = f"{self.data['parameter']}: " if self.data.get("parameter") else ""
        return where + self.message + (f" ({'; '.join(extras)})" if extras else "")

    @property
    def retryable(self) -> bool:
        return bool(self.data.get("retryable", False))


class Unreachable(NoctuaryError):
    """No daemon at the socket, or the connection broke and stayed broken."""

    reason = "unreachable"


class ParseError(NoctuaryError):
    """The line was no JSON."""

    reason = "parse_error"


class InvalidRequest(NoctuaryError):
    """JSON, but no request."""

    reason = "invalid_request"


class UnknownMethod(NoctuaryError):
    """No such verb."""

    reason = "unknown_method"


class InvalidInput(NoctuaryError):
    """A parameter is wrong; `data["parameter"]` names it."""

    reason = "invalid_input"


class Internal(NoctuaryError):
    """A fault of the daemon; the message has an id to look up in its log."""

    reason = "internal"


class NotFound(NoctuaryError):
    """The thing asked about isn't there."""

    reason = "not_found"


class Conflict(NoctuaryError):
    """It contradicts what is there already."""

    reason = "conflict"


class ProvenanceError(NoctuaryError):
    """A source is missing, foreign, of a kind that doesn't fit, or purged."""

    reason = "provenance"


class LifecycleError(NoctuaryError):
    """The tenant's state doesn't allow it."""

    reason = "lifecycle"


class LegalHold(NoctuaryError):
    """Held; it can't be erased."""

    reason = "legal_hold"


class Denied(NoctuaryError):
    """The caller may not."""

    reason = "denied"


class TooLarge(NoctuaryError):
    """A text, a line or a batch is too large."""

    reason = "too_large"


class ReadOnly(NoctuaryError):
    """The store takes no writes now."""

    reason = "read_only"


class Damaged(NoctuaryError):
    """Something at rest can't be read."""

    reason = "damaged"


class Quarantined(NoctuaryError):
    """The memory is quarantined."""

    reason = "quarantined"


class Overloaded(NoctuaryError):
    """Too much at once; `data["retry_after_ms"]` says when to come back."""

    reason = "overloaded"


class UnknownOutcome(NoctuaryError):
    """Whether the write was done isn't known; ask again under the same key."""

    reason = "unknown_outcome"


class Unavailable(NoctuaryError):
    """Not ready yet."""

    reason = "unavailable"


ERRORS: dict[str, type[NoctuaryError]] = {kind.reason: kind for kind in NoctuaryError.__subclasses__()}


def default_socket() -> str:
    """Where the daemon is looked for when no path is given."""
    if path := os.environ.get("NOCTUARY_SOCKET"):
        return path
    candidates = []
    if runtime := os.environ.get("RUNTIME_DIRECTORY"):
        candidates.append(os.path.join(runtime.split(":")[0], "noctuary.sock"))
    user = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    candidates.append(os.path.join(user, "noctuary", "noctuary.sock"))
    last = "/run/noctuary/noctuary.sock"
    return next((path for path in candidates if os.path.exists(path)), last)


Place = Any
"""A place in a journal: a mapping or an object with epoch, seq and chain, and store if it is known."""


class _ErrorBody(msgspec.Struct):
    code: int
    message: str
    data: dict[str, Any] = {}


class _Answer(msgspec.Struct):
    """An answer, or a notification: then it has a `method`, and no id."""

    id: int | str | None = None
    result: msgspec.Raw = msgspec.Raw(b"null")
    error: _ErrorBody | None = None
    method: str | None = None
    params: msgspec.Raw = msgspec.Raw(b"null")


class Progress(msgspec.Struct):
    """How far a long request is: `done` of `of` in this phase of it."""

    request: int | str
    done: int
    of: int
    phase: str


class Mark(msgspec.Struct):
    """Whatever a subscription wants of the journal up to here was given before."""

    request: int | str
    epoch: int
    seq: int
    chain: str


class _Recorded(msgspec.Struct):
    request: int | str
    frame: Frame


class _Ended(msgspec.Struct):
    request: int | str
    error: _ErrorBody


OnProgress = Callable[[Progress], None]


class _Asked(msgspec.Struct):
    """A request of ours, read again."""

    method: str
    params: dict[str, Any]


_answers = msgspec.json.Decoder(_Answer)
_requests = msgspec.json.Decoder(_Asked)
_encode = msgspec.json.Encoder().encode


def error_of(body: _ErrorBody) -> NoctuaryError:
    """The exception for an error object of the wire."""
    kind = ERRORS.get(str(body.data.get("reason")), NoctuaryError)
    return kind(body.message, body.code, body.data)


def _read(line: bytes) -> _Answer:
    """The answer in a line. One that can't be read breaks the connection like any other fault."""
    try:
        return _answers.decode(line)
    except msgspec.MsgspecError as error:
        raise ConnectionError(f"an answer that is none: {error}") from error


def _unwrap(answer: _Answer, kind: type[T]) -> T:
    if answer.error is not None:
        raise error_of(answer.error)
    return msgspec.json.decode(answer.result, type=kind)


if TYPE_CHECKING:
    Written: TypeAlias = "RememberResult | RefusedItem"
    """What became of one item of a batch: a refused one has `error`."""
else:
    Written = Any  # nothing in the two says to msgspec which is which


def written(item: Any) -> Written:
    """One item's result, typed."""
    refused = isinstance(item, dict) and "error" in item
    return msgspec.convert(item, RefusedItem) if refused else msgspec.convert(item, RememberResult)


def _given(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if value is not None}


def keyed(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """`params` with the idempotency keys that make it safe to send them twice."""
    out = dict(params)
    if method not in WRITES or "idempotency_key" in out:
        return out
    if method == "lifecycle" and not out.keys() & {"state", "enforce"}:
        return out
    if method == "remember_many" and out.get("atomic") is False:
        if isinstance(out.get("items"), list | tuple):
            out["items"] = [_keyed_item(item) for item in out["items"]]
    else:
        out["idempotency_key"] = os.urandom(16).hex()
    return out


def _refuse_what_json_lacks(value: Any) -> None:
    """Bytes would be written as base64 in silence: text is what is kept here."""
    if isinstance(value, bytes | bytearray | memoryview | set | frozenset):
        raise InvalidInput(f"JSON has no {type(value).__name__}: give text, or a list")
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidInput("JSON has no such number as NaN or an infinity")
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return
    for inner in value:
        _refuse_what_json_lacks(inner)


def _keyed_item(item: Any) -> Any:
    """What is no item is left for the daemon to refuse."""
    return {"idempotency_key": os.urandom(16).hex(), **item} if isinstance(item, Mapping) else item


class _ListenerFailed(Exception):
    """What an `on_progress` raised, so that it isn't taken for a fault of the connection."""

    def __init__(self, request: int, fault: Exception) -> None:
        self.request = request
        self.fault = fault


def _tell(answer: _Answer, listening: Mapping[int, OnProgress]) -> None:
    """Hand a progress note to who listens. Other notifications are a subscription's. Raises _ListenerFailed."""
    if answer.method != "progress":
        return
    note = msgspec.json.decode(answer.params, type=Progress)
    listener = listening.get(note.request) if isinstance(note.request, int) else None
    if listener is None or not isinstance(note.request, int):
        return
    try:
        listener(note)
    except Exception as fault:
        raise _ListenerFailed(note.request, fault) from fault


def _tries(path: str, timeout_s: float | None) -> Iterator[sockets.socket | None]:
    """Connect: None while as many wait to be accepted as may, for whoever iterates to wait; the connection at last.

    It doesn't block, and so a daemon that hangs costs no more than `timeout_s`. Raises OSError.
    """
    ends_s = math.inf if timeout_s is None else time.monotonic() + timeout_s
    stream = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
    try:
        stream.setblocking(False)
        while True:
            try:
                stream.connect(path)
            except BlockingIOError as error:
                if time.monotonic() >= ends_s:
                    raise TimeoutError("the daemon takes no connection") from error
                yield None
            else:
                break
    except BaseException:
        stream.close()
        raise
    yield stream


def _connect(path: str, timeout_s: float | None, pause: Callable[[float], object] = time.sleep) -> sockets.socket:
    """A connection that doesn't block. Raises OSError."""
    tries = _tries(path, timeout_s)
    while (stream := next(tries)) is None:
        pause(CONNECT_AGAIN_S)
    return stream


async def _open(
    path: str, timeout_s: float | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, sockets.socket]:
    """The same for asyncio, which would take a connection that has to wait for one that is made."""
    import asyncio

    tries = _tries(path, timeout_s)
    while (stream := next(tries)) is None:
        await asyncio.sleep(CONNECT_AGAIN_S)
    return *await asyncio.open_unix_connection(sock=stream, limit=LINE_BYTES + 1), stream


def _closed_to_us(path: str) -> NoctuaryError:
    """What is said when the system lets this user not connect: whom it would let, as far as that can be seen."""
    data: dict[str, Any] = {"reason": "denied", "retryable": False}
    try:
        told = os.stat(path)
    except OSError:
        data["hint"] = "its directory is closed to this user"
        return Denied(f"user {os.geteuid()} may not reach the socket {path}", -32006, data)
    group = _group_name(told.st_gid)
    data["hint"] = f"have this user put into the group {group}, or socket_group set to one of its groups"
    message = f"there is a socket at {path}, but user {os.geteuid()} may not connect: its owner, and group {group}, may"
    return Denied(message, -32006, data)


def _group_name(gid: int) -> str:
    import grp

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


class _Requests:
    """What both clients share: numbering, the tenant, the lines."""

    def __init__(self, socket: str | None = None, tenant: str | None = None) -> None:
        self.socket = socket or default_socket()
        self.tenant = tenant or os.environ.get("NOCTUARY_TENANT") or None
        self._ids = itertools.count(1)
        self._via: str | None = None  # what `hello` declared: said again on a new connection

    def _greeting(self) -> bytes:
        """What a new connection begins with, so that it is what the one before was. Its answer isn't waited for."""
        return b"" if self._via is None else self._line("hello", {"via": self._via})[1]

    def _line(self, method: str, params: Mapping[str, Any]) -> tuple[int, bytes]:
        try:
            _refuse_what_json_lacks(params)
        except RecursionError as error:
            raise InvalidInput("the request is nested too deeply") from error
        if method == "hello" and params.get("via") is not None:
            self._via = params["via"]
        out = keyed(method, params)
        if self.tenant is not None and not out.get("store_wide") and out.get("tenants") is None:
            out.setdefault("tenant", self.tenant)
        number = next(self._ids)
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": out}
        try:
            line = _encode(request) + b"\n"
        except UnicodeEncodeError as error:
            raise InvalidInput(f"not valid Unicode: {error.reason}") from error
        if len(line) > LINE_BYTES:
            raise TooLarge("the request is longer than a line may be", data={"limit": LINE_BYTES})
        return number, line

    def _lost(self, error: Exception, lines: Iterable[bytes], sent: bool) -> NoctuaryError:
        """What has become of requests that are not answered: nothing, or nobody knows. A key says it: ask again."""
        why = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
        writes = [request for line in lines if (request := _requests.decode(line)).method in WRITES] if sent else []
        if isinstance(error, PermissionError) and not writes:
            return _closed_to_us(self.socket)
        if not writes:
            return Unreachable(f"no noctuary daemon at {self.socket}: {why}")
        keys = [request.params["idempotency_key"] for request in writes if "idempotency_key" in request.params]
        data = {"reason": "unknown_outcome", "retryable": True, "idempotency_keys": keys}
        return UnknownOutcome(
            f"the daemon at {self.socket} gave no answer ({why}): whether the write was done isn't known; "
            "ask again with the same idempotency key", -32012, data,
        )  # fmt: skip


class _Link(_Requests):
    """One connection, blocking. Threads may share it: their calls go one after another."""

    def __init__(self, socket: str | None = None, tenant: str | None = None, timeout_s: float | None = 60.0) -> None:
        super().__init__(socket, tenant)
        self.timeout_s = timeout_s
        self._stream: sockets.socket | None = None
        self._sent = False  # of the requests under way: whether the daemon may have them
        self._unsent = memoryview(b"")
        self._under_way: set[int] = set()
        self._sending = threading.Lock()  # for these two, and for what is sent: `cancel` comes from other threads
        self._rest = bytearray()
        self._listening: dict[int, OnProgress] = {}
        self._one_at_a_time = threading.RLock()

    def close(self) -> None:
        """Close the connection; the next call opens a new one."""
        with self._sending:
            if self._stream is not None:
                self._stream.close()
            self._stream = None
            self._unsent = memoryview(b"")
            self._under_way.clear()
        self._rest.clear()

    def cancel(self, request: int) -> bool:
        """End a call that waits, from another thread or from its `on_progress`, whose notes say its number.

        True when the daemon was told: then that call raises `Unavailable` with `data["cancelled"]`, unless its result
        was on its way already. False when no call of that number waits for its answer.
        """
        line = self._line("cancel", {"request": request})[1]
        with self._sending:
            if self._stream is None or request not in self._under_way:
                return False
            if self._unsent:
                self._unsent = memoryview(bytes(self._unsent) + line)
                return True
            try:
                self._stream.send(line)  # so little goes as a whole or not at all
            except OSError:
                return False  # the daemon takes nothing now, or has gone
        return True

    def call(self, method: str, params: Mapping[str, Any], kind: type[T], on_progress: OnProgress | None = None) -> T:
        """Any verb by name; the result is read as `kind` (`dict` for the plain JSON).

        `on_progress` is called now and then with how far it is, by verbs that take long. It may `cancel` the call.
        """
        number, line = self._line(method, params if on_progress is None else {**params, "progress": True})
        if on_progress is None:
            return _unwrap(self._send({number: line})[number], kind)
        self._listening[number] = on_progress
        try:
            return _unwrap(self._send({number: line})[number], kind)
        finally:
            del self._listening[number]

    def subscribe(
        self,
        after: Place = None,
        *,
        level: str | None = None,
        types: Sequence[str] | None = None,
        store_wide: bool | None = None,
        tenant: str | None = None,
        tenants: Sequence[str] | None = None,
    ) -> Subscription:
        """The records of the journal behind `after`, then each new one: to be iterated over. See `Subscription`."""
        wanted = {"level": level, "types": types, "store_wide": store_wide, "tenants": tenants}
        found = Subscription(self.socket, tenant or self.tenant, after, _given(wanted), self.timeout_s)
        found._via = self._via
        return found

    subscription = subscribe

    def call_many(self, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Any]:
        """Many calls without waiting in between. Answers in the order of the calls: each a result or
        a NoctuaryError, which is returned and not raised."""
        out: list[Any] = []
        for start in range(0, len(calls), WINDOW):
            part = calls[start : start + WINDOW]
            lines = [self._line(method, params) for method, params in part]
            answers = self._send(dict(lines))
            for (method, _), (number, _line) in zip(part, lines, strict=True):
                try:
                    out.append(_unwrap(answers[number], RESULTS.get(method, dict)))
                except NoctuaryError as error:
                    out.append(error)
        return out

    def _send(self, lines: dict[int, bytes]) -> dict[int, _Answer]:
        with self._one_at_a_time:
            return self._send_alone(lines)

    def _send_alone(self, lines: dict[int, bytes]) -> dict[int, _Answer]:
        answers: dict[int, _Answer] = {}
        self._sent = False
        for attempt in range(ATTEMPTS):
            left = {number: line for number, line in lines.items() if number not in answers}
            try:
                self._exchange(left, answers)
                return answers
            except OSError as error:
                self.close()
                # A socket that isn't there won't be there a moment later, nor will an answer that takes long.
                final = isinstance(error, FileNotFoundError | PermissionError | ConnectionRefusedError | TimeoutError)
                if final or attempt == ATTEMPTS - 1:
                    raise self._lost(error, left.values(), self._sent) from error
            except _ListenerFailed as error:
                self.close()
                raise error.fault from None
            except BaseException:
                self.close()  # an answer half read must not be taken for the next call's
                raise
        raise AssertionError("unreachable")

    def _connected(self) -> sockets.socket:
        if self._stream is None:
            self._stream = _connect(self.socket, self.timeout_s)
        return self._stream

    def _exchange(self, lines: dict[int, bytes], answers: dict[int, _Answer]) -> None:
        """Write and read at once, so that neither side waits for the other with full buffers."""
        greeting = self._greeting() if self._stream is None else b""
        stream = self._connected()
        waiting = set(lines)
        with self._sending:
            self._unsent = memoryview(greeting + b"".join(lines.values()))
            self._under_way = waiting
        poll = select.poll()
        poll.register(stream, select.POLLIN | select.POLLOUT)
        timeout_ms = None if self.timeout_s is None else self.timeout_s * 1000
        while waiting:
            ready = poll.poll(timeout_ms)
            if not ready:
                raise TimeoutError("no answer in time")
            events = ready[0][1]
            if events & select.POLLOUT and not events & select.POLLIN:
                with self._sending:
                    self._unsent = self._unsent[stream.send(self._unsent) :]
                    self._sent = True
                    if not self._unsent:
                        self._unsent = memoryview(b"")  # what was sent isn't kept
                        poll.modify(stream, select.POLLIN)
            else:  # first what the daemon says: it may be why it closes
                piece = stream.recv(RECEIVE_BYTES)
                if not piece:
                    raise ConnectionResetError("the daemon closed the connection")
                self._take(piece, waiting, answers)

    def _take(self, piece: bytes, waiting: set[int], answers: dict[int, _Answer]) -> None:
        self._rest += piece
        if b"\n" not in piece:
            return
        *whole, rest = bytes(self._rest).split(b"\n")
        self._rest = bytearray(rest)
        for line in whole:
            answer = _read(line)
            if answer.method is not None:
                _tell(answer, self._listening)
                continue
            if answer.error is not None and answer.id is None:
                raise error_of(answer.error)
            if isinstance(answer.id, int) and answer.id in waiting:
                waiting.discard(answer.id)
                answers[answer.id] = answer


class _AsyncLink(_Requests):
    """One connection under asyncio; calls may run at the same time."""

    def __init__(self, socket: str | None = None, tenant: str | None = None, timeout_s: float | None = 60.0) -> None:
        super().__init__(socket, tenant)
        self.timeout_s = timeout_s
        self._loop: asyncio.AbstractEventLoop | None = None  # all that follows belongs to it
        self._stream: sockets.socket | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._task: asyncio.Task[None] | None = None
        self._waiting: dict[int, asyncio.Future[_Answer]] = {}
        self._listening: dict[int, OnProgress] = {}
        self._lock: asyncio.Lock | None = None

    async def close(self) -> None:
        """Close the connection; the next call opens a new one."""
        import asyncio

        if self._loop is not asyncio.get_running_loop():
            self._leave_loop()
            return
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
        if self._writer is not None:
            self._writer.close()
        self._writer = None
        self._fail(ConnectionResetError("closed"))

    async def call(
        self, method: str, params: Mapping[str, Any], kind: type[T], on_progress: OnProgress | None = None
    ) -> T:
        """Any verb by name; as `Client.call`."""
        number, line = self._line(method, params if on_progress is None else {**params, "progress": True})
        if on_progress is None:
            return _unwrap(await self._send(number, line), kind)
        self._listening[number] = on_progress
        try:
            return _unwrap(await self._send(number, line), kind)
        finally:
            del self._listening[number]

    def subscribe(
        self,
        after: Place = None,
        *,
        level: str | None = None,
        types: Sequence[str] | None = None,
        store_wide: bool | None = None,
        tenant: str | None = None,
        tenants: Sequence[str] | None = None,
    ) -> AsyncSubscription:
        """As `Client.subscribe`, to be iterated over with `async for`."""
        wanted = {"level": level, "types": types, "store_wide": store_wide, "tenants": tenants}
        found = AsyncSubscription(self.socket, tenant or self.tenant, after, _given(wanted), self.timeout_s)
        found._via = self._via
        return found

    subscription = subscribe

    async def call_many(self, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Any]:
        """Many calls without waiting in between; as `Client.call_many`."""
        import asyncio

        out: list[Any] = []
        for start in range(0, len(calls), WINDOW):
            part = calls[start : start + WINDOW]
            done = await asyncio.gather(
                *(self.call(method, params, RESULTS.get(method, dict)) for method, params in part),
                return_exceptions=True,
            )
            for item in done:
                if isinstance(item, BaseException) and not isinstance(item, NoctuaryError):
                    raise item
            out.extend(done)
        return out

    async def _send(self, number: int, line: bytes) -> _Answer:
        import asyncio

        sent = False
        for attempt in range(ATTEMPTS):
            try:
                writer = await self._connected()
                future: asyncio.Future[_Answer] = asyncio.get_running_loop().create_future()
                self._waiting[number] = future
                writer.write(line)
                sent = sent or not writer.is_closing()  # a connection that is gone takes nothing
                return await asyncio.wait_for(future, self.timeout_s)
            except _ListenerFailed as error:
                raise error.fault from None
            except OSError as error:
                final = isinstance(error, FileNotFoundError | PermissionError | ConnectionRefusedError | TimeoutError)
                if final or attempt == ATTEMPTS - 1:
                    raise self._lost(error, (line,), sent) from error
            finally:
                self._waiting.pop(number, None)
        raise AssertionError("unreachable")

    async def _connected(self) -> asyncio.StreamWriter:
        import asyncio

        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._leave_loop()
            self._loop, self._lock = loop, asyncio.Lock()
        assert self._lock is not None
        async with self._lock:
            if self._writer is None:
                reader, writer, self._stream = await _open(self.socket, self.timeout_s)
                self._writer = writer
                writer.write(self._greeting())
                self._task = asyncio.create_task(self._listen(reader, writer))
            return self._writer

    def _leave_loop(self) -> None:
        """The connection was another loop's, and is of no use in this one."""
        loop, writer, stream = self._loop, self._writer, self._stream
        self._loop = self._writer = self._stream = self._task = None
        self._waiting.clear()
        if loop is None or writer is None or stream is None:
            return
        if loop.is_closed():
            stream.close()
        else:
            loop.call_soon_threadsafe(writer.close)

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        fault: Exception = ConnectionResetError("the daemon closed the connection")
        try:
            while line := await reader.readline():
                answer = _read(line)
                if answer.method is not None:
                    self._note(answer)
                    continue
                if answer.error is not None and answer.id is None:
                    fault = error_of(answer.error)
                    break
                future = self._waiting.get(answer.id) if isinstance(answer.id, int) else None
                if future is not None and not future.done():
                    future.set_result(answer)
        except (OSError, ValueError) as error:
            fault = ConnectionResetError(str(error))
        finally:
            with suppress(RuntimeError):  # its loop was closed, and nobody waits in it
                writer.close()
                if self._writer is writer:
                    self._writer = None
                    self._fail(fault)

    def _note(self, answer: _Answer) -> None:
        """A fault of a listener is its call's, not that of the others on this connection."""
        try:
            _tell(answer, self._listening)
        except _ListenerFailed as error:
            future = self._waiting.get(error.request)
            if future is not None and not future.done():
                future.set_exception(error)

    def _fail(self, fault: Exception) -> None:
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(fault)


def place_of(found: Place) -> dict[str, Any]:
    """The place of a frame, a mark, a head, or a mapping: what `after` takes, and JSON can keep."""
    names = ("store", "epoch", "seq", "chain")
    given = found if isinstance(found, Mapping) else {name: getattr(found, name, None) for name in names}
    return {name: given[name] for name in names if given.get(name) is not None}


class _Following(_Requests):
    """What both kinds of subscription share: where they are, and what a line means to them."""

    def __init__(
        self, socket: str | None, tenant: str | None, after: Place, wanted: Mapping[str, Any], timeout_s: float | None
    ) -> None:
        super().__init__(socket, tenant)
        self.timeout_s = timeout_s
        self.patience_s = PATIENCE_S
        self.on_change: Callable[[Exception | None], None] | None = None
        """Called with what broke the connection, before it waits for the daemon; with None when it follows (again)."""
        self.place: dict[str, Any] | None = None if after is None else place_of(after)
        self._wanted = dict(wanted)
        self._request = 0
        self._began = False
        self._lost_at: float | None = None
        self._wait_s = WAIT_MIN_S

    def _beginning(self) -> bytes:
        """What a new connection is sent first."""
        after = {} if self.place is None else {"after": self.place}
        self._request, line = self._line("subscribe", {**self._wanted, **after})
        return self._greeting() + line

    def _item(self, line: bytes) -> Frame | Mark | None:
        """What a line gives to whoever follows. Raises NoctuaryError for a refusal, ConnectionError."""
        answer = _read(line)
        if answer.method is None:
            self._answered(answer)
            return None
        try:
            return self._notified(answer)
        except msgspec.MsgspecError as error:
            raise ConnectionError(f"a notification that is none: {error}") from error

    def _answered(self, answer: _Answer) -> None:
        if answer.error is not None and answer.id in (None, self._request):
            raise error_of(answer.error)
        if answer.id == self._request:
            head = _unwrap(answer, SubscribeResult).head
            self.place = {"store": head.store, **(self.place or place_of(head))}
            self._began, self._lost_at, self._wait_s = True, None, WAIT_MIN_S
            if self.on_change is not None:
                self.on_change(None)

    def _notified(self, answer: _Answer) -> Frame | Mark | None:
        if answer.method == "record":
            recorded = msgspec.json.decode(answer.params, type=_Recorded)
            if recorded.request == self._request:
                self.place = place_of(recorded.frame)
                return recorded.frame
        elif answer.method == "mark":
            mark = msgspec.json.decode(answer.params, type=Mark)
            if mark.request == self._request:
                self.place = {**(self.place or {}), **place_of(mark)}
                return mark
        elif answer.method == "end":
            ended = msgspec.json.decode(answer.params, type=_Ended)
            if ended.request == self._request:
                raise error_of(ended.error)
        return None

    def _wait_after(self, error: Exception) -> float:
        """How long to wait before the next try to go on. Raises what is no use to wait out."""
        passing = isinstance(error, OSError | Unavailable | Overloaded)
        now = time.monotonic()
        newly, self._lost_at = self._lost_at is None, now if self._lost_at is None else self._lost_at
        if not passing or not self._began or now - self._lost_at > self.patience_s:
            if isinstance(error, OSError):
                raise self._lost(error, (), False) from error
            raise error
        if newly and self.on_change is not None:
            self.on_change(error)
        self._wait_s, wait_s = min(2 * self._wait_s, WAIT_MAX_S), self._wait_s
        return wait_s


class Subscription(_Following):
    """Frames of records in the journal's order, each once, and marks in between; iterate over it.

    It has a connection of its own. When that breaks or the daemon restarts it connects again and goes on behind
    `place`, for up to `patience_s`. `place` is that of the newest item it gave: keep it (as JSON) with what was done
    with the item, and begin from it with `after` the next time. `Conflict` means that the place isn't in the journal
    any more: `data["current"]` and `data["forked_from"]` say what is. Whoever takes items slowly is waited for.
    """

    def __init__(
        self,
        socket: str | None = None,
        tenant: str | None = None,
        after: Place = None,
        wanted: Mapping[str, Any] | None = None,
        timeout_s: float | None = 60.0,
    ) -> None:
        super().__init__(socket, tenant, after, wanted or {}, timeout_s)
        self._stream: sockets.socket | None = None
        self._rest = bytearray()
        self._lines: deque[bytes] = deque()
        self._told_to_close = threading.Event()
        self._iterating = threading.Lock()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End it, also from another thread: the iteration stops."""
        self._told_to_close.set()
        stream = self._stream
        if stream is not None:
            with suppress(OSError):
                stream.shutdown(sockets.SHUT_RDWR)
        self._disconnect_unless_iterated()

    def _disconnect_unless_iterated(self) -> None:
        """Whoever waits for an item finds the connection shut down, and closes it."""
        if self._iterating.acquire(blocking=False):
            try:
                self._disconnect()
            finally:
                self._iterating.release()

    def __iter__(self) -> Iterator[Frame | Mark]:
        return self

    def __next__(self) -> Frame | Mark:
        try:
            with self._iterating:
                return self._next_item()
        finally:
            if self._told_to_close.is_set():
                self._disconnect_unless_iterated()

    def _next_item(self) -> Frame | Mark:
        while not self._told_to_close.is_set():
            try:
                item = self._item(self._next_line())
            except (OSError, NoctuaryError) as error:
                self._disconnect()
                if self._told_to_close.is_set():
                    break
                self._told_to_close.wait(self._wait_after(error))
            else:
                if item is not None:
                    return item
        raise StopIteration

    def _next_line(self) -> bytes:
        if self._stream is None:
            self._connect()
        while not self._lines:
            assert self._stream is not None
            piece = self._stream.recv(RECEIVE_BYTES)
            if not piece:
                raise ConnectionResetError("the daemon closed the connection")
            self._rest += piece
            if b"\n" in piece:
                *whole, rest = bytes(self._rest).split(b"\n")
                self._rest = bytearray(rest)
                self._lines.extend(whole)
        return self._lines.popleft()

    def _connect(self) -> None:
        stream = _connect(self.socket, self.timeout_s, self._pause)
        try:
            stream.settimeout(self.timeout_s)
            stream.sendall(self._beginning())
        except BaseException:
            stream.close()
            raise
        self._stream = stream

    def _pause(self, seconds: float) -> None:
        if self._told_to_close.wait(seconds):
            raise ConnectionAbortedError("closed")

    def _disconnect(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._stream = None
        self._rest.clear()
        self._lines.clear()


class AsyncSubscription(_Following):
    """As `Subscription`, for `async for`."""

    def __init__(
        self,
        socket: str | None = None,
        tenant: str | None = None,
        after: Place = None,
        wanted: Mapping[str, Any] | None = None,
        timeout_s: float | None = 60.0,
    ) -> None:
        super().__init__(socket, tenant, after, wanted or {}, timeout_s)
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._closed = False

    async def __aenter__(self) -> AsyncSubscription:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End it: the iteration stops."""
        self._closed = True
        self._disconnect()

    def __aiter__(self) -> AsyncIterator[Frame | Mark]:
        return self

    async def __anext__(self) -> Frame | Mark:
        import asyncio

        while not self._closed:
            try:
                item = self._item(await asyncio.wait_for(self._next_line(), self.timeout_s))
            except (OSError, NoctuaryError) as error:
                self._disconnect()
                if not self._closed:
                    await asyncio.sleep(self._wait_after(error))
            except BaseException:
                self._disconnect()  # cancelled, perhaps with half a line read
                raise
            else:
                if item is not None:
                    return item
        raise StopAsyncIteration

    async def _next_line(self) -> bytes:

        if self._reader is None:
            self._reader, self._writer, _ = await _open(self.socket, self.timeout_s)
            self._writer.write(self._beginning())
        line = await self._reader.readline()
        if not line.endswith(b"\n"):
            raise ConnectionResetError("the daemon closed the connection")
        return line

    def _disconnect(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None


# --- generated by ops/generate_client.py from daemon/wire; do not edit below this line ---


class Result(msgspec.Struct, kw_only=True):
    """The root of all answers."""


class WriteResult(Result, kw_only=True):
    """`duplicate` and `state` are for a request that was done before (PROTOCOL §4)."""

    duplicate: bool | None = None
    state: str | None = None


class Address(Result, kw_only=True):
    """Address."""

    epoch: int
    seq: int


class Producer(Result, kw_only=True):
    """Producer."""

    agent: str | None
    model: str | None
    version: str | None
    extractor: str | None


class Actor(Result, kw_only=True):
    """Actor."""

    uid: int
    role: str
    via: str


class Confidence(Result, kw_only=True):
    """Confidence."""

    stored: float
    effective: float


class Entity(Result, kw_only=True):
    """Entity."""

    name: str
    type: str


class External(Result, kw_only=True):
    """External."""

    kind: str
    id: str
    resolvable: bool


class Fact(Result, kw_only=True):
    """Fact."""

    id: str
    subject: str
    predicate: str
    value: str
    confidence: float | None
    valid_from: str | None
    valid_to: str | None
    source_proposal: str | None


class Imported(Result, kw_only=True):
    """Imported."""

    format: str
    foreign_id: str | None
    created_at: str | None


class Memory(Result, kw_only=True):
    """A memory in full."""

    id: str
    kind: str
    subtype: str | None = None
    text: str | None = None
    status: str
    marks: list[str] | None = None
    origin: str | None = None
    assertable: bool | None = None
    hedge: str | None = None
    role: str | None = None
    speaker: str | None = None
    session: str | None = None
    turn: int | None = None
    producer: Producer | None = None
    actor: Actor | None = None
    address: Address | None = None
    at: str | None = None
    occurred_at: str | None = None
    occurred_offset: str | None = None
    valid_from: str | None = None
    valid_to: str | None = None
    verified_at: str | None = None
    verifications: int | None = None
    topic: str | None = None
    tags: list[str] | None = None
    entities: list[Entity] | None = None
    subject: str | None = None
    project: str | None = None
    source_entity: str | None = None
    importance: float | None = None
    strength: float | None = None
    confidence: Confidence | None = None
    valence: float | None = None
    arousal: float | None = None
    predecessor: str | None = None
    superseded_by: str | None = None
    derived_from: list[str | External] | None = None
    evidence: list[str | External] | None = None
    processed_into: list[str] | None = None
    grounded: bool | None = None
    facts: list[Fact] | None = None
    metadata: dict[str, Any] | None = None
    partition: str | None = None
    soul_version: int | None = None
    source: External | None = None
    imported: Imported | None = None
    provenance: Chain | None = None
    cut: bool = False
    purged_at: str | None = None
    damaged: bool = False
    what: str | None = None


class RememberResult(Result, kw_only=True):
    """RememberResult."""

    id: str
    address: Address
    duplicate: bool
    session: str | None
    turn: int | None
    notes: list[str]
    state: str | None = None


class ItemError(Result, kw_only=True):
    """The error of one item of a batch that isn't atomic."""

    code: int
    message: str
    data: dict[str, Any]


class RefusedItem(Result, kw_only=True):
    """RefusedItem."""

    index: int
    error: ItemError


class RememberManyResult(WriteResult, kw_only=True):
    """RememberManyResult."""

    results: list[Written]

    def __post_init__(self) -> None:
        self.results = [written(item) for item in self.results]


class GetResult(Result, kw_only=True):
    """GetResult."""

    memories: list[Memory]
    not_found: list[str]


class ListResult(Result, kw_only=True):
    """ListResult."""

    memories: list[Memory]
    next_cursor: str | None
    total: int


class ForgetResult(WriteResult, kw_only=True):
    """`state` is `purged`, and `tombstoned_at` null, when there is nothing left to be forgotten."""

    found: bool
    tombstoned_at: str | None
    flagged: list[str]


class OldNew(Result, kw_only=True):
    """OldNew."""

    old: float
    new: float


class RecoverResult(WriteResult, kw_only=True):
    """Also that of reinforce, weaken and reaffirm."""

    strength: OldNew
    confidence: OldNew
    flags_set: list[str]
    flags_cleared: list[str]
    notes: list[str] | None = None


class Boost(Result, kw_only=True):
    """Boost."""

    id: str
    old: float
    new: float


class VerifyResult(WriteResult, kw_only=True):
    """VerifyResult."""

    confidence: OldNew
    strength: OldNew
    boosted: list[Boost]
    verified_at: str
    verifications: int
    flags_cleared: list[str]


class MarkResult(WriteResult, kw_only=True):
    """MarkResult."""

    marks: list[str]
    notes: list[str] | None = None


class RelateResult(WriteResult, kw_only=True):
    """RelateResult."""

    edge: str


class ReviseResult(WriteResult, kw_only=True):
    """Of a `move` the id is that of the memory itself, and there is no predecessor."""

    id: str
    predecessor: str | None
    address: Address
    notes: list[str] | None = None


class SessionOpenResult(WriteResult, kw_only=True):
    """SessionOpenResult."""

    session: str
    activation: int
    created: bool
    reopened: bool
    opened_at: str


class SessionCloseResult(WriteResult, kw_only=True):
    """SessionCloseResult."""

    closed_at: str
    already_closed: bool


class SessionListed(Result, kw_only=True):
    """One session. `state`: open, stale, closed or purged; `key` and the rest null when purged."""

    session: str
    agent: str
    key: str | None
    state: str
    activation: int
    turns: int
    opened_at: str
    last_at: str
    closed_at: str | None
    project: str | None
    subject: str | None
    producer: Producer | None


class SessionsResult(Result, kw_only=True):
    """SessionsResult."""

    sessions: list[SessionListed]
    next_cursor: str | None
    total: int


class SleepEligibility(Result, kw_only=True):
    """SleepEligibility."""

    eligible: bool
    why_not: str | None
    unsettled: int
    promoted: int
    noise: int


class SessionResult(SessionListed, kw_only=True):
    """`memories` (its turns), `passes` and `derived` are there when they were asked for."""

    sleep: SleepEligibility
    memories: list[Memory] | None = None
    passes: list[PassTold] | None = None
    derived: list[Memory] | None = None
    next_cursor: str | None = None
    total: int | None = None


class TraceNode(Result, kw_only=True):
    """TraceNode."""

    ref: str
    kind: str
    status: str
    origin: str | None
    at: str | None
    depth: int
    confidence: float | None


class TraceEdge(Result, kw_only=True):
    """TraceEdge."""

    from_: str = msgspec.field(name="from")
    to: str
    type: str


class TraceResult(Result, kw_only=True):
    """TraceResult."""

    root: str
    nodes: list[TraceNode]
    edges: list[TraceEdge]
    truncated: bool


class LifecycleResult(WriteResult, kw_only=True):
    """LifecycleResult."""

    state: str
    enforce: bool


class HeadResult(Result, kw_only=True):
    """HeadResult."""

    store: str
    epoch: int
    seq: int
    chain: str
    at: str | None


class FindingOut(Result, kw_only=True):
    """FindingOut."""

    code: str
    seq: int | None
    what: str
    action: str


class HelloResult(Result, kw_only=True):
    """HelloResult."""

    version: str
    protocol: int
    store: str
    epoch: int
    tenant: str
    role: str
    state: str
    limits: dict[str, int]
    verbs: list[str]


class DescribeResult(Result, kw_only=True):
    """DescribeResult."""

    params: dict[str, Any]
    result: dict[str, Any]


class RecoveryOut(Result, kw_only=True):
    """RecoveryOut."""

    clean: bool
    boot_changed: bool
    from_seq: int
    to_seq: int
    rebuilt: list[str]
    took_ms: int


class CyclesOut(Result, kw_only=True):
    """CyclesOut."""

    last: str | None
    next: str | None


class UsageOut(Result, kw_only=True):
    """UsageOut."""

    records: int
    bytes: int
    max_bytes: int | None


class StatusResult(Result, kw_only=True):
    """StatusResult."""

    health: str
    findings: list[FindingOut]
    recovery: RecoveryOut
    head: HeadResult
    lag: int
    map_bytes: int | None
    disk_free_bytes: int | None
    oldest_reader_ms: int | None
    warmed: float
    cycle: CyclesOut
    partitions: dict[str, int]
    keys_ready: int | None
    tenant: str
    tenant_state: str
    enforce: bool
    usage: UsageOut | None
    read_only: bool
    socket: str | None


class Revision(Result, kw_only=True):
    """One version of a memory, oldest first. `disposition`: how it took the place of `predecessor`."""

    id: str
    predecessor: str | None
    disposition: str | None
    at: str
    status: str
    actor: Actor | None
    producer: Producer


class HistoryEvent(Result, kw_only=True):
    """One record that touches a memory. `about` is the memory that it speaks of: another one when that is a source
    that was forgotten, say, and flags this memory. Of a record that can't be read only its number is told; its type is
    `damaged`."""

    seq: int
    at: str | None
    type: str
    version: int
    actor: Actor | None
    about: str | None = None


class NumberChange(Result, kw_only=True):
    """How a number of a memory changed. `old` is null where it began."""

    seq: int
    at: str
    old: float | None
    new: float
    reason: str


class HistoryResult(Result, kw_only=True):
    """`truncated`: there are more revisions than are told."""

    revisions: list[Revision]
    events: list[HistoryEvent]
    confidence: list[NumberChange]
    strength: list[NumberChange]
    truncated: bool = False


class FramePart(Result, kw_only=True):
    """`state`: sealed, content, purged or damaged. `ciphertext` and binary `content` are base64; `digest` is that of
    the content, BLAKE2b-128 in hex."""

    part: str
    state: str
    owner_seq: int
    length: int
    ciphertext: str | None = None
    content: str | None = None
    encoding: str | None = None
    digest: str | None = None


class FrameCause(Result, kw_only=True):
    """What ties the records of one command together."""

    first_seq: int
    verb: str
    correlation: str | None


class Frame(Result, kw_only=True):
    """One record. `body` with `prev` and `chain` lets anyone verify it alone."""

    store: str
    epoch: int
    seq: int
    at: str
    tenant: str | None
    actor: Actor
    cause: FrameCause
    type: str
    version: int
    event: dict[str, Any]
    body: str
    prev: str
    chain: str
    parts: list[FramePart]


class RecordsResult(Result, kw_only=True):
    """`hash_key` is there at level content for who may export: an import keeps its digests equal with it."""

    frames: list[Frame]
    next_cursor: str | None
    total: int
    hash_key: str | None = None


class SubscribeResult(Result, kw_only=True):
    """From here on `record` and `mark` notifications come, until `cancel` or the end of the connection."""

    head: HeadResult


class CancelResult(Result, kw_only=True):
    """CancelResult."""

    cancelled: bool


class RebuildResult(Result, kw_only=True):
    """RebuildResult."""

    rebuilt: list[str]
    took_ms: int


class BackupFile(Result, kw_only=True):
    """BackupFile."""

    name: str
    bytes: int
    digest: str


class BackupPart(Result, kw_only=True):
    """`seq`: the record that the part stands at; for the vault, up to which every purge is carried out in it."""

    epoch: int
    seq: int
    chain: str
    vault_next: int
    at: str
    files: list[BackupFile]
    master_key: bool


class BackupResult(Result, kw_only=True):
    """The manifest, as it lies in the directory. `leftover`: files of before that could not be removed."""

    backup: int
    store: str
    format: int
    version: str
    journal: BackupPart | None
    vault: BackupPart | None
    leftover: list[str] | None = None


class MetricsResult(Result, kw_only=True):
    """MetricsResult."""

    text: str


class SourceTold(Result, kw_only=True):
    """What a memory was made from, or is supported by. `state`: live, forgotten, pruned, purged, unavailable or
    not_found; `text` has at most 200 characters, and `cut` says that there are more. `quarantined`: a cohort holds it
    back, so what it says is in doubt."""

    ref: str
    state: str
    text: str | None
    cut: bool = False
    purged_at: str | None = None
    quarantined: bool = False


class ProvenanceRow(Result, kw_only=True):
    """A row of the provenance region. Of a client's note `pass` and the place in it are null."""

    id: str
    session: str | None
    state: str
    pass_: int | None = msgspec.field(name="pass")
    fact_index: int | None
    batch_count: int | None
    turn_count: int
    first_seq: int | None
    last_seq: int | None
    partition: str | None
    at: str
    source: str | None
    content_hash_hi: int


class ExplainResult(Result, kw_only=True):
    """`how`: written, consolidated, imported or seeded. `grounds` are what it stands on: its `sources` within the
    store, or, when it has none, those of the version before it. `row` is the first of `rows`."""

    id: str
    how: str
    at: str
    actor: Actor
    producer: Producer | None
    origin: str
    session: str | None
    turn: int | None
    sources: list[SourceTold]
    evidence: list[SourceTold]
    quoted_from: list[str]
    row: ProvenanceRow | None
    rows: list[ProvenanceRow]
    grounds: list[str]
    predecessor: str | None
    disposition: str | None
    source: SourceTold | None


class SessionProvenanceResult(Result, kw_only=True):
    """`client_notes`: how many notes clients made of it, told or not."""

    derived: list[ProvenanceRow]
    truncated: bool
    client_notes: int


class PassTold(Result, kw_only=True):
    """One pass of sleep over a session. `partial`: it has not ended."""

    pass_: int = msgspec.field(name="pass")
    facts: int
    turns: int
    at: str
    partial: bool


class ReviewItem(Result, kw_only=True):
    """`others`: who set the flag, what it contradicts, the sources that are gone, whom a proposal names."""

    what: str
    id: str
    why: str
    since: str | None
    others: list[str]
    confidence: float | None


class ReviewResult(Result, kw_only=True):
    """ReviewResult."""

    items: list[ReviewItem]
    next_cursor: str | None
    total: int


class ChainRun(Result, kw_only=True):
    """The session that a memory was written in. `agent` is as its opener reported it."""

    agent: str
    opened_at: str


class ChainOrigin(Result, kw_only=True):
    """Of the memory's own native create event; all null for an imported one."""

    session: str | None = None
    actor_kind: str | None = None
    created_at: str | None = None
    run: ChainRun | None = None


class SourceProposal(Result, kw_only=True):
    """SourceProposal."""

    kind: str
    id: str


class ChainVersion(Result, kw_only=True):
    """One edge of revision, and the memory at its other end."""

    id: str
    kind: str
    subtype: str | None
    topic: str | None
    project: str | None
    status: str
    valid_from: str | None
    valid_to: str | None
    created_at: str
    edge: str
    edge_type: str
    created_by: str
    edge_created_at: str
    depth: int
    source_proposal: SourceProposal | None
    created_by_session: str | None


class ChainSupersession(Result, kw_only=True):
    """ChainSupersession."""

    predecessors: list[ChainVersion]
    successors: list[ChainVersion]
    truncated: bool


class ChainEvent(Result, kw_only=True):
    """`id` is `record:SEQ`."""

    id: str
    event_kind: str
    actor_kind: str
    created_at: str
    session: str | None
    proposal: str | None


class ChainEvents(Result, kw_only=True):
    """ChainEvents."""

    items: list[ChainEvent]
    truncated: bool


class ChainProposal(Result, kw_only=True):
    """An applied proposal. `produced`: edges, facts, and records that marked a memory (`record:SEQ`)."""

    id: str
    kind: str
    edge_type: str | None
    action: str | None
    other_memory: str | None
    created_at: str
    decided_at: str
    produced: list[str]


class ChainProposals(Result, kw_only=True):
    """ChainProposals."""

    items: list[ChainProposal]
    truncated: bool


class ChainFact(Result, kw_only=True):
    """ChainFact."""

    id: str
    valid_from: str | None
    valid_to: str | None
    source_proposal: str | None


class ChainFacts(Result, kw_only=True):
    """ChainFacts."""

    items: list[ChainFact]
    truncated: bool


class ChainSections(Result, kw_only=True):
    """Each is ok or unavailable."""

    origin: str
    supersession: str
    events: str
    proposals: str
    facts: str


class Chain(Result, kw_only=True):
    """Chain."""

    origin: ChainOrigin
    supersession: ChainSupersession
    events: ChainEvents
    proposals: ChainProposals
    facts: ChainFacts
    sections: ChainSections


class ProposeResult(WriteResult, kw_only=True):
    """`existed`: one that says the same waits already; what was said with it first stands."""

    proposal: str
    existed: bool


class DecideResult(WriteResult, kw_only=True):
    """`decided` is applied or rejected."""

    decided: str
    produced: list[str]


class ProposedFact(Result, kw_only=True):
    """A fact that is proposed, with its words. It gets an id when it is accepted."""

    subject: str
    predicate: str
    value: str
    confidence: float | None
    valid_from: str | None
    valid_to: str | None


class ProposalRow(Result, kw_only=True):
    """`fact` and `note` are null when there is none, and when it can't be told: `unread` says why then."""

    proposal: str
    proposal_kind: str
    status: str
    memory: str
    other: str | None
    edge: str | None
    action: str | None
    fact: ProposedFact | None
    note: str | None
    unread: str | None
    cycle: str | None
    at: str
    decided_at: str | None
    produced: list[str]


class ProposalsResult(Result, kw_only=True):
    """ProposalsResult."""

    proposals: list[ProposalRow]
    next_cursor: str | None
    total: int


class Compared(Result, kw_only=True):
    """Numbers of one side of a comparison, over the memories that its selection finds. Rates are 0..1, null of none."""

    count: int
    by_origin: dict[str, int]
    by_kind: dict[str, int]
    superseded_rate: float | None
    rejected_rate: float | None
    unresolvable_rate: float | None
    forgotten_rate: float | None
    mean_confidence: float | None
    mean_importance: float | None


class CohortResult(WriteResult, kw_only=True):
    """Without a token: what would be touched, and the token to do it with, from `count` to `token`. With one: `cohort`
    and `done`; of rederive also what was left. Of a comparison only `compared`, the selection's side first.

    `count` is complete; of `ids` there are at most 1,000, with `ids_cut`. `token` is null when nothing would be
    touched."""

    count: int | None = None
    ids: list[str] | None = None
    ids_cut: bool | None = None
    downstream: list[str] | None = None
    downstream_cut: bool | None = None
    not_rederivable: list[str] | None = None
    not_rederivable_cut: bool | None = None
    token: str | None = None
    cohort: str | None = None
    done: int | None = None
    held_by_others: int | None = None
    compared: list[Compared] | None = None


class CohortRow(Result, kw_only=True):
    """What of the selection may be told is told, from `producers` to `session`. `sealed`: it asked for content too.

    `ids` are its first 20 memories."""

    cohort: str
    action: str
    count: int
    downstream: int
    at: str
    lifted_at: str | None
    producers: list[Producer]
    origins: list[str]
    kinds: list[str]
    since: str | None
    until: str | None
    statuses: list[str]
    session: str | None
    sealed: bool
    ids: list[str]


class CohortsResult(Result, kw_only=True):
    """CohortsResult."""

    cohorts: list[CohortRow]
    next_cursor: str | None
    total: int


class LiftResult(WriteResult, kw_only=True):
    """`already`: it was lifted before, and nothing was done."""

    cohort: str
    already: bool
    done: int
    held_by_others: int | None = None


class PurgeOutcome(Result, kw_only=True):
    """What a purge did to one memory, and what it could not reach. Of an unknown id `found` is false. Of a memory that
    was purged before it says what that purge did, and `receipt` is the one of that. `damaged`: nothing was done to it,
    since not all of it can be read. The lists are bounded, what is counted is complete."""

    memory: str
    tenant: str
    found: bool
    purged_at: str | None
    keys_shredded: int
    payload_bytes: int
    text_bytes: int
    text_retained_shared: int
    text_shared_with: int
    text_destroyed: bool
    has_local_retention: bool
    hebbian_edges_removed: int
    temporal_unlinked: bool
    entity_links_removed: int
    hyperedges_removed: int
    quoting_purged: list[str]
    derived_surviving: list[str]
    sources_surviving: list[str]
    versions_surviving: list[str]
    retained_header_fields: list[str]
    retained_journal_fields: list[str]
    fingerprint_retained: bool
    unreachable_copies: list[str]
    disclosure: str
    quoting_purged_count: int = 0
    derived_surviving_count: int = 0
    sources_surviving_count: int = 0
    versions_surviving_count: int = 0
    receipt: Address | None = None
    damaged: bool = False


class PurgeTotals(Result, kw_only=True):
    """Sums over what this call purged, which are `memories`."""

    memories: int
    found: int
    keys_shredded: int
    payload_bytes: int
    text_bytes: int
    text_retained_shared: int


class PurgeResult(WriteResult, kw_only=True):
    """`count` memories go by this call, and `sessions` of which nothing is left; `receipt` is null when nothing was
    purged. Of a dry run, or the first call by a
    selection, `results` tell what would happen, and the `token` of a selection does it. `results_cut`: there are more
    results than an answer holds; the receipt has them all."""

    results: list[PurgeOutcome]
    totals: PurgeTotals
    receipt: Address | None
    count: int
    dry_run: bool
    sessions: list[str]
    results_cut: bool = False
    token: str | None = None
    state: str | None = None


class Receipt(Result, kw_only=True):
    """One purge. `count` memories went, of which `memories` tells the first. `results` stand in the answer, page by
    page, when one receipt is asked for. `applied_again`: a restore did what a purge had done before."""

    receipt: Address
    at: str
    tenant: str
    actor: Actor
    reason: str
    cascade: str
    totals: PurgeTotals
    count: int
    memories: list[str]
    sessions: list[str]
    fingerprint_retained: bool
    file_system: str | None
    applied_again: bool
    disclosure: str
    results: list[PurgeOutcome] | None = None


class PurgesResult(Result, kw_only=True):
    """Newest first. With `receipt` it is one, and the page is one of its results."""

    purges: list[Receipt]
    next_cursor: str | None
    total: int


class HoldResult(WriteResult, kw_only=True):
    """`changed`: those on which the mark was put, or from which it was taken. `noted`: held already, and now with this
    note. `not_found`: ids that no memory has, or one that is purged."""

    held: bool
    count: int
    changed: list[str]
    noted: list[str]
    not_found: list[str]


class HeldRow(Result, kw_only=True):
    """HeldRow."""

    memory: str
    since: str
    note: str | None


class HoldsResult(Result, kw_only=True):
    """HoldsResult."""

    holds: list[HeldRow]
    next_cursor: str | None
    total: int


class CompactionResult(Result, kw_only=True):
    """Of a partition that was not compacted, only the census, and the `reason`: nothing was moved, or what could not be
    read ended it."""

    partition: str
    tier: str
    before_count: int
    after_count: int
    tombstones_removed: int
    bytes_reclaimed: int
    file_bytes_reclaimed: int
    reusable_bytes: int
    ciphertexts_removed: int
    duration_ms: int
    compacted: bool
    reason: str | None


class VacuumResult(WriteResult, kw_only=True):
    """VacuumResult."""

    results: list[CompactionResult]


class PartitionListed(Result, kw_only=True):
    """`ratio` is dead over rows, 0 of none. `since`: when it came into this state."""

    partition: str
    number: int
    tier: str
    day: str | None
    state: str
    rows: int
    dead: int
    ratio: float
    bytes: int
    since: str


class PartitionsResult(Result, kw_only=True):
    """PartitionsResult."""

    results: list[PartitionListed]
    next_cursor: str | None
    total: int


class PlainRemnant(Result, kw_only=True):
    """Plaintext found in a file of the state directory."""

    file: str
    offset: int


class ReadableRemnant(Result, kw_only=True):
    """A ciphertext that a key still opens, with a text that matches. `memory` is null when no memory owns it. `type` is
    that of the record, null when that can't be read."""

    seq: int
    part: str
    memory: str | None
    status: str | None
    type: str | None


class ResidueResult(Result, kw_only=True):
    """ResidueResult."""

    bytes: list[PlainRemnant]
    readable: list[ReadableRemnant]
    files: int
    ciphertexts_tried: int
    unopenable: int
    cut: bool = False


class ThingsOut(msgspec.Struct, kw_only=True):
    """Of one kind: how many, and a digest of their numbers or ids."""

    count: int
    digest: str


class TenantHoldings(msgspec.Struct, kw_only=True):
    """What one tenant has, up to the record that `head` names. Counts only."""

    tenant: str
    head: HeadResult
    records: int
    entries: dict[str, int]
    things: dict[str, ThingsOut]
    readable: dict[str, int]
    readable_seqs: list[int]
    destroyed: int


class AuditResult(Result, kw_only=True):
    """`against`: per head given, in its order: same, rewritten at N, journal behind by N, other store. `holdings`: when
    a tenant was named."""

    records: int
    head: HeadResult
    digests: dict[str, str]
    findings: list[FindingOut]
    against: list[str] | None = None
    holdings: TenantHoldings | None = None


WRITES = frozenset(
    (
        "remember",
        "remember_many",
        "forget",
        "recover",
        "verify",
        "reinforce",
        "weaken",
        "reaffirm",
        "mark",
        "relate",
        "revise",
        "session_open",
        "session_close",
        "propose",
        "decide",
        "cohort",
        "lift",
        "purge",
        "hold",
        "vacuum",
        "lifecycle",
    )
)
RESULTS: dict[str, Any] = {
    "hello": HelloResult,
    "describe": DescribeResult,
    "remember": RememberResult,
    "remember_many": RememberManyResult,
    "get": GetResult,
    "list": ListResult,
    "forget": ForgetResult,
    "recover": RecoverResult,
    "verify": VerifyResult,
    "reinforce": RecoverResult,
    "weaken": RecoverResult,
    "reaffirm": RecoverResult,
    "mark": MarkResult,
    "relate": RelateResult,
    "revise": ReviseResult,
    "session_open": SessionOpenResult,
    "session_close": SessionCloseResult,
    "sessions": SessionsResult,
    "session": SessionResult,
    "trace": TraceResult,
    "explain": ExplainResult,
    "session_provenance": SessionProvenanceResult,
    "review": ReviewResult,
    "propose": ProposeResult,
    "decide": DecideResult,
    "proposals": ProposalsResult,
    "cohort": CohortResult,
    "cohorts": CohortsResult,
    "lift": LiftResult,
    "purge": PurgeResult,
    "purges": PurgesResult,
    "hold": HoldResult,
    "holds": HoldsResult,
    "partitions": PartitionsResult,
    "vacuum": VacuumResult,
    "residue": ResidueResult,
    "lifecycle": LifecycleResult,
    "audit": AuditResult,
    "history": HistoryResult,
    "records": RecordsResult,
    "subscribe": SubscribeResult,
    "cancel": CancelResult,
    "rebuild": RebuildResult,
    "backup": BackupResult,
    "metrics": MetricsResult,
    "head": HeadResult,
    "status": StatusResult,
}


class Client(_Link):
    """One method per verb; see `_Link` for the rest."""

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def hello(
        self,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
        via: str | None = None,
    ) -> HelloResult:
        """Who am I here, what is this daemon and what are its limits."""
        params = _given(
            {
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
                "via": via,
            }
        )
        return self.call("hello", params, HelloResult)

    def describe(
        self,
        verb: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
    ) -> DescribeResult:
        """The JSON Schema of a verb's parameters and result."""
        params = _given(
            {
                "verb": verb,
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
            }
        )
        return self.call("describe", params, DescribeResult)

    def remember(
        self,
        kind: str,
        text: str,
        *,
        origin: str | None = None,
        subtype: str | None = None,
        session: Mapping[str, Any] | str | None = None,
        role: str | None = None,
        speaker: str | None = None,
        derived_from: Sequence[Mapping[str, Any] | str] | None = None,
        evidence: Sequence[Mapping[str, Any] | str] | None = None,
        topic: str | None = None,
        tags: Sequence[str] | None = None,
        entities: Sequence[Mapping[str, Any]] | None = None,
        importance: float | None = None,
        valence: float | None = None,
        arousal: float | None = None,
        interest: float | None = None,
        challenge: float | None = None,
        urgency: float | None = None,
        confidence: float | None = None,
        protected: bool | None = None,
        vector: Mapping[str, Any] | None = None,
        producer: Mapping[str, Any] | None = None,
        subject: str | None = None,
        project: str | None = None,
        source_entity: str | None = None,
        source: Mapping[str, Any] | None = None,
        facts: Sequence[Mapping[str, Any]] | None = None,
        valid_from: str | None = None,
        valid_to: str | None = None,
        occurred_at: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        imported: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        tenant: str | None = None,
        correlation: str | None = None,
    ) -> RememberResult:
        """Write one memory. Turns may leave `origin` to the role."""
        params = _given(
            {
                "kind": kind,
                "text": text,
                "origin": origin,
                "subtype": subtype,
                "session": session,
                "role": role,
                "speaker": speaker,
                "derived_from": derived_from,
                "evidence": evidence,
                "topic": topic,
                "tags": tags,
                "entities": entities,
                "importance": importance,
                "valence": valence,
                "arousal": arousal,
                "interest": interest,
                "challenge": challenge,
                "urgency": urgency,
                "confidence": confidence,
                "protected": protected,
                "vector": vector,
                "producer": producer,
                "subject": subject,
                "project": project,
                "source_entity": source_entity,
                "source": source,
                "facts": facts,
                "valid_from": valid_from,
                "valid_to": valid_to,
                "occurred_at": occurred_at,
                "metadata": metadata,
                "imported": imported,
                "idempotency_key": idempotency_key,
                "tenant": tenant,
                "correlation": correlation,
            }
        )
        return self.call("remember", params, RememberResult)

    def remember_many(
        self,
        items: Sequence[Mapping[str, Any]],
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
        atomic: bool | None = None,
    ) -> RememberManyResult:
        """Write up to 1000 memories; `@N` in an item cites item N before it."""
        params = _given(
            {
                "items": items,
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
                "atomic": atomic,
            }
        )
        return self.call("remember_many", params, RememberManyResult)

    def get(
        self,
        ids: Sequence[str],
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
        include: Sequence[str] | None = None,
        as_of: str | None = None,
        as_known_at: str | None = None,
    ) -> GetResult:
        """Memories by id, in the order asked for."""
        params = _given(
            {
                "ids": ids,
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
                "include": include,
                "as_of": as_of,
                "as_known_at": as_known_at,
            }
        )
        return self.call("get", params, GetResult)

    def forget(
        self,
        id: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
        note: str | None = None,
    ) -> ForgetResult:
        """Put a memory aside. It can be recovered; nothing is erased."""
        params = _given(
            {
                "id": id,
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
                "note": note,
            }
        )
        return self.call("forget", params, ForgetResult)

    def recover(
        self,
        id: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
        evidence: Sequence[Mapping[str, Any] | str] | None = None,
        amount: float | None = None,
        note: str | None = None,
    ) -> RecoverResult:
        """Bring back a forgotten memory."""
        params = _given(
            {
                "id": id,
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
                "evidence": evidence,
                "amount": amount,
                "note": note,
            }
        )
        return self.call("recover", params, RecoverResult)

    def verify(
        self,
        id: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
        evidence: Sequence[Mapping[str, Any] | str] | None = None,
        note: str | None = None,
    ) -> VerifyResult:
        """Somebody has looked at it, and it is so."""
        params = _given(
            {
                "id": id,
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
                "evidence": evidence,
                "note": note,
            }
        )
        return self.call("verify", params, VerifyResult)

    def reinforce(
        self,
        id: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
        evidence: Sequence[Mapping[str, Any] | str] | None = None,
        amount: float | None = None,
        note: str | None = None,
    ) -> RecoverResult:
        """It was met again."""
        params = _given(
            {
                "id": id,
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
                "evidence": evidence,
                "amount": amount,
                "note": note,
            }
        )
        return self.call("reinforce", params, RecoverResult)

    def weaken(
        self,
        id: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
        evidence: Sequence[Mapping[str, Any] | str] | None = None,
        amount: float | None = None,
        note: str | None = None,
    ) -> RecoverResult:
        """Make it harder to find."""
        params = _given(
            {
                "id": id,
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
                "evidence": evidence,
                "amount": amount,
                "note": note,
            }
        )
        return self.call("weaken", params, RecoverResult)

    def reaffirm(
        self,
        id: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
        evidence: Sequence[Mapping[str, Any] | str] | None = None,
        amount: float | None = None,
        note: str | None = None,
        session: str | None = None,
    ) -> RecoverResult:
        """It still holds: its confidence decays from now on."""
        params = _given(
            {
                "id": id,
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
                "evidence": evidence,
                "amount": amount,
                "note": note,
                "session": session,
            }
        )
        return self.call("reaffirm", params, RecoverResult)

    def mark(
        self,
        id: str,
        mark: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
        on: bool | None = None,
        note: str | None = None,
        session: str | None = None,
    ) -> MarkResult:
        """Put a mark on it, or take it off."""
        params = _given(
            {
                "id": id,
                "mark": mark,
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
                "on": on,
                "note": note,
                "session": session,
            }
        )
        return self.call("mark", params, MarkResult)

    def relate(
        self,
        from_: str,
        to: str,
        type: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
    ) -> RelateResult:
        """It extends another memory, or contradicts it."""
        params = _given(
            {
                "from": from_,
                "to": to,
                "type": type,
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
            }
        )
        return self.call("relate", params, RelateResult)

    def revise(
        self,
        id: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
        disposition: str | None = None,
        text: str | None = None,
        origin: str | None = None,
        fields: Mapping[str, Any] | None = None,
        session: str | None = None,
        producer: Mapping[str, Any] | None = None,
    ) -> ReviseResult:
        """Give it a successor, or file it anew."""
        params = _given(
            {
                "id": id,
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
                "disposition": disposition,
                "text": text,
                "origin": origin,
                "fields": fields,
                "session": session,
                "producer": producer,
            }
        )
        return self.call("revise", params, ReviseResult)

    def session_open(
        self,
        agent: str,
        key: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
        project: str | None = None,
        subject: str | None = None,
        producer: Mapping[str, Any] | None = None,
        at: str | None = None,
    ) -> SessionOpenResult:
        """Open a session by agent and key, or reopen it."""
        params = _given(
            {
                "agent": agent,
                "key": key,
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
                "project": project,
                "subject": subject,
                "producer": producer,
                "at": at,
            }
        )
        return self.call("session_open", params, SessionOpenResult)

    def session_close(
        self,
        session: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
        at: str | None = None,
    ) -> SessionCloseResult:
        """Close a session."""
        params = _given(
            {
                "session": session,
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
                "at": at,
            }
        )
        return self.call("session_close", params, SessionCloseResult)

    def sessions(
        self,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        agent: str | None = None,
        open: bool | None = None,
    ) -> SessionsResult:
        """Sessions, page by page."""
        params = _given(
            {
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
                "limit": limit,
                "cursor": cursor,
                "agent": agent,
                "open": open,
            }
        )
        return self.call("sessions", params, SessionsResult)

    def session(
        self,
        session: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        include: Sequence[str] | None = None,
    ) -> SessionResult:
        """One session, with its turns when asked for."""
        params = _given(
            {
                "session": session,
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
                "limit": limit,
                "cursor": cursor,
                "include": include,
            }
        )
        return self.call("session", params, SessionResult)

    def trace(
        self,
        id: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
        direction: str | None = None,
        depth: int | None = None,
    ) -> TraceResult:
        """Where a memory comes from (`sources`) or what was made from it (`dependents`)."""
        params = _given(
            {
                "id": id,
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
                "direction": direction,
                "depth": depth,
            }
        )
        return self.call("trace", params, TraceResult)

    def explain(
        self,
        id: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
    ) -> ExplainResult:
        """How a memory came to be, from what, and its row in the provenance region."""
        params = _given(
            {
                "id": id,
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
            }
        )
        return self.call("explain", params, ExplainResult)

    def session_provenance(
        self,
        session: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
        include_clients: bool | None = None,
    ) -> SessionProvenanceResult:
        """What came out of a session: its rows of the provenance region."""
        params = _given(
            {
                "session": session,
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
                "include_clients": include_clients,
            }
        )
        return self.call("session_provenance", params, SessionProvenanceResult)

    def review(
        self,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        what: Sequence[str] | None = None,
        threshold: float | None = None,
    ) -> ReviewResult:
        """The inbox: what somebody should look at, page by page."""
        params = _given(
            {
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
                "limit": limit,
                "cursor": cursor,
                "what": what,
                "threshold": threshold,
            }
        )
        return self.call("review", params, ReviewResult)

    def propose(
        self,
        proposal_kind: str,
        memory: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
        other: str | None = None,
        edge: str | None = None,
        fact: Mapping[str, Any] | None = None,
        action: str | None = None,
        note: str | None = None,
    ) -> ProposeResult:
        """Stage an edge, a fact, a resolution or a retention; somebody decides."""
        params = _given(
            {
                "proposal_kind": proposal_kind,
                "memory": memory,
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
                "other": other,
                "edge": edge,
                "fact": fact,
                "action": action,
                "note": note,
            }
        )
        return self.call("propose", params, ProposeResult)

    def decide(
        self,
        proposal: str,
        accept: bool,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
    ) -> DecideResult:
        """Accept a proposal, or reject it. Once."""
        params = _given(
            {
                "proposal": proposal,
                "accept": accept,
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
            }
        )
        return self.call("decide", params, DecideResult)

    def proposals(
        self,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        status: str | None = None,
        proposal_kind: str | None = None,
    ) -> ProposalsResult:
        """Proposals, newest first, page by page."""
        params = _given(
            {
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
                "limit": limit,
                "cursor": cursor,
                "status": status,
                "proposal_kind": proposal_kind,
            }
        )
        return self.call("proposals", params, ProposalsResult)

    def cohort(
        self,
        sel: Mapping[str, Any],
        action: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
        with_: Mapping[str, Any] | None = None,
        downstream: bool | None = None,
        token: str | None = None,
    ) -> CohortResult:
        """Quarantine, demote or re-derive what a selection finds, or compare two. First it only tells."""
        params = _given(
            {
                "sel": sel,
                "action": action,
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
                "with": with_,
                "downstream": downstream,
                "token": token,
            }
        )
        return self.call("cohort", params, CohortResult)

    def cohorts(
        self,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> CohortsResult:
        """The cohorts there are, newest first."""
        params = _given(
            {
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
                "limit": limit,
                "cursor": cursor,
            }
        )
        return self.call("cohorts", params, CohortsResult)

    def lift(
        self,
        cohort: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
    ) -> LiftResult:
        """Undo what a cohort did, exactly."""
        params = _given(
            {
                "cohort": cohort,
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
            }
        )
        return self.call("lift", params, LiftResult)

    def purge(
        self,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
        ids: Sequence[str] | None = None,
        sel: Mapping[str, Any] | None = None,
        cascade: str | None = None,
        block_reingest: bool | None = None,
        reason: str | None = None,
        dry_run: bool | None = None,
        token: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> PurgeResult:
        """Destroy what was sealed for memories: by ids at once, by a selection with the token of a first call."""
        params = _given(
            {
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
                "ids": ids,
                "sel": sel,
                "cascade": cascade,
                "block_reingest": block_reingest,
                "reason": reason,
                "dry_run": dry_run,
                "token": token,
            }
        )
        return self.call("purge", params, PurgeResult, on_progress)

    def purges(
        self,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        receipt: Mapping[str, Any] | None = None,
    ) -> PurgesResult:
        """Receipts of purges, newest first; or one in full."""
        params = _given(
            {
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
                "limit": limit,
                "cursor": cursor,
                "receipt": receipt,
            }
        )
        return self.call("purges", params, PurgesResult)

    def hold(
        self,
        sel: Mapping[str, Any],
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
        on: bool | None = None,
        note: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> HoldResult:
        """Hold what a selection finds, or release it. What is held can't be purged."""
        params = _given(
            {
                "sel": sel,
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
                "on": on,
                "note": note,
            }
        )
        return self.call("hold", params, HoldResult, on_progress)

    def holds(
        self,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> HoldsResult:
        """What is held, by id."""
        params = _given(
            {
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
                "limit": limit,
                "cursor": cursor,
            }
        )
        return self.call("holds", params, HoldsResult)

    def partitions(
        self,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        tier: str | None = None,
    ) -> PartitionsResult:
        """The partitions and their states, by number."""
        params = _given(
            {
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
                "limit": limit,
                "cursor": cursor,
                "tier": tier,
            }
        )
        return self.call("partitions", params, PartitionsResult)

    def vacuum(
        self,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
        partition: str | None = None,
        tier: str | None = None,
        force: bool | None = None,
        dry_run: bool | None = None,
    ) -> VacuumResult:
        """Compact partitions: dead rows leave, and the ciphertexts of what was purged."""
        params = _given(
            {
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
                "partition": partition,
                "tier": tier,
                "force": force,
                "dry_run": dry_run,
            }
        )
        return self.call("vacuum", params, VacuumResult)

    def residue(
        self,
        pattern: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
    ) -> ResidueResult:
        """residue"""
        params = _given(
            {
                "pattern": pattern,
                "tenant": tenant,
                "correlation": correlation,
            }
        )
        return self.call("residue", params, ResidueResult)

    def lifecycle(
        self,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
        state: str | None = None,
        enforce: bool | None = None,
    ) -> LifecycleResult:
        """The tenant's state and whether it is enforced; sets what is given."""
        params = _given(
            {
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
                "state": state,
                "enforce": enforce,
            }
        )
        return self.call("lifecycle", params, LifecycleResult)

    def audit(
        self,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
        from_seq: int | None = None,
        to_seq: int | None = None,
        rebuild: bool | None = None,
        against: Sequence[Mapping[str, Any]] | None = None,
        on_progress: OnProgress | None = None,
    ) -> AuditResult:
        """Check the journal, compare heads, rebuild and compare the projections."""
        params = _given(
            {
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
                "from_seq": from_seq,
                "to_seq": to_seq,
                "rebuild": rebuild,
                "against": against,
            }
        )
        return self.call("audit", params, AuditResult, on_progress)

    def history(
        self,
        id: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
    ) -> HistoryResult:
        """How a memory became what it is: versions, records, numbers."""
        params = _given(
            {
                "id": id,
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
            }
        )
        return self.call("history", params, HistoryResult)

    def records(
        self,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        since: str | None = None,
        until: str | None = None,
        from_seq: int | None = None,
        memory: str | None = None,
        session: str | None = None,
        types: Sequence[str] | None = None,
        actor: int | str | None = None,
        level: str | None = None,
        store_wide: bool | None = None,
        on_progress: OnProgress | None = None,
    ) -> RecordsResult:
        """Records of the journal as frames, page by page."""
        params = _given(
            {
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
                "limit": limit,
                "cursor": cursor,
                "since": since,
                "until": until,
                "from_seq": from_seq,
                "memory": memory,
                "session": session,
                "types": types,
                "actor": actor,
                "level": level,
                "store_wide": store_wide,
            }
        )
        return self.call("records", params, RecordsResult, on_progress)

    def rebuild(
        self,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        what: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> RebuildResult:
        """Fold one or all projections anew beside the ones that serve."""
        params = _given(
            {
                "tenant": tenant,
                "correlation": correlation,
                "what": what,
            }
        )
        return self.call("rebuild", params, RebuildResult, on_progress)

    def backup(
        self,
        dir: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        parts: Sequence[str] | None = None,
        on_progress: OnProgress | None = None,
    ) -> BackupResult:
        """Write a backup into a directory of the daemon's host; its manifest."""
        params = _given(
            {
                "dir": dir,
                "tenant": tenant,
                "correlation": correlation,
                "parts": parts,
            }
        )
        return self.call("backup", params, BackupResult, on_progress)

    def metrics(
        self,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
    ) -> MetricsResult:
        """Counts and durations in the text form of Prometheus."""
        params = _given(
            {
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
            }
        )
        return self.call("metrics", params, MetricsResult)

    def head(
        self,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
    ) -> HeadResult:
        """The newest record's address and chain value."""
        params = _given(
            {
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
            }
        )
        return self.call("head", params, HeadResult)

    def status(
        self,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
    ) -> StatusResult:
        """Health, recovery, disk and load of the daemon."""
        params = _given(
            {
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
            }
        )
        return self.call("status", params, StatusResult)

    def list(
        self,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        sel: Mapping[str, Any] | None = None,
        full: bool | None = None,
        as_of: str | None = None,
        as_known_at: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> ListResult:
        """Memories by a selection, newest state, page by page."""
        params = _given(
            {
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
                "limit": limit,
                "cursor": cursor,
                "sel": sel,
                "full": full,
                "as_of": as_of,
                "as_known_at": as_known_at,
            }
        )
        return self.call("list", params, ListResult, on_progress)


class AsyncClient(_AsyncLink):
    """One method per verb; see `_AsyncLink` for the rest."""

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def hello(
        self,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
        via: str | None = None,
    ) -> HelloResult:
        """Who am I here, what is this daemon and what are its limits."""
        params = _given(
            {
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
                "via": via,
            }
        )
        return await self.call("hello", params, HelloResult)

    async def describe(
        self,
        verb: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
    ) -> DescribeResult:
        """The JSON Schema of a verb's parameters and result."""
        params = _given(
            {
                "verb": verb,
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
            }
        )
        return await self.call("describe", params, DescribeResult)

    async def remember(
        self,
        kind: str,
        text: str,
        *,
        origin: str | None = None,
        subtype: str | None = None,
        session: Mapping[str, Any] | str | None = None,
        role: str | None = None,
        speaker: str | None = None,
        derived_from: Sequence[Mapping[str, Any] | str] | None = None,
        evidence: Sequence[Mapping[str, Any] | str] | None = None,
        topic: str | None = None,
        tags: Sequence[str] | None = None,
        entities: Sequence[Mapping[str, Any]] | None = None,
        importance: float | None = None,
        valence: float | None = None,
        arousal: float | None = None,
        interest: float | None = None,
        challenge: float | None = None,
        urgency: float | None = None,
        confidence: float | None = None,
        protected: bool | None = None,
        vector: Mapping[str, Any] | None = None,
        producer: Mapping[str, Any] | None = None,
        subject: str | None = None,
        project: str | None = None,
        source_entity: str | None = None,
        source: Mapping[str, Any] | None = None,
        facts: Sequence[Mapping[str, Any]] | None = None,
        valid_from: str | None = None,
        valid_to: str | None = None,
        occurred_at: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        imported: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        tenant: str | None = None,
        correlation: str | None = None,
    ) -> RememberResult:
        """Write one memory. Turns may leave `origin` to the role."""
        params = _given(
            {
                "kind": kind,
                "text": text,
                "origin": origin,
                "subtype": subtype,
                "session": session,
                "role": role,
                "speaker": speaker,
                "derived_from": derived_from,
                "evidence": evidence,
                "topic": topic,
                "tags": tags,
                "entities": entities,
                "importance": importance,
                "valence": valence,
                "arousal": arousal,
                "interest": interest,
                "challenge": challenge,
                "urgency": urgency,
                "confidence": confidence,
                "protected": protected,
                "vector": vector,
                "producer": producer,
                "subject": subject,
                "project": project,
                "source_entity": source_entity,
                "source": source,
                "facts": facts,
                "valid_from": valid_from,
                "valid_to": valid_to,
                "occurred_at": occurred_at,
                "metadata": metadata,
                "imported": imported,
                "idempotency_key": idempotency_key,
                "tenant": tenant,
                "correlation": correlation,
            }
        )
        return await self.call("remember", params, RememberResult)

    async def remember_many(
        self,
        items: Sequence[Mapping[str, Any]],
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
        atomic: bool | None = None,
    ) -> RememberManyResult:
        """Write up to 1000 memories; `@N` in an item cites item N before it."""
        params = _given(
            {
                "items": items,
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
                "atomic": atomic,
            }
        )
        return await self.call("remember_many", params, RememberManyResult)

    async def get(
        self,
        ids: Sequence[str],
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
        include: Sequence[str] | None = None,
        as_of: str | None = None,
        as_known_at: str | None = None,
    ) -> GetResult:
        """Memories by id, in the order asked for."""
        params = _given(
            {
                "ids": ids,
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
                "include": include,
                "as_of": as_of,
                "as_known_at": as_known_at,
            }
        )
        return await self.call("get", params, GetResult)

    async def forget(
        self,
        id: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
        note: str | None = None,
    ) -> ForgetResult:
        """Put a memory aside. It can be recovered; nothing is erased."""
        params = _given(
            {
                "id": id,
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
                "note": note,
            }
        )
        return await self.call("forget", params, ForgetResult)

    async def recover(
        self,
        id: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
        evidence: Sequence[Mapping[str, Any] | str] | None = None,
        amount: float | None = None,
        note: str | None = None,
    ) -> RecoverResult:
        """Bring back a forgotten memory."""
        params = _given(
            {
                "id": id,
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
                "evidence": evidence,
                "amount": amount,
                "note": note,
            }
        )
        return await self.call("recover", params, RecoverResult)

    async def verify(
        self,
        id: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
        evidence: Sequence[Mapping[str, Any] | str] | None = None,
        note: str | None = None,
    ) -> VerifyResult:
        """Somebody has looked at it, and it is so."""
        params = _given(
            {
                "id": id,
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
                "evidence": evidence,
                "note": note,
            }
        )
        return await self.call("verify", params, VerifyResult)

    async def reinforce(
        self,
        id: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
        evidence: Sequence[Mapping[str, Any] | str] | None = None,
        amount: float | None = None,
        note: str | None = None,
    ) -> RecoverResult:
        """It was met again."""
        params = _given(
            {
                "id": id,
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
                "evidence": evidence,
                "amount": amount,
                "note": note,
            }
        )
        return await self.call("reinforce", params, RecoverResult)

    async def weaken(
        self,
        id: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
        evidence: Sequence[Mapping[str, Any] | str] | None = None,
        amount: float | None = None,
        note: str | None = None,
    ) -> RecoverResult:
        """Make it harder to find."""
        params = _given(
            {
                "id": id,
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
                "evidence": evidence,
                "amount": amount,
                "note": note,
            }
        )
        return await self.call("weaken", params, RecoverResult)

    async def reaffirm(
        self,
        id: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
        evidence: Sequence[Mapping[str, Any] | str] | None = None,
        amount: float | None = None,
        note: str | None = None,
        session: str | None = None,
    ) -> RecoverResult:
        """It still holds: its confidence decays from now on."""
        params = _given(
            {
                "id": id,
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
                "evidence": evidence,
                "amount": amount,
                "note": note,
                "session": session,
            }
        )
        return await self.call("reaffirm", params, RecoverResult)

    async def mark(
        self,
        id: str,
        mark: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
        on: bool | None = None,
        note: str | None = None,
        session: str | None = None,
    ) -> MarkResult:
        """Put a mark on it, or take it off."""
        params = _given(
            {
                "id": id,
                "mark": mark,
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
                "on": on,
                "note": note,
                "session": session,
            }
        )
        return await self.call("mark", params, MarkResult)

    async def relate(
        self,
        from_: str,
        to: str,
        type: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
    ) -> RelateResult:
        """It extends another memory, or contradicts it."""
        params = _given(
            {
                "from": from_,
                "to": to,
                "type": type,
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
            }
        )
        return await self.call("relate", params, RelateResult)

    async def revise(
        self,
        id: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
        disposition: str | None = None,
        text: str | None = None,
        origin: str | None = None,
        fields: Mapping[str, Any] | None = None,
        session: str | None = None,
        producer: Mapping[str, Any] | None = None,
    ) -> ReviseResult:
        """Give it a successor, or file it anew."""
        params = _given(
            {
                "id": id,
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
                "disposition": disposition,
                "text": text,
                "origin": origin,
                "fields": fields,
                "session": session,
                "producer": producer,
            }
        )
        return await self.call("revise", params, ReviseResult)

    async def session_open(
        self,
        agent: str,
        key: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
        project: str | None = None,
        subject: str | None = None,
        producer: Mapping[str, Any] | None = None,
        at: str | None = None,
    ) -> SessionOpenResult:
        """Open a session by agent and key, or reopen it."""
        params = _given(
            {
                "agent": agent,
                "key": key,
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
                "project": project,
                "subject": subject,
                "producer": producer,
                "at": at,
            }
        )
        return await self.call("session_open", params, SessionOpenResult)

    async def session_close(
        self,
        session: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
        at: str | None = None,
    ) -> SessionCloseResult:
        """Close a session."""
        params = _given(
            {
                "session": session,
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
                "at": at,
            }
        )
        return await self.call("session_close", params, SessionCloseResult)

    async def sessions(
        self,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        agent: str | None = None,
        open: bool | None = None,
    ) -> SessionsResult:
        """Sessions, page by page."""
        params = _given(
            {
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
                "limit": limit,
                "cursor": cursor,
                "agent": agent,
                "open": open,
            }
        )
        return await self.call("sessions", params, SessionsResult)

    async def session(
        self,
        session: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        include: Sequence[str] | None = None,
    ) -> SessionResult:
        """One session, with its turns when asked for."""
        params = _given(
            {
                "session": session,
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
                "limit": limit,
                "cursor": cursor,
                "include": include,
            }
        )
        return await self.call("session", params, SessionResult)

    async def trace(
        self,
        id: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
        direction: str | None = None,
        depth: int | None = None,
    ) -> TraceResult:
        """Where a memory comes from (`sources`) or what was made from it (`dependents`)."""
        params = _given(
            {
                "id": id,
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
                "direction": direction,
                "depth": depth,
            }
        )
        return await self.call("trace", params, TraceResult)

    async def explain(
        self,
        id: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
    ) -> ExplainResult:
        """How a memory came to be, from what, and its row in the provenance region."""
        params = _given(
            {
                "id": id,
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
            }
        )
        return await self.call("explain", params, ExplainResult)

    async def session_provenance(
        self,
        session: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
        include_clients: bool | None = None,
    ) -> SessionProvenanceResult:
        """What came out of a session: its rows of the provenance region."""
        params = _given(
            {
                "session": session,
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
                "include_clients": include_clients,
            }
        )
        return await self.call("session_provenance", params, SessionProvenanceResult)

    async def review(
        self,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        what: Sequence[str] | None = None,
        threshold: float | None = None,
    ) -> ReviewResult:
        """The inbox: what somebody should look at, page by page."""
        params = _given(
            {
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
                "limit": limit,
                "cursor": cursor,
                "what": what,
                "threshold": threshold,
            }
        )
        return await self.call("review", params, ReviewResult)

    async def propose(
        self,
        proposal_kind: str,
        memory: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
        other: str | None = None,
        edge: str | None = None,
        fact: Mapping[str, Any] | None = None,
        action: str | None = None,
        note: str | None = None,
    ) -> ProposeResult:
        """Stage an edge, a fact, a resolution or a retention; somebody decides."""
        params = _given(
            {
                "proposal_kind": proposal_kind,
                "memory": memory,
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
                "other": other,
                "edge": edge,
                "fact": fact,
                "action": action,
                "note": note,
            }
        )
        return await self.call("propose", params, ProposeResult)

    async def decide(
        self,
        proposal: str,
        accept: bool,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
    ) -> DecideResult:
        """Accept a proposal, or reject it. Once."""
        params = _given(
            {
                "proposal": proposal,
                "accept": accept,
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
            }
        )
        return await self.call("decide", params, DecideResult)

    async def proposals(
        self,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        status: str | None = None,
        proposal_kind: str | None = None,
    ) -> ProposalsResult:
        """Proposals, newest first, page by page."""
        params = _given(
            {
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
                "limit": limit,
                "cursor": cursor,
                "status": status,
                "proposal_kind": proposal_kind,
            }
        )
        return await self.call("proposals", params, ProposalsResult)

    async def cohort(
        self,
        sel: Mapping[str, Any],
        action: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
        with_: Mapping[str, Any] | None = None,
        downstream: bool | None = None,
        token: str | None = None,
    ) -> CohortResult:
        """Quarantine, demote or re-derive what a selection finds, or compare two. First it only tells."""
        params = _given(
            {
                "sel": sel,
                "action": action,
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
                "with": with_,
                "downstream": downstream,
                "token": token,
            }
        )
        return await self.call("cohort", params, CohortResult)

    async def cohorts(
        self,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> CohortsResult:
        """The cohorts there are, newest first."""
        params = _given(
            {
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
                "limit": limit,
                "cursor": cursor,
            }
        )
        return await self.call("cohorts", params, CohortsResult)

    async def lift(
        self,
        cohort: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
    ) -> LiftResult:
        """Undo what a cohort did, exactly."""
        params = _given(
            {
                "cohort": cohort,
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
            }
        )
        return await self.call("lift", params, LiftResult)

    async def purge(
        self,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
        ids: Sequence[str] | None = None,
        sel: Mapping[str, Any] | None = None,
        cascade: str | None = None,
        block_reingest: bool | None = None,
        reason: str | None = None,
        dry_run: bool | None = None,
        token: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> PurgeResult:
        """Destroy what was sealed for memories: by ids at once, by a selection with the token of a first call."""
        params = _given(
            {
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
                "ids": ids,
                "sel": sel,
                "cascade": cascade,
                "block_reingest": block_reingest,
                "reason": reason,
                "dry_run": dry_run,
                "token": token,
            }
        )
        return await self.call("purge", params, PurgeResult, on_progress)

    async def purges(
        self,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        receipt: Mapping[str, Any] | None = None,
    ) -> PurgesResult:
        """Receipts of purges, newest first; or one in full."""
        params = _given(
            {
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
                "limit": limit,
                "cursor": cursor,
                "receipt": receipt,
            }
        )
        return await self.call("purges", params, PurgesResult)

    async def hold(
        self,
        sel: Mapping[str, Any],
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
        on: bool | None = None,
        note: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> HoldResult:
        """Hold what a selection finds, or release it. What is held can't be purged."""
        params = _given(
            {
                "sel": sel,
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
                "on": on,
                "note": note,
            }
        )
        return await self.call("hold", params, HoldResult, on_progress)

    async def holds(
        self,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> HoldsResult:
        """What is held, by id."""
        params = _given(
            {
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
                "limit": limit,
                "cursor": cursor,
            }
        )
        return await self.call("holds", params, HoldsResult)

    async def partitions(
        self,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        tier: str | None = None,
    ) -> PartitionsResult:
        """The partitions and their states, by number."""
        params = _given(
            {
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
                "limit": limit,
                "cursor": cursor,
                "tier": tier,
            }
        )
        return await self.call("partitions", params, PartitionsResult)

    async def vacuum(
        self,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
        partition: str | None = None,
        tier: str | None = None,
        force: bool | None = None,
        dry_run: bool | None = None,
    ) -> VacuumResult:
        """Compact partitions: dead rows leave, and the ciphertexts of what was purged."""
        params = _given(
            {
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
                "partition": partition,
                "tier": tier,
                "force": force,
                "dry_run": dry_run,
            }
        )
        return await self.call("vacuum", params, VacuumResult)

    async def residue(
        self,
        pattern: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
    ) -> ResidueResult:
        """residue"""
        params = _given(
            {
                "pattern": pattern,
                "tenant": tenant,
                "correlation": correlation,
            }
        )
        return await self.call("residue", params, ResidueResult)

    async def lifecycle(
        self,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        idempotency_key: str | None = None,
        state: str | None = None,
        enforce: bool | None = None,
    ) -> LifecycleResult:
        """The tenant's state and whether it is enforced; sets what is given."""
        params = _given(
            {
                "tenant": tenant,
                "correlation": correlation,
                "idempotency_key": idempotency_key,
                "state": state,
                "enforce": enforce,
            }
        )
        return await self.call("lifecycle", params, LifecycleResult)

    async def audit(
        self,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
        from_seq: int | None = None,
        to_seq: int | None = None,
        rebuild: bool | None = None,
        against: Sequence[Mapping[str, Any]] | None = None,
        on_progress: OnProgress | None = None,
    ) -> AuditResult:
        """Check the journal, compare heads, rebuild and compare the projections."""
        params = _given(
            {
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
                "from_seq": from_seq,
                "to_seq": to_seq,
                "rebuild": rebuild,
                "against": against,
            }
        )
        return await self.call("audit", params, AuditResult, on_progress)

    async def history(
        self,
        id: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
    ) -> HistoryResult:
        """How a memory became what it is: versions, records, numbers."""
        params = _given(
            {
                "id": id,
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
            }
        )
        return await self.call("history", params, HistoryResult)

    async def records(
        self,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        since: str | None = None,
        until: str | None = None,
        from_seq: int | None = None,
        memory: str | None = None,
        session: str | None = None,
        types: Sequence[str] | None = None,
        actor: int | str | None = None,
        level: str | None = None,
        store_wide: bool | None = None,
        on_progress: OnProgress | None = None,
    ) -> RecordsResult:
        """Records of the journal as frames, page by page."""
        params = _given(
            {
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
                "limit": limit,
                "cursor": cursor,
                "since": since,
                "until": until,
                "from_seq": from_seq,
                "memory": memory,
                "session": session,
                "types": types,
                "actor": actor,
                "level": level,
                "store_wide": store_wide,
            }
        )
        return await self.call("records", params, RecordsResult, on_progress)

    async def cancel(
        self,
        request: int | str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
    ) -> CancelResult:
        """End a call that waits for its answer, by the number that its progress notes say."""
        params = _given(
            {
                "request": request,
                "tenant": tenant,
                "correlation": correlation,
            }
        )
        return await self.call("cancel", params, CancelResult)

    async def rebuild(
        self,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        what: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> RebuildResult:
        """Fold one or all projections anew beside the ones that serve."""
        params = _given(
            {
                "tenant": tenant,
                "correlation": correlation,
                "what": what,
            }
        )
        return await self.call("rebuild", params, RebuildResult, on_progress)

    async def backup(
        self,
        dir: str,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        parts: Sequence[str] | None = None,
        on_progress: OnProgress | None = None,
    ) -> BackupResult:
        """Write a backup into a directory of the daemon's host; its manifest."""
        params = _given(
            {
                "dir": dir,
                "tenant": tenant,
                "correlation": correlation,
                "parts": parts,
            }
        )
        return await self.call("backup", params, BackupResult, on_progress)

    async def metrics(
        self,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
    ) -> MetricsResult:
        """Counts and durations in the text form of Prometheus."""
        params = _given(
            {
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
            }
        )
        return await self.call("metrics", params, MetricsResult)

    async def head(
        self,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
    ) -> HeadResult:
        """The newest record's address and chain value."""
        params = _given(
            {
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
            }
        )
        return await self.call("head", params, HeadResult)

    async def status(
        self,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
    ) -> StatusResult:
        """Health, recovery, disk and load of the daemon."""
        params = _given(
            {
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
            }
        )
        return await self.call("status", params, StatusResult)

    async def list(
        self,
        *,
        tenant: str | None = None,
        correlation: str | None = None,
        tenants: Sequence[str] | None = None,
        limit: int | None = None,
        cursor: str | None = None,
        sel: Mapping[str, Any] | None = None,
        full: bool | None = None,
        as_of: str | None = None,
        as_known_at: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> ListResult:
        """Memories by a selection, newest state, page by page."""
        params = _given(
            {
                "tenant": tenant,
                "correlation": correlation,
                "tenants": tenants,
                "limit": limit,
                "cursor": cursor,
                "sel": sel,
                "full": full,
                "as_of": as_of,
                "as_known_at": as_known_at,
            }
        )
        return await self.call("list", params, ListResult, on_progress)

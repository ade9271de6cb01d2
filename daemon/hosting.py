"""What a connection needs of the server that accepted it, and what it keeps for it meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from daemon.asking import Asking, Tell
    from daemon.call import Call, Found
    from daemon.caller import Caller
    from daemon.connection import Connection
    from daemon.counting import Counts
    from daemon.peers import Peers
    from daemon.questions import Question
    from daemon.refusal import Refused
    from daemon.subscription import Subscription
    from daemon.wire.request import Request


class WaitingRead(NamedTuple):
    """A read that goes once write `after` of its connection is answered."""

    after: int
    request: Request
    caller: Caller
    size_bytes: int
    question: Question


class WaitingWrite(NamedTuple):
    """A write that goes once those before it are on their way, or answered when it has to look first."""

    number: int
    request: Request
    caller: Caller
    size_bytes: int


class Host(Protocol):
    """The server. All is for the loop's thread but `cross`."""

    peers: Peers
    counts: Counts

    def submit(self, call: Call) -> None: ...
    def asking(self, tell: Tell | None) -> Asking: ...
    def read(self, request: Request, caller: Caller, asking: Asking, reply: Callable[[Found], None]) -> bool: ...
    def admit(self, size_bytes: int) -> bool: ...
    def settle(self, size_bytes: int) -> None: ...
    def failed(self, verb: str, error: Exception) -> Refused: ...
    def soon(self, what: Callable[[], None]) -> None: ...
    def cross(self, what: Callable[[], None]) -> None: ...
    def follow(self, subscription: Subscription) -> None: ...
    def unfollow(self, subscription: Subscription) -> None: ...
    def takes_again(self) -> None: ...
    def joined(self, connection: Connection) -> None: ...
    def left(self, connection: Connection) -> None: ...

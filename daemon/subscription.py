"""One subscription on its way to its client, seen from the loop.

Invariant: `place` is where the client is. Everything wanted up to there was given to its connection, in the journal's
order, each record once, and nothing behind it. So a reader that is slow is paused by not being read for, at no cost
but this object; and whoever goes on from `place` misses nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from daemon import limits
from daemon.refusal import Reason, Refused
from daemon.wire.answer import encode_notification, error_object

if TYPE_CHECKING:
    from daemon.caller import Caller
    from daemon.feed import Chunk, Feed
    from daemon.wire.request import RequestId
    from journal.record import Head


class Outlet(Protocol):
    """What a subscription needs of its connection."""

    def takes_more(self) -> bool: ...
    def push(self, lines: bytes) -> None: ...
    def rights(self) -> Caller: ...
    def subscription_ended(self, subscription: Subscription) -> None: ...


class Subscription:
    """`request_id`: of the request that began it; all its notifications carry it."""

    def __init__(self, request_id: RequestId, feed: Feed, outlet: Outlet) -> None:
        self.request_id = request_id
        self.feed = feed
        self.place: Head = feed.start
        self.ended = False
        self._outlet = outlet

    def is_ready(self) -> bool:
        """Whether there is more, and its client takes more."""
        return not self.ended and self.feed.latest_seq() > self.place.seq and self._outlet.takes_more()

    def take(self, lines: bytes, chunk: Chunk) -> None:
        """What was read from `place` on. Rights may have gone while it was."""
        if self.ended or not self.may_go_on():
            return
        if lines:
            self._outlet.push(lines)
        self.place = chunk.place
        if chunk.refused is not None:
            self.end(chunk.refused)

    def may_go_on(self) -> bool:
        """Whether its caller still has the rights it began with; else it has ended."""
        try:
            self.feed.check_rights(self._outlet.rights())
        except Refused as refused:
            self.end(refused)
        return not self.ended

    def mark(self) -> None:
        """Say where it is, to a client that takes it: marks don't pile up."""
        if self.ended or not self._outlet.takes_more():
            return
        place = self.place
        where = {"epoch": place.epoch, "seq": place.seq, "chain": place.chain.hex()}
        self._outlet.push(encode_notification("mark", self.request_id, **where))

    def end(self, refused: Refused) -> None:
        """Say why, and nothing after it."""
        if self.ended:
            return
        self.ended = True
        self._outlet.subscription_ended(self)
        self._outlet.push(encode_notification("end", self.request_id, error=error_object(refused)))

    def drop(self) -> None:
        """Its connection is gone, or its client has said that it has had enough: nothing is told."""
        if not self.ended:
            self.ended = True
            self._outlet.subscription_ended(self)


class Subscriptions:
    """Those of one connection, by the id of the request that began each."""

    def __init__(self) -> None:
        self._by_id: dict[RequestId, Subscription] = {}

    def __bool__(self) -> bool:
        return bool(self._by_id)

    def check_room(self, request_id: RequestId) -> None:
        """Whether one more may begin under that id. Raises Refused."""
        if request_id in self._by_id:
            raise Refused(Reason.CONFLICT, "a subscription with this request's id goes on")
        if len(self._by_id) >= limits.SUBSCRIPTIONS:
            message = "this connection has as many subscriptions as it may"
            raise Refused(Reason.INVALID_INPUT, message, parameter="method", limit=limits.SUBSCRIPTIONS)

    def add(self, subscription: Subscription) -> None:
        self._by_id[subscription.request_id] = subscription

    def remove(self, subscription: Subscription) -> None:
        self._by_id.pop(subscription.request_id, None)

    def cancel(self, request_id: RequestId) -> bool:
        """End the one of that id; whether there was one."""
        found = self._by_id.get(request_id)
        if found is not None:
            found.end(Refused(Reason.UNAVAILABLE, "cancelled", cancelled=True))
        return found is not None

    def drop_all(self) -> None:
        for each in list(self._by_id.values()):
            each.drop()

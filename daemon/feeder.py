"""All subscriptions of a server: one thread reads the journal for those that are ready, in turns.

Method: whenever a batch was committed, or a client took what it had, all that are ready are read for in one turn on
a thread of their own, one turn at a time. Those who stand at the same place and want the same share one reading. A
turn takes a bounded time and gives each a bounded number of bytes, and whoever was served goes behind the others.
Meanwhile more gathers, so under load a turn does more at once. Where nobody subscribes a batch costs one look at an
empty dict. While batches are committed the thread rests between turns, so that following costs writers a bounded share
of the processor; while none is, what is behind is caught up with as fast as it can be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from daemon.refusal import Reason, Refused
from daemon.wire.answer import encode_records

if TYPE_CHECKING:
    from daemon.feed import Chunk, Wanted
    from daemon.subscription import Subscription
    from journal.record import Head

TURN_S = 0.02
"""After which a turn begins no further reading."""
REST_SHARE = 1.0
"""How long the thread rests beside writers, as a share of what its turn took: it works half of the time at most."""
SUBSCRIPTIONS = 1024
"""Of all connections."""


class Served(NamedTuple):
    """What a turn read for one subscription: its lines, and the chunk they come from."""

    subscription: Subscription
    lines: bytes
    chunk: Chunk


class Feeder:
    """`cross` hands something over to the loop's thread. All methods are for that thread but `_read`."""

    def __init__(self, cross: Callable[[Callable[[], None]], None], mark_every_s: float) -> None:
        self._cross = cross
        self._mark_every_s = mark_every_s
        self._subscriptions: dict[Subscription, None] = {}
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="feed")
        self._busy = False
        self._beside_writers = False
        self._marks: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._subscriptions)

    def check_room(self) -> None:
        """Raises Refused."""
        if len(self._subscriptions) >= SUBSCRIPTIONS:
            raise Refused(Reason.OVERLOADED, "too many subscriptions", limit=SUBSCRIPTIONS, retry_after_ms=1000)

    def add(self, subscription: Subscription) -> None:
        if subscription.ended:
            return
        self._subscriptions[subscription] = None
        if self._marks is None:
            self._mark_later()
        self.wake()

    def remove(self, subscription: Subscription) -> None:
        self._subscriptions.pop(subscription, None)

    def committed(self) -> None:
        """A batch was."""
        self._beside_writers = True
        self.wake()

    def wake(self) -> None:
        """There may be more for somebody: read for those who are ready."""
        if self._busy or not self._subscriptions:
            return
        ready = [(each, each.place) for each in self._subscriptions if each.is_ready()]
        if ready:
            self._busy = True
            self._pool.submit(self._read, ready)

    def check_rights(self) -> None:
        """End those whose caller may no longer follow."""
        for each in list(self._subscriptions):
            each.may_go_on()

    def end_all(self, refused: Refused) -> None:
        for each in list(self._subscriptions):
            each.end(refused)

    def stop(self) -> None:
        """End the thread. To be called when no subscription is left."""
        if self._marks is not None:
            self._marks.cancel()
        self._pool.shutdown(wait=True, cancel_futures=True)

    # --- turns ---

    def _read(self, ready: list[tuple[Subscription, Head]]) -> None:
        """One turn, on the feeder's thread."""
        began = monotonic()
        chunks: dict[tuple[Wanted, Head], Chunk] = {}
        served: list[Served] = []
        for subscription, place in ready:
            key = (subscription.feed.wanted, place)
            if key not in chunks:
                if served and monotonic() - began > TURN_S:
                    continue
                chunks[key] = subscription.feed.read(place)
            chunk = chunks[key]
            served.append(Served(subscription, encode_records(subscription.request_id, chunk.frames), chunk))
        self._cross(partial(self._arrived, served, (monotonic() - began) * REST_SHARE))

    def _arrived(self, served: list[Served], rest_s: float) -> None:
        for subscription, lines, chunk in served:
            subscription.take(lines, chunk)
            if subscription in self._subscriptions:  # behind those who waited
                del self._subscriptions[subscription]
                self._subscriptions[subscription] = None
        beside_writers, self._beside_writers = self._beside_writers, False
        asyncio.get_running_loop().call_later(rest_s if beside_writers else 0.0, self._rested)

    def _rested(self) -> None:
        self._busy = False
        self.wake()

    # --- marks ---

    def _mark_later(self) -> None:
        self._marks = asyncio.get_running_loop().call_later(self._mark_every_s, self._mark_all)

    def _mark_all(self) -> None:
        self._marks = None
        if not self._subscriptions:
            return
        for each in list(self._subscriptions):
            each.mark()
        self.wake()
        self._mark_later()

"""Whose turn it is: things that wait, per caller and connection, taken in turns.

Method: the callers who have something waiting stand in a ring, and of each caller the connections that have. The next
thing is the oldest of the first connection of the first caller, and both go to the end. So whoever waits for one thing
waits for at most one of each other caller, however many of theirs there are and over however many connections; and
likewise within a caller. What one connection brings is taken in the order it came. Not safe on several threads at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Turns(Generic[T]):
    """Things that wait for their turn."""

    def __init__(self) -> None:
        self._ring: dict[Hashable, dict[Hashable, deque[T]]] = {}
        """By caller and connection, in the order in which they are served; who has nothing waiting is not in it."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, caller: Hashable, connection: Hashable, what: T) -> None:
        connections = self._ring.get(caller)
        if connections is None:
            connections = self._ring[caller] = {}
        waiting = connections.get(connection)
        if waiting is None:
            waiting = connections[connection] = deque()
        waiting.append(what)
        self._count += 1

    def take(self) -> T:
        """The next one. Whose it is stands behind the others then. Raises StopIteration when nothing waits."""
        caller = next(iter(self._ring))
        connections = self._ring.pop(caller)
        connection = next(iter(connections))
        waiting = connections.pop(connection)
        what = waiting.popleft()
        self._count -= 1
        if waiting:
            connections[connection] = waiting
        if connections:
            self._ring[caller] = connections
        return what

    def clear(self) -> Iterator[T]:
        """All that waits, in turns; nothing waits then."""
        while self._count:
            yield self.take()

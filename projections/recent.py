"""A bounded mapping that forgets what was put in longest ago, half of it at a time.

Taking the oldest entry out of a dict one by one costs a walk over all the holes before it, each time. Two
generations cost nothing: when the newer one is full it becomes the older one, and the older one is dropped.
Invariant: the newest `limit` / 2 entries are there, and never more than `limit`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """At most `limit` entries."""

    def __init__(self, limit: int) -> None:
        self._half = max(1, limit // 2)
        self._newer: dict[K, V] = {}
        self._older: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        found = self._newer.get(key)
        return found if found is not None else self._older.get(key)

    def __setitem__(self, key: K, value: V) -> None:
        if len(self._newer) >= self._half and key not in self._newer:
            self._older, self._newer = self._newer, {}
        self._newer[key] = value

    def drop(self, key: K) -> None:
        """Forget this one, if it is there."""
        self._newer.pop(key, None)
        self._older.pop(key, None)

    def drop_where(self, is_gone: Callable[[V], bool]) -> None:
        """Forget all whose value is gone."""
        for entries in (self._newer, self._older):
            for key in [key for key, value in entries.items() if is_gone(value)]:
                del entries[key]

    def __len__(self) -> int:
        return len(self._newer) + sum(key not in self._newer for key in self._older)

    def items(self) -> Iterable[tuple[K, V]]:
        """Oldest generation first; a key that stands in both comes twice, the newer value last."""
        yield from self._older.items()
        yield from self._newer.items()

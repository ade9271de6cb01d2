"""Names and their numbers, found by either: what a purge takes out is known by its number.

Invariant: of every number that a name has now, the name is known; of one that it had before, nothing is lost by that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

K = TypeVar("K")


class Numbered(dict[K, int]):
    """From name to number. Written by `[]` and `update` only."""

    def __init__(self) -> None:
        super().__init__()
        self._names: dict[int, K] = {}

    def __setitem__(self, name: K, number: int) -> None:
        super().__setitem__(name, number)
        self._names[number] = name

    def update(self, added: Mapping[K, int]) -> None:  # type: ignore[override]
        super().update(added)
        self._names.update({number: name for name, number in added.items()})

    def drop(self, numbers: Iterable[int]) -> None:
        """Forget the names that have these numbers; one that has another by now stays."""
        for number in numbers:
            name: Any = self._names.pop(number, None)
            if name is not None and self.get(name) == number:
                del self[name]

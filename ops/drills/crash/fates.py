"""What a power cut may leave of what no sync had covered, drawn from a seed.

Each file and each directory has its own fate: nothing of it, all of it, the first few changes, any of
them, or the newest and some of the others. Invariant: the same seed and path always draw the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from enum import Enum, unique

from ops.drills.crash.disk import Directory, Fates, File, Naming, Write, torn


@unique
class Left(Enum):
    """How much of the unsynced changes of one file or directory is there."""

    NONE = "none"
    ALL = "all"
    FIRST = "first"
    ANY = "any"
    NEWEST = "newest"  # the newest, and some of the others: it looks like a file of its time, and makes no sense


class Strict(Fates):
    """Nothing that no sync had covered is there."""

    def writes(self, path: str, file: File) -> Callable[[Write], Iterator[Write]]:
        return lambda write: iter(())

    def names(self, path: str, directory: Directory) -> Callable[[Naming], bool]:
        return lambda naming: False


class Mixed(Fates):
    """Each file and directory for itself."""

    def __init__(self, source: random.Random) -> None:
        self._seed = source.getrandbits(64)

    def _kept(self, path: str, changes: int) -> list[bool]:
        source = random.Random(f"{self._seed}/{path}")
        match self._left(path, source):
            case Left.NONE:
                return [False] * changes
            case Left.ALL:
                return [True] * changes
            case Left.FIRST:
                first = source.randint(0, changes)
                return [place < first for place in range(changes)]
            case Left.ANY:
                return [source.random() < 0.5 for _ in range(changes)]
            case Left.NEWEST:
                newest = changes - changes // 4
                return [place >= newest or source.random() < 0.4 for place in range(changes)]

    def _left(self, path: str, source: random.Random) -> Left:
        return source.choice(list(Left))

    def writes(self, path: str, file: File) -> Callable[[Write], Iterator[Write]]:
        unsynced = file.unsynced()
        kept = {id(write) for write, keep in zip(unsynced, self._kept(path, len(unsynced)), strict=True) if keep}
        return lambda write: iter((write,) if id(write) in kept else ())

    def names(self, path: str, directory: Directory) -> Callable[[Naming], bool]:
        changes = directory.pending
        kept = {id(change) for change, keep in zip(changes, self._kept(path + "/", len(changes)), strict=True) if keep}
        return lambda naming: id(naming) in kept


class Scattered(Mixed):
    """As `Mixed`, but of the file at `path` the newest is there: what is to be distrusted, not what can't be opened."""

    def __init__(self, source: random.Random, path: str) -> None:
        super().__init__(source)
        self._path = path

    def _left(self, path: str, source: random.Random) -> Left:
        return Left.NEWEST if path == self._path else super()._left(path, source)


class Named(Fates):
    """All that was written is there, and any of the changes of names."""

    def __init__(self, source: random.Random) -> None:
        self._source = source

    def names(self, path: str, directory: Directory) -> Callable[[Naming], bool]:
        return lambda naming: self._source.random() < 0.5


class Torn(Mixed):
    """As `Mixed`, but of the file at `path` the last unsynced write is there in part, and all before it."""

    def __init__(self, source: random.Random, path: str) -> None:
        super().__init__(source)
        self._path = path
        self._how = source.choice(("head", "tail", "any"))
        self._source = source

    def writes(self, path: str, file: File) -> Callable[[Write], Iterator[Write]]:
        unsynced = file.unsynced()
        if path != self._path or not unsynced:  # another file may have that path, when names are lost
            return super().writes(path, file)
        last = unsynced[-1]
        sectors = self._sectors(last)
        return lambda write: torn(write, sectors) if write is last else iter((write,))

    def _sectors(self, write: Write) -> Callable[[int], bool]:
        first = write.offset // 512
        count = (write.offset + len(write.data or b"") - 1) // 512 - first + 1
        middle = first + self._source.randint(0, count)
        picked = {first + place for place in range(count) if self._source.random() < 0.5}
        return {"head": lambda at: at < middle, "tail": lambda at: at >= middle, "any": picked.__contains__}[self._how]

"""A model of what a disk holds, and of what it may hold after the power was cut.

Of a file: its durable bytes, and the writes since. `sync` folds into the durable bytes what was written
before the sync began; a write through a descriptor that was opened O_DSYNC or O_SYNC is durable by itself
(LMDB's meta pages). Of a directory the same with names instead of bytes: one made, removed or renamed is
durable only after the directory was synced. A sync of a file doesn't bring its name.

Invariant: the state with everything in it is what the file system itself shows at that moment; each
other state differs from it only in what no sync had covered.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import NamedTuple

SECTOR_BYTES = 512
FILE_MODE, DIRECTORY_MODE = 0o600, 0o700


class Write(NamedTuple):
    """Bytes at an offset; `data` None: the file was cut or grown to `offset` bytes."""

    stamp: int
    offset: int
    data: bytes | None
    durable: bool = False


class Naming(NamedTuple):
    """A name put into a directory (or, `node` None, taken out); `old` is a name that went with it."""

    stamp: int
    name: str
    node: File | Directory | None
    old: str | None = None


@dataclass(eq=False)
class File:
    durable: bytearray = field(default_factory=bytearray)
    pending: list[Write] = field(default_factory=list)
    size: int = 0

    def write(self, stamp: int, offset: int, data: bytes, durable: bool) -> None:
        self.pending.append(Write(stamp, offset, data, durable))
        self.size = max(self.size, offset + len(data))

    def resize(self, stamp: int, size: int) -> None:
        self.pending.append(Write(stamp, size, None))
        self.size = size

    def sync(self, before: int) -> None:
        """Everything that was written before `before` is durable."""
        for each in self.pending:
            if each.stamp < before:
                _apply(self.durable, each)
        self.pending = [each for each in self.pending if each.stamp >= before]

    def unsynced(self) -> list[Write]:
        return [each for each in self.pending if not each.durable]

    def content(self, fate: Callable[[Write], Iterator[Write]]) -> bytearray:
        """The bytes, with of each unsynced write what `fate` leaves of it."""
        content = bytearray(self.durable)
        for each in self.pending:
            for left in (each,) if each.durable else fate(each):
                _apply(content, left)
        return content


@dataclass(eq=False)
class Directory:
    durable: dict[str, File | Directory] = field(default_factory=dict)
    pending: list[Naming] = field(default_factory=list)
    names: dict[str, File | Directory] = field(default_factory=dict)

    def change(self, naming: Naming) -> None:
        self.pending.append(naming)
        _rename(self.names, naming)

    def sync(self, before: int) -> None:
        for each in self.pending:
            if each.stamp < before:
                _rename(self.durable, each)
        self.pending = [each for each in self.pending if each.stamp >= before]

    def entries(self, keep: Callable[[Naming], bool]) -> dict[str, File | Directory]:
        """The names, with of the unsynced changes those that `keep` keeps."""
        entries = dict(self.durable)
        for each in self.pending:
            if keep(each):
                _rename(entries, each)
        return entries


class Fates:
    """What becomes of what is not synced. This one: all of it is there, as after `kill -9`."""

    def writes(self, path: str, file: File) -> Callable[[Write], Iterator[Write]]:
        """The fate of each unsynced write of the file at `path`."""
        return lambda write: iter((write,))

    def names(self, path: str, directory: Directory) -> Callable[[Naming], bool]:
        """Whether an unsynced change of names of the directory at `path` is there."""
        return lambda naming: True


class Disk:
    """The files under one root directory, which is always there. Paths are relative to it, with `/`."""

    def __init__(self) -> None:
        self.root = Directory()
        self._stamps = count()

    @classmethod
    def load(cls, root: Path) -> Disk:
        """What lies under `root`, all of it durable."""
        disk = cls()
        disk.root = _loaded(root)
        return disk

    def find(self, path: str) -> File | Directory | None:
        """What has that path now; the root for an empty one."""
        node: File | Directory | None = self.root
        for name in path.split("/") if path else ():
            node = node.names.get(name) if isinstance(node, Directory) else None
        return node

    def place(self, path: str) -> tuple[Directory, str]:
        """The directory that a path lies in, and its last name. Raises KeyError when there is none."""
        parent, _, name = path.rpartition("/")
        directory = self.find(parent)
        if not isinstance(directory, Directory):
            raise KeyError(path)
        return directory, name

    def unsynced(self) -> list[str]:
        """The paths of files with unsynced writes, and of directories with unsynced names (`…/`)."""
        return [path for path, node in _walk(self.root, "") if _open_ends(node)]

    def unsynced_names(self) -> int:
        """How many changes of names, of all directories that are or may be there, no sync has covered."""
        return sum(len(directory.pending) for directory in _directories(self.root))

    def put_under(self, target: Path, fates: Fates) -> None:
        """Make the state that `fates` leaves, in the new directory `target`."""
        _put(self.root, "", target, fates)


def torn(write: Write, sectors: Callable[[int], bool]) -> Iterator[Write]:
    """What is left of a write when only those sectors (by their number in the file) reached the disk."""
    if write.data is None:
        return
    end = write.offset + len(write.data)
    at = write.offset
    while at < end:
        until = min(end, (at // SECTOR_BYTES + 1) * SECTOR_BYTES)
        if sectors(at // SECTOR_BYTES):
            yield write._replace(offset=at, data=write.data[at - write.offset : until - write.offset])
        at = until


def _apply(content: bytearray, write: Write) -> None:
    if write.data is None:
        del content[write.offset :]
        content.extend(bytes(write.offset - len(content)))
        return
    if len(content) < write.offset:
        content.extend(bytes(write.offset - len(content)))
    content[write.offset : write.offset + len(write.data)] = write.data


def _rename(names: dict[str, File | Directory], naming: Naming) -> None:
    if naming.old is not None:
        names.pop(naming.old, None)
    if naming.node is None:
        names.pop(naming.name, None)
    else:
        names[naming.name] = naming.node


def _walk(directory: Directory, path: str) -> Iterator[tuple[str, File | Directory]]:
    yield f"{path}/", directory
    for name, node in directory.names.items():
        below = f"{path}/{name}".lstrip("/")
        if isinstance(node, Directory):
            yield from _walk(node, below)
        else:
            yield below, node


def _directories(directory: Directory) -> Iterator[Directory]:
    """The directory and all below it, those too whose own name was taken and may come back."""
    yield directory
    nodes = [*directory.names.values(), *directory.durable.values(), *(each.node for each in directory.pending)]
    for node in {id(node): node for node in nodes if isinstance(node, Directory)}.values():
        yield from _directories(node)


def _open_ends(node: File | Directory) -> bool:
    return bool(node.pending) if isinstance(node, Directory) else bool(node.unsynced())


def _put(directory: Directory, path: str, target: Path, fates: Fates) -> None:
    target.mkdir(mode=DIRECTORY_MODE)
    for name, node in directory.entries(fates.names(path, directory)).items():
        below = f"{path}/{name}".lstrip("/")
        if isinstance(node, Directory):
            _put(node, below, target / name, fates)
            continue
        descriptor = os.open(target / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(node.content(fates.writes(below, node)))


def _loaded(path: Path) -> Directory:
    directory = Directory()
    for entry in os.scandir(path):
        node: File | Directory
        if entry.is_dir(follow_symlinks=False):
            node = _loaded(Path(entry.path))
        else:
            content = bytearray(Path(entry.path).read_bytes())
            node = File(durable=content, size=len(content))
        directory.durable[entry.name] = directory.names[entry.name] = node
    return directory

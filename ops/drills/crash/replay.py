"""Traced system calls played on a model of the disk, with the answers that left in between.

Descriptors are followed per process: threads share them, a forked child has its own copy. Only paths under
one root count. What isn't written through system calls can't be modelled: the lock files (LMDB maps its
own) and the reserve are kept as names without content.

Invariant: `Replay` knows every call that can change a file, or raises BadTrace.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from ops.drills.crash.disk import Directory, Disk, File, Naming
from ops.drills.crash.trace import BadTrace, Call

OPAQUE = frozenset({"lock", "lock.mdb", "reserve"})
_SYNC_FLAGS = frozenset({"O_SYNC", "O_DSYNC"})
_STDOUT = 1


class Answer(NamedTuple):
    """One answer: the id of its request and the result (None: it was refused)."""

    request: str
    result: dict[str, Any] | None


class Event(NamedTuple):
    """A moment after which the power may go. `answers` have (perhaps) left by now."""

    name: str
    path: str
    answers: tuple[Answer, ...] = ()


@dataclass
class Stream:
    """A connection, or standard output: what is sent on it is split into lines."""

    half: bytes = b""

    def take(self, data: bytes) -> tuple[Answer, ...]:
        *lines, self.half = (self.half + data).split(b"\n")
        return tuple(found for line in lines if (found := _answer(line)) is not None)


@dataclass
class Opened:
    """An open file description."""

    node: File | Directory
    path: str
    synced: bool = False  # each write is durable by itself
    append: bool = False
    offset: int = 0


Descriptor = Opened | Stream
Table = dict[int, Descriptor]


@dataclass
class Replay:
    """Plays the calls of one traced program, and of all that it started, on `disk`. `root` is absolute.

    `origin` is added to line numbers, so that stamps rise from one traced program to the next. `missed` is
    for sabotage: whether to overlook a sync (by the name of its call, or `O_DSYNC`) of the file at a path.
    `given` are directories whose own name is durable as soon as they are made.
    """

    disk: Disk
    root: str
    origin: int = 0
    missed: Callable[[str, str], bool] = lambda name, path: False
    given: frozenset[str] = frozenset()
    tables: dict[int, Table] = field(default_factory=dict)
    starting: list[tuple[int, Call]] = field(default_factory=list)

    def play(self, calls: Iterable[Call]) -> Iterator[Event]:
        """Each event just after it happened. A call that never came back did nothing."""
        calls = list(calls)
        self.starting = [(call.began, call) for call in calls if call.name in ("clone", "clone3", "fork", "vfork")]
        for call in calls:
            table = self._table(call)
            sends = call.name in ("sendto", "sendmsg")
            if (call.result is None and not sends) or (call.result is not None and call.result < 0):
                continue
            event = self._do(call, table)
            if event is not None:
                yield event

    def _table(self, call: Call) -> Table:
        """The descriptors of the process; those of one that is new are its starter's."""
        if call.pid not in self.tables:
            starter = self._starter(call)
            if starter is None:
                self.tables[call.pid] = {_STDOUT: Stream()}
            else:
                table = self.tables[starter.pid]
                self.tables[call.pid] = table if "CLONE_THREAD" in starter.args else dict(table)
        return self.tables[call.pid]

    def _starter(self, call: Call) -> Call | None:
        """The call that made the process; a vfork has not come back while its child is at work."""
        for _, each in self.starting:
            if each.result == call.pid:
                return each
        return None

    def _do(self, call: Call, table: Table) -> Event | None:
        action = _ACTIONS.get(call.name)
        if action is None:
            raise BadTrace(f"no model of {call.name}")
        return action(self, call, table)

    # --- descriptors -----------------------------------------------------------------------------------

    def _open(self, call: Call, table: Table) -> Event | None:
        words = call.words()
        at = words[0] if call.name == "openat" else "AT_FDCWD"
        flags = set(words[2 if call.name == "openat" else 1].split("|"))
        assert call.result is not None
        table.pop(call.result, None)
        path = self._path(at, call.strings()[0], table)
        if path is None:
            return None
        changed = False
        node = self.disk.find(path)
        if node is None:
            node, changed = File(), True
            self._name(call, path, node)
        elif isinstance(node, File) and "O_TRUNC" in flags and node.size:
            node.resize(self._stamp(call), 0)
            changed = True
        table[call.result] = Opened(node, path, self._is_synced(flags, path), "O_APPEND" in flags)
        return Event(call.name, path) if changed else None

    def _is_synced(self, flags: set[str], path: str) -> bool:
        return bool(flags & _SYNC_FLAGS) and not self.missed("O_DSYNC", path)

    def _close(self, call: Call, table: Table) -> None:
        table.pop(_number(call), None)

    def _dup(self, call: Call, table: Table) -> None:
        if call.name == "fcntl" and "F_DUPFD" not in call.args:
            return
        assert call.result is not None
        table.pop(call.result, None)
        if (found := table.get(_number(call))) is not None:
            table[call.result] = found

    def _accept(self, call: Call, table: Table) -> None:
        assert call.result is not None
        table[call.result] = Stream()

    def _lseek(self, call: Call, table: Table) -> None:
        found = table.get(_number(call))
        if isinstance(found, Opened):
            assert call.result is not None
            found.offset = call.result

    # --- bytes -------------------------------------------------------------------------------------------

    def _write(self, call: Call, table: Table) -> Event | None:
        found = table.get(_number(call))
        data = b"".join(call.strings())
        data = data if call.result is None else data[: call.result]
        if isinstance(found, Stream):
            answers = found.take(data)
            return Event(call.name, "", answers) if answers else None
        if found is None or not isinstance(found.node, File):
            return None
        if PurePosixPath(found.path).name in OPAQUE:
            return None
        if call.result is not None and len(data) != call.result:
            raise BadTrace(f"{call.name} of {call.result} bytes shows {len(data)}")
        if call.name.startswith("p"):
            offset = int(call.words()[3 if call.name == "pwrite64" else -1], 0)
        else:
            offset = found.node.size if found.append else found.offset
            found.offset = offset + len(data)
        found.node.write(self._stamp(call), offset, data, found.synced)
        return Event(call.name, found.path)

    def _resize(self, call: Call, table: Table) -> Event | None:
        found = table.get(_number(call))
        if not isinstance(found, Opened) or not isinstance(found.node, File):
            return None
        if PurePosixPath(found.path).name in OPAQUE:
            return None
        if call.name != "ftruncate":
            raise BadTrace(f"{call.name} of {found.path}: not modelled")
        found.node.resize(self._stamp(call), int(call.words()[1], 0))
        return Event(call.name, found.path)

    def _sync(self, call: Call, table: Table) -> Event | None:
        found = table.get(_number(call))
        if not isinstance(found, Opened) or self.missed(call.name, found.path):
            return None
        found.node.sync(self.origin + call.began)
        return Event(call.name, found.path)

    # --- names -------------------------------------------------------------------------------------------

    def _mkdir(self, call: Call, table: Table) -> Event | None:
        at = call.words()[0] if call.name == "mkdirat" else "AT_FDCWD"
        path = self._path(at, call.strings()[0], table)
        if path is None:
            return None
        self._name(call, path, Directory())
        if path in self.given:
            self.disk.place(path)[0].sync(self._stamp(call) + 1)
        return Event(call.name, path)

    def _unlink(self, call: Call, table: Table) -> Event | None:
        at = call.words()[0] if call.name == "unlinkat" else "AT_FDCWD"
        path = self._path(at, call.strings()[0], table)
        if path is None:
            return None
        self._name(call, path, None)
        return Event(call.name, path)

    def _rename(self, call: Call, table: Table) -> Event | None:
        words = call.words()
        at = ("AT_FDCWD", "AT_FDCWD") if call.name == "rename" else (words[0], words[2])
        old, new = (self._path(each, name, table) for each, name in zip(at, call.strings(), strict=True))
        if old is None and new is None:
            return None
        if old is None or new is None or old.rpartition("/")[0] != new.rpartition("/")[0]:
            raise BadTrace(f"a rename from one directory to another: {old} to {new}")
        self._name(call, new, self.disk.find(old), old.rpartition("/")[2])
        return Event(call.name, new)

    def _name(self, call: Call, path: str, node: File | Directory | None, old: str | None = None) -> None:
        directory, name = self.disk.place(path)
        directory.change(Naming(self._stamp(call), name, node, old))

    def _path(self, at: str, name: bytes, table: Table) -> str | None:
        """The path under the root; None for one that lies elsewhere."""
        text = name.decode("utf-8", "surrogateescape")
        if text.startswith("/"):
            if text == self.root:
                return ""
            return text[len(self.root) + 1 :] if text.startswith(self.root + "/") else None
        found = table.get(int(at)) if at.lstrip("-").isdigit() else None
        return f"{found.path}/{text}" if isinstance(found, Opened) else None

    def _stamp(self, call: Call) -> int:
        return self.origin + call.ended

    def _unmodelled(self, call: Call, table: Table) -> None:
        if any(isinstance(found := table.get(number), Opened) and found for number in _numbers(call)):
            raise BadTrace(f"no model of {call.name}")

    def _nothing(self, call: Call, table: Table) -> None:
        """Processes are found by what their starters returned."""


Action = Callable[[Replay, Call, Table], Event | None]

_ACTIONS: dict[str, Action] = {
    "open": Replay._open, "openat": Replay._open, "close": Replay._close,
    "dup": Replay._dup, "dup2": Replay._dup, "dup3": Replay._dup, "fcntl": Replay._dup,
    "accept4": Replay._accept, "lseek": Replay._lseek,
    "write": Replay._write, "writev": Replay._write, "pwrite64": Replay._write, "pwritev": Replay._write,
    "sendto": Replay._write, "sendmsg": Replay._write,
    "ftruncate": Replay._resize, "fallocate": Replay._resize,
    "fsync": Replay._sync, "fdatasync": Replay._sync,
    "mkdir": Replay._mkdir, "mkdirat": Replay._mkdir,
    "unlink": Replay._unlink, "unlinkat": Replay._unlink, "rmdir": Replay._unlink,
    "rename": Replay._rename, "renameat": Replay._rename, "renameat2": Replay._rename,
    "clone": Replay._nothing, "clone3": Replay._nothing, "fork": Replay._nothing, "vfork": Replay._nothing,
    "pwritev2": Replay._unmodelled, "sync_file_range": Replay._unmodelled, "msync": Replay._nothing,
}  # fmt: skip


def _number(call: Call) -> int:
    return int(call.words()[0])


def _numbers(call: Call) -> Iterator[int]:
    return (int(word) for word in call.words() if word.isdigit())


def _answer(line: bytes) -> Answer | None:
    """The answer in a line; None for a line of the log."""
    try:
        told = json.loads(line)
    except ValueError:
        return None
    if not isinstance(told, dict) or "id" not in told or not told.keys() & {"result", "error"}:
        return None
    return Answer(str(told["id"]), told.get("result"))

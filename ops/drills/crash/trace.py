"""What `strace -f -xx` wrote, as system calls in the order in which they took effect.

`-xx` writes every string as `\\xNN`, so no quote, comma or bracket of a line is ever content. A call that
was interrupted by another thread's line stands in two halves; both are joined, and the call knows when it
began and when it ended, as line numbers. Invariant: two calls of which one ended before the other began
keep their order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

TRACED = (
    "open", "openat", "creat", "close", "dup", "dup2", "dup3", "fcntl", "lseek",
    "write", "writev", "pwrite64", "pwritev", "pwritev2", "ftruncate", "truncate", "fallocate",
    "fsync", "fdatasync", "sync_file_range", "msync",
    "rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir", "mkdir", "mkdirat", "link", "linkat",
    "accept4", "sendto", "sendmsg", "clone", "clone3", "fork", "vfork",
)  # fmt: skip

_LINE = re.compile(r"(\d+)\s+(.*)", re.DOTALL)
_RESUMED = re.compile(r"<\.\.\. (\w+) resumed>(.*)", re.DOTALL)
_STRING = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_UNFINISHED = "<unfinished ...>"


class Call(NamedTuple):
    """One system call. `result` None: it never came back, or nobody saw it."""

    pid: int
    name: str
    args: str
    result: int | None
    began: int
    ended: int

    @property
    def position(self) -> int:
        """The line at which it counts: an answer as soon as it may have left, all else once it is done."""
        return self.began if self.name in ("sendto", "sendmsg") else self.ended

    def strings(self) -> list[bytes]:
        """Its string arguments, decoded, in order; those of an iovec too."""
        return [bytes.fromhex(found.replace("\\x", "")) for found in _STRING.findall(self.args)]

    def words(self) -> list[str]:
        """Its arguments between commas, each string as a bare `"`."""
        return [word.strip() for word in _STRING.sub('"', self.args).split(",")]


class BadTrace(Exception):
    """A line that is no line of strace's, or half of one."""


def parse_trace(lines: Iterable[str]) -> list[Call]:
    """All calls, by `position`. Raises BadTrace."""
    return sorted(_calls(lines), key=lambda call: call.position)


def _calls(lines: Iterable[str]) -> Iterator[Call]:
    begun: dict[int, tuple[int, str]] = {}
    number = 0
    for number, line in enumerate(lines):
        found = _LINE.match(line.rstrip("\n"))
        if found is None:
            raise BadTrace(f"line {number + 1} has no pid")
        pid, text = int(found[1]), found[2]
        if text.startswith(("+++", "---")):
            continue
        if text.endswith(_UNFINISHED):
            begun[pid] = number, text[: -len(_UNFINISHED)]
            continue
        began, resumed = number, _RESUMED.match(text)
        if resumed is not None:
            if pid not in begun:
                raise BadTrace(f"line {number + 1} resumes a {resumed[1]} that never began")
            began, head = begun.pop(pid)
            text = head + resumed[2]
        yield _call(pid, text, began, number)
    for pid, (began, text) in begun.items():
        yield _call(pid, text + ") = ?", began, number + 1)


def _call(pid: int, text: str, began: int, ended: int) -> Call:
    name, opened, rest = text.partition("(")
    body, equals, result = rest.rpartition(" = ")
    if not opened or not equals or not body.rstrip().endswith(")"):
        raise BadTrace(f"line {ended + 1} is no call: {text[:80]}")
    return Call(pid, name, body.rstrip()[:-1], _result(result), began, ended)


def _result(text: str) -> int | None:
    word = text.split(" ", 1)[0]
    if word == "?":
        return None
    return int(word, 16) if word.startswith("0x") else int(word)

"""The exit codes of the daemon and of the command line (contract PROTOCOL §7)."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    OK = 0
    NOT_FOUND = 1
    USAGE = 2
    UNREACHABLE = 3
    REFUSED = 4
    DAMAGED = 65
    INTERNAL = 70
    CANNOT_CREATE = 73
    IO_ERROR = 74
    UNAVAILABLE = 75
    DENIED = 77
    CONFIGURATION = 78
    INTERRUPTED = 130

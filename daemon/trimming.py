"""Memory that is free goes back to the system when a crowd has left: glibc would keep it between what is in use.

Only glibc has this, and elsewhere nothing is done.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache


def give_back() -> bool:
    """Return what is free; whether anything was. It takes some milliseconds for each 100 MiB."""
    trim = _malloc_trim()
    return trim is not None and bool(trim(0))


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return None
    trim.argtypes, trim.restype = [ctypes.c_size_t], ctypes.c_int
    found: Callable[[int], int] = trim
    return found

"""Exit codes, and which refusal has which (contract PROTOCOL §7)."""

from __future__ import annotations

from typing import Final

OK: Final = 0
NOT_FOUND: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
REFUSED: Final = 4
DAMAGED: Final = 65
INTERNAL: Final = 70
IO_ERROR: Final = 74
UNAVAILABLE: Final = 75
DENIED: Final = 77
CONFIG: Final = 78
INTERRUPTED: Final = 130
"""As a shell says of a command that SIGINT ended."""

OF_REASON: Final = {
    "not_found": NOT_FOUND,
    "unreachable": UNREACHABLE,
    "damaged": DAMAGED,
    "internal": INTERNAL,
    "unknown_outcome": IO_ERROR,
    "unavailable": UNAVAILABLE,
    "overloaded": UNAVAILABLE,
    "read_only": UNAVAILABLE,
    "denied": DENIED,
}


def of_reason(reason: str) -> int:
    return OF_REASON.get(reason, REFUSED)

"""Exit codes, and which refusal has which (contract PROTOCOL §7)."""

from __future__ import annotations

from typing import Final

OK: Final = 0
NOT_FOUND: Final = 1
USAGE: Final = 2
REFUSED: Final = 4
DAMAGED: Final = 65
CONFIG: Final = 78

OF_REASON: Final = {
    "not_found": NOT_FOUND,
    "unreachable": 3,
    "damaged": DAMAGED,
    "internal": 70,
    "unknown_outcome": 74,
    "unavailable": 75,
    "overloaded": 75,
    "read_only": 75,
    "denied": 77,
}


def of_reason(reason: str) -> int:
    return OF_REASON.get(reason, REFUSED)

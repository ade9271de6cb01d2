"""What a caller is told when a request is not done: a closed set of reasons with their wire codes."""

from __future__ import annotations

from enum import Enum, unique
from typing import Any


@unique
class Reason(Enum):
    """Reasons of contract PROTOCOL §3: (wire code, retryable)."""

    PARSE_ERROR = (-32700, False)
    INVALID_REQUEST = (-32600, False)
    UNKNOWN_METHOD = (-32601, False)
    INVALID_INPUT = (-32602, False)
    INTERNAL = (-32603, False)
    NOT_FOUND = (-32001, False)
    CONFLICT = (-32002, False)
    PROVENANCE = (-32003, False)
    LIFECYCLE = (-32004, False)
    LEGAL_HOLD = (-32005, False)
    DENIED = (-32006, False)
    TOO_LARGE = (-32007, False)
    READ_ONLY = (-32008, True)
    DAMAGED = (-32009, False)
    QUARANTINED = (-32010, False)
    OVERLOADED = (-32011, True)
    UNKNOWN_OUTCOME = (-32012, True)
    UNAVAILABLE = (-32013, True)

    @property
    def wire(self) -> str:
        return self.name.lower()

    @property
    def code(self) -> int:
        return self.value[0]

    @property
    def retryable(self) -> bool:
        return self.value[1]


class Refused(Exception):
    """A request that is answered with an error and changes nothing.

    `data` holds the further fields of the error's data object (`parameter`, `limit`, `allowed`, `ids`,
    `current`, `retry_after_ms`, `index`, `hint`), never content.
    """

    def __init__(self, reason: Reason, message: str, **data: Any) -> None:
        self.reason = reason
        self.message = message
        self.data = data
        super().__init__(message)

"""What a command decides: events with the plaintext of their parts, a result, and what to remember.

`decide` functions are pure: they take a view and a command and return this. Nothing has changed yet.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from journal.codes import CallerRole, Via
from journal.events import AnyEvent, SealedPart


class Draft(NamedTuple):
    """An event to be, without its own parts. `shared` are parts of earlier records, first in the list."""

    event: AnyEvent
    plain: tuple[tuple[int, bytes], ...] = ()  # (part code, plaintext)
    shared: tuple[SealedPart, ...] = ()


class Decision:
    """The outcome of one command. Without drafts it changes nothing and only answers."""

    __slots__ = ("drafts", "result", "tenant", "text_key")

    def __init__(self, tenant: int, result: Any, drafts: list[Draft], text_key: bytes | None = None) -> None:
        self.tenant = tenant
        self.result = result
        self.drafts = drafts
        self.text_key = text_key


class Who(NamedTuple):
    """The actor of a command."""

    uid: int
    role: CallerRole
    via: Via

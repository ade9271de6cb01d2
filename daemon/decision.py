"""What a command decides: events with the plaintext of their parts, a result, and what to remember.

`decide` functions are pure: they take a view and a command and return this. Nothing has changed yet.
"""

from __future__ import annotations

from typing import NamedTuple

from journal.events import AnyEvent, SealedPart


class Draft(NamedTuple):
    """An event to be, without its own parts. `shared` are parts of earlier records, first in the list."""

    event: AnyEvent
    plain: tuple[tuple[int, bytes], ...] = ()  # (part code, plaintext)
    shared: tuple[SealedPart, ...] = ()

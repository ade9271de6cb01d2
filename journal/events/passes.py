"""Events of passes."""

from __future__ import annotations

from journal.events.root import Event, TurnScore


class PassCommitted(Event, frozen=True, tag=40):
    """One commit of a pass: what it settled. `last` ends the pass. Its notes are MemoryCreated events of
    the same command."""

    session: int
    number: int
    promoted: tuple[int, ...]
    noise: tuple[int, ...]
    last: bool
    cycle: int = 0
    scores: tuple[TurnScore, ...] = ()


class PassFailed(Event, frozen=True, tag=41):
    session: int
    attempt: int
    error: str
    parked: bool
    cycle: int = 0


class Unparked(Event, frozen=True, tag=42):
    session: int


class TurnsReopened(Event, frozen=True, tag=43):
    """Settled turns wait for a new pass again. `cause` is a `ReopenCause`; `cohort` and `cycle` are 0 where none is."""

    session: int
    turns: tuple[int, ...]
    cohort: int = 0
    cycle: int = 0
    cause: int = 0

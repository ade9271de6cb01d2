"""Events of bookkeeping."""

from __future__ import annotations

from journal.events.root import Event, SealedPart


class Keyed(Event, frozen=True, tag=80):
    """The idempotency key of a command that owns no memory, and its result without content (msgpack).

    Part request: the digest of the request. `memories` and `sessions` (by number) are those a purge of which
    turns the answer into `purged`.
    """

    key: bytes
    result: bytes
    memories: tuple[int, ...] = ()
    parts: tuple[SealedPart, ...] = ()
    sessions: tuple[int, ...] = ()


class OperatorCrossed(Event, frozen=True, tag=81):
    """An operator read or changed a tenant other than its own: `verb` on the record's tenant."""

    verb: str


class Upgraded(Event, frozen=True, tag=82):
    old_format: int
    new_format: int

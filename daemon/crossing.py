"""An operator in a tenant that is not its own leaves a record there: `operator_crossed`, with the verb.

A write leaves it in its own command (`daemon/leaving.py`). A question leaves one of its own before it is answered, and
so does a write that is refused or changes nothing, for its answer tells something too: where none was left for that
(uid, tenant, verb) in EVERY_MS. Invariant: it never keeps a question from being answered. Where nothing can be written
(a full disk, a writer that failed) it is answered all the same, and the log says so.

Recorded is who looks at what a tenant has. What tells of the store as a whole (`status`, `head`, `metrics`, `hello`,
`audit` that names no tenant, `backup`, `rebuild`, the skeletons of records that are `store_wide`) is nobody's, and
leaves none. With more than a skeleton, records that are `store_wide` leave one in each tenant whose frames are told, a
subscription in each that there is when it begins, and `residue` in each of whose memories it finds something. Nor does
a tenant begin by being read: where nothing was ever written, there was nothing to see.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import structlog

from daemon.caller import Caller
from daemon.refusal import Refused
from journal.codes import CallerRole

EVERY_MS = 3_600_000
REMEMBERED = 16_384
"""How many are remembered; beyond, all are forgotten, and the next question of each leaves a record again."""

log = structlog.get_logger("crossing")


def crosses(caller: Caller, tenant: str) -> bool:
    """Whether it is an operator's call on a tenant other than its own."""
    return caller.role is CallerRole.OPERATOR and tenant != caller.tenant


class Crossed(NamedTuple):
    """One that is to be recorded."""

    tenant: str
    verb: str
    caller: Caller
    correlation: str | None


_Key = tuple[int, str, str]


class Crossings:
    """Which questions of operators left a record lately. Safe on any thread.

    `has_begun` says of a tenant's name whether anything was ever written to it; `commit` has a record written, durably,
    and raises Refused when it can't be.
    """

    def __init__(self, has_begun: Callable[[str], bool], commit: Callable[[Crossed], None]) -> None:
        self._has_begun = has_begun
        self._commit = commit
        self._one_at_a_time = threading.Lock()
        self._recorded: dict[_Key, int] = {}
        self._said: dict[_Key, int] = {}

    def is_due(self, verb: str, caller: Caller, tenants: Iterable[str], now_ms: int) -> bool:
        """Whether `record` has something to write. Takes no time."""
        return next(self._due(verb, caller, tenants, now_ms), None) is not None

    def record(
        self, verb: str, caller: Caller, tenants: Iterable[str], now_ms: int, correlation: str | None = None
    ) -> None:
        """Leave a record where one is due. Not for the writer's own thread, nor for the loop's."""
        due = list(self._due(verb, caller, tenants, now_ms))
        if not due:
            return
        with self._one_at_a_time:
            for tenant in self._due(verb, caller, due, now_ms):
                try:
                    self._commit(Crossed(tenant, verb, caller, correlation))
                except Refused as refused:
                    self._say((caller.uid, tenant, verb), now_ms, refused)
                else:
                    _remember(self._recorded, (caller.uid, tenant, verb), now_ms)

    def remember(self, uid: int, tenant: str, verb: str, now_ms: int) -> None:
        """A write left one in its own command."""
        _remember(self._recorded, (uid, tenant, verb), now_ms)

    def _due(self, verb: str, caller: Caller, tenants: Iterable[str], now_ms: int) -> Iterator[str]:
        for tenant in tenants:
            is_recent = _is_recent(self._recorded, (caller.uid, tenant, verb), now_ms)
            if crosses(caller, tenant) and not is_recent and self._has_begun(tenant):
                yield tenant

    def _say(self, key: _Key, now_ms: int, refused: Refused) -> None:
        if not _is_recent(self._said, key, now_ms):
            _remember(self._said, key, now_ms)
            log.warning("crossing_not_recorded", uid=key[0], verb=key[2], reason=refused.reason.wire)


def _is_recent(times: dict[_Key, int], key: _Key, now_ms: int) -> bool:
    at_ms = times.get(key)
    return at_ms is not None and 0 <= now_ms - at_ms < EVERY_MS


def _remember(times: dict[_Key, int], key: _Key, now_ms: int) -> None:
    if len(times) >= REMEMBERED:
        times.clear()
    times[key] = now_ms

"""What one subscription reads: its place in the journal, what it wants, and the frames from a place on.

Invariant: nothing is read that isn't committed, folded, and known to those who ask (`projections.head` is set last),
so a filter by a tenant's name never misses that tenant's first records. Every reading has a transaction of its own,
closed before anything is handed on. Parts are unsealed when they are read: what was purged by then is `purged`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from daemon import limits
from daemon.asking import Asking
from daemon.caller import Caller
from daemon.failures import note_damage, refusal_of
from daemon.peers import check_role
from daemon.prepare import UNSET
from daemon.reads.audit import head_result
from daemon.refusal import Reason, Refused
from daemon.wire.exchange_results import SubscribeResult
from daemon.wire.verbs import VERBS
from journal.codes import CallerRole
from journal.errors import DamagedRecord
from journal.frames import TAG_OF_WORD, FrameMaker, Level, Row, encode_frame, place_behind, rows_between
from journal.record import Head, split_value

if TYPE_CHECKING:
    from daemon.service import Service

CHUNK_BYTES = 128 * 1024
CHUNK_RECORDS = 1024
FRAME_BYTES = limits.LINE_BYTES - 1024
"""Of a frame, so that the line around it can be carried."""


class Wanted(NamedTuple):
    """Which records, and how much of them. `tags` None: every event; `tenants` None: everybody's and the store's."""

    level: Level
    tags: frozenset[int] | None
    tenants: tuple[str, ...] | None


class Chunk(NamedTuple):
    """Frames as JSON, in order. `place`: everything wanted up to there is in this chunk or an earlier one. With
    `refused` it can't go on from there."""

    frames: list[bytes]
    place: Head
    refused: Refused | None = None


class Feed:
    """`start` is where it begins. May be read on any thread."""

    def __init__(self, service: Service, wanted: Wanted, start: Head) -> None:
        self._service = service
        self.wanted = wanted
        self.start = start
        self.result = SubscribeResult(head=head_result(service.store, service.store.log.head()))
        name = partial(_tenant_name, service)  # no method of ours: in a cycle both would stay until a collection
        self._maker = FrameMaker(service.store.log, service.store.vault, service.store.sealer, name)

    def check_rights(self, caller: Caller) -> None:
        """Whether `caller` may (still) follow this. Raises Refused."""
        check_role(VERBS["subscribe"], caller)
        if self.wanted.tenants is None and caller.role is not CallerRole.OPERATOR:
            raise Refused(Reason.DENIED, "only operators follow the whole store", parameter="store_wide")
        if self.wanted.level is Level.CONTENT and not caller.content:
            raise Refused(Reason.DENIED, "content needs the grant `content`", parameter="level")
        if not all(map(caller.may_read, self.wanted.tenants or ())):
            raise Refused(Reason.NOT_FOUND, "there is no such tenant", parameter="tenant")

    def latest_seq(self) -> int:
        """Up to where it can be read."""
        return self._service.projections.head.seq

    def read(self, place: Head) -> Chunk:
        """What is wanted behind `place`: a bounded number of bytes, one frame at least if there is one."""
        frames: list[bytes] = []
        try:
            for reached, frame in self._frames(place):
                place = reached
                if frame is not None:
                    frames.append(frame)
        except Refused as refused:
            return Chunk(frames, place, refused)
        except Exception as error:
            note_damage(self._service.store, self._service.projections, error)
            return Chunk(frames, place, behind_damage(self._service, "subscribe", error))
        return Chunk(frames, place)

    def _frames(self, place: Head) -> Iterator[tuple[Head, bytes | None]]:
        """Each record's place with its frame, None when it isn't wanted. Raises Refused, DamagedRecord."""
        log = self._service.store.log
        last = min(self.latest_seq(), place.seq + CHUNK_RECORDS)
        numbers = self._numbers()
        size_bytes = 0
        with log.env.read() as txn:
            for row in rows_between(log, txn, place.seq + 1, last):
                frame = self._frame(txn, row) if self._is_wanted(row, numbers) else None
                size_bytes += 0 if frame is None else len(frame)
                yield Head(place.epoch, row.seq, split_value(row.seq, row.value)[0]), frame
                if size_bytes >= CHUNK_BYTES:
                    return

    def _numbers(self) -> frozenset[int] | None:
        if self.wanted.tenants is None:
            return None
        known = self._service.names.tenant_numbers
        return frozenset(known[name] for name in self.wanted.tenants if name in known)

    def _is_wanted(self, row: Row, numbers: frozenset[int] | None) -> bool:
        outline = row.outline()
        if numbers is not None and outline.tenant not in numbers:
            return False
        return self.wanted.tags is None or outline.tag in self.wanted.tags

    def _frame(self, txn: Any, row: Row) -> bytes:
        frame = encode_frame(self._maker.frame(txn, row, self.wanted.level))
        if len(frame) > FRAME_BYTES:
            place = {"epoch": self.start.epoch, "seq": row.seq, "chain": split_value(row.seq, row.value)[0].hex()}
            raise Refused(
                Reason.TOO_LARGE, "a frame is too large for a line; go on behind it", seq=row.seq, current=place,
                limit=limits.LINE_BYTES,
            )  # fmt: skip
        return frame


def _tenant_name(service: Service, number: int) -> str | None:
    row = service.names.tenants.get(number)
    return None if row is None else row.name


def subscribe(service: Service, params: Any, caller: Caller, tenants: tuple[str, ...], asking: Asking) -> Feed:
    """Where and what to follow. Raises Refused."""
    if params.store_wide and (params.tenants is not UNSET or params.tenant is not UNSET):
        raise Refused(Reason.INVALID_INPUT, "give either store_wide or tenants", parameter="store_wide")
    tags = None if params.types is UNSET else frozenset(TAG_OF_WORD[word] for word in params.types)
    wanted = Wanted(Level(params.level), tags, None if params.store_wide else tenants)
    head = service.store.log.head()
    start = head if params.after is UNSET else _place(service, params.after, head, asking)
    feed = Feed(service, wanted, start)
    feed.check_rights(caller)
    return feed


def behind_damage(service: Service, verb: str, error: Exception) -> Refused:
    """What is told of a damaged record: also from where one can go on, as `current`."""
    refused = refusal_of(verb, error)
    found = place_behind(service.store.log, error.seq) if isinstance(error, DamagedRecord) and error.seq else None
    if found is not None:
        refused.data["current"] = _told(service.store.store_id, found)
    return refused


def _place(service: Service, after: Any, head: Head, asking: Asking) -> Head:
    """The place that `after` names in this journal. Raises Refused, as `conflict` when there is none."""
    store = service.store
    if after.store not in (UNSET, store.store_id.hex()):
        raise _not_here(service, head, after, "the place is one of another store")
    if after.epoch != head.epoch:
        older = {"forked_from": _fork(service, after.epoch, asking)} if 0 < after.epoch < head.epoch else {}
        raise _not_here(service, head, after, "the place is one of another epoch", **older)
    if after.seq > head.seq:
        raise _not_here(service, head, after, "the place is behind the end of this journal")
    try:
        with store.env.read() as txn:
            chain = store.log.chain_of(txn, after.seq)
    except DamagedRecord as error:
        note_damage(store, service.projections, error)
        raise refusal_of("subscribe", error) from error
    if chain.hex() != after.chain:
        raise _not_here(service, head, after, "this journal has another record there")
    return Head(head.epoch, after.seq, chain)


def _not_here(service: Service, head: Head, after: Any, message: str, **more: Any) -> Refused:
    """Both places are named: where the journal is, and the one that was asked for."""
    current = _told(service.store.store_id, head)
    asked = {"epoch": after.epoch, "seq": after.seq, "chain": after.chain}
    if after.store is not UNSET:
        asked = {"store": after.store, **asked}
    return Refused(Reason.CONFLICT, message, parameter="after", current=current, asked=asked, **more)


def _told(store_id: bytes, place: Head) -> dict[str, Any]:
    return {"store": store_id.hex(), "epoch": place.epoch, "seq": place.seq, "chain": place.chain.hex()}


def _fork(service: Service, epoch: int, asking: Asking) -> dict[str, Any] | None:
    """Up to where this journal is that of `epoch`: what the first restore to a later one continued from."""
    for event in service.forks.all(asking):
        if event.from_epoch <= epoch < event.epoch:
            return _told(event.from_store, Head(event.from_epoch, event.from_seq, event.from_chain))
    return None

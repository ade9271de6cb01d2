"""purges: the receipts of what was purged, newest first; or one of them with what it did to each memory.

A receipt is read from the PURGE records themselves, so that it says what was said when it was done; of one that a
restore did again, when and by whom it was done first. It is found under its own address, under that of then, and under
those that restores in between gave it. A cursor names the last receipt that was given, or how many results of one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from daemon.erasure_words import disclosure
from daemon.prepare import UNSET
from daemon.purge_told import outcome, totals
from daemon.reads.reading import Reading
from daemon.refusal import Reason, Refused
from daemon.wire.erasure_results import PurgeOutcome, PurgesResult, Receipt
from daemon.wire.results import Actor, Address
from daemon.wire.times import format_ms
from journal.codes import CallerRole, Cascade, PurgeReason, Via
from journal.errors import DamagedRecord
from journal.events import Purged
from journal.record import Record
from journal.tsid import format_tsid, memory_ref
from projections import purges

MEMORIES_TOLD = 100


class One(NamedTuple):
    """The PURGE records of one command, which follow each other."""

    records: list[Record]

    @property
    def events(self) -> list[Purged]:
        return [record.event for record in self.records if isinstance(record.event, Purged)]


def purge_list(reading: Reading, params: Any) -> PurgesResult:
    """Raises Refused: `not_found` for a receipt that is none of ours."""
    if params.receipt is not UNSET:
        return _in_full(reading, params)
    cursors = reading.cursors(repr(("purges", reading.tenant_names)))
    found = sorted(_seqs(reading), reverse=True)
    place = cursors.decode(params.cursor, found[0] if found else 0)
    found = [seq for seq in found if seq <= place.head]
    left = [seq for seq in found if not place.last or seq < place.last]
    page = left[: params.limit]
    cursor = cursors.encode(page[-1], place.head) if len(left) > len(page) else None
    return PurgesResult(
        purges=[_told(reading, _one(reading, seq)) for seq in page], next_cursor=cursor, total=len(found)
    )


def _in_full(reading: Reading, params: Any) -> PurgesResult:
    one = _find(reading, params.receipt.epoch, params.receipt.seq)
    seq = one.records[0].seq
    receipt = _told(reading, one)
    cursors = reading.cursors(repr(("receipt", reading.tenant_names, seq)))
    place = cursors.decode(params.cursor, seq)
    receipt.results = list(islice(_outcomes(one, receipt.tenant), place.last, place.last + params.limit))
    reached = place.last + len(receipt.results)
    cursor = cursors.encode(reached, seq) if reached < receipt.count else None
    return PurgesResult(purges=[receipt], next_cursor=cursor, total=1)


def _find(reading: Reading, epoch: int, seq: int) -> One:
    """The purge of that address; after a restore also the one by which it was applied again. Raises Refused."""
    seqs = list(_seqs(reading))
    if seq in seqs and epoch == reading.store.epoch_of_purge(seq):
        return _one(reading, seq)
    for other in seqs if epoch < reading.store.epoch else ():
        reading.spend()
        if _did_again(reading.record(other).event, reading.store.store_id, (epoch, seq)):
            return _one(reading, other)
    raise Refused(Reason.NOT_FOUND, "no such receipt", parameter="receipt")


def _did_again(event: object, store_id: bytes, address: tuple[int, int]) -> bool:
    if not isinstance(event, Purged) or event.directive is None or event.directive[0] != store_id:
        return False
    return address in (event.directive[1:], *event.earlier)


def _seqs(reading: Reading) -> Iterator[int]:
    for tenant in reading.tenants:
        reading.spend()
        yield from purges.of_tenant(reading.state, tenant)


def _one(reading: Reading, seq: int) -> One:
    """The purge that begins with record `seq`. Raises DamagedRecord."""
    first = reading.record(seq)
    if not isinstance(first.event, Purged):
        raise DamagedRecord(seq, "event")
    found = [first]
    head = reading.snapshot.watermark_seq()
    while seq < head:
        seq += 1
        following = reading.record_of_any(seq)
        same = following.cause.first_seq == first.seq and following.tenant == first.tenant
        if not same or not isinstance(following.event, Purged):
            break
        found.append(following)
    return One(found)


def _told(reading: Reading, one: One) -> Receipt:
    first, event = one.records[0], one.events[0]
    refs = [memory_ref(target.kind, target.id) for each in one.events for target in each.targets[:MEMORIES_TOLD]]
    numbers = [number for each in one.events for number in each.sessions]
    rows = [row for row in (reading.session(number) for number in numbers) if row is not None]
    blocked = any(_keeps_out(each) for each in one.events)
    uid, role, via = event.first_actor or (first.actor.uid, first.actor.role, first.actor.via)
    return Receipt(
        receipt=Address(epoch=reading.store.epoch_of_purge(first.seq), seq=first.seq),
        at=format_ms(event.first_at or first.at_ms), tenant=_tenant(reading, first.tenant),
        actor=Actor(uid=uid, role=CallerRole(role).wire, via=Via(via).wire),
        reason=PurgeReason(event.reason).wire, cascade=Cascade(event.cascade).wire, totals=totals(one.events),
        count=sum(len(each.targets) for each in one.events), memories=refs[:MEMORIES_TOLD],
        sessions=[f"session:{format_tsid(row.id)}" for row in rows], fingerprint_retained=blocked,
        file_system=event.file_system, applied_again=event.directive is not None,
        disclosure=disclosure(event.file_system, blocked),
    )  # fmt: skip


def _keeps_out(event: Purged) -> bool:
    return event.fingerprint_key is not None or any(target.is_fingerprinted for target in event.targets)


def _outcomes(one: One, tenant: str) -> Iterator[PurgeOutcome]:
    for record in one.records:
        event = record.event
        assert isinstance(event, Purged)
        for target in event.targets:
            yield outcome(target, tenant, event.first_at or record.at_ms, event)


def _tenant(reading: Reading, number: int) -> str:
    return reading.names.tenants[number].name

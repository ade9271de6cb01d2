"""A purge as it is told: live, in a dry run and on a receipt, from the same event, so that they say the same.

Of a memory that was purged before, the record of that purge is read again, and what another purge has taken since is
left out. An answer is a line: `fitting` ends before its results would outgrow one, so that nothing is done whose answer
can't be given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from daemon import limits
from daemon.cascading import RecordOf
from daemon.erasure_words import RETAINED_HEADER_FIELDS, RETAINED_JOURNAL_FIELDS, UNREACHABLE_COPIES, disclosure
from daemon.wire.erasure_results import PurgeOutcome, PurgeTotals
from daemon.wire.results import Address
from daemon.wire.times import format_ms
from journal.codes import Mark, Part
from journal.errors import DamagedRecord
from journal.events import Purged, PurgeTarget, Ref, SealedPart
from journal.record import Record
from journal.tsid import memory_ref
from projections import tables
from projections.rows import MemoryRow
from projections.state import KEY64, KEY64_64, State

RESULTS_TOLD = limits.DOWNSTREAM_TOLD
RESULTS_BYTES = limits.LINE_BYTES - (1 << 20)
"""Of an answer; what else stands in it is short."""
_ENCODE = msgspec.json.Encoder().encode

EpochOf = Callable[[int], int]
"""The epoch that a record was written in."""


def outcome(target: PurgeTarget, tenant: str, at_ms: int | None, event: Purged) -> PurgeOutcome:
    """What a purge did to one memory; `at_ms` None: would do."""
    blocked = target.is_fingerprinted
    return PurgeOutcome(
        memory=memory_ref(target.kind, target.id), tenant=tenant, found=True,
        purged_at=None if at_ms is None else format_ms(at_ms), keys_shredded=target.keys_shredded,
        payload_bytes=target.payload_bytes, text_bytes=target.text_bytes,
        text_retained_shared=target.text_retained_shared, text_shared_with=target.text_shared_with,
        text_destroyed=target.text_bytes > 0 and not target.text_retained_shared,
        has_local_retention=target.text_retained_shared > 0, hebbian_edges_removed=target.hebbian_edges_removed,
        temporal_unlinked=target.temporal_unlinked, entity_links_removed=target.entity_links_removed,
        hyperedges_removed=target.hyperedges_removed, quoting_purged=_refs(target.quoting_purged),
        derived_surviving=_refs(target.derived_surviving), sources_surviving=_refs(target.sources_surviving),
        versions_surviving=_refs(target.versions_surviving), retained_header_fields=list(RETAINED_HEADER_FIELDS),
        retained_journal_fields=list(RETAINED_JOURNAL_FIELDS), fingerprint_retained=blocked,
        unreachable_copies=list(UNREACHABLE_COPIES), disclosure=disclosure(event.file_system, blocked),
        quoting_purged_count=_count(target.quoting_purged_count, target.quoting_purged),
        derived_surviving_count=_count(target.derived_surviving_count, target.derived_surviving),
        sources_surviving_count=_count(target.sources_surviving_count, target.sources_surviving),
        versions_surviving_count=_count(target.versions_surviving_count, target.versions_surviving),
    )  # fmt: skip


def nothing_done(
    ref: Ref, tenant: str, file_system: str | None, *, found: bool = False, purged_at_ms: int | None = None,
    damaged: bool = False,
) -> PurgeOutcome:  # fmt: skip
    """Of a memory that is not there, or that can't be read (`damaged`, `found`): what stays and what can't be reached
    is told all the same."""
    return PurgeOutcome(
        memory=memory_ref(*ref), tenant=tenant, found=found,
        purged_at=None if purged_at_ms is None else format_ms(purged_at_ms),
        keys_shredded=0, payload_bytes=0, text_bytes=0, text_retained_shared=0, text_shared_with=0,
        text_destroyed=False, has_local_retention=False, hebbian_edges_removed=0, temporal_unlinked=False,
        entity_links_removed=0, hyperedges_removed=0, quoting_purged=[], derived_surviving=[], sources_surviving=[],
        versions_surviving=[], retained_header_fields=list(RETAINED_HEADER_FIELDS) if found else [],
        retained_journal_fields=list(RETAINED_JOURNAL_FIELDS) if found else [], fingerprint_retained=False,
        unreachable_copies=list(UNREACHABLE_COPIES), disclosure=disclosure(file_system, False), damaged=damaged,
    )  # fmt: skip


class Telling(NamedTuple):
    """Tells the memories of one tenant that a purge was asked of. `find` is its row, None when it isn't the tenant's;
    `unreadable` are left as they are; `is_gone` and `survives`: whether a slot's key is destroyed, and whether a
    memory is there, when this purge is done."""

    state: State
    record: RecordOf
    find: Callable[[int], MemoryRow | None]
    tenant: str
    file_system: str | None
    epoch_of: EpochOf
    unreadable: dict[int, DamagedRecord]
    is_gone: Callable[[int], bool]
    survives: Callable[[int], bool]

    def results(self, asked: Sequence[Ref], outcomes: dict[int, PurgeOutcome]) -> tuple[list[PurgeOutcome], bool]:
        """Those that were asked for, in their order; then what went with them, and what can't be read; and whether
        there are more than an answer tells. `outcomes` are what was done, by id."""
        return fitting(self._results(asked, outcomes), RESULTS_TOLD)

    def _results(self, asked: Sequence[Ref], outcomes: dict[int, PurgeOutcome]) -> Iterator[PurgeOutcome]:
        left = dict(outcomes)
        unreadable = dict(self.unreadable)
        known: dict[int, Record] = {}
        for kind, tsid in asked:
            row = self.find(tsid)
            if row is None or row.kind != kind:
                yield nothing_done((kind, tsid), self.tenant, self.file_system)
                continue
            done = left.pop(tsid, None)
            if done is not None:
                yield done
            elif row.has(Mark.PURGED):
                yield self._purged_before((kind, tsid), row, known)
            else:
                unreadable.pop(tsid, None)
                yield nothing_done((kind, tsid), self.tenant, self.file_system, found=True, damaged=True)
        yield from left.values()
        for tsid in unreadable:
            row = self.find(tsid)
            if row is not None:
                yield nothing_done((row.kind, tsid), self.tenant, self.file_system, found=True, damaged=True)

    def before(self, asked: Sequence[Ref]) -> int:
        """How many of those that were asked for were purged earlier."""
        rows = ((kind, self.find(tsid)) for kind, tsid in asked)
        return sum(row is not None and row.kind == kind and row.has(Mark.PURGED) for kind, row in rows)

    def _purged_before(self, ref: Ref, row: MemoryRow, known: dict[int, Record]) -> PurgeOutcome:
        """What the purge said that did it."""
        touching = self.state.entries(tables.TOUCHES, KEY64.pack(ref[1]))
        for seq in reversed([KEY64_64.unpack(key)[1] for key, _ in touching]):
            record = known.get(seq) or self.record(seq)
            if record is None or not isinstance(record.event, Purged):
                continue
            known[seq] = record
            target = next((each for each in record.event.targets if each.id == ref[1]), None)
            if target is not None:
                at_ms = record.event.first_at or record.at_ms
                told = outcome(target, self.tenant, at_ms, record.event)
                first = record.cause.first_seq
                told.receipt = Address(epoch=self.epoch_of(first), seq=first)
                return self._as_it_is_now(told, target, row)
        return nothing_done(ref, self.tenant, self.file_system, found=True, purged_at_ms=row.dead_at)

    def _as_it_is_now(self, told: PurgeOutcome, target: PurgeTarget, row: MemoryRow) -> PurgeOutcome:
        """Without what the last purge left, and another has taken since."""
        for name in ("derived_surviving", "sources_surviving", "versions_surviving"):
            refs: tuple[Ref, ...] = getattr(target, name)
            left = [ref for ref in refs if self.survives(ref[1])]
            setattr(told, name, _refs(left))
            setattr(told, f"{name}_count", getattr(told, f"{name}_count") - len(refs) + len(left))
        record = self.record(row.seq) if target.text_retained_shared else None
        parts: tuple[SealedPart, ...] = () if record is None else getattr(record.event, "parts", ())
        if any(part.part == Part.TEXT and self.is_gone(part.slot) for part in parts):
            told.text_retained_shared = told.text_shared_with = 0
            told.has_local_retention, told.text_destroyed = False, True
        return told


def fitting(results: Iterable[PurgeOutcome], most: int) -> tuple[list[PurgeOutcome], bool]:
    """`(as many of them as an answer has room for, whether there are more)`: `most` at most, and the first in any
    case."""
    told: list[PurgeOutcome] = []
    size_bytes = 0
    for each in results:
        size_bytes += len(_ENCODE(each)) + 1
        if len(told) == most or (told and size_bytes > RESULTS_BYTES):
            return told, True
        told.append(each)
    return told, False


def totals(purged: Iterable[Purged], before_now: int = 0) -> PurgeTotals:
    """Over the records of one purge: a key counts once, a text that stays counts with each memory that had it.
    `before_now`: how many more of those that were asked about are there, purged already."""
    memories = keys = payload = text = 0
    retained = 0
    for event in purged:
        memories += len(event.targets)
        keys += len(event.parts)
        payload += sum(part.length for part in event.parts)
        text += sum(part.length for part in event.parts if part.part == Part.TEXT)
        retained += sum(target.text_retained_shared for target in event.targets)
    return PurgeTotals(
        memories=memories, found=memories + before_now, keys_shredded=keys, payload_bytes=payload,
        text_bytes=text, text_retained_shared=retained,
    )  # fmt: skip


def _count(counted: int, told: Sequence[Ref]) -> int:
    """Records from before there were counts told all."""
    return max(counted, len(told))


def _refs(refs: Sequence[Ref]) -> list[str]:
    return [memory_ref(*ref) for ref in refs]

"""A purge as it is told: live, in a dry run and on a receipt, from the same event, so that they say the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from daemon.erasure_words import RETAINED_HEADER_FIELDS, RETAINED_JOURNAL_FIELDS, UNREACHABLE_COPIES, disclosure
from daemon.wire.erasure_results import PurgeOutcome, PurgeTotals
from daemon.wire.times import format_ms
from journal.codes import Part
from journal.events import Purged, PurgeTarget, Ref
from journal.tsid import memory_ref


def outcome(target: PurgeTarget, tenant: str, at_ms: int | None, event: Purged) -> PurgeOutcome:
    """What a purge did to one memory; `at_ms` None: would do."""
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
        retained_journal_fields=list(RETAINED_JOURNAL_FIELDS),
        fingerprint_retained=event.fingerprint_key is not None, unreachable_copies=list(UNREACHABLE_COPIES),
        disclosure=disclosure(event.file_system, event.fingerprint_key is not None),
    )  # fmt: skip


def nothing_done(ref: Ref, tenant: str, purged_at_ms: int | None, file_system: str | None) -> PurgeOutcome:
    """Of a memory that is not there (`purged_at_ms` None), or was purged before: what stays and what can't be reached
    is told all the same."""
    found = purged_at_ms is not None
    return PurgeOutcome(
        memory=memory_ref(*ref), tenant=tenant, found=found,
        purged_at=None if purged_at_ms is None else format_ms(purged_at_ms),
        keys_shredded=0, payload_bytes=0, text_bytes=0, text_retained_shared=0, text_shared_with=0,
        text_destroyed=False, has_local_retention=False, hebbian_edges_removed=0, temporal_unlinked=False,
        entity_links_removed=0, hyperedges_removed=0, quoting_purged=[], derived_surviving=[], sources_surviving=[],
        versions_surviving=[], retained_header_fields=list(RETAINED_HEADER_FIELDS) if found else [],
        retained_journal_fields=list(RETAINED_JOURNAL_FIELDS) if found else [], fingerprint_retained=False,
        unreachable_copies=list(UNREACHABLE_COPIES), disclosure=disclosure(file_system, False),
    )  # fmt: skip


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


def _refs(refs: Sequence[Ref]) -> list[str]:
    return [memory_ref(*ref) for ref in refs]

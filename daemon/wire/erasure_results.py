"""What the verbs that erase, hold and tidy answer (contract ERASURE)."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from daemon.wire.results import Actor, Address, Result, WriteResult


class PurgeOutcome(Result, kw_only=True):
    """What a purge did to one memory, and what it could not reach. Of an unknown id `found` is false. Of a memory that
    was purged before it says what that purge did, and `receipt` is the one of that. `damaged`: nothing was done to it,
    since not all of it can be read. The lists are bounded, what is counted is complete."""

    memory: str
    tenant: str
    found: bool
    purged_at: str | None
    keys_shredded: int
    payload_bytes: int
    text_bytes: int
    text_retained_shared: int
    text_shared_with: int
    text_destroyed: bool
    has_local_retention: bool
    hebbian_edges_removed: int
    temporal_unlinked: bool
    entity_links_removed: int
    hyperedges_removed: int
    quoting_purged: list[str]
    derived_surviving: list[str]
    sources_surviving: list[str]
    versions_surviving: list[str]
    retained_header_fields: list[str]
    retained_journal_fields: list[str]
    fingerprint_retained: bool
    unreachable_copies: list[str]
    disclosure: str
    quoting_purged_count: int = 0
    derived_surviving_count: int = 0
    sources_surviving_count: int = 0
    versions_surviving_count: int = 0
    receipt: Address | None = None
    damaged: bool = False


class PurgeTotals(Result, kw_only=True):
    """Sums over what this call purged, which are `memories`."""

    memories: int
    found: int
    keys_shredded: int
    payload_bytes: int
    text_bytes: int
    text_retained_shared: int


class PurgeResult(WriteResult, kw_only=True):
    """`count` memories go by this call, and `sessions` of which nothing is left; `receipt` is null when nothing was
    purged. Of a dry run, or the first call by a
    selection, `results` tell what would happen, and the `token` of a selection does it. `results_cut`: there are more
    results than an answer holds; the receipt has them all."""

    results: list[PurgeOutcome]
    totals: PurgeTotals
    receipt: Address | None
    count: int
    dry_run: bool
    sessions: list[str]
    results_cut: bool = False
    token: str | UnsetType = UNSET
    state: str | UnsetType = UNSET


class Receipt(Result, kw_only=True):
    """One purge. `count` memories went, of which `memories` tells the first. `results` stand in the answer, page by
    page, when one receipt is asked for. `applied_again`: a restore did what a purge had done before."""

    receipt: Address
    at: str
    tenant: str
    actor: Actor
    reason: str
    cascade: str
    totals: PurgeTotals
    count: int
    memories: list[str]
    sessions: list[str]
    fingerprint_retained: bool
    file_system: str | None
    applied_again: bool
    disclosure: str
    results: list[PurgeOutcome] | UnsetType = UNSET


class PurgesResult(Result, kw_only=True):
    """Newest first. With `receipt` it is one, and the page is one of its results."""

    purges: list[Receipt]
    next_cursor: str | None
    total: int


class HoldResult(WriteResult, kw_only=True):
    """`changed`: those on which the mark was put, or from which it was taken. `noted`: held already, and now with this
    note. `not_found`: ids that no memory has, or one that is purged."""

    held: bool
    count: int
    changed: list[str]
    noted: list[str]
    not_found: list[str]


class HeldRow(Result, kw_only=True):
    memory: str
    since: str
    note: str | None


class HoldsResult(Result, kw_only=True):
    holds: list[HeldRow]
    next_cursor: str | None
    total: int


class CompactionResult(Result, kw_only=True):
    """Of a partition that was not compacted, only the census, and the `reason`: nothing was moved, or what could not be
    read ended it."""

    partition: str
    tier: str
    before_count: int
    after_count: int
    tombstones_removed: int
    bytes_reclaimed: int
    file_bytes_reclaimed: int
    reusable_bytes: int
    ciphertexts_removed: int
    duration_ms: int
    compacted: bool
    reason: str | None


class VacuumResult(WriteResult, kw_only=True):
    results: list[CompactionResult]


class PartitionListed(Result, kw_only=True):
    """`ratio` is dead over rows, 0 of none. `since`: when it came into this state."""

    partition: str
    number: int
    tier: str
    day: str | None
    state: str
    rows: int
    dead: int
    ratio: float
    bytes: int
    since: str


class PartitionsResult(Result, kw_only=True):
    results: list[PartitionListed]
    next_cursor: str | None
    total: int


class PlainRemnant(Result, kw_only=True):
    """Plaintext found in a file of the state directory."""

    file: str
    offset: int


class ReadableRemnant(Result, kw_only=True):
    """A ciphertext that a key still opens, with a text that matches. `memory` is null when no memory owns it. `type` is
    that of the record, null when that can't be read."""

    seq: int
    part: str
    memory: str | None
    status: str | None
    type: str | None


class ResidueResult(Result, kw_only=True):
    bytes: list[PlainRemnant]
    readable: list[ReadableRemnant]
    files: int
    ciphertexts_tried: int
    unopenable: int
    cut: bool = False

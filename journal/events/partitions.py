"""Events of partitions."""

from __future__ import annotations

from journal.events.root import Event, Ref


class PartitionOpened(Event, frozen=True, tag=32):
    """`day` is the local date as days since 1970-01-01 in `zone`, None outside the episodic tier.
    `part` counts the partitions of one day from 0: a name is `<day>` or `<day>.<part>`."""

    number: int
    tier: int
    day: int | None = None
    part: int = 0
    zone: str | None = None


class PartitionChanged(Event, frozen=True, tag=33):
    """`threshold`: the ratio of dead rows that it was held against, where that decided."""

    number: int
    old: int
    new: int
    rows: int
    dead: int
    threshold: float | None = None


class Vacuumed(Event, frozen=True, tag=34):
    """Live rows were relocated densely, in row order; dead rows left; ciphertexts of shredded keys went.

    A large partition takes several of these: one looks at the rows from `first` up to `until`, and those of them that
    live lie from `to` on then. Counts are those of these rows; `last` ends the compaction. `removed` are the sealed
    keys (owner seq, part) that were deleted, `removed_bytes` what lay there. `late` are memories whose rows had gone
    before they were purged, and whose ciphertexts are collected with this. `counted`: of which partition (number,
    bytes) what was removed was counted; a name is counted with none. `threshold`: the ratio that it was held against.
    """

    partition: int
    before_count: int
    after_count: int
    tombstones_removed: int
    removed_bytes: int
    forced: bool
    removed: tuple[tuple[int, int], ...] = ()
    first: int = 0
    until: int = 0
    to: int = 0
    last: bool = True
    late: tuple[Ref, ...] = ()
    counted: tuple[tuple[int, int], ...] = ()
    threshold: float | None = None

"""Events of partitions."""

from __future__ import annotations

from journal.events.root import Event


class PartitionOpened(Event, frozen=True, tag=32):
    """`day` is the local date as days since 1970-01-01 in `zone`, None outside the episodic tier.
    `part` counts the partitions of one day from 0: a name is `<day>` or `<day>.<part>`."""

    number: int
    tier: int
    day: int | None = None
    part: int = 0
    zone: str | None = None


class PartitionChanged(Event, frozen=True, tag=33):
    number: int
    old: int
    new: int
    rows: int
    dead: int


class Vacuumed(Event, frozen=True, tag=34):
    """Live rows were relocated densely, in row order; dead rows left; ciphertexts of shredded keys went.

    `removed` are the sealed keys (owner seq, part) that were deleted.
    """

    partition: int
    before_count: int
    after_count: int
    tombstones_removed: int
    bytes_reclaimed: int
    forced: bool
    removed: tuple[tuple[int, int], ...] = ()

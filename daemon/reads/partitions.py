"""Which partitions there are, and in what state (PROTOCOL §6)."""

from __future__ import annotations

from typing import Any

from daemon.prepare import UNSET
from daemon.reads.reading import Reading
from daemon.wire import erasure_results as e
from daemon.wire.times import format_ms
from journal.codes import PartitionState, Tier
from projections import partitions
from projections.partitions import PartitionRow


def partition_list(reading: Reading, params: Any) -> e.PartitionsResult:
    """The partitions of our tenants by number. A cursor names the last one given and the newest there was. Raises
    DamagedRow."""
    tier = None if params.tier is UNSET else params.tier
    cursors = reading.cursors(repr(("partitions", reading.tenant_names, tier)))
    numbers = sorted(n for tenant in reading.tenants for n in reading.names.partitions.get(tenant, ()))
    place = cursors.decode(params.cursor, numbers[-1] if numbers else 0)
    found = [
        (number, row)
        for number in numbers
        if number <= place.head
        and (row := _row(reading, number)) is not None
        and (tier is None or Tier(row.tier).wire == tier)
    ]
    left = [each for each in found if each[0] > place.last]
    page = left[: params.limit]
    cursor = cursors.encode(page[-1][0], place.head) if len(left) > len(page) else None
    return e.PartitionsResult(
        results=[_told(number, row) for number, row in page], next_cursor=cursor, total=len(found)
    )


def _row(reading: Reading, number: int) -> PartitionRow | None:
    """None of one that was opened behind the question's snapshot."""
    try:
        return partitions.load(reading.state, number)
    except LookupError:
        return None


def _told(number: int, row: PartitionRow) -> e.PartitionListed:
    name = partitions.name_of(row)
    return e.PartitionListed(
        partition=name, number=number, tier=Tier(row.tier).wire, day=name[:10] if row.day is not None else None,
        state=PartitionState(row.state).wire, rows=row.count, dead=row.dead, ratio=row.ratio, bytes=row.bytes,
        since=format_ms(row.since_ms),
    )  # fmt: skip

"""Which records purged: `purges` (tenant u32, seq u64) → CRC-32C.

Part of the projection `chain`. A large purge is several PURGE records of one command, which follow each other; the
first of them stands here; so it is with one that was applied again after a restore.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from journal import events
from journal.record import Record
from projections import rows, tables
from projections.state import KEY32, KEY32_64, State


def purged(state: State, record: Record, _event: events.Purged) -> None:
    if record.seq != record.cause.first_seq:
        return
    key = KEY32_64.pack(record.tenant, record.seq)
    state.put(tables.PURGES, key, rows.seal_row(key, b""))


def of_tenant(state: State, tenant: int) -> Iterator[int]:
    """The first record of each purge of a tenant, in order. Raises DamagedRow."""
    for key, _ in state.entries(tables.PURGES, KEY32.pack(tenant)):
        yield KEY32_64.unpack(key)[1]


FOLDS: dict[type, Callable[..., None]] = {events.Purged: purged}

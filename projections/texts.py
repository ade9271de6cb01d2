"""Who shares a text part: `texts` (owner seq u64, TSID u64), for parts that more than their owner uses."""

from __future__ import annotations

from collections.abc import Callable

from crc32c import crc32c

from journal import events
from journal.codes import Part
from journal.record import Record
from projections import tables
from projections.state import KEY64_64, State


def created(state: State, record: Record, event: events.MemoryCreated) -> None:
    parts = event.parts
    if not parts or parts[0].owner_seq == record.seq or parts[0].part != Part.TEXT:
        return
    key = KEY64_64.pack(parts[0].owner_seq, event.id)
    state.put(tables.TEXTS, key, crc32c(key).to_bytes(4, "little"))


FOLDS: dict[type, Callable[..., None]] = {events.MemoryCreated: created}

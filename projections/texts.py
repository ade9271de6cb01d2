"""Who shares a text part, and who has the words of a turn.

`texts` (owner seq u64, TSID u64) → CRC, for parts that more than their owner uses. `quotes` (turn TSID u64, note TSID
u64) → CRC: a note that quotes a turn is a copy of it, and goes with it.
Invariant: `quotes` has an entry for each turn in the `quoted_from` of each memory.
"""

from __future__ import annotations

from collections.abc import Callable

from crc32c import crc32c

from journal import events
from journal.codes import Part
from journal.record import Record
from projections import tables
from projections.state import KEY64, KEY64_64, State


def created(state: State, record: Record, event: events.MemoryCreated) -> None:
    for turn in event.quoted_from:
        _put(state, tables.QUOTES, turn, event.id)
    parts = event.parts
    if not parts or parts[0].owner_seq == record.seq or parts[0].part != Part.TEXT:
        return
    _put(state, tables.TEXTS, parts[0].owner_seq, event.id)


def _put(state: State, database: str, first: int, tsid: int) -> None:
    key = KEY64_64.pack(first, tsid)
    state.put(database, key, crc32c(key).to_bytes(4, "little"))


def sharing(state: State, owner_seq: int) -> list[int]:
    """The memories beside its owner that use the text of record `owner_seq`. Raises DamagedRow."""
    return [KEY64_64.unpack(key)[1] for key, _ in state.entries(tables.TEXTS, KEY64.pack(owner_seq))]


def quoting(state: State, turn: int) -> list[int]:
    """The memories that have the words of a turn. Raises DamagedRow."""
    return [KEY64_64.unpack(key)[1] for key, _ in state.entries(tables.QUOTES, KEY64.pack(turn))]


FOLDS: dict[type, Callable[..., None]] = {events.MemoryCreated: created}

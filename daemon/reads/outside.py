"""What lies outside the store that a memory was made from, or that supports it (contract §4.5).

Its kind is told to everybody. Its id is content: it is told to whom may read that, as long as it is there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from daemon.reads.reading import Reading, is_purged
from journal import events
from journal.codes import ExternalKind, ExternalUse
from journal.errors import DamagedRecord, PartUnreadable
from journal.events import SealedPart
from projections import provenance
from projections.rows import Glance, MemoryRow

DERIVED_FROM, EVIDENCE, SOURCE = int(ExternalUse.DERIVED_FROM), int(ExternalUse.EVIDENCE), int(ExternalUse.SOURCE)


class Outside(NamedTuple):
    """One thing outside. `id` None: not to be told, or gone."""

    kind: ExternalKind
    id: str | None
    resolvable: bool

    @property
    def ref(self) -> str:
        return self.kind.wire if self.id is None else f"{self.kind.wire}:{self.id}"

    @property
    def state(self) -> str:
        return "live" if self.resolvable else "unavailable"


def ids_of(reading: Reading, row: MemoryRow | Glance, seq: int, parts: tuple[SealedPart, ...]) -> tuple[str, ...]:
    """The ids that record `seq` of a memory holds, none of those that are not to be told. Damage is a finding."""
    if not reading.content or is_purged(row):
        return ()
    try:
        return reading.particulars(parts).externals
    except PartUnreadable as error:
        if error.state == "damaged":
            reading.note_damage(seq, "what it names outside the store")
    except DamagedRecord:
        reading.note_damage(seq, "what it names outside the store")
    return ()


def named_at_first(
    reading: Reading, tsid: int, event: events.MemoryCreated, ids: tuple[str, ...], use: int
) -> list[Outside]:
    """What the record that created a memory names for that use, each once."""
    if not event.externals:
        return []
    return _each_once(_named(reading, tsid, 0, event.externals, ids, use))


def evidence_of(
    reading: Reading, tsid: int, row: MemoryRow, event: events.MemoryCreated, ids: tuple[str, ...]
) -> list[Outside]:
    """What supports a memory: named when it was written, and brought since, each once."""
    found = list(_named(reading, tsid, 0, event.externals, ids, EVIDENCE))
    for seq in reading.external_support(tsid, row):
        record = reading.noted_record(seq)
        if record is None:
            continue
        later: Any = record.event
        found += _named(reading, tsid, seq, later.externals, ids_of(reading, row, seq, later.parts), EVIDENCE)
    return _each_once(found)


def _named(
    reading: Reading, tsid: int, owner_seq: int, externals: tuple[events.External, ...], ids: tuple[str, ...], use: int
) -> Iterable[Outside]:
    for index, external in enumerate(externals):
        if external.use == use:
            known = provenance.is_resolvable(reading.state, tsid, index, external.resolvable, owner_seq)
            yield Outside(ExternalKind(external.kind), ids[index] if index < len(ids) else None, known)


def _each_once(found: Iterable[Outside]) -> list[Outside]:
    """By what is told of them: who isn't told the ids sees each kind once."""
    return list({each.ref: each for each in reversed(list(found))}.values())[::-1]

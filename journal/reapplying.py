"""Directives held against a journal that was restored: which purges they tell of, and what of these it has.

A purge is told by a line for each of its records, and by more once it was done again in another line of the store;
its origin, time and tenant say which belong together. Two forks may have given one origin to two purges, so what is
done already is known by memories and chains. A fork reuses sequence numbers, so nothing is believed by number alone: a
part is meant only where this journal's record of that number has a part with that digest, and a memory only when this
journal made it, and the record that made it is not contradicted by the parts that the lines name of it.

What is to be destroyed the lines don't decide: they were made from another state of the journal. Whoever carries a
purge out again (`Again`, the daemon's own way) asks the memories that are meant here, as they are now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import lmdb

from journal.codes import Part
from journal.destroying import destroyed_slots
from journal.events import MemoryCreated, Purged, Ref, SealedPart, SessionOpened
from journal.log import Log
from journal.purges import DirectedPart, Directive
from journal.record import Record
from journal.sealing import Sealer
from journal.vault import Vault

Origin = tuple[int, int]  # (epoch, seq) of the first record of a purge, where it was done first


class Commanded(NamedTuple):
    """One purge, by all the lines that tell of it, the first of them first. Never empty."""

    origin: Origin
    lines: tuple[Directive, ...]

    @property
    def memories(self) -> tuple[Ref, ...]:
        return tuple(dict.fromkeys(ref for line in self.lines for ref in line.memories))

    @property
    def parts(self) -> tuple[DirectedPart, ...]:
        return tuple(dict.fromkeys(part for line in self.lines for part in line.parts))

    @property
    def fingerprints(self) -> dict[bytes, tuple[bytes, ...]]:
        """Of the texts that it keeps out, by what their key is made from."""
        found: dict[bytes, dict[bytes, None]] = {}
        for line in self.lines:
            if line.fingerprint_key is not None:
                each = found.setdefault(bytes.fromhex(line.fingerprint_key), {})
                each.update(dict.fromkeys(map(bytes.fromhex, line.fingerprints)))
        return {key: tuple(each) for key, each in found.items()}

    @property
    def fingerprinted(self) -> frozenset[int]:
        """The memories that said a text that it keeps out, by their ids."""
        return frozenset(tsid for line in self.lines for tsid in line.fingerprinted)

    @property
    def earlier(self) -> tuple[Origin, ...]:
        """Under which other addresses restores told of it."""
        found: dict[Origin, None] = {}
        for line in self.lines:
            found.update(dict.fromkeys((*line.earlier, (line.epoch, line.first))))
        return tuple(address for address in found if address != self.origin)


class Reapplied(NamedTuple):
    """What became of the purges that a list tells of: done again, recorded here before, nothing of it is in this
    journal; lines of another store. `held` are memories that were under hold here, and were purged all the same."""

    applied: int = 0
    already: int = 0
    not_found: int = 0
    foreign: int = 0
    held: tuple[Ref, ...] = ()


class Unfinished(NamedTuple):
    """A restored journal and its vault, continued by a RESTORED record, and no store yet. `scratch` is a directory for
    whatever is needed meanwhile; it goes."""

    log: Log
    vault: Vault
    sealer: Sealer
    root: Path
    scratch: Path
    now_ms: int


Step = Callable[[str, int, int], None]
"""Called with (phase, done, of); what it raises ends the restore."""
Again = Callable[[Unfinished, Sequence[Commanded], Step], Reapplied]
"""Appends the records of purges that are done again, and says what became of them; the keys are destroyed by whoever
calls it."""


def commanded(directives: Iterable[Directive], store_id: bytes) -> tuple[list[Commanded], int]:
    """`(the purges of this store in the order in which they were done, how many lines are of others)`."""
    store = store_id.hex()
    given = dict.fromkeys(directives)
    own = sorted((each for each in given if each.store == store), key=lambda each: (each.epoch, each.seq))
    lines: dict[tuple[Origin, int, str], list[Directive]] = {}
    for each in own:
        origin = (each.epoch, each.first) if each.again is None else each.again[1:]
        lines.setdefault((origin, each.at, each.tenant), []).append(each)
    found = [Commanded(origin, tuple(told)) for (origin, _, _), told in sorted(lines.items(), key=lambda each: each[0])]
    return found, len(given) - len(own)


class Here:
    """What of a purge this journal has, and what it has purged itself. Within one transaction of the journal."""

    def __init__(self, log: Log, txn: lmdb.Transaction, record: Callable[[int], Record | None] | None = None) -> None:
        """`record`: how records are found that are not committed yet."""
        self._log, self._txn = log, txn
        self._record = record or (lambda seq: log.get(txn, seq))
        self._asked: tuple[Commanded, dict[int, list[DirectedPart]]] | None = None

    def is_recorded(self, purge: Commanded) -> bool:
        """Whether all that a purge names went by records of this journal. Raises DamagedRecord."""
        own = Commanded(purge.origin, tuple(line for line in purge.lines if self._is_own(line)))
        has_all = set(purge.memories) <= set(own.memories) and _all(purge.fingerprints) <= _all(own.fingerprints)
        return bool(own.lines) and has_all

    def _is_own(self, line: Directive) -> bool:
        return line.seq <= self._log.head().seq and self._log.chain_of(self._txn, line.seq).hex() == line.chain

    def part(self, directed: DirectedPart) -> SealedPart | None:
        """The part of this journal that a directive means, None when there is none. Raises DamagedRecord."""
        record = self._record(directed.owner_seq)
        parts: Iterable[SealedPart] = getattr(record.event, "parts", ()) if record is not None else ()
        return next((part for part in parts if _is_meant(part, directed)), None)

    def is_meant(self, ref: Ref, genesis_seq: int, purge: Commanded) -> bool:
        """Whether the memory that record `genesis_seq` made is the one that a purge names. Raises DamagedRecord."""
        record = self._record(genesis_seq)
        if record is None or not isinstance(record.event, MemoryCreated):
            return False
        if (record.event.kind, record.event.id) != ref:
            return False
        own = self._parts_of(purge).get(genesis_seq)
        return not own or any(self.part(part) is not None for part in own)

    def _parts_of(self, purge: Commanded) -> dict[int, list[DirectedPart]]:
        """Its parts by the record that owns them: put together once for a purge, however many memories it names."""
        if self._asked is None or self._asked[0] is not purge:
            found: dict[int, list[DirectedPart]] = {}
            for part in purge.parts:
                found.setdefault(part.owner_seq, []).append(part)
            self._asked = (purge, found)
        return self._asked[1]

    def sessions(self, purge: Commanded) -> list[int]:
        """The sessions whose keys the purge destroyed, by their numbers. Raises DamagedRecord."""
        found: dict[int, None] = {}
        for directed in purge.parts:
            if directed.part == Part.NAME and self.part(directed) is not None:
                record = self._record(directed.owner_seq)
                if record is not None and isinstance(record.event, SessionOpened):
                    found[record.event.number] = None
        return list(found)


class Recorded:
    """What the records of a journal say is done: slots whose keys go, and what keeps texts out, as it is recorded."""

    def __init__(self, destroying: Iterable[object]) -> None:
        self.slots: set[int] = set()
        self.fingerprints: set[bytes] = set()
        for event in destroying:
            self.take(event)

    def take(self, event: object) -> None:
        self.slots.update(destroyed_slots([event]))
        if isinstance(event, Purged):
            self.fingerprints.update(event.fingerprints)


def _all(fingerprints: dict[bytes, tuple[bytes, ...]]) -> set[bytes]:
    return {each for of_key in fingerprints.values() for each in of_key}


def _is_meant(part: SealedPart, directed: DirectedPart) -> bool:
    named = (part.owner_seq, part.part, part.digest.hex())
    return bool(part.slot) and named == (directed.owner_seq, directed.part, directed.digest)

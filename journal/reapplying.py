"""Purges carried out again in a journal that was restored: directives in, PURGE records out.

A fork reuses sequence numbers, so nothing is believed by number alone. A directive's part is destroyed only where this
journal's record of that number has a part with that digest; a memory is purged only when this journal made it, and the
record that made it is not contradicted by the parts that the directive names of it.

Invariants: what a PURGE of this journal did already is not recorded again. Every part that is destroyed stands in a
record of the memory's own tenant, whose `directive` says which purge it was; so a fold, an audit and a later restore
find nothing odd.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import msgspec

from journal.codes import Part
from journal.destroying import destroyed_parts
from journal.events import (
    EntityNamed,
    MemoryCreated,
    Ref,
    SealedPart,
    SessionOpened,
)
from journal.events.memories import Purged, PurgeTarget
from journal.events.proposals import ProposalMade
from journal.log import Log
from journal.purges import DirectedPart, Directive
from journal.record import Record

PartKey = tuple[int, int]  # (owner seq, part)


class Genesis(NamedTuple):
    """The record that made a memory."""

    seq: int
    tenant: int
    event: MemoryCreated


class Again(NamedTuple):
    """A PURGE to be recorded."""

    tenant: int
    event: Purged


class Reapplied(NamedTuple):
    """What becomes of the directives: records to be written, and how many were recorded here already or by another
    directive, name nothing that is in this journal, or are of another store.
    """

    again: tuple[Again, ...]
    applied: int
    already: int
    not_found: int
    foreign: int


class _Here:
    """What the journal holds of all that the directives name."""

    def __init__(self, log: Log, directives: Sequence[Directive], destroying: Iterable[object]) -> None:
        self._log = log
        self.destroyed: set[PartKey] = set()
        self.purged: set[int] = set()
        for event in destroying:
            self.take(event)
        self._genesis = _geneses(log, {tsid for each in directives for _kind, tsid in each.memories})
        self._owners: dict[int, Record | None] = {}

    def take(self, event: object) -> None:
        """From now on what it destroys counts as destroyed."""
        self.destroyed |= {(part.owner_seq, part.part) for part in destroyed_parts(event)}
        if isinstance(event, Purged):
            self.purged |= {target.id for target in event.targets}

    def owner(self, seq: int) -> Record | None:
        if seq not in self._owners:
            with self._log.env.read() as txn:
                self._owners[seq] = self._log.get(txn, seq)
        return self._owners[seq]

    def part(self, directed: DirectedPart) -> SealedPart | None:
        """The part of this journal that a directive means, None when there is none."""
        record = self.owner(directed.owner_seq)
        parts: Iterable[SealedPart] = getattr(record.event, "parts", ()) if record is not None else ()
        return next((part for part in parts if _is_meant(part, directed)), None)

    def memory(self, ref: Ref, directed: Collection[DirectedPart]) -> Genesis | None:
        """Who made a memory that a directive names, None when this journal did not."""
        genesis = self._genesis.get(ref[1])
        if genesis is None or genesis.event.kind != ref[0]:
            return None
        own = [part for part in directed if part.owner_seq == genesis.seq]
        return genesis if not own or any(self.part(part) is not None for part in own) else None


def reapply(log: Log, directives: Iterable[Directive], destroying: Iterable[object]) -> Reapplied:
    """What is to be recorded of `directives` in the journal. Raises DamagedRecord, lmdb.Error.

    `destroying`: the events in it that destroy keys.
    """
    given = dict.fromkeys(directives)
    own = sorted((each for each in given if each.store == log.store_id.hex()), key=lambda each: (each.epoch, each.seq))
    here = _Here(log, own, destroying)
    again: list[Again] = []
    applied = already = not_found = 0
    for each in own:
        made, known = _purges(here, each)
        again += made
        applied += bool(made)
        already += not made and known
        not_found += not made and not known
        for purge in made:
            here.take(purge.event)
    return Reapplied(tuple(again), applied, already, not_found, len(given) - len(own))


def _purges(here: _Here, directive: Directive) -> tuple[list[Again], bool]:
    """`(a PURGE for each tenant, whether anything that it names is in this journal)`."""
    parts: dict[int, list[SealedPart]] = {}
    targets: dict[int, list[Genesis]] = {}
    known = False
    for directed in directive.parts:
        part, owner = here.part(directed), here.owner(directed.owner_seq)
        if part is None or owner is None:
            continue
        known = True
        if (part.owner_seq, part.part) not in here.destroyed:
            parts.setdefault(owner.tenant, []).append(part)
    for ref in directive.memories:
        genesis = here.memory(ref, directive.parts)
        if genesis is None:
            continue
        known = True
        if genesis.event.id not in here.purged:
            targets.setdefault(genesis.tenant, []).append(genesis)
    tenants = sorted(parts.keys() | targets.keys())
    place = (bytes.fromhex(directive.store), directive.epoch, directive.seq)
    made = [
        Again(tenant, _blocking(_purged(here, targets.get(tenant, []), tuple(parts.get(tenant, ())), place), directive))
        for tenant in tenants
    ]
    return made, known


def _purged(
    here: _Here, geneses: list[Genesis], parts: tuple[SealedPart, ...], place: tuple[bytes, int, int]
) -> Purged:
    owners = [record.event for seq in dict.fromkeys(part.owner_seq for part in parts) if (record := here.owner(seq))]
    alone = len(geneses) == 1
    return Purged(
        targets=tuple(_target(each, parts, alone) for each in geneses),
        parts=parts,
        sessions=tuple(
            event.number for event in owners if isinstance(event, SessionOpened) and _named(event.parts, parts)
        ),
        proposals=tuple(event.id for event in owners if isinstance(event, ProposalMade)),
        entities=tuple(event.number for event in owners if isinstance(event, EntityNamed)),
        directive=place,
    )


def _blocking(event: Purged, directive: Directive) -> Purged:
    """With the fingerprints of the texts that it keeps from coming again."""
    if directive.fingerprint_key is None:
        return event
    blocked = tuple(bytes.fromhex(each) for each in directive.fingerprints)
    key = bytes.fromhex(directive.fingerprint_key)
    return msgspec.structs.replace(event, fingerprint_key=key, fingerprints=blocked)


def _named(own: tuple[SealedPart, ...], destroyed: tuple[SealedPart, ...]) -> bool:
    """Whether the name among an event's own parts goes: of a session, its key."""
    return any(part.part == Part.NAME and part in destroyed for part in own)


def _target(genesis: Genesis, parts: tuple[SealedPart, ...], alone: bool) -> PurgeTarget:
    """With the counts of what goes of it now: all parts, when it is the only one that goes."""
    own = [part for part in parts if alone or part.owner_seq == genesis.seq]
    return PurgeTarget(
        genesis.event.kind,
        genesis.event.id,
        keys_shredded=len(own),
        payload_bytes=sum(part.length for part in own),
        text_bytes=sum(part.length for part in own if part.part == Part.TEXT),
    )


def _is_meant(part: SealedPart, directed: DirectedPart) -> bool:
    named = (part.owner_seq, part.part, part.digest.hex())
    return bool(part.slot) and named == (directed.owner_seq, directed.part, directed.digest)


def _geneses(log: Log, wanted: set[int]) -> dict[int, Genesis]:
    """The records that made the memories `wanted`: the whole journal is read when there are any."""
    found: dict[int, Genesis] = {}
    for chunk in log.chunks(check=False) if wanted else ():
        for record in chunk:
            event = record.event
            if isinstance(event, MemoryCreated) and event.id in wanted:
                found[event.id] = Genesis(record.seq, record.tenant, event)
    return found

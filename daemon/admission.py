"""Admitting: one batch of prepared writes on its way into the journal.

For each write: decide against the projections and what the batch already did, hand out slots, seal, number,
fold. Nothing outside this object changes until `commit`. If a fold fails, the batch is built anew without
the write that broke it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import msgspec

from daemon.commands.building import Building
from daemon.commands.partitions import following
from daemon.view import View
from journal.codes import Part, PartitionState
from journal.events import MemoryCreated, Moved, Purged, SealedPart, Vacuumed
from journal.log import Log, MetaState, sealed_key
from journal.record import Actor, Cause, Head, Record, encode_body
from journal.sealing import Sealer
from journal.store import Store, purge_parts
from journal.vault import Vault
from projections import partitions
from projections.fold import apply
from projections.state import State
from projections.tag_blooms import NONE, bloom_in
from projections.workingset import WorkingSet


def _bloom(plain: Iterable[tuple[int, bytes]]) -> int:
    """The Bloom of the tags of a memory, from the parts that are about to be sealed."""
    for part, plaintext in plain:
        if part == Part.PARTICULARS:
            return bloom_in(plaintext)
    return NONE


class Journal(Protocol):
    """What a batch is made for: a store, or what is to be one."""

    @property
    def log(self) -> Log: ...

    @property
    def vault(self) -> Vault: ...

    @property
    def sealer(self) -> Sealer: ...


class Content:
    """What a batch holds so far. Apart from the batch itself, so that the batch's view can look at it without
    a circle of references: one would keep the read transactions until the next collection."""

    def __init__(self) -> None:
        self.records: dict[int, Record] = {}
        self.ciphertexts: dict[tuple[int, int], bytes] = {}  # by (owner seq, part)


class Admission:
    """A batch in the making, over one snapshot of the projections."""

    def __init__(self, store: Journal, state: State, view: View, pending: WorkingSet, content: Content) -> None:
        self._store = store
        self.state = state
        self.view = view
        self.pending = pending
        self.bodies: list[bytes] = []
        self.sealed: list[tuple[bytes, bytes]] = []
        self._removed: list[bytes] = []
        self._content = content
        self._owner_seq = store.log.state.owner_seq
        self._first_slot = store.vault.next_slot

    def admit(self, building: Building, actor: Actor, verb: str, correlation: str | None) -> None:
        """Seal, number and fold the drafts of a command that was decided."""
        if not building.drafts:
            return
        first = self.view.next_seq
        cause = Cause(first, verb, correlation)
        now_ms = self.view.now_ms
        seq = first
        for draft in building.drafts:
            event = draft.event
            if draft.plain or draft.shared:
                parts = (*draft.shared, *(self._seal(seq, part, plain) for part, plain in draft.plain))
                # The draft was the only holder of this event: nobody has seen it without its parts.
                msgspec.structs.force_setattr(event, "parts", parts)
            tenant = building.tenant
            record = Record(seq, now_ms, tenant, actor, cause, event)
            self._content.records[seq] = record
            if type(event) is MemoryCreated:
                self.pending.blooms[event.id] = _bloom(draft.plain)
            elif type(event) is Moved:
                self.pending.blooms[event.memory[1]] = _bloom(draft.plain)
            elif type(event) is Purged:
                self.pending.blooms.update(dict.fromkeys((target.id for target in event.targets), NONE))
            elif type(event) is Vacuumed:
                self._removed += [sealed_key(*each) for each in event.removed]
            self._fold(record)
            seq += 1
        if building.has_learned:
            self.pending.publish(building.learned)
        for record in self._following(seq, now_ms, building.tenant, actor, cause):
            self._content.records[record.seq] = record
            self._fold(record)
            seq = record.seq + 1
        self.view.next_seq = seq
        self.state.head = Head(self.state.head.epoch, seq - 1, b"")
        for owner_seq, text_key in building.fresh_texts:
            part = self._content.records[owner_seq].event.parts[0]  # type: ignore[union-attr]
            if part.owner_seq == owner_seq:
                self.pending.texts[text_key] = part

    def _fold(self, record: Record) -> None:
        self.bodies.append(encode_body(record))
        apply(self.state, record)

    def _following(self, seq: int, now_ms: int, tenant: int, actor: Actor, cause: Cause) -> Iterator[Record]:
        """The changes of partitions that follow from what was folded just now. Each is folded before the next."""
        unsteady = self.state.unsteady
        while unsteady:
            number = min(unsteady)
            row = partitions.load(self.state, number)
            for event in following(number, row, self.view.vacuum_threshold):
                yield Record(seq, now_ms, tenant, actor, cause, event)
                seq += 1
                if event.old == PartitionState.ACTIVE:
                    self.pending.open_partitions[tenant, row.tier] = (0, row.day)
            unsteady.discard(number)

    def _seal(self, seq: int, part: int, plain: bytes) -> SealedPart:
        slot, length, digest, ciphertext = self._store.sealer.seal(part, plain)
        self.sealed.append((sealed_key(seq, part), ciphertext))
        self._content.ciphertexts[seq, part] = ciphertext
        self._owner_seq = seq
        return SealedPart(seq, part, slot, length, digest)

    def commit(self) -> Head:
        """Append the batch to the journal, durably. Raises StoreIO: the outcome is then unknown."""
        self.sealed.sort()
        return self._store.log.append(self.bodies, self.sealed, self._meta_state(), removed=self._removed)

    def destroy(self, store: Store, then: Callable[[Head], None]) -> Head:
        """`commit` of a batch with PURGE records, and what they say, in the order of contract ERASURE §2; `then` is
        done when the keys are gone. Whatever it raises, the outcome is unknown: the next opening finishes it."""
        self.sealed.sort()
        return purge_parts(store, self.bodies, self.sealed, self._meta_state(), then)

    def _meta_state(self) -> MetaState:
        old = self._store.log.state
        return MetaState(
            vault_next=self._store.vault.next_slot, owner_seq=self._owner_seq, epoch=old.epoch,
            opened_seq=old.opened_seq,
        )  # fmt: skip

    def abandon(self) -> None:
        """Give the slots back; nothing of this batch was written."""
        self._store.vault.rewind(self._first_slot)

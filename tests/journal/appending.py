"""Records that no verb writes, put behind the head of a store that nobody has open: what an older or another journal
may hold."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec

from journal.codes import CallerRole, Via
from journal.events import AnyEvent, Purged, SealedPart
from journal.log import MetaState, sealed_key
from journal.record import Actor, Cause, Record, encode_body
from journal.store import Store, open_store, purge_parts


class Legacy(NamedTuple):
    """An event with what makes a record of it; `plain` are (part, plaintext) that are sealed into it."""

    event: AnyEvent
    plain: tuple[tuple[int, bytes], ...] = ()
    tenant: int = 1
    via: Via = Via.CLIENT


def append(root: Path, now_ms: int, *legacy: Legacy | AnyEvent) -> list[int]:
    """The numbers of the records. Those with a Purged among them are written as a purge is."""
    store = open_store(root, version="by hand", now_ms=now_ms)
    try:
        first = store.log.head().seq + 1
        bodies: list[bytes] = []
        sealed: list[tuple[bytes, bytes]] = []
        owner_seq = store.log.state.owner_seq
        for seq, each in enumerate(legacy, first):
            given = each if isinstance(each, Legacy) else Legacy(each)
            event = _sealed_into(store, seq, given, sealed)
            owner_seq = seq if given.plain else owner_seq
            actor = Actor(0, int(CallerRole.OPERATOR), int(given.via))
            bodies.append(encode_body(Record(seq, now_ms, given.tenant, actor, Cause(seq, "by_hand"), event)))
        old = store.log.state
        state = MetaState(store.vault.next_slot, owner_seq, old.epoch, old.opened_seq)
        if any(isinstance(each, Purged) for each in legacy):
            purge_parts(store, bodies, sorted(sealed), state)
        else:
            store.log.append(bodies, sorted(sealed), state)
        return list(range(first, first + len(bodies)))
    finally:
        store.close(clean=True)


def _sealed_into(store: Store, seq: int, given: Legacy, sealed: list[tuple[bytes, bytes]]) -> AnyEvent:
    parts = []
    for part, plain in given.plain:
        slot, length, digest, ciphertext = store.sealer.seal(part, plain)
        sealed.append((sealed_key(seq, part), ciphertext))
        parts.append(SealedPart(seq, part, slot, length, digest))
    return msgspec.structs.replace(given.event, parts=tuple(parts)) if parts else given.event

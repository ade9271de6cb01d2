"""Journals for tests: real environments on disk, filled with real records."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

from journal.environment import Environment
from journal.events import AnyEvent, MemoryCreated, Purged, PurgeTarget, SealedPart
from journal.log import DATABASES, Log, MetaState, sealed_key
from journal.record import Actor, Cause, Record, encode_body

STORE_ID = bytes(range(16))
SOMEONE = Actor(1000, 0, 0)


def record(seq: int, event: AnyEvent) -> Record:
    return Record(seq, 1_800_000_000_000 + seq, 1, SOMEONE, Cause(seq, "remember"), event)


def ciphertext(seq: int) -> bytes:
    return b"nonce-of-12b" + b"ciphertext %d" % seq


def memory(seq: int) -> MemoryCreated:
    """The memory of record `seq`, whose one part is `ciphertext(seq)` in slot `seq`."""
    digest = blake2b(ciphertext(seq), digest_size=16).digest()
    return MemoryCreated(
        id=1000 + seq,
        slot=seq,
        kind=0,
        subtype=1,
        origin=0,
        partition=1,
        parts=(SealedPart(seq, 1, seq, 12, digest),),
    )


def purge(target: MemoryCreated) -> Purged:
    return Purged(targets=(PurgeTarget(target.kind, target.id),), parts=target.parts)


def append_memories(log: Log, count: int) -> None:
    """One batch of `count` memories behind the head."""
    first = log.head().seq + 1
    seqs = range(first, first + count)
    bodies = [encode_body(record(seq, memory(seq))) for seq in seqs]
    sealed = [(sealed_key(seq, 1), ciphertext(seq)) for seq in seqs]
    last = first + count - 1
    log.append(bodies, sealed, MetaState(vault_next=last + 1, owner_seq=last))


@contextmanager
def open_journal(state_dir: Path, *, readonly: bool = False) -> Iterator[Log]:
    """The log in `state_dir`/journal, made when there is none."""
    new = not (state_dir / "journal").exists()
    env = Environment.open(state_dir / "journal", DATABASES, durable=True, readonly=readonly)
    try:
        yield Log.create(env, STORE_ID) if new else Log(env, STORE_ID)
    finally:
        env.close()

"""A record: one numbered entry of the journal, and its bytes.

Key of the database `records`: the sequence number, u64 big-endian, from 1, without gaps. Value:

| offset | size | field |
|---|---|---|
| 0 | 4 | CRC-32C of the bytes from 4 to the end, u32 little-endian |
| 4 | 32 | chain: BLAKE2b-256(previous chain + body); before the first record: the store id (16 bytes) |
| 36 | … | body: msgpack array `[seq, at_ms, tenant, actor, cause, event]` |

Invariant: the sequence number in the body equals the key, and the chain of record N is the only one that
follows from the chain of N - 1 and the body of N.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from typing import NamedTuple

import msgspec
from crc32c import crc32c

from journal.errors import DamagedRecord
from journal.events import AnyEvent

CHAIN_BYTES = 32
MAX_EPOCH = (1 << 32) - 2
"""Rows and cursors keep an epoch in 32 bits, and a restore takes the next one."""
MAX_SEQ = (1 << 63) - 1
HEAD_BYTES = 4 + CHAIN_BYTES

_U32 = struct.Struct("<I")
_U64_BE = struct.Struct(">Q")


class Actor(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """Who did it, as the daemon knows it: uid, CallerRole code, Via code."""

    uid: int
    role: int
    via: int


class Cause(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """What ties the records of one command together: its first sequence number, verb, correlation."""

    first_seq: int
    verb: str
    correlation: str | None = None


class Record(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """The body of a record. `tenant` 0 is the store itself."""

    seq: int
    at_ms: int
    tenant: int
    actor: Actor
    cause: Cause
    event: AnyEvent


class Envelope(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A record without what happened: that is passed over, however long it is."""

    seq: int
    at_ms: int
    tenant: int
    actor: Actor


class Head(NamedTuple):
    """A place in a journal: epoch, newest sequence number (0: empty), its chain."""

    epoch: int
    seq: int
    chain: bytes


_ENCODE = msgspec.msgpack.Encoder().encode
_DECODE = msgspec.msgpack.Decoder(Record).decode
_DECODE_ENVELOPE = msgspec.msgpack.Decoder(Envelope).decode


def seq_key(seq: int) -> bytes:
    """The key of record `seq`."""
    return _U64_BE.pack(seq)


def key_seq(key: bytes) -> int:
    """The sequence number in a key of `records`."""
    return int(_U64_BE.unpack(key)[0])


def next_chain(previous: bytes, body: bytes) -> bytes:
    """The chain of a record with `body` that follows one whose chain is `previous`."""
    return blake2b(previous + body, digest_size=CHAIN_BYTES).digest()


def encode_body(record: Record) -> bytes:
    """The msgpack bytes of a record."""
    return _ENCODE(record)


def encode_value(previous: bytes, body: bytes) -> tuple[bytes, bytes]:
    """`(value, chain)` of a record with `body` behind one whose chain is `previous`."""
    chain = blake2b(previous + body, digest_size=CHAIN_BYTES).digest()
    covered = chain + body
    return _U32.pack(crc32c(covered)) + covered, chain


def split_value(seq: int, value: bytes) -> tuple[bytes, bytes]:
    """`(chain, body)` of a stored value whose CRC holds. Raises DamagedRecord."""
    if len(value) <= HEAD_BYTES:
        raise DamagedRecord(seq, "short")
    covered = value[4:]
    if _U32.unpack_from(value)[0] != crc32c(covered):
        raise DamagedRecord(seq, "crc")
    return covered[:CHAIN_BYTES], covered[CHAIN_BYTES:]


def decode_body(seq: int, body: bytes) -> Record:
    """The record in `body`, which must say that it is number `seq`. Raises DamagedRecord."""
    try:
        record = _DECODE(body)
    except msgspec.DecodeError as error:
        raise DamagedRecord(seq, "undecodable") from error
    if record.seq != seq:
        raise DamagedRecord(seq, "numbering")
    return record


def decode_value(seq: int, value: bytes) -> Record:
    """The record stored under `seq`: CRC and number checked, the chain not. Raises DamagedRecord."""
    return decode_body(seq, split_value(seq, value)[1])


def decode_envelope(seq: int, value: bytes) -> Envelope:
    """As `decode_value`, without the event: that it is one is not checked. Raises DamagedRecord."""
    try:
        envelope = _DECODE_ENVELOPE(split_value(seq, value)[1])
    except msgspec.DecodeError as error:
        raise DamagedRecord(seq, "undecodable") from error
    if envelope.seq != seq:
        raise DamagedRecord(seq, "numbering")
    return envelope


def check_value(seq: int, value: bytes, previous: bytes) -> tuple[Record, bytes]:
    """`(record, chain)`: CRC, number and chain checked. Raises DamagedRecord."""
    chain, body = split_value(seq, value)
    if next_chain(previous, body) != chain:
        raise DamagedRecord(seq, "chain")
    return decode_body(seq, body), chain

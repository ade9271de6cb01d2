"""What the sealed parts hold, before they are sealed.

| part | plaintext |
|---|---|
| text | the text, UTF-8, exactly as given |
| particulars | msgpack array of `Particulars` |
| vector | msgpack array of `Vector` |
| words | UTF-8 |
| name | a session's key: UTF-8; an entity's: msgpack `[name, type]` |
| request | the 16-byte digest of a request |
| mean | msgpack array of `Vector` |
"""

from __future__ import annotations

import msgspec


class Particulars(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """Everything about a memory (or a session: project and subject) that its caller wrote freely.

    `metadata` is the JSON text as given. `externals` are the ids of the record's `externals`, `facts`
    the words (subject, predicate, value) of its `facts`, each in the same order. Fields are only ever
    added at the end.
    """

    topic: str | None = None
    tags: tuple[str, ...] = ()
    entities: tuple[tuple[str, str], ...] = ()
    speaker: str | None = None
    subject: str | None = None
    project: str | None = None
    source_entity: str | None = None
    metadata: bytes | None = None
    externals: tuple[str, ...] = ()
    facts: tuple[tuple[str, str, str], ...] = ()
    foreign_id: str | None = None
    request_digest: bytes | None = None


class Vector(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """`values` are little-endian float32, one after another; `model` names the space they live in."""

    model: str
    values: bytes


_ENCODE = msgspec.msgpack.Encoder().encode
_DECODE_PARTICULARS = msgspec.msgpack.Decoder(Particulars).decode
_DECODE_VECTOR = msgspec.msgpack.Decoder(Vector).decode


def encode(value: Particulars | Vector) -> bytes:
    """The plaintext of a particulars, vector or mean part."""
    return _ENCODE(value)


def decode_particulars(plaintext: bytes) -> Particulars:
    """The particulars in `plaintext`. Raises msgspec.DecodeError for bytes that are none."""
    return _DECODE_PARTICULARS(plaintext)


def decode_vector(plaintext: bytes) -> Vector:
    """The vector in `plaintext`. Raises msgspec.DecodeError for bytes that are none."""
    return _DECODE_VECTOR(plaintext)

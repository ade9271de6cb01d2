"""Preparing a write: everything that needs no store.

Canonical times, parsed references, the digest of the request. May run on any thread; what comes out is
handed to the writer, which admits it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from daemon.refusal import Reason, Refused
from journal.codes import ExternalKind
from journal.sealing import keyed_hash
from journal.tsid import parse_memory_ref, parse_tsid

UNSET = msgspec.UNSET
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CANONICAL = msgspec.msgpack.Encoder(order="deterministic").encode
_TIME_FIELDS = frozenset({"occurred_at", "valid_from", "valid_to", "created_at", "at"})
_NOT_DIGESTED = frozenset({"idempotency_key", "correlation", "progress", "tenant"})
_EXTERNAL = {kind.wire: int(kind) for kind in ExternalKind}


def invalid(parameter: str, message: str, **data: Any) -> Refused:
    return Refused(Reason.INVALID_INPUT, message, parameter=parameter, **data)


def parse_time(parameter: str, text: str) -> tuple[int, int]:
    """`(UTC milliseconds, offset in minutes)` of an RFC 3339 time with an offset."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise invalid(parameter, "not a time that exists") from None
    offset = moment.utcoffset()
    if offset is None:
        raise invalid(parameter, "a time needs an offset")
    delta = moment - _EPOCH
    return (
        delta.days * 86_400_000 + delta.seconds * 1000 + delta.microseconds // 1000,
        int(offset.total_seconds() // 60),
    )


def parse_memory(parameter: str, text: str) -> tuple[int, int]:
    try:
        return parse_memory_ref(text)
    except ValueError as error:
        raise invalid(parameter, f"not a reference to a memory: {error}") from None


def parse_session(parameter: str, text: str) -> int:
    prefix, _, rest = text.partition(":")
    try:
        if prefix != "session":
            raise ValueError("not a session")
        return parse_tsid(rest)
    except ValueError as error:
        raise invalid(parameter, f"not a reference to a session: {error}") from None


class Sources(NamedTuple):
    """A list of references, taken apart. `within` are `@N`, kept with their place as (place, N)."""

    refs: tuple[tuple[int, int], ...]
    externals: tuple[tuple[int, bool, str], ...]  # (kind code, resolvable, id)
    within: tuple[int, ...]


_NO_SOURCES = Sources((), (), ())


def parse_sources(parameter: str, items: Any) -> Sources:
    """References, external sources and `@N` in `items`. Duplicates are kept once, in order."""
    if not items or items is UNSET:
        return _NO_SOURCES
    refs: dict[tuple[int, int], None] = {}
    externals: list[tuple[int, bool, str]] = []
    within: list[int] = []
    for item in items:
        if not isinstance(item, str):
            resolvable = item.resolvable
            externals.append((_EXTERNAL[item.kind], True if resolvable is UNSET else resolvable, item.id))
        elif item.startswith("@") and item[1:].isdecimal():
            within.append(int(item[1:]))
        elif item.startswith("context:"):
            externals.append((int(ExternalKind.CONTEXT), True, item[8:]))
        else:
            refs[parse_memory(parameter, item)] = None
    return Sources(tuple(refs), tuple(externals), tuple(within))


def request_digest(hash_key: bytes, verb: str, params: msgspec.Struct) -> bytes:
    """Keyed BLAKE2b-128 over the verb and the parameters that are present, times as (ms, offset)."""
    return keyed_hash(hash_key, b"request", _CANONICAL([verb, _present(params)]))


_AS_IT_IS = frozenset({str, int, float, bool, type(None)})
_digested_fields: dict[type, tuple[str, ...]] = {}


def _fields_of(struct: type[msgspec.Struct]) -> tuple[str, ...]:
    found = _digested_fields.get(struct)
    if found is None:
        found = tuple(name for name in struct.__struct_fields__ if name not in _NOT_DIGESTED)
        _digested_fields[struct] = found
    return found


def _present(value: Any) -> Any:
    """What of a request is there, in a form that two spellings of one request share."""
    if isinstance(value, msgspec.Struct):
        present = {}
        for name in _fields_of(type(value)):
            found = getattr(value, name)
            if found is UNSET:
                continue
            if type(found) is str and name in _TIME_FIELDS:
                found = parse_time(name, found)
            elif type(found) not in _AS_IT_IS:
                found = _present(found)
            present[name] = found
        return present
    if isinstance(value, msgspec.Raw):
        return msgspec.json.decode(value)
    if isinstance(value, (list, tuple)):
        return [item if type(item) in _AS_IT_IS else _present(item) for item in value]
    return value


def key_hash(hash_key: bytes, tenant: str, key: str) -> bytes:
    """How an idempotency key is kept: keyed BLAKE2b-128 over tenant and key."""
    return keyed_hash(hash_key, b"key", tenant.encode(), b"\0", key.encode())

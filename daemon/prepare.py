"""Preparing a write: everything that needs no store.

Canonical times, parsed references, the digest of the request. May run on any thread; what comes out is
handed to the writer, which admits it.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any, NamedTuple

import msgspec

from daemon.refusal import Reason, Refused
from daemon.wire.times import FIRST_MS, LAST_MS
from journal.codes import ExternalKind, Kind
from journal.sealing import keyed_hash
from journal.tsid import format_tsid, parse_memory_ref, parse_ref, parse_tsid
from projections.workingset import session_hash

UNSET = msgspec.UNSET
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SORTED_JSON = msgspec.json.Encoder(order="deterministic").encode
_PACK = msgspec.msgpack.Encoder().encode
_CANONICAL = msgspec.msgpack.Encoder(order="deterministic").encode
_NOT_DIGESTED = frozenset({"idempotency_key", "correlation", "progress", "tenant"})
_TIME_FIELDS = frozenset({"occurred_at", "valid_from", "valid_to", "created_at", "at", "since", "until"})
_JSON_FIELDS = frozenset({"metadata"})
_SESSION_FIELDS = frozenset({"session"})
_INNER_FIELDS = frozenset({"items", "facts", "fact", "imported", "sel", "with_"})
"""Which parameters hold structs that have one of these in them, for every verb that takes a key."""
_EXTERNAL = {kind.wire: int(kind) for kind in ExternalKind}


def invalid(parameter: str, message: str, **data: Any) -> Refused:
    return Refused(Reason.INVALID_INPUT, message, parameter=parameter, **data)


def parse_time(parameter: str, text: str) -> tuple[int, int]:
    """`(UTC milliseconds, offset in minutes)` of an RFC 3339 time with an offset. Raises Refused."""
    try:
        return _read_time(text)
    except ValueError as error:
        raise invalid(parameter, str(error)) from None


@lru_cache(maxsize=1024)  # a request's times are read twice: to be kept, and for its digest
def _read_time(text: str) -> tuple[int, int]:
    try:
        moment = datetime.fromisoformat(text.upper())
    except ValueError:
        raise ValueError("not a time that exists") from None
    offset = moment.utcoffset()
    if offset is None:
        raise ValueError("a time needs an offset")
    delta = moment - _EPOCH
    at_ms = delta.days * 86_400_000 + delta.seconds * 1000 + delta.microseconds // 1000
    if not FIRST_MS <= at_ms <= LAST_MS:
        raise ValueError("a time lies within the years 1 to 9999 of UTC")
    return at_ms, int(offset.total_seconds() // 60)


def parse_memory(parameter: str, text: str) -> tuple[int, int]:
    """`(kind code, TSID)` of a reference. Raises Refused, with a hint where the reference is one of another sort."""
    try:
        return parse_memory_ref(text)
    except ValueError as error:
        raise invalid(parameter, f"not a reference to a memory: {error}", **_meant(text, "memory")) from None


def parse_session(parameter: str, text: str) -> int:
    prefix, _, rest = text.partition(":")
    try:
        if prefix != "session":
            raise ValueError("it does not begin with session:")
        return parse_tsid(rest)
    except ValueError as error:
        raise invalid(parameter, f"not a reference to a session: {error}", **_meant(text, "session")) from None


def _meant(text: str, wanted: str) -> dict[str, str]:
    """A hint, as far as the form of a reference says what its writer had in mind."""
    kind, colon, _ = text.partition(":")
    form = "session:ID" if wanted == "session" else "KIND:ID, as in raw:ID"
    if not colon and _is_tsid(text):
        return {"hint": f"an id alone doesn't say of what: {form}"}
    if wanted == "memory":
        of_session = "it is a session: ask session or session_provenance"
        return {"hint": of_session if kind == "session" else f"the form is {form}"}
    if colon and _is_memory(kind):
        return {"hint": "it is a memory: ask get, explain or trace; get tells its session"}
    if kind != "session":
        return {"hint": f"the form is {form}; sessions lists them with their keys"}
    return {"hint": f"the form is {form}"}


def _is_memory(kind: str) -> bool:
    return any(kind == each.wire for each in Kind)


def _is_tsid(text: str) -> bool:
    try:
        parse_tsid(text)
    except ValueError:
        return False
    return True


def parse_proposal(parameter: str, text: str) -> int:
    try:
        return parse_ref("proposal", text)
    except ValueError as error:
        raise invalid(parameter, f"not a reference to a proposal: {error}") from None


class Sources(NamedTuple):
    """A list of references, taken apart. `refs` are in the order given: (kind, TSID), or N for `@N`."""

    refs: tuple[tuple[int, int] | int, ...]
    externals: tuple[tuple[int, bool, str], ...]  # (kind code, resolvable, id)


_NO_SOURCES = Sources((), ())


def parse_sources(parameter: str, items: Any) -> Sources:
    """References, external sources and `@N` in `items`. Duplicates are kept once, in order. Raises Refused, also for
    what lies outside and is said to be resolvable and not."""
    if not items or items is UNSET:
        return _NO_SOURCES
    refs: dict[tuple[int, int] | int, None] = {}
    externals: dict[tuple[int, str], bool] = {}
    for place, item in enumerate(items):
        if not isinstance(item, str):
            resolvable = item.resolvable
            said = True if resolvable is UNSET else resolvable
            if externals.setdefault((_EXTERNAL[item.kind], item.id), said) is not said:
                raise invalid(parameter, f"a {item.kind} is said to be resolvable, and not to be")
        elif item.startswith("@") and item[1:].isascii() and item[1:].isdigit():
            refs[int(item[1:])] = None
        elif item.startswith("context:"):
            externals[int(ExternalKind.CONTEXT), item[8:]] = True
        else:
            refs[_parse_source(parameter, place, item)] = None
    return Sources(tuple(refs), tuple([(kind, said, name) for (kind, name), said in externals.items()]))


def _parse_source(parameter: str, place: int, item: str) -> tuple[int, int]:
    """One reference of a list. Raises Refused, which says which of them it is."""
    try:
        return parse_memory_ref(item)
    except ValueError as error:
        message = f"{parameter}[{place}] is not a reference to a memory: {error}"
        hint = _meant(item, "memory")["hint"]
        outside = 'what lies outside is {"kind": "url", "id": "https://…"}; on a command line the option is repeated'
        raise invalid(parameter, message, hint=f"{hint}; {outside}") from None


def request_digest(hash_key: bytes, verb: str, params: msgspec.Struct) -> bytes:
    """Keyed BLAKE2b-128 over the verb and the parameters that are present, times as (ms, offset).

    Two spellings of one request (order, white space, a session's id, a time with another count of zeros) share a
    digest.
    """
    return keyed_hash(hash_key, b"request", _CANONICAL((verb, _canonical(params))))


def _canonical(params: msgspec.Struct) -> msgspec.Struct:
    """`params` without what isn't digested, and with one spelling of what has several."""
    changes: dict[str, Any] = {}
    for name in _fields_to_change(type(params)):
        value = getattr(params, name)
        if value is UNSET or value is None:
            continue
        if name in _NOT_DIGESTED:
            changes[name] = UNSET
        elif name in _TIME_FIELDS:
            changes[name] = parse_time(name, value)
        elif name in _JSON_FIELDS:
            changes[name] = _canonical_json(value)
        elif name in _SESSION_FIELDS:
            changes[name] = f"session:{format_tsid(parse_session(name, value))}" if isinstance(value, str) else value
        elif isinstance(value, list):
            changes[name] = [_canonical(item) for item in value]
        else:
            changes[name] = _canonical(value)
    return msgspec.structs.replace(params, **changes) if changes else params


def _canonical_json(raw: bytes) -> bytes:
    """One spelling for all that say the same: names sorted, no white space."""
    value = msgspec.json.decode(raw)
    try:
        return _SORTED_JSON(value)
    except (OverflowError, msgspec.MsgspecError):  # an integer beyond 64 bits
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


_CHANGED = _NOT_DIGESTED | _TIME_FIELDS | _JSON_FIELDS | _SESSION_FIELDS | _INNER_FIELDS


@cache
def _fields_to_change(struct: type[msgspec.Struct]) -> tuple[str, ...]:
    """The fields that `_canonical` looks at; the encoder leaves out what is UNSET and sorts what is a map."""
    return tuple(name for name in struct.__struct_fields__ if name in _CHANGED)


def pack_name(entity: Any) -> bytes:
    """The plaintext of an entity's name part."""
    return _PACK((entity.name, entity.type))


def key_hash(hash_key: bytes, tenant: str, key: str) -> bytes:
    """How an idempotency key is kept: keyed BLAKE2b-128 over tenant and key."""
    return keyed_hash(hash_key, b"key", tenant.encode(), b"\0", key.encode())


class NaturalKey(NamedTuple):
    """How a caller names a session: agent and key; `hashed` is what it is found by."""

    agent: str
    plaintext: bytes
    hashed: bytes


def natural_key(hash_key: bytes, tenant: str, agent: str, key: str) -> NaturalKey:
    plaintext = key.encode()
    return NaturalKey(agent, plaintext, session_hash(hash_key, tenant, agent, plaintext))

"""From a line to a typed request, or to the exact reason why it is none.

The fast way is one decode: a union of envelopes, told apart by their `method`. Whatever that refuses is
looked at again, slowly, to find the id, the reason and the parameter (contract PROTOCOL §3, ANSWERS §8):
msgspec reports a lone surrogate or NaN without saying where. Messages hold no value that was sent.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple, NoReturn, Union, get_args

import msgspec
from msgspec import Meta

from daemon import limits
from daemon.refusal import Reason, Refused
from daemon.wire import params as p
from daemon.wire import vocabulary as words
from daemon.wire.verbs import VERBS, Verb

RequestId = int | str
_MIN_ID, _MAX_ID = -(1 << 63), (1 << 63) - 1
_IntId = Annotated[int, Meta(ge=_MIN_ID, le=_MAX_ID)]
_StrId = Annotated[str, Meta(max_length=limits.REQUEST_ID)]
_FLOAT32_MAX = 3.4028234663852886e38
_ENVELOPE = frozenset({"jsonrpc", "id", "method", "params"})
_PATH = re.compile(r" - at `\$(.*)`\Z", re.DOTALL)
_FIELD = re.compile(r"(unknown|required) field `(.*)`\Z", re.DOTALL)
_BOUND = re.compile(r"(?:length )?(?:<=|>=) (-?[0-9.]+)")
_ITEM = re.compile(r"\.items\[([0-9]+)\]")
_INDEX = re.compile(r"\[[^\]]*\]")
_TIMES = frozenset(
    {
        "at",
        "occurred_at",
        "valid_from",
        "valid_to",
        "created_at",
        "since",
        "until",
        "as_of",
        "as_known_at",
    }
)
_ALLOWED: dict[str, tuple[str, ...]] = {
    "kind": get_args(words.KindWord),
    "kinds": get_args(words.KindWord),
    "origin": get_args(words.OriginWord),
    "origins": get_args(words.OriginWord),
    "role": get_args(words.RoleWord),
    "status": get_args(words.StatusWord),
    "via": get_args(words.ViaWord),
    "state": get_args(words.TenantStateWord),
    "direction": get_args(words.DirectionWord),
    "derived_from.kind": get_args(words.ExternalWord),
    "evidence.kind": get_args(words.ExternalWord),
    "source.kind": get_args(words.ExternalWord),
}


class Request(NamedTuple):
    id: RequestId
    verb: Verb
    params: p.Closed


class Rejected(Exception):
    """A line that is no request. `id` is None when the line has no usable one."""

    def __init__(self, request_id: RequestId | None, refused: Refused) -> None:
        self.id = request_id
        self.refused = refused
        super().__init__(refused.message)


def _envelope(verb: Verb) -> type[msgspec.Struct]:
    return msgspec.defstruct(
        f"Envelope_{verb.name}",
        [("jsonrpc", Literal["2.0"]), ("id", _IntId | _StrId), ("params", verb.params)],
        tag_field="method",
        tag=verb.name,
        forbid_unknown_fields=True,
        gc=False,
    )


_ENVELOPES = {_envelope(verb): verb for verb in VERBS.values()}
_FAST: Any = msgspec.json.Decoder(Union[tuple(_ENVELOPES)])  # noqa: UP007
_PARAMS: dict[str, Any] = {verb.name: msgspec.json.Decoder(verb.params) for verb in VERBS.values()}
_RAW_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def decode_request(line: bytes) -> Request:
    """The request in `line`. Raises Rejected."""
    try:
        found = _FAST.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return _decode_slowly(line)
    verb = _ENVELOPES[type(found)]
    try:
        check_params(found.params)
    except Refused as refused:
        raise Rejected(found.id, refused) from None
    return Request(found.id, verb, found.params)


# --- what msgspec can't say ----------------------------------------------------------------------


def check_params(params: p.Closed) -> None:
    """The limits in bytes, and those that hang together. Raises Refused."""
    if isinstance(params, p.RememberItem):
        _check_item(params, {})
    elif isinstance(params, p.RememberManyParams):
        for index, item in enumerate(params.items):
            _check_item(item, {"index": index})
    elif isinstance(params, p.GetParams):
        limit = limits.IDS_PER_GET_WITH_PROVENANCE
        if params.include and len(params.ids) > limit:
            raise _invalid("ids", "too many ids with provenance", limit=limit)
    if isinstance(params, p.WriteParams) and isinstance(params.idempotency_key, str):
        _check_key(params.idempotency_key, {})


def _check_item(item: p.RememberItem, where: dict[str, Any]) -> None:
    text = item.text
    if len(text) * 4 > limits.TEXT_BYTES and len(text.encode()) > limits.TEXT_BYTES:
        raise Refused(Reason.TOO_LARGE, "the text is too large", parameter="text", limit=limits.TEXT_BYTES, **where)
    if isinstance(item.idempotency_key, str):
        _check_key(item.idempotency_key, where)
    if isinstance(item.vector, msgspec.Struct) and not all(abs(x) <= _FLOAT32_MAX for x in item.vector.values):
        raise _invalid("vector.values", "a value is out of the range of float32", **where)
    if isinstance(item.metadata, msgspec.Raw):
        metadata = bytes(item.metadata)
        if not metadata.startswith(b"{"):
            raise _invalid("metadata", "metadata is an object", **where)
        if len(metadata) > limits.METADATA_BYTES:
            raise _invalid("metadata", "metadata is too long", limit=limits.METADATA_BYTES, **where)


def _check_key(key: str, where: dict[str, Any]) -> None:
    limit = limits.IDEMPOTENCY_KEY_BYTES
    if len(key.encode()) > limit:
        raise _invalid("idempotency_key", "the key is too long", limit=limit, **where)


def _invalid(parameter: str, message: str, **data: Any) -> Refused:
    return Refused(Reason.INVALID_INPUT, message, parameter=parameter, **data)


# --- the slow way --------------------------------------------------------------------------------


def _decode_slowly(line: bytes) -> Request:
    found = _parse(line)
    request_id = _usable_id(found)
    if not isinstance(found, dict):
        _reject(None, Reason.INVALID_REQUEST, "a request is one JSON object")
    if request_id is None:
        _reject(None, Reason.INVALID_REQUEST, "a request has an id: a string or an integer", parameter="id")
    verb = _check_envelope(request_id, found)
    params = found.get("params", {})
    if not isinstance(params, dict):
        _reject(request_id, Reason.INVALID_REQUEST, "params is an object", parameter="params")
    for parameter, message in _unspeakable(params, ""):
        raise Rejected(request_id, _invalid(_parameter(parameter), message, **_index(parameter)))
    try:
        raw = _RAW_FIELDS.decode(line).get("params", b"{}")
        typed = _PARAMS[verb.name].decode(raw)
        check_params(typed)
    except msgspec.ValidationError as error:
        raise Rejected(request_id, explain(str(error))) from None
    except (msgspec.DecodeError, RecursionError):
        _reject(request_id, Reason.PARSE_ERROR, "the line is not JSON")
    except Refused as refused:
        raise Rejected(request_id, refused) from None
    return Request(request_id, verb, typed)


def _parse(line: bytes) -> Any:
    try:
        return json.loads(line.decode())
    except (ValueError, RecursionError):
        _reject(None, Reason.PARSE_ERROR, "the line is not JSON in UTF-8")


def _usable_id(found: Any) -> RequestId | None:
    request_id = found.get("id") if isinstance(found, dict) else None
    if isinstance(request_id, bool):
        return None
    if isinstance(request_id, int) and _MIN_ID <= request_id <= _MAX_ID:
        return request_id
    if isinstance(request_id, str) and len(request_id) <= limits.REQUEST_ID and not _is_torn(request_id):
        return request_id
    return None


def _check_envelope(request_id: RequestId, found: dict[str, Any]) -> Verb:
    if found.get("jsonrpc") != "2.0":
        _reject(request_id, Reason.INVALID_REQUEST, 'jsonrpc is "2.0"', parameter="jsonrpc")
    if not found.keys() <= _ENVELOPE:
        _reject(request_id, Reason.INVALID_REQUEST, "a request has jsonrpc, id, method and params only")
    method = found.get("method")
    if not isinstance(method, str):
        _reject(request_id, Reason.INVALID_REQUEST, "method is a string", parameter="method")
    verb = VERBS.get(method)
    if verb is None:
        _reject(request_id, Reason.UNKNOWN_METHOD, "there is no such verb")
    return verb


def _unspeakable(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Where a lone surrogate, NaN or an infinity stands."""
    if isinstance(value, str):
        if _is_torn(value):
            yield path, "the text has a lone surrogate"
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield path, "not a finite number"
    elif isinstance(value, dict):
        for name, inner in value.items():
            if _is_torn(name):
                yield path, "a name has a lone surrogate"
            else:
                yield from _unspeakable(inner, f"{path}.{name}")
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _unspeakable(inner, f"{path}[{place}]")


def _is_torn(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)


def _parameter(path: str) -> str:
    """The name of a parameter from a path: without places, and without the item of a batch."""
    return _INDEX.sub("", _ITEM.sub("", path, count=1)).lstrip(".") or "params"


def _index(path: str) -> dict[str, int]:
    item = _ITEM.match(path)
    return {"index": int(item[1])} if item else {}


def explain(message: str) -> Refused:
    """What msgspec found, as a refusal."""
    at = _PATH.search(message)
    path = at[1] if at else ""
    what = message[: at.start()] if at else message
    where = _index(path)
    field = _FIELD.search(what)
    if field:
        text = "there is no such parameter" if field[1] == "unknown" else "the parameter is missing"
        return _invalid(_parameter(f"{path}.{field[2]}"), text, **where)
    parameter = _parameter(path)
    bound = _BOUND.search(what)
    if bound:
        return _out_of_bounds(parameter, what, float(bound[1]), where)
    return _unfit(parameter, what, where)


def _out_of_bounds(parameter: str, what: str, bound: float, where: dict[str, int]) -> Refused:
    limit: float = int(bound) if bound.is_integer() else bound
    if parameter == "text" and "<=" in what:
        return Refused(Reason.TOO_LARGE, "the text is too large", parameter=parameter, limit=limit, **where)
    if parameter == "items" and "<=" in what:
        return Refused(Reason.TOO_LARGE, "the batch is too large", parameter=parameter, limit=limit)
    word = "over" if "<=" in what else "under"
    return _invalid(parameter, f"the value is {word} its limit", limit=limit, **where)


def _unfit(parameter: str, what: str, where: dict[str, int]) -> Refused:
    name = parameter.rpartition(".")[2]
    if what.startswith("Invalid enum value"):
        allowed = _ALLOWED.get(parameter, _ALLOWED.get(name))
        more = {"allowed": list(allowed)} if allowed else {}
        return _invalid(parameter, "the value is none of the allowed ones", **more, **where)
    if "matching regex" in what:
        text = "the value is blank or not of its form"
        if name in _TIMES:
            text = "a time is RFC 3339 with an offset and at most 3 fractional digits"
        return _invalid(parameter, text, **where)
    if what.startswith("Expected"):
        return _invalid(parameter, what.replace("`", ""), **where)
    return _invalid(parameter, "the value is out of range or of the wrong type", **where)


def _reject(request_id: RequestId | None, reason: Reason, message: str, **data: Any) -> NoReturn:
    raise Rejected(request_id, Refused(reason, message, **data))

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
from typing import Annotated, Any, Literal, NamedTuple, NoReturn, Union

import msgspec
from msgspec import Meta

from daemon import limits
from daemon.refusal import Reason, Refused
from daemon.wire import params as p
from daemon.wire.allowed import FORM_WORDS, words_at
from daemon.wire.batch import decode_apart
from daemon.wire.checks import check_params, index_of, invalid, parameter_of
from daemon.wire.verbs import VERBS, Verb

RequestId = int | str
Trail = Union[tuple["Trail", "str | int"], None]  # noqa: UP007
"""The way to a value from the outside: its last step, behind the way to what holds it."""
_MIN_ID, _MAX_ID = -(1 << 63), (1 << 63) - 1
_IntId = Annotated[int, Meta(ge=_MIN_ID, le=_MAX_ID)]
_StrId = Annotated[str, Meta(max_length=limits.REQUEST_ID)]
_PATH = re.compile(r" - at `\$(.*)`\Z", re.DOTALL)
_FIELD = re.compile(r"(unknown|required) field `(.*)`\Z", re.DOTALL)
_BOUND = re.compile(r"(?:length )?(?:<=|>=) (-?[0-9.]+)")
_MISTAKEN = re.compile(r"Expected `([^`]*)`, got `([^`]*)`")
_TYPE_WORDS = {
    "array": "a list", "object": "an object", "str": "a text", "int": "an integer", "float": "a number",
    "bool": "true or false", "null": "null",
}  # fmt: skip
"""What msgspec calls a type of JSON, as the reference calls it."""


class Request(NamedTuple):
    id: RequestId
    verb: Verb
    params: p.Closed


class Rejected(Exception):
    """A line that is no request. `id` is None when the line has no usable one, `verb` when it names none."""

    def __init__(self, request_id: RequestId | None, refused: Refused, verb: str | None = None) -> None:
        self.id = request_id
        self.refused = refused
        self.verb = verb
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
_ID: Any = msgspec.json.Decoder(_IntId | _StrId)
_TEXT = msgspec.json.Decoder(str)
_MAX_DIGITS = 4300  # what Python's own reading of a number takes
_LOOKED_AT_VALUES = 200_000
_TORN = re.compile("[\ud800-\udfff]")


class _Loose(msgspec.Struct, gc=False):
    """The parts of a request as they stand in the line, unread."""

    jsonrpc: msgspec.Raw = msgspec.Raw(b"null")
    id: msgspec.Raw = msgspec.Raw(b"null")
    method: msgspec.Raw = msgspec.Raw(b"null")
    params: msgspec.Raw = msgspec.Raw(b"{}")


class _Strict(_Loose, forbid_unknown_fields=True, gc=False):
    """The same, and nothing else."""


_WELL_FORMED = msgspec.json.Decoder(msgspec.Raw)
_LOOSE = msgspec.json.Decoder(_Loose)
_STRICT = msgspec.json.Decoder(_Strict)


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
        raise Rejected(found.id, refused, verb.name) from None
    return Request(found.id, verb, found.params)


# --- the slow way --------------------------------------------------------------------------------


def _decode_slowly(line: bytes) -> Request:
    """Well-formed JSON is msgspec's to explain, whatever it holds: a number of thousands of digits, millions of
    values. It costs no more than the fast way, so that nobody else waits for a line that is refused."""
    try:
        line.decode()
        _WELL_FORMED.decode(line)
        found = _LOOSE.decode(line)
    except msgspec.ValidationError:
        _reject(None, Reason.INVALID_REQUEST, "a request is one JSON object")
    except (ValueError, RecursionError):
        _explain_malformed(line)
    request_id = _usable_id(found.id)
    if request_id is None:
        _reject(None, Reason.INVALID_REQUEST, "a request has an id: a string or an integer", parameter="id")
    verb = _check_envelope(request_id, line, found)
    try:
        typed = _decode_params(verb, found.params)
        check_params(typed)
    except msgspec.ValidationError as error:
        raise Rejected(request_id, explain(str(error), verb.params), verb.name) from None
    except (msgspec.DecodeError, RecursionError):
        _reject(request_id, Reason.PARSE_ERROR, "the line is not JSON")
    except Refused as refused:
        raise Rejected(request_id, refused, verb.name) from None
    return Request(request_id, verb, typed)


def _decode_params(verb: Verb, raw: msgspec.Raw) -> p.Closed:
    """Raises msgspec.ValidationError, Refused. In a batch that isn't atomic, an item costs only itself."""
    try:
        decoded: p.Closed = _PARAMS[verb.name].decode(raw)
    except msgspec.ValidationError:
        apart = decode_apart(raw, explain) if verb.params is p.RememberManyParams else None
        if apart is None:
            raise
        return apart
    return decoded


def _usable_id(raw: msgspec.Raw) -> RequestId | None:
    try:
        found: RequestId = _ID.decode(raw)
    except msgspec.DecodeError:
        return None
    return found


def _text(raw: msgspec.Raw) -> str | None:
    try:
        return _TEXT.decode(raw)
    except msgspec.DecodeError:
        return None


def _check_envelope(request_id: RequestId, line: bytes, found: _Loose) -> Verb:
    if _text(found.jsonrpc) != "2.0":
        _reject(request_id, Reason.INVALID_REQUEST, 'jsonrpc is "2.0"', parameter="jsonrpc")
    try:
        _STRICT.decode(line)
    except msgspec.DecodeError:
        _reject(request_id, Reason.INVALID_REQUEST, "a request has jsonrpc, id, method and params only")
    method = _text(found.method)
    if method is None:
        _reject(request_id, Reason.INVALID_REQUEST, "method is a string", parameter="method")
    verb = VERBS.get(method)
    if verb is None:
        _reject(request_id, Reason.UNKNOWN_METHOD, "there is no such verb")
    if not bytes(found.params).startswith(b"{"):
        _reject(request_id, Reason.INVALID_REQUEST, "params is an object", parameter="params")
    return verb


def _explain_malformed(line: bytes) -> NoReturn:
    """Lone surrogates and NaN are no JSON to msgspec; the standard library reads them and tells where they are.

    It builds every value it reads, while everybody waits: a line of very many values isn't looked at again.
    """
    if sum(map(line.count, (b",", b"[", b"{"))) > _LOOKED_AT_VALUES:
        _reject(None, Reason.PARSE_ERROR, "the line is not JSON in UTF-8")
    try:
        found = json.loads(line.decode(), parse_int=_parse_integer)
    except (ValueError, RecursionError):
        _reject(None, Reason.PARSE_ERROR, "the line is not JSON in UTF-8")
    if not isinstance(found, dict):
        _reject(None, Reason.INVALID_REQUEST, "a request is one JSON object")
    request_id = found.get("id")
    if isinstance(request_id, str) and _TORN.search(request_id):
        request_id = None
    try:
        request_id = msgspec.convert(request_id, _IntId | _StrId)
    except msgspec.ValidationError:
        _reject(None, Reason.INVALID_REQUEST, "a request has an id: a string or an integer", parameter="id")
    for path, message in unspeakable(found.get("params")):
        raise Rejected(request_id, invalid(parameter_of(path), message, **index_of(path)))
    _reject(request_id, Reason.PARSE_ERROR, "the line is not JSON")


def _parse_integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= _MAX_DIGITS else math.inf


def unspeakable(params: Any) -> Iterator[tuple[str, str]]:
    """Where a lone surrogate, NaN or an infinity stands, in the order of the line. Nesting costs no stack."""
    waiting: list[tuple[Trail, Any]] = [(None, params)]
    while waiting:
        trail, value = waiting.pop()
        if isinstance(value, str):
            if _TORN.search(value):
                yield _path(trail), "the text has a lone surrogate"
        elif isinstance(value, float):
            if not math.isfinite(value):
                yield _path(trail), "not a finite number"
        elif isinstance(value, dict):
            if any(map(_TORN.search, value)):
                yield _path(trail), "a name has a lone surrogate"
            waiting += [((trail, name), inner) for name, inner in reversed(value.items())]
        elif isinstance(value, list):
            waiting += [((trail, place), value[place]) for place in reversed(range(len(value)))]


def _path(trail: Trail) -> str:
    steps: list[str] = []
    while trail is not None:
        trail, step = trail
        steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")
    return "".join(reversed(steps))


def explain(message: str, params: type[msgspec.Struct]) -> Refused:
    """What msgspec found in parameters of this type, as a refusal."""
    at = _PATH.search(message)
    path = at[1] if at else ""
    what = message[: at.start()] if at else message
    where = index_of(path)
    field = _FIELD.search(what)
    if field:
        text = "there is no such parameter" if field[1] == "unknown" else "the parameter is missing"
        return invalid(parameter_of(f"{path}.{field[2]}"), text, **where)
    parameter = parameter_of(path)
    bound = _BOUND.search(what)
    if bound:
        return _out_of_bounds(parameter, what, float(bound[1]), where)
    if what.startswith("Invalid enum value"):
        allowed = list(words_at(params, path))
        return invalid(parameter, "the value is none of the allowed ones", allowed=allowed, **where)
    return _unfit(parameter, what, where)


def _out_of_bounds(parameter: str, what: str, bound: float, where: dict[str, int]) -> Refused:
    limit: float = int(bound) if bound.is_integer() else bound
    if parameter == "text" and "<=" in what:
        return Refused(Reason.TOO_LARGE, "the text is too large", parameter=parameter, limit=limit, **where)
    if parameter == "items" and "<=" in what:
        return Refused(Reason.TOO_LARGE, "the batch is too large", parameter=parameter, limit=limit)
    word = "over" if "<=" in what else "under"
    return invalid(parameter, f"the value is {word} its limit", limit=limit, **where)


def _unfit(parameter: str, what: str, where: dict[str, int]) -> Refused:
    if "matching regex" in what:
        form = FORM_WORDS.get(parameter) or FORM_WORDS.get(parameter.rpartition(".")[2])
        return invalid(parameter, "the value is not of its form" + (f": {form}" if form else ""), **where)
    if mistaken := _MISTAKEN.match(what):
        wanted, got = (" or ".join(map(_type_word, each.split(" | "))) for each in mistaken.groups())
        return invalid(parameter, f"it should be {wanted}, and is {got}", **where)
    return invalid(parameter, "the value is out of range or of the wrong type", **where)


def _type_word(name: str) -> str:
    return _TYPE_WORDS.get(name, "another value")


def _reject(request_id: RequestId | None, reason: Reason, message: str, **data: Any) -> NoReturn:
    raise Rejected(request_id, Refused(reason, message, **data))

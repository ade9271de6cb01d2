"""From a result or a refusal to a line."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from daemon import limits
from daemon.refusal import Reason, Refused
from daemon.wire.request import RequestId

_ENCODE = msgspec.json.Encoder().encode


class _Answer(msgspec.Struct, gc=False):
    jsonrpc: Literal["2.0"]
    id: RequestId | None
    result: Any


class _Error(msgspec.Struct, gc=False):
    code: int
    message: str
    data: dict[str, Any]


class _Failure(msgspec.Struct, gc=False):
    jsonrpc: Literal["2.0"]
    id: RequestId | None
    error: _Error


def error_object(refused: Refused) -> dict[str, Any]:
    """The `error` of a refusal, as it also stands in the results of a batch that isn't atomic."""
    reason = refused.reason
    data = {"reason": reason.wire, "retryable": reason.retryable, **refused.data}
    return {"code": reason.code, "message": refused.message, "data": data}


def encode_answer(request_id: RequestId | None, result: msgspec.Struct | dict[str, Any] | Refused) -> bytes:
    """The line that answers `request_id`, with its end."""
    if not isinstance(result, Refused):
        line = _ENCODE(_Answer("2.0", request_id, result)) + b"\n"
        if len(line) <= limits.LINE_BYTES:
            return line
        result = Refused(Reason.TOO_LARGE, "the answer is too large", limit=limits.LINE_BYTES)
    error = error_object(result)
    return _ENCODE(_Failure("2.0", request_id, _Error(**error))) + b"\n"

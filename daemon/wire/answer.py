"""From a result, a refusal or a notification to a line.

A notification has a `method` and no `id`: `progress`, `record`, `mark`, `end`. Its `params.request` is the id of the
request that it belongs to.
"""

from __future__ import annotations

from collections.abc import Sequence
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


class _Notification(msgspec.Struct, gc=False):
    jsonrpc: Literal["2.0"]
    method: str
    params: dict[str, Any]


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


def encode_notification(method: str, request_id: RequestId, **params: Any) -> bytes:
    """The line that tells something of request `request_id` beside its answer, with its end."""
    return _ENCODE(_Notification("2.0", method, {"request": request_id, **params})) + b"\n"


def encode_records(request_id: RequestId, frames: Sequence[bytes]) -> bytes:
    """The lines of `record` notifications of `frames`, which are JSON already."""
    begin = b'{"jsonrpc":"2.0","method":"record","params":{"request":%b,"frame":' % _ENCODE(request_id)
    end = b"}}\n"
    return begin + (end + begin).join(frames) + end if frames else b""

"""What a decoded request must hold beyond its types: forms of strings, limits in bytes, and what hangs together.

A refusal names the parameter by its path without places, and the item of a batch by `index`.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from daemon import limits
from daemon.refusal import Reason, Refused
from daemon.wire import params as p
from daemon.wire.forms import fault_in

_FLOAT32_MAX = 3.4028234663852886e38
_METADATA = msgspec.json.Decoder(dict[str, Any])
_TEXT_OR_BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)
_ITEM = re.compile(r"\.items\[([0-9]+)\]")
_INDEX = re.compile(r"\[[^\]]*\]")
_TOLD_NAME = 128


def check_params(params: p.Closed) -> None:
    """Raises Refused. In a batch that isn't atomic an item that doesn't pass is replaced by its refusal."""
    if isinstance(params, p.RememberManyParams):
        _check_items(params)
        return
    fault = fault_in(params)
    if fault is not None:
        raise invalid(parameter_of(fault.path), fault.form.value[1])
    if isinstance(params, p.RememberItem):
        _check_item(params, {})
    elif isinstance(params, p.ListParams):
        if params.sel is not msgspec.UNSET and params.sel == p.Selection():
            raise invalid("sel", "an empty selection says nothing: leave it out for all that is active")
    elif isinstance(params, p.GetParams):
        limit = limits.IDS_PER_GET_WITH_PROVENANCE
        if params.include and len(params.ids) > limit:
            raise invalid("ids", "too many ids with provenance", limit=limit)
    if isinstance(params, p.WriteParams) and isinstance(params.idempotency_key, str):
        _check_key(params.idempotency_key, {})


def _check_items(params: p.RememberManyParams) -> None:
    if isinstance(params.idempotency_key, str):
        _check_key(params.idempotency_key, {})
    items: list[Any] = params.items
    for index, item in enumerate(items):
        if isinstance(item, Refused):
            continue
        try:
            fault = fault_in(item)
            if fault is not None:
                raise invalid(parameter_of(fault.path), fault.form.value[1], index=index)
            _check_item(item, {"index": index})
        except Refused as refused:
            if params.atomic:
                raise
            items[index] = refused


def _check_item(item: p.RememberItem, where: dict[str, Any]) -> None:
    text = item.text
    if len(text) * 4 > limits.TEXT_BYTES and len(text.encode()) > limits.TEXT_BYTES:
        raise Refused(Reason.TOO_LARGE, "the text is too large", parameter="text", limit=limits.TEXT_BYTES, **where)
    if isinstance(item.idempotency_key, str):
        _check_key(item.idempotency_key, where)
    if isinstance(item.vector, msgspec.Struct) and not all(abs(x) <= _FLOAT32_MAX for x in item.vector.values):
        raise invalid("vector.values", "a value is out of the range of float32", **where)
    if isinstance(item.metadata, msgspec.Raw):
        _check_metadata(bytes(item.metadata), where)


def _check_metadata(metadata: bytes, where: dict[str, Any]) -> None:
    """It is kept byte for byte and stands so in answers: what a client's decoder can't read must not get in."""
    if not metadata.startswith(b"{"):
        raise invalid("metadata", "metadata is an object", **where)
    if len(metadata) > limits.METADATA_BYTES:
        raise invalid("metadata", "metadata is too long", limit=limits.METADATA_BYTES, **where)
    if metadata.count(b"{") + metadata.count(b"[") > limits.METADATA_DEPTH and _is_deep(metadata):
        raise invalid("metadata", "metadata is nested too deeply", limit=limits.METADATA_DEPTH, **where)
    try:
        _METADATA.decode(metadata)
    except (msgspec.DecodeError, RecursionError):
        raise invalid("metadata", "metadata has a number out of range or a text that is not UTF-8", **where) from None


def _is_deep(metadata: bytes) -> bool:
    """Whether brackets outside of texts are open beyond the limit."""
    depth = 0
    for bracket in _TEXT_OR_BRACKET.findall(metadata):
        depth += (bracket in b"{[") - (bracket in b"}]")
        if depth > limits.METADATA_DEPTH:
            return True
    return False


def _check_key(key: str, where: dict[str, Any]) -> None:
    limit = limits.IDEMPOTENCY_KEY_BYTES
    if len(key.encode()) > limit:
        raise invalid("idempotency_key", "the key is too long", limit=limit, **where)


def invalid(parameter: str, message: str, **data: Any) -> Refused:
    return Refused(Reason.INVALID_INPUT, message, parameter=parameter, **data)


def parameter_of(path: str) -> str:
    """The name of a parameter from a path: without places, and without the item of a batch. A caller can make
    one up that is as long as a line; it is told by its beginning then."""
    name = _INDEX.sub("", _ITEM.sub("", path, count=1)).lstrip(".") or "params"
    return name if len(name) <= _TOLD_NAME else name[:_TOLD_NAME] + "…"


def index_of(path: str) -> dict[str, int]:
    item = _ITEM.match(path)
    return {"index": int(item[1])} if item else {}

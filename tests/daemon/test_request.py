"""Lines become typed requests, or exactly the error that the contract names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from daemon.limits import TEXT_BYTES
from daemon.refusal import Reason
from daemon.wire.answer import encode_answer
from daemon.wire.params import RememberParams
from daemon.wire.request import Rejected, decode_request

RAW = {"kind": "raw", "text": "a"}


def line(method: str = "remember", params: Any = None, **over: Any) -> bytes:
    request = {"jsonrpc": "2.0", "id": 7, "method": method, "params": RAW if params is None else params}
    return json.dumps({**request, **over}).encode()


def rejected(text: bytes) -> Rejected:
    with pytest.raises(Rejected) as caught:
        decode_request(text)
    return caught.value


def test_a_request_is_decoded_to_its_type() -> None:
    request = decode_request(line(params={**RAW, "metadata": {"b": 1, "a": 2}}))
    assert request.id == 7 and request.verb.name == "remember"
    assert isinstance(request.params, RememberParams)
    assert bytes(request.params.metadata) == b'{"b": 1, "a": 2}'  # type: ignore[arg-type]


def test_params_may_be_left_out() -> None:
    assert decode_request(b'{"jsonrpc":"2.0","id":"x","method":"head"}').id == "x"


def test_the_last_of_duplicate_keys_wins() -> None:
    assert decode_request(b'{"jsonrpc":"2.0","id":1,"id":2,"method":"head","method":"status"}')[:1] == (2,)
    found = decode_request(b'{"jsonrpc":"2.0","id":1,"method":"head","method":"status","params":{}}')
    assert found.verb.name == "status"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"{", Reason.PARSE_ERROR),
        (b'{"a":"\xff"}', Reason.PARSE_ERROR),
        (b"[" * 100_000, Reason.PARSE_ERROR),
        (b"[]", Reason.INVALID_REQUEST),
        (line(id=None), Reason.INVALID_REQUEST),
        (line(id=1.0), Reason.INVALID_REQUEST),
        (line(id=True), Reason.INVALID_REQUEST),
        (line(id=1 << 70), Reason.INVALID_REQUEST),
        (line(id="x" * 129), Reason.INVALID_REQUEST),
        (b'{"jsonrpc":"2.0","method":"head"}', Reason.INVALID_REQUEST),
    ],
)
def test_lines_without_a_usable_id(text: bytes, reason: Reason) -> None:
    error = rejected(text)
    assert error.id is None and error.refused.reason is reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (line(jsonrpc="1.0"), Reason.INVALID_REQUEST),
        (line(params=[1]), Reason.INVALID_REQUEST),
        (line(extra=1), Reason.INVALID_REQUEST),
        (line(method=3), Reason.INVALID_REQUEST),  # type: ignore[arg-type]
        (line(method="no_such"), Reason.UNKNOWN_METHOD),
    ],
)
def test_envelopes_are_closed(text: bytes, reason: Reason) -> None:
    error = rejected(text)
    assert error.id == 7 and error.refused.reason is reason


@pytest.mark.parametrize(
    ("over", "parameter"),
    [
        ({"text": " \u2003\n"}, "text"),
        ({"text": "\ud800"}, "text"),
        ({"text": 1}, "text"),
        ({"kind": "thing"}, "kind"),
        ({"importance": 11}, "importance"),
        ({"confidence": float("nan")}, "confidence"),
        ({"confidence": float("inf")}, "confidence"),
        ({"tags": ["a", ""]}, "tags"),
        ({"tags": ["a"] * 33}, "tags"),
        ({"entities": [{"name": "n", "type": "\udfff"}]}, "entities.type"),
        ({"producer": {"agent": "Latest"}}, "producer.agent"),
        ({"occurred_at": "2026-01-01T00:00:00"}, "occurred_at"),
        ({"occurred_at": "2026-01-01T00:00:00.1234Z"}, "occurred_at"),
        ({"metadata": [1]}, "metadata"),
        ({"metadata": {"a": "x" * 4096}}, "metadata"),
        ({"metadata": {"a": "\ud800"}}, "metadata.a"),
        ({"metadata": {"a": json.loads("[" * 64 + "]" * 64)}}, "metadata"),
        ({"idempotency_key": "ä" * 65}, "idempotency_key"),
        ({"foo": 1}, "foo"),
        ({"topic": None}, "topic"),
        ({"correlation": "a b"}, "correlation"),
        ({"derived_from": ["a"] * 65}, "derived_from"),
    ],
)
def test_a_bad_parameter_is_named(over: dict[str, Any], parameter: str) -> None:
    error = rejected(line(params={**RAW, **over}))
    assert error.id == 7
    assert error.refused.reason is Reason.INVALID_INPUT
    assert error.refused.data["parameter"] == parameter


def test_limits_are_told() -> None:
    assert rejected(line(params={**RAW, "tags": ["a"] * 33})).refused.data["limit"] == 32
    assert rejected(line(params={**RAW, "importance": 0.01})).refused.data["limit"] == 0.05
    allowed = rejected(line(params={**RAW, "kind": "thing"})).refused.data["allowed"]
    assert allowed[0] == "raw"


def test_too_large_is_for_texts_and_batches() -> None:
    for text in ("x" * (TEXT_BYTES + 1), "ä" * (TEXT_BYTES // 2 + 1)):
        assert rejected(line(params={**RAW, "text": text})).refused.reason is Reason.TOO_LARGE
    decode_request(line(params={**RAW, "text": "x" * TEXT_BYTES}))
    batch = rejected(line("remember_many", {"items": [RAW] * 1001})).refused
    assert batch.reason is Reason.TOO_LARGE and batch.data["limit"] == 1000


def test_metadata_that_a_client_cannot_read_is_refused() -> None:
    """It stands in answers as it came: one such memory would spoil every list that shows it."""
    start, end = line(params={**RAW, "metadata": 1})[:-3], b"}}"
    for metadata in (b'{"a":"\xff"}', b'{"\xff":1}', b'{"a":1e999}', b'{"a":"\xed\xa0\x80"}'):
        refused = rejected(start + metadata + end).refused
        assert refused.reason is Reason.INVALID_INPUT and refused.data == {"parameter": "metadata"}
    for metadata in (
        b'{"a":"%b"}' % (b"[{" * 500),
        b'{"a":"\\"%b"}' % (b"[" * 500),
        b"{" + b'"a":[],' * 300 + b'"b":1}',
    ):
        decode_request(start + metadata + end)


def test_numbers_of_thousands_of_digits_are_told_with_id_and_parameter() -> None:
    for method, params, parameter in (("list", {}, "limit"), ("trace", {"id": "a"}, "depth")):
        text = line(method, {**params, parameter: 1}).replace(b": 1}}", b": " + b"9" * 5000 + b"}}")
        error = rejected(text)
        assert error.id == 7 and error.refused.reason is Reason.INVALID_INPUT
        assert error.refused.data["parameter"] == parameter


def test_a_name_as_long_as_a_line_is_told_by_its_beginning() -> None:
    error = rejected(line(params={**RAW, "x" * 1_000_000: 1}))
    assert error.refused.data["parameter"] == "x" * 128 + "…"
    nested = rejected(line(params={**RAW, "y" * 1_000_000: [[float("nan")]] * 10_000}))
    assert nested.refused.data["parameter"] == "y" * 128 + "…"


def test_a_batch_names_the_item() -> None:
    for bad in ({"text": ""}, {"text": "\ud800"}, {"metadata": 3}):
        refused = rejected(line("remember_many", {"items": [RAW, {**RAW, **bad}]})).refused
        assert refused.data["index"] == 1 and refused.data["parameter"] == next(iter(bad))


def test_provenance_takes_fewer_ids() -> None:
    decode_request(line("get", {"ids": ["a"] * 6}))
    refused = rejected(line("get", {"ids": ["a"] * 6, "include": ["provenance"]})).refused
    assert refused.data == {"parameter": "ids", "limit": 5}


def test_no_message_repeats_what_was_sent() -> None:
    for over in ({"kind": "canary-7"}, {"occurred_at": "canary-7"}, {"topic": 1, "tags": "canary-7"}):
        error = rejected(line(params={**RAW, **over}))
        assert b"canary-7" not in encode_answer(error.id, error.refused)


def test_an_answer_is_one_line() -> None:
    error = rejected(line(method="no_such"))
    found = json.loads(encode_answer(error.id, error.refused))
    assert found["id"] == 7 and found["error"]["code"] == -32601
    assert found["error"]["data"] == {"reason": "unknown_method", "retryable": False}

"""Refusals say what would have been right: the words that may stand there, the form of a reference, what to ask."""

from __future__ import annotations

import json
from typing import Any

import pytest

from daemon.cli.complaining import complain
from daemon.prepare import parse_memory, parse_session, parse_sources
from daemon.refusal import Refused
from daemon.wire.request import Rejected, decode_request
from projections.tables import PROJECTIONS

ID = "0123456789ABC"
RAW = {"kind": "raw", "text": "x"}


def refused(method: str, params: dict[str, Any]) -> Refused:
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    with pytest.raises(Rejected) as found:
        decode_request(line)
    return found.value.refused


@pytest.mark.parametrize(
    ("method", "params", "allowed"),
    [
        ("review", {"what": ["flgas"]}, ["uncertain", "ungrounded", "orphans", "flags", "contradictions"]),
        ("rebuild", {"what": "flgas"}, ["all", *PROJECTIONS]),
        ("mark", {"id": "a", "mark": "x"}, ["protected", "archived", "resolved"]),
        ("relate", {"from": "a", "to": "b", "type": "x"}, ["extends", "contradicts"]),
        ("revise", {"id": "a", "disposition": "x"}, ["supersedes", "updates", "move"]),
        ("session", {"session": "a", "include": ["turns", "x"]}, ["turns", "passes", "derived"]),
        ("get", {"ids": ["a"], "include": ["x"]}, ["provenance"]),
        ("subscribe", {"level": "x"}, ["skeleton", "content"]),
        ("records", {"level": "x"}, ["skeleton", "sealed", "content"]),
        ("remember", {**RAW, "derived_from": [{"kind": "x", "id": "y"}]}, ["document", "tool", "conversation"]),
        ("remember_many", {"items": [RAW, {**RAW, "kind": "x"}]}, ["raw", "episode"]),
        ("remember_many", {"items": [RAW, {**RAW, "kind": "x"}], "atomic": False}, None),
        ("list", {"sel": {"kinds": ["x"]}}, ["raw", "episode"]),
    ],
)
def test_the_words_that_are_allowed_are_those_of_the_verb(
    method: str, params: dict[str, Any], allowed: list[str] | None
) -> None:
    if allowed is None:  # an item that is refused alone
        line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        item: Any = decode_request(line).params.items[1]  # type: ignore[attr-defined]
        assert item.data["allowed"][0] == "raw"
        return
    assert refused(method, params).data["allowed"][: len(allowed)] == allowed


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"derived_from": {"a": 1}}, "it should be a list, and is an object"),
        ({"text": 1}, "it should be a text, and is an integer"),
        ({"importance": "x"}, "it should be a number, and is a text"),
        ({"protected": []}, "it should be true or false, and is a list"),
    ],
)
def test_types_are_told_in_the_words_of_the_reference(value: dict[str, Any], said: str) -> None:
    told = refused("remember", {**RAW, **value})
    assert told.message == said and told.data["parameter"] == next(iter(value))


def test_every_type_that_is_decoded_has_a_word() -> None:
    for value in ("1", "1.5", '"x"', "[]", "{}", "true", "null"):
        for field in ("text", "tags", "entities", "confidence", "protected", "vector", "session", "derived_from"):
            params = json.dumps({**RAW, field: 0}).replace(": 0", f": {value}")
            try:
                decode_request(f'{{"jsonrpc":"2.0","id":1,"method":"remember","params":{params}}}'.encode())
            except Rejected as rejected:
                message = rejected.refused.message
                assert "xpected" not in message and "another value" not in message


def test_a_tenant_is_told_its_form() -> None:
    assert "a-z 0-9" in refused("head", {"tenant": "A b"}).message


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (f"session:{ID}", "ask session or session_provenance"),
        (ID, "KIND:ID"),
        ("raw:short", "KIND:ID"),
        ("nonsense", "KIND:ID"),
    ],
)
def test_what_is_no_memory_is_told_what_to_ask(text: str, hint: str) -> None:
    with pytest.raises(Refused) as found:
        parse_memory("id", text)
    assert hint in found.value.data["hint"] and text not in found.value.message


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (f"note:{ID}", "ask get, explain or trace"),
        (ID, "session:ID"),
        ("conv-26/session_2", "sessions lists them with their keys"),
        ("sample:key", "sessions lists them with their keys"),
        ("session:short", "session:ID"),
    ],
)
def test_what_is_no_session_is_told_how_to_find_one(text: str, hint: str) -> None:
    with pytest.raises(Refused) as found:
        parse_session("session", text)
    assert hint in found.value.data["hint"]


def test_a_malformed_source_is_named_by_its_place() -> None:
    with pytest.raises(Refused) as found:
        parse_sources("derived_from", [f"raw:{ID}", "https://x"])
    assert found.value.message.startswith("derived_from[1] is not a reference")
    assert '{"kind": "url"' in found.value.data["hint"] and "repeated" in found.value.data["hint"]
    assert found.value.data["parameter"] == "derived_from"


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        ({"reason": "unreachable"}, "noctuary daemon starts one"),
        ({"reason": "lifecycle", "current": "maintenance"}, "noctuary lifecycle --state active"),
        ({"reason": "conflict", "current": "protected"}, "protected --no-on"),
        ({"reason": "conflict", "hint": "do that"}, "hint do that"),
    ],
)
def test_people_are_told_the_command_that_helps(
    data: dict[str, Any], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    complain(False, 4, "no", data)
    assert hint in capsys.readouterr().err
    complain(True, 4, "no", data)
    assert json.loads(capsys.readouterr().err)["error"]["data"] == data, "as it came"
